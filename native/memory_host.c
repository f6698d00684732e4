/* Page residency of the host: mincore, MADV_POPULATE_*, mlock, MADV_DONTNEED on this process's
 * mappings.
 *
 * What mincore can and cannot tell: for anonymous memory, whether the page is in the page table
 * (the shared zero page counts, though a write to it faults: for that /proc/self/pagemap is read as
 * well); for a file or shared mapping, whether the page is in the page cache, mapped here or not.
 * With transparent huge pages one fault brings in 2 MB. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "native/memory_backend.h"

#ifndef MADV_COLD
#define MADV_COLD 20 /* since Linux 5.4 */
#endif

/* Entries of /proc/self/pagemap, one a page; without privilege the frame number reads as 0. */
#define ENTRY_EXCLUSIVE ((uint64_t)1 << 56)
#define ENTRY_FILE \
    ((uint64_t)1 << 61) /* page cache or shared memory: a private mapping copies it */
#define ENTRY_SWAPPED ((uint64_t)1 << 62)
#define ENTRY_PRESENT ((uint64_t)1 << 63)
#define ENTRIES_A_READ 1024
#define LOOKED_AT_AGAIN 8 /* pages at the start of a range that was brought in already */

#define PAGES_A_CALL ((uint64_t)1 << 20) /* a call of mincore holds the map's lock */

static inline void *address_of(uint64_t page) { return (void *)(uintptr_t)(page << PW_PAGE_SHIFT); }

static inline size_t bytes_of(uint64_t num_pages) { return (size_t)num_pages << PW_PAGE_SHIFT; }

/* The system calls themselves: AddressSanitizer replaces mlock and munlock by functions that do
 * nothing. */
static int lock_pages(uint64_t first_page, uint64_t num_pages)
{
    return (int)syscall(SYS_mlock, address_of(first_page), bytes_of(num_pages));
}

static int unlock_pages(uint64_t first_page, uint64_t num_pages)
{
    return (int)syscall(SYS_munlock, address_of(first_page), bytes_of(num_pages));
}

/* How many pages at the start are mapped, with state filled that far, or PW_ERR_HOST. mincore does
 * not say where a hole is, so the longest range that it accepts is searched. */
static int64_t probe_prefix(uint64_t first_page, uint64_t num_pages, uint8_t *state)
{
    uint64_t known = 0, tried = num_pages, refused = num_pages + 1; /* known <= answer < refused */
    while (known < num_pages) {
        if (mincore(address_of(first_page + known), bytes_of(tried - known), state + known) == 0)
            known = tried;
        else if (errno == ENOMEM) refused = tried;
        else return PW_ERR_HOST;
        if (known + 1 == refused) break;
        tried = known + (refused - known) / 2;
    }
    for (uint64_t i = 0; i < num_pages && i < known; i++) /* the former for compilers that warn */
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
        if (mapped < 0) return (int)mapped;
        done += (uint64_t)mapped;
        in_hole = (uint64_t)mapped < ask;
        if (in_hole) state[done++] = PW_PAGE_UNMAPPED;
    }
    return PW_OK;
}

static bool read_entries(const pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                         uint64_t *entries)
{
    size_t num_bytes = (size_t)num_pages * sizeof *entries;
    return pread(memory->pagemap, entries, num_bytes, (off_t)(first_page * sizeof *entries)) ==
           (ssize_t)num_bytes;
}

/* A page that the kernel is moving just now looks swapped out; mincore knows better. */
static void find_migrating(uint64_t first_page, uint64_t num_pages, const uint64_t *entries,
                           uint8_t *state)
{
    uint8_t in_memory;
    for (uint64_t i = 0; i < num_pages; i++)
        if ((entries[i] & ENTRY_SWAPPED) && probe_prefix(first_page + i, 1, &in_memory) == 1)
            state[i] = in_memory;
}

/* What the page table holds of a private mapping. */
static int walk_private(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *state)
{
    uint64_t entries[ENTRIES_A_READ];
    for (uint64_t done = 0; done < num_pages;) {
        uint64_t ask = num_pages - done < ENTRIES_A_READ ? num_pages - done : ENTRIES_A_READ;
        if (!read_entries(memory, first_page + done, ask, entries)) return PW_ERR_HOST;
        uint64_t all = 0;
        for (uint64_t i = 0; i < ask; i++) {
            bool is_own = (entries[i] & ENTRY_EXCLUSIVE) && !(entries[i] & ENTRY_FILE);
            state[done + i] = !(entries[i] & ENTRY_PRESENT) ? PW_PAGE_ABSENT
                              : is_own                      ? PW_PAGE_PRESENT
                                                            : PW_PAGE_WRITE_PROTECTED;
            all |= entries[i];
        }
        if (all & ENTRY_SWAPPED) {
            memory->saw_swapped = true;
            find_migrating(first_page + done, ask, entries, state + done);
        }
        done += ask;
    }
    return PW_OK;
}

/* What a write would find in the part of a mapping that begins at first_page. */
static int walk_mapping(pw_memory *memory, uint64_t flags, uint64_t first_page, uint64_t num_pages,
                        uint8_t *state)
{
    int64_t mapped = 0;
    int code = PW_OK;
    if (flags & VMA_SHARED) {
        memory->saw_swapped = true; /* mincore does not tell */
        mapped = probe_prefix(first_page, num_pages, state);
    } else code = walk_private(memory, first_page, num_pages, state);
    if (mapped < 0 || code < 0) return PW_ERR_HOST;
    for (uint64_t i = 0; !(flags & VMA_WRITABLE) && i < num_pages; i++)
        if (state[i] != PW_PAGE_ABSENT) state[i] = PW_PAGE_FORBIDDEN;
    return PW_OK;
}

static int host_check_access(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                             bool for_write, uint8_t *state)
{
    uint64_t page = first_page, end_page = first_page + num_pages;
    while (memory->maps >= 0 && page < end_page) {
        pw_mapping mapping;
        int found = pw_mappings_find(memory, page, &mapping);
        if (found < 0) return found == PW_ERR_ADDRESS ? PW_OK : found; /* no mapping from here on */
        uint64_t begin = mapping.first_page > page ? mapping.first_page : page,
                 end = mapping.end_page < end_page ? mapping.end_page : end_page;
        page = mapping.end_page;
        if (begin >= end) continue;
        if (for_write && memory->pagemap >= 0) {
            int code = walk_mapping(memory, mapping.flags, begin, end - begin,
                                    state + (begin - first_page));
            if (code != PW_OK) return code;
            continue;
        }
        bool allowed = mapping.flags & (for_write ? VMA_WRITABLE : VMA_READABLE);
        for (uint64_t i = begin; !allowed && i < end; i++)
            if (state[i - first_page] == PW_PAGE_PRESENT) state[i - first_page] = PW_PAGE_FORBIDDEN;
    }
    return PW_OK;
}

static int host_walk_for_write(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                               uint8_t *state)
{
    if (memory->maps < 0 || memory->pagemap < 0) {
        int code = host_probe(memory, first_page, num_pages, state);
        return code == PW_OK ? host_check_access(memory, first_page, num_pages, true, state) : code;
    }
    memset(state, PW_PAGE_UNMAPPED, num_pages);
    return host_check_access(memory, first_page, num_pages, true, state);
}

/* What a page-in of the range will find: how many pages are mapped at its start, and of these how
 * many are not there for the access, or swapped out, and between which ones. */
struct outlook {
    uint64_t num_mapped, num_absent, num_major;
    uint64_t first_absent, end_absent; /* in pages from the start */
    bool is_certain; /* for a write: what is not absent is there, and the mapping allows it */
};

static uint8_t effect_of(uint8_t state, bool is_swapped)
{
    switch (state) {
    case PW_PAGE_ABSENT: return is_swapped ? PW_EFFECT_SWAPPED : PW_EFFECT_NEW;
    case PW_PAGE_WRITE_PROTECTED: return PW_EFFECT_COPIED;
    default: return PW_EFFECT_NONE;
    }
}

/* Look at no more than ENTRIES_A_READ pages: how many are mapped at their start, or PW_ERR_*. */
static int64_t look_at(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write,
                       uint8_t *effects, bool *is_certain)
{
    uint64_t entries[ENTRIES_A_READ];
    int64_t mapped = 0;
    memory->saw_swapped = !for_write || memory->maps < 0;
    if (for_write) {
        int code = host_walk_for_write(memory, first_page, num_pages, effects);
        const uint8_t *hole = memchr(effects, PW_PAGE_UNMAPPED, num_pages);
        mapped = code != PW_OK ? code : hole ? hole - effects : (int64_t)num_pages;
    } else mapped = probe_prefix(first_page, num_pages, effects);
    if (mapped <= 0) return mapped;
    *is_certain = for_write && memory->maps >= 0 && memory->pagemap >= 0 &&
                  !memchr(effects, PW_PAGE_FORBIDDEN, (size_t)mapped);
    bool known = memory->saw_swapped && memory->pagemap >= 0 &&
                 memchr(effects, PW_PAGE_ABSENT, (size_t)mapped) &&
                 read_entries(memory, first_page, (uint64_t)mapped, entries);
    for (int64_t i = 0; i < mapped; i++)
        effects[i] = effect_of(effects[i], known && (entries[i] & ENTRY_SWAPPED));
    return mapped;
}

static int look_ahead(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write,
                      uint8_t *effects, struct outlook *out)
{
    uint8_t own[ENTRIES_A_READ];
    *out = (struct outlook){.is_certain = true};
    while (out->num_mapped < num_pages) {
        uint64_t ask = num_pages - out->num_mapped;
        if (ask > ENTRIES_A_READ) ask = ENTRIES_A_READ;
        uint8_t *here = effects ? effects + out->num_mapped : own;
        bool is_certain = true;
        int64_t mapped =
            look_at(memory, first_page + out->num_mapped, ask, for_write, here, &is_certain);
        if (mapped < 0) return (int)mapped;
        out->is_certain &= is_certain;
        for (int64_t i = 0; i < mapped; i++) {
            if (here[i] == PW_EFFECT_NONE) continue;
            if (!out->num_absent++) out->first_absent = out->num_mapped + (uint64_t)i;
            out->end_absent = out->num_mapped + (uint64_t)i + 1;
            out->num_major += here[i] == PW_EFFECT_SWAPPED;
        }
        out->num_mapped += (uint64_t)mapped;
        if ((uint64_t)mapped < ask) break;
    }
    if (effects && out->num_mapped < num_pages)
        memset(effects + out->num_mapped, PW_EFFECT_UNMAPPED, num_pages - out->num_mapped);
    return PW_OK;
}

/* linux/fs.h, since Linux 6.7. */
struct pagemap_region {
    uint64_t start, end, categories;
};
struct pagemap_scan {
    uint64_t size, flags, start, end, walk_end, regions, num_regions, max_pages;
    uint64_t inverted, mask, any_of_mask, returned_mask;
};
_Static_assert(sizeof(struct pagemap_scan) == 96, "struct pm_scan_arg of the kernel");
#define PAGEMAP_SCAN_IOCTL _IOWR('f', 16, struct pagemap_scan)
#define SCAN_HUGE ((uint64_t)1 << 6)

/* Regions of huge pages in the range: 0 or 1, the first one, or -1. */
static int scan_range(const pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                      struct pagemap_region *found)
{
    struct pagemap_scan scan = {
        .size = sizeof scan,
        .start = first_page << PW_PAGE_SHIFT,
        .end = (first_page + num_pages) << PW_PAGE_SHIFT,
        .regions = (uint64_t)(uintptr_t)found,
        .num_regions = 1,
        .mask = SCAN_HUGE,
        .returned_mask = SCAN_HUGE,
    };
    return memory->pagemap < 0 ? -1 : ioctl(memory->pagemap, PAGEMAP_SCAN_IOCTL, &scan);
}

/* Pages at the start of the range that huge entries of the page table map. */
static uint64_t num_huge(const pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    struct pagemap_region found;
    if (scan_range(memory, first_page, num_pages, &found) != 1 ||
        found.start != first_page << PW_PAGE_SHIFT)
        return 0;
    return (found.end - found.start) >> PW_PAGE_SHIFT;
}

bool pw_memory_scans(const pw_memory *memory)
{
    struct pagemap_region found;
    return scan_range(memory, (uint64_t)(uintptr_t)&found >> PW_PAGE_SHIFT, 1, &found) >= 0;
}

/* Does one entry map the 2 MB around the page? Where nothing tells: no. The page itself first:
 * where it has an entry of its own the kernel would look at all 512. */
static bool is_huge(const pw_memory *memory, uint64_t page)
{
    return num_huge(memory, page, 1) == 1 &&
           num_huge(memory, pw_huge_page_of(page), PW_HUGE_PAGES) == PW_HUGE_PAGES;
}

/* Only where the program announces itself (pw_memory_enter): it may give a region back, and then a
 * huge page may come. */
static bool is_small(const pw_memory *memory, uint64_t page)
{
    return memory->entry && pw_known_pages_have(memory, &memory->small_regions, page, page + 1);
}

static bool is_any_changed(const uint8_t *effects, uint64_t num_pages)
{
    for (uint64_t i = 0; i < num_pages; i++)
        if (effects[i] != PW_EFFECT_NONE) return true;
    return false;
}

/* Effects of a page-in of [first_page, +num_pages), which has just ended well: pages that one huge
 * page brought in were one fault, of which the first page stands for all. */
static void find_huge(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *effects)
{
    for (uint64_t i = 0, end; i < num_pages; i = end) {
        uint64_t page = first_page + i;
        end = pw_huge_page_of(page) + PW_HUGE_PAGES - first_page;
        if (end > num_pages) end = num_pages;
        if (is_small(memory, page)) continue;
        bool is_new = effects[i] == PW_EFFECT_NEW;
        /* where a page was there and another came, each has an entry */
        bool is_mixed = effects[i] == PW_EFFECT_NONE && is_any_changed(effects + i, end - i);
        if (is_new && is_huge(memory, page)) memset(effects + i + 1, PW_EFFECT_ALONG, end - i - 1);
        else if (is_new || is_mixed)
            pw_known_pages_note(memory, &memory->small_regions, pw_huge_page_of(page),
                                pw_huge_page_of(page) + PW_HUGE_PAGES);
    }
}

static void host_extent(pw_memory *memory, uint64_t page, uint64_t *first_page, uint64_t *num_pages)
{
    if (is_small(memory, page) || !is_huge(memory, page)) return;
    *first_page = pw_huge_page_of(page);
    *num_pages = PW_HUGE_PAGES;
}

/* Of an errno of MADV_POPULATE_*, in a range that was mapped a moment ago. */
static int populate_code(int error)
{
    switch (error) {
    case EINVAL: /* permissions, or a mapping of a device; an old kernel is refused at create */
        return PW_ERR_PROTECTION;
    case EFAULT: /* an access would raise SIGBUS: a file mapping past the file's end */
        return PW_ERR_ADDRESS;
    default: return PW_ERR_HOST;
    }
}

/* Populate failed: leave only the effects on pages that had come in before. No hole is to blame. */
static void keep_arrived(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                         uint64_t num_mapped, bool for_write, uint8_t *effects)
{
    uint8_t after[ENTRIES_A_READ];
    memset(effects + num_mapped, PW_EFFECT_NONE, num_pages - num_mapped);
    for (uint64_t done = 0; done < num_mapped;) {
        uint64_t ask = num_mapped - done < ENTRIES_A_READ ? num_mapped - done : ENTRIES_A_READ;
        bool is_certain;
        int64_t known = look_at(memory, first_page + done, ask, for_write, after, &is_certain);
        for (uint64_t i = 0; i < ask; i++)
            if ((int64_t)i >= known || after[i] != PW_EFFECT_NONE)
                effects[done + i] = PW_EFFECT_NONE;
        done += ask;
    }
}

/* From the first page that is not there on. Without that cut a transfer whose pages come in while
 * its blocks fault again would walk all of them each time. */
static int bring_in(uint64_t first_page, const struct outlook *outlook, bool for_write)
{
    uint64_t from = 0, to = outlook->num_mapped;
    if (outlook->is_certain) {
        from = outlook->first_absent;
        to = outlook->end_absent;
    }
    if (from == to) return 0;
    return madvise(address_of(first_page + from), bytes_of(to - from),
                   for_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

/* Was the range brought in since the program's code ran, and does its start stand there still? A
 * long transfer whose pages come in faults on many of them meanwhile, each time with all that
 * follow. The start is looked at each time, so that a page that was reclaimed is no such page for
 * ever. */
static bool is_brought_in(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    uint64_t looked_at = num_pages < LOOKED_AT_AGAIN ? num_pages : LOOKED_AT_AGAIN;
    uint8_t state[LOOKED_AT_AGAIN];
    if (!pw_known_pages_have(memory, &memory->brought_in, first_page, first_page + num_pages) ||
        host_walk_for_write(memory, first_page, looked_at, state) < 0)
        return false;
    for (uint64_t i = 0; i < looked_at; i++)
        if (state[i] != PW_PAGE_PRESENT) return false;
    return true;
}

static int host_populate(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write,
                         uint64_t *num_absent, uint8_t *effects)
{
    struct outlook outlook;
    if (for_write && effects && num_pages > LOOKED_AT_AGAIN &&
        is_brought_in(memory, first_page, num_pages)) {
        memset(effects, PW_EFFECT_NONE, num_pages);
        return PW_OK;
    }
    int code = look_ahead(memory, first_page, num_pages, for_write, effects, &outlook);
    if (code != PW_OK) return code;
    uint64_t mapped = outlook.num_mapped;
    if (bring_in(first_page, &outlook, for_write) != 0) {
        code = populate_code(errno);
        if (effects) keep_arrived(memory, first_page, num_pages, mapped, for_write, effects);
        return code;
    }
    if (effects && memory->has_huge_pages) find_huge(memory, first_page, mapped, effects);
    memory->counters.major_faults += outlook.num_major;
    *num_absent = outlook.num_absent;
    uint64_t end_page = first_page + mapped;
    if (for_write && outlook.is_certain &&
        !pw_known_pages_have(memory, &memory->brought_in, first_page, end_page))
        pw_known_pages_note(memory, &memory->brought_in, first_page, end_page);
    return mapped == num_pages ? PW_OK : PW_ERR_ADDRESS;
}

/* Of an errno of mlock, in a range that was mapped a moment ago. The kernel checks the limit before
 * it changes anything; later failures leave a locked mapping behind, which is undone. */
static int pin_code(uint64_t first_page, uint64_t num_pages, int error)
{
    int code;
    switch (error) {
    case EPERM: /* the limit is 0 */ return PW_ERR_FULL;
    case ENOMEM: /* the limit, or a page that cannot be read */
        if (madvise(address_of(first_page), bytes_of(num_pages), MADV_POPULATE_READ) == 0)
            return PW_ERR_FULL;
        code = populate_code(errno);
        break;
    default: code = PW_ERR_HOST; break;
    }
    unlock_pages(first_page, num_pages);
    errno = error;
    return code;
}

/* mlock faults for a write where the mapping allows one. */
static int host_pin(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                    uint64_t *num_absent)
{
    struct outlook outlook;
    int code = look_ahead(memory, first_page, num_pages, true, NULL, &outlook);
    if (code != PW_OK) return code;
    if (outlook.num_mapped < num_pages) return PW_ERR_ADDRESS;
    if (lock_pages(first_page, num_pages) != 0) return pin_code(first_page, num_pages, errno);
    memory->counters.major_faults += outlook.num_major;
    *num_absent = outlook.num_absent;
    return PW_OK;
}

static int host_unpin(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    (void)memory;
    if (unlock_pages(first_page, num_pages) == 0) return PW_OK;
    return errno == ENOMEM ? PW_ERR_ADDRESS : PW_ERR_HOST;
}

/* The kernel will not age the pages of a locked mapping: EINVAL. One page stands for the mapping,
 * in which all are alike. */
static int is_locked(uint64_t page)
{
    if (madvise(address_of(page), PW_PAGE_BYTES, MADV_COLD) == 0 || errno == ENOMEM) return 0;
    return errno == EINVAL ? 1 : PW_ERR_HOST;
}

static int host_is_pinned(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    uint64_t end_page = first_page + num_pages;
    for (uint64_t page = first_page; page < end_page;) {
        pw_mapping mapping = {.first_page = page, .end_page = page + 1};
        int code = memory->maps < 0 ? PW_OK : pw_mappings_find(memory, page, &mapping);
        if (code == PW_ERR_ADDRESS || (code == PW_OK && mapping.first_page > page)) return 0;
        if (code == PW_OK) code = is_locked(page);
        if (code <= 0) return code;
        page = mapping.end_page;
    }
    return 1;
}

static void host_destroy(pw_memory *memory)
{
    if (memory->pagemap >= 0) close(memory->pagemap);
    free(memory);
}

static const struct pw_memory_ops host_ops = {
    .destroy = host_destroy,
    .probe = host_probe,
    .walk_for_write = host_walk_for_write,
    .check_access = host_check_access,
    .extent = host_extent,
    .populate = host_populate,
    .pin = host_pin,
    .unpin = host_unpin,
    .is_pinned = host_is_pinned,
};

int pw_memory_host_create(pw_memory **out)
{
    if (pw_memory_host_lacks()) return PW_ERR_HOST;
    pw_memory *memory = calloc(1, sizeof(*memory));
    if (!memory) return PW_ERR_NOMEM;
    memory->ops = &host_ops;
    memory->maps = pw_memory_open_maps();
    memory->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    memory->has_huge_pages = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0;
    *out = memory;
    return PW_OK;
}
