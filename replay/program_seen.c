/* What can be seen of a program: by people, and in the trace of its node. */
#include "replay/program_parts.h"
#include <string.h>

/* ---- for people */

uint64_t pw_program_num_records(const pw_program *program) { return program->ops.num_read; }

static void place_operation(const pw_operation *operation, pw_program_place *out)
{
    out->kind = operation->kind;
    out->peer = operation->peer;
    out->tag = operation->tag;
    out->ignore = operation->ignore;
    out->num_bytes =
        operation->message_bytes ? operation->message_bytes : operation->capacity_bytes;
}

void pw_program_read_place(const pw_program *program, pw_program_place *out)
{
    *out = (pw_program_place){.waits = program->waits,
                              .is_cut = program->is_cut,
                              .num_records = program->ops.num_read,
                              .num_calls = program->num_calls,
                              .num_verified = program->times.num_read,
                              .num_lost = program->num_lost};
    memcpy(out->call, pw_program_call_name(program), strlen(pw_program_call_name(program)));
    memcpy(out->lost, program->lost, sizeof out->lost);
    if (program->waits == PW_PROGRAM_WAITS_OPERATION) {
        place_operation(&program->operation->base, out);
        out->operation = program->operation->number;
    } else if (program->waits == PW_PROGRAM_WAITS_EXPOSED) {
        /* NULL: they are over, and the program has had no turn since */
        if (program->exposed.head) place_operation(program->exposed.head, out);
    } else if (program->waits == PW_PROGRAM_WAITS_MESSAGE) {
        out->kind = PW_OPERATION_ARRIVED;
        out->peer = (uint32_t)program->wanted.peer;
        out->tag = program->wanted.tag;
    } else if (program->waits == PW_PROGRAM_WAITS_GROUP) {
        out->group = program->wanted.group;
        out->members = program->wanted.count;
    }
}

void pw_program_read_difference(const pw_program *program, pw_program_difference *out)
{
    *out = program->difference;
}

/* A long message that came early is its sender's to tell; a receive of several messages just
 * stands. */
static bool is_alone(const pw_operation *operation)
{
    if (operation->is_multi) return false;
    return operation->kind != PW_OPERATION_ARRIVED ||
           ((const pw_envelope *)(const void *)operation->frame)->kind == PW_MESSAGE_EAGER;
}

uint32_t pw_program_read_unmatched(const pw_program *program, pw_program_unmatched *out,
                                   uint32_t capacity)
{
    const pw_messages *messages = &program->messages;
    const pw_operation *heads[] = {messages->sends.head, messages->posted.head,
                                   messages->unexpected.head};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (const pw_operation *each = heads[i]; each; each = each->next) {
            if (!is_alone(each)) continue;
            if (count < capacity)
                out[count] = (pw_program_unmatched){
                    .kind = each->kind,
                    .peer = each->peer,
                    .tag = each->tag,
                    .ignore = each->ignore,
                    .num_bytes = each->message_bytes ? each->message_bytes : each->capacity_bytes};
            count++;
        }
    return count;
}

/* ---- for a critical path */

/* What a critical path needs to know of a program, told to the trace of its node: for what the CPU
 * waited, and how far each operation went. */

static pw_trace *trace_of(const pw_program *program)
{
    return pw_ni_trace(pw_node_ni(program->node));
}

static void tell_buffer(pw_trace *trace, int64_t at_ns, uint64_t region, int64_t offset,
                        uint64_t num_bytes)
{
    pw_trace_detail(trace, at_ns, PW_TRACE_BUFFER, (uint32_t)region, (uint64_t)offset, num_bytes);
}

void pw_program_tell_buffer(const pw_program *program, const pw_record *record)
{
    tell_buffer(trace_of(program), program->clock->now_ns, record->region, record->offset,
                record->bytes);
}

void pw_program_tell_operation(pw_program *program, pw_numbered *operation)
{
    pw_trace *trace = trace_of(program);
    const pw_operation *base = &operation->base;
    if (!trace->is_detailed || operation->told) return;
    operation->told = ++program->num_told;
    pw_trace_detail(trace, base->posted_ns, PW_TRACE_OPERATION, base->peer,
                    (uint64_t)base->complete_ns, (uint64_t)base->arrival_ns);
    pw_trace_detail(trace, base->posted_ns, PW_TRACE_STREAM, base->kind, operation->stream,
                    operation->told);
    tell_buffer(trace, base->posted_ns, operation->region, operation->offset, base->message_bytes);
}

void pw_program_tell_wait(pw_program *program, pw_numbered *operation, int64_t until_ns)
{
    const int64_t now_ns = program->clock->now_ns;
    if (until_ns <= now_ns) return;
    pw_program_tell_operation(program, operation);
    pw_trace_detail(trace_of(program), now_ns, PW_TRACE_WAITED, operation->base.kind,
                    (uint64_t)(until_ns - now_ns), operation->told);
}

void pw_program_tell_meeting(const pw_program *program, int64_t until_ns)
{
    const int64_t now_ns = program->clock->now_ns;
    pw_trace *trace = trace_of(program);
    pw_trace_detail(trace, now_ns, PW_TRACE_MET, trace->node,
                    (uint64_t)(pw_later(now_ns, until_ns) - now_ns), program->wanted.group);
}
