/* A trace that keeps the first records, and one that gives full blocks of them away. */
#include "native/trace.h"
#include <assert.h>

enum { CAPACITY = 3, GIVEN_MAX = 32 };

static pw_trace_record given[GIVEN_MAX];
static uint32_t num_taken;

static void take(pw_trace *trace)
{
    assert(trace->taker == given);
    for (uint32_t i = 0; i < trace->num_records; i++) given[num_taken++] = trace->records[i];
    trace->num_given += trace->num_records;
    trace->num_records = 0;
}

static void check_keeps_first(void)
{
    pw_trace_record records[CAPACITY];
    pw_trace trace = {.records = records, .capacity = CAPACITY, .node = 7};
    for (uint64_t i = 0; i < CAPACITY + 2; i++)
        pw_trace_add(&trace, (pw_time)i, PW_TRACE_HANDLER, i, 0);
    assert(trace.num_records == CAPACITY && trace.lost == 2);
    assert(records[2].a == 2 && records[2].peer == 7);
    pw_trace_detail(&trace, 0, PW_TRACE_R5, 0, 0, 0); /* not is_detailed */
    assert(trace.lost == 2);
}

static void check_off(void)
{
    pw_trace trace = {.is_detailed = true};
    pw_trace_add(&trace, 1, PW_TRACE_HANDLER, 0, 0);
    pw_trace_detail(&trace, 1, PW_TRACE_R5, 0, 0, 0);
    assert(!trace.num_records && !trace.lost);
}

static void check_gives_away(void)
{
    pw_trace_record records[CAPACITY];
    pw_trace trace = {.records = records,
                      .capacity = CAPACITY,
                      .is_detailed = true,
                      .full = take,
                      .taker = given};
    pw_time known_ns[4];
    for (uint64_t i = 0; i < 4; i++) {
        known_ns[i] = (pw_time)(10 * i);
        assert(pw_trace_next(&trace) == i);
        pw_trace_add(&trace, known_ns[i], PW_TRACE_HANDLER, i, 0);
    }
    assert(num_taken == CAPACITY && trace.num_records == 1 && !trace.lost);
    pw_trace_move(&trace, 3, &known_ns[3], 35); /* still here */
    assert(records[0].time_ns == 35 && known_ns[3] == 35 && trace.num_records == 1);
    pw_trace_move(&trace, 1, &known_ns[1], 10); /* it has not moved */
    assert(trace.num_records == 1);
    pw_trace_move(&trace, 1, &known_ns[1], 12); /* given away */
    assert(trace.num_records == 2 && records[1].kind == PW_TRACE_MOVED);
    assert(records[1].time_ns == 12 && records[1].a == 1 && given[1].time_ns == 10);
}

int main(void)
{
    check_keeps_first();
    check_off();
    check_gives_away();
    return 0;
}
