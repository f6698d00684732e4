#include "native/memory_events.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#ifndef PR_GET_MEMORY_MERGE
#define PR_GET_MEMORY_MERGE 68 /* since Linux 6.4 */
#endif

#define PAGES_END ((uint64_t)1 << (64 - PW_PAGE_SHIFT))

/* An event that is being written has the number 0: to a reader it is as one no longer kept. */
typedef struct {
    atomic_uint_fast64_t number;
    atomic_uint_fast64_t first_page, end_page;
} event;

static struct {
    event kept[PW_MEMORY_EVENTS_KEPT];
    atomic_uint_fast64_t count;
    atomic_bool are_vain, tell_protection;
    pthread_once_t once;
    const char *refused;
} events = {.once = PTHREAD_ONCE_INIT};

static void note(uint64_t first_page, uint64_t end_page)
{
    const uint64_t number = atomic_fetch_add(&events.count, 1) + 1;
    event *each = &events.kept[number % PW_MEMORY_EVENTS_KEPT];
    atomic_store(&each->number, 0);
    atomic_store(&each->first_page, first_page);
    atomic_store(&each->end_page, end_page);
    atomic_store(&each->number, number);
}

static void note_bytes(const void *address, size_t num_bytes)
{
    const uint64_t first = (uintptr_t)address, end = first + num_bytes;
    note(first >> PW_PAGE_SHIFT,
         end < first ? PAGES_END : (end + PW_PAGE_BYTES - 1) >> PW_PAGE_SHIFT);
}

static void note_fork(void) { note(0, PAGES_END); }

uint64_t pw_memory_events_count(void) { return atomic_load(&events.count); }
bool pw_memory_events_are_vain(void) { return atomic_load(&events.are_vain); }
bool pw_memory_events_tell_protection(void) { return atomic_load(&events.tell_protection); }

void pw_memory_events_read(uint64_t *num_seen, uint64_t *first_page, uint64_t *end_page)
{
    const uint64_t count = pw_memory_events_count(), number = *num_seen + 1;
    event *each = &events.kept[number % PW_MEMORY_EVENTS_KEPT];
    const bool is_kept = atomic_load(&each->number) == number;
    *first_page = atomic_load(&each->first_page);
    *end_page = atomic_load(&each->end_page);
    *num_seen = number;
    if (is_kept && atomic_load(&each->number) == number) return;
    *first_page = 0;
    *end_page = PAGES_END;
    *num_seen = count;
}

/* ---- libucm: ucm/api/ucm.h */

#define UCM_MADVISE 0x40
#define UCM_MAPPED 0x10000
#define UCM_UNMAPPED 0x20000
#define BEFORE_THE_CALL (-1) /* a priority */

typedef union {
    struct {
        int result;
        void *address;
        size_t num_bytes;
        int advice;
    } madvise;
    struct {
        void *address;
        size_t num_bytes;
    } pages; /* mapped, or about to be unmapped */
} ucm_event;

typedef int ucm_set_handler(int kinds, int priority, void (*handler)(int, ucm_event *, void *),
                            void *argument);

static void listen(int kind, ucm_event *told, void *unused)
{
    (void)unused;
    if (kind != UCM_MADVISE) {
        note_bytes(told->pages.address, told->pages.num_bytes);
        return;
    }
    if (told->madvise.advice == MADV_FREE || told->madvise.advice == MADV_MERGEABLE)
        atomic_store(&events.are_vain, true);
    note_bytes(told->madvise.address, told->madvise.num_bytes);
}

/* libucm wants libucs, which must be found by name; its signal handlers are not wanted. */
static void *open_in(const char *folder)
{
    char path[PATH_MAX];
    const bool is_set = getenv("UCX_HANDLE_ERRORS") != NULL;
    if (!is_set) setenv("UCX_HANDLE_ERRORS", "none", 0);
    void *ucm = NULL;
    snprintf(path, sizeof path, "%slibucs.so.0", folder);
    if (dlopen(path, RTLD_NOW | RTLD_GLOBAL)) {
        snprintf(path, sizeof path, "%slibucm.so.0", folder);
        ucm = dlopen(path, RTLD_NOW | RTLD_NODELETE);
    }
    if (!is_set) unsetenv("UCX_HANDLE_ERRORS");
    return ucm;
}

/* The folder of the MPI library, whose wheels have libucm below it. */
static int find_mpi(struct dl_phdr_info *info, size_t num_bytes, void *folder)
{
    (void)num_bytes;
    const char *slash = strrchr(info->dlpi_name, '/');
    if (!slash || strncmp(slash, "/libmpi.", 8) != 0 || slash - info->dlpi_name >= PATH_MAX)
        return 0;
    snprintf(folder, PATH_MAX, "%.*s", (int)(slash - info->dlpi_name), info->dlpi_name);
    return 1;
}

static void *open_ucm(void)
{
    static const char *const inside[] = {"/mpich/", "/openmpi/", "/"};
    char mpi[PATH_MAX] = "", folder[PATH_MAX + 16];
    void *ucm = NULL;
    dl_iterate_phdr(find_mpi, mpi);
    for (size_t i = 0; *mpi && !ucm && i < sizeof inside / sizeof *inside; i++) {
        snprintf(folder, sizeof folder, "%s%s", mpi, inside[i]);
        ucm = open_in(folder);
    }
    return ucm ? ucm : open_in("");
}

/* ---- mprotect */

#if defined __x86_64__

static int mprotect_and_note(void *address, size_t num_bytes, int protection)
{
    note_bytes(address, num_bytes);
    return (int)syscall(SYS_mprotect, address, num_bytes, protection);
}

static int pkey_mprotect_and_note(void *address, size_t num_bytes, int protection, int key)
{
    note_bytes(address, num_bytes);
    return (int)syscall(SYS_pkey_mprotect, address, num_bytes, protection, key);
}

#define JUMP_BYTES 14 /* the wrapper is longer */

/* Is it the C library's wrapper, which nobody has changed? Near its start: mov $number, %eax;
 * syscall.
 */
static bool is_wrapper(const uint8_t *function, uint32_t number)
{
    uint8_t call[] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05};
    memcpy(call + 1, &number, sizeof number);
    return memmem(function, 2 * sizeof call + 1, call, sizeof call) != NULL;
}

/* From its first byte on it jumps to the other: jmp *0(%rip), and the address. The file writes
 * where the page may not be written. */
static bool replace(const char *name, uint32_t number, uintptr_t by)
{
    uint8_t jump[JUMP_BYTES] = {0xff, 0x25};
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) function = dlsym(RTLD_DEFAULT, name);
    if (!function || !is_wrapper(function, number)) return false;
    memcpy(jump + 6, &by, sizeof by);
    const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (memory < 0) return false;
    const ssize_t written = pwrite(memory, jump, sizeof jump, (off_t)(uintptr_t)function);
    close(memory);
    return written == (ssize_t)sizeof jump;
}

static bool watch_protection(void)
{
    return replace("pkey_mprotect", SYS_pkey_mprotect, (uintptr_t)pkey_mprotect_and_note) &&
           replace("mprotect", SYS_mprotect, (uintptr_t)mprotect_and_note);
}

#else

static bool watch_protection(void) { return false; }

#endif

/* ---- beginning */

/* A mapping comes and goes, and is advised: is all of it told? */
static bool is_told(void)
{
    uint64_t before = pw_memory_events_count();
    char *page = mmap(NULL, PW_PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    madvise(page, PW_PAGE_BYTES, MADV_DONTNEED);
    const bool is_advice_told = pw_memory_events_count() > before + 1;
    before = pw_memory_events_count();
    mprotect(page, PW_PAGE_BYTES, PROT_NONE);
    atomic_store(&events.tell_protection, pw_memory_events_count() > before);
    before = pw_memory_events_count();
    munmap(page, PW_PAGE_BYTES);
    return is_advice_told && pw_memory_events_count() > before;
}

static bool is_limit(const char *path)
{
    char line[32] = "max";
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const bool is_read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    return is_read && strncmp(line, "max", 3) != 0;
}

/* memory.high of this process's control group (version 2), or of one above. */
static bool is_limited(void)
{
    char line[PATH_MAX] = "", path[PATH_MAX + 64];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file) && strncmp(line, "0::/", 4) != 0) line[0] = '\0';
    if (file) fclose(file);
    line[strcspn(line, "\n")] = '\0';
    for (char *last; *line && (last = strrchr(line + 3, '/')); *last = '\0') {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.high", line + 3);
        if (is_limit(path)) return true;
    }
    return false;
}

/* Pages of private memory stay where the kernel has nowhere to put them. */
static const char *who_takes_pages(void)
{
    struct sysinfo host;
    if (sysinfo(&host) || host.totalswap)
        return "swap is on, so the kernel takes pages without a word; swapoff -a";
    if (prctl(PR_GET_MEMORY_MERGE, 0, 0, 0, 0) == 1)
        return "KSM merges this process's pages without a word; PR_SET_MEMORY_MERGE off";
    if (is_limited()) return "memory.high limits this process's control group; set it to max";
    return NULL;
}

static void begin(void)
{
    events.refused = who_takes_pages();
    if (events.refused) return;
    void *ucm = open_ucm();
    ucm_set_handler *set = NULL;
    if (ucm) *(void **)&set = dlsym(ucm, "ucm_set_event_handler");
    events.refused =
        "there is no libucm with libucs; take the wheel mpich, or apt-get install libucx0";
    if (!set) return;
    events.refused = "libucm cannot watch this process";
    if (set(UCM_MAPPED | UCM_UNMAPPED | UCM_MADVISE, BEFORE_THE_CALL, listen, NULL)) return;
    watch_protection();
    if (!is_told()) return;
    events.refused = "pthread_atfork failed";
    if (!pthread_atfork(note_fork, note_fork, note_fork)) events.refused = NULL;
}

const char *pw_memory_events_begin(void)
{
    pthread_once(&events.once, begin);
    return events.refused;
}
