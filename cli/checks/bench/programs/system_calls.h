/* How many system calls a thread makes, counted without any privilege: Linux 5.11 hands each back
 * to the process by a signal (Syscall User Dispatch, x86 only), whose handler counts it and makes
 * it. That takes 1 or 2 us a call, so what is counted is not timed meanwhile. One thread, which
 * starts no others meanwhile. For the bench's C program and for its ranks in Python. */
#ifndef PAGEWIRE_BENCH_SYSTEM_CALLS_H
#define PAGEWIRE_BENCH_SYSTEM_CALLS_H
#include <stdint.h>
#if defined __x86_64__ && defined __linux__
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif

static struct {
    volatile char is_caught; /* the kernel looks: 0 lets a call pass */
    uint64_t num_calls;
    uintptr_t back_from_handler; /* libc's code with the call that ends a handler: it passes */
    struct sigaction before;
    uint64_t mark; /* see below */
} counted_calls;

/* A signal clears the mark by which the emulator knows that the thread has not left its core
 * (native/on_core.h), and it would ask for the CPU time then. So a handler puts the mark back. */
static inline volatile uint64_t *mark_of_thread(void)
{
    static uint64_t none;
#ifdef RSEQ_SIG
    char *own = (char *)__builtin_thread_pointer() + __rseq_offset;
    if (__rseq_size) return (volatile uint64_t *)&((struct rseq *)(void *)own)->rseq_cs;
#endif
    return &none;
}

static void count_system_call(int number, siginfo_t *info, void *context)
{
    enum { OF_DISPATCH = 2 }; /* si_code, SYS_USER_DISPATCH */
    const int saved = errno;
    greg_t *with = ((ucontext_t *)context)->uc_mcontext.gregs;
    (void)number;
    if (info->si_code != OF_DISPATCH) {
        counted_calls.back_from_handler = (uintptr_t)__builtin_return_address(0);
        return;
    }
    counted_calls.is_caught = 0;
    counted_calls.num_calls++;
    const long result = syscall(with[REG_RAX], with[REG_RDI], with[REG_RSI], with[REG_RDX],
                                with[REG_R10], with[REG_R8], with[REG_R9]);
    with[REG_RAX] = result == -1 ? -errno : result;
    errno = saved;
    *mark_of_thread() = counted_calls.mark;
    counted_calls.is_caught = 1;
}

/* 0, or -1: this kernel does not let a process do so. */
static inline int begin_counting_system_calls(void)
{
    enum { RESTORER_BYTES = 16 };
    struct sigaction action = {.sa_sigaction = count_system_call, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSYS, &action, &counted_calls.before)) return -1;
    counted_calls.num_calls = 0;
    counted_calls.mark = *mark_of_thread();
    if (!raise(SIGSYS) &&
        !prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, counted_calls.back_from_handler,
               RESTORER_BYTES, &counted_calls.is_caught)) {
        counted_calls.is_caught = 1;
        return 0;
    }
    sigaction(SIGSYS, &counted_calls.before, NULL);
    return -1;
}

static inline uint64_t end_counting_system_calls(void)
{
    counted_calls.is_caught = 0;
    prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
    sigaction(SIGSYS, &counted_calls.before, NULL);
    return counted_calls.num_calls;
}
#else
static inline int begin_counting_system_calls(void) { return -1; }
static inline uint64_t end_counting_system_calls(void) { return 0; }
#endif
#endif
