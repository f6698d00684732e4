/* What can be seen of a program, for people. */
#include "replay/program_parts.h"
#include <string.h>

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
