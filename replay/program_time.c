/* Time of a program: its calls, what it computes, and the phases that these are in. */
#include "replay/program_parts.h"
#include <string.h>

#include "native/array.h"
#include "native/status.h"
#include "node/report/program_regions.h"

typedef unsigned long long printed;

#define FIRST_CAPACITY 16
#define DEPTH_MAX 1024 /* of calls within calls */
#define NAMES_MAX 65536

/* ---- calls */

/* Is the clock where it was recorded? */
static int check_time(pw_program *program, bool is_end)
{
    uint64_t change;
    if (!program->verifies) return PW_OK;
    const int code = pw_reader_number(&program->times, &change);
    if (code <= 0) return code;
    program->recorded_ns += (uint64_t)pw_zigzag(change);
    if (program->recorded_ns == (uint64_t)program->clock->now_ns) return PW_OK;
    pw_program_difference *out = &program->difference;
    *out = (pw_program_difference){.call = program->num_calls - !is_end,
                                   .recorded_ns = (int64_t)program->recorded_ns,
                                   .replayed_ns = program->clock->now_ns,
                                   .is_there = 1,
                                   .is_end = is_end};
    memcpy(out->name, pw_program_call_name(program), strlen(pw_program_call_name(program)));
    pw_program_name_record(program);
    pw_sentence_add(&program->reason, "recorded %lld ns, replayed %lld ns",
                    (long long)out->recorded_ns, (long long)out->replayed_ns);
    return PW_ERR_UNRECOVERABLE;
}

/* What fits of a record's text, fit for a terminal. */
void pw_program_copy_text(char out[PW_CALL_NAME_BYTES], const pw_record *record)
{
    uint32_t length = 0;
    for (; length < record->text_bytes && length < PW_CALL_NAME_BYTES - 1; length++) {
        const uint8_t byte = record->text[length];
        out[length] = byte < ' ' || byte == 127 ? '?' : (char)byte;
    }
    out[length] = '\0';
}

int pw_perform_name(pw_program *program, const pw_record *record)
{
    char name[PW_CALL_NAME_BYTES];
    if (record->idx >= NAMES_MAX)
        return pw_program_refuse(program, "name %llu: they go to %u", (printed)record->idx,
                                 NAMES_MAX - 1);
    while (program->num_names <= record->idx) {
        if (PW_ARRAY_MAKE_ROOM(program->calls, program->num_names, program->names_capacity,
                               FIRST_CAPACITY) < 0)
            return PW_ERR_NOMEM;
        program->calls[program->num_names++] = PW_ERR_INVALID;
    }
    pw_program_copy_text(name, record);
    program->calls[record->idx] = pw_call_index(pw_node_calls(program->node), name);
    return PW_OK;
}

int pw_perform_enter(pw_program *program, const pw_record *record)
{
    if (program->clock->depth >= DEPTH_MAX)
        return pw_program_refuse(program, "%d calls within calls: allowed is %d", DEPTH_MAX + 1,
                                 DEPTH_MAX);
    if (record->opcode == PW_OP_CALL) {
        const int32_t call =
            record->idx < program->num_names ? program->calls[record->idx] : PW_ERR_INVALID;
        if (call < 0)
            return pw_program_refuse(program,
                                     "call %llu: it has no name, or there are more than %u names",
                                     (printed)record->idx, PW_CALLS_MAX);
        pw_call_begin(pw_node_calls(program->node), (uint32_t)call);
    }
    pw_clock_enter(program->clock, record->opcode == PW_OP_CALL);
    return PW_OK;
}

int pw_perform_leave(pw_program *program, const pw_record *record)
{
    (void)record;
    if (program->clock->depth == 0)
        return pw_program_refuse(program, "a call ends that has not begun");
    if (program->clock->depth == 1 && program->exposed.head) {
        program->waits = PW_PROGRAM_WAITS_EXPOSED;
        return PW_OK;
    }
    pw_clock_leave(program->clock);
    program->num_calls++;
    return check_time(program, false);
}

/* ---- compute */

/* Everything that a duration is added to stays in range, now and when it is scaled. */
static int check_duration(pw_program *program, int64_t duration_ns)
{
    const pw_clock *clock = program->clock;
    if (duration_ns <= PW_PROGRAM_TIME_MAX_NS - clock->declared_ns && duration_ns >= -clock->now_ns)
        return PW_OK;
    return pw_program_refuse(program, "%lld ns: the clock goes from 0 to %lld",
                             (long long)duration_ns, (long long)PW_PROGRAM_TIME_MAX_NS);
}

/* So much compute passes now, and not with the next call. */
static void compute(pw_clock *clock, int64_t duration_ns)
{
    pw_clock_declare(clock, duration_ns);
    pw_clock_enter(clock, false);
    pw_clock_leave(clock);
}

/* An interval in which pages are touched one after the other: on to the next of them, or the NI
 * goes on to where the CPU is and they are there. What is left passes with the next call. */
int pw_program_touch_next(pw_program *program)
{
    pw_touches *touches = &program->touches;
    pw_record pages;
    int64_t at_ns;
    if (!pw_touches_next(touches, &pages, &at_ns)) {
        pw_clock_declare(program->clock, touches->duration_ns - touches->passed_ns);
        touches->is_under_way = false;
        return PW_OK;
    }
    if (at_ns > touches->passed_ns) {
        compute(program->clock, at_ns - touches->passed_ns);
        touches->passed_ns = at_ns;
        return PW_OK; /* the other nodes come first, as far as they are behind */
    }
    const int code = pw_node_turn(program->node, false);
    if (code) { /* peers may have an answer to what has moved */
        program->yields = code > 0;
        return code < 0 ? code : PW_OK;
    }
    pw_touches_done(touches, &pages);
    return pw_perform_pages(program, &pages);
}

/* A compute interval begins. */
static int begin_compute(pw_program *program, int64_t duration_ns)
{
    pw_touches *touches = &program->touches;
    int code = 0;
    if (touches->when && program->clock->depth == 0)
        code = pw_touches_begin(touches, program->ops.num_read, duration_ns);
    if (code < 0) return code;
    if (!code) pw_clock_declare(program->clock, duration_ns);
    return PW_OK;
}

int pw_perform_pass(pw_program *program, const pw_record *record)
{
    pw_clock *clock = program->clock;
    if (record->opcode != PW_OP_PASS && record->duration_ns < 0)
        return pw_program_refuse(program, "a duration above %lld ns", (long long)INT64_MAX);
    const int code = check_duration(program, record->duration_ns);
    if (code < 0) return code;
    switch (record->opcode) {
    case PW_OP_COMPUTE: return begin_compute(program, record->duration_ns);
    case PW_OP_SLEEP: pw_clock_sleep(clock, record->duration_ns); break;
    case PW_OP_PASS: clock->now_ns += record->duration_ns; break;
    default: /* calls in vain */
        pw_clock_enter(clock, false);
        clock->now_ns += record->duration_ns;
        pw_clock_leave(clock);
    }
    return PW_OK;
}

int pw_perform_read(pw_program *program, const pw_record *record)
{
    (void)record;
    pw_clock_read(program->clock);
    return PW_OK;
}

/* ---- meetings, the end */

int pw_perform_meet(pw_program *program, const pw_record *record)
{
    program->wanted = *record;
    program->waits = PW_PROGRAM_WAITS_GROUP;
    return PW_OK;
}

void pw_program_meet(pw_program *program, int64_t time_ns)
{
    pw_program_tell_meeting(program, time_ns);
    program->clock->now_ns = pw_later(program->clock->now_ns, time_ns);
    program->waits = PW_PROGRAM_RUNS;
}

void pw_program_drain(pw_program *program)
{
    program->waits = PW_PROGRAM_DRAINS;
    if (program->verifies) pw_turns_end(&program->turns);
}

int pw_perform_end(pw_program *program, const pw_record *record)
{
    (void)record;
    pw_program_drain(program);
    return check_time(program, true);
}

/* ---- phases */

int pw_perform_region(pw_program *program, const pw_record *record)
{
    const int64_t code =
        pw_node_region_enter(program->node, (const char *)record->text, record->text_bytes);
    if (code == PW_ERR_INVALID)
        return pw_program_refuse(program, "the name of a phase has %u bytes, or control characters",
                                 record->text_bytes);
    return code < 0 ? (int)code : PW_OK;
}

int pw_perform_left(pw_program *program, const pw_record *record)
{
    (void)record;
    pw_node_region_leave_named(program->node, NULL, 0);
    return PW_OK;
}

int pw_perform_lost(pw_program *program, const pw_record *record)
{
    if (program->num_lost++ == 0) pw_program_copy_text(program->lost, record);
    return PW_OK;
}
