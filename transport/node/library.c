#include "transport/node/library.h"

#include "transport/node/node_state.h"

int64_t pw_library_work(pw_node *node, int64_t at_ns, int64_t duration_ns)
{
    return pw_calendar_book(&node->library, at_ns, duration_ns) + duration_ns;
}

int64_t pw_library_read_ns(const pw_node *node, const pw_envelope *envelope)
{
    return envelope->arrival_ns + node->costs.mailbox_read_ns;
}

int pw_library_tell(pw_node *node, uint32_t peer, uint8_t kind, uint64_t address,
                    uint64_t num_bytes, uint64_t key, uint64_t extra, int64_t at_ns)
{
    if (node->frames.frame_bytes == 0) node->frames.frame_bytes = PW_ENVELOPE_BYTES;
    uint8_t *frame = pw_node_take_frame(node);
    if (!frame) return pw_node_fail(node, PW_ERR_NOMEM, "no memory for a message to node %u", peer);
    pw_ni_control_write(node->ni, peer, kind, address, num_bytes, key, extra, at_ns, frame);
    return pw_node_send_frame(node, peer, frame, PW_ENVELOPE_BYTES);
}
