#include "transport/sockets/agent/agent.h"
#include "node/clock.h"
#include "transport/sockets/program_calls.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* As long as Linux repeats the beginning of a connection without an answer. */
#define CONNECT_LIMIT_NS INT64_C(127000000000)
/* Less than a page: one or two sends fill it. */
#define FILL_BUFFER_BYTES 1
/* What one connection that waits in the pair takes there is more. Nothing can be told as a byte:
 * the kernel tells that it was taken before it has counted its last byte off. */
#define RECORD_MIN_BYTES 64

typedef enum {
    ENDPOINT_DOOR,       /* where programs come in */
    ENDPOINT_CALLER,     /* asks, or waits for the answer to a connect */
    ENDPOINT_BOUND,      /* has a port, listens perhaps */
    ENDPOINT_CONNECTING, /* of a program that does not wait for the answer */
    ENDPOINT_CONNECTED,  /* carries bytes */
} endpoint_kind;

struct pw_endpoint {
    pw_programs *owner;
    pw_endpoint *before, *next;
    endpoint_kind kind;
    int fd; /* -1: closed, to be freed */
    uint32_t interest;
    uint32_t connection;
    uint16_t port, family;
    /* Of a bound one: the number in its name, the next one of its port, and what it is. */
    uint32_t number;
    pw_endpoint *next_at_port;
    bool is_six_only, is_shared, is_listening;
    /* Of one that connects: the program's end, how many bytes keep it from being writable, how
     * large its buffer is to be, and when the connect began. */
    int far;
    uint32_t num_fill_bytes;
    int buffer_bytes;
    int64_t since_ns;
    bool has_read_end;    /* the program sends no more */
    bool has_written_end; /* it was told that the peer sends no more */
    bool is_gone;         /* nobody has the other end; not in epoll any more */
};

struct pw_programs {
    uint32_t node, number, num_connecting;
    pw_node_streams *on_node;
    pw_streams *streams;
    int epoll;
    int spare; /* a descriptor to give up when there are no more */
    bool has_warned, has_listened;
    bool has_waiting; /* a listener whose program has not taken what it was handed */
    pw_endpoint *endpoints, *closed;
    pw_endpoint *of_slot[PW_STREAM_SLOTS_MAX];
    pw_endpoint *of_port[UINT16_MAX + 1]; /* bound; several that share it */
    pw_endpoint *six_only;                /* bound to IPv6 alone, at any port */
};

static pw_endpoint **endpoint_of(pw_programs *self, uint32_t connection)
{
    return &self->of_slot[connection % PW_STREAM_SLOTS_MAX];
}

/* Where the list begins of those that are bound like this. */
static pw_endpoint **bound_at(pw_programs *self, uint16_t port, bool is_six_only)
{
    return is_six_only ? &self->six_only : &self->of_port[port];
}

/* ---- endpoints: descriptors, each with what it is for */

/* Say once on standard error that connections are lost, and why. */
static void endpoint_warn(pw_programs *self, const char *what, const char *remedy)
{
    if (self->has_warned) return;
    self->has_warned = true;
    fprintf(stderr, "pagewire-sockets: node %u: %s; connections are refused until others end; %s\n",
            self->node, what, remedy);
}

/* NULL: no memory; fd is closed. */
static pw_endpoint *endpoint_add(pw_programs *self, endpoint_kind kind, int fd, uint32_t interest)
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

static void endpoint_wait_for(pw_endpoint *endpoint, uint32_t interest)
{
    struct epoll_event event = {.events = interest, .data.ptr = endpoint};
    if (endpoint->is_gone || endpoint->interest == interest) return;
    endpoint->interest = interest;
    epoll_ctl(endpoint->owner->epoll, EPOLL_CTL_MOD, endpoint->fd, &event);
}

static void endpoint_drop(pw_endpoint *endpoint)
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

/* Give the descriptor a name in the abstract name space. */
static int endpoint_name(int fd, const char *text)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t num_bytes = strlen(text);
    memcpy(name.sun_path + 1, text, num_bytes);
    return bind(fd, (struct sockaddr *)&name,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + num_bytes));
}

/* There are descriptors for one; else standard error says so. */
static bool endpoint_can_pair(pw_programs *self)
{
    int first = fcntl(self->epoll, F_DUPFD_CLOEXEC, 0),
        second = fcntl(self->epoll, F_DUPFD_CLOEXEC, 0);
    if (first >= 0) close(first);
    if (second >= 0) close(second);
    if (second >= 0) return true;
    endpoint_warn(self, "the agent has no descriptors left", "raise the hard limit of ulimit -n");
    return false;
}

/* The nearer end of a pair, with its name: of `kind` here, of name_kind there. family: as the
 * program sees it; facts: of its connection. *far is to be passed on and closed. NULL: there is no
 * pair. */
static pw_endpoint *endpoint_pair(pw_programs *self, endpoint_kind kind, uint32_t interest,
                                  char name_kind, uint16_t family, const pw_stream_facts *facts,
                                  int *far)
{
    char text[96];
    int ends[2], type = kind == ENDPOINT_BOUND ? SOCK_SEQPACKET : SOCK_STREAM;
    if (socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends)) return NULL;
    snprintf(text, sizeof text, PW_ENDPOINT_NAME, name_kind, family, self->node, facts->own_port,
             facts->peer, facts->peer_port, (unsigned)getpid(), self->number++);
    pw_endpoint *made = NULL;
    if (endpoint_name(ends[0], text)) close(ends[0]);
    else made = endpoint_add(self, kind, ends[0], interest);
    if (!made) close(ends[1]);
    else made->family = family;
    *far = ends[1];
    return made;
}

/* fd: -1 for none; closed here. */
static void endpoint_reply(const pw_endpoint *endpoint, int error, int fd)
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
    (void)!sendmsg(endpoint->fd, &message, MSG_NOSIGNAL);
    if (fd >= 0) close(fd);
}

/* ---- bytes */

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

/* Move its bytes, both ways. */
static int connection_pump(pw_endpoint *endpoint)
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
        endpoint_drop(endpoint);
        return pw_streams_close(self->streams, connection);
    }
    bool has_room = !endpoint->has_read_end && pw_streams_room(self->streams, connection, &room);
    endpoint_wait_for(endpoint,
                      (has_room ? (uint32_t)EPOLLIN : 0) | (num_here ? (uint32_t)EPOLLOUT : 0));
    return PW_OK;
}

/* ---- connects */

/* Hand a connection to the program that waits at `to`. */
static int connection_hand_over(pw_endpoint *to, uint32_t connection)
{
    pw_programs *self = to->owner;
    pw_stream_facts facts;
    int far, code = pw_streams_look(self->streams, connection, &facts);
    if (code < 0) return code;
    pw_endpoint *made = endpoint_pair(self, ENDPOINT_CONNECTED, EPOLLIN, PW_KIND_CONNECTED,
                                      to->family, &facts, &far);
    if (!made) {
        if (to->kind == ENDPOINT_CALLER) endpoint_reply(to, ENFILE, -1);
        code = pw_streams_reset(self->streams, connection);
        return code < 0 ? code : pw_streams_close(self->streams, connection);
    }
    made->connection = connection;
    *endpoint_of(self, connection) = made;
    /* A program that is gone has closed it: that is read like any end. */
    endpoint_reply(to, 0, far);
    return connection_pump(made);
}

/* The program's end is not writable until what stands in it is read: its buffer is as small as can
 * be, and full. */
static bool fill(pw_endpoint *made)
{
    static const char nothing[2048];
    const int smallest = FILL_BUFFER_BYTES;
    socklen_t length = sizeof made->buffer_bytes;
    if (getsockopt(made->far, SOL_SOCKET, SO_SNDBUF, &made->buffer_bytes, &length) ||
        setsockopt(made->far, SOL_SOCKET, SO_SNDBUF, &smallest, sizeof smallest))
        return false;
    made->buffer_bytes /= 2; /* the kernel tells twice what was set */
    for (ssize_t sent; (sent = send(made->far, nothing, sizeof nothing, MSG_DONTWAIT)) > 0;)
        made->num_fill_bytes += (uint32_t)sent;
    return errno == EAGAIN;
}

static void drain(pw_endpoint *endpoint)
{
    char nothing[2048];
    while (endpoint->num_fill_bytes) {
        size_t most =
            endpoint->num_fill_bytes < sizeof nothing ? endpoint->num_fill_bytes : sizeof nothing;
        ssize_t got = recv(endpoint->fd, nothing, most, MSG_DONTWAIT);
        if (got <= 0) return;
        endpoint->num_fill_bytes -= (uint32_t)got;
    }
}

/* The caller gets its end at once. */
static int begin_without_waiting(pw_endpoint *caller, uint32_t connection,
                                 const pw_stream_facts *facts)
{
    pw_programs *self = caller->owner;
    int far;
    pw_endpoint *made = endpoint_pair(self, ENDPOINT_CONNECTING, 0, PW_KIND_NOT_WAITED_FOR,
                                      caller->family, facts, &far);
    if (made) {
        made->far = far;
        made->since_ns = pw_clock_wall_ns();
    }
    int given = made && fill(made) ? fcntl(far, F_DUPFD_CLOEXEC, 0) : -1;
    if (given < 0) {
        if (made) endpoint_drop(made);
        endpoint_reply(caller, ENFILE, -1);
        endpoint_drop(caller);
        return pw_streams_close(self->streams, connection);
    }
    made->connection = connection;
    *endpoint_of(self, connection) = made;
    self->num_connecting++;
    endpoint_reply(caller, 0, given);
    endpoint_drop(caller);
    return PW_OK;
}

/* Has the node a connection of the same two ends? */
static bool is_connected(const pw_programs *self, const pw_program_request *request)
{
    for (const pw_endpoint *one = self->endpoints; one; one = one->next) {
        pw_stream_facts facts;
        if (one->connection && pw_streams_look(self->streams, one->connection, &facts) == PW_OK &&
            facts.own_port == request->own_port && facts.peer == request->node &&
            facts.peer_port == request->port)
            return true;
    }
    return false;
}

/* Connect for the caller, which goes when its answer is here. */
static int connection_begin(pw_endpoint *caller, const pw_program_request *request)
{
    pw_programs *self = caller->owner;
    const pw_endpoint *bound = request->own_port ? self->of_port[request->own_port] : NULL;
    uint16_t own_port = bound ? bound->port : pw_streams_free_port(self->streams);
    uint32_t connection;
    int error = 0, code = PW_ERR_FULL;
    if (bound && pw_streams_is_listening(self->streams, bound->port)) error = EISCONN;
    else if (!endpoint_can_pair(self)) error = ENFILE;
    else if (!own_port || (bound && is_connected(self, request))) error = EADDRNOTAVAIL;
    else
        code =
            pw_streams_connect(self->streams, request->node, request->port, own_port, &connection);
    if (code == PW_OK) {
        pw_stream_facts facts;
        if ((code = pw_streams_look(self->streams, connection, &facts)) < 0) return code;
        if (!request->waits) return begin_without_waiting(caller, connection, &facts);
        caller->connection = connection;
        caller->since_ns = pw_clock_wall_ns();
        *endpoint_of(self, connection) = caller;
        self->num_connecting++;
        return PW_OK;
    }
    if (code != PW_ERR_FULL && code != PW_ERR_INVALID) return code;
    if (!error) {
        error = code == PW_ERR_FULL ? EADDRNOTAVAIL : ENETUNREACH;
        if (code == PW_ERR_FULL && !pw_node_streams_refusal(self->on_node))
            endpoint_warn(self, "all of its connections are taken", "close some");
    }
    endpoint_reply(caller, error, -1);
    endpoint_drop(caller);
    return PW_OK;
}

/* The program's end tells from now on how it went. */
static void tell_outcome(pw_endpoint *endpoint, int error)
{
    char text[96];
    pw_programs *self = endpoint->owner;
    snprintf(text, sizeof text, PW_OUTCOME_NAME, (unsigned)error, (unsigned)getpid(), self->node,
             self->number++);
    endpoint_name(endpoint->far, text);
}

/* It is over by an error of the agent's. */
static int connection_fail(pw_endpoint *endpoint, int error)
{
    pw_programs *self = endpoint->owner;
    uint32_t connection = endpoint->connection;
    self->num_connecting--;
    /* What is unread makes the kernel tell of an error at the program's end. */
    if (endpoint->kind == ENDPOINT_CONNECTING) tell_outcome(endpoint, error);
    else endpoint_reply(endpoint, error, -1);
    endpoint_drop(endpoint);
    return pw_streams_close(self->streams, connection);
}

/* The connect that it waits for is over, perhaps. */
static int connection_finish(pw_endpoint *endpoint, const pw_stream_facts *facts)
{
    pw_programs *self = endpoint->owner;
    uint32_t connection = endpoint->connection;
    if (facts->state == PW_STREAM_CONNECTING) return PW_OK;
    if (facts->state != PW_STREAM_OPEN)
        return connection_fail(endpoint,
                               facts->state == PW_STREAM_REFUSED ? ECONNREFUSED : ECONNRESET);
    self->num_connecting--;
    if (endpoint->kind == ENDPOINT_CALLER) {
        *endpoint_of(self, connection) = NULL;
        endpoint->connection = PW_STREAM_NONE;
        int code = connection_hand_over(endpoint, connection);
        endpoint_drop(endpoint);
        return code;
    }
    endpoint->kind = ENDPOINT_CONNECTED;
    tell_outcome(endpoint, 0);
    drain(endpoint);
    setsockopt(endpoint->far, SOL_SOCKET, SO_SNDBUF, &endpoint->buffer_bytes,
               sizeof endpoint->buffer_bytes);
    close(endpoint->far);
    endpoint->far = -1;
    endpoint_wait_for(endpoint, EPOLLIN);
    return connection_pump(endpoint);
}

/* ---- ports: bound descriptors, and who of them gets what a queue has */

/* Sockets of IPv6 alone have ports of their own. */
static bool can_bind(pw_programs *self, const pw_program_request *request, uint16_t port)
{
    for (const pw_endpoint *one = *bound_at(self, port, request->is_six_only); one;
         one = one->next_at_port)
        if (one->port == port && !(one->is_shared && request->is_shared)) return false;
    return true;
}

/* Bind; the caller goes. */
static void port_bind(pw_endpoint *caller, const pw_program_request *request)
{
    pw_programs *self = caller->owner;
    int far;
    pw_endpoint *made = NULL;
    uint16_t port = request->port ? request->port : pw_streams_free_port(self->streams);
    bool is_free = port && can_bind(self, request, port);
    if (is_free) /* each accept of the program makes it writable anew */
        made = endpoint_pair(self, ENDPOINT_BOUND, EPOLLOUT | EPOLLET,
                             request->is_six_only ? PW_KIND_SIX_ONLY : PW_KIND_BOUND,
                             caller->family, &(pw_stream_facts){.own_port = port}, &far);
    if (made) {
        pw_endpoint **first = bound_at(self, port, request->is_six_only);
        made->port = port;
        made->number = self->number - 1;
        made->is_six_only = request->is_six_only;
        made->is_shared = request->is_shared;
        made->next_at_port = *first;
        *first = made;
    }
    endpoint_reply(caller, made ? 0 : is_free ? ENFILE : EADDRINUSE, made ? far : -1);
    endpoint_drop(caller);
}

static void port_listen(pw_endpoint *caller, const pw_program_request *request)
{
    pw_programs *self = caller->owner;
    pw_endpoint *bound = *bound_at(self, request->port, request->is_six_only);
    while (bound && bound->number != request->number) bound = bound->next_at_port;
    int code = bound ? PW_OK : PW_ERR_INVALID;
    if (bound && !bound->is_six_only && !pw_streams_is_listening(self->streams, bound->port))
        code = pw_streams_listen(self->streams, bound->port, request->backlog);
    if (code == PW_OK) bound->is_listening = self->has_listened = true;
    endpoint_reply(caller, code < 0 ? EADDRINUSE : 0, -1);
    endpoint_drop(caller);
}

/* Closing empties the pair too, but is told before that. */
static bool is_closed(const pw_endpoint *listener)
{
    struct pollfd asked = {.fd = listener->fd};
    return poll(&asked, 1, 0) > 0;
}

/* The next one of its queue, when the program has taken the last one: what waits stays in the
 * queue, whose length is the program's. */
static int port_hand_next(pw_endpoint *listener)
{
    pw_programs *self = listener->owner;
    int code = PW_OK, num_waiting;
    if (!listener->is_listening || listener->is_six_only) return code;
    while (code == PW_OK && !ioctl(listener->fd, SIOCOUTQ, &num_waiting) &&
           num_waiting < RECORD_MIN_BYTES && !is_closed(listener) && endpoint_can_pair(self)) {
        uint32_t connection = pw_streams_accept(self->streams, listener->port);
        if (connection == PW_STREAM_NONE) return code;
        code = connection_hand_over(listener, connection);
    }
    self->has_waiting = true;
    return code;
}

/* What waits in the port's queue, to whoever listens there. */
static int port_hand_out(pw_programs *self, uint16_t port)
{
    int code = PW_OK;
    pw_endpoint *first = self->of_port[port], **last = &self->of_port[port];
    for (pw_endpoint *one = first; one && code == PW_OK; one = one->next_at_port)
        code = port_hand_next(one);
    if (!first || !first->next_at_port) return code;
    /* Next time another one comes first. */
    self->of_port[port] = first->next_at_port;
    while (*last) last = &(*last)->next_at_port;
    *last = first;
    first->next_at_port = NULL;
    return code;
}

/* The bound one goes. */
static void port_leave(pw_endpoint *bound)
{
    pw_programs *self = bound->owner;
    uint16_t port = bound->port;
    bool has_listened = bound->is_listening && !bound->is_six_only;
    endpoint_drop(bound);
    if (!has_listened) return;
    for (const pw_endpoint *one = self->of_port[port]; one; one = one->next_at_port)
        if (one->is_listening) return;
    pw_streams_unlisten(self->streams, port);
}

/* ---- calls */

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

int pw_programs_create(pw_stream_nodes *all, uint32_t node, int epoll, pw_programs **out)
{
    char text[64];
    pw_programs *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->node = node;
    made->on_node = pw_stream_nodes_on_node(all, node);
    made->streams = pw_stream_nodes_streams(all, node);
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
