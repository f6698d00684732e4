/* How much memory is pinned (or resident), over virtual time: now, at most, and on
 * average. Plain data, which whoever pins keeps up to date. One thread at a time. */
#ifndef PW_NATIVE_PINNED_H
#define PW_NATIVE_PINNED_H
#include "native/types.h"

/* cdef begin */
/* Zero is none. Read by the functions below alone. */
typedef struct {
    uint64_t num_pages, peak_pages;
    int64_t since_ns; /* num_pages counts from here on */
    double page_ns;   /* sum of pages x time until then; whole ns of 2^40 pages do not fit */
} pw_pinned;

/* So many pages are pinned from now on. Times that go back, as those of transfers that end late,
 * count as the latest one. */
void pw_pinned_set(pw_pinned *pinned, uint64_t num_pages, int64_t now_ns);
/* On average from time 0 to now_ns, in bytes. */
uint64_t pw_pinned_mean_bytes(const pw_pinned *pinned, int64_t now_ns);
/* cdef end */
#endif
