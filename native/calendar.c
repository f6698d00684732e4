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
    const uint32_t capacity = calendar->capacity ? 2 * calendar->capacity : FIRST_INTERVALS;
    pw_busy_interval *busy = malloc(capacity * sizeof *busy);
    if (!busy) return false;
    for (uint32_t i = 0; i < calendar->num_busy; i++) busy[i] = calendar->busy[slot(calendar, i)];
    free(calendar->busy);
    calendar->busy = busy;
    calendar->capacity = capacity;
    calendar->head = 0;
    return true;
}

/* Position of the first interval that ends after at_ns; num_busy when there is none. */
static uint32_t first_ending_after(const pw_calendar *calendar, int64_t at_ns)
{
    uint32_t low = 0, high = calendar->num_busy;
    if (high > 0 && at_ns >= calendar->busy[slot(calendar, high - 1)].start_ns) /* most often */
        return calendar->busy[slot(calendar, high - 1)].end_ns > at_ns ? high - 1 : high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (calendar->busy[slot(calendar, middle)].end_ns > at_ns) high = middle;
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
        uint32_t s = slot(calendar, i);
        /* start < busy.start also for a duration of 0: the instant a job starts is taken. */
        if (start_ns < calendar->busy[s].start_ns &&
            add_ns(start_ns, duration_ns) <= calendar->busy[s].start_ns)
            break;
        start_ns = calendar->busy[s].end_ns;
    }
    *position = i;
    return start_ns;
}

static void forget_oldest(pw_calendar *calendar)
{
    calendar->floor_ns = pw_later(calendar->floor_ns, calendar->busy[calendar->head].end_ns);
    calendar->head = slot(calendar, 1);
    calendar->num_busy--;
}

/* Open a hole at the position, moving the shorter side of the ring. There is room. */
static void open_hole(pw_calendar *calendar, uint32_t position)
{
    if (position < calendar->num_busy / 2) {
        calendar->head = slot(calendar, calendar->capacity - 1);
        for (uint32_t i = 0; i < position; i++)
            calendar->busy[slot(calendar, i)] = calendar->busy[slot(calendar, i + 1)];
    } else {
        for (uint32_t i = calendar->num_busy; i > position; i--)
            calendar->busy[slot(calendar, i)] = calendar->busy[slot(calendar, i - 1)];
    }
    calendar->num_busy++;
}

static void close_hole(pw_calendar *calendar, uint32_t position)
{
    if (position < calendar->num_busy / 2) {
        for (uint32_t i = position; i > 0; i--)
            calendar->busy[slot(calendar, i)] = calendar->busy[slot(calendar, i - 1)];
        calendar->head = slot(calendar, 1);
    } else {
        for (uint32_t i = position; i + 1 < calendar->num_busy; i++)
            calendar->busy[slot(calendar, i)] = calendar->busy[slot(calendar, i + 1)];
    }
    calendar->num_busy--;
}

static void insert(pw_calendar *calendar, uint32_t position, int64_t start_ns, int64_t end_ns)
{
    bool joins_before =
        position > 0 && calendar->busy[slot(calendar, position - 1)].end_ns == start_ns;
    bool joins_after = position < calendar->num_busy &&
                       calendar->busy[slot(calendar, position)].start_ns == end_ns;
    if (joins_before && joins_after) {
        calendar->busy[slot(calendar, position - 1)].end_ns =
            calendar->busy[slot(calendar, position)].end_ns;
        close_hole(calendar, position);
        return;
    }
    if (joins_before) {
        calendar->busy[slot(calendar, position - 1)].end_ns = end_ns;
        return;
    }
    if (joins_after) {
        calendar->busy[slot(calendar, position)].start_ns = start_ns;
        return;
    }
    if (!make_room(calendar)) {
        if (position == 0) { /* the new one is itself the oldest */
            calendar->floor_ns = pw_later(calendar->floor_ns, end_ns);
            return;
        }
        forget_oldest(calendar);
        position--;
    }
    open_hole(calendar, position);
    uint32_t s = slot(calendar, position);
    calendar->busy[s].start_ns = start_ns;
    calendar->busy[s].end_ns = end_ns;
}

int64_t pw_calendar_book(pw_calendar *calendar, int64_t at_ns, int64_t duration_ns)
{
    if (duration_ns < 0) duration_ns = 0;
    int64_t start_ns = pw_later(at_ns, calendar->floor_ns);
    uint32_t position = calendar->num_busy;
    if (position > 0) {
        uint32_t last = slot(calendar, position - 1);
        if (start_ns >= calendar->busy[last].start_ns) { /* no earlier gap can be meant */
            start_ns = pw_later(start_ns, calendar->busy[last].end_ns);
            if (start_ns == calendar->busy[last].end_ns) {
                calendar->busy[last].end_ns = add_ns(start_ns, duration_ns);
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

void pw_calendar_fill(pw_calendar *calendar, int64_t from_ns, int64_t to_ns)
{
    while (from_ns < to_ns) {
        uint32_t position;
        int64_t start_ns = find_gap(calendar, from_ns, 1, &position), end_ns = to_ns;
        if (start_ns >= to_ns) return;
        if (position < calendar->num_busy &&
            calendar->busy[slot(calendar, position)].start_ns < to_ns)
            end_ns = calendar->busy[slot(calendar, position)].start_ns;
        insert(calendar, position, start_ns, end_ns);
        calendar->booked_ns = add_ns(calendar->booked_ns, end_ns - start_ns);
        from_ns = end_ns;
    }
}

int64_t pw_calendar_peek(const pw_calendar *calendar, int64_t at_ns, int64_t duration_ns)
{
    uint32_t position;
    return find_gap(calendar, at_ns, duration_ns < 0 ? 0 : duration_ns, &position);
}

int64_t pw_calendar_idle_since(const pw_calendar *calendar, int64_t at_ns)
{
    uint32_t next = first_ending_after(calendar, at_ns);
    if (next < calendar->num_busy && calendar->busy[slot(calendar, next)].start_ns <= at_ns)
        return at_ns;
    int64_t end_ns = next ? calendar->busy[slot(calendar, next - 1)].end_ns : calendar->floor_ns;
    return end_ns < at_ns ? end_ns : at_ns;
}
