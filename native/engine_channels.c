/* The user's interface to the write channels and to reads with a notification: what the library's calls
 * cost the CPU, and the way to the firmware [R5 2.3.3, 3.2.1]. */
#include "native/engine_state.h"
#include "r5sched/channels.h"

/* Words of the descriptor that the user writes: five addresses and data, then size with done, which
 * starts the transfer. */
#define INSERT_WRITES 5
#define TRIGGER_WRITES 1

int pw_ni_open_channel(pw_ni *ni, uint16_t pdid) { return pw_channel_open(&ni->firmware, pdid); }

int pw_ni_close_channel(pw_ni *ni, uint32_t channel) { return pw_channel_close(&ni->firmware, channel); }

int64_t pw_ni_insert_descriptor(pw_ni *ni, uint32_t channel, uint32_t peer, const pw_descriptor *descriptor, int64_t now_ns)
{
    if (peer >= ni->num_nodes) return PW_ERR_INVALID;
    int code = pw_channel_insert(&ni->firmware, channel, peer, descriptor);
    return code < 0 ? code : now_ns + INSERT_WRITES * ni->costs.core_register_write_ns;
}

int64_t pw_ni_trigger(pw_ni *ni, uint32_t channel, int64_t now_ns, uint64_t *id)
{
    pw_time posted_ns = now_ns + TRIGGER_WRITES * ni->costs.core_register_write_ns;
    uint32_t stream;
    int code = pw_channel_trigger(&ni->firmware, channel, posted_ns, &stream);
    if (code < 0) return code;
    *id = stream;
    return posted_ns;
}

int pw_ni_poll_channel(const pw_ni *ni, uint32_t channel, int64_t now_ns)
{
    return pw_channel_poll(&ni->firmware, channel, now_ns);
}

int pw_ni_read_descriptor(const pw_ni *ni, uint32_t channel, pw_descriptor *out)
{
    if (channel >= PW_NUM_CHANNELS) return PW_ERR_INVALID;
    *out = ni->firmware.descriptors[channel];
    return PW_OK;
}

int64_t pw_ni_read(pw_ni *ni, uint16_t pdid, uint32_t peer, const pw_descriptor *descriptor, uint64_t key, int64_t now_ns,
                   uint64_t *id)
{
    pw_notification notification = pw_descriptor_notification(descriptor);
    if (descriptor->transfer_bytes == 0 || notification.address % PW_NOTIFICATION_BYTES) return PW_ERR_INVALID;
    return pw_engine_request_read(ni, pdid, peer, key, descriptor->source_address, descriptor->destination_address,
                                  descriptor->transfer_bytes, &notification, now_ns, id);
}

int pw_ni_register(pw_ni *ni, uint64_t address, uint64_t num_bytes, uint64_t *key)
{
    int code = pw_ni_expose(ni, ni->node, address, num_bytes, key);
    if (code == PW_OK) ni->regions[(*key & 0xffffffffu) - 1].stays = true;
    return code;
}
