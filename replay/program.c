#include "replay/program.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "native/status.h"
#include "native/warm.h"
#include "replay/program_parts.h"

typedef unsigned long long printed;

/* ---- what is wrong */

const char *pw_program_call_name(const pw_program *program)
{
    const pw_call_counts *counts = pw_node_calls(program->node);
    return counts->num_calls ? counts->call[counts->current].name : "";
}

void pw_program_name_record(pw_program *program)
{
    pw_sentence_clear(&program->reason);
    pw_sentence_add(&program->reason, "rank %u, record %llu (%s): ", program->ops.rank,
                    (printed)(program->ops.num_read - 1),
                    *pw_program_call_name(program) ? pw_program_call_name(program)
                                                   : "before the first call");
}

__attribute__((format(printf, 2, 3))) int pw_program_refuse(pw_program *program, const char *format,
                                                            ...)
{
    va_list arguments;
    pw_program_name_record(program);
    va_start(arguments, format);
    pw_sentence_add_list(&program->reason, format, arguments);
    va_end(arguments);
    return PW_ERR_MALFORMED;
}

int pw_program_of_node(pw_program *program, int code)
{
    if (code >= 0 || program->reason.length) return code;
    const char *why = pw_node_reason(program->node);
    pw_program_name_record(program);
    pw_sentence_add(&program->reason, "%s", *why ? why : pw_status_text(code));
    return code;
}

static int failed(pw_program *program, const pw_operation *operation)
{
    static const char *const kinds[PW_OPERATION_OF_HOST] = {[PW_OPERATION_SEND] = "send",
                                                            [PW_OPERATION_RECEIVE] = "receive",
                                                            [PW_OPERATION_READ] = "get",
                                                            [PW_OPERATION_WRITE] = "put",
                                                            [PW_OPERATION_ATOMIC] = "atomic"};
    pw_program_name_record(program);
    pw_sentence_add(&program->reason, "a %s of %llu bytes with rank %u has failed: %s",
                    kinds[operation->kind], (printed)operation->message_bytes, operation->peer,
                    pw_status_text(operation->error));
    return PW_ERR_UNRECOVERABLE;
}

/* ---- going on */

static pw_perform *const performers[PW_OPS] = {
    [PW_OP_END] = pw_perform_end,
    [PW_OP_COMPUTE] = pw_perform_pass,
    [PW_OP_NAME] = pw_perform_name,
    [PW_OP_CALL] = pw_perform_enter,
    [PW_OP_ENTER] = pw_perform_enter,
    [PW_OP_LEAVE] = pw_perform_leave,
    [PW_OP_SEND] = pw_perform_send,
    [PW_OP_RECEIVE] = pw_perform_receive,
    [PW_OP_DONE] = pw_perform_await,
    [PW_OP_TOLD] = pw_perform_await,
    [PW_OP_LOOKS] = pw_perform_pass,
    [PW_OP_READ] = pw_perform_read,
    [PW_OP_SLEEP] = pw_perform_pass,
    [PW_OP_PASS] = pw_perform_pass,
    [PW_OP_MEET] = pw_perform_meet,
    [PW_OP_FOUND] = pw_perform_await_message,
    [PW_OP_TAKE] = pw_perform_take,
    [PW_OP_CANCEL] = pw_perform_cancel,
    [PW_OP_PAGES] = pw_perform_pages,
    [PW_OP_UNMAP] = pw_perform_unmap,
    [PW_OP_FORK] = pw_perform_fork,
    [PW_OP_REGION] = pw_perform_region,
    [PW_OP_LEFT] = pw_perform_left,
    [PW_OP_LOST] = pw_perform_lost,
    [PW_OP_PART] = pw_perform_await_message,
    [PW_OP_REGISTER] = pw_perform_register,
    [PW_OP_DEREGISTER] = pw_perform_deregister,
    [PW_OP_PUT] = pw_perform_transfer,
    [PW_OP_GET] = pw_perform_transfer,
    [PW_OP_ATOMIC] = pw_perform_atomic,
};

static void forget(pw_program *program, pw_numbered *operation)
{
    pw_numbers_remove(&program->numbers, operation);
    pw_operation_free(&program->messages, &operation->base);
}

/* The CPU learns of a completion, or knew of it: an earlier look was at one that came later. */
static int settle_operation(pw_program *program)
{
    pw_numbered *operation = program->operation;
    if (!operation->base.done || operation->base.list) return 0;
    if (operation->base.error) return failed(program, &operation->base);
    pw_clock *clock = program->clock;
    pw_program_tell_wait(program, operation, operation->base.complete_ns);
    if (program->wanted.opcode == PW_OP_DONE)
        pw_clock_completed(clock, operation->base.complete_ns);
    else clock->now_ns = pw_later(clock->now_ns, operation->base.complete_ns);
    forget(program, operation);
    return 1;
}

static int settle_found(pw_program *program)
{
    const pw_record *record = &program->wanted;
    const pw_operation wanted = {.context = record->context,
                                 .tag = record->tag,
                                 .peer = (uint32_t)record->peer,
                                 .source = (uint32_t)record->source};
    pw_operation *arrived = pw_messages_find(&program->messages, &wanted);
    if (!arrived) return 0;
    pw_clock *clock = program->clock;
    pw_program_tell_wait(program, (pw_numbered *)arrived, arrived->arrival_ns);
    if (record->flags & PW_FOUND_WAITED) pw_clock_completed(clock, arrived->arrival_ns);
    else clock->now_ns = pw_later(clock->now_ns, arrived->arrival_ns);
    arrived->is_announced = 1;
    if (!(record->flags & PW_FOUND_TAKEN)) {
        program->num_operations++;
        return 1;
    }
    pw_operation_unlink(arrived);
    const int code = pw_program_number(program, (pw_numbered *)arrived);
    return code < 0 ? code : 1;
}

static int settle_part(pw_program *program)
{
    const pw_record *record = &program->wanted;
    pw_numbered **each = &program->operation->parts;
    while (*each && ((*each)->base.peer != record->peer || (*each)->base.source != record->source))
        each = &(*each)->sibling;
    pw_numbered *part = *each;
    if (!part) return 0;
    *each = part->sibling;
    const int code = pw_program_number(program, part);
    return code < 0 ? code : 1;
}

static int settle_exposed(pw_program *program)
{
    pw_operation_list *list = &program->exposed;
    for (pw_operation *send; (send = list->head);) {
        if (!send->done) return 0;
        if (send->error) return failed(program, send);
        pw_program_tell_wait(program, (pw_numbered *)send, send->complete_ns);
        pw_clock_completed(program->clock, send->complete_ns);
        list->head = send->companion;
        pw_operation_free(&program->messages, send);
    }
    list->tail = NULL;
    const int code = pw_perform_leave(program, NULL);
    return code < 0 ? code : 1;
}

/* 1: what it waits for is over, and it goes on; 0: not yet; or a code. */
static int settle(pw_program *program)
{
    int code = 0;
    switch (program->waits) {
    case PW_PROGRAM_WAITS_OPERATION: code = settle_operation(program); break;
    case PW_PROGRAM_WAITS_MESSAGE:
        code = program->wanted.opcode == PW_OP_PART ? settle_part(program) : settle_found(program);
        break;
    case PW_PROGRAM_WAITS_EXPOSED: code = settle_exposed(program); break;
    case PW_PROGRAM_DRAINS:
        if (!program->messages.sends.head) program->waits = PW_PROGRAM_ENDED;
        return 0;
    default: return 0;
    }
    if (code > 0) program->waits = PW_PROGRAM_RUNS;
    return code;
}

/* The turns before the next record. 1: they are done, 0: not all yet; or a code. */
static int follow_turns(pw_program *program)
{
    int code = PW_TURNS_DONE;
    if (!program->verifies) return 1;
    while (code == PW_TURNS_DONE) code = pw_turns_follow(&program->turns, program->ops.num_read);
    if (code < 0) return pw_program_of_node(program, code);
    program->waits = code == PW_TURNS_BEHIND ? PW_PROGRAM_WAITS_TURN : PW_PROGRAM_RUNS;
    return code == PW_TURNS_NONE;
}

int pw_program_go(pw_program *program, int64_t until_ns)
{
    pw_record record;
    program->yields = false;
    while (program->waits == PW_PROGRAM_RUNS && program->clock->now_ns <= until_ns) {
        int code = follow_turns(program);
        if (code <= 0) return code;
        if (program->touches.is_under_way) {
            code = pw_program_touch_next(program);
            if (code < 0 || program->yields) return pw_program_of_node(program, code);
            continue;
        }
        code = pw_reader_record(&program->ops, &record);
        if (code < 0) return code;
        if (code == 0) {
            program->is_cut = true;
            pw_program_drain(program);
            break;
        }
        code = performers[record.opcode](program, &record);
        if (code == PW_OK && program->waits) code = settle(program);
        if (code < 0) return pw_program_of_node(program, code);
        if (program->clock->now_ns > PW_PROGRAM_TIME_MAX_NS)
            return pw_program_refuse(program, "the clock is beyond %lld ns",
                                     (long long)PW_PROGRAM_TIME_MAX_NS);
    }
    return PW_OK;
}

int pw_program_serve(pw_program *program)
{
    return pw_program_of_node(program, pw_node_turn(program->node, false));
}

int pw_program_turn(pw_program *program)
{
    if (program->waits == PW_PROGRAM_WAITS_TURN) return follow_turns(program);
    const bool follows = program->verifies && !program->turns.is_end;
    int code = follows ? PW_OK : pw_node_turn(program->node, true);
    if (code >= 0) code = settle(program);
    return pw_program_of_node(program, code);
}

/* ---- its life */

/* What is wrong with any of its streams, its program says. */
static pw_reader reader_of(const pw_program_options *options, uint32_t kind, pw_program *program)
{
    return (pw_reader){.source = options->source,
                       .rank = pw_node_number(options->node),
                       .kind = kind,
                       .reason = &program->reason};
}

int pw_program_create(const pw_program_options *options, pw_program **out, pw_sentence *reason)
{
    *out = NULL;
    pw_program *program = calloc(1, sizeof *program);
    if (!program) return pw_sentence_refuse(reason, PW_ERR_NOMEM, "no memory for a program");
    program->node = options->node;
    program->clock = pw_node_clock(options->node);
    program->matches_freely = options->matches_freely;
    program->verifies = options->verifies;
    program->key_of = options->key_of;
    program->tell_registered = options->registered;
    program->context = options->context;
    program->ops = reader_of(options, PW_PWT_OPS, program);
    program->matches = reader_of(options, PW_PWT_MATCHES, program);
    program->times = reader_of(options, PW_PWT_TIMES, program);
    program->keys = reader_of(options, PW_PWT_KEYS, program);
    program->rooms = reader_of(options, PW_PWT_ROOMS, program);
    program->touches =
        (pw_touches){.reader = reader_of(options, PW_PWT_OPS | PW_READS_AHEAD, program),
                     .when = options->verifies ? PW_TOUCH_AT_USE : options->touch};
    program->turns = (pw_turns){.reader = reader_of(options, PW_PWT_TURNS, program),
                                .node = options->node,
                                .wire = options->wire};
    pw_reader regions = reader_of(options, PW_PWT_REGIONS, program);
    const pw_messages_host host = {
        .context = program, .matched = pw_program_matched, .over = pw_program_operation_over};
    int code = pw_messages_open(&program->messages, options->node, &host,
                                options->eager_limit_bytes, 0, sizeof(pw_numbered));
    if (code < 0) pw_sentence_add(&program->reason, "messages: %s", pw_status_text(code));
    else code = pw_program_read_bases(program, &regions);
    if (code < 0) {
        *reason = program->reason;
        pw_program_destroy(program);
        return code;
    }
    pw_node_host calls =
        *pw_node_host_of(options->node); /* Python's functions look at no context */
    calls.context = program;
    calls.message = pw_program_message_arrived;
    calls.finished = pw_program_handle_finished;
    pw_node_set_host(options->node, &calls);
    *out = program;
    return PW_OK;
}

void pw_program_destroy(pw_program *program)
{
    if (!program) return;
    pw_messages_close(&program->messages);
    pw_numbers_finish(&program->numbers);
    pw_turns_finish(&program->turns);
    pw_peers_clear(&program->in_order_of);
    pw_touches_finish(&program->touches);
    free(program->bases);
    free(program->calls);
    pw_registered_finish(&program->registered);
    free(program);
}

uint32_t pw_program_waits(const pw_program *program) { return program->waits; }

bool pw_program_yields(const pw_program *program) { return program->yields; }

void pw_program_warm(const pw_program *program)
{
    PW_WARM_FIELDS(program, node, matches);
    PW_WARM_FIELDS(program, waits, known_keys);
}

uint64_t pw_program_group(const pw_program *program, uint64_t *members)
{
    *members = program->wanted.count;
    return program->wanted.group;
}

const char *pw_program_reason(const pw_program *program) { return program->reason.text; }
