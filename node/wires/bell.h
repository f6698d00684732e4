/* How threads and processes of a node wait for each other. */
#ifndef PW_NODE_WIRES_BELL_H
#define PW_NODE_WIRES_BELL_H
#include "native/types.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A lock that is taken in the order of asking, so that a loop which unlocks and locks lets
 * everybody else in between. Some ns when nobody waits. Not recursive, but it knows its holder. */

typedef struct {
    atomic_uint next, serving;
    atomic_uintptr_t holder; /* pthread_self; 0: nobody */
} pw_ticket_lock;

void pw_ticket_lock_wait(pw_ticket_lock *lock, uint32_t ticket);

static inline void pw_ticket_lock_take(pw_ticket_lock *lock)
{
    uint32_t ticket = atomic_fetch_add_explicit(&lock->next, 1, memory_order_relaxed);
    if (atomic_load_explicit(&lock->serving, memory_order_acquire) != ticket)
        pw_ticket_lock_wait(lock, ticket);
    atomic_store_explicit(&lock->holder, (uintptr_t)pthread_self(), memory_order_relaxed);
}

static inline void pw_ticket_lock_give(pw_ticket_lock *lock)
{
    uint32_t ticket = atomic_load_explicit(&lock->serving, memory_order_relaxed);
    atomic_store_explicit(&lock->holder, 0, memory_order_relaxed);
    atomic_store_explicit(&lock->serving, ticket + 1, memory_order_release);
}

/* Does this thread hold it? */
static inline bool pw_ticket_lock_is_mine(const pw_ticket_lock *lock)
{
    return atomic_load_explicit(&lock->holder, memory_order_relaxed) == (uintptr_t)pthread_self();
}

/* Does anybody wait for the lock that the caller holds? */
static inline bool pw_ticket_lock_is_wanted(const pw_ticket_lock *lock)
{
    return atomic_load_explicit(&lock->next, memory_order_relaxed) -
               atomic_load_explicit(&lock->serving, memory_order_relaxed) >
           1;
}

#define PW_BELL_ARRIVAL 1u /* something for the resting node */
#define PW_BELL_ROOM 2u    /* a slot that it may write to */

/* From now on the bell is rung for these calls. */
void pw_bell_announce(uint32_t *bell, uint32_t calls);
/* Sleep until it rings, but no longer than limit_ns; not at all when it has rung since. */
void pw_bell_wait(uint32_t *bell, uint32_t calls, int64_t limit_ns);
/* Nobody rests or is about to. */
void pw_bell_withdraw(uint32_t *bell);
/* Wake all that rest; costs a system call when one does. */
void pw_bell_wake(uint32_t *bell);

static inline bool pw_bell_is_set(const uint32_t *bell, uint32_t call)
{
    return __atomic_load_n(bell, __ATOMIC_RELAXED) & call;
}

/* The caller has made visible what the call is about. */
static inline void pw_bell_ring(uint32_t *bell, uint32_t call)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (pw_bell_is_set(bell, call)) pw_bell_wake(bell);
}

#endif
