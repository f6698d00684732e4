#include "transport/facade/probing.h"
#include "transport/facade/calls.h"

/* The program learns of a message: it is told of, or taken. */
static void tell(pw_operation *arrived, uint32_t flags, pw_found *out)
{
    *out = (pw_found){.num_bytes = arrived->message_bytes,
                      .source = (int32_t)arrived->source,
                      .tag = (int32_t)arrived->tag};
    if (flags & PW_PROBE_TAKE) out->taken = arrived;
}

/* As a Test does: 1 when it has arrived in virtual time. */
static int probe_now(pw_messaging *messaging, pw_channel *channel, int32_t source, int32_t tag,
                     pw_operation **found)
{
    pw_clock *clock = pw_node_clock(messaging->node);
    *found = pw_channel_find(messaging, channel, source, tag);
    if (!*found) {
        int code = pw_messaging_step(messaging, false);
        if (code < 0) return code;
        *found = pw_channel_find(messaging, channel, source, tag);
    }
    if (*found && (*found)->arrival_ns <= clock->now_ns) return 1;
    pw_node_failed_test(messaging->node, *found != NULL, clock->poll_ns);
    return 0;
}

int pw_call_probe(pw_messaging *messaging, pw_channel *channel, int32_t source, int32_t tag,
                  uint32_t flags, pw_found *out)
{
    pw_operation *found = NULL;
    int code;
    pw_node_lock(messaging->node);
    if (flags & PW_PROBE_WAIT) {
        found = pw_channel_find(messaging, channel, source, tag);
        code = found != NULL;
        if (found) {
            pw_messages_announce(&messaging->messages, found, true, flags & PW_PROBE_TAKE);
            pw_clock_completed(pw_node_clock(messaging->node), found->arrival_ns);
        }
    } else {
        code = probe_now(messaging, channel, source, tag, &found);
        if (code > 0)
            pw_messages_announce(&messaging->messages, found, false, flags & PW_PROBE_TAKE);
    }
    if (code > 0) tell(found, flags, out);
    pw_node_unlock(messaging->node);
    return code;
}

int64_t pw_call_receive_found(pw_messaging *messaging, pw_operation *arrived, uint64_t address,
                              uint64_t capacity_bytes, uint32_t flags)
{
    pw_operation *receive = NULL;
    pw_node_lock(messaging->node);
    int code = pw_receive_arrived(messaging, arrived, address, capacity_bytes,
                                  flags & PW_CALL_UNSIZED, &receive);
    pw_node_unlock(messaging->node);
    return code < 0 ? code : (int64_t)(intptr_t)receive;
}
