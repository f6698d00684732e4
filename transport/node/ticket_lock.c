#include "transport/node/ticket_lock.h"
#include <sched.h>
#include <time.h>

/* The holder may be doing anything up to touching gigabytes, or wait for a core itself. */
#define LOOKS 64u
#define YIELDS 256u
#define PAUSE_NS 20000

static bool is_served(const pw_ticket_lock *lock, uint32_t ticket)
{
    return atomic_load_explicit(&lock->serving, memory_order_acquire) == ticket;
}

void pw_ticket_lock_wait(pw_ticket_lock *lock, uint32_t ticket)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    for (uint32_t look = 0; look < LOOKS; look++)
        if (is_served(lock, ticket)) return;
    for (uint32_t yield = 0; yield < YIELDS; yield++) {
        sched_yield();
        if (is_served(lock, ticket)) return;
    }
    while (!is_served(lock, ticket)) nanosleep(&pause, NULL);
}
