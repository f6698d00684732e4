#include "transport/node/bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
