/* The C library's calls, behind those that are intercepted. */
#ifndef PW_SOCKETS_PRELOAD_NEXT_CALLS_H
#define PW_SOCKETS_PRELOAD_NEXT_CALLS_H
#include <sys/epoll.h>
#include <sys/socket.h>

typedef struct {
    __typeof__(&connect) connect;
    __typeof__(&bind) bind;
    __typeof__(&listen) listen;
    __typeof__(&accept) accept;
    __typeof__(&accept4) accept4;
    __typeof__(&getsockname) getsockname;
    __typeof__(&getpeername) getpeername;
    __typeof__(&getsockopt) getsockopt;
    __typeof__(&setsockopt) setsockopt;
    __typeof__(&send) send;
    __typeof__(&sendto) sendto;
    __typeof__(&sendmsg) sendmsg;
    __typeof__(&recvfrom) recvfrom;
    __typeof__(&recvmsg) recvmsg;
    __typeof__(&epoll_ctl) epoll_ctl;
} pw_next_calls;

/* Found when the program starts: a forked child and a handler of signals cannot wait for the
 * loader's lock. */
const pw_next_calls *pw_next(void);
#define NEXT(name) (pw_next()->name)
#endif
