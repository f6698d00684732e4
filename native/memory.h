/* Page residency behind one interface, with two backends: the host's own (mincore, MADV_POPULATE,
 * mlock on the process's mappings) and a model (software page table, seeded). The SMMU's walk, the
 * driver's get_user_pages and the strategies' touch and pin all come here. Pages are absolute page
 * numbers (address >> 12). Not thread-safe. */
#ifndef PW_NATIVE_MEMORY_H
#define PW_NATIVE_MEMORY_H
#include "native/types.h"

/* cdef begin */
typedef struct pw_memory pw_memory;

/* State of a page as a walk sees it, one byte a page. */
#define PW_PAGE_ABSENT 0
#define PW_PAGE_PRESENT 1
#define PW_PAGE_UNMAPPED 2      /* no mapping at all: an invalid address */
#define PW_PAGE_FORBIDDEN 3     /* present, but the mapping does not allow the access: check_access */

#define PW_MEMORY_HOST 0
#define PW_MEMORY_MODEL 1

typedef struct {
    uint64_t seed;
    uint32_t fault_millionths;      /* probability that a page never seen before is absent, in 1e-6 */
    uint64_t frame_limit_pages;     /* resident pages at most; 0 = no limit; LRU page is swapped out.
                                     * A page never populated, pinned or set takes no frame. */
} pw_memory_model_options;

typedef struct {
    uint64_t probes, probed_pages;          /* calls of probe, pages asked for */
    uint64_t populated_pages, already_present_pages;    /* of populate and pin */
    uint64_t major_faults;                  /* model: pages that came back from swap */
    uint64_t pinned_pages, unpinned_pages;
} pw_memory_counters;

/* options are the model's (the host ignores them). PW_ERR_HOST with errno when the host has no
 * MADV_POPULATE_* (Linux before 5.14) or pages of another size than 4 KB. */
int pw_memory_create(uint32_t backend, const pw_memory_model_options *options, pw_memory **out);
void pw_memory_destroy(pw_memory *memory);
/* The walk: state[i] for first_page + i. PW_OK even when pages are unmapped (state tells);
 * PW_ERR_HOST when the probe itself failed. */
int pw_memory_probe(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *state);
/* Turn PRESENT into FORBIDDEN where the mapping does not allow the access. The host needs Linux 6.11 for it
 * (PROCMAP_QUERY); on an older kernel states stay as they are, and such an access crashes. */
int pw_memory_check_access(pw_memory *memory, uint64_t first_page, uint64_t num_pages, int for_write, uint8_t *state);
/* 1 when check_access can tell. */
int pw_memory_checks_access(const pw_memory *memory);
/* Page in [first_page, +num_pages), for writing or only for reading. num_absent[0] = pages that were
 * absent before. PW_OK, PW_ERR_ADDRESS when part of the range is not mapped (what is mapped before it
 * is paged in and counted), PW_ERR_PROTECTION when the mapping forbids the access, PW_ERR_HOST
 * otherwise; model: PW_ERR_FULL when every frame is pinned. num_absent may be NULL here and in pin. */
int pw_memory_populate(pw_memory *memory, uint64_t first_page, uint64_t num_pages, int for_write,
                       uint64_t *num_absent);
/* mlock / munlock: one unpin undoes any number of pins. PW_ERR_FULL when the locked-memory limit (model:
 * frame limit) is reached, PW_ERR_ADDRESS when part of the range is not mapped; then nothing is pinned.
 * Pin also fails as populate does. */
int pw_memory_pin(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint64_t *num_absent);
int pw_memory_unpin(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
/* Take the pages away (host: MADV_DONTNEED, contents are lost; model: marks absent). For tests and
 * experiments that fault on purpose. PW_ERR_ADDRESS when part is not mapped, then nothing is dropped;
 * PW_ERR_PROTECTION when a page is pinned. */
int pw_memory_drop(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
/* Model only: set the state of pages (PW_PAGE_*), unpinned; a present one is the most recently used. PW_ERR_INVALID on the host backend. */
int pw_memory_set(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t state);
void pw_memory_read_counters(const pw_memory *memory, pw_memory_counters *out);
/* cdef end */
#endif
