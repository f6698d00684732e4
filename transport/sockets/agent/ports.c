/* Bound descriptors of programs, and who of them gets what a port's queue has. */
#include "transport/sockets/agent/endpoints.h"
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* What one connection that waits in the pair takes there is more. Nothing can be told as a byte:
 * the kernel tells that it was taken before it has counted its last byte off. */
#define RECORD_MIN_BYTES 64

/* Sockets of IPv6 alone have ports of their own. */
static bool can_bind(pw_programs *self, const pw_program_request *request, uint16_t port)
{
    for (const pw_endpoint *one = *bound_at(self, port, request->is_six_only); one;
         one = one->next_at_port)
        if (one->port == port && !(one->is_shared && request->is_shared)) return false;
    return true;
}

void port_bind(pw_endpoint *caller, const pw_program_request *request)
{
    pw_programs *self = caller->owner;
    int far, near = -1, error = 0;
    uint16_t port = request->port ? request->port : pw_streams_free_port(self->streams);
    char kind = request->is_six_only ? PW_KIND_SIX_ONLY : PW_KIND_BOUND;
    if (!port || !can_bind(self, request, port)) error = EADDRINUSE;
    else if ((near = endpoint_pair(self, SOCK_SEQPACKET, kind, caller->family, port, 0, 0, &far)) <
             0)
        error = ENFILE;
    /* Each accept of the program makes it writable anew. */
    pw_endpoint *made =
        near >= 0 ? endpoint_add(self, ENDPOINT_BOUND, near, EPOLLOUT | EPOLLET) : NULL;
    if (near >= 0 && !made) {
        close(far);
        error = ENOMEM;
    }
    if (made) {
        pw_endpoint **first = bound_at(self, port, request->is_six_only);
        made->port = port;
        made->family = caller->family;
        made->number = self->number - 1;
        made->is_six_only = request->is_six_only;
        made->is_shared = request->is_shared;
        made->next_at_port = *first;
        *first = made;
    }
    endpoint_reply(caller, error, made ? far : -1);
    endpoint_drop(caller);
}

void port_listen(pw_endpoint *caller, const pw_program_request *request)
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

int port_hand_next(pw_endpoint *listener)
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

int port_hand_out(pw_programs *self, uint16_t port)
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

void port_leave(pw_endpoint *bound)
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
