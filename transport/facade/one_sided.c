#include "transport/facade/one_sided.h"

#include "ni/ni.h"
#include "node/clock.h"
#include "node/node.h"
#include "node/record/recorder.h"
#include "transport/facade/calls.h"

/* The node's clock, which is locked. began_ns 0: the call has begun. */
static pw_clock *begin(pw_messaging *messaging, int64_t began_ns)
{
    pw_clock *clock = pw_node_clock(messaging->node);
    pw_node_lock(messaging->node);
    if (began_ns) pw_clock_enter_at(clock, false, began_ns);
    return clock;
}

static void end(pw_messaging *messaging)
{
    pw_clock_leave(pw_node_clock(messaging->node));
    pw_node_unlock(messaging->node);
}

static bool reads(const pw_one_sided *channel) { return channel->number == PW_ONE_SIDED_READS; }

static int schedule(pw_messaging *messaging, pw_one_sided *channel, int64_t now_ns)
{
    const pw_node_host *host = pw_node_host_of(messaging->node);
    pw_descriptor *descriptor = &channel->descriptor;
    pw_scheduling said = {PW_HINT_NONE, 0};
    if (!host->schedule || descriptor->reserved[0] != PW_HINT_NONE || descriptor->reserved[1])
        return PW_OK;
    const int code = host->schedule(host->context, descriptor->transfer_bytes, channel->peer, false,
                                    now_ns, &said);
    descriptor->reserved[0] = said.hint;
    descriptor->reserved[1] = said.window_blocks;
    return code;
}

static int fail(pw_node *node, int64_t code, const pw_one_sided *channel)
{
    return pw_node_fail(node, (int)code, "transfer of %u bytes with rank %u",
                        channel->descriptor.transfer_bytes, channel->peer);
}

/* For a write: a read is told to nobody before it is triggered. */
static int insert(pw_messaging *messaging, pw_one_sided *channel, pw_clock *clock)
{
    const int code = schedule(messaging, channel, clock->now_ns);
    if (code < 0) return code;
    const int64_t inserted_ns =
        pw_ni_insert_descriptor(pw_node_ni(messaging->node), (uint32_t)channel->number,
                                channel->peer, &channel->descriptor, channel->key, clock->now_ns);
    if (inserted_ns < 0) return fail(messaging->node, inserted_ns, channel);
    clock->now_ns = inserted_ns;
    return PW_OK;
}

int pw_one_sided_insert(pw_messaging *messaging, pw_one_sided *channel, int64_t began_ns)
{
    pw_clock *clock = begin(messaging, began_ns);
    const int code = reads(channel) ? PW_OK : insert(messaging, channel, clock);
    channel->is_inserted = code >= 0;
    end(messaging);
    return code;
}

static int start(pw_messaging *messaging, pw_one_sided *channel, pw_clock *clock)
{
    pw_node *node = messaging->node;
    pw_handle *handle;
    uint64_t id;
    const int64_t posted_ns =
        reads(channel)
            ? pw_ni_read(pw_node_ni(node), pw_node_pdid(node), channel->peer, &channel->descriptor,
                         channel->key, clock->now_ns, &id)
            : pw_ni_trigger(pw_node_ni(node), (uint32_t)channel->number, clock->now_ns, &id);
    if (posted_ns < 0) return fail(node, posted_ns, channel);
    clock->now_ns = posted_ns;
    pw_node_record_lost(node, "a one-sided operation");
    const int code = pw_node_started(node, id, channel->peer, &handle);
    if (code < 0) return code;
    pw_one_sided_forget(messaging, channel);
    channel->handle = handle;
    return PW_OK;
}

int pw_one_sided_trigger(pw_messaging *messaging, pw_one_sided *channel, int64_t began_ns)
{
    pw_clock *clock = begin(messaging, began_ns);
    channel->is_inserted = false;
    const int code = start(messaging, channel, clock);
    end(messaging);
    return code;
}

static int state_of(const pw_messaging *messaging, const pw_one_sided *channel, int64_t now_ns)
{
    const pw_handle *handle = channel->handle;
    if (!reads(channel))
        return pw_ni_poll_channel(pw_node_ni(messaging->node), (uint32_t)channel->number, now_ns);
    if (!handle->done || handle->complete_ns > now_ns) return PW_CHANNEL_ONGOING;
    return handle->error ? PW_CHANNEL_FAILED : PW_CHANNEL_FINISHED;
}

int pw_one_sided_wait(pw_messaging *messaging, pw_one_sided *channel, int64_t began_ns)
{
    pw_clock *clock = begin(messaging, began_ns);
    pw_pace pace = {.num_turns = 0};
    int code = 0;
    while (!channel->handle->done) {
        code = pw_messaging_step(messaging, true);
        if (code < 0) break;
        if (pw_node_is_due(messaging->node, &pace, code, PW_CALL_PAUSE_NS)) {
            pw_node_unlock(messaging->node);
            return 0;
        }
    }
    if (code >= 0) {
        clock->now_ns = pw_later(clock->now_ns, channel->handle->complete_ns);
        pw_clock_pass(clock, channel->poll_ns);
        code = state_of(messaging, channel, clock->now_ns);
    }
    end(messaging);
    return code;
}

int pw_one_sided_poll(pw_messaging *messaging, pw_one_sided *channel, int64_t began_ns)
{
    pw_clock *clock = begin(messaging, began_ns);
    int code = pw_messaging_step(messaging, false);
    if (code >= 0) {
        code = state_of(messaging, channel, clock->now_ns);
        if (code == PW_CHANNEL_FINISHED || code == PW_CHANNEL_FAILED)
            pw_clock_pass(clock, channel->poll_ns);
        else pw_node_failed_test(messaging->node, channel->handle->done, channel->poll_ns);
    }
    end(messaging);
    return code;
}

void pw_one_sided_forget(pw_messaging *messaging, pw_one_sided *channel)
{
    if (channel->handle) pw_node_free_handle(messaging->node, channel->handle);
    channel->handle = NULL;
}
