#include "transport/marks/clocks.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "transport/marks/resolve.h"

/* Clocks of time that passes; the others are of CPU time, or alarms. */
static const clockid_t kinds[] = {CLOCK_REALTIME,        CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
                                  CLOCK_REALTIME_COARSE, CLOCK_BOOTTIME,  CLOCK_TAI,
                                  CLOCK_MONOTONIC_COARSE};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds, NUM_IDS = CLOCK_TAI + 1 };

/* Written before a host is published, read after it is seen. */
static int64_t start_ns[NUM_IDS];
/* By how much the program's clocks are ahead of the real ones after the last host went. */
static _Atomic int64_t ahead_ns;

static int read_real(clockid_t id, struct timespec *now)
{
    static _Atomic(void *) found;
    void *own = atomic_load_explicit(&found, memory_order_relaxed);
    if (!own) {
        own = pw_marks_find("clock_gettime\0");
        if (!own) return (int)syscall(SYS_clock_gettime, id, now);
        atomic_store_explicit(&found, own, memory_order_relaxed);
    }
    return ((int (*)(clockid_t, struct timespec *))own)(id, now);
}

static int64_t real_ns(clockid_t id)
{
    struct timespec now;
    return read_real(id, &now) == 0 ? (int64_t)now.tv_sec * PW_NS_PER_S + now.tv_nsec : 0;
}

static bool passes(clockid_t id)
{
    for (int i = 0; i < NUM_KINDS; i++)
        if (kinds[i] == id) return true;
    return false;
}

static bool is_programs(uintptr_t frame)
{
    const pw_marks_thread *thread = &pw_marks_this_thread;
    return thread->uses_mpi && !pw_marks_is_inside(thread, frame);
}

void pw_clocks_start(const pagewire_marks_host *host)
{
    if (!host->has_virtual_clocks) return;
    const int64_t ahead = atomic_load_explicit(&ahead_ns, memory_order_relaxed);
    for (int i = 0; i < NUM_KINDS; i++) start_ns[kinds[i]] = real_ns(kinds[i]) + ahead;
}

void pw_clocks_stop(const pagewire_marks_host *host)
{
    if (!host->has_virtual_clocks) return;
    const int64_t last_ns =
        start_ns[CLOCK_MONOTONIC] + pw_clocks_virtual_ns(host, pw_marks_frame());
    atomic_store_explicit(&ahead_ns, last_ns - real_ns(CLOCK_MONOTONIC), memory_order_relaxed);
}

int64_t pw_clocks_virtual_ns(const pagewire_marks_host *host, uintptr_t frame)
{
    pw_marks_thread *thread = &pw_marks_this_thread;
    const uintptr_t outermost = thread->outermost;
    if (!pw_marks_is_inside(thread, frame)) thread->outermost = UINTPTR_MAX;
    const int64_t now_ns = host->clock_read();
    thread->outermost = outermost;
    return now_ns;
}

void pw_clocks_sleep(const pagewire_marks_host *host, int64_t duration_ns, uintptr_t frame)
{
    pw_marks_thread *thread = &pw_marks_this_thread;
    const uintptr_t outermost = thread->outermost;
    if (!pw_marks_is_inside(thread, frame)) thread->outermost = UINTPTR_MAX;
    if (duration_ns > 0) host->sleep(duration_ns);
    thread->outermost = outermost;
}

const pagewire_marks_host *pw_clocks_sleeper(clockid_t id, uintptr_t frame)
{
    const pagewire_marks_host *host = atomic_load_explicit(&pw_marks_host, memory_order_acquire);
    return host && host->has_virtual_clocks && passes(id) && is_programs(frame) ? host : NULL;
}

int pw_clocks_read(clockid_t id, struct timespec *now, uintptr_t frame)
{
    const pagewire_marks_host *host = pw_clocks_sleeper(id, frame);
    if (host) {
        const int64_t now_ns = start_ns[id] + pw_clocks_virtual_ns(host, frame);
        *now = (struct timespec){now_ns / PW_NS_PER_S, now_ns % PW_NS_PER_S};
        return 0;
    }
    const int64_t ahead = atomic_load_explicit(&ahead_ns, memory_order_relaxed);
    const int result = read_real(id, now);
    if (ahead != 0 && result == 0 && passes(id) && is_programs(frame)) {
        const int64_t now_ns = (int64_t)now->tv_sec * PW_NS_PER_S + now->tv_nsec + ahead;
        *now = (struct timespec){now_ns / PW_NS_PER_S, now_ns % PW_NS_PER_S};
    }
    return result;
}
