#include "replay/program_tables.h"
#include <stdlib.h>
#include <string.h>

#include "native/array.h"
#include "native/frames.h"
#include "native/memory.h"
#include "native/status.h"

#define FIRST_BUCKETS 64
#define FIRST_CAPACITY 16

/* ---- operations */

void pw_numbers_finish(pw_numbers *numbers)
{
    free(numbers->buckets);
    *numbers = (pw_numbers){NULL};
}

/* Numbers come one after the other, so that their last bits spread them. */
static pw_numbered **bucket_of(const pw_numbers *numbers, uint64_t number)
{
    return &numbers->buckets[number & (numbers->num_buckets - 1)];
}

static void put(pw_numbers *numbers, pw_numbered *operation)
{
    pw_numbered **bucket = bucket_of(numbers, operation->number);
    operation->chain = *bucket;
    *bucket = operation;
}

static int grow(pw_numbers *numbers)
{
    pw_numbers wider = {.num_buckets =
                            numbers->num_buckets ? 2 * numbers->num_buckets : FIRST_BUCKETS,
                        .num_operations = numbers->num_operations};
    wider.buckets = calloc(wider.num_buckets, sizeof *wider.buckets);
    if (!wider.buckets) return PW_ERR_NOMEM;
    for (uint64_t i = 0; i < numbers->num_buckets; i++)
        for (pw_numbered *next, *each = numbers->buckets[i]; each; each = next) {
            next = each->chain;
            put(&wider, each);
        }
    free(numbers->buckets);
    *numbers = wider;
    return PW_OK;
}

int pw_numbers_add(pw_numbers *numbers, pw_numbered *operation, uint64_t number)
{
    if (numbers->num_operations == numbers->num_buckets && grow(numbers) < 0) return PW_ERR_NOMEM;
    operation->number = number;
    put(numbers, operation);
    numbers->num_operations++;
    return PW_OK;
}

pw_numbered *pw_numbers_find(const pw_numbers *numbers, uint64_t number)
{
    if (!numbers->num_buckets) return NULL;
    pw_numbered *each = *bucket_of(numbers, number);
    while (each && each->number != number) each = each->chain;
    return each;
}

void pw_numbers_remove(pw_numbers *numbers, pw_numbered *operation)
{
    pw_numbered **each = bucket_of(numbers, operation->number);
    while (*each != operation) each = &(*each)->chain;
    *each = operation->chain;
    numbers->num_operations--;
}

/* ---- turns */

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

/* ---- touches */

void pw_touches_finish(pw_touches *touches) { free(touches->found); }

static int keep(pw_touches *touches, const pw_record *pages)
{
    if (PW_ARRAY_MAKE_ROOM(touches->found, touches->num_found, touches->capacity, FIRST_CAPACITY) <
        0)
        return PW_ERR_NOMEM;
    touches->found[touches->num_found++] = *pages;
    touches->num_pages += pages->count;
    return 1;
}

int pw_touches_begin(pw_touches *touches, uint64_t num_records, int64_t duration_ns)
{
    pw_record record;
    int code = 1;
    touches->num_found = touches->next = 0;
    touches->num_pages = touches->num_done = touches->num_there = 0;
    touches->duration_ns = duration_ns;
    touches->passed_ns = 0;
    while (code > 0 && touches->reader.num_read < num_records)
        code = pw_reader_record(&touches->reader, &record);
    while (code > 0 && (code = pw_reader_record(&touches->reader, &record)) > 0 &&
           record.opcode != PW_OP_COMPUTE)
        if (record.opcode == PW_OP_PAGES && record.state == PW_PAGE_PRESENT && record.count)
            code = keep(touches, &record);
    if (code < 0) return code;
    touches->is_under_way = touches->num_found > 0;
    return touches->is_under_way;
}

/* num_pages * ns of the interval fits nowhere. */
static int64_t spread_ns(const pw_touches *touches)
{
    const uint64_t parts = touches->num_pages + 1, place = touches->num_there + 1;
    const uint64_t whole = (uint64_t)touches->duration_ns / parts;
    const uint64_t rest = (uint64_t)touches->duration_ns % parts;
    return (int64_t)(whole * place + (uint64_t)((double)rest * (double)place / (double)parts));
}

bool pw_touches_next(const pw_touches *touches, pw_record *pages, int64_t *at_ns)
{
    if (touches->next == touches->num_found) return false;
    *pages = touches->found[touches->next];
    *at_ns = touches->when == PW_TOUCH_END ? touches->duration_ns : 0;
    if (touches->when != PW_TOUCH_SPREAD) return true;
    pages->offset += (int64_t)touches->num_done;
    pages->count = 1;
    *at_ns = spread_ns(touches);
    return true;
}

void pw_touches_done(pw_touches *touches, const pw_record *pages)
{
    touches->num_there += pages->count;
    touches->num_done += pages->count;
    if (touches->num_done < touches->found[touches->next].count) return;
    touches->num_done = 0;
    touches->next++;
}

/* ---- registered memory */

void pw_registered_finish(pw_registered *registered) { free(registered->all); }

int pw_registered_add(pw_registered *registered, const pw_registration *made)
{
    const int code = PW_ARRAY_MAKE_ROOM(registered->all, registered->count, registered->capacity,
                                        FIRST_CAPACITY);
    if (code < 0) return code;
    registered->all[registered->count++] = *made;
    return PW_OK;
}

bool pw_registered_remove(pw_registered *registered, uint64_t number, pw_registration *out)
{
    pw_registration *all = registered->all;
    uint32_t place = 0;
    while (place < registered->count && all[place].number != number) place++;
    if (place == registered->count) return false;
    *out = all[place];
    memmove(&all[place], &all[place + 1], (--registered->count - place) * sizeof *all);
    return true;
}

static bool suits(const pw_registration *registration, const pw_program_wish *wish)
{
    const uint64_t offset = wish->address - registration->address;
    if (wish->key && registration->recorded_key) return wish->key == registration->recorded_key;
    return registration->rights & wish->right && offset <= registration->num_bytes &&
           wish->num_bytes <= registration->num_bytes - offset;
}

uint64_t pw_registered_key(const pw_registered *registered, const pw_program_wish *wish)
{
    for (uint32_t i = registered->count; i-- > 0;)
        if (suits(&registered->all[i], wish)) return registered->all[i].key;
    return 0;
}
