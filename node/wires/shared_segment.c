#include "node/wires/shared_segment.h"
#include <errno.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

uint8_t *pw_owner_page_create(void)
{
    uint8_t *page =
        mmap(NULL, PW_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return NULL;
    if (madvise(page, PW_PAGE_BYTES, MADV_WIPEONFORK)) {
        const int saved = errno;
        munmap(page, PW_PAGE_BYTES);
        errno = saved;
        return NULL;
    }
    *page = 1;
    return page;
}

void pw_owner_page_destroy(uint8_t *page)
{
    if (page) munmap(page, PW_PAGE_BYTES);
}

#define EXTEND_BYTES ((size_t)8 << 20) /* by so much at least: a system call each time */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3; vm.memfd_noexec = 2 wants it */
#endif

/* Close, keeping the errno of what failed before. */
static void close_quietly(int fd)
{
    const int saved = errno;
    close(fd);
    errno = saved;
}

static int read_boot_id(char *out, size_t room)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return PW_ERR_HOST;
    const ssize_t num_read = read(fd, out, room - 1);
    close_quietly(fd);
    if (num_read <= 0) return PW_ERR_HOST;
    out[num_read] = 0;
    return PW_OK;
}

int pw_segment_find_facts(pw_segment_facts *out)
{
    struct stat namespace;
    pw_segment_facts found = {.fd = -1, .pid = getpid()};
    if (read_boot_id(found.boot_id, sizeof found.boot_id)) return PW_ERR_HOST;
    if (stat("/proc/self/ns/pid", &namespace)) return PW_ERR_HOST;
    found.pid_namespace = namespace.st_ino;
    if (getrandom(found.nonce, sizeof found.nonce, 0) != (ssize_t)sizeof found.nonce)
        return PW_ERR_HOST;
    *out = found;
    return PW_OK;
}

/* A memfd of that size that can no longer be made smaller: then an access cannot raise SIGBUS. */
static int make_file(size_t num_bytes)
{
    struct rlimit limit;
    /* ftruncate beyond this one ends the process by SIGXFSZ. */
    if (!getrlimit(RLIMIT_FSIZE, &limit) && num_bytes > limit.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("pagewire", flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create("pagewire", flags);
    if (fd < 0) return -1;
    if (ftruncate(fd, (off_t)num_bytes) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        close_quietly(fd);
        return -1;
    }
    return fd;
}

static int map_file(int fd, size_t num_bytes, size_t reachable_bytes, pw_segment *out)
{
    void *base = mmap(NULL, num_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) return PW_ERR_HOST;
    if (mprotect(base, reachable_bytes, PROT_READ | PROT_WRITE)) {
        const int saved = errno;
        munmap(base, num_bytes);
        errno = saved;
        return PW_ERR_HOST;
    }
    madvise(base, num_bytes, MADV_DONTDUMP); /* a core file is right without, only larger */
    *out = (pw_segment){base, num_bytes, reachable_bytes};
    return PW_OK;
}

int pw_segment_create(size_t num_bytes, size_t reachable_bytes, pw_segment *out,
                      pw_segment_facts *facts)
{
    struct stat file;
    pw_segment_facts found;
    pw_segment made;
    if (pw_segment_find_facts(&found)) return PW_ERR_HOST;
    int fd = make_file(num_bytes);
    if (fd < 0) return PW_ERR_HOST;
    if (fstat(fd, &file) || map_file(fd, num_bytes, reachable_bytes, &made)) {
        close_quietly(fd);
        return PW_ERR_HOST;
    }
    pw_segment_header *header = (void *)made.base;
    memcpy(header->nonce, found.nonce, sizeof header->nonce);
    found.device = file.st_dev;
    found.inode = file.st_ino;
    found.num_bytes = num_bytes;
    found.fd = fd;
    *out = made;
    *facts = found;
    return PW_OK;
}

/* Opens nothing that is not the file that was announced: the number may be another process's; nor
 * one that its maker could make smaller, when an access would raise SIGBUS. */
static int open_file(const pw_segment_facts *theirs)
{
    char path[64];
    struct stat file;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", theirs->pid, theirs->fd);
    if (stat(path, &file)) return -1;
    if (file.st_dev != theirs->device || file.st_ino != theirs->inode ||
        (uint64_t)file.st_size != theirs->num_bytes) {
        errno = ENXIO;
        return -1;
    }
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    const int seals = fd < 0 ? 0 : fcntl(fd, F_GET_SEALS);
    if (fd < 0 || (seals >= 0 && seals & F_SEAL_SHRINK)) return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

int pw_segment_attach(const pw_segment_facts *theirs, const pw_segment_facts *mine,
                      size_t reachable_bytes, pw_segment *out)
{
    pw_segment found;
    if (!theirs->pid || !mine->pid || theirs->pid_namespace != mine->pid_namespace ||
        memcmp(theirs->boot_id, mine->boot_id, sizeof mine->boot_id) != 0) {
        errno = EXDEV;
        return PW_ERR_HOST;
    }
    int fd = open_file(theirs);
    if (fd < 0) return PW_ERR_HOST;
    const int code = map_file(fd, theirs->num_bytes, reachable_bytes, &found);
    close_quietly(fd);
    if (code) return code;
    const pw_segment_header *header = (const void *)found.base;
    if (memcmp(header->nonce, theirs->nonce, sizeof header->nonce) != 0) {
        pw_segment_detach(&found);
        errno = ENXIO;
        return PW_ERR_HOST;
    }
    *out = found;
    return PW_OK;
}

void pw_segment_detach(pw_segment *segment)
{
    if (segment->base) munmap(segment->base, segment->num_bytes);
    *segment = (pw_segment){0};
}

int pw_segment_extend(pw_segment *segment, size_t offset, size_t num_bytes)
{
    if (offset > segment->num_bytes || num_bytes > segment->num_bytes - offset)
        return PW_ERR_INVALID;
    const size_t end = offset + num_bytes;
    size_t reach = segment->reachable_bytes;
    while (reach < end) reach += EXTEND_BYTES;
    if (reach > segment->num_bytes) reach = segment->num_bytes;
    if (mprotect(segment->base, reach, PROT_READ | PROT_WRITE)) return PW_ERR_HOST;
    segment->reachable_bytes = reach;
    return PW_OK;
}
