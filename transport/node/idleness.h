/* How a node's loop waits: after some turns in vain it gives the core away, and it knows for how
 * long nothing has happened. Where peers ring a bell (transport/node/bell.h) it rests there; else
 * it yields the core, and sleeps for short times after very many turns. Wall time. One thread at a
 * time. */
#ifndef PW_NODE_IDLENESS_H
#define PW_NODE_IDLENESS_H
#include "transport/node/ticket_lock.h"
#include "transport/node/wire.h"

typedef struct {
    uint32_t idle_turns;     /* since a turn moved something */
    uint32_t vain_turns;     /* the same, but the program has not run meanwhile either */
    int64_t silent_since_ns; /* 0: not silent */
    uint64_t yields, sleeps;
    uint32_t *bell;       /* at which a rest was announced last */
    uint32_t announced;   /* for what, since the last rest; 0: none is */
    uint32_t num_resting; /* threads */
    uint32_t num_cores;   /* that this process may use; 0: not asked yet */
    uintptr_t thread;     /* that had the lock last; 0: none yet */
    bool has_threads;     /* it was not always the same */
} pw_idleness;

/* This thread has taken the lock. */
static inline void pw_idleness_note_thread(pw_idleness *idleness)
{
    const uintptr_t thread = (uintptr_t)pthread_self();
    if (idleness->thread == thread) return;
    idleness->has_threads = idleness->thread != 0;
    idleness->thread = thread;
}

/* Something happened. */
void pw_idleness_end(pw_idleness *idleness);
/* The program ran, and begins to wait anew. */
void pw_idleness_renew(pw_idleness *idleness);
/* A turn was in vain. The lock is open while the core is somebody else's. */
void pw_idleness_idle(pw_idleness *idleness, pw_ticket_lock *lock, pw_wire *wire);
/* What this thread's turn moved may be what another one rests for. */
void pw_idleness_tell_resting(pw_idleness *idleness);
/* 0 when something just happened. Any thread, any time. */
int64_t pw_idleness_silent_ns(const pw_idleness *idleness);
/* Wall time at which the silence began; 0: there is none. Any thread, any time. */
int64_t pw_idleness_silent_since_ns(const pw_idleness *idleness);
#endif
