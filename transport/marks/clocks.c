/* The program's clocks while the host says has_virtual_clocks: a clock shows what it showed when
 * the host came, plus the rank's virtual time. When the host goes, the clocks run on from there
 * with real time, so that none goes backwards. With real clocks a sleep takes its real time, and
 * lets as much virtual time pass where MPI_Wtime is virtual: who looks and sleeps in turn waits for
 * a time to come.
 *
 * Virtual for the program's own calls only: of threads that have called MPI, outside of MPI. The
 * MPI library, libfabric, the provider and threads that never call MPI (progress threads, but also
 * the workers of OpenMP) see real time. Real, too, are waits with a time limit (select, poll,
 * pthread_cond_timedwait, timers), CPU clocks, and file times; signals do not cut a virtual sleep
 * short. */
#include "transport/marks/marked.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000

/* Clocks of time that passes; the others are of CPU time, or alarms. */
static const clockid_t kinds[] = {CLOCK_REALTIME,        CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
                                  CLOCK_REALTIME_COARSE, CLOCK_BOOTTIME,  CLOCK_TAI,
                                  CLOCK_MONOTONIC_COARSE};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds, NUM_IDS = CLOCK_TAI + 1 };

/* Written before a host is published, read after it is seen. */
static int64_t start_ns[NUM_IDS];
/* By how much the program's clocks are ahead of the real ones after the last host went. */
static _Atomic int64_t ahead_ns;
/* What each clock showed the thread last: a sleep until a point of time is as long as the program
 * meant it, not as it came here. */
static _Thread_local int64_t shown_ns[NUM_IDS] __attribute__((tls_model("initial-exec")));

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

static int64_t in_ns(const struct timespec *value)
{
    return (int64_t)value->tv_sec * NS_PER_S + value->tv_nsec;
}

static int64_t real_ns(clockid_t id)
{
    struct timespec now;
    return read_real(id, &now) == 0 ? in_ns(&now) : 0;
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

/* Inside of a call of the host, whose own clocks are real. */
static int64_t virtual_ns(const pagewire_marks_host *host, uintptr_t frame)
{
    pw_marks_thread *thread = &pw_marks_this_thread;
    const uintptr_t outermost = thread->outermost;
    if (!pw_marks_is_inside(thread, frame)) thread->outermost = UINTPTR_MAX;
    const int64_t now_ns = host->clock_read();
    thread->outermost = outermost;
    return now_ns;
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
    const int64_t last_ns = start_ns[CLOCK_MONOTONIC] + virtual_ns(host, pw_marks_frame());
    atomic_store_explicit(&ahead_ns, last_ns - real_ns(CLOCK_MONOTONIC), memory_order_relaxed);
}

static void pass_virtual(const pagewire_marks_host *host, int64_t duration_ns, uintptr_t frame)
{
    pw_marks_thread *thread = &pw_marks_this_thread;
    const uintptr_t outermost = thread->outermost;
    if (!pw_marks_is_inside(thread, frame)) thread->outermost = UINTPTR_MAX;
    if (duration_ns > 0) host->sleep(duration_ns);
    thread->outermost = outermost;
}

/* The host of a program's call that is about this clock, or NULL. */
static const pagewire_marks_host *host_of(clockid_t id, uintptr_t frame)
{
    const pagewire_marks_host *host = atomic_load_explicit(&pw_marks_host, memory_order_acquire);
    return host && passes(id) && is_programs(frame) ? host : NULL;
}

/* The host that a sleep on this clock lets virtual time pass for, or NULL. */
static const pagewire_marks_host *sleeper(clockid_t id, uintptr_t frame)
{
    const pagewire_marks_host *host = host_of(id, frame);
    return host && (host->has_virtual_clocks || host->has_virtual_wtime) ? host : NULL;
}

/* What the program shall see on a clock of the kernel: 0, or errno of the kernel's own. */
static int read_clock(clockid_t id, struct timespec *now, uintptr_t frame)
{
    const pagewire_marks_host *host = host_of(id, frame);
    if (host && host->has_virtual_clocks) {
        const int64_t now_ns = start_ns[id] + virtual_ns(host, frame);
        *now = (struct timespec){now_ns / NS_PER_S, now_ns % NS_PER_S};
        return 0;
    }
    const int64_t ahead = atomic_load_explicit(&ahead_ns, memory_order_relaxed);
    const int result = read_real(id, now);
    if (ahead != 0 && result == 0 && passes(id) && is_programs(frame)) {
        const int64_t now_ns = in_ns(now) + ahead;
        *now = (struct timespec){now_ns / NS_PER_S, now_ns % NS_PER_S};
    }
    if (host && result == 0) shown_ns[id] = in_ns(now);
    return result;
}

/* ---- the C library's clocks and sleeps: where nothing is virtual each does what its own does */

#define OWN(name) ((__typeof__(&name))pw_marks_own(&own_##name, #name "\0"))

static _Atomic(void *) own_timespec_get, own_nanosleep, own_clock_nanosleep, own_usleep, own_sleep;

static bool is_valid(const struct timespec *request)
{
    return request->tv_sec >= 0 && request->tv_nsec >= 0 && request->tv_nsec < NS_PER_S;
}

PW_MARKS_EXPORTED int clock_gettime(clockid_t id, struct timespec *now)
{
    return read_clock(id, now, pw_marks_frame());
}

PW_MARKS_EXPORTED int timespec_get(struct timespec *now, int base)
{
    if (base != TIME_UTC) return OWN(timespec_get)(now, base);
    return read_clock(CLOCK_REALTIME, now, pw_marks_frame()) == 0 ? base : 0;
}

PW_MARKS_EXPORTED int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    const int result = read_clock(CLOCK_REALTIME, &precise, pw_marks_frame());
    if (result != 0) return result;
    if (zone) memset(zone, 0, sizeof(struct timezone)); /* as the GNU C library has it */
    *now = (struct timeval){precise.tv_sec, precise.tv_nsec / 1000};
    return 0;
}

PW_MARKS_EXPORTED time_t time(time_t *now)
{
    struct timespec coarse; /* the clock that the C library's own reads */
    if (read_clock(CLOCK_REALTIME_COARSE, &coarse, pw_marks_frame()) != 0) return -1;
    if (now) *now = coarse.tv_sec;
    return coarse.tv_sec;
}

PW_MARKS_EXPORTED int nanosleep(const struct timespec *request, struct timespec *remaining)
{
    const uintptr_t frame = pw_marks_frame();
    const pagewire_marks_host *host = sleeper(CLOCK_REALTIME, frame);
    if (!host || !is_valid(request)) return OWN(nanosleep)(request, remaining);
    if (!host->has_virtual_clocks && OWN(nanosleep)(request, remaining) != 0) return -1;
    pass_virtual(host, in_ns(request), frame);
    return 0;
}

/* From now, or where clocks are real from when the program looked last, until that point of time.
 */
static int64_t until_ns(const pagewire_marks_host *host, clockid_t id, int64_t end_ns,
                        uintptr_t frame)
{
    struct timespec now;
    if (!host->has_virtual_clocks && shown_ns[id]) return end_ns - shown_ns[id];
    return read_clock(id, &now, frame) == 0 ? end_ns - in_ns(&now) : 0;
}

PW_MARKS_EXPORTED int clock_nanosleep(clockid_t id, int flags, const struct timespec *request,
                                      struct timespec *remaining)
{
    const uintptr_t frame = pw_marks_frame();
    const pagewire_marks_host *host = sleeper(id, frame);
    if (!host || !is_valid(request)) return OWN(clock_nanosleep)(id, flags, request, remaining);
    int64_t duration_ns = in_ns(request);
    if (flags & TIMER_ABSTIME) duration_ns = until_ns(host, id, duration_ns, frame);
    const int result =
        host->has_virtual_clocks ? 0 : OWN(clock_nanosleep)(id, flags, request, remaining);
    if (result == 0) pass_virtual(host, duration_ns, frame);
    return result;
}

PW_MARKS_EXPORTED int usleep(useconds_t duration_us)
{
    const uintptr_t frame = pw_marks_frame();
    const pagewire_marks_host *host = sleeper(CLOCK_REALTIME, frame);
    if (!host) return OWN(usleep)(duration_us);
    if (!host->has_virtual_clocks && OWN(usleep)(duration_us) != 0) return -1;
    pass_virtual(host, (int64_t)duration_us * 1000, frame);
    return 0;
}

PW_MARKS_EXPORTED unsigned sleep(unsigned duration_s)
{
    const uintptr_t frame = pw_marks_frame();
    const pagewire_marks_host *host = sleeper(CLOCK_REALTIME, frame);
    if (!host) return OWN(sleep)(duration_s);
    const unsigned left_s = host->has_virtual_clocks ? 0 : OWN(sleep)(duration_s);
    pass_virtual(host, (int64_t)(duration_s - left_s) * NS_PER_S, frame);
    return left_s;
}

/* ---- MPI's clock
 *
 * MPI_Wtime and MPI_Wtick: of the rank's virtual clock while the host says has_virtual_wtime, else
 * the MPI library's own. No mark: reading a clock is no communication, and the host's reading has
 * its cost. The Fortran entry points are the C functions: that is what those of MPICH and of Open
 * MPI call, and they return the same double. */

typedef double reader(void);

#define NS 1e-9

static const pagewire_marks_host *virtual_host(void)
{
    const pagewire_marks_host *host = atomic_load_explicit(&pw_marks_host, memory_order_acquire);
    return host && host->has_virtual_wtime ? host : NULL;
}

PW_MARKS_EXPORTED double MPI_Wtime(void)
{
    static _Atomic(void *) own;
    const pagewire_marks_host *host = virtual_host();
    if (host) return (double)virtual_ns(host, pw_marks_frame()) * NS;
    return ((reader *)pw_marks_own(&own, "MPI_Wtime\0PMPI_Wtime\0"))();
}

PW_MARKS_EXPORTED double MPI_Wtick(void)
{
    static _Atomic(void *) own;
    if (virtual_host()) return NS;
    return ((reader *)pw_marks_own(&own, "MPI_Wtick\0PMPI_Wtick\0"))();
}

#define EXPORTED_ALIAS(type, name, own) PW_MARKS_EXPORTED type name __attribute__((alias(#own)));

typedef void writer(double *value);

/* The last four: Open MPI's `use mpi` reads them through these. */
#define FORTRAN(lower, UPPER, own)                                               \
    EXPORTED_ALIAS(reader, mpi_##lower##_, own)                                  \
    EXPORTED_ALIAS(reader, mpi_##lower##__, own)                                 \
    EXPORTED_ALIAS(reader, mpi_##lower, own)                                     \
    EXPORTED_ALIAS(reader, MPI_##UPPER, own)                                     \
    EXPORTED_ALIAS(reader, mpi_##lower##_f08_, own)                              \
    EXPORTED_ALIAS(reader, ompi_##lower##_f, own)                                \
    PW_MARKS_EXPORTED void mpi_##lower##_f90_(double *value) { *value = own(); } \
    EXPORTED_ALIAS(writer, mpi_##lower##_f90__, mpi_##lower##_f90_)              \
    EXPORTED_ALIAS(writer, mpi_##lower##_f90, mpi_##lower##_f90_)                \
    EXPORTED_ALIAS(writer, MPI_##UPPER##_F90, mpi_##lower##_f90_)
FORTRAN(wtime, WTIME, MPI_Wtime)
FORTRAN(wtick, WTICK, MPI_Wtick)
