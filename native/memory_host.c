/* Page residency of the host: mincore, MADV_POPULATE_*, mlock, MADV_DONTNEED on this process's mappings.
 *
 * What mincore can and cannot tell: for anonymous memory, whether the page is in the page table (the
 * shared zero page counts, so a write to it may still fault); for a file or shared mapping, whether the
 * page is in the page cache, mapped here or not. With transparent huge pages one fault brings in 2 MB. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "native/memory_backend.h"

/* linux/mman.h, since Linux 5.14; older C libraries do not name them. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* linux/fs.h, since Linux 6.11. */
struct procmap_question {
    uint64_t size, flags, address;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t device_major, device_minor, name_size, build_id_size;
    uint64_t name_address, build_id_address;
};
_Static_assert(sizeof(struct procmap_question) == 104, "struct procmap_query of the kernel");
#define PROCMAP_QUESTION _IOWR('f', 17, struct procmap_question)
#define VMA_READABLE 0x01u
#define VMA_WRITABLE 0x02u
#define COVERING_OR_NEXT 0x10u

#define PAGES_A_CALL ((uint64_t)1 << 20) /* a call of mincore holds the map's lock */
#define PAGES_ON_STACK 4096

static inline void *address_of(uint64_t page)
{
    return (void *)(uintptr_t)(page << PW_PAGE_SHIFT);
}

static inline size_t bytes_of(uint64_t num_pages)
{
    return (size_t)num_pages << PW_PAGE_SHIFT;
}

/* The system calls themselves: AddressSanitizer replaces mlock and munlock by functions that do nothing. */
static int lock_pages(uint64_t first_page, uint64_t num_pages)
{
    return (int)syscall(SYS_mlock, address_of(first_page), bytes_of(num_pages));
}

static int unlock_pages(uint64_t first_page, uint64_t num_pages)
{
    return (int)syscall(SYS_munlock, address_of(first_page), bytes_of(num_pages));
}

/* How many pages at the start are mapped, with state filled that far, or PW_ERR_HOST. mincore does not
 * say where a hole is, so the longest range that it accepts is searched. */
static int64_t probe_prefix(uint64_t first_page, uint64_t num_pages, uint8_t *state)
{
    uint64_t known = 0, tried = num_pages, refused = num_pages + 1; /* known <= answer < refused */
    while (known < num_pages) {
        if (mincore(address_of(first_page + known), bytes_of(tried - known), state + known) == 0)
            known = tried;
        else if (errno == ENOMEM)
            refused = tried;
        else
            return PW_ERR_HOST;
        if (known + 1 == refused)
            break;
        tried = known + (refused - known) / 2;
    }
    for (uint64_t i = 0; i < known; i++)
        state[i] &= 1; /* the other bits of mincore are undefined */
    return (int64_t)known;
}

static int host_probe(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *state)
{
    (void)memory;
    uint64_t done = 0;
    bool in_hole = false; /* then page by page: nothing tells where it ends */
    while (done < num_pages) {
        uint64_t ask = num_pages - done;
        ask = in_hole ? 1 : ask < PAGES_A_CALL ? ask : PAGES_A_CALL;
        int64_t mapped = probe_prefix(first_page + done, ask, state + done);
        if (mapped < 0)
            return (int)mapped;
        done += (uint64_t)mapped;
        in_hole = (uint64_t)mapped < ask;
        if (in_hole)
            state[done++] = PW_PAGE_UNMAPPED;
    }
    return PW_OK;
}

static int host_check_access(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write, uint8_t *state)
{
    uint64_t page = first_page, end_page = first_page + num_pages;
    while (memory->maps >= 0 && page < end_page) {
        struct procmap_question question = {.size = sizeof question, .flags = COVERING_OR_NEXT, .address = page << PW_PAGE_SHIFT};
        if (ioctl(memory->maps, PROCMAP_QUESTION, &question) != 0)
            return errno == ENOENT ? PW_OK : PW_ERR_HOST;   /* ENOENT: no mapping from here on */
        uint64_t vma_end = question.vma_end >> PW_PAGE_SHIFT, vma_start = question.vma_start >> PW_PAGE_SHIFT;
        bool allowed = question.vma_flags & (for_write ? VMA_WRITABLE : VMA_READABLE);
        for (page = vma_start > page ? vma_start : page; page < vma_end && page < end_page; page++)
            if (!allowed && state[page - first_page] == PW_PAGE_PRESENT)
                state[page - first_page] = PW_PAGE_FORBIDDEN;
    }
    return PW_OK;
}

/* Where the kernel tells of a mapping's permissions: the open file, else -1. */
static int open_maps(void)
{
    struct procmap_question question = {.size = sizeof question, .flags = COVERING_OR_NEXT};
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps >= 0 && ioctl(maps, PROCMAP_QUESTION, &question) != 0) {
        close(maps);
        maps = -1;
    }
    return maps;
}

/* Count the pages mapped at the start of the range and those absent among them. */
static int count_prefix(uint64_t first_page, uint64_t num_pages, uint64_t *num_mapped, uint64_t *num_absent)
{
    uint8_t state[PAGES_ON_STACK];
    uint64_t done = 0, absent = 0;
    while (done < num_pages) {
        uint64_t ask = num_pages - done < PAGES_ON_STACK ? num_pages - done : PAGES_ON_STACK;
        int64_t mapped = probe_prefix(first_page + done, ask, state);
        if (mapped < 0)
            return (int)mapped;
        for (int64_t i = 0; i < mapped; i++)
            absent += state[i] == PW_PAGE_ABSENT;
        done += (uint64_t)mapped;
        if ((uint64_t)mapped < ask)
            break;
    }
    *num_mapped = done;
    *num_absent = absent;
    return PW_OK;
}

/* Of an errno of MADV_POPULATE_*, in a range that was mapped a moment ago. */
static int populate_code(int error)
{
    switch (error) {
    case EINVAL: /* permissions, or a mapping of a device; an old kernel is refused at create */
        return PW_ERR_PROTECTION;
    case EFAULT: /* an access would raise SIGBUS: a file mapping past the file's end */
        return PW_ERR_ADDRESS;
    default:
        return PW_ERR_HOST;
    }
}

static int host_populate(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write,
                         uint64_t *num_absent)
{
    uint64_t mapped, absent;
    int code = count_prefix(first_page, num_pages, &mapped, &absent);
    if (code != PW_OK)
        return code;
    if (mapped > 0 && madvise(address_of(first_page), bytes_of(mapped),
                              for_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0)
        return populate_code(errno);
    memory->counters.populated_pages += absent;
    memory->counters.already_present_pages += mapped - absent;
    *num_absent = absent;
    return mapped == num_pages ? PW_OK : PW_ERR_ADDRESS;
}

/* Of an errno of mlock, in a range that was mapped a moment ago. The kernel checks the limit before it
 * changes anything; later failures leave a locked mapping behind, which is undone. */
static int pin_code(uint64_t first_page, uint64_t num_pages, int error)
{
    int code;
    switch (error) {
    case EPERM: /* the limit is 0 */
        return PW_ERR_FULL;
    case ENOMEM: /* the limit, or a page that cannot be read */
        if (madvise(address_of(first_page), bytes_of(num_pages), MADV_POPULATE_READ) == 0)
            return PW_ERR_FULL;
        code = populate_code(errno);
        break;
    default:
        code = PW_ERR_HOST;
        break;
    }
    unlock_pages(first_page, num_pages);
    errno = error;
    return code;
}

static int host_pin(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint64_t *num_absent)
{
    uint64_t mapped, absent;
    int code = count_prefix(first_page, num_pages, &mapped, &absent);
    if (code != PW_OK)
        return code;
    if (mapped < num_pages)
        return PW_ERR_ADDRESS;
    if (lock_pages(first_page, num_pages) != 0)
        return pin_code(first_page, num_pages, errno);
    memory->counters.populated_pages += absent;
    memory->counters.already_present_pages += num_pages - absent;
    *num_absent = absent;
    return PW_OK;
}

static int host_unpin(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    (void)memory;
    if (unlock_pages(first_page, num_pages) == 0)
        return PW_OK;
    return errno == ENOMEM ? PW_ERR_ADDRESS : PW_ERR_HOST;
}

static int host_drop(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    (void)memory;
    uint64_t mapped, absent;
    int code = count_prefix(first_page, num_pages, &mapped, &absent);
    if (code != PW_OK)
        return code;
    if (mapped < num_pages) /* MADV_DONTNEED would drop the rest all the same */
        return PW_ERR_ADDRESS;
    if (madvise(address_of(first_page), bytes_of(num_pages), MADV_DONTNEED) == 0)
        return PW_OK;
    return errno == EINVAL ? PW_ERR_PROTECTION : PW_ERR_HOST;
}

static void host_destroy(pw_memory *memory)
{
    if (memory->maps >= 0)
        close(memory->maps);
    free(memory);
}

static const struct pw_memory_ops host_ops = {
    .destroy = host_destroy,
    .probe = host_probe,
    .check_access = host_check_access,
    .populate = host_populate,
    .pin = host_pin,
    .unpin = host_unpin,
    .drop = host_drop,
};

/* PW_ERR_HOST, with errno, on a kernel without MADV_POPULATE_* or with pages that are not 4 KB. */
static int test_host(void)
{
    if (sysconf(_SC_PAGESIZE) != PW_PAGE_BYTES) {
        errno = ENOTSUP;
        return PW_ERR_HOST;
    }
    void *page = mmap(NULL, PW_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return PW_ERR_HOST;
    int error = madvise(page, PW_PAGE_BYTES, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    munmap(page, PW_PAGE_BYTES);
    errno = error;
    return error ? PW_ERR_HOST : PW_OK;
}

int pw_memory_host_create(pw_memory **out)
{
    int code = test_host();
    if (code != PW_OK)
        return code;
    pw_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return PW_ERR_NOMEM;
    memory->ops = &host_ops;
    memory->maps = open_maps();
    *out = memory;
    return PW_OK;
}
