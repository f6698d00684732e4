/* Preloaded into programs: stream sockets to addresses of the emulated network become ends of
 * socket pairs whose other ends are the agent's; see program_calls.h. Only calls that name
 * addresses or options of TCP are intercepted: all others are the kernel's own on such a
 * descriptor.
 *
 * Keeps no state but the node: whose an end is stands in its name, also after fork and exec. */
#include "transport/sockets/preload/endpoints.h"
#include "transport/sockets/program_calls.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct {
    unsigned agent, node, num_nodes, network;
} place;

typedef struct {
    bool is_any;
    uint32_t node; /* of the emulated network; num_nodes and above: nobody's */
    uint16_t port, family;
} target;

static place own_place; /* num_nodes 0: not in a run */

/* At the start: servers clear the environment of their workers. */
__attribute__((constructor)) static void learn_place(void)
{
    place read;
    const char *text = getenv(PW_AGENT_VARIABLE);
    if (text &&
        sscanf(text, "%u %u %u %u", &read.agent, &read.node, &read.num_nodes, &read.network) == 4)
        own_place = read;
}

static bool read_place(place *out)
{
    *out = own_place;
    return own_place.num_nodes > 0;
}

bool identify(int fd, identity *out)
{
    struct sockaddr_un name;
    char text[sizeof name.sun_path + 1] = "";
    socklen_t length = sizeof name;
    int saved = errno;
    bool has_name = !NEXT(getpeername)(fd, (struct sockaddr *)&name, &length);
    errno = saved;
    size_t before = offsetof(struct sockaddr_un, sun_path) + 1;
    if (!has_name || name.sun_family != AF_UNIX || length <= before || name.sun_path[0])
        return false;
    memcpy(text, name.sun_path + 1, length - before);
    return sscanf(text, PW_ENDPOINT_PREFIX "%u/%u:%u/%u:%u/", &out->family, &out->node, &out->port,
                  &out->peer, &out->peer_port) == 5;
}

static int read_option(int fd, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    return NEXT(getsockopt)(fd, SOL_SOCKET, name, &value, &length) ? -1 : value;
}

bool is_tcp(int fd)
{
    int saved = errno;
    int family = read_option(fd, SO_DOMAIN), protocol = read_option(fd, SO_PROTOCOL);
    bool is_stream = read_option(fd, SO_TYPE) == SOCK_STREAM &&
                     (family == AF_INET || family == AF_INET6) &&
                     (protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP);
    errno = saved;
    return is_stream;
}

/* Is the address one of the emulated network, or any? */
static bool read_address(const place *here, const struct sockaddr *address, socklen_t length,
                         target *out)
{
    uint32_t bits;
    *out = (target){.family = address->sa_family};
    if (address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        const struct sockaddr_in *four = (const void *)address;
        bits = ntohl(four->sin_addr.s_addr);
        out->port = ntohs(four->sin_port);
        out->is_any = bits == INADDR_ANY;
    } else if (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
        const struct sockaddr_in6 *six = (const void *)address;
        memcpy(&bits, &six->sin6_addr.s6_addr[12], sizeof bits);
        bits = ntohl(bits);
        out->port = ntohs(six->sin6_port);
        out->is_any = IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr);
        if (!out->is_any && !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) return false;
    } else return false;
    out->node = (bits & 0xFFFF) - 1;
    return out->is_any || (bits & 0xFFFF0000) == here->network;
}

static void write_address(const place *here, unsigned family, unsigned node, unsigned port,
                          struct sockaddr *address, socklen_t *length)
{
    union {
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } made;
    memset(&made, 0, sizeof made);
    uint32_t bits = htonl(here->network + node + 1);
    socklen_t num_bytes = family == AF_INET6 ? sizeof made.six : sizeof made.four;
    if (!address || !length) return;
    if (family == AF_INET6) {
        made.six.sin6_family = AF_INET6;
        made.six.sin6_port = htons((uint16_t)port);
    }
    if (family == AF_INET6 && node != PW_NODE_NONE) {
        made.six.sin6_addr.s6_addr[10] = made.six.sin6_addr.s6_addr[11] = 0xFF;
        memcpy(&made.six.sin6_addr.s6_addr[12], &bits, sizeof bits);
    } else if (family != AF_INET6) {
        made.four.sin_family = AF_INET;
        made.four.sin_port = htons((uint16_t)port);
        made.four.sin_addr.s_addr = bits;
    }
    memcpy(address, &made, *length < num_bytes ? *length : num_bytes);
    *length = num_bytes;
}

/* What the agent says: a descriptor, -1 for none with *error 0 or why; -2: it is not there. */
static int receive_reply(int fd, int flags, int *error)
{
    pw_program_reply answer;
    struct iovec part = {&answer, sizeof answer};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } room;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof room.bytes};
    ssize_t num_bytes = recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
    if (num_bytes != sizeof answer) {
        if (num_bytes >= 0) errno = ECONNABORTED;
        return -2;
    }
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int received = -1;
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(&received, CMSG_DATA(header), sizeof(int));
    *error = answer.error;
    return received;
}

/* Ask the agent for a descriptor; -1: errno tells why. */
static int ask(const place *here, const pw_program_request *request)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int error = 0, received = -2;
    int num_bytes = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, PW_AGENT_NAME,
                             here->agent, here->node);
    socklen_t length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)num_bytes;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (!NEXT(connect)(fd, (struct sockaddr *)&name, length) &&
        send(fd, request, sizeof *request, MSG_NOSIGNAL) == sizeof *request)
        received = receive_reply(fd, 0, &error);
    else errno = ENETDOWN;
    int saved = errno;
    close(fd);
    errno = received == -2 ? saved : error;
    return received < 0 ? -1 : received;
}

/* The made descriptor takes the place of the program's, with its flags. */
static int replace(int fd, int made)
{
    int status = fcntl(fd, F_GETFL), own = fcntl(fd, F_GETFD);
    carry_options(fd, made);
    fcntl(made, F_SETFL, status & O_NONBLOCK);
    int code = dup3(made, fd, own & FD_CLOEXEC ? O_CLOEXEC : 0);
    int saved = errno;
    close(made);
    errno = saved;
    return code < 0 ? -1 : 0;
}

/* A socket that is bound at any address connects outside: it becomes the kernel's again. */
static int give_back(int fd, const identity *own)
{
    union {
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } any;
    memset(&any, 0, sizeof any);
    bool is_six = own->family == AF_INET6;
    if (is_six) any.six.sin6_family = AF_INET6, any.six.sin6_port = htons((uint16_t)own->port);
    else any.four.sin_family = AF_INET, any.four.sin_port = htons((uint16_t)own->port);
    int made = socket((int)own->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) return -1;
    if (NEXT(bind)(made, (struct sockaddr *)&any, is_six ? sizeof any.six : sizeof any.four)) {
        int saved = errno;
        close(made);
        errno = saved;
        return -1;
    }
    return replace(fd, made);
}

bool is_for_us(int fd, const void *address, uint32_t length)
{
    place here;
    target to;
    return address && read_place(&here) && is_tcp(fd) &&
           read_address(&here, address, length, &to) && !to.is_any;
}

EXPORT int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    place here;
    target to;
    identity own = {.port = 0};
    if (!address || !read_place(&here)) return NEXT(connect)(fd, address, length);
    bool is_ours = identify(fd, &own);
    bool is_inside = read_address(&here, address, length, &to) && !to.is_any;
    if (is_ours && own.peer_port) {
        errno = EISCONN;
        return -1;
    }
    if (is_ours && !is_inside && give_back(fd, &own)) return -1;
    if (!is_inside || (!is_ours && !is_tcp(fd))) return NEXT(connect)(fd, address, length);
    const pw_program_request request = {.call = PW_CALL_CONNECT,
                                        .node = to.node,
                                        .port = to.port,
                                        .family = is_ours ? (uint16_t)own.family : to.family,
                                        .own_port = (uint16_t)own.port};
    int made = ask(&here, &request);
    return made < 0 ? -1 : replace(fd, made);
}

EXPORT int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    place here;
    target to;
    int is_six_only = 0;
    socklen_t room = sizeof is_six_only;
    if (!address || !read_place(&here) || !is_tcp(fd) ||
        !read_address(&here, address, length, &to) || (!to.is_any && to.node != here.node))
        return NEXT(bind)(fd, address, length);
    if (to.family == AF_INET6) NEXT(getsockopt)(fd, IPPROTO_IPV6, IPV6_V6ONLY, &is_six_only, &room);
    const pw_program_request request = {.call = PW_CALL_BIND,
                                        .port = to.port,
                                        .family = to.family,
                                        .is_six_only = is_six_only != 0,
                                        .is_shared = read_option(fd, SO_REUSEPORT) == 1};
    int made = ask(&here, &request);
    return made < 0 ? -1 : replace(fd, made);
}

EXPORT int listen(int fd, int backlog)
{
    identity own;
    int error = 0;
    if (!identify(fd, &own)) return NEXT(listen)(fd, backlog);
    const pw_program_request request = {.call = PW_CALL_LISTEN,
                                        .backlog = backlog > 0 ? (uint32_t)backlog : 1};
    int status = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, status & ~O_NONBLOCK);
    bool is_sent = send(fd, &request, sizeof request, MSG_NOSIGNAL) == sizeof request;
    bool is_answered = is_sent && receive_reply(fd, 0, &error) != -2;
    int saved = is_answered ? error : errno;
    fcntl(fd, F_SETFL, status);
    errno = saved;
    return is_answered && !error ? 0 : -1;
}

EXPORT int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    place here;
    identity own;
    int error = 0;
    if (!read_place(&here) || !identify(fd, &own)) return NEXT(accept4)(fd, address, length, flags);
    errno = 0;
    int made = receive_reply(fd, 0, &error);
    /* After shutdown, or without an agent: the kernel's answer to a socket that does not listen. */
    if (made < 0 && errno == ECONNABORTED) errno = EINVAL;
    if (made < 0) return -1;
    carry_options(fd, made);
    fcntl(made, F_SETFL, flags & SOCK_NONBLOCK ? O_NONBLOCK : 0);
    fcntl(made, F_SETFD, flags & SOCK_CLOEXEC ? FD_CLOEXEC : 0);
    if (identify(made, &own))
        write_address(&here, own.family, own.peer, own.peer_port, address, length);
    return made;
}

EXPORT int accept(int fd, struct sockaddr *address, socklen_t *length)
{
    identity own;
    return identify(fd, &own) ? accept4(fd, address, length, 0) : NEXT(accept)(fd, address, length);
}

EXPORT int getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    place here;
    identity own;
    if (!read_place(&here) || !identify(fd, &own)) return NEXT(getsockname)(fd, address, length);
    write_address(&here, own.family, own.node, own.port, address, length);
    return 0;
}

EXPORT int getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
    place here;
    identity own;
    if (!read_place(&here) || !identify(fd, &own)) return NEXT(getpeername)(fd, address, length);
    if (!own.peer_port) {
        errno = ENOTCONN;
        return -1;
    }
    write_address(&here, own.family, own.peer, own.peer_port, address, length);
    return 0;
}
