/* Preloaded into programs: stream sockets to addresses of the emulated network become ends of
 * socket pairs whose other ends are the agent's; see program_calls.h. Only calls that name
 * addresses or options of TCP are intercepted: all others are the kernel's own on such a
 * descriptor.
 *
 * Keeps no state but the node: whose an end is stands in its name, also after fork and exec. */
#include "transport/sockets/preload/preload.h"
#include "transport/sockets/program_calls.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static pw_next_calls found;

__attribute__((constructor)) static void find_all(void)
{
#define FIND(name) found.name = (__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name);
    PW_NEXT_CALLS(FIND) /* epoll_ctl is the last one: see pw_next */
}

const pw_next_calls *pw_next(void)
{
    if (!found.epoll_ctl) find_all(); /* of a library that is set up before this one */
    return &found;
}

#define NODE_NONE 0xFFFFu

typedef struct {
    bool is_any;
    uint32_t node; /* of the emulated network; num_nodes and above: nobody's */
    uint16_t port, family;
} target;

/* Where the program is, learned at the start: servers clear the environment of their workers.
 * num_nodes 0: not in a run. */
static struct {
    unsigned agent, node, num_nodes, network;
} here;

__attribute__((constructor)) static void learn_place(void)
{
    const char *text = getenv(PW_AGENT_VARIABLE);
    if (!text ||
        sscanf(text, "%u %u %u %u", &here.agent, &here.node, &here.num_nodes, &here.network) != 4)
        here.num_nodes = 0;
    const char *entered = getenv(PW_ENTERED_VARIABLE);
    if (entered && here.num_nodes) here.node = (unsigned)strtoul(entered, NULL, 10);
}

/* The name of this end or of the other one, if it is in the abstract name space. errno stays. */
static bool read_name(int fd, bool is_peers, char text[sizeof(struct sockaddr_un)])
{
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    int saved = errno;
    bool has_name =
        !(is_peers ? NEXT(getpeername) : NEXT(getsockname))(fd, (struct sockaddr *)&name, &length);
    errno = saved;
    size_t before = offsetof(struct sockaddr_un, sun_path) + 1;
    if (!has_name || name.sun_family != AF_UNIX || length <= before || name.sun_path[0])
        return false;
    memcpy(text, name.sun_path + 1, length - before);
    text[length - before] = 0;
    return true;
}

bool identify(int fd, identity *out)
{
    char text[sizeof(struct sockaddr_un)];
    return read_name(fd, true, text) &&
           sscanf(text, PW_ENDPOINT_PREFIX "%c/%u/%u:%u/%u:%u/%u/%u", &out->kind, &out->family,
                  &out->node, &out->port, &out->peer, &out->peer_port, &out->agent,
                  &out->number) == 8;
}

/* The same in a program of a run. */
static bool is_ours(int fd, identity *out) { return here.num_nodes && identify(fd, out); }

static bool is_bound(const identity *own)
{
    return own->kind == PW_KIND_BOUND || own->kind == PW_KIND_SIX_ONLY;
}

bool read_outcome(int fd, int *error)
{
    char text[sizeof(struct sockaddr_un)];
    unsigned number;
    bool has_ended =
        read_name(fd, false, text) && sscanf(text, PW_OUTCOME_PREFIX "%u/", &number) == 1;
    if (has_ended) *error = (int)number;
    return has_ended;
}

int read_option(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    return NEXT(getsockopt)(fd, level, name, &value, &length) ? -1 : value;
}

static bool is_tcp(int fd)
{
    int saved = errno;
    int family = read_option(fd, SOL_SOCKET, SO_DOMAIN);
    int protocol = read_option(fd, SOL_SOCKET, SO_PROTOCOL);
    bool is_stream = read_option(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM &&
                     (family == AF_INET || family == AF_INET6) &&
                     (protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP);
    errno = saved;
    return is_stream;
}

/* Is the address one of the emulated network, or any? */
static bool read_address(const struct sockaddr *address, socklen_t length, target *out)
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
    return out->is_any || (bits & 0xFFFF0000) == here.network;
}

/* NODE_NONE: any address. */
static void write_address(unsigned family, unsigned node, unsigned port, struct sockaddr *address,
                          socklen_t *length)
{
    union {
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } made;
    memset(&made, 0, sizeof made);
    uint32_t bits = node == NODE_NONE ? INADDR_ANY : htonl(here.network + node + 1);
    socklen_t num_bytes = family == AF_INET6 ? sizeof made.six : sizeof made.four;
    if (!address || !length) return;
    if (family == AF_INET6) {
        made.six.sin6_family = AF_INET6;
        made.six.sin6_port = htons((uint16_t)port);
        if (bits) memset(&made.six.sin6_addr.s6_addr[10], 0xFF, 2);
        memcpy(&made.six.sin6_addr.s6_addr[12], &bits, sizeof bits);
    } else {
        made.four.sin_family = AF_INET;
        made.four.sin_port = htons((uint16_t)port);
        made.four.sin_addr.s_addr = bits;
    }
    memcpy(address, &made, *length < num_bytes ? *length : num_bytes);
    *length = num_bytes;
}

bool read_own_address(struct sockaddr_in *out)
{
    socklen_t length = sizeof *out;
    if (here.num_nodes) write_address(AF_INET, here.node, 0, (struct sockaddr *)out, &length);
    return here.num_nodes;
}

/* What the agent says: a descriptor, -1 for none with *error 0 or why; -2: it is not there. */
static int receive_reply(int fd, int *error)
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
    ssize_t num_bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
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
static int ask(const pw_program_request *request)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int error = 0, received = -2;
    int num_bytes =
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, PW_AGENT_NAME, here.agent, here.node);
    socklen_t length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)num_bytes;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (!NEXT(connect)(fd, (struct sockaddr *)&name, length) &&
        send(fd, request, sizeof *request, MSG_NOSIGNAL) == sizeof *request)
        received = receive_reply(fd, &error);
    else errno = ENETDOWN;
    int saved = errno;
    close(fd);
    errno = received == -2 ? saved : error;
    return received < 0 ? -1 : received;
}

/* The made descriptor takes the place of the program's, with its flags. */
static int replace(int fd, int made, bool has_send_buffer)
{
    int status = fcntl(fd, F_GETFL), own = fcntl(fd, F_GETFD);
    fcntl(made, F_SETFL, status & O_NONBLOCK);
    carry_options(fd, made, has_send_buffer);
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
    int error = 0;
    if (is_bound(own)) return 0; /* the agent knows whether it listens */
    if (own->kind == PW_KIND_CONNECTED) return EISCONN;
    if (!read_outcome(fd, &error)) return EALREADY;
    if (!error) return EISCONN;
    /* It is told once; then the program may try again. */
    return read_option(fd, SOL_SOCKET, SO_ERROR) > 0 ? error : 0;
}

/* A bound one whose program connects to somewhere else: a socket of the kernel's at that port. */
static int return_to_kernel(int fd, const identity *own)
{
    struct sockaddr_storage any;
    socklen_t length = sizeof any;
    write_address(own->family, NODE_NONE, own->port, (struct sockaddr *)&any, &length);
    int made = socket((int)own->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) return -1;
    if (NEXT(bind)(made, (struct sockaddr *)&any, length)) {
        int saved = errno;
        close(made);
        errno = saved;
        return -1;
    }
    return replace(fd, made, true);
}

bool is_for_us(int fd, const void *address, uint32_t length)
{
    target to;
    return address && here.num_nodes && is_tcp(fd) && read_address(address, length, &to) &&
           !to.is_any;
}

EXPORT int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    target to;
    identity own = {.port = 0};
    bool is_own = is_ours(fd, &own);
    int error = is_own ? refuse_connect(fd, &own) : 0;
    if (error) {
        errno = error;
        return -1;
    }
    if (!address || !here.num_nodes || (!is_own && !is_tcp(fd)) ||
        !read_address(address, length, &to) || to.is_any)
        return is_own && return_to_kernel(fd, &own) < 0 ? -1 : NEXT(connect)(fd, address, length);
    bool waits = !(fcntl(fd, F_GETFL) & O_NONBLOCK);
    const pw_program_request request = {.call = PW_CALL_CONNECT,
                                        .node = to.node,
                                        .port = to.port,
                                        .own_port = is_own ? (uint16_t)own.port : 0,
                                        .family = to.family,
                                        .waits = waits};
    int made = ask(&request);
    if (made < 0 || replace(fd, made, waits) < 0) return -1;
    if (waits) return 0;
    errno = EINPROGRESS;
    return -1;
}

EXPORT int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    target to;
    if (!address || !here.num_nodes || !is_tcp(fd) || !read_address(address, length, &to) ||
        (!to.is_any && to.node != here.node))
        return NEXT(bind)(fd, address, length);
    const pw_program_request request = {
        .call = PW_CALL_BIND,
        .port = to.port,
        .family = to.family,
        .is_six_only = to.family == AF_INET6 && read_option(fd, IPPROTO_IPV6, IPV6_V6ONLY) > 0,
        .is_shared = read_option(fd, SOL_SOCKET, SO_REUSEPORT) == 1};
    int made = ask(&request);
    return made < 0 ? -1 : replace(fd, made, true);
}

EXPORT int listen(int fd, int backlog)
{
    identity own;
    if (!is_ours(fd, &own)) return NEXT(listen)(fd, backlog);
    if (!is_bound(&own)) {
        errno = EINVAL;
        return -1;
    }
    int most = backlog < 0 || backlog > SOMAXCONN ? SOMAXCONN : backlog;
    const pw_program_request request = {.call = PW_CALL_LISTEN,
                                        .port = (uint16_t)own.port,
                                        .number = own.number,
                                        .is_six_only = own.kind == PW_KIND_SIX_ONLY,
                                        .backlog = most ? (uint32_t)most : 1};
    errno = 0;
    ask(&request);
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
    identity own;
    int error = 0;
    if (!is_ours(fd, &own)) return NEXT(accept4)(fd, address, length, flags);
    if (!is_bound(&own)) {
        errno = EINVAL;
        return -1;
    }
    if (!has_room(fd)) return -1;
    int made = receive_reply(fd, &error);
    if (made < 0) {
        if (made == -1) errno = error;
        else if (errno == ECONNABORTED) errno = EINVAL; /* the agent is gone: it listens no more */
        return -1;
    }
    carry_options(fd, made, true);
    fcntl(made, F_SETFL, flags & SOCK_NONBLOCK ? O_NONBLOCK : 0);
    fcntl(made, F_SETFD, flags & SOCK_CLOEXEC ? FD_CLOEXEC : 0);
    if (identify(made, &own)) write_address(own.family, own.peer, own.peer_port, address, length);
    return made;
}

EXPORT int accept(int fd, struct sockaddr *address, socklen_t *length)
{
    identity own;
    return identify(fd, &own) ? accept4(fd, address, length, 0) : NEXT(accept)(fd, address, length);
}

EXPORT int getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    identity own;
    if (!is_ours(fd, &own)) return NEXT(getsockname)(fd, address, length);
    write_address(own.family, own.kind == PW_KIND_SIX_ONLY ? NODE_NONE : own.node, own.port,
                  address, length);
    return 0;
}

EXPORT int getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
    identity own;
    if (!is_ours(fd, &own)) return NEXT(getpeername)(fd, address, length);
    int error = 0;
    bool is_connected = own.kind == PW_KIND_CONNECTED ||
                        (own.kind == PW_KIND_NOT_WAITED_FOR && read_outcome(fd, &error) && !error);
    if (!is_connected) {
        errno = ENOTCONN;
        return -1;
    }
    write_address(own.family, own.peer, own.peer_port, address, length);
    return 0;
}
