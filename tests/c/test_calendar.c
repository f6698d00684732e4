/* Smoke test of the calendar without Python: order, gap, merge, forgetting. */
#include <assert.h>

#include "native/calendar.h"

int main(void)
{
    pw_calendar calendar;
    pw_calendar_init(&calendar);
    assert(pw_calendar_book(&calendar, 100, 50) == 100);
    assert(pw_calendar_book(&calendar, 200, 50) == 200);
    assert(pw_calendar_peek(&calendar, 120, 50) == 150);
    assert(pw_calendar_book(&calendar, 120, 50) == 150);
    assert(calendar.num_busy == 1 && calendar.booked_ns == 150);
    for (int64_t i = 0; i < PW_CALENDAR_INTERVALS; i++)
        assert(pw_calendar_book(&calendar, 1000 + i * 10, 5) == 1000 + i * 10);
    assert(calendar.num_busy == PW_CALENDAR_INTERVALS && calendar.floor_ns == 250);
    assert(pw_calendar_book(&calendar, 0, 5) == 250);
    return 0;
}
