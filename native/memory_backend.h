/* What memory.c asks of a backend of pw_memory. Ranges come checked: at least one page, no page
 * number above PW_MEMORY_PAGES_END. A backend keeps the counters except probes and probed_pages. */
#ifndef PW_NATIVE_MEMORY_BACKEND_H
#define PW_NATIVE_MEMORY_BACKEND_H
#include "native/mappings.h"
#include "native/memory.h"
#include "native/memory_huge.h"

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
    int (*drop)(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
    void (*extent)(pw_memory *memory, uint64_t page, uint64_t *first_page, uint64_t *num_pages);
    int (*collapse)(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                    uint64_t *num_collapsed);
    /* The rest is the model's; NULL on the host. */
    int (*set)(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t state);
    int (*protect)(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint32_t allowed);
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
    struct {
        uint64_t first_page, end_page, entry, generation;
    } brought_in; /* host: for writing, by populate; counts when entry and generation are these */
    bool saw_swapped; /* host: the walk may have met a page that is swapped out */
    pw_mappings mappings;
    pw_small_regions small_regions; /* host */
    struct {
        uint64_t first_page, num_pages;
        uint8_t state;
    } at_page_in; /* num_pages 0: nothing */
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
