#include "cli/native/host_costs.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define COLD_BYTES ((size_t)64 << 20) /* of each range: more than most caches hold */
#define BATCH_NS 20e3                 /* so long that reading the clock does not count */
#define CLOCK_READS 200
#define REFUSALS_MAX 16
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14; older headers lack it */
#endif

typedef struct {
    unsigned char *area, *other;
    size_t num_bytes, area_bytes;
    size_t cold_at; /* offset of the next cold copy, or page of a file */
    int file;
    double clock_ns;
} place;

/* 0; PW_ERR_HOST; or PW_ERR_FULL: this sample is none. */
typedef int step(place *at);

typedef struct {
    step *prepare, *run, *undo;
    bool is_batched;
} operation;

static uint64_t whole_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static double now_ns(void) { return (double)whole_ns(); }

static int of_call(int result) { return result == 0 ? PW_OK : PW_ERR_HOST; }

static int nothing(place *at)
{
    (void)at;
    return PW_OK;
}

static int read_clock(place *at)
{
    (void)at;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    __asm__ volatile("" : : "r"(&time) : "memory");
    return PW_OK;
}

static int touch(place *at)
{
    volatile unsigned char *area = at->area;
    for (size_t i = 0; i < at->num_bytes; i += PW_PAGE_BYTES)
        area[i] = (unsigned char)(area[i] + 1);
    return PW_OK;
}

static int drop(place *at) { return of_call(madvise(at->area, at->num_bytes, MADV_DONTNEED)); }
static int pin(place *at) { return of_call(mlock(at->area, at->num_bytes)); }
static int unpin(place *at) { return of_call(munlock(at->area, at->num_bytes)); }
static int page_in(place *at)
{
    return of_call(madvise(at->area, at->num_bytes, MADV_POPULATE_WRITE));
}
static int touch_and_pin(place *at)
{
    touch(at);
    return pin(at);
}

/* A huge page came when the last of its small pages is there, though the first alone was touched.
 */
static int huge_came(place *at)
{
    unsigned char is_there = 0;
    void *last = at->area + at->num_bytes - PW_PAGE_BYTES;
    if (mincore(last, PW_PAGE_BYTES, &is_there)) return PW_ERR_HOST;
    return is_there & 1 ? PW_OK : PW_ERR_FULL;
}
static int touch_huge(place *at)
{
    volatile unsigned char *area = at->area;
    for (size_t i = 0; i < at->num_bytes; i += PW_HOST_HUGE_BYTES) area[i] = 1;
    return PW_OK;
}

static int map(place *at)
{
    void *made =
        mmap(NULL, at->num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return PW_ERR_HOST;
    at->other = made;
    return PW_OK;
}
static int map_and_touch(place *at)
{
    int code = map(at);
    if (code) return code;
    if (madvise(at->other, at->num_bytes, MADV_NOHUGEPAGE) && errno != EINVAL) return PW_ERR_HOST;
    memset(at->other, 1, at->num_bytes);
    return PW_OK;
}
static int unmap(place *at) { return of_call(munmap(at->other, at->num_bytes)); }

static int copy(place *at)
{
    memcpy(at->other, at->area, at->num_bytes);
    __asm__ volatile("" : : "r"(at->other) : "memory");
    return PW_OK;
}
static int copy_cold(place *at)
{
    memcpy(at->other + at->cold_at, at->area + at->cold_at, at->num_bytes);
    atomic_thread_fence(memory_order_seq_cst); /* a short one would still be under way */
    return PW_OK;
}
/* The next range, on pages of its own. */
static int move_on(place *at)
{
    at->cold_at += (at->num_bytes / PW_PAGE_BYTES + 1) * PW_PAGE_BYTES;
    if (at->cold_at + at->num_bytes > at->area_bytes) at->cold_at = 0;
    return PW_OK;
}

/* Which pages come next is no order that a disk reads ahead in. */
static unsigned char *file_page(place *at)
{
    size_t num_pages = at->num_bytes / PW_PAGE_BYTES;
    return at->area + at->cold_at * 37 % num_pages * PW_PAGE_BYTES;
}
static int file_page_is_there(place *at, bool *is_there)
{
    unsigned char found = 0;
    if (mincore(file_page(at), PW_PAGE_BYTES, &found)) return PW_ERR_HOST;
    *is_there = found & 1;
    return PW_OK;
}
static int prepare_file_in(place *at)
{
    at->cold_at++;
    (void)*(volatile unsigned char *)file_page(at);
    return of_call(madvise(file_page(at), PW_PAGE_BYTES, MADV_DONTNEED));
}
/* The whole file leaves the cache: a file system keeps pages in larger folios, which do not go in
 * part. */
static int prepare_file_out(place *at)
{
    at->cold_at++;
    bool is_there = true;
    if (madvise(at->area, at->num_bytes, MADV_DONTNEED)) return PW_ERR_HOST;
    errno = posix_fadvise(at->file, 0, 0, POSIX_FADV_DONTNEED);
    if (errno || file_page_is_there(at, &is_there)) return PW_ERR_HOST;
    return is_there ? PW_ERR_FULL : PW_OK;
}
static int touch_file(place *at)
{
    (void)*(volatile unsigned char *)file_page(at);
    return PW_OK;
}

static const operation operations[] = {
    [PW_HOST_CLOCK] = {nothing, read_clock, nothing, true},
    [PW_HOST_TOUCH_RESIDENT] = {nothing, touch, nothing, true},
    [PW_HOST_TOUCH_ABSENT] = {drop, touch, nothing, false},
    [PW_HOST_TOUCH_HUGE] = {drop, touch_huge, huge_came, false},
    [PW_HOST_PIN_RESIDENT] = {touch, pin, unpin, false},
    [PW_HOST_PIN_ABSENT] = {drop, pin, unpin, false},
    [PW_HOST_UNPIN] = {touch_and_pin, unpin, nothing, false},
    [PW_HOST_MMAP] = {nothing, map, unmap, false},
    [PW_HOST_MUNMAP] = {map_and_touch, unmap, nothing, false},
    [PW_HOST_PAGE_IN] = {drop, page_in, nothing, false},
    [PW_HOST_COPY_WARM] = {nothing, copy, nothing, true},
    [PW_HOST_COPY_COLD] = {move_on, copy_cold, nothing, false},
    [PW_HOST_TOUCH_FILE] = {prepare_file_in, touch_file, nothing, false},
    [PW_HOST_TOUCH_FILE_OUT] = {prepare_file_out, touch_file, nothing, false},
};

static bool is_of_file(uint32_t which)
{
    return which == PW_HOST_TOUCH_FILE || which == PW_HOST_TOUCH_FILE_OUT;
}

static bool copies(uint32_t which)
{
    return which == PW_HOST_COPY_WARM || which == PW_HOST_COPY_COLD;
}

/* A mapping that begins at a huge page's address; NULL: errno tells why. */
static void *aligned(size_t num_bytes)
{
    size_t whole = num_bytes + PW_HOST_HUGE_BYTES;
    unsigned char *made =
        mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return NULL;
    size_t before = PW_HOST_HUGE_BYTES - (uintptr_t)made % PW_HOST_HUGE_BYTES;
    munmap(made, before);
    if (before < PW_HOST_HUGE_BYTES) munmap(made + before + num_bytes, PW_HOST_HUGE_BYTES - before);
    return made + before;
}

static int open_place(place *at, uint32_t which)
{
    if (which == PW_HOST_CLOCK) return PW_OK;
    if (is_of_file(which)) {
        void *made = mmap(NULL, at->num_bytes, PROT_READ, MAP_SHARED, at->file, 0);
        if (made == MAP_FAILED) return PW_ERR_HOST;
        at->area = made;
        at->area_bytes = at->num_bytes;
        return of_call(madvise(at->area, at->num_bytes, MADV_RANDOM));
    }
    size_t pages = (at->num_bytes + PW_PAGE_BYTES - 1) / PW_PAGE_BYTES * PW_PAGE_BYTES;
    at->area_bytes = which == PW_HOST_COPY_COLD && pages < COLD_BYTES ? COLD_BYTES : pages;
    at->area = aligned(at->area_bytes);
    if (!at->area) return PW_ERR_HOST;
    /* Kernels without huge pages know neither advice. */
    int advice = which == PW_HOST_TOUCH_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
    if (madvise(at->area, at->area_bytes, advice))
        if (errno != EINVAL || which == PW_HOST_TOUCH_HUGE) return PW_ERR_HOST;
    if (!copies(which)) return PW_OK;
    at->other = aligned(at->area_bytes);
    if (!at->other) return PW_ERR_HOST;
    memset(at->area, 1, at->area_bytes);
    memset(at->other, 1, at->area_bytes);
    return PW_OK;
}

static void close_place(place *at, uint32_t which)
{
    if (at->area) munmap(at->area, at->area_bytes);
    if (copies(which) && at->other) munmap(at->other, at->area_bytes);
}

static double clock_cost_ns(void)
{
    double least = 1e9;
    for (int i = 0; i < CLOCK_READS; i++) {
        double begun_ns = now_ns(), cost_ns = now_ns() - begun_ns;
        if (cost_ns < least) least = cost_ns;
    }
    return least;
}

/* One sample: repeats of the operation in a row, together. */
static int time_of(const operation *each, place *at, uint64_t repeats, double *elapsed_ns)
{
    int code = each->prepare(at);
    if (code) return code;
    double begun_ns = now_ns();
    for (uint64_t i = 0; i < repeats && !code; i++) code = each->run(at);
    double spent_ns = now_ns() - begun_ns - at->clock_ns;
    int undone = each->undo(at);
    if (code || undone) return code ? code : undone;
    *elapsed_ns = spent_ns > 0 ? spent_ns : 0;
    return PW_OK;
}

static int take(const operation *each, place *at, uint64_t budget_ns, uint32_t num_samples,
                double *samples_ns)
{
    double begun_ns = now_ns(), elapsed_ns = 0;
    uint64_t repeats = 1;
    uint32_t taken = 0, refused = 0;
    while (taken < num_samples) {
        int code = time_of(each, at, repeats, &elapsed_ns);
        if (code == PW_ERR_FULL && ++refused <= REFUSALS_MAX) continue;
        if (code) return code;
        if (each->is_batched && elapsed_ns < BATCH_NS) {
            repeats *= 2;
            continue;
        }
        samples_ns[taken++] = elapsed_ns / (double)repeats;
        if (taken >= PW_HOST_SAMPLES_MIN && now_ns() - begun_ns > (double)budget_ns) break;
    }
    return (int)taken;
}

int pw_host_cost_samples(uint32_t which, size_t num_bytes, int file, uint64_t budget_ns,
                         uint32_t num_samples, double *samples_ns)
{
    if (which >= sizeof operations / sizeof *operations) return PW_ERR_INVALID;
    if (num_samples < PW_HOST_SAMPLES_MIN || num_samples > INT32_MAX) return PW_ERR_INVALID;
    if (which != PW_HOST_CLOCK && num_bytes == 0) return PW_ERR_INVALID;
    if (which == PW_HOST_TOUCH_HUGE && num_bytes % PW_HOST_HUGE_BYTES) return PW_ERR_INVALID;
    if (is_of_file(which) && num_bytes % PW_PAGE_BYTES) return PW_ERR_INVALID;
    place at = {.num_bytes = num_bytes, .file = file, .clock_ns = clock_cost_ns()};
    int code = open_place(&at, which);
    if (!code) code = take(&operations[which], &at, budget_ns, num_samples, samples_ns);
    int reason = errno;
    close_place(&at, which);
    errno = reason;
    return code;
}

/* --- wake-ups --- */

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
        atomic_store(&at->woke_ns, whole_ns());
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

static int take_wakeups(ends *at, uint64_t pause_ns, uint64_t budget_ns, uint32_t num_samples,
                        double *sending_ns, double *waking_ns)
{
    const struct timespec pause = {(time_t)(pause_ns / 1000000000), (long)(pause_ns % 1000000000)};
    uint64_t begun_ns = whole_ns();
    for (uint32_t taken = 0;;) {
        nanosleep(&pause, NULL);
        atomic_store(&at->woke_ns, 0);
        uint64_t sent_ns = whole_ns();
        if (!send_one(at)) return PW_ERR_HOST;
        uint64_t back_ns = whole_ns(), woke_ns;
        while (!(woke_ns = atomic_load(&at->woke_ns))) {
            errno = atomic_load(&at->reason);
            if (errno) return PW_ERR_HOST;
            sched_yield();
        }
        sending_ns[taken] = (double)(back_ns - sent_ns);
        waking_ns[taken] = woke_ns > back_ns ? (double)(woke_ns - back_ns) : 0;
        if (++taken == num_samples || whole_ns() - begun_ns > budget_ns) return (int)taken;
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
                     : take_wakeups(&at, pause_ns, budget_ns, num_samples, sending_ns, waking_ns);
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
