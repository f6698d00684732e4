/* Pages that were seen in memory, by access: a table of as many chunks as PW_PRESENT_CHUNKS, in
 * which a later chunk takes an earlier one's place. What is not in it is not known. Nothing is
 * allocated but the table. */
#ifndef PW_NATIVE_PRESENT_PAGES_H
#define PW_NATIVE_PRESENT_PAGES_H
#include "native/types.h"

#define PW_PRESENT_CHUNKS 4096u /* of 64 pages: 1 GiB */

typedef struct {
    uint64_t number;   /* first page / 64, and 1; 0: none */
    uint64_t pages[2]; /* a bit each, for reading and for writing */
} pw_present_chunk;

typedef struct {
    pw_present_chunk *chunks; /* NULL: before the first pw_present_init */
} pw_present_pages;

/* PW_ERR_NOMEM. */
int pw_present_init(pw_present_pages *present);
void pw_present_finish(pw_present_pages *present);
/* Are all of these known to be there for the access? */
bool pw_present_has(const pw_present_pages *present, bool for_write, uint64_t first_page,
                    uint64_t num_pages);
/* They are from now on, where their state is PW_PAGE_PRESENT. */
void pw_present_note(pw_present_pages *present, bool for_write, uint64_t first_page,
                     uint64_t num_pages, const uint8_t *state);
void pw_present_forget(pw_present_pages *present, uint64_t first_page, uint64_t end_page);
#endif
