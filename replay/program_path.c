/* What a critical path needs to know of a program, told to the trace of its node: for what the CPU
 * waited, and how far each operation went. */
#include "replay/program_parts.h"

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
