/* Which pages are in memory, as far as this node has seen, and how many over virtual time. The
 * pages are those of communication: what the NI's walks meet, what the driver or a unit brings in,
 * what a memory strategy touches or pins. One thread at a time. */
#ifndef PW_NATIVE_RESIDENT_H
#define PW_NATIVE_RESIDENT_H
#include "native/page_leaves.h"
#include "native/pinned.h"

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
#endif
