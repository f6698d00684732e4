#include "replay/turns.h"
#include "native/array.h"
#include "native/frames.h"

#define FIRST_CAPACITY 16

static int refuse(pw_turns *turns, const char *what, uint64_t number)
{
    return pw_sentence_refuse(turns->reader.reason, PW_ERR_MALFORMED, "rank %u, turn %llu: %s %llu",
                              turns->reader.rank, (unsigned long long)turns->num_turns, what,
                              (unsigned long long)number);
}

static int add_source(pw_turns *turns, uint64_t source)
{
    if (source >= pw_node_count(turns->node)) return refuse(turns, "a burst of node", source);
    if (PW_ARRAY_MAKE_ROOM(turns->sources, turns->num_sources, turns->capacity, FIRST_CAPACITY) < 0)
        return PW_ERR_NOMEM;
    turns->sources[turns->num_sources++] = (uint32_t)source;
    return PW_OK;
}

/* 1: a number; 0: the stream ends, maybe within a turn of a run that was killed. */
static int read_turn(pw_turns *turns)
{
    uint64_t number, time_ns = 0;
    int code = pw_reader_number(&turns->reader, &number);
    if (code <= 0) return code;
    turns->record += number;
    turns->num_sources = 0;
    while ((code = pw_reader_number(&turns->reader, &number)) > 0 && number >= PW_TURN_BURST)
        if ((code = add_source(turns, number - PW_TURN_BURST)) < 0) return code;
    turns->is_waiting = number == PW_TURN_WAITS;
    if (code > 0 && !turns->is_waiting) code = pw_reader_number(&turns->reader, &time_ns);
    if (time_ns > (uint64_t)PW_FRAME_TIME_MAX) return refuse(turns, "a clock at", time_ns);
    turns->now_ns = (int64_t)time_ns;
    turns->num_turns++;
    return code;
}

static int turn(pw_turns *turns)
{
    pw_clock *clock = pw_node_clock(turns->node);
    const int64_t ahead_ns = turns->is_waiting ? 0 : turns->now_ns - clock->now_ns;
    clock->now_ns += ahead_ns; /* a test in vain may have taken that back later */
    const int code = pw_node_turn(turns->node, turns->is_waiting);
    clock->now_ns -= ahead_ns;
    return code < 0 ? code : PW_TURNS_DONE;
}

int pw_turns_follow(pw_turns *turns, uint64_t num_records)
{
    if (turns->is_end) return PW_TURNS_NONE;
    if (!turns->is_read) {
        const int code = read_turn(turns);
        if (code < 0) return code;
        turns->is_end = code == 0;
        turns->is_read = true;
    }
    if (turns->is_end || turns->record > num_records) return PW_TURNS_NONE;
    if (!pw_wire_expect(turns->wire, turns->sources, turns->num_sources)) return PW_TURNS_BEHIND;
    turns->is_read = false;
    return turn(turns);
}

void pw_turns_end(pw_turns *turns)
{
    turns->is_end = true;
    pw_wire_expect_any(turns->wire);
}

void pw_turns_finish(pw_turns *turns) { free(turns->sources); }
