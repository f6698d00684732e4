/* Page-table walk of a transfer's range: a snapshot of residency for a window of pages, taken with
 * one probe of the memory backend, so that no block needs a system call and no TLB hit can hide a
 * page that the OS took away before the transfer. A shootdown makes it forget; after pw_ni_enter it
 * asks once whether the mapping is still there. Not thread-safe. */
#ifndef PW_SMMU_RESIDENCY_H
#define PW_SMMU_RESIDENCY_H
#include "native/memory.h"

#define PW_RESIDENCY_PAGES 1024 /* 4 MB */
/* Window of a probe behind one that has found a page missing: each page-in makes a new probe
 * necessary. It grows again by this factor while nothing is missing. */
#define PW_RESIDENCY_PAGES_MIN 8
#define PW_RESIDENCY_GROWTH 4
#define PW_RESIDENCY_FEW 16 /* pages of a window for which nothing is allocated */

typedef struct {
    uint64_t first_page, num_pages; /* num_pages 0: nothing probed yet */
    uint64_t generation;            /* of the memory, at the probe */
    uint64_t entry; /* of the engine, when [mapped_first, +num_mapped) was a mapping */
    uint64_t mapped_first, num_mapped;
    uint32_t window_pages; /* of the next probe; 0: PW_RESIDENCY_PAGES */
    bool may_vanish;       /* a file is mapped in the window: it may be truncated at any time */
    bool for_write;        /* which access the mapping must allow; set by the owner */
    bool is_fresh;         /* probed since the last access that is not a further one */
    uint8_t *many; /* PW_PAGE_* of a window of up to PW_RESIDENCY_PAGES; NULL: `few` was enough */
    uint8_t few[PW_RESIDENCY_FEW]; /* the same, of a short one */
} pw_residency;

void pw_residency_finish(pw_residency *walk);

/* The same, but what does not seem to be there for the access is looked at again: it may have come
 * since. is_further: the access before was to another page of the same block, just now, with
 * nothing in between; what was probed for it need not be looked at again. */
int pw_residency_state_now(pw_residency *walk, pw_memory *memory, uint64_t page, uint64_t end_page,
                           bool is_further);
/* PW_OK when the host still maps the page for the access, whatever the snapshot says; else
 * PW_ERR_*. */
int pw_residency_check_mapping(pw_residency *walk, pw_memory *memory, uint64_t page);
/* What the kernel allows of a page of that state: PW_OK, or why no access can be done. */
static inline int pw_residency_allows(int state)
{
    if (state < 0) return state;
    if (state == PW_PAGE_UNMAPPED) return PW_ERR_ADDRESS;
    return state == PW_PAGE_FORBIDDEN ? PW_ERR_PROTECTION : PW_OK;
}
static inline const uint8_t *pw_residency_states(const pw_residency *walk)
{
    return walk->many ? walk->many : walk->few;
}
/* Does the snapshot show the page present? No probe. */
static inline bool pw_residency_is_present(const pw_residency *walk, uint64_t page)
{
    return page - walk->first_page < walk->num_pages &&
           pw_residency_states(walk)[page - walk->first_page] == PW_PAGE_PRESENT;
}
/* Does it show the page absent, or write-protected, so that page-in helps? No probe. */
static inline bool pw_residency_is_absent(const pw_residency *walk, uint64_t page)
{
    if (page - walk->first_page >= walk->num_pages) return false;
    uint8_t state = pw_residency_states(walk)[page - walk->first_page];
    return state == PW_PAGE_ABSENT || state == PW_PAGE_WRITE_PROTECTED;
}
/* Probe again before the next use: the OS may have changed the mapping. */
static inline void pw_residency_forget(pw_residency *walk) { walk->num_pages = 0; }
#endif
