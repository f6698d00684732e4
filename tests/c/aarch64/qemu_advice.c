/* qemu's user mode says yes to every advice, and does nothing: here MADV_POPULATE_* touches,
 * MADV_COLD finds locked pages, and MADV_WIPEONFORK wipes in the child. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define COLD 20
#define POPULATE_READ 22
#define POPULATE_WRITE 23
#define WIPED_MAX 64

static int nothing; /* /dev/null */
static struct {
    void *bytes; /* NULL: free */
    size_t num_bytes;
} wiped[WIPED_MAX];

static int fail(int error)
{
    errno = error;
    return -1;
}

/* A system call first: where a page cannot be read or written, that is its error and no signal. */
static int touch(_Atomic char *byte, bool for_write)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return -1;
    const bool is_read = write(ends[1], (char *)byte, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    if (!is_read) return fail(EFAULT);
    if (!for_write) return 0;
    if (read(nothing, (char *)byte, 1) < 0) return fail(EINVAL); /* qemu looks at the mapping */
    *byte |= 0;
    return 0;
}

static int populate(char *bytes, size_t num_bytes, bool for_write)
{
    unsigned char state;
    for (size_t i = 0; i < num_bytes; i += PAGE_BYTES) {
        if (mincore(bytes + i, 1, &state)) return -1;
        if (touch((_Atomic char *)bytes + i, for_write)) return -1;
    }
    return 0;
}

static bool is_locked(uintptr_t address)
{
    char line[512];
    unsigned long first, end;
    bool is_here = false, is_found = false;
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file && !is_found && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &first, &end) == 2)
            is_here = first <= address && address < end;
        else is_found = is_here && !strncmp(line, "VmFlags:", 8) && strstr(line, " lo");
    }
    if (file) fclose(file);
    return is_found;
}

static int cool(char *bytes)
{
    unsigned char state;
    if (mincore(bytes, 1, &state)) return -1;
    return is_locked((uintptr_t)bytes) ? fail(EINVAL) : 0;
}

static int wipe_on_fork(void *bytes, size_t num_bytes)
{
    for (int i = 0; i < WIPED_MAX; i++) {
        if (wiped[i].bytes) continue;
        wiped[i].bytes = bytes;
        wiped[i].num_bytes = num_bytes;
        return 0;
    }
    return fail(ENOMEM);
}

static void wipe(void)
{
    for (int i = 0; i < WIPED_MAX; i++)
        if (wiped[i].bytes) memset(wiped[i].bytes, 0, wiped[i].num_bytes);
}

__attribute__((constructor)) static void begin(void)
{
    nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || pthread_atfork(NULL, NULL, wipe)) _exit(126);
}

int munmap(void *address, size_t num_bytes)
{
    for (int i = 0; i < WIPED_MAX; i++)
        if (wiped[i].bytes == address) wiped[i].bytes = NULL;
    return (int)syscall(SYS_munmap, address, num_bytes);
}

int madvise(void *address, size_t num_bytes, int advice)
{
    switch (advice) {
    case POPULATE_READ: return populate(address, num_bytes, false);
    case POPULATE_WRITE: return populate(address, num_bytes, true);
    case COLD: return cool(address);
    case MADV_WIPEONFORK: return wipe_on_fork(address, num_bytes);
    default: return (int)syscall(SYS_madvise, address, num_bytes, advice);
    }
}
