#include "transport/sockets/agent/endpoints.h"
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

pw_endpoint *endpoint_add(pw_programs *self, endpoint_kind kind, int fd, uint32_t interest)
{
    pw_endpoint *made = malloc(sizeof *made);
    struct epoll_event event = {.events = interest, .data.ptr = made};
    if (!made || epoll_ctl(self->epoll, EPOLL_CTL_ADD, fd, &event)) {
        free(made);
        close(fd);
        return NULL;
    }
    *made = (pw_endpoint){.owner = self,
                          .next = self->endpoints,
                          .kind = kind,
                          .fd = fd,
                          .far = -1,
                          .interest = interest};
    if (made->next) made->next->before = made;
    self->endpoints = made;
    return made;
}

void endpoint_wait_for(pw_endpoint *endpoint, uint32_t interest)
{
    struct epoll_event event = {.events = interest, .data.ptr = endpoint};
    if (endpoint->is_gone || endpoint->interest == interest) return;
    endpoint->interest = interest;
    epoll_ctl(endpoint->owner->epoll, EPOLL_CTL_MOD, endpoint->fd, &event);
}

void endpoint_drop(pw_endpoint *endpoint)
{
    pw_programs *self = endpoint->owner;
    if (endpoint->connection) *endpoint_of(self, endpoint->connection) = NULL;
    if (endpoint->kind == ENDPOINT_BOUND) {
        pw_endpoint **at = bound_at(self, endpoint->port, endpoint->is_six_only);
        while (*at && *at != endpoint) at = &(*at)->next_at_port;
        if (*at) *at = endpoint->next_at_port;
    }
    close(endpoint->fd);
    if (endpoint->far >= 0) close(endpoint->far);
    endpoint->fd = endpoint->far = -1;
    if (endpoint->before) endpoint->before->next = endpoint->next;
    else self->endpoints = endpoint->next;
    if (endpoint->next) endpoint->next->before = endpoint->before;
    /* epoll may have told of it in the same turn. */
    endpoint->next = self->closed;
    self->closed = endpoint;
}

void pw_programs_sweep(pw_programs *self)
{
    while (self->closed) {
        pw_endpoint *one = self->closed;
        self->closed = one->next;
        free(one);
    }
}

int endpoint_name(int fd, const char *text)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t num_bytes = strlen(text);
    memcpy(name.sun_path + 1, text, num_bytes);
    return bind(fd, (struct sockaddr *)&name,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + num_bytes));
}

bool endpoint_can_pair(pw_programs *self)
{
    int first = fcntl(self->epoll, F_DUPFD_CLOEXEC, 0),
        second = fcntl(self->epoll, F_DUPFD_CLOEXEC, 0);
    if (first >= 0) close(first);
    if (second >= 0) close(second);
    if (second >= 0) return true;
    endpoint_warn(self, "the agent has no descriptors left", "raise the hard limit of ulimit -n");
    return false;
}

int endpoint_pair(pw_programs *self, int type, char kind, uint16_t family, uint16_t port,
                  uint32_t peer, uint16_t peer_port, int *far)
{
    char text[96];
    int ends[2];
    if (socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends)) return -1;
    snprintf(text, sizeof text, PW_ENDPOINT_NAME, kind, family, self->node, port, peer, peer_port,
             (unsigned)getpid(), self->number++);
    if (endpoint_name(ends[0], text)) {
        int saved = errno;
        close(ends[0]);
        close(ends[1]);
        errno = saved;
        return -1;
    }
    *far = ends[1];
    return ends[0];
}

bool endpoint_reply(const pw_endpoint *endpoint, int error, int fd)
{
    pw_program_reply answer = {.error = error};
    struct iovec part = {&answer, sizeof answer};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } room = {.bytes = {0}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = room.bytes;
        message.msg_controllen = sizeof room.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    bool is_sent = sendmsg(endpoint->fd, &message, MSG_NOSIGNAL) == sizeof answer;
    if (fd >= 0) close(fd);
    return is_sent;
}

void endpoint_warn(pw_programs *self, const char *what, const char *remedy)
{
    if (self->has_warned) return;
    self->has_warned = true;
    fprintf(stderr, "pagewire-sockets: node %u: %s; connections are refused until others end; %s\n",
            self->node, what, remedy);
}
