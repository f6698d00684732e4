/* Options of sockets, and the calls that could see that a descriptor is no TCP socket of the
 * kernel. See calls.c. */
#include "transport/sockets/preload/preload.h"
#include "transport/sockets/program_calls.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#define MAXSEG_BYTES 16384         /* a block of the engine */
#define CONGESTION_NAME "pagewire" /* of the 15 bytes that Linux has for it */
#define TCP_INFO_MAX_BYTES 256 /* newer kernels have more fields than the C library: they are 0 */

void carry_options(int from, int to, bool has_send_buffer)
{
    static const int plain[] = {SO_KEEPALIVE, SO_REUSEADDR, SO_PRIORITY,
                                SO_RCVLOWAT,  SO_RCVTIMEO,  SO_SNDTIMEO};
    static const int sizes[] = {SO_RCVBUF, SO_SNDBUF};
    static const char unset[sizeof(struct timeval)]; /* the longest of the plain ones */
    int saved = errno;
    for (unsigned i = 0; i < sizeof plain / sizeof *plain; i++) {
        char value[sizeof unset];
        socklen_t length = sizeof value;
        if (!NEXT(getsockopt)(from, SOL_SOCKET, plain[i], value, &length) &&
            memcmp(value, unset, length))
            NEXT(setsockopt)(to, SOL_SOCKET, plain[i], value, length);
    }
    for (unsigned i = 0; i < (has_send_buffer ? 2 : 1); i++) {
        int wanted = read_option(from, SOL_SOCKET, sizes[i]);
        if (wanted <= read_option(to, SOL_SOCKET, sizes[i])) continue;
        wanted /= 2; /* the kernel tells twice of what it was given */
        NEXT(setsockopt)(to, SOL_SOCKET, sizes[i], &wanted, sizeof wanted);
    }
    errno = saved;
}

/* Options of TCP and IP have nothing to act on here: they are taken and do nothing, but for those
 * whose user would rely on what they do to the bytes. */
EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    identity own;
    bool is_network = level == IPPROTO_TCP || level == IPPROTO_IP || level == IPPROTO_IPV6;
    if (!is_network || !identify(fd, &own)) return NEXT(setsockopt)(fd, level, name, value, length);
    if (level == IPPROTO_TCP &&
        (name == TCP_ULP || name == TCP_REPAIR || name == TCP_MD5SIG || name == TCP_MD5SIG_EXT)) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return 0;
}

static int give(const void *source, size_t num_bytes, void *value, socklen_t *length)
{
    if (*length > num_bytes) *length = (socklen_t)num_bytes;
    memcpy(value, source, *length);
    return 0;
}

static int give_number(int number, void *value, socklen_t *length)
{
    return give(&number, sizeof number, value, length);
}

/* What there is: the state and the block. Without windows, losses and times of TCP the rest is 0.
 */
static int give_info(int fd, const identity *own, void *value, socklen_t *length)
{
    union {
        struct tcp_info info;
        char bytes[TCP_INFO_MAX_BYTES];
    } made;
    struct pollfd ended = {.fd = fd, .events = POLLRDHUP};
    int saved = errno, error = 0;
    memset(&made, 0, sizeof made);
    made.info.tcpi_snd_mss = made.info.tcpi_rcv_mss = made.info.tcpi_advmss = MAXSEG_BYTES;
    made.info.tcpi_state = TCP_ESTABLISHED;
    if (poll(&ended, 1, 0) > 0)
        made.info.tcpi_state = ended.revents & POLLHUP ? TCP_CLOSE : TCP_CLOSE_WAIT;
    if (own->kind == PW_KIND_NOT_WAITED_FOR && !read_outcome(fd, &error))
        made.info.tcpi_state = TCP_SYN_SENT;
    if (!own->peer_port) made.info.tcpi_state = TCP_LISTEN;
    errno = saved;
    return give(&made, sizeof made, value, length);
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
        level == IPPROTO_TCP || (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) ||
        (level == SOL_SOCKET && (name == SO_DOMAIN || name == SO_PROTOCOL || name == SO_TYPE));
    if (!is_ours || !value || !length || !identify(fd, &own))
        return NEXT(getsockopt)(fd, level, name, value, length);
    if (level == IPPROTO_IPV6) return give_number(own.kind == PW_KIND_SIX_ONLY, value, length);
    if (level == SOL_SOCKET)
        return give_number(name == SO_DOMAIN ? (int)own.family
                           : name == SO_TYPE ? SOCK_STREAM
                                             : IPPROTO_TCP,
                           value, length);
    switch (name) {
    case TCP_MAXSEG: return give_number(MAXSEG_BYTES, value, length);
    case TCP_NODELAY: return give_number(1, value, length);
    case TCP_CONGESTION: return give(CONGESTION_NAME, sizeof CONGESTION_NAME, value, length);
    case TCP_INFO: return give_info(fd, &own, value, length);
    default: errno = ENOPROTOOPT; return -1;
    }
}

/* Urgent data would be lost on the way, and data with the first packet would go to the kernel:
 * programs fall back from an error. */
static bool is_refused(int fd, int flags, const void *address, socklen_t length)
{
    identity own;
    bool is_so = (flags & MSG_OOB && identify(fd, &own)) ||
                 (flags & MSG_FASTOPEN && is_for_us(fd, address, length));
    if (is_so) errno = EOPNOTSUPP;
    return is_so;
}

EXPORT ssize_t send(int fd, const void *data, size_t num_bytes, int flags)
{
    if (is_refused(fd, flags, NULL, 0)) return -1;
    return NEXT(send)(fd, data, num_bytes, flags);
}

/* TCP ignores the address on a connected socket. */
EXPORT ssize_t sendto(int fd, const void *data, size_t num_bytes, int flags,
                      const struct sockaddr *address, socklen_t length)
{
    identity own;
    if (is_refused(fd, flags, address, length)) return -1;
    bool is_ours = address && address->sa_family != AF_UNIX && identify(fd, &own);
    return NEXT(sendto)(fd, data, num_bytes, flags, is_ours ? NULL : address, is_ours ? 0 : length);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (is_refused(fd, flags, message->msg_name, message->msg_namelen)) return -1;
    return NEXT(sendmsg)(fd, message, flags);
}

/* TCP tells no address with the bytes; a socket pair tells the other end's name. */
static bool is_name_of_ours(int fd, const struct sockaddr *address, socklen_t length)
{
    identity own;
    return address && length >= sizeof address->sa_family && address->sa_family == AF_UNIX &&
           identify(fd, &own);
}

EXPORT ssize_t recvfrom(int fd, void *data, size_t num_bytes, int flags, struct sockaddr *address,
                        socklen_t *length)
{
    ssize_t num_got = NEXT(recvfrom)(fd, data, num_bytes, flags, address, length);
    if (num_got >= 0 && length && is_name_of_ours(fd, address, *length)) *length = 0;
    return num_got;
}

EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t num_bytes, size_t room, int flags,
                              struct sockaddr *address, socklen_t *length)
{
    if (num_bytes <= room) return recvfrom(fd, data, num_bytes, flags, address, length);
    return NEXT(__recvfrom_chk)(fd, data, num_bytes, room, flags, address, length); /* aborts */
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t num_got = NEXT(recvmsg)(fd, message, flags);
    if (num_got >= 0 && is_name_of_ours(fd, message->msg_name, message->msg_namelen))
        message->msg_namelen = 0;
    return num_got;
}
