/* Whether a process still listens at a socket address, asked by connecting to it: libfabric's tcp
 * connects again and again to a process that has ended and only ever says "try again", as it says
 * of one that computes and takes nothing meanwhile. Seldom, for what has been stuck for a while:
 * system calls, none of which waits. One thread at a time. */
#ifndef PW_FABRIC_LISTENER_PROBE_H
#define PW_FABRIC_LISTENER_PROBE_H
#include <sys/socket.h>

#include "native/types.h"

/* Zeroed: nothing is stuck. */
typedef struct {
    int64_t next_ns, period_ns;
    int fd;
    bool is_connecting;
} pw_listener_probe;

/* It is stuck at now_ns, as it was at the calls before. 0: somebody listens, or it is not known
 * yet; else the errno that says why nobody does. */
int pw_listener_probe_ask(pw_listener_probe *probe, const struct sockaddr *address,
                          socklen_t num_bytes, int64_t now_ns);
/* It is not stuck any more. */
void pw_listener_probe_clear(pw_listener_probe *probe);
#endif
