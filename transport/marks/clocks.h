/* The program's clocks while the host says has_virtual_clocks: a clock shows what it showed when
 * the host came, plus the rank's virtual time. When the host goes, the clocks run on from there
 * with real time, so that none goes backwards.
 *
 * Virtual for the program's own calls only: of threads that have called MPI, outside of MPI. The
 * MPI library, libfabric, the provider and threads that never call MPI (progress threads, but also
 * the workers of OpenMP) see real time. Real, too, are waits with a time limit (select, poll,
 * pthread_cond_timedwait, timers), CPU clocks, and file times; signals do not cut a virtual sleep
 * short. */
#ifndef PW_MARKS_CLOCKS_H
#define PW_MARKS_CLOCKS_H
#include <stdbool.h>
#include <time.h>

#include "transport/marks/marked.h"

#define PW_NS_PER_S 1000000000

/* Of pagewire_marks_attach: before the host is seen, and after it is not. */
void pw_clocks_start(const pagewire_marks_host *host);
void pw_clocks_stop(const pagewire_marks_host *host);

/* What the program shall see on a clock of the kernel: 0, or errno of the kernel's own. */
int pw_clocks_read(clockid_t id, struct timespec *now, uintptr_t frame);
/* The host that lets the time of a sleep pass on this clock, or NULL: the kernel does. */
const pagewire_marks_host *pw_clocks_sleeper(clockid_t id, uintptr_t frame);
/* Inside of a call of the host, whose own clocks are real. */
int64_t pw_clocks_virtual_ns(const pagewire_marks_host *host, uintptr_t frame);
void pw_clocks_sleep(const pagewire_marks_host *host, int64_t duration_ns, uintptr_t frame);

#endif
