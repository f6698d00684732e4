/* The host and what it is told. */
#include <pthread.h>

#include "transport/marks/clocks.h"
#include "transport/marks/marked.h"
#include "transport/marks/record.h"

__thread pw_marks_thread pw_marks_this_thread __attribute__((tls_model("initial-exec")));
_Atomic(const pagewire_marks_host *) pw_marks_host;

/* Counts the hosts that came and went, so that none is told the end of a call that it was not in.
 */
static _Atomic uint32_t attachment;

/* A forked child has no MPI and no virtual clock: the host's state is a copy that nobody moves. */
static void forget_host(void)
{
    atomic_store_explicit(&pw_marks_host, NULL, memory_order_relaxed);
    atomic_fetch_add_explicit(&attachment, 1, memory_order_relaxed);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_host); }

PW_MARKS_EXPORTED int pagewire_marks_attach(const pagewire_marks_host *host)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (host && (host->version != PAGEWIRE_MARKS_VERSION || host->struct_size < sizeof *host))
        return -1;
    const pagewire_marks_host *last = atomic_load_explicit(&pw_marks_host, memory_order_acquire);
    if (last == host) return 0;
    if (last) {
        atomic_store_explicit(&pw_marks_host, NULL, memory_order_release);
        pw_clocks_stop(last);
    }
    const uint32_t number = atomic_fetch_add_explicit(&attachment, 1, memory_order_relaxed) + 1;
    if (host) {
        pw_marks_thread *thread = &pw_marks_this_thread;
        pthread_once(&once, watch_forks);
        pw_clocks_start(host);
        atomic_store_explicit(&pw_marks_host, host, memory_order_release);
        if (pw_marks_is_inside(thread, pw_marks_frame())) thread->attachment = number;
    }
    return 0;
}

static void tell_exit(pw_marks_thread *thread)
{
    const pagewire_marks_host *host = atomic_load_explicit(&pw_marks_host, memory_order_acquire);
    const bool is_same =
        thread->attachment == atomic_load_explicit(&attachment, memory_order_relaxed);
    thread->attachment = 0;
    if (host && is_same) host->leave(thread->call);
}

void *pw_marks_enter(_Atomic(void *) *found, const char *names, const pagewire_marked_call *call,
                     uintptr_t frame)
{
    pw_marks_thread *thread = &pw_marks_this_thread;
    void *own = pw_marks_own(found, names);
    if (pw_marks_is_inside(thread, frame)) return own;
    thread->outermost = frame;
    thread->uses_mpi = true;
    if (thread->attachment) tell_exit(thread);
    thread->call = call;
    const pagewire_marks_host *host = atomic_load_explicit(&pw_marks_host, memory_order_acquire);
    if (host) {
        thread->attachment = atomic_load_explicit(&attachment, memory_order_relaxed);
        host->enter(call);
    } else pw_marks_record_start(call);
    return own;
}

void pw_marks_leave(uintptr_t frame)
{
    pw_marks_thread *thread = &pw_marks_this_thread;
    if (thread->outermost != frame) return; /* within another call */
    if (thread->attachment) tell_exit(thread);
    thread->outermost = 0;
}
