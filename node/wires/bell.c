#include "node/wires/bell.h"
#include <sched.h>
#include <time.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

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

void pw_bell_announce(uint32_t *bell, uint32_t calls)
{
    __atomic_store_n(bell, calls, __ATOMIC_RELAXED);
    atomic_thread_fence(memory_order_seq_cst);
}

void pw_bell_wait(uint32_t *bell, uint32_t calls, int64_t limit_ns)
{
    const struct timespec limit = {.tv_sec = limit_ns / 1000000000,
                                   .tv_nsec = limit_ns % 1000000000};
    /* Not private to the process. Whatever it returns, the caller looks. */
    syscall(SYS_futex, bell, FUTEX_WAIT, calls, &limit, NULL, 0);
}

void pw_bell_withdraw(uint32_t *bell) { __atomic_store_n(bell, 0, __ATOMIC_RELAXED); }

void pw_bell_wake(uint32_t *bell)
{
    if (__atomic_exchange_n(bell, 0, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
