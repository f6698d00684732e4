/* The owner's side of firehoses: see firehoses.h. */
#include "transport/node/firehoses_owner.h"

#include "transport/node/firehoses.h"
#include "transport/node/library.h"
#include "transport/node/node_state.h"
#include "transport/node/strategy_pages.h"

typedef unsigned long long printed;

int pw_firehoses_offer(pw_node *node, pw_handle *handle, uint64_t address)
{
    const pw_span span = {address, handle->num_bytes};
    if (pw_span_num_pages(span) <= node->firehoses.max_pages || handle->peer == node->wire->node)
        return 0;
    int code = pw_ni_register(node->ni, address, handle->num_bytes, &handle->key);
    if (code < 0)
        return pw_node_fail(node, code, "send of %llu bytes to node %u", (printed)handle->num_bytes,
                            handle->peer);
    handle->address = address | IN_CHUNKS;
    pw_handles_begin(&node->handles, handle, ~handle->key);
    return 1;
}

int pw_firehoses_done(pw_node *node, uint32_t source, const pw_envelope *envelope)
{
    pw_handle *handle = pw_handles_end(&node->handles, ~envelope->key);
    if (!handle || handle->peer != source) return PW_ERR_MALFORMED;
    pw_ni_unexpose(node->ni, envelope->key);
    return pw_node_complete(node, handle, pw_library_read_ns(node, envelope),
                            -(int)envelope->extra);
}

int pw_firehoses_serve(pw_node *node, uint32_t source, const pw_envelope *envelope)
{
    const pw_firehose_ops *ops = node->strategy->firehoses;
    pw_firehose_peer *peer = &node->firehoses.peers[source];
    bool is_hold = envelope->kind == KIND_HOLD;
    pw_span span = {envelope->address << PW_PAGE_SHIFT, envelope->num_bytes << PW_PAGE_SHIFT};
    pw_strategy_cost cost = {0};
    int64_t at_ns = pw_library_read_ns(node, envelope);
    if (!envelope->num_bytes || envelope->num_bytes > node->firehoses.max_pages ||
        pw_range_wraps(envelope->address, envelope->num_bytes))
        return PW_ERR_MALFORMED;
    node->context.now_ns = at_ns;
    uint64_t num_swapped = pw_node_count_swapped(node);
    int code = (is_hold ? ops->hold : ops->let_go)(node->strategy_self, envelope->address,
                                                   envelope->num_bytes, &cost);
    if (code < 0) return pw_node_fail_span(node, code, is_hold ? "hold" : "let go", span);
    pw_node_add_swapped(node, num_swapped, &cost);
    int64_t cost_ns = pw_node_count_cost(node, &cost, "hold");
    if (cost_ns < 0) return (int)cost_ns;
    peer->held_ns = pw_later(peer->held_ns, pw_library_work(node, at_ns, cost_ns));
    if (!is_hold || envelope->extra) return PW_OK;
    return pw_library_tell(node, source, KIND_HELD, 0, 0, envelope->key, 0, peer->held_ns);
}
