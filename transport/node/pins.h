/* Pinned pages with counts: pins of ranges that may overlap nest, which mlock's do not. A page is
 * unpinned when the last that pinned it releases it. Costs O(log n) for each interval that a range
 * meets, and what the kernel takes for the pages. One thread at a time. */
#ifndef PW_NODE_PINS_H
#define PW_NODE_PINS_H
#include "native/memory.h"

/* cdef begin */
typedef struct pw_pins pw_pins;

/* memory lives longer. */
int pw_pins_create(pw_memory *memory, pw_pins **out);
/* Unpins what is pinned yet. */
void pw_pins_destroy(pw_pins *pins);
/* Make every page present and keep it so until `release` with *pin. *num_absent: pages that were
 * absent before. With an error nobody's pins have changed: those of pw_memory_pin, PW_ERR_NOMEM. */
int pw_pins_acquire(pw_pins *pins, uint64_t first_page, uint64_t num_pages, uint64_t *num_absent,
                    uint64_t *pin);
/* Give one range back, once and as it was acquired; unpins the pages that nobody else has pinned.
 * Pages that were invalidated since then stay as they are, pages that are not mapped any more have
 * lost their pins already. With PW_ERR_HOST the range is given back all the same. */
int pw_pins_release(pw_pins *pins, uint64_t first_page, uint64_t num_pages, uint64_t pin);
/* The mappings of these pages went, and their pins with them: forget them. Any range. */
int pw_pins_invalidated(pw_pins *pins, uint64_t first_page, uint64_t num_pages);
/* Is every page pinned? */
int pw_pins_cover(const pw_pins *pins, uint64_t first_page, uint64_t num_pages);
/* How many have pinned a page and not released it. */
uint64_t pw_pins_count(const pw_pins *pins, uint64_t page);
/* Pages that anybody has pinned. */
uint64_t pw_pins_num_pages(const pw_pins *pins);
/* cdef end */
#endif
