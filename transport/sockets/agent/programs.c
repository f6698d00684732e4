#include "transport/sockets/agent/programs.h"
#include "transport/sockets/agent/endpoints.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* As long as Linux repeats the beginning of a connection without an answer. */
#define CONNECT_LIMIT_NS INT64_C(127000000000)

/* It is gone, or says what cannot be. */
static int leave(pw_endpoint *endpoint)
{
    pw_programs *self = endpoint->owner;
    uint32_t connection = endpoint->connection;
    if (connection) self->num_connecting--;
    if (endpoint->kind == ENDPOINT_BOUND) port_leave(endpoint);
    else endpoint_drop(endpoint);
    return connection ? pw_streams_close(self->streams, connection) : PW_OK;
}

static int read_call(pw_endpoint *caller)
{
    pw_program_request request;
    ssize_t num_bytes = recv(caller->fd, &request, sizeof request, MSG_DONTWAIT);
    if (num_bytes < 0 && (errno == EAGAIN || errno == EINTR)) return PW_OK;
    if (num_bytes != sizeof request || caller->connection) return leave(caller);
    caller->family = request.family;
    switch (request.call) {
    case PW_CALL_CONNECT: return connection_begin(caller, &request);
    case PW_CALL_BIND: port_bind(caller, &request); return PW_OK;
    case PW_CALL_LISTEN: port_listen(caller, &request); return PW_OK;
    default: return leave(caller);
    }
}

static int open_spare(void) { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

static void open_door(pw_endpoint *door)
{
    pw_programs *self = door->owner;
    int fd = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        endpoint_add(self, ENDPOINT_CALLER, fd, EPOLLIN);
        return;
    }
    if ((errno != EMFILE && errno != ENFILE) || self->spare < 0) return;
    /* Who is never let in would wait for ever. */
    const pw_program_reply answer = {.error = ENFILE};
    endpoint_warn(self, "the agent has no descriptors left", "raise the hard limit of ulimit -n");
    close(self->spare);
    fd = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        (void)!send(fd, &answer, sizeof answer, MSG_NOSIGNAL);
        close(fd);
    }
    self->spare = open_spare();
}

int pw_programs_ready(pw_endpoint *endpoint, uint32_t events)
{
    if (endpoint->fd < 0) return PW_OK;
    switch (endpoint->kind) {
    case ENDPOINT_DOOR: open_door(endpoint); return PW_OK;
    case ENDPOINT_CALLER: return read_call(endpoint);
    case ENDPOINT_BOUND: return events & EPOLLHUP ? leave(endpoint) : port_hand_next(endpoint);
    default: break;
    }
    if (events & EPOLLHUP && !endpoint->is_gone) {
        /* It is told again and again, whatever is waited for. */
        endpoint->is_gone = true;
        epoll_ctl(endpoint->owner->epoll, EPOLL_CTL_DEL, endpoint->fd, NULL);
    }
    return endpoint->kind == ENDPOINT_CONNECTED ? connection_pump(endpoint) : PW_OK;
}

int pw_programs_move(pw_programs *self)
{
    int code = PW_OK;
    const char *why = pw_node_streams_refusal(self->on_node);
    if (why) endpoint_warn(self, why, "see --memory");
    for (uint16_t port; code >= 0 && (port = pw_streams_called(self->streams));)
        code = port_hand_out(self, port);
    for (uint32_t connection;
         code >= 0 && (connection = pw_streams_changed(self->streams)) != PW_STREAM_NONE;) {
        pw_endpoint *endpoint = *endpoint_of(self, connection);
        pw_stream_facts facts;
        if (!endpoint || endpoint->connection != connection ||
            pw_streams_look(self->streams, connection, &facts) < 0)
            continue;
        code = endpoint->kind == ENDPOINT_CONNECTED ? connection_pump(endpoint)
                                                    : connection_finish(endpoint, &facts);
    }
    return code < 0 ? code : PW_OK;
}

uint32_t pw_programs_node_of(const pw_endpoint *endpoint) { return endpoint->owner->node; }

bool pw_programs_are_waiting(const pw_programs *self)
{
    return self->num_connecting || self->has_waiting;
}

bool pw_programs_have_listened(const pw_programs *self) { return self->has_listened; }

int pw_programs_look_late(pw_programs *self, int64_t now_ns)
{
    int code = PW_OK;
    self->has_waiting = false;
    for (pw_endpoint *one = self->endpoints, *next; one && code >= 0; one = next) {
        next = one->next;
        if (one->since_ns && one->connection && one->kind != ENDPOINT_CONNECTED &&
            now_ns - one->since_ns > CONNECT_LIMIT_NS)
            code = connection_fail(one, ETIMEDOUT);
        else if (one->kind == ENDPOINT_BOUND) code = port_hand_next(one);
    }
    return code;
}

int pw_programs_create(uint32_t node, pw_node_streams *streams, int epoll, pw_programs **out)
{
    char text[64];
    pw_programs *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->node = node;
    made->on_node = streams;
    made->streams = pw_node_streams_of(streams);
    made->epoll = epoll;
    made->spare = open_spare();
    int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    snprintf(text, sizeof text, PW_AGENT_NAME, (unsigned)getpid(), node);
    if (door < 0 || endpoint_name(door, text) || listen(door, SOMAXCONN) ||
        !endpoint_add(made, ENDPOINT_DOOR, door, EPOLLIN)) {
        if (made->spare >= 0) close(made->spare);
        free(made);
        return PW_ERR_HOST;
    }
    *out = made;
    return PW_OK;
}

void pw_programs_destroy(pw_programs *self)
{
    if (!self) return;
    while (self->endpoints) endpoint_drop(self->endpoints);
    pw_programs_sweep(self);
    if (self->spare >= 0) close(self->spare);
    free(self);
}
