/* Calendar of a serially used resource (R5, send engine, link port, tasklet CPU ...): books the
 * earliest gap at or after the requested time, because frames of different peers arrive physically
 * in any order. Keeps a bounded number of busy intervals (touching ones are merged); when full, the
 * oldest is forgotten and nothing can be booked before its end any more. Not thread-safe. */
#ifndef PW_NATIVE_CALENDAR_H
#define PW_NATIVE_CALENDAR_H
#include "native/types.h"

/* cdef begin */
#define PW_CALENDAR_INTERVALS 256
typedef struct {
    uint32_t head, num_busy;
    int64_t floor_ns;  /* nothing is booked before this */
    int64_t booked_ns; /* sum of all bookings */
    struct {
        int64_t start_ns, end_ns;
    } busy[PW_CALENDAR_INTERVALS]; /* ring, sorted by time; last: an unused one takes one page */
} pw_calendar;

void pw_calendar_init(pw_calendar *calendar);
/* Book duration_ns (>= 0) at the earliest gap at or after at_ns; returns the start. */
int64_t pw_calendar_book(pw_calendar *calendar, int64_t at_ns, int64_t duration_ns);
/* Book every gap between from_ns and to_ns: nobody else gets the resource there. */
void pw_calendar_fill(pw_calendar *calendar, int64_t from_ns, int64_t to_ns);
/* When a booking of duration_ns at or after at_ns would start, without booking it. */
int64_t pw_calendar_peek(const pw_calendar *calendar, int64_t at_ns, int64_t duration_ns);
/* Since when the resource has been idle at at_ns, as far as is known: at_ns while it is busy. */
int64_t pw_calendar_idle_since(const pw_calendar *calendar, int64_t at_ns);
/* cdef end */
#endif
