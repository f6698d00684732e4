/* Source side of the NI: the send engine reads a block through the SMMU, cuts it in packets, sends. */
#include "native/crc32c.h"
#include "native/engine_state.h"
#include "r5sched/segmentation.h"
#include <string.h>

static uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

int pw_source_accept_read(pw_ni *ni, const pw_read_request_frame *request)
{
    if (request->key == 0) return PW_OK;
    uint64_t slot = (request->key & 0xffffffffu) - 1;
    if (slot >= ni->regions_capacity) return PW_ERR_PROTECTION;
    pw_region *region = &ni->regions[slot];
    if (region->key != request->key) return PW_ERR_PROTECTION;
    if (!region->stays && (region->peer != request->header.source_node || region->reading)) return PW_ERR_PROTECTION;
    if (request->source_address < region->address || request->num_bytes > region->num_bytes ||
        request->source_address - region->address > region->num_bytes - request->num_bytes) return PW_ERR_PROTECTION;
    region->reading = true;
    return PW_OK;
}

static pw_grant_frame *grant_slot(pw_ni *ni, uint32_t peer, uint32_t stream)
{
    return &ni->grants[(peer * 31 + stream) % PW_GRANTS_KEPT];
}

void pw_source_accept_grant(pw_ni *ni, const pw_grant_frame *grant)
{
    if (grant->num_blocks > PW_GRANT_BLOCKS) return;
    *grant_slot(ni, grant->header.source_node, grant->header.stream) = *grant;
}

/* When the block's ACK will be here, if that is certain but for other flows at the destination: the
 * destination has translated the pages, and an idle receive engine takes packets as they come. */
static bool foresee_ack(pw_ni *ni, const pw_transfer *transfer, const pw_transaction *transaction,
                        const pw_block_frame *frame, pw_time *ack_ns)
{
    const pw_grant_frame *grant = grant_slot(ni, transfer->peer, transfer->stream);
    uint32_t i = transaction->block_idx - grant->first_block;
    if (grant->header.stream != transfer->stream || grant->header.source_node != transfer->peer || i >= grant->num_blocks ||
        transaction->sequence != 0 || ni->faults.any || !pw_firmware_may_predict(&ni->firmware, transaction->channel)) return false;
    uint32_t how = grant->translations[i / 16] >> 4 * (i % 16) & 15;
    *ack_ns = pw_later(frame->last_packet_ns, frame->header.time_ns) + pw_smmu_latency_ns(&ni->smmu, how) +
              ni->paths[transfer->peer].latency_ns;
    return *ack_ns <= transaction->deadline_ns;
}

/* Translate the block's source pages. Returns the mask of packets whose pages are all present, the delay
 * of the first packet in *delay_ns; an unmapped page makes *code negative. Walks behind the first page
 * run in parallel with the packets before them. */
static uint64_t translate_source(pw_ni *ni, const pw_transfer *transfer, pw_walk *walk, uint64_t address,
                                 uint32_t num_bytes, pw_time at_ns, pw_time *delay_ns, int *code)
{
    uint64_t first_page = pw_page_of(address), last_page = pw_page_of(address + num_bytes - 1);
    uint64_t end_page = pw_page_of(transfer->source_address + transfer->num_bytes - 1) + 1;
    uint64_t mask = ~UINT64_C(0) >> (PW_BLOCK_PACKETS - divide_up(num_bytes, PW_PACKET_BYTES));
    *delay_ns = 0;
    *code = PW_OK;
    for (uint64_t page = first_page; page <= last_page; page++) {
        int state = pw_walk_state_now(walk, ni->memory, page, end_page);
        *code = pw_state_error(ni, walk, state, page);
        bool refused = *code < 0;
        bool present = !refused && pw_state_is_present(ni, state);
        if (present && pw_page_in_present_ns(&ni->driver.page_in, page) > at_ns) present = false;
        uint32_t how;
        pw_time cost_ns = pw_smmu_translate(&ni->smmu, transfer->pdid, page, present, pw_walk_is_present(walk, page + 1), at_ns, &how);
        if (page == first_page) *delay_ns = cost_ns;
        if (refused) return 0;
        if (present) continue;
        pw_engine_count_fault(ni, false, pw_state_is_permission(ni, state, page));
        uint64_t begin = page == first_page ? 0 : (page << PW_PAGE_SHIFT) - address;
        uint64_t end = page == last_page ? num_bytes : ((page + 1) << PW_PAGE_SHIFT) - address;
        for (uint64_t packet = begin / PW_PACKET_BYTES; packet * PW_PACKET_BYTES < end; packet++)
            mask &= ~(UINT64_C(1) << packet);
    }
    return mask;
}

static pw_fault fault_of(const pw_ni *ni, const pw_transfer *transfer, const pw_transaction *transaction, uint64_t address, uint32_t num_bytes)
{
    return (pw_fault){
        .identity = pw_identity(transfer->stream, transaction->block_idx),
        .source_node = ni->node, .transaction_id = transaction->id, .sequence = transaction->sequence, .pdid = transfer->pdid,
        .at_destination = false,
        .block_first_page = pw_page_of(address), .block_end_page = pw_page_of(address + num_bytes - 1) + 1,
        .transfer_first_page = pw_page_of(transfer->source_address),
        .transfer_end_page = pw_page_of(transfer->source_address + transfer->num_bytes - 1) + 1,
    };
}

/* Report the packets that could not be read to the driver, in time order. With HUPCF = 0 packets that an
 * active fault terminates leave *mask too: the driver learns nothing of them. */
static void source_faults(pw_ni *ni, const pw_transfer *transfer, const pw_transaction *transaction, uint64_t address,
                          uint32_t num_bytes, uint64_t *mask, pw_time first_ns, uint64_t interval_ps)
{
    pw_context_bank *bank = pw_smmu_bank(&ni->smmu, transfer->pdid);
    pw_fault fault = fault_of(ni, transfer, transaction, address, num_bytes);
    uint64_t num_packets = divide_up(num_bytes, PW_PACKET_BYTES);
    pw_walk *walk = &ni->source_walks[transaction->channel / PW_CHANNELS_PER_PAGE][transaction->channel % PW_CHANNELS_PER_PAGE];
    for (uint64_t packet = 0; packet < num_packets; packet++) {
        pw_time at_ns = first_ns + (pw_time)(packet * interval_ps / 1000);
        bool blocked = pw_smmu_is_blocked(&ni->smmu, bank, at_ns);
        if ((*mask >> packet & 1) && !blocked) continue;
        *mask &= ~(UINT64_C(1) << packet);
        ni->counters.accesses_blocked += blocked;
        uint64_t begin = address + packet * PW_PACKET_BYTES;
        uint64_t last = packet + 1 == num_packets ? address + num_bytes - 1 : begin + PW_PACKET_BYTES - 1;
        uint64_t page = pw_page_of(begin);
        bool first_is_fine = pw_walk_state(walk, ni->memory, page, fault.transfer_end_page) == PW_PAGE_PRESENT &&
                             pw_page_in_present_ns(&ni->driver.page_in, page) <= at_ns;
        if (first_is_fine && pw_page_of(last) != page) page = pw_page_of(last);
        int state = pw_walk_state(walk, ni->memory, page, fault.transfer_end_page);
        fault.is_permission = pw_state_is_permission(ni, state, page);
        pw_trace_add(&ni->trace, at_ns, PW_TRACE_FAULT_SOURCE, page, transaction->id);
        pw_driver_packet_fault(&ni->driver, bank, &fault, page, at_ns);
    }
}

/* Stall mode: when every page of the block was read. The engine reads in order, and the block leaves when its
 * last stalled read is answered. */
static pw_time read_stalling(pw_ni *ni, const pw_transfer *transfer, const pw_transaction *transaction, pw_walk *walk,
                             uint64_t address, uint32_t num_bytes, pw_time at_ns, int *code)
{
    pw_fault fault = fault_of(ni, transfer, transaction, address, num_bytes);
    *code = PW_OK;
    for (uint64_t page = pw_page_of(address); page < fault.block_end_page && *code == PW_OK; page++) {
        pw_time admitted_ns = pw_smmu_admit(&ni->smmu, at_ns);
        at_ns = pw_engine_access(ni, walk, &fault, page, admitted_ns, code);
        if (at_ns > admitted_ns) pw_smmu_hold(&ni->smmu, admitted_ns, at_ns);
    }
    return at_ns;
}

void pw_source_start_block(pw_ni *ni, pw_transaction *transaction, pw_time at_ns, pw_actions *failures)
{
    const pw_transfer *transfer = &ni->firmware.transfers[transaction->channel];
    pw_path *path = &ni->paths[transfer->peer];
    pw_walk *walk = &ni->source_walks[transaction->channel / PW_CHANNELS_PER_PAGE][transaction->channel % PW_CHANNELS_PER_PAGE];
    uint64_t offset = pw_block_offset(transfer->first_block_bytes, transaction->block_idx);
    uint64_t address = transfer->source_address + offset;
    uint32_t num_bytes = transaction->block_bytes;
    uint32_t num_packets = (uint32_t)divide_up(num_bytes, PW_PACKET_BYTES);
    pw_trace_add(&ni->trace, at_ns, PW_TRACE_BLOCK_STARTED, transaction->id, transaction->sequence);

    pw_time delay_ns;
    int code;
    if (transaction->block_idx == 0 && transaction->sequence == 0) {
        pw_walk_forget(walk);
        pw_engine_begin_transfer(ni, transfer->pdid, transfer->source_address, transfer->num_bytes);
    }
    uint64_t all = ~UINT64_C(0) >> (PW_BLOCK_PACKETS - num_packets);
    uint64_t mask = translate_source(ni, transfer, walk, address, num_bytes, at_ns, &delay_ns, &code);
    bool stalls = ni->settings.stall && !(ni->settings.ideal && code < 0) && (mask != all || !ni->settings.hupcf);
    at_ns += delay_ns;
    if (stalls) {
        at_ns = read_stalling(ni, transfer, transaction, walk, address, num_bytes, at_ns, &code);
        mask = all;
    }
    if (code < 0) {
        pw_firmware_fail(&ni->firmware, transaction->channel, pw_nack_of_error(code), failures, at_ns);
        return;
    }
    uint64_t engine_packet_ps = ni->engine_byte_ps_1000 * PW_PACKET_BYTES / 1000;
    uint64_t interval_ps = path->packet_ps > engine_packet_ps ? path->packet_ps : engine_packet_ps;
    pw_time engine_ns = (pw_time)divide_up(num_bytes * ni->engine_byte_ps_1000, 1000000);
    pw_time start_ns = pw_calendar_book(&ni->send_engine, at_ns, engine_ns);
    uint64_t wire_bytes = num_bytes + (uint64_t)num_packets * (uint64_t)ni->costs.packet_header_bytes;
    uint64_t wire_ps = wire_bytes * path->byte_ps_1000 / 1000;
    uint64_t first_bytes = (num_bytes < PW_PACKET_BYTES ? num_bytes : PW_PACKET_BYTES) + (uint64_t)ni->costs.packet_header_bytes;
    pw_time wire_ns = (pw_time)divide_up(wire_ps, 1000);
    pw_time link_ns = pw_calendar_book(&path->link, start_ns, wire_ns);
    transaction->sending_until_ns = link_ns + wire_ns;

    bool serviced = true;
    ni->service.code = PW_OK;
    if (!ni->settings.stall && (mask != all || !ni->settings.hupcf)) {
        source_faults(ni, transfer, transaction, address, num_bytes, &mask, link_ns, interval_ps);
        serviced = pw_driver_service(&ni->driver, &ni->service);
    }
    ni->departure = (pw_departure){
        .transaction = transaction, .translated_ns = at_ns, .mask = mask, .interval_ps = interval_ps,
        .first_ns = link_ns + (pw_time)(first_bytes * path->byte_ps_1000 / 1000000) + path->latency_ns,
        .last_ns = pw_later(link_ns + wire_ns, start_ns + engine_ns) + path->latency_ns,
    };
    if (serviced) pw_source_send_block(ni, failures);
    else pw_engine_ask(ni);
}

void pw_source_send_block(pw_ni *ni, pw_actions *failures)
{
    const pw_departure *departure = &ni->departure;
    pw_transaction *transaction = departure->transaction;
    const pw_transfer *transfer = &ni->firmware.transfers[transaction->channel];
    uint64_t offset = pw_block_offset(transfer->first_block_bytes, transaction->block_idx);
    uint32_t num_bytes = transaction->block_bytes;
    uint32_t num_packets = (uint32_t)divide_up(num_bytes, PW_PACKET_BYTES);
    uint64_t mask = departure->mask, all = ~UINT64_C(0) >> (PW_BLOCK_PACKETS - num_packets);
    if (mask != all)
        pw_walk_forget(&ni->source_walks[transaction->channel / PW_CHANNELS_PER_PAGE][transaction->channel % PW_CHANNELS_PER_PAGE]);
    if (ni->service.code < 0) {
        uint32_t code = ni->service.code == PW_ERR_ADDRESS ? PW_NACK_DECODE : PW_NACK_PROTECTION;
        pw_firmware_fail(&ni->firmware, transaction->channel, code, failures, departure->translated_ns);
        return;
    }
    uint64_t identity = pw_identity(transfer->stream, transaction->block_idx);
    ni->counters.packets += (uint64_t)__builtin_popcountll(mask);
    pw_time first_ns = departure->first_ns, last_ns = departure->last_ns, held_ns = 0;
    if (ni->faults.any && mask) mask = pw_network_lose(ni, transfer->peer, transaction, identity, mask, transaction->sending_until_ns);
    bool late = ni->faults.any && mask &&
                pw_network_delay(ni, transfer->peer, transaction, identity, &first_ns, &last_ns, &held_ns);
    if (mask == 0 || late)
        pw_firmware_no_answer(&ni->firmware, transaction->id, transaction->sequence, identity, INT64_MIN,
                              transaction->sending_until_ns);
    if (mask == 0) return;
    uint32_t crc_bytes = (num_packets * 4 + 7) & ~7u;
    uint32_t frame_bytes = ((uint32_t)sizeof(pw_block_frame) + crc_bytes + num_bytes + 7) & ~7u;
    pw_block_frame *frame = held_ns ? pw_network_keep(ni, PW_FAULT_DELAY, transfer->peer, transaction->channel, frame_bytes, first_ns)
                                    : pw_burst_append(ni->bursts, transfer->peer, frame_bytes);
    if (!frame) {
        pw_firmware_fail(&ni->firmware, transaction->channel, PW_UNRECOVERABLE, failures, departure->translated_ns);
        return;
    }
    uint8_t flags = (uint8_t)((transfer->num_blocks == 1 ? PW_FLAG_NOTIFY : 0) | (late ? PW_FLAG_COPY : 0));
    *frame = (pw_block_frame){
        .header = {.magic = PW_FRAME_MAGIC, .kind = PW_FRAME_BLOCK, .flags = flags,
                   .frame_bytes = frame_bytes, .source_node = ni->node, .pdid = transfer->pdid, .time_ns = first_ns,
                   .stream = transfer->stream},
        .block_idx = transaction->block_idx, .transaction_id = transaction->id, .sequence = transaction->sequence,
        .destination_address = transfer->destination_address + offset, .transfer_address = transfer->destination_address,
        .transfer_bytes = transfer->num_bytes, .packet_mask = mask, .block_bytes = num_bytes, .num_packets = num_packets,
        .packet_interval_ps = departure->interval_ps, .last_packet_ns = last_ns, .held_ns = held_ns,
        .notification = transfer->notification,
    };
    uint32_t *crcs = (uint32_t *)(frame + 1);
    uint8_t *payload = (uint8_t *)crcs + crc_bytes;
    const uint8_t *source = (const uint8_t *)(uintptr_t)(transfer->source_address + offset);
    crcs[num_packets - 1 + (num_packets & 1)] = 0;
    if (mask == all) pw_crc32c_copy_packets(payload, source, num_bytes, PW_PACKET_BYTES, crcs);
    else for (uint32_t packet = 0; packet < num_packets; packet++) {
        uint32_t from = packet * PW_PACKET_BYTES;
        uint32_t part = num_bytes - from < PW_PACKET_BYTES ? num_bytes - from : PW_PACKET_BYTES;
        if (mask >> packet & 1) pw_crc32c_copy_packets(payload + from, source + from, part, PW_PACKET_BYTES, &crcs[packet]);
        else {
            memset(payload + from, 0, part);
            crcs[packet] = 0;
        }
    }
    memset(payload + num_bytes, 0, frame_bytes - sizeof *frame - crc_bytes - num_bytes);
    pw_frame_seal(&frame->header, (uint32_t)sizeof *frame + crc_bytes);
    pw_time ack_ns;
    if (mask == all && foresee_ack(ni, transfer, transaction, frame, &ack_ns)) pw_firmware_predict(&ni->firmware, transaction, ack_ns);
    else if (!late) pw_transactions_await(&ni->firmware.transactions, transaction, last_ns + ni->paths[transfer->peer].latency_ns);
    if (ni->faults.any) pw_network_alter(ni, transfer->peer, transaction->channel, frame, (uint32_t)sizeof *frame + crc_bytes);
}
