/* Connections of programs: set-up, bytes, end. */
#include "transport/sockets/agent/endpoints.h"
#include "transport/node/clock.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* Less than a page: one or two sends fill it. */
#define FILL_BUFFER_BYTES 1

static int give_up(pw_programs *self, uint32_t connection)
{
    int code = pw_streams_reset(self->streams, connection);
    return code < 0 ? code : pw_streams_close(self->streams, connection);
}

int connection_hand_over(pw_endpoint *to, uint32_t connection)
{
    pw_programs *self = to->owner;
    pw_stream_facts facts;
    int far, code = pw_streams_look(self->streams, connection, &facts);
    if (code < 0) return code;
    int near = endpoint_pair(self, SOCK_STREAM, PW_KIND_CONNECTED, to->family, facts.own_port,
                             facts.peer, facts.peer_port, &far);
    pw_endpoint *made = near >= 0 ? endpoint_add(self, ENDPOINT_CONNECTED, near, EPOLLIN) : NULL;
    if (!made) {
        if (near >= 0) close(far);
        if (to->kind == ENDPOINT_CALLER) endpoint_reply(to, ENFILE, -1);
        return give_up(self, connection);
    }
    made->connection = connection;
    made->family = to->family;
    *endpoint_of(self, connection) = made;
    /* A program that is gone has closed it: that is read like any end. */
    endpoint_reply(to, 0, far);
    return connection_pump(made);
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

int connection_pump(pw_endpoint *endpoint)
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
    int far, near = endpoint_pair(self, SOCK_STREAM, PW_KIND_NOT_WAITED_FOR, caller->family,
                                  facts->own_port, facts->peer, facts->peer_port, &far);
    pw_endpoint *made = near >= 0 ? endpoint_add(self, ENDPOINT_CONNECTING, near, 0) : NULL;
    if (made) {
        made->far = far;
        made->family = caller->family;
        made->since_ns = pw_clock_wall_ns();
    } else if (near >= 0) close(far);
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

int connection_begin(pw_endpoint *caller, const pw_program_request *request)
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

int connection_fail(pw_endpoint *endpoint, int error)
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

int connection_finish(pw_endpoint *endpoint, const pw_stream_facts *facts)
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
