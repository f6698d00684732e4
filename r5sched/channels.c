#include "r5sched/channels.h"

enum { CLOSED, OPEN, INSERTED, TRIGGERED };

static bool is_busy(const pw_firmware *firmware, uint32_t channel)
{
    return firmware->user_states[channel] == TRIGGERED && firmware->transfers[channel].active;
}

int pw_channel_open(pw_firmware *firmware, uint16_t pdid)
{
    int channel = pw_firmware_claim_write(firmware, pdid);
    if (channel >= 0) firmware->user_states[channel] = OPEN;
    return channel;
}

int pw_channel_close(pw_firmware *firmware, uint32_t channel)
{
    if (channel >= PW_NUM_CHANNELS || firmware->user_states[channel] == CLOSED ||
        is_busy(firmware, channel))
        return PW_ERR_INVALID;
    firmware->user_states[channel] = CLOSED;
    return PW_OK;
}

int pw_channel_insert(pw_firmware *firmware, uint32_t channel, uint32_t peer,
                      const pw_descriptor *descriptor)
{
    if (channel >= PW_NUM_CHANNELS || firmware->user_states[channel] == CLOSED ||
        is_busy(firmware, channel))
        return PW_ERR_INVALID;
    if (descriptor->transfer_bytes == 0 ||
        descriptor->destination_address_notification % PW_NOTIFICATION_BYTES)
        return PW_ERR_INVALID;
    if (descriptor->reserved[0] > PW_HINT_LOW || descriptor->reserved[1] > PW_WINDOW_MAX)
        return PW_ERR_INVALID;
    if (pw_range_wraps(descriptor->source_address, descriptor->transfer_bytes) ||
        pw_range_wraps(descriptor->destination_address, descriptor->transfer_bytes))
        return PW_ERR_ADDRESS;
    firmware->descriptors[channel] = *descriptor;
    firmware->descriptors[channel].done = 0;
    firmware->transfers[channel].peer = peer;
    firmware->user_states[channel] = INSERTED;
    return PW_OK;
}

int pw_channel_trigger(pw_firmware *firmware, uint32_t channel, pw_time at_ns, uint32_t *stream)
{
    if (channel >= PW_NUM_CHANNELS || firmware->user_states[channel] != INSERTED)
        return PW_ERR_INVALID;
    const pw_descriptor *descriptor = &firmware->descriptors[channel];
    pw_transfer transfer = {
        .source_address = descriptor->source_address,
        .destination_address = descriptor->destination_address,
        .num_bytes = descriptor->transfer_bytes,
        .peer = firmware->transfers[channel].peer,
        .pdid = firmware->page_pdid[channel / PW_CHANNELS_PER_PAGE],
        .stream = pw_firmware_new_stream(firmware),
        .notification = pw_descriptor_notification(descriptor),
        .hint = (uint8_t)descriptor->reserved[0],
        .window_blocks = (uint8_t)descriptor->reserved[1],
    };
    transfer.cookie = transfer.stream;
    firmware->user_states[channel] = TRIGGERED;
    pw_firmware_trigger(firmware, channel, &transfer, at_ns);
    *stream = transfer.stream;
    return PW_OK;
}

static bool is_paused(const pw_firmware *firmware, uint32_t channel)
{
    for (uint32_t i = 0; i < PW_TRANSACTIONS; i++) {
        const pw_transaction *transaction = &firmware->transactions.entries[i];
        if (transaction->state == PW_TRANSACTION_NACKED && transaction->channel == channel)
            return true;
    }
    return false;
}

int pw_channel_poll(const pw_firmware *firmware, uint32_t channel, pw_time at_ns)
{
    if (channel >= PW_NUM_CHANNELS || firmware->user_states[channel] != TRIGGERED)
        return PW_ERR_INVALID;
    const pw_transfer *transfer = &firmware->transfers[channel];
    if (transfer->active)
        return is_paused(firmware, channel) ? PW_CHANNEL_PAUSED : PW_CHANNEL_ONGOING;
    if (at_ns < transfer->finished_ns) return PW_CHANNEL_ONGOING;
    return transfer->error ? PW_CHANNEL_FAILED : PW_CHANNEL_FINISHED;
}
