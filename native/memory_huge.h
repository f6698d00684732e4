/* Which pages of the host one entry of the page table maps (huge pages of 2 MB), and which came in
 * together. What was found is kept until the program may have run. Not thread-safe. */
#ifndef PW_NATIVE_MEMORY_HUGE_H
#define PW_NATIVE_MEMORY_HUGE_H
#include "native/memory.h"

/* Whole regions of 2 MB, in pages, whose pages have entries of their own: a page that comes in
 * there comes alone. Counts while the memory's entry and generation are these. */
typedef struct {
    uint64_t first_page, end_page;
    uint64_t entry, generation;
} pw_small_regions;

/* Does this kernel tell (PAGEMAP_SCAN, Linux 6.7)? */
bool pw_memory_scans(const pw_memory *memory);
/* Does one entry map the 2 MB around the page? Where nothing tells: no. */
bool pw_memory_is_huge(const pw_memory *memory, uint64_t page);
/* Effects of a page-in of [first_page, +num_pages), which has just ended well: pages that one huge
 * page brought in were one fault, of which the first page stands for all. */
void pw_memory_find_huge(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                         uint8_t *effects);
/* The pages that came in with this one, which is there. */
void pw_memory_huge_extent(pw_memory *memory, uint64_t page, uint64_t *first_page,
                           uint64_t *num_pages);
#endif
