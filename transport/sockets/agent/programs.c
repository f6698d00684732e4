#include "transport/sockets/agent/programs.h"
#include "transport/sockets/program_calls.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef enum {
    ENDPOINT_DOOR,      /* where programs come in */
    ENDPOINT_CALLER,    /* asks, or waits for the answer to a connect */
    ENDPOINT_BOUND,     /* has a port, listens perhaps */
    ENDPOINT_CONNECTED, /* carries bytes */
} endpoint_kind;

struct pw_endpoint {
    pw_programs *owner;
    pw_endpoint *next;
    endpoint_kind kind;
    int fd; /* -1: closed, to be freed */
    uint32_t interest;
    uint32_t connection;
    uint16_t port, family;
    bool is_six_only, is_shared, is_listening; /* of a bound one */
    bool has_read_end;                         /* the program sends no more */
    bool has_written_end;                      /* it was told that the peer sends no more */
    bool is_gone;                              /* nobody has the other end; not in epoll any more */
};

struct pw_programs {
    uint32_t node;
    pw_node_streams *on_node;
    pw_streams *streams;
    int epoll;
    bool has_listened;
    pw_endpoint *endpoints;
    pw_endpoint *of_slot[PW_STREAM_SLOTS_MAX];
};

static pw_endpoint *add(pw_programs *self, endpoint_kind kind, int fd, uint32_t interest)
{
    pw_endpoint *made = malloc(sizeof *made);
    struct epoll_event event = {.events = interest, .data.ptr = made};
    if (!made || epoll_ctl(self->epoll, EPOLL_CTL_ADD, fd, &event)) {
        free(made);
        close(fd);
        return NULL;
    }
    *made = (pw_endpoint){
        .owner = self, .next = self->endpoints, .kind = kind, .fd = fd, .interest = interest};
    self->endpoints = made;
    return made;
}

static void wait_for(pw_endpoint *endpoint, uint32_t interest)
{
    struct epoll_event event = {.events = interest, .data.ptr = endpoint};
    if (endpoint->is_gone || endpoint->interest == interest) return;
    endpoint->interest = interest;
    epoll_ctl(endpoint->owner->epoll, EPOLL_CTL_MOD, endpoint->fd, &event);
}

static pw_endpoint **slot_of(pw_programs *self, uint32_t connection)
{
    return &self->of_slot[connection % PW_STREAM_SLOTS_MAX];
}

static void drop(pw_endpoint *endpoint)
{
    pw_programs *self = endpoint->owner;
    if (endpoint->connection) *slot_of(self, endpoint->connection) = NULL;
    close(endpoint->fd);
    endpoint->fd = -1;
}

void pw_programs_sweep(pw_programs *self)
{
    for (pw_endpoint **at = &self->endpoints; *at;) {
        pw_endpoint *one = *at;
        if (one->fd >= 0) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        free(one);
    }
}

static void set_name(struct sockaddr_un *name, socklen_t *length, const char *text)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t num_bytes = strlen(text);
    memcpy(name->sun_path + 1, text, num_bytes);
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + num_bytes);
}

/* A pair whose nearer end has the name; *far is to be passed on and closed. */
static int make_pair(uint32_t node, int type, uint16_t family, uint16_t port, uint32_t peer,
                     uint16_t peer_port, int *far)
{
    static uint32_t number; /* of all nodes: sockets of IPv6 alone tell none */
    char text[96];
    struct sockaddr_un name;
    socklen_t length;
    int ends[2];
    if (socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends)) return -1;
    snprintf(text, sizeof text, PW_ENDPOINT_NAME, family, node, port, peer, peer_port,
             (unsigned)getpid(), number++);
    set_name(&name, &length, text);
    if (bind(ends[0], (struct sockaddr *)&name, length)) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    *far = ends[1];
    return ends[0];
}

/* fd: -1 for none; closed here. */
static bool reply(const pw_endpoint *endpoint, int error, int fd)
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

static int give_up(pw_programs *self, uint32_t connection)
{
    int code = pw_streams_reset(self->streams, connection);
    return code < 0 ? code : pw_streams_close(self->streams, connection);
}

/* Hand a connection to the program that waits at `to`. */
static int hand_over(pw_endpoint *to, uint32_t connection)
{
    pw_programs *self = to->owner;
    pw_stream_facts facts;
    int far, code = pw_streams_look(self->streams, connection, &facts);
    if (code < 0) return code;
    int near = make_pair(self->node, SOCK_STREAM, to->family, facts.own_port, facts.peer,
                         facts.peer_port, &far);
    if (near < 0) return give_up(self, connection);
    pw_endpoint *made = add(self, ENDPOINT_CONNECTED, near, EPOLLIN);
    if (!made) {
        close(far);
        return give_up(self, connection);
    }
    made->connection = connection;
    made->family = to->family;
    *slot_of(self, connection) = made;
    /* A program that is gone has closed it: that is read like any end. */
    reply(to, 0, far);
    return PW_OK;
}

/* Bytes of the program into the ring. */
static int pump_out(pw_endpoint *endpoint)
{
    pw_streams *streams = endpoint->owner->streams;
    uint8_t *room;
    for (uint32_t most; !endpoint->has_read_end &&
                        (most = pw_streams_room(streams, endpoint->connection, &room));) {
        ssize_t num_bytes = recv(endpoint->fd, room, most, MSG_DONTWAIT);
        if (num_bytes < 0 && (errno == EAGAIN || errno == EINTR)) break;
        endpoint->has_read_end = num_bytes <= 0;
        int code = num_bytes > 0
                       ? pw_streams_queue(streams, endpoint->connection, (uint32_t)num_bytes)
                       : pw_streams_end(streams, endpoint->connection);
        if (code < 0) return code;
    }
    return PW_OK;
}

/* Bytes of the ring to the program. */
static int pump_in(pw_endpoint *endpoint)
{
    pw_programs *self = endpoint->owner;
    const uint8_t *data;
    for (uint32_t most;
         (most = pw_node_streams_here(self->on_node, endpoint->connection, &data));) {
        ssize_t num_bytes = send(endpoint->fd, data, most, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (num_bytes < 0 && (errno == EAGAIN || errno == EINTR)) break;
        int code = num_bytes >= 0 ? pw_streams_consume(self->streams, endpoint->connection,
                                                       (uint32_t)num_bytes)
                                  : pw_streams_reset(self->streams, endpoint->connection);
        if (code < 0) return code;
    }
    return PW_OK;
}

static int pump(pw_endpoint *endpoint)
{
    pw_programs *self = endpoint->owner;
    pw_stream_facts facts;
    const uint8_t *data;
    uint8_t *room;
    int code = pump_out(endpoint);
    if (code == PW_OK) code = pump_in(endpoint);
    if (code < 0) return code;
    uint32_t connection = endpoint->connection;
    if ((code = pw_streams_look(self->streams, connection, &facts)) < 0) return code;
    uint32_t num_here = pw_node_streams_here(self->on_node, connection, &data);
    if (facts.is_ended && !num_here && !endpoint->has_written_end) {
        endpoint->has_written_end = true;
        shutdown(endpoint->fd, SHUT_WR);
    }
    if (facts.state == PW_STREAM_RESET ||
        (endpoint->has_read_end && endpoint->has_written_end && facts.is_delivered)) {
        drop(endpoint);
        return pw_streams_close(self->streams, connection);
    }
    bool has_room = !endpoint->has_read_end && pw_streams_room(self->streams, connection, &room);
    wait_for(endpoint, (has_room ? (uint32_t)EPOLLIN : 0) | (num_here ? (uint32_t)EPOLLOUT : 0));
    return PW_OK;
}

static bool is_bound_at(const pw_endpoint *one, uint16_t port)
{
    return one->fd >= 0 && one->kind == ENDPOINT_BOUND && one->port == port;
}

/* Is the port free for one more? Sockets of IPv6 alone have ports of their own. */
static bool can_bind(const pw_programs *self, const pw_program_request *request, uint16_t port)
{
    for (const pw_endpoint *one = self->endpoints; one; one = one->next)
        if (is_bound_at(one, port) && one->is_six_only == request->is_six_only &&
            !(one->is_shared && request->is_shared))
            return false;
    return true;
}

static void answer_bind(pw_endpoint *caller, const pw_program_request *request)
{
    pw_programs *self = caller->owner;
    int far, near = -1, error = 0;
    uint16_t port = request->port ? request->port : pw_streams_free_port(self->streams);
    uint32_t node = request->is_six_only ? PW_NODE_NONE : self->node;
    if (!port || !can_bind(self, request, port)) error = EADDRINUSE;
    else if ((near = make_pair(node, SOCK_SEQPACKET, caller->family, port, 0, 0, &far)) < 0)
        error = errno;
    pw_endpoint *made = near >= 0 ? add(self, ENDPOINT_BOUND, near, EPOLLIN) : NULL;
    if (near >= 0 && !made) {
        close(far);
        error = ENOMEM;
    }
    if (made) {
        made->port = port;
        made->family = caller->family;
        made->is_six_only = request->is_six_only;
        made->is_shared = request->is_shared;
    }
    reply(caller, error, made ? far : -1);
    drop(caller);
}

/* Does a connection of the node have both ends already? */
static bool is_connected(const pw_programs *self, const pw_program_request *request)
{
    for (const pw_endpoint *one = self->endpoints; one; one = one->next) {
        pw_stream_facts facts;
        if (one->fd >= 0 && one->connection &&
            pw_streams_look(self->streams, one->connection, &facts) == PW_OK &&
            facts.own_port == request->own_port && facts.peer == request->node &&
            facts.peer_port == request->port)
            return true;
    }
    return false;
}

static int answer_call(pw_endpoint *caller, const pw_program_request *request)
{
    pw_programs *self = caller->owner;
    caller->family = request->family;
    if (request->call == PW_CALL_BIND) {
        answer_bind(caller, request);
        return PW_OK;
    }
    uint16_t own_port = request->own_port;
    bool is_refused = own_port && (pw_streams_is_listening(self->streams, own_port) ||
                                   is_connected(self, request));
    if (is_refused) {
        reply(caller, EADDRNOTAVAIL, -1);
        drop(caller);
        return PW_OK;
    }
    if (!own_port) own_port = pw_streams_free_port(self->streams);
    int code = pw_streams_connect(self->streams, request->node, request->port, own_port,
                                  &caller->connection);
    if (code == PW_OK) {
        *slot_of(self, caller->connection) = caller;
        return PW_OK;
    }
    if (code != PW_ERR_FULL && code != PW_ERR_INVALID) return code;
    reply(caller, code == PW_ERR_FULL || !own_port ? EADDRNOTAVAIL : ENETUNREACH, -1);
    drop(caller);
    return PW_OK;
}

/* The answer to a connect is here: the caller gets it, and leaves. */
static int finish_connect(pw_endpoint *caller, const pw_stream_facts *facts)
{
    pw_programs *self = caller->owner;
    uint32_t connection = caller->connection;
    int code = PW_OK;
    if (facts->state == PW_STREAM_CONNECTING) return code;
    *slot_of(self, connection) = NULL;
    caller->connection = PW_STREAM_NONE;
    if (facts->state == PW_STREAM_OPEN) code = hand_over(caller, connection);
    else {
        reply(caller, ECONNREFUSED, -1);
        code = pw_streams_close(self->streams, connection);
    }
    drop(caller);
    return code;
}

/* The port's listener whose turn it is: after a connection it goes to the list's end. */
static pw_endpoint *listener_of(pw_programs *self, uint16_t port)
{
    for (pw_endpoint **at = &self->endpoints; *at; at = &(*at)->next) {
        pw_endpoint *one = *at, **last = at;
        if (!is_bound_at(one, port) || !one->is_listening || one->is_six_only) continue;
        if (!one->is_shared) return one;
        while (*last) last = &(*last)->next;
        *last = one;
        *at = one->next;
        one->next = NULL;
        return one;
    }
    return NULL;
}

static int leave(pw_endpoint *endpoint)
{
    pw_programs *self = endpoint->owner;
    uint32_t connection = endpoint->connection;
    drop(endpoint);
    if (endpoint->is_listening && !endpoint->is_six_only && !listener_of(self, endpoint->port))
        pw_streams_unlisten(self->streams, endpoint->port);
    return connection ? pw_streams_close(self->streams, connection) : PW_OK;
}

static void answer_listen(pw_endpoint *endpoint, uint32_t backlog)
{
    pw_programs *self = endpoint->owner;
    int code = PW_OK;
    if (!endpoint->is_six_only && !pw_streams_is_listening(self->streams, endpoint->port))
        code = pw_streams_listen(self->streams, endpoint->port, backlog);
    endpoint->is_listening = code == PW_OK;
    self->has_listened = self->has_listened || code == PW_OK;
    reply(endpoint, code < 0 ? EADDRINUSE : 0, -1);
}

static int read_call(pw_endpoint *endpoint)
{
    pw_program_request request;
    ssize_t num_bytes = recv(endpoint->fd, &request, sizeof request, MSG_DONTWAIT);
    if (num_bytes < 0 && (errno == EAGAIN || errno == EINTR)) return PW_OK;
    bool is_listen = num_bytes == sizeof request && request.call == PW_CALL_LISTEN;
    if (num_bytes != sizeof request || is_listen != (endpoint->kind == ENDPOINT_BOUND) ||
        request.call > PW_CALL_LISTEN || endpoint->connection)
        return leave(endpoint);
    if (!is_listen) return answer_call(endpoint, &request);
    answer_listen(endpoint, request.backlog);
    return PW_OK;
}

int pw_programs_ready(pw_endpoint *endpoint, uint32_t events)
{
    pw_programs *self = endpoint->owner;
    if (endpoint->fd < 0) return PW_OK;
    if (endpoint->kind == ENDPOINT_DOOR) {
        int fd = accept4(endpoint->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) add(self, ENDPOINT_CALLER, fd, EPOLLIN);
        return PW_OK;
    }
    if (endpoint->kind != ENDPOINT_CONNECTED) return read_call(endpoint);
    if (events & EPOLLHUP && !endpoint->is_gone) {
        /* It is told again and again, whatever is waited for. */
        endpoint->is_gone = true;
        epoll_ctl(self->epoll, EPOLL_CTL_DEL, endpoint->fd, NULL);
    }
    return pump(endpoint);
}

int pw_programs_move(pw_programs *self)
{
    int code = PW_OK;
    for (uint16_t port; code >= 0 && (port = pw_streams_called(self->streams));) {
        for (uint32_t connection; code >= 0 && (connection = pw_streams_accept(
                                                    self->streams, port)) != PW_STREAM_NONE;) {
            pw_endpoint *listener = listener_of(self, port);
            code = listener ? hand_over(listener, connection) : give_up(self, connection);
        }
    }
    for (uint32_t connection;
         code >= 0 && (connection = pw_streams_changed(self->streams)) != PW_STREAM_NONE;) {
        pw_endpoint *endpoint = *slot_of(self, connection);
        pw_stream_facts facts;
        if (!endpoint || endpoint->connection != connection ||
            pw_streams_look(self->streams, connection, &facts) < 0)
            continue;
        code =
            endpoint->kind == ENDPOINT_CALLER ? finish_connect(endpoint, &facts) : pump(endpoint);
    }
    return code < 0 ? code : PW_OK;
}

bool pw_programs_has_listened(const pw_programs *self) { return self->has_listened; }

int pw_programs_create(uint32_t node, pw_node_streams *streams, int epoll, pw_programs **out)
{
    char text[64];
    struct sockaddr_un name;
    socklen_t length;
    pw_programs *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->node = node;
    made->on_node = streams;
    made->streams = pw_node_streams_of(streams);
    made->epoll = epoll;
    int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    snprintf(text, sizeof text, PW_AGENT_NAME, (unsigned)getpid(), node);
    set_name(&name, &length, text);
    if (door < 0 || bind(door, (struct sockaddr *)&name, length) || listen(door, SOMAXCONN) ||
        !add(made, ENDPOINT_DOOR, door, EPOLLIN)) {
        free(made);
        return PW_ERR_HOST;
    }
    *out = made;
    return PW_OK;
}

void pw_programs_destroy(pw_programs *self)
{
    if (!self) return;
    for (pw_endpoint *one = self->endpoints; one; one = one->next)
        if (one->fd >= 0) close(one->fd);
    while (self->endpoints) {
        pw_endpoint *one = self->endpoints;
        self->endpoints = one->next;
        free(one);
    }
    free(self);
}
