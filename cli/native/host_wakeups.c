#include "cli/native/host_wakeups.h"
#include <errno.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    uint32_t which;
    int ends[2];              /* sockets, sending first; or an eventfd twice */
    struct sockaddr_nl peer;  /* of the waiting socket */
    _Atomic uint32_t word;    /* of the futex: how often it was sent to */
    uint32_t seen;            /* by the waiting thread */
    _Atomic uint64_t woke_ns; /* 0: not yet */
    atomic_bool is_over;
    _Atomic int reason; /* errno of the waiting thread's call; 0: it did not fail */
    int core;
} ends;

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int stay_on(int core)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET((size_t)core, &cores);
    return pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

static bool send_one(ends *at)
{
    static const char message[PW_HOST_NETLINK_BYTES];
    uint64_t one = 1;
    switch (at->which) {
    case PW_HOST_WAKE_EVENTFD: return write(at->ends[0], &one, sizeof one) == sizeof one;
    case PW_HOST_WAKE_FUTEX:
        atomic_fetch_add(&at->word, 1);
        return syscall(SYS_futex, &at->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) >= 0;
    default:
        return sendto(at->ends[0], message, sizeof message, 0, (struct sockaddr *)&at->peer,
                      sizeof at->peer) == sizeof message;
    }
}

static bool wait_for_one(ends *at)
{
    char message[PW_HOST_NETLINK_BYTES];
    uint64_t count;
    switch (at->which) {
    case PW_HOST_WAKE_EVENTFD: return read(at->ends[1], &count, sizeof count) == sizeof count;
    case PW_HOST_WAKE_FUTEX:
        while (atomic_load(&at->word) == at->seen)
            if (syscall(SYS_futex, &at->word, FUTEX_WAIT_PRIVATE, at->seen, NULL, NULL, 0) &&
                errno != EAGAIN && errno != EINTR)
                return false;
        at->seen++;
        return true;
    default: return recv(at->ends[1], message, sizeof message, 0) == sizeof message;
    }
}

static void *waiting(void *argument)
{
    ends *at = argument;
    int reason = stay_on(at->core);
    if (reason) atomic_store(&at->reason, reason);
    for (;;) {
        if (!reason && !wait_for_one(at)) {
            reason = errno ? errno : EIO;
            atomic_store(&at->reason, reason);
        }
        if (reason || atomic_load(&at->is_over)) return NULL;
        atomic_store(&at->woke_ns, now_ns());
    }
}

static int open_sockets(ends *at)
{
    socklen_t length = sizeof at->peer;
    struct sockaddr_nl any = {.nl_family = AF_NETLINK};
    for (int i = 0; i < 2; i++) {
        at->ends[i] = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
        if (at->ends[i] < 0) return PW_ERR_HOST;
        if (bind(at->ends[i], (struct sockaddr *)&any, sizeof any)) return PW_ERR_HOST;
    }
    /* Should sending be refused, the waiting thread ends all the same. */
    const struct timeval patience = {.tv_sec = 2};
    if (setsockopt(at->ends[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience))
        return PW_ERR_HOST;
    if (getsockname(at->ends[1], (struct sockaddr *)&at->peer, &length)) return PW_ERR_HOST;
    return PW_OK;
}

static int open_ends(ends *at)
{
    if (at->which == PW_HOST_WAKE_NETLINK) return open_sockets(at);
    if (at->which == PW_HOST_WAKE_EVENTFD) at->ends[0] = at->ends[1] = eventfd(0, EFD_CLOEXEC);
    return at->which == PW_HOST_WAKE_EVENTFD && at->ends[0] < 0 ? PW_ERR_HOST : PW_OK;
}

static void close_ends(const ends *at)
{
    if (at->ends[0] >= 0) close(at->ends[0]);
    if (at->ends[1] >= 0 && at->ends[1] != at->ends[0]) close(at->ends[1]);
}

static int take(ends *at, uint64_t pause_ns, uint64_t budget_ns, uint32_t num_samples,
                double *sending_ns, double *waking_ns)
{
    const struct timespec pause = {(time_t)(pause_ns / 1000000000), (long)(pause_ns % 1000000000)};
    uint64_t begun_ns = now_ns();
    for (uint32_t taken = 0;;) {
        nanosleep(&pause, NULL);
        atomic_store(&at->woke_ns, 0);
        uint64_t sent_ns = now_ns();
        if (!send_one(at)) return PW_ERR_HOST;
        uint64_t back_ns = now_ns(), woke_ns;
        while (!(woke_ns = atomic_load(&at->woke_ns))) {
            errno = atomic_load(&at->reason);
            if (errno) return PW_ERR_HOST;
            sched_yield();
        }
        sending_ns[taken] = (double)(back_ns - sent_ns);
        waking_ns[taken] = woke_ns > back_ns ? (double)(woke_ns - back_ns) : 0;
        if (++taken == num_samples || now_ns() - begun_ns > budget_ns) return (int)taken;
    }
}

int pw_host_wakeup_samples(uint32_t which, int sending_core, int waiting_core, uint64_t pause_ns,
                           uint64_t budget_ns, uint32_t num_samples, double *sending_ns,
                           double *waking_ns)
{
    if (which > PW_HOST_WAKE_NETLINK || num_samples == 0 || num_samples > INT32_MAX ||
        sending_core < 0 || sending_core >= CPU_SETSIZE || waiting_core < 0 ||
        waiting_core >= CPU_SETSIZE)
        return PW_ERR_INVALID;
    ends at = {.which = which, .ends = {-1, -1}, .core = waiting_core};
    cpu_set_t before;
    pthread_t thread;
    int code = open_ends(&at);
    if (!code && (errno = pthread_getaffinity_np(pthread_self(), sizeof before, &before)))
        code = PW_ERR_HOST;
    if (!code && (errno = pthread_create(&thread, NULL, waiting, &at))) code = PW_ERR_HOST;
    if (!code) {
        errno = stay_on(sending_core);
        code = errno ? PW_ERR_HOST
                     : take(&at, pause_ns, budget_ns, num_samples, sending_ns, waking_ns);
        int reason = errno;
        atomic_store(&at.is_over, true);
        send_one(&at);
        pthread_join(thread, NULL);
        pthread_setaffinity_np(pthread_self(), sizeof before, &before);
        errno = reason;
    }
    int reason = errno;
    close_ends(&at);
    errno = reason;
    return code;
}
