/* The user's interface: writes, reads, regions and write channels; what the library's calls cost
 * the CPU, and the way to the firmware [R5 2.3.3, 3.2.1]. */
#include "ni/state.h"
#include "r5sched/firmware.h"

/* Words of the descriptor that the user writes: five addresses and data, then size with done, which
 * starts the transfer. */
#define INSERT_WRITES 5
#define TRIGGER_WRITES 1
#define READ_REQUEST_PACKETS \
    2 /* source, destination, length, PDID, notification do not fit in one */

static const pw_scheduling by_size = {PW_HINT_NONE, 0};

static bool is_valid(const pw_ni *ni, uint32_t peer, const pw_scheduling *scheduling)
{
    return peer < ni->num_nodes && scheduling->hint <= PW_HINT_LOW &&
           scheduling->window_blocks <= PW_WINDOW_MAX;
}

static int open_region(pw_ni *ni, uint32_t peer, uint64_t address, uint64_t num_bytes,
                       pw_region **region)
{
    if (pw_range_wraps(address, num_bytes)) return PW_ERR_ADDRESS;
    const pw_translation_ops *ops = ni->translation->ops;
    int code = ops->open_buffer ? ops->open_buffer(ni->translation, ni->regions.num_open) : PW_OK;
    if (code < 0) return code;
    *region = pw_regions_open(&ni->regions, peer, address, num_bytes);
    return *region ? PW_OK : PW_ERR_NOMEM;
}

int pw_ni_expose(pw_ni *ni, uint32_t peer, uint64_t address, uint64_t num_bytes,
                 const pw_scheduling *scheduling, uint64_t *key)
{
    if (!scheduling) scheduling = &by_size;
    if (!is_valid(ni, peer, scheduling)) return PW_ERR_INVALID;
    pw_region *region;
    int code = open_region(ni, peer, address, num_bytes, &region);
    if (code < 0) return code;
    region->scheduling = *scheduling;
    *key = region->key;
    return PW_OK;
}

int pw_ni_register(pw_ni *ni, uint64_t address, uint64_t num_bytes, uint32_t rights, uint64_t *key)
{
    pw_region *region;
    int code = open_region(ni, ni->node, address, num_bytes, &region);
    if (code < 0) return code;
    region->scheduling = by_size;
    region->rights = (uint8_t)rights;
    region->stays = true;
    *key = region->key;
    return PW_OK;
}

void pw_ni_set_key_secret(pw_ni *ni, uint64_t secret) { ni->regions.secret = secret; }

void pw_engine_close_region(pw_ni *ni, pw_region *region)
{
    const pw_translation_ops *ops = ni->translation->ops;
    if (ops->close_buffer)
        ops->close_buffer(ni->translation, pw_regions_id(&ni->regions, region->key));
    pw_regions_close(&ni->regions, region);
}

int pw_ni_unexpose(pw_ni *ni, uint64_t key)
{
    pw_region *region = pw_regions_find(&ni->regions, key);
    if (!region) return PW_ERR_INVALID;
    pw_ahead_disturb(ni);
    pw_engine_close_region(ni, region);
    return PW_OK;
}

static int64_t request_read(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t key,
                            const pw_descriptor *descriptor, uint64_t num_bytes, uint8_t flags,
                            pw_time at_ns, uint64_t *id)
{
    if (peer >= ni->num_nodes || num_bytes > PW_TRANSFER_MAX_BYTES) return PW_ERR_INVALID;
    if (pw_range_wraps(descriptor->source_address, num_bytes) ||
        pw_range_wraps(descriptor->destination_address, num_bytes))
        return PW_ERR_ADDRESS;
    if (!pw_translation_is_open(ni->translation, pdid)) return PW_ERR_CONTEXT;
    pw_ni_enter(ni); /* whose program calls; the grant looks at the pages at once */
    pw_read_request_frame *frame = pw_burst_append(ni->bursts, peer, sizeof *frame);
    if (!frame) return PW_ERR_NOMEM;
    uint32_t stream = (ni->next_read++ & ~PW_STREAM_READ) | PW_STREAM_READ;
    pw_time posted_ns = at_ns + READ_REQUEST_PACKETS * ni->costs->packetizer_writes *
                                    ni->costs->core_register_write_ns;
    *frame = (pw_read_request_frame){
        .header = {.magic = PW_FRAME_MAGIC,
                   .kind = PW_FRAME_READ_REQUEST,
                   .flags = flags,
                   .frame_bytes = sizeof *frame,
                   .source_node = ni->node,
                   .pdid = pdid,
                   .stream = stream,
                   .time_ns = posted_ns + pw_ni_path(ni, peer)->latency_ns},
        .source_address = descriptor->source_address,
        .destination_address = descriptor->destination_address,
        .num_bytes = num_bytes,
        .key = key,
        .notification = pw_descriptor_notification(descriptor),
    };
    pw_ni_seal(ni, peer, &frame->header, sizeof *frame);
    pw_inbound *inbound = pw_inbound_create(ni, peer, stream, frame->destination_address, num_bytes,
                                            &frame->notification);
    if (!inbound) return pw_ni_latch(ni, PW_ERR_NOMEM); /* the request is out */
    inbound->pdid = pdid;
    inbound->requested_ns = frame->header.time_ns;
    *id = stream;
    pw_ni_begin_transfer(ni, pdid, descriptor->destination_address, num_bytes);
    pw_lookahead_grant(ni, inbound);
    return posted_ns;
}

int64_t pw_ni_read(pw_ni *ni, uint16_t pdid, uint32_t peer, const pw_descriptor *descriptor,
                   uint64_t key, int64_t now_ns, uint64_t *id)
{
    if (descriptor->transfer_bytes == 0 ||
        descriptor->destination_address_notification % PW_NOTIFICATION_BYTES)
        return PW_ERR_INVALID;
    return request_read(ni, pdid, peer, key, descriptor, descriptor->transfer_bytes, 0, now_ns, id);
}

int pw_ni_fetch(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t source_address, uint64_t key,
                uint64_t destination_address, uint64_t num_bytes, int64_t at_ns, uint64_t *id)
{
    return pw_ni_fetch_piece(ni, pdid, peer, source_address, key, destination_address, num_bytes,
                             true, at_ns, id);
}

int pw_ni_fetch_piece(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t source_address,
                      uint64_t key, uint64_t destination_address, uint64_t num_bytes, bool is_last,
                      int64_t at_ns, uint64_t *id)
{
    const pw_descriptor descriptor = {.source_address = source_address,
                                      .destination_address = destination_address};
    const uint8_t flags = is_last ? 0 : PW_FLAG_MORE;
    int64_t posted_ns = request_read(ni, pdid, peer, key, &descriptor, num_bytes, flags, at_ns, id);
    return posted_ns < 0 ? (int)posted_ns : PW_OK;
}

int pw_ni_advise(pw_ni *ni, uint16_t pdid, uint64_t address, uint64_t num_bytes, int64_t at_ns)
{
    if (num_bytes == 0 || pw_range_wraps(address, num_bytes)) return PW_OK; /* fetch will tell */
    uint64_t first_page = pw_page_of(address), last_page = pw_page_of(address + num_bytes - 1);
    pw_ahead_disturb(ni);
    if (ni->translation->ops->advise)
        return ni->translation->ops->advise(ni->translation, pdid, first_page,
                                            last_page - first_page + 1, at_ns);
    ni->advises = true;
    return pw_driver_advise(&ni->driver, pdid, first_page, last_page - first_page + 1, at_ns);
}

/* Start what the transfer says on a channel that is free. When the CPU has done so, or a code. */
static int64_t post_write(pw_ni *ni, pw_transfer *transfer, pw_time at_ns)
{
    if (pw_range_wraps(transfer->source_address, transfer->num_bytes) ||
        pw_range_wraps(transfer->destination_address, transfer->num_bytes))
        return PW_ERR_ADDRESS;
    pw_ahead_disturb(ni);
    int channel = pw_firmware_claim_write(&ni->firmware, transfer->pdid);
    if (channel < 0) return channel;
    transfer->cookie = transfer->stream = pw_firmware_new_stream(&ni->firmware);
    pw_time posted_ns =
        at_ns + (INSERT_WRITES + TRIGGER_WRITES) * ni->costs->core_register_write_ns;
    pw_firmware_trigger(&ni->firmware, (uint32_t)channel, transfer, posted_ns);
    return posted_ns;
}

int pw_ni_write(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t source_address,
                uint64_t destination_address, uint64_t key, uint64_t num_bytes,
                const pw_scheduling *scheduling, int64_t at_ns, uint64_t *id)
{
    if (!scheduling) scheduling = &by_size;
    if (!is_valid(ni, peer, scheduling) || num_bytes > PW_TRANSFER_MAX_BYTES) return PW_ERR_INVALID;
    pw_transfer transfer = {
        .source_address = source_address,
        .destination_address = destination_address,
        .num_bytes = num_bytes,
        .key = key,
        .peer = peer,
        .pdid = pdid,
        .hint = (uint8_t)scheduling->hint,
        .window_blocks = (uint8_t)scheduling->window_blocks,
    };
    int64_t posted_ns = post_write(ni, &transfer, at_ns);
    if (posted_ns < 0) return (int)posted_ns;
    *id = transfer.cookie;
    return PW_OK;
}

int64_t pw_ni_write_descriptor(pw_ni *ni, uint16_t pdid, uint32_t peer,
                               const pw_descriptor *descriptor, uint64_t key, int64_t now_ns,
                               uint64_t *id)
{
    if (peer >= ni->num_nodes || !pw_descriptor_is_valid(descriptor)) return PW_ERR_INVALID;
    pw_transfer transfer = pw_transfer_of(descriptor, peer, pdid);
    transfer.key = key;
    int64_t posted_ns = post_write(ni, &transfer, now_ns);
    if (posted_ns >= 0) *id = transfer.cookie;
    return posted_ns;
}

/* What the user has done with a channel of his own. */
enum { CLOSED, OPEN, INSERTED, TRIGGERED };

static uint8_t state_of(const pw_ni *ni, uint32_t channel)
{
    const pw_virtual_channel *made =
        channel < PW_NUM_CHANNELS ? pw_firmware_channel(&ni->firmware, channel) : NULL;
    return made ? made->user_state : CLOSED;
}

/* Is it open, and no transfer of its under way? */
static bool is_at_rest(const pw_ni *ni, uint32_t channel)
{
    uint8_t state = state_of(ni, channel);
    return state != CLOSED &&
           !(state == TRIGGERED && pw_transfer_on(&ni->firmware, channel)->active);
}

int pw_ni_open_channel(pw_ni *ni, uint16_t pdid)
{
    pw_ahead_disturb(ni);
    int channel = pw_firmware_claim_write(&ni->firmware, pdid);
    if (channel >= 0) pw_firmware_channel(&ni->firmware, (uint32_t)channel)->user_state = OPEN;
    return channel;
}

int pw_ni_close_channel(pw_ni *ni, uint32_t channel)
{
    if (!is_at_rest(ni, channel)) return PW_ERR_INVALID;
    pw_firmware_channel(&ni->firmware, channel)->user_state = CLOSED;
    return PW_OK;
}

int64_t pw_ni_insert_descriptor(pw_ni *ni, uint32_t channel, uint32_t peer,
                                const pw_descriptor *descriptor, uint64_t key, int64_t now_ns)
{
    pw_firmware *firmware = &ni->firmware;
    if (peer >= ni->num_nodes || !is_at_rest(ni, channel) || !pw_descriptor_is_valid(descriptor))
        return PW_ERR_INVALID;
    if (pw_range_wraps(descriptor->source_address, descriptor->transfer_bytes) ||
        pw_range_wraps(descriptor->destination_address, descriptor->transfer_bytes))
        return PW_ERR_ADDRESS;
    pw_virtual_channel *own = pw_firmware_channel(firmware, channel);
    own->descriptor = *descriptor;
    own->descriptor.done = 0;
    own->transfer.peer = peer;
    own->transfer.key = key;
    own->user_state = INSERTED;
    return now_ns + INSERT_WRITES * ni->costs->core_register_write_ns;
}

int64_t pw_ni_trigger(pw_ni *ni, uint32_t channel, int64_t now_ns, uint64_t *id)
{
    pw_firmware *firmware = &ni->firmware;
    if (state_of(ni, channel) != INSERTED) return PW_ERR_INVALID;
    pw_ahead_disturb(ni);
    pw_time posted_ns = now_ns + TRIGGER_WRITES * ni->costs->core_register_write_ns;
    pw_virtual_channel *own = pw_firmware_channel(firmware, channel);
    pw_transfer transfer = pw_transfer_of(&own->descriptor, own->transfer.peer,
                                          firmware->page_pdid[channel / PW_CHANNELS_PER_PAGE]);
    transfer.key = own->transfer.key;
    *id = transfer.cookie = transfer.stream = pw_firmware_new_stream(firmware);
    own->user_state = TRIGGERED;
    pw_firmware_trigger(firmware, channel, &transfer, posted_ns);
    return posted_ns;
}

static bool is_paused(const pw_firmware *firmware, uint32_t channel)
{
    for (uint32_t i = 0; i < PW_TRANSACTIONS; i++) {
        const pw_transaction *transaction = pw_transactions_at(&firmware->transactions, i);
        if (transaction && transaction->state == PW_TRANSACTION_NACKED &&
            transaction->channel == channel)
            return true;
    }
    return false;
}

int pw_ni_poll_channel(const pw_ni *ni, uint32_t channel, int64_t now_ns)
{
    if (state_of(ni, channel) != TRIGGERED) return PW_ERR_INVALID;
    const pw_transfer *transfer = pw_transfer_on(&ni->firmware, channel);
    if (transfer->active)
        return is_paused(&ni->firmware, channel) ? PW_CHANNEL_PAUSED : PW_CHANNEL_ONGOING;
    if (now_ns < transfer->finished_ns) return PW_CHANNEL_ONGOING;
    return transfer->error ? PW_CHANNEL_FAILED : PW_CHANNEL_FINISHED;
}

int pw_ni_read_descriptor(const pw_ni *ni, uint32_t channel, pw_descriptor *out)
{
    if (channel >= PW_NUM_CHANNELS) return PW_ERR_INVALID;
    *out = pw_firmware_descriptor(&ni->firmware, channel);
    return PW_OK;
}
