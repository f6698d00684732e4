/* A lock that is taken in the order of asking, so that a loop which unlocks and locks lets
 * everybody else in between. Some ns when nobody waits. Not recursive, but it knows its holder. */
#ifndef PW_NODE_TICKET_LOCK_H
#define PW_NODE_TICKET_LOCK_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
#endif
