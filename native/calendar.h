/* Calendar of a serially used resource (R5, send engine, link port, tasklet CPU ...): books the
 * earliest gap at or after the requested time, because frames of different peers arrive physically
 * in any order. Keeps a bounded number of busy intervals (touching ones are merged); when full, or
 * without memory for more, the oldest is forgotten and nothing can be booked before its end any
 * more. Instead of growing it forgets those that are past. Not thread-safe. */
#ifndef PW_NATIVE_CALENDAR_H
#define PW_NATIVE_CALENDAR_H
#include "native/types.h"

/* cdef begin */
#define PW_CALENDAR_INTERVALS 256
typedef struct {
    int64_t start_ns, end_ns;
} pw_busy_interval;

/* Zero: nothing is booked. */
typedef struct {
    int64_t floor_ns;  /* nothing is booked before this */
    int64_t booked_ns; /* sum of all bookings */
    int64_t origin_ns;
    const int64_t *past_ns; /* nobody books before that; NULL: not known */
    void *busy; /* ring of `capacity`, sorted by time: offsets of 32 bits behind the origin while
                 * all of them are near enough, else pw_busy_interval */
    uint16_t capacity; /* a power of two up to PW_CALENDAR_INTERVALS, or 0 */
    uint16_t head, num_busy;
    uint16_t is_wide;
} pw_calendar;

/* The busy interval at a position below num_busy. */
pw_busy_interval pw_calendar_at(const pw_calendar *calendar, uint32_t position);
void pw_calendar_finish(pw_calendar *calendar);
/* Book duration_ns (>= 0) at the earliest gap at or after at_ns; returns the start. */
int64_t pw_calendar_book(pw_calendar *calendar, int64_t at_ns, int64_t duration_ns);
/* Book duration_ns in the earliest gaps at or after at_ns, in pieces; returns when the last ends.
 */
int64_t pw_calendar_spend(pw_calendar *calendar, int64_t at_ns, int64_t duration_ns);
/* Book one piece of it: the earliest gap, as far as it goes. Start and end, PW_NEVER: there is
 * none. */
int64_t pw_calendar_spend_piece(pw_calendar *calendar, int64_t at_ns, int64_t duration_ns,
                                int64_t *end_ns);
/* Book every gap between from_ns and to_ns: nobody else gets the resource there. */
void pw_calendar_fill(pw_calendar *calendar, int64_t from_ns, int64_t to_ns);
/* When a booking of duration_ns at or after at_ns would start, without booking it. */
int64_t pw_calendar_peek(const pw_calendar *calendar, int64_t at_ns, int64_t duration_ns);
/* Since when the resource has been idle at at_ns, as far as is known: at_ns while it is busy. */
int64_t pw_calendar_idle_since(const pw_calendar *calendar, int64_t at_ns);
/* cdef end */

/* How many places of something bounded are taken at a time: stalled accesses of the SMMU, page
 * requests of a device, entries of the IOMMU's queue, blocks in a NIC's buffer. Keeps the latest
 * bookings; older ones are over, or forgotten. Zero is an empty one; the first booking allocates,
 * and without memory none is kept. Not thread-safe. */

#define PW_OCCUPANCY_KEPT 256

typedef struct {
    pw_time since_ns, until_ns;
    uint32_t num_places;
} pw_taken_places;

typedef struct {
    pw_taken_places *taken; /* ring of PW_OCCUPANCY_KEPT; NULL: none yet */
    uint32_t next;
    pw_time last_ns; /* everything is free from then on */
} pw_occupancy;

void pw_occupancy_finish(pw_occupancy *places);
void pw_occupancy_take(pw_occupancy *places, uint32_t num_places, pw_time since_ns,
                       pw_time until_ns);
/* Places taken at at_ns; *next_ns: when the next of them is free again, PW_NEVER when none is. */
uint32_t pw_occupancy_count(const pw_occupancy *places, pw_time at_ns, pw_time *next_ns);
/* When num_places of max are free, at_ns or later. num_places is at most max. */
pw_time pw_occupancy_admit(const pw_occupancy *places, uint32_t num_places, uint32_t max,
                           pw_time at_ns);
#endif
