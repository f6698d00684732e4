/* The C library's clocks and sleeps, as the program sees them (clocks.h). Where nothing is virtual
 * each does what the C library's own does. */
#include <errno.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "transport/marks/clocks.h"

#define OWN(name) ((__typeof__(&name))pw_marks_own(&own_##name, #name "\0"))

static _Atomic(void *) own_timespec_get, own_nanosleep, own_clock_nanosleep, own_usleep, own_sleep;

static bool is_valid(const struct timespec *request)
{
    return request->tv_sec >= 0 && request->tv_nsec >= 0 && request->tv_nsec < PW_NS_PER_S;
}

static int64_t in_ns(const struct timespec *request)
{
    return (int64_t)request->tv_sec * PW_NS_PER_S + request->tv_nsec;
}

PW_MARKS_EXPORTED int clock_gettime(clockid_t id, struct timespec *now)
{
    return pw_clocks_read(id, now, pw_marks_frame());
}

PW_MARKS_EXPORTED int timespec_get(struct timespec *now, int base)
{
    if (base != TIME_UTC) return OWN(timespec_get)(now, base);
    return pw_clocks_read(CLOCK_REALTIME, now, pw_marks_frame()) == 0 ? base : 0;
}

PW_MARKS_EXPORTED int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    const int result = pw_clocks_read(CLOCK_REALTIME, &precise, pw_marks_frame());
    if (result != 0) return result;
    if (zone) memset(zone, 0, sizeof(struct timezone)); /* as the GNU C library has it */
    *now = (struct timeval){precise.tv_sec, precise.tv_nsec / 1000};
    return 0;
}

PW_MARKS_EXPORTED time_t time(time_t *now)
{
    struct timespec coarse; /* the clock that the C library's own reads */
    if (pw_clocks_read(CLOCK_REALTIME_COARSE, &coarse, pw_marks_frame()) != 0) return -1;
    if (now) *now = coarse.tv_sec;
    return coarse.tv_sec;
}

PW_MARKS_EXPORTED int nanosleep(const struct timespec *request, struct timespec *remaining)
{
    const uintptr_t frame = pw_marks_frame();
    const pagewire_marks_host *host = pw_clocks_sleeper(CLOCK_REALTIME, frame);
    if (!host || !is_valid(request)) return OWN(nanosleep)(request, remaining);
    pw_clocks_sleep(host, in_ns(request), frame);
    return 0;
}

PW_MARKS_EXPORTED int clock_nanosleep(clockid_t id, int flags, const struct timespec *request,
                                      struct timespec *remaining)
{
    const uintptr_t frame = pw_marks_frame();
    const pagewire_marks_host *host = pw_clocks_sleeper(id, frame);
    if (!host || !is_valid(request)) return OWN(clock_nanosleep)(id, flags, request, remaining);
    int64_t duration_ns = in_ns(request);
    if (flags & TIMER_ABSTIME) {
        struct timespec now;
        const int result = pw_clocks_read(id, &now, frame);
        if (result != 0) return errno;
        duration_ns -= in_ns(&now);
    }
    pw_clocks_sleep(host, duration_ns, frame);
    return 0;
}

PW_MARKS_EXPORTED int usleep(useconds_t duration_us)
{
    const uintptr_t frame = pw_marks_frame();
    const pagewire_marks_host *host = pw_clocks_sleeper(CLOCK_REALTIME, frame);
    if (!host) return OWN(usleep)(duration_us);
    pw_clocks_sleep(host, (int64_t)duration_us * 1000, frame);
    return 0;
}

PW_MARKS_EXPORTED unsigned sleep(unsigned duration_s)
{
    const uintptr_t frame = pw_marks_frame();
    const pagewire_marks_host *host = pw_clocks_sleeper(CLOCK_REALTIME, frame);
    if (!host) return OWN(sleep)(duration_s);
    pw_clocks_sleep(host, (int64_t)duration_s * PW_NS_PER_S, frame);
    return 0;
}
