/* How a node's loop waits: it yields the core after some turns in vain, sleeps for short times
 * after very many, and knows for how long nothing has happened. Wall time. One thread at a time. */
#ifndef PW_NODE_WAITING_H
#define PW_NODE_WAITING_H
#include "transport/node/ticket_lock.h"

typedef struct {
    uint32_t idle_turns;     /* since a turn moved something */
    uint32_t vain_turns;     /* the same, but the program has not run meanwhile either */
    int64_t silent_since_ns; /* 0: not silent */
    uint64_t yields, sleeps;
} pw_waiting;

/* Something happened. */
void pw_waiting_end(pw_waiting *waiting);
/* The program ran, and begins to wait anew. */
void pw_waiting_renew(pw_waiting *waiting);
/* A turn was in vain. The lock is open while the core is somebody else's. */
void pw_waiting_idle(pw_waiting *waiting, pw_ticket_lock *lock);
/* 0 when something just happened. */
int64_t pw_waiting_silent_ns(const pw_waiting *waiting);
#endif
