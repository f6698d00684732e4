/* Preloaded into programs: stream sockets to addresses of the emulated network become ends of
 * socket pairs whose other ends are the agent's; see program_calls.h. Only calls that name
 * addresses or options of TCP are intercepted: all others are the kernel's own on such a
 * descriptor.
 *
 * Keeps no state of its own: whose an end is stands in its name, also after fork and exec. */
#include "transport/sockets/preload/next_calls.h"
#include "transport/sockets/preload/registrations.h"
#include "transport/sockets/program_calls.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAXSEG_BYTES 16384 /* a block of the engine */

typedef struct {
    unsigned agent, node, num_nodes, network;
} place;

typedef struct {
    char kind;
    unsigned family, node, port, peer, peer_port;
} identity;

typedef struct {
    bool is_any;
    uint32_t node; /* of the emulated network; num_nodes and above: nobody's */
    uint16_t port, family;
} target;

static bool read_place(place *out)
{
    const char *text = getenv(PW_AGENT_VARIABLE);
    return text && sscanf(text, "%u %u %u %u", &out->agent, &out->node, &out->num_nodes,
                          &out->network) == 4;
}

/* The name of this end or of the other one, if it is in the abstract name space. errno stays. */
static bool read_name(int fd, bool is_peers, char text[sizeof(struct sockaddr_un)])
{
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    int saved = errno;
    bool has_name = !(is_peers ? NEXT(getpeername) : NEXT(getsockname))(
        fd, (struct sockaddr *)&name, &length);
    errno = saved;
    size_t before = offsetof(struct sockaddr_un, sun_path) + 1;
    if (!has_name || name.sun_family != AF_UNIX || length <= before || name.sun_path[0])
        return false;
    memcpy(text, name.sun_path + 1, length - before);
    text[length - before] = 0;
    return true;
}

/* Is the descriptor an emulated one, and whose? */
static bool identify(int fd, identity *out)
{
    char text[sizeof(struct sockaddr_un)];
    return read_name(fd, true, text) &&
           sscanf(text, PW_ENDPOINT_PREFIX "%c/%u/%u:%u/%u:%u/", &out->kind, &out->family,
                  &out->node, &out->port, &out->peer, &out->peer_port) == 6;
}

/* Has the connect that was not waited for ended, and how? */
static bool read_outcome(int fd, int *error)
{
    char text[sizeof(struct sockaddr_un)];
    unsigned number;
    bool has_ended = read_name(fd, false, text) && sscanf(text, PW_OUTCOME_PREFIX "%u/", &number) == 1;
    if (has_ended) *error = (int)number;
    return has_ended;
}

static bool is_tcp(int fd)
{
    int type = 0, family = 0;
    socklen_t length = sizeof type;
    int saved = errno;
    bool is_stream = !NEXT(getsockopt)(fd, SOL_SOCKET, SO_TYPE, &type, &length) &&
                     type == SOCK_STREAM &&
                     !NEXT(getsockopt)(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) &&
                     (family == AF_INET || family == AF_INET6);
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
        made.six.sin6_addr.s6_addr[10] = made.six.sin6_addr.s6_addr[11] = 0xFF;
        memcpy(&made.six.sin6_addr.s6_addr[12], &bits, sizeof bits);
    } else {
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
    if (message.msg_flags & MSG_CTRUNC) { /* the kernel has closed it */
        *error = EMFILE;
        return -1;
    }
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
    fcntl(made, F_SETFL, status & O_NONBLOCK);
    pw_registration *registrations = pw_registrations_take(fd);
    int code = dup3(made, fd, own & FD_CLOEXEC ? O_CLOEXEC : 0);
    int saved = errno;
    pw_registrations_put_back(fd, registrations);
    close(made);
    errno = saved;
    return code < 0 ? -1 : 0;
}

/* Why the emulated descriptor cannot be connected; 0: it can. */
static int refuse_connect(int fd, const identity *own)
{
    int error = 0, pending = 0;
    socklen_t length = sizeof pending;
    if (own->kind == PW_KIND_BOUND) return 0; /* the agent knows whether it listens */
    if (own->kind == PW_KIND_CONNECTED) return EISCONN;
    if (!read_outcome(fd, &error)) return EALREADY;
    if (!error) return EISCONN;
    /* It is told once; then the program may try again. */
    NEXT(getsockopt)(fd, SOL_SOCKET, SO_ERROR, &pending, &length);
    return pending ? error : 0;
}

/* A bound one whose program connects to somewhere else: a socket of the kernel's at that port. */
static int return_to_kernel(int fd, const identity *own)
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

EXPORT int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    place here;
    target to;
    identity own = {.port = 0};
    bool has_place = read_place(&here), is_own = has_place && identify(fd, &own);
    int error = is_own ? refuse_connect(fd, &own) : 0;
    if (error) {
        errno = error;
        return -1;
    }
    if (!address || !has_place || (!is_own && !is_tcp(fd)) ||
        !read_address(&here, address, length, &to) || to.is_any)
        return is_own && return_to_kernel(fd, &own) < 0 ? -1 : NEXT(connect)(fd, address, length);
    bool waits = !(fcntl(fd, F_GETFL) & O_NONBLOCK);
    const pw_program_request request = {.call = PW_CALL_CONNECT,
                                        .node = to.node,
                                        .port = to.port,
                                        .own_port = is_own ? (uint16_t)own.port : 0,
                                        .family = to.family,
                                        .waits = waits};
    int made = ask(&here, &request);
    if (made < 0 || replace(fd, made) < 0) return -1;
    if (waits) return 0;
    errno = EINPROGRESS;
    return -1;
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
    /* The emulated network has addresses of IPv4 alone. */
    if (to.family == AF_INET6 &&
        !NEXT(getsockopt)(fd, IPPROTO_IPV6, IPV6_V6ONLY, &is_six_only, &room) && is_six_only)
        return NEXT(bind)(fd, address, length);
    const pw_program_request request = {.call = PW_CALL_BIND, .port = to.port, .family = to.family};
    int made = ask(&here, &request);
    return made < 0 ? -1 : replace(fd, made);
}

EXPORT int listen(int fd, int backlog)
{
    place here;
    identity own;
    if (!read_place(&here) || !identify(fd, &own)) return NEXT(listen)(fd, backlog);
    if (own.kind != PW_KIND_BOUND) {
        errno = EINVAL;
        return -1;
    }
    int most = backlog < 0 || backlog > SOMAXCONN ? SOMAXCONN : backlog;
    const pw_program_request request = {.call = PW_CALL_LISTEN,
                                        .port = (uint16_t)own.port,
                                        .backlog = most ? (uint32_t)most : 1};
    errno = 0;
    ask(&here, &request);
    return errno ? -1 : 0;
}

/* A connection that is taken without room for its descriptor would be lost. */
static bool has_room(int fd)
{
    int spare = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (spare < 0) return false;
    close(spare);
    return true;
}

EXPORT int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    place here;
    identity own;
    int error = 0;
    if (!read_place(&here) || !identify(fd, &own)) return NEXT(accept4)(fd, address, length, flags);
    if (own.kind != PW_KIND_BOUND) {
        errno = EINVAL;
        return -1;
    }
    if (!has_room(fd)) return -1;
    int made = receive_reply(fd, 0, &error);
    if (made < 0) {
        if (made == -1) errno = error;
        else if (errno == ECONNABORTED) errno = EINVAL; /* the agent is gone: it listens no more */
        return -1;
    }
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
    int error = 0;
    bool is_connected = own.kind == PW_KIND_CONNECTED ||
                        (own.kind == PW_KIND_NOT_WAITED_FOR && read_outcome(fd, &error) && !error);
    if (!is_connected) {
        errno = ENOTCONN;
        return -1;
    }
    write_address(&here, own.family, own.peer, own.peer_port, address, length);
    return 0;
}

/* Options of TCP and IP have nothing to act on here: they are taken and do nothing. */
EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    identity own;
    bool is_network = level == IPPROTO_TCP || level == IPPROTO_IP || level == IPPROTO_IPV6;
    if (is_network && identify(fd, &own)) return 0;
    return NEXT(setsockopt)(fd, level, name, value, length);
}

static int give_number(int number, void *value, socklen_t *length)
{
    memcpy(value, &number, *length < sizeof number ? *length : sizeof number);
    if (*length > sizeof number) *length = sizeof number;
    return 0;
}

/* For a connect that failed the kernel tells of its pair's end instead. */
static int get_error(int fd, void *value, socklen_t *length)
{
    int told = 0, error = 0, code = NEXT(getsockopt)(fd, SOL_SOCKET, SO_ERROR, value, length);
    if (code || !value || !length || *length < sizeof told) return code;
    memcpy(&told, value, sizeof told);
    if (told == ECONNRESET && read_outcome(fd, &error) && error)
        memcpy(value, &error, sizeof error);
    return code;
}

EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
    identity own;
    if (level == SOL_SOCKET && name == SO_ERROR) return get_error(fd, value, length);
    bool is_ours =
        level == IPPROTO_TCP || (level == SOL_SOCKET && (name == SO_DOMAIN || name == SO_PROTOCOL));
    if (!is_ours || !value || !length || !identify(fd, &own))
        return NEXT(getsockopt)(fd, level, name, value, length);
    if (level == SOL_SOCKET)
        return give_number(name == SO_DOMAIN ? (int)own.family : IPPROTO_TCP, value, length);
    if (name == TCP_MAXSEG) return give_number(MAXSEG_BYTES, value, length);
    if (name == TCP_NODELAY) return give_number(1, value, length);
    errno = ENOPROTOOPT;
    return -1;
}
