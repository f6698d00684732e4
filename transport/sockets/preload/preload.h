/* What the preloaded library's files share: the C library's calls behind those that are
 * intercepted, whose a descriptor is, and its places in sets of epoll. */
#ifndef PW_SOCKETS_PRELOAD_PRELOAD_H
#define PW_SOCKETS_PRELOAD_PRELOAD_H
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* What programs call that were compiled with checks of buffers. */
ssize_t __recvfrom_chk(int fd, void *data, size_t num_bytes, size_t room, int flags,
                       struct sockaddr *address, socklen_t *length);

/* clang-format off */
#define PW_NEXT_CALLS(EACH) \
    EACH(connect) EACH(bind) EACH(listen) EACH(accept) EACH(accept4) EACH(getsockname) \
    EACH(getpeername) EACH(getsockopt) EACH(setsockopt) EACH(send) EACH(sendto) EACH(sendmsg) \
    EACH(recvfrom) EACH(__recvfrom_chk) EACH(recvmsg) EACH(getifaddrs) EACH(freeifaddrs) \
    EACH(ioctl) EACH(epoll_ctl)
/* clang-format on */

typedef struct {
#define PW_NEXT_CALL(name) __typeof__(&name) name;
    PW_NEXT_CALLS(PW_NEXT_CALL)
} pw_next_calls;

/* Found when the program starts: a forked child and a handler of signals cannot wait for the
 * loader's lock. */
const pw_next_calls *pw_next(void);
#define NEXT(name) (pw_next()->name)

#define EXPORT __attribute__((visibility("default")))

typedef struct {
    char kind;
    unsigned family, node, port, peer, peer_port, agent, number;
} identity;

/* Is the descriptor an emulated one, and whose? errno stays. */
bool identify(int fd, identity *out);
/* Has the connect that was not waited for ended, and how? errno stays. */
bool read_outcome(int fd, int *error);
/* The kernel's number for an option of a socket; -1: errno tells why. */
int read_option(int fd, int level, int name);
/* Would connect with these go over the emulated network? */
bool is_for_us(int fd, const void *address, uint32_t length);
/* The node's address of the emulated network, if the program is in a run. */
bool read_own_address(struct sockaddr_in *out);
/* What one socket was told of timeouts, buffers and the like, the other one gets too.
 * has_send_buffer: also that, which is the agent's while a connect goes on. */
void carry_options(int from, int to, bool has_send_buffer);

/* A descriptor's places in sets of epoll, which are the file's behind it: they go over to the one
 * that takes its place. */
typedef struct pw_registration pw_registration;

/* Take it out of all sets of this process; NULL: it is in none. errno stays. */
pw_registration *pw_registrations_take(int fd);
/* Put it, or what is there now, into these sets again. Frees them; errno stays. */
void pw_registrations_put_back(int fd, pw_registration *taken);
#endif
