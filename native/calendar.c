/* Calendar: see calendar.h. Busy intervals are half open, [start, end); two that touch are one. */
#include "native/calendar.h"
#include <stdlib.h>

#define FIRST_INTERVALS 4u
_Static_assert((PW_CALENDAR_INTERVALS & (PW_CALENDAR_INTERVALS - 1)) == 0,
               "the ring index is masked");

static inline uint32_t slot(const pw_calendar *calendar, uint32_t position)
{
    return (calendar->head + position) & (calendar->capacity - 1);
}

/* Behind the origin. */
typedef struct {
    uint32_t start, end;
} near_interval;

static inline pw_busy_interval at(const pw_calendar *calendar, uint32_t position)
{
    const uint32_t s = slot(calendar, position);
    if (calendar->is_wide) return ((const pw_busy_interval *)calendar->busy)[s];
    const near_interval near = ((const near_interval *)calendar->busy)[s];
    return (pw_busy_interval){calendar->origin_ns + near.start, calendar->origin_ns + near.end};
}

pw_busy_interval pw_calendar_at(const pw_calendar *calendar, uint32_t position)
{
    return at(calendar, position);
}

static bool fits(const pw_calendar *calendar, pw_busy_interval interval)
{
    return calendar->is_wide || (interval.start_ns >= calendar->origin_ns &&
                                 interval.end_ns - calendar->origin_ns <= UINT32_MAX);
}

/* It fits. */
static void put(pw_calendar *calendar, uint32_t position, pw_busy_interval interval)
{
    const uint32_t s = slot(calendar, position);
    if (calendar->is_wide) ((pw_busy_interval *)calendar->busy)[s] = interval;
    else
        ((near_interval *)calendar->busy)[s] =
            (near_interval){(uint32_t)(interval.start_ns - calendar->origin_ns),
                            (uint32_t)(interval.end_ns - calendar->origin_ns)};
}

/* The same intervals in another ring; false: no memory. */
static bool remake(pw_calendar *calendar, uint32_t capacity, bool is_wide)
{
    pw_calendar made = *calendar;
    const size_t num_bytes = is_wide ? sizeof(pw_busy_interval) : sizeof(near_interval);
    made.busy = malloc((capacity + 1) * num_bytes);
    made.capacity = (uint16_t)capacity;
    made.head = 0;
    made.is_wide = is_wide;
    if (!made.busy) return false;
    for (uint32_t i = 0; i < calendar->num_busy; i++) put(&made, i, at(calendar, i));
    free(calendar->busy);
    *calendar = made;
    return true;
}

/* Let an interval fit: by another origin, or by 64 bits. False: no memory. */
static bool make_fit(pw_calendar *calendar, pw_busy_interval interval)
{
    if (fits(calendar, interval)) return true;
    pw_busy_interval all = interval;
    if (calendar->num_busy) {
        const int64_t first_ns = at(calendar, 0).start_ns;
        all.end_ns = pw_later(all.end_ns, at(calendar, calendar->num_busy - 1).end_ns);
        if (first_ns < all.start_ns) all.start_ns = first_ns;
    }
    if (all.end_ns - all.start_ns > UINT32_MAX) return remake(calendar, calendar->capacity, true);
    pw_calendar moved = *calendar;
    moved.origin_ns = all.start_ns;
    for (uint32_t i = 0; i < calendar->num_busy; i++) put(&moved, i, at(calendar, i));
    calendar->origin_ns = moved.origin_ns;
    return true;
}

/* A sum past the end of time stays there. */
static inline int64_t add_ns(int64_t at_ns, int64_t duration_ns)
{
    int64_t sum_ns;
    return __builtin_add_overflow(at_ns, duration_ns, &sum_ns) ? PW_NEVER : sum_ns;
}

void pw_calendar_finish(pw_calendar *calendar)
{
    free(calendar->busy);
    *calendar = (pw_calendar){0};
}

/* Room for one interval more? */
static bool make_room(pw_calendar *calendar)
{
    if (calendar->num_busy < calendar->capacity) return true;
    if (calendar->capacity == PW_CALENDAR_INTERVALS) return false;
    return remake(calendar, calendar->capacity ? 2 * calendar->capacity : FIRST_INTERVALS,
                  calendar->is_wide);
}

/* Position of the first interval that ends after at_ns; num_busy when there is none. */
static uint32_t first_ending_after(const pw_calendar *calendar, int64_t at_ns)
{
    uint32_t low = 0, high = calendar->num_busy;
    if (high > 0) {
        const pw_busy_interval last = at(calendar, high - 1);
        if (at_ns >= last.start_ns) return last.end_ns > at_ns ? high - 1 : high; /* most often */
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (at(calendar, middle).end_ns > at_ns) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* The start of the earliest gap; *position = where in the order an interval there belongs. */
static int64_t find_gap(const pw_calendar *calendar, int64_t at_ns, int64_t duration_ns,
                        uint32_t *position)
{
    int64_t start_ns = pw_later(at_ns, calendar->floor_ns);
    uint32_t i = first_ending_after(calendar, start_ns);
    for (; i < calendar->num_busy; i++) {
        const pw_busy_interval each = at(calendar, i);
        /* start < each.start also for a duration of 0: the instant a job starts is taken. */
        if (start_ns < each.start_ns && add_ns(start_ns, duration_ns) <= each.start_ns) break;
        start_ns = each.end_ns;
    }
    *position = i;
    return start_ns;
}

static void forget_oldest(pw_calendar *calendar)
{
    calendar->floor_ns = pw_later(calendar->floor_ns, at(calendar, 0).end_ns);
    calendar->head = (uint16_t)slot(calendar, 1);
    calendar->num_busy--;
}

/* Intervals before the position that are past: how many. */
static uint32_t forget_past(pw_calendar *calendar, uint32_t position)
{
    uint32_t num_forgotten = 0;
    if (!calendar->past_ns) return 0;
    while (num_forgotten < position && at(calendar, 0).end_ns < *calendar->past_ns) {
        forget_oldest(calendar);
        num_forgotten++;
    }
    return num_forgotten;
}

/* Open a hole at the position, moving the shorter side of the ring. There is room. */
static void open_hole(pw_calendar *calendar, uint32_t position)
{
    if (position < calendar->num_busy / 2) {
        calendar->head = (uint16_t)slot(calendar, calendar->capacity - 1u);
        for (uint32_t i = 0; i < position; i++) put(calendar, i, at(calendar, i + 1));
    } else {
        for (uint32_t i = calendar->num_busy; i > position; i--)
            put(calendar, i, at(calendar, i - 1));
    }
    calendar->num_busy++;
}

static void close_hole(pw_calendar *calendar, uint32_t position)
{
    if (position < calendar->num_busy / 2) {
        for (uint32_t i = position; i > 0; i--) put(calendar, i, at(calendar, i - 1));
        calendar->head = (uint16_t)slot(calendar, 1);
    } else {
        for (uint32_t i = position; i + 1 < calendar->num_busy; i++)
            put(calendar, i, at(calendar, i + 1));
    }
    calendar->num_busy--;
}

static void insert(pw_calendar *calendar, uint32_t position, int64_t start_ns, int64_t end_ns)
{
    pw_busy_interval made = {start_ns, end_ns};
    while (!make_fit(calendar, made) && position) {
        forget_oldest(calendar);
        position--;
    }
    if (!fits(calendar, made)) { /* no memory, and the new one is itself the oldest */
        calendar->floor_ns = pw_later(calendar->floor_ns, end_ns);
        return;
    }
    const pw_busy_interval none = {PW_NEVER, INT64_MIN};
    const pw_busy_interval before = position ? at(calendar, position - 1) : none;
    const pw_busy_interval behind = position < calendar->num_busy ? at(calendar, position) : none;
    const bool joins_before = before.end_ns == start_ns,
               joins_behind = position < calendar->num_busy && behind.start_ns == end_ns;
    if (joins_before) made.start_ns = before.start_ns;
    if (joins_behind) made.end_ns = behind.end_ns;
    if (joins_before) {
        put(calendar, position - 1, made);
        if (joins_behind) close_hole(calendar, position);
        return;
    }
    if (joins_behind) {
        put(calendar, position, made);
        return;
    }
    if (calendar->num_busy == calendar->capacity) position -= forget_past(calendar, position);
    if (!make_room(calendar)) {
        if (position == 0) { /* the new one is itself the oldest */
            calendar->floor_ns = pw_later(calendar->floor_ns, end_ns);
            return;
        }
        forget_oldest(calendar);
        position--;
    }
    open_hole(calendar, position);
    put(calendar, position, made);
}

int64_t pw_calendar_book(pw_calendar *calendar, int64_t at_ns, int64_t duration_ns)
{
    if (duration_ns < 0) duration_ns = 0;
    int64_t start_ns = pw_later(at_ns, calendar->floor_ns);
    uint32_t position = calendar->num_busy;
    if (position > 0) {
        pw_busy_interval last = at(calendar, position - 1);
        if (start_ns >= last.start_ns) { /* no earlier gap can be meant */
            start_ns = pw_later(start_ns, last.end_ns);
            const bool continues = start_ns == last.end_ns;
            last.end_ns = add_ns(start_ns, duration_ns);
            if (continues && fits(calendar, last)) {
                put(calendar, position - 1, last);
                calendar->booked_ns = add_ns(calendar->booked_ns, duration_ns);
                return start_ns;
            }
        } else {
            start_ns = find_gap(calendar, start_ns, duration_ns, &position);
        }
    }
    int64_t end_ns = add_ns(start_ns, duration_ns);
    if (end_ns > start_ns) {
        insert(calendar, position, start_ns, end_ns);
        calendar->booked_ns = add_ns(calendar->booked_ns, duration_ns);
    }
    return start_ns;
}

/* Book what is free from at_ns on, in one piece of max_ns at most that begins before before_ns.
 * Its start, PW_NEVER: there is none; *end_ns is its end, PW_NEVER too. */
static int64_t book_piece(pw_calendar *calendar, int64_t at_ns, int64_t max_ns, int64_t before_ns,
                          int64_t *end_ns)
{
    uint32_t position;
    const int64_t start_ns = find_gap(calendar, at_ns, 1, &position);
    *end_ns = PW_NEVER;
    if (start_ns >= before_ns) return PW_NEVER;
    *end_ns = add_ns(start_ns, max_ns);
    if (*end_ns > before_ns) *end_ns = before_ns;
    if (position < calendar->num_busy && at(calendar, position).start_ns < *end_ns)
        *end_ns = at(calendar, position).start_ns;
    insert(calendar, position, start_ns, *end_ns);
    calendar->booked_ns = add_ns(calendar->booked_ns, *end_ns - start_ns);
    return start_ns;
}

void pw_calendar_fill(pw_calendar *calendar, int64_t from_ns, int64_t to_ns)
{
    while (from_ns < to_ns &&
           book_piece(calendar, from_ns, to_ns - from_ns, to_ns, &from_ns) < PW_NEVER)
        continue;
}

int64_t pw_calendar_spend_piece(pw_calendar *calendar, int64_t at_ns, int64_t duration_ns,
                                int64_t *end_ns)
{
    return book_piece(calendar, at_ns, duration_ns, PW_NEVER, end_ns);
}

int64_t pw_calendar_spend(pw_calendar *calendar, int64_t at_ns, int64_t duration_ns)
{
    while (duration_ns > 0) {
        int64_t end_ns;
        const int64_t start_ns = pw_calendar_spend_piece(calendar, at_ns, duration_ns, &end_ns);
        if (start_ns == PW_NEVER) return PW_NEVER;
        duration_ns -= end_ns - start_ns;
        at_ns = end_ns;
    }
    return at_ns;
}

int64_t pw_calendar_peek(const pw_calendar *calendar, int64_t at_ns, int64_t duration_ns)
{
    uint32_t position;
    return find_gap(calendar, at_ns, duration_ns < 0 ? 0 : duration_ns, &position);
}

int64_t pw_calendar_idle_since(const pw_calendar *calendar, int64_t at_ns)
{
    uint32_t next = first_ending_after(calendar, at_ns);
    if (next < calendar->num_busy && at(calendar, next).start_ns <= at_ns) return at_ns;
    int64_t end_ns = next ? at(calendar, next - 1).end_ns : calendar->floor_ns;
    return end_ns < at_ns ? end_ns : at_ns;
}

/* ---- occupancy */

void pw_occupancy_finish(pw_occupancy *places)
{
    free(places->taken);
    *places = (pw_occupancy){0};
}

void pw_occupancy_take(pw_occupancy *places, uint32_t num_places, pw_time since_ns,
                       pw_time until_ns)
{
    if (!places->taken) places->taken = calloc(PW_OCCUPANCY_KEPT, sizeof *places->taken);
    if (!places->taken) return;
    places->taken[places->next] = (pw_taken_places){since_ns, until_ns, num_places};
    places->next = (places->next + 1) % PW_OCCUPANCY_KEPT;
    places->last_ns = pw_later(places->last_ns, until_ns);
}

uint32_t pw_occupancy_count(const pw_occupancy *places, pw_time at_ns, pw_time *next_ns)
{
    uint32_t num_taken = 0;
    *next_ns = PW_NEVER;
    if (!places->taken || at_ns >= places->last_ns) return 0;
    for (uint32_t i = 0; i < PW_OCCUPANCY_KEPT; i++) {
        if (places->taken[i].since_ns > at_ns || places->taken[i].until_ns <= at_ns) continue;
        num_taken += places->taken[i].num_places;
        if (places->taken[i].until_ns < *next_ns) *next_ns = places->taken[i].until_ns;
    }
    return num_taken;
}

pw_time pw_occupancy_admit(const pw_occupancy *places, uint32_t num_places, uint32_t max,
                           pw_time at_ns)
{
    pw_time next_ns;
    while (pw_occupancy_count(places, at_ns, &next_ns) + num_places > max) at_ns = next_ns;
    return at_ns;
}
