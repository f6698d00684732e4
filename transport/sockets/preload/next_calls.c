#include "transport/sockets/preload/next_calls.h"
#include <dlfcn.h>
#include <stdint.h>

#define FIND(name) found.name = (__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name)

static pw_next_calls found;

__attribute__((constructor)) static void find_all(void)
{
    FIND(connect);
    FIND(bind);
    FIND(listen);
    FIND(accept);
    FIND(accept4);
    FIND(getsockname);
    FIND(getpeername);
    FIND(getsockopt);
    FIND(setsockopt);
    FIND(send);
    FIND(sendto);
    FIND(sendmsg);
    FIND(recvfrom);
    FIND(recvmsg);
    FIND(epoll_ctl); /* the last one: see pw_next */
}

const pw_next_calls *pw_next(void)
{
    if (!found.epoll_ctl) find_all(); /* of a library that is set up before this one */
    return &found;
}
