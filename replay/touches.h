/* When a program touched pages in a compute interval, which no trace tells: PAGES stand where the
 * pages are used next. Reads a rank's records ahead, up to the next interval, and says at what time
 * of this one each page is to be there. One thread at a time. */
#ifndef PW_REPLAY_TOUCHES_H
#define PW_REPLAY_TOUCHES_H
#include "replay/reader.h"

/* cdef begin */
#define PW_TOUCH_AT_USE 0 /* where PAGES stand */
#define PW_TOUCH_START 1  /* of the interval */
#define PW_TOUCH_SPREAD 2 /* evenly, page by page */
#define PW_TOUCH_END 3
#define PW_READS_AHEAD 0x100 /* in the kind of a stream: a second reader of it */
/* cdef end */

/* Zeroed, then the first two members set. */
typedef struct {
    pw_reader reader; /* of OPS */
    uint32_t when;    /* PW_TOUCH_* */
    bool is_under_way;
    int64_t duration_ns, passed_ns; /* of the interval */
    pw_record *found;               /* PAGES */
    uint32_t num_found, capacity;
    uint64_t num_pages; /* of them */
    uint32_t next;      /* of `found`, and how many pages of it and of all are there */
    uint64_t num_done, num_there;
} pw_touches;

void pw_touches_finish(pw_touches *touches);
/* An interval begins; its record was the num_records-th. 1: pages were touched, and it is under
 * way; 0: none were; or a code of the reader's, PW_ERR_NOMEM. */
int pw_touches_begin(pw_touches *touches, uint64_t num_records, int64_t duration_ns);
/* The pages that are touched next, and at what time of the interval; false: there are no more. */
bool pw_touches_next(const pw_touches *touches, pw_record *pages, int64_t *at_ns);
/* They are there. */
void pw_touches_done(pw_touches *touches, const pw_record *pages);
#endif
