/* How a node's loop waits: it yields the core after some turns in vain, sleeps for short times
 * after very many, and knows for how long nothing has happened. Wall time. One thread at a time. */
#ifndef PW_NODE_IDLENESS_H
#define PW_NODE_IDLENESS_H
#include "transport/node/ticket_lock.h"

typedef struct {
    uint32_t idle_turns;     /* since a turn moved something */
    uint32_t vain_turns;     /* the same, but the program has not run meanwhile either */
    int64_t silent_since_ns; /* 0: not silent */
    uint64_t yields, sleeps;
} pw_idleness;

/* Something happened. */
void pw_idleness_end(pw_idleness *idleness);
/* The program ran, and begins to wait anew. */
void pw_idleness_renew(pw_idleness *idleness);
/* A turn was in vain. The lock is open while the core is somebody else's. */
void pw_idleness_idle(pw_idleness *idleness, pw_ticket_lock *lock);
/* 0 when something just happened. Any thread, any time. */
int64_t pw_idleness_silent_ns(const pw_idleness *idleness);
#endif
