/* What the files of pw_memory share: memory.c, the host's backend and the model's. */
#ifndef PW_NATIVE_MEMORY_BACKEND_H
#define PW_NATIVE_MEMORY_BACKEND_H
#include "native/memory.h"
#include "native/present_pages.h"
#include <stdint.h>
#include <sys/ioctl.h>
#include "native/page_leaves.h"
#include "native/pinned.h"

/* Which pages are in memory, as far as this node has seen, and how many over virtual time. The
 * pages are those of communication: what the NI's walks meet, what the driver or a unit brings in,
 * what a memory strategy touches or pins. One thread at a time. */

/* Zero knows no page. */
typedef struct {
    pw_page_leaves leaves;
    pw_pinned count;
    int64_t now_ns; /* of what is noted next */
} pw_resident;

/* What is known of these pages now: PW_PAGE_*, one byte a page; state NULL: all are there.
 * The first of 512 neighbouring pages that is there allocates; without memory for that none of them
 * is counted. */
void pw_resident_note(pw_resident *resident, uint64_t first_page, uint64_t num_pages,
                      const uint8_t *state);
/* The page is not there any more. */
void pw_resident_gone(pw_resident *resident, uint64_t page);
/* The same of any range, however long. */
void pw_resident_range_gone(pw_resident *resident, uint64_t first_page, uint64_t num_pages);
void pw_resident_clear(pw_resident *resident);

/* What the kernel answers of a mapping (PROCMAP_QUERY, Linux 6.11), for C libraries that do not
 * name it. */

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
#define VMA_SHARED 0x08u
#define COVERING_OR_NEXT 0x10u

/* Mappings of this process, as its kernel was asked for them last (PROCMAP_QUERY, Linux 6.11). Kept
 * from one pw_memory_enter to the next where the program announces itself so, else not at all. */

#define PW_MAPPINGS_KEPT 4 /* a transfer in each direction, and notifications */

typedef struct {
    uint64_t first_page, end_page;
    uint64_t flags; /* VMA_* */
    bool is_file;   /* or shared anonymous memory */
} pw_mapping;

typedef struct {
    pw_mapping kept[PW_MAPPINGS_KEPT];
    uint32_t num_kept, next_slot;
    uint64_t entry, generation; /* of the memory, for which these count */
} pw_mappings;

/* memory.c: the mapping that holds the page, or else the first one behind it. PW_ERR_ADDRESS: there
 * is none; PW_ERR_HOST. memory->maps must be open. */
int pw_mappings_find(pw_memory *memory, uint64_t page, pw_mapping *out);
/* The caller may come from the program, which has not announced itself. */
static inline void pw_mappings_forget(pw_mappings *mappings)
{
    mappings->num_kept = mappings->next_slot = 0;
}

/* Does this kernel tell of huge pages (PAGEMAP_SCAN, Linux 6.7)? */
bool pw_memory_scans(const pw_memory *memory);

/* The first page of the 2 MB around a page. */
static inline uint64_t pw_huge_page_of(uint64_t page)
{
    return page & ~(uint64_t)(PW_HUGE_PAGES - 1);
}

#define PW_MEMORY_PAGES_END ((uint64_t)1 << (64 - PW_PAGE_SHIFT))

struct pw_memory_ops {
    void (*destroy)(pw_memory *memory);
    int (*probe)(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *state);
    int (*check_access)(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write,
                        uint8_t *state);
    /* Probe and check_access for a write; NULL when the backend has no shorter way. */
    int (*walk_for_write)(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                          uint8_t *state);
    /* effects may be NULL. */
    int (*populate)(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write,
                    uint64_t *num_absent, uint8_t *effects);
    int (*pin)(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint64_t *num_absent);
    int (*unpin)(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
    int (*is_pinned)(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
    void (*extent)(pw_memory *memory, uint64_t page, uint64_t *first_page, uint64_t *num_pages);
    /* The rest is the model's; NULL on the host. */
    int (*set)(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t state);
    int (*fork)(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
    uint64_t (*begin_transfer)(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
};

/* The first member of each backend's object. */
struct pw_memory {
    const struct pw_memory_ops *ops;
    pw_memory_counters counters;
    int maps;    /* /proc/self/maps where the kernel answers PROCMAP_QUERY, else -1 */
    int pagemap; /* host: /proc/self/pagemap, or -1 */
    bool is_model, has_huge_pages;
    bool asks_host;             /* model: a page comes in only where the host maps it */
    uint64_t entry;             /* counts pw_memory_enter: a mapping looked at before may be gone */
    uint64_t generation;        /* counts pw_memory_changed */
    uint64_t pages_in_vain_max; /* of num_in_vain; 0: no limit */
    uint64_t num_in_vain;       /* pages that came in since the last pw_memory_progress */
    bool is_short;              /* pages_in_vain_max was reached */
    pw_known_pages brought_in;  /* host: for writing, by populate */
    pw_known_pages small_regions; /* host: whole 2 MB whose pages have entries of their own: a page
                                     that comes in there comes alone */
    bool saw_swapped;             /* host: the walk may have met a page that is swapped out */
    bool has_events, is_checked;  /* see pw_memory_use_events */
    bool were_wrong;              /* about wrong_page */
    uint64_t wrong_page;
    uint64_t events_seen;
    pw_present_pages present; /* with events */
    pw_mappings mappings;
    pw_resident resident;
};

/* linux/mman.h, since Linux 5.14; older C libraries do not name them. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* /proc/self/maps, opened, or -1 when the kernel does not answer PROCMAP_QUERY. */
int pw_memory_open_maps(void);

int pw_memory_host_create(pw_memory **out);
int pw_memory_model_create(const pw_memory_model_options *options, pw_memory **out);
#endif
