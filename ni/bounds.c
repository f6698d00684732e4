#include "ni/bounds.h"
#include "ni/state.h"

/* --- source -------------------------------------------------------------------------------------
 */

static int channel_of(const pw_ni *ni, const pw_control_frame *answer)
{
    const pw_transaction *transaction =
        pw_transactions_find((pw_transactions *)&ni->firmware.transactions, answer->transaction_id);
    const pw_transfer *transfers = ni->firmware.transfers;
    uint32_t stream = answer->header.stream, peer = answer->header.source_node;
    if (transaction && transfers[transaction->channel].stream == stream &&
        transfers[transaction->channel].peer == peer)
        return (int)transaction->channel;
    for (int channel = 0; channel < PW_NUM_CHANNELS; channel++)
        if (transfers[channel].active && transfers[channel].stream == stream &&
            transfers[channel].peer == peer)
            return channel;
    return -1;
}

void pw_bounds_want(pw_ni *ni, const pw_control_frame *answer)
{
    int channel = channel_of(ni, answer);
    if (channel < 0) return; /* over: its CLOSE or ABORT says more than a bound */
    pw_bounds *bounds = &ni->bounds;
    pw_time latency_ns = ni->paths[answer->header.source_node].latency_ns;
    pw_time need_ns = (pw_time)answer->argument0 - latency_ns;
    bool same =
        bounds->wanted[channel].listed && bounds->wanted[channel].stream == answer->header.stream;
    if (!same || need_ns < bounds->wanted[channel].need_ns)
        bounds->wanted[channel].need_ns = need_ns;
    bounds->wanted[channel].stream = answer->header.stream;
    if (bounds->wanted[channel].listed) return;
    bounds->wanted[channel].listed = true;
    bounds->channels[bounds->num_channels++] = (uint16_t)channel;
}

static void send_bound(pw_ni *ni, const pw_transfer *transfer, pw_time at_ns)
{
    pw_control_frame frame = {.header = {.kind = PW_FRAME_BOUND,
                                         .pdid = transfer->pdid,
                                         .stream = transfer->stream,
                                         .time_ns = at_ns}};
    pw_engine_send_control(ni, transfer->peer, &frame);
}

/* Nothing happens here before the next event, nor before an answer that may come. */
static pw_time nothing_before_ns(const pw_ni *ni)
{
    pw_time at_ns = pw_event_queue_next_ns(ni->events);
    pw_time answer_ns = ni->firmware.transactions.earliest_answer_ns;
    if (answer_ns < at_ns) at_ns = answer_ns;
    return ni->copy_answer_ns < at_ns ? ni->copy_answer_ns : at_ns;
}

void pw_bounds_announce(pw_ni *ni)
{
    pw_bounds *bounds = &ni->bounds;
    if (!bounds->num_channels || ni->decision_wanted) return;
    pw_time floor_ns = nothing_before_ns(ni);
    uint32_t num_kept = 0;
    for (uint32_t i = 0; i < bounds->num_channels; i++) {
        uint16_t channel = bounds->channels[i];
        const pw_transfer *transfer = &ni->firmware.transfers[channel];
        bool is_over = !transfer->active || transfer->stream != bounds->wanted[channel].stream;
        pw_time latency_ns = is_over ? 0 : ni->paths[transfer->peer].latency_ns;
        pw_time at_ns =
            floor_ns < PW_FRAME_TIME_MAX - latency_ns ? floor_ns + latency_ns : PW_FRAME_TIME_MAX;
        if (!is_over && at_ns < bounds->wanted[channel].need_ns) {
            bounds->channels[num_kept++] = channel;
            continue;
        }
        bounds->wanted[channel].listed = false; /* until the destination asks for more */
        if (!is_over) send_bound(ni, transfer, at_ns);
    }
    bounds->num_channels = num_kept;
}

/* --- destination --------------------------------------------------------------------------------
 */

static void send_err(pw_ni *ni, const pw_err_order *order)
{
    pw_control_frame frame = {
        .header = {.kind = PW_FRAME_ERR,
                   .pdid = order->pdid,
                   .stream = (uint32_t)(order->identity >> 32),
                   .time_ns = order->at_ns + ni->paths[order->source_node].latency_ns},
        .block_idx = (uint32_t)order->identity,
        .transaction_id = order->transaction_id,
        .sequence = order->sequence,
        .argument0 = pw_err_word(order->pdid, order->transaction_id, order->sequence, order->pdid),
    };
    pw_engine_send_control(ni, order->source_node, &frame);
}

void pw_bounds_send_errs(pw_ni *ni, pw_time known_ns)
{
    pw_err_order order;
    while (pw_driver_next_err(&ni->driver, known_ns, &order))
        if (!order.is_lost) send_err(ni, &order);
}

static void send_later(pw_ni *ni, const pw_err_order *order)
{
    pw_time latency_ns = ni->paths[order->source_node].latency_ns;
    pw_control_frame frame = {.header = {.kind = PW_FRAME_ERR_LATER,
                                         .pdid = order->pdid,
                                         .stream = (uint32_t)(order->identity >> 32),
                                         .time_ns = order->at_ns + latency_ns},
                              .block_idx = (uint32_t)order->identity,
                              .transaction_id = order->transaction_id,
                              .sequence = order->sequence,
                              .argument0 = (uint64_t)(order->at_ns + latency_ns)};
    pw_engine_send_control(ni, order->source_node, &frame);
}

void pw_bounds_tell_later(pw_ni *ni, const pw_inbound *inbound)
{
    pw_err_order order;
    if (pw_driver_earliest_err(&ni->driver, &inbound->bound_ns, &order)) send_later(ni, &order);
}

void pw_bounds_note(pw_ni *ni, pw_inbound *inbound, pw_time at_ns)
{
    if (at_ns <= inbound->bound_ns) return;
    inbound->bound_ns = at_ns;
    if (inbound->has_page_ins) pw_bounds_send_errs(ni, at_ns);
}

void pw_bounds_on_frame(pw_ni *ni, const pw_frame_header *frame)
{
    pw_inbound *inbound = pw_inbound_find(ni, frame->source_node, frame->stream);
    if (!inbound) {
        ni->counters.stale_frames++;
        return;
    }
    pw_bounds_note(ni, inbound, frame->time_ns);
    pw_bounds_tell_later(ni, inbound);
}

void pw_bounds_release(pw_ni *ni, pw_inbound *inbound)
{
    if (!inbound->has_page_ins) return;
    pw_driver_release(&ni->driver, &inbound->bound_ns);
    pw_bounds_send_errs(ni, PW_NEVER);
}
