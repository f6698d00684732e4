/* Destination side of the NI: the receive engine writes a block's packets through the SMMU,
 * acknowledges, or logs faults, NACKs and lets the driver page in. Runs as soon as the frame is
 * physically here; what it answers carries the virtual time at which it happens. A block's bytes are
 * written only when the whole block is fine, and only once. */
#include "native/crc32c.h"
#include "native/engine_state.h"
#include "r5sched/segmentation.h"
#include <stdlib.h>
#include <string.h>

static uint32_t bucket(uint32_t peer, uint32_t stream)
{
    return (uint32_t)((((uint64_t)peer << 32 | stream) * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % PW_LANDING_BUCKETS;
}

pw_landing *pw_landing_find(pw_ni *ni, uint32_t peer, uint32_t stream)
{
    pw_landing *landing = ni->landings[bucket(peer, stream)];
    while (landing && (landing->peer != peer || landing->stream != stream)) landing = landing->next;
    return landing;
}

pw_landing *pw_landing_create(pw_ni *ni, uint32_t peer, uint32_t stream, uint64_t destination_address, uint64_t num_bytes,
                              const pw_notification *notification)
{
    uint32_t num_blocks = pw_num_blocks(destination_address, num_bytes);
    uint32_t num_words = (num_blocks + 63) / 64;
    pw_landing *landing = ni->free_landings;
    if (landing) ni->free_landings = landing->next;
    else if (!(landing = malloc(sizeof *landing))) return NULL;
    memset(landing, 0, offsetof(pw_landing, walk));
    pw_walk_forget(&landing->walk);
    landing->walk.for_write = true;
    landing->delivered = landing->small;
    if (num_words > sizeof landing->small / sizeof landing->small[0]) {
        landing->delivered = calloc(num_words, sizeof *landing->delivered);
        if (!landing->delivered) {
            landing->next = ni->free_landings;
            ni->free_landings = landing;
            return NULL;
        }
    }
    landing->peer = peer;
    landing->stream = stream;
    landing->destination_address = destination_address;
    landing->num_bytes = num_bytes;
    landing->num_blocks = num_blocks;
    landing->notification = *notification;
    landing->is_read = (stream & PW_STREAM_READ) != 0;
    uint32_t home = bucket(peer, stream);
    landing->next = ni->landings[home];
    ni->landings[home] = landing;
    ni->num_landings++;
    return landing;
}

static void destroy_landing(pw_ni *ni, pw_landing *landing)
{
    pw_landing **link = &ni->landings[bucket(landing->peer, landing->stream)];
    while (*link != landing) link = &(*link)->next;
    *link = landing->next;
    if (landing->delivered != landing->small) free(landing->delivered);
    if (landing->has_page_ins && landing->num_bytes)
        pw_page_in_forget(&ni->driver.page_in, pw_page_of(landing->destination_address),
                          pw_page_of(landing->destination_address + landing->num_bytes - 1) -
                              pw_page_of(landing->destination_address) + 1);
    if (landing->has_page_ins && landing->notification.address)
        pw_page_in_forget(&ni->driver.page_in, pw_page_of(landing->notification.address), 1);
    landing->next = ni->free_landings;
    ni->free_landings = landing;
    ni->num_landings--;
}

static void complete(pw_ni *ni, pw_landing *landing, int error, pw_time at_ns)
{
    const pw_notification *notification = &landing->notification;
    if (error == PW_OK && notification->address) error = pw_notification_write(ni, landing, &at_ns);
    landing->complete = true;
    landing->error = error;
    uint32_t kind = landing->is_read ? PW_HOST_FETCH_DONE : PW_HOST_ARRIVED;
    pw_trace_add(&ni->trace, at_ns, PW_TRACE_NOTIFIED, landing->stream, landing->num_bytes);
    pw_engine_emit(ni, kind, landing->stream, error, at_ns, landing->num_bytes, landing->peer);
    if (!notification->address) return;
    pw_host_event event = {.kind = PW_HOST_NOTIFIED, .error = error, .id = notification->address, .time_ns = at_ns,
                           .num_bytes = landing->num_bytes, .peer = landing->peer, .data = {notification->data[0], notification->data[1]}};
    pw_engine_emit_event(ni, &event);
}

static void complete_when_whole(pw_ni *ni, pw_landing *landing)
{
    if (landing->complete || !landing->notified || landing->num_delivered < landing->num_blocks) return;
    complete(ni, landing, PW_OK, pw_later(landing->last_delivery_ns, landing->notified_ns));
    if (landing->closed) destroy_landing(ni, landing);
}

void pw_landing_notified(pw_ni *ni, pw_landing *landing, pw_time at_ns)
{
    if (!landing->notified) landing->notified_ns = at_ns;
    landing->notified = true;
    complete_when_whole(ni, landing);
}

void pw_landing_close(pw_ni *ni, pw_landing *landing)
{
    landing->closed = true;
    if (landing->complete) destroy_landing(ni, landing);
}

void pw_landing_fail(pw_ni *ni, pw_landing *landing, int error, pw_time at_ns)
{
    if (!landing->complete) complete(ni, landing, error, at_ns);
    destroy_landing(ni, landing);
}

/* sent_ns: a receive engine that is busy holds the block in the source's NI until then (flow control of
 * the links), and there the timeout must not run. */
static void answer_part(pw_ni *ni, const pw_block_frame *block, uint32_t part, pw_time sent_ns, enum pw_frame_kind kind,
                        uint32_t code, uint8_t flags, pw_time at_ns)
{
    uint32_t peer = block->header.source_node;
    enum pw_fault_site_id site = kind == PW_FRAME_ACK ? PW_FAULT_LOST_ACK : PW_FAULT_LOST_NACK;
    if (ni->faults.any && kind != PW_FRAME_NO_ANSWER && pw_answer_is_lost(ni, site, block, part, at_ns)) {
        if (flags & PW_FLAG_ERR_FOLLOWS) return;
        kind = PW_FRAME_NO_ANSWER;
        code = 0;
        flags |= PW_FLAG_SPOILED;
    }
    if (block->header.flags & PW_FLAG_COPY) {
        if (kind == PW_FRAME_NO_ANSWER) return;     /* said when the copy is answered */
        flags |= PW_FLAG_COPY;
    }
    pw_control_frame frame = {
        .header = {.kind = (uint8_t)kind, .flags = flags, .pdid = block->header.pdid, .stream = block->header.stream,
                   .time_ns = at_ns + ni->paths[peer].latency_ns},
        .block_idx = block->block_idx, .transaction_id = block->transaction_id, .sequence = block->sequence, .code = code,
        .argument1 = (uint64_t)sent_ns,
    };
    pw_engine_send_control(ni, peer, &frame);
    if (kind == PW_FRAME_ACK) pw_trace_add(&ni->trace, at_ns, PW_TRACE_ACK_SENT, block->transaction_id, block->sequence);
    if (kind == PW_FRAME_NACK) pw_trace_add(&ni->trace, at_ns, PW_TRACE_NACK_SENT, block->transaction_id, code);
}

static void answer(pw_ni *ni, const pw_block_frame *block, pw_time sent_ns, enum pw_frame_kind kind, uint32_t code,
                   uint8_t flags, pw_time at_ns)
{
    answer_part(ni, block, PW_BLOCK_PACKETS, sent_ns, kind, code, flags, at_ns);
}

void pw_destination_answered(pw_ni *ni, const pw_block_frame *block)
{
    if (!(block->header.flags & PW_FLAG_COPY)) return;
    pw_control_frame frame = {
        .header = {.kind = PW_FRAME_NO_ANSWER, .flags = PW_FLAG_COPY, .pdid = block->header.pdid, .stream = block->header.stream,
                   .time_ns = block->last_packet_ns},
        .block_idx = block->block_idx, .transaction_id = block->transaction_id, .sequence = block->sequence,
    };
    pw_engine_send_control(ni, block->header.source_node, &frame);
}

static bool is_well_formed(const pw_block_frame *block)
{
    uint64_t offset = block->destination_address - block->transfer_address;
    uint32_t first_bytes = pw_first_block_bytes(block->transfer_address, block->transfer_bytes);
    if (block->transfer_bytes == 0 || block->transfer_bytes > PW_TRANSFER_MAX_BYTES) return false;
    if (block->transfer_address + block->transfer_bytes < block->transfer_address) return false;
    if (block->block_idx >= pw_num_blocks(block->transfer_address, block->transfer_bytes)) return false;
    if (offset != pw_block_offset(first_bytes, block->block_idx)) return false;
    if (block->block_bytes != pw_block_bytes(block->transfer_bytes, first_bytes, block->block_idx)) return false;
    if (block->num_packets != (block->block_bytes + PW_PACKET_BYTES - 1) / PW_PACKET_BYTES) return false;
    if (block->packet_interval_ps > UINT32_MAX) return false;
    if (block->notification.address % PW_NOTIFICATION_BYTES) return false;
    if (block->last_packet_ns < block->header.time_ns || block->last_packet_ns > PW_FRAME_TIME_MAX) return false;
    if (block->held_ns < 0 || block->held_ns > block->header.time_ns) return false;
    uint64_t all = ~UINT64_C(0) >> (PW_BLOCK_PACKETS - block->num_packets);
    if (block->packet_mask == 0 || (block->packet_mask & ~all)) return false;
    uint64_t frame_bytes = sizeof *block + ((block->num_packets * 4u + 7u) & ~7u) + block->block_bytes;
    return block->header.frame_bytes == ((frame_bytes + 7) & ~UINT64_C(7));
}

/* Mask of the packets that came and whose CRC is wrong. */
static uint64_t corrupt_packets(const pw_block_frame *block, const uint32_t *crcs, const uint8_t *payload)
{
    uint32_t computed[PW_BLOCK_PACKETS];
    uint64_t mask = 0;
    pw_crc32c_packets(payload, block->block_bytes, PW_PACKET_BYTES, computed);
    for (uint32_t packet = 0; packet < block->num_packets; packet++)
        mask |= (uint64_t)(computed[packet] != crcs[packet]) << packet;
    return mask & block->packet_mask;
}

/* A NACK for each: up to 64 for one block [R5 3.4], of which the source heeds the first. */
static void refuse_packets(pw_ni *ni, const pw_block_frame *block, uint64_t corrupt, pw_time sent_ns, pw_time at_ns)
{
    for (; corrupt; corrupt &= corrupt - 1) {
        ni->counters.crc_errors++;
        answer_part(ni, block, (uint32_t)__builtin_ctzll(corrupt), sent_ns, PW_FRAME_NACK, PW_NACK_CORRUPT, 0, at_ns);
    }
}

/* Nobody else on this node now, and enough blocks for it to matter. With HUPCF = 0 a present page is no
 * promise; with a single walker a walk may have to wait; a limited receive buffer may refuse the block. */
static bool may_grant(const pw_ni *ni, const pw_landing *landing)
{
    const pw_settings *settings = &ni->settings;
    bool is_certain = settings->hupcf && !settings->receive_buffer_blocks && !ni->faults.any && ni->smmu.num_walkers > 1;
    return settings->lookahead_blocks > 0 && is_certain && landing->is_read && landing->num_blocks > 2 && ni->num_landings == 1 &&
           landing->peer != ni->node;
}

/* Translate the pages of a block ahead. False at the first page that would fault. */
static bool grant_block(pw_ni *ni, pw_landing *landing, uint32_t block_idx)
{
    uint32_t first_bytes = pw_first_block_bytes(landing->destination_address, landing->num_bytes);
    uint64_t address = landing->destination_address + pw_block_offset(first_bytes, block_idx);
    uint64_t first_page = pw_page_of(address);
    uint64_t last_page = pw_page_of(address + pw_block_bytes(landing->num_bytes, first_bytes, block_idx) - 1);
    uint64_t end_page = pw_page_of(landing->destination_address + landing->num_bytes - 1) + 1;
    for (uint64_t page = first_page; page <= last_page; page++) {
        int state = pw_walk_state(&landing->walk, ni->memory, page, end_page);
        if (!pw_state_is_present(ni, state) || pw_page_in_present_ns(&ni->driver.page_in, page) != INT64_MIN) return false;
    }
    for (uint64_t page = first_page; page <= last_page; page++) {
        uint32_t how;
        pw_smmu_translate(&ni->smmu, landing->pdid, page, true, pw_walk_is_present(&landing->walk, page + 1), PW_NEVER, &how);
        if (page == first_page) landing->translations[block_idx % (2 * PW_GRANT_BLOCKS)] = (uint8_t)how;
    }
    return true;
}

/* May the block still be written as it was granted? Not when the OS has changed its pages since. */
static bool grant_holds(pw_ni *ni, pw_landing *landing, const pw_block_frame *block)
{
    if (block->block_idx >= landing->granted_end || block->sequence != 0 ||
        landing->granted_generation != pw_memory_generation(ni->memory)) return false;
    uint64_t last_page = pw_page_of(block->destination_address + block->block_bytes - 1);
    for (uint64_t page = pw_page_of(block->destination_address); page <= last_page; page++)
        if (pw_walk_check_mapping(&landing->walk, ni->memory, page) < 0) return false;
    return true;
}

void pw_destination_grant(pw_ni *ni, pw_landing *landing)
{
    uint32_t num_blocks = landing->num_blocks - (landing->notification.address != 0);   /* the last one may fault for its notification */
    if (!may_grant(ni, landing) || landing->granted_end == num_blocks) return;
    if (landing->granted_end && landing->granted_generation != pw_memory_generation(ni->memory)) return;    /* no more */
    landing->granted_generation = pw_memory_generation(ni->memory);
    uint32_t first = landing->num_delivered, end = landing->granted_end;   /* those under way again: the source keeps the last grant */
    while (end < num_blocks && end - first < PW_GRANT_BLOCKS && grant_block(ni, landing, end)) end++;
    pw_grant_frame *frame = end > landing->granted_end ? pw_burst_append(ni->bursts, landing->peer, sizeof *frame) : NULL;
    if (!frame) return;
    *frame = (pw_grant_frame){
        .header = {.magic = PW_FRAME_MAGIC, .kind = PW_FRAME_GRANT, .frame_bytes = sizeof *frame, .source_node = ni->node,
                   .pdid = landing->pdid, .stream = landing->stream},
        .first_block = first, .num_blocks = end - first,
    };
    for (uint32_t i = 0; i < end - first; i++)
        frame->translations[i / 16] |= (uint64_t)landing->translations[(first + i) % (2 * PW_GRANT_BLOCKS)] << 4 * (i % 16);
    pw_frame_seal(&frame->header, sizeof *frame);
    landing->granted_end = end;
}

/* How the pages of a block look to its packets. */
typedef struct {
    uint64_t first_page;
    uint32_t num_pages;
    bool present[PW_BLOCK_PAGES];
    bool is_permission[PW_BLOCK_PAGES];     /* of those not present */
    uint32_t num_absent;
    pw_time delay_ns;           /* translation of the first page: later walks run beside the packets */
    int code;                   /* PW_ERR_ADDRESS: a page is not mapped */
} pw_block_view;

static void view_pages(pw_ni *ni, pw_landing *landing, const pw_block_frame *block, pw_time start_ns, pw_block_view *view)
{
    uint64_t address = block->destination_address;
    uint64_t end_page = pw_page_of(block->transfer_address + block->transfer_bytes - 1) + 1;
    view->first_page = pw_page_of(address);
    view->num_pages = (uint32_t)(pw_page_of(address + block->block_bytes - 1) - view->first_page + 1);
    view->num_absent = 0;
    view->delay_ns = 0;
    view->code = PW_OK;
    for (uint32_t i = 0; i < view->num_pages; i++) {
        uint64_t page = view->first_page + i;
        int state = pw_walk_state_now(&landing->walk, ni->memory, page, end_page);
        view->code = pw_state_error(ni, &landing->walk, state, page);
        bool refused = view->code < 0;
        uint64_t first_packet = i == 0 ? 0 : ((page << PW_PAGE_SHIFT) - address) / PW_PACKET_BYTES;
        pw_time at_ns = start_ns + (pw_time)(first_packet * block->packet_interval_ps / 1000);
        bool present = !refused && pw_state_is_present(ni, state);
        if (present && pw_page_in_present_ns(&ni->driver.page_in, page) > at_ns) present = false;
        uint32_t how;
        pw_time cost_ns = pw_smmu_translate(&ni->smmu, block->header.pdid, page, present,
                                            pw_walk_is_present(&landing->walk, page + 1), at_ns, &how);
        if (i == 0) view->delay_ns = cost_ns;
        if (refused) return;        /* that the walk found out */
        view->present[i] = present;
        view->is_permission[i] = pw_state_is_permission(ni, state, page);
        view->num_absent += !present;
    }
}

/* Does an active fault terminate a packet of the block, its page present or not? */
static bool is_blocked(const pw_smmu *smmu, const pw_context_bank *bank, const pw_block_frame *block, pw_time start_ns)
{
    if (bank->sctlr & PW_SCTLR_HUPCF) return false;
    for (uint32_t packet = 0; packet < block->num_packets; packet++)
        if ((block->packet_mask >> packet & 1) &&
            pw_smmu_is_blocked(smmu, bank, start_ns + (pw_time)(packet * block->packet_interval_ps / 1000))) return true;
    return false;
}

static pw_fault fault_of(const pw_block_frame *block)
{
    return (pw_fault){
        .identity = pw_identity(block->header.stream, block->block_idx),
        .source_node = block->header.source_node, .transaction_id = block->transaction_id, .sequence = block->sequence,
        .pdid = block->header.pdid, .at_destination = true,
        .block_first_page = pw_page_of(block->destination_address),
        .block_end_page = pw_page_of(block->destination_address + block->block_bytes - 1) + 1,
        .transfer_first_page = pw_page_of(block->transfer_address),
        .transfer_end_page = pw_page_of(block->transfer_address + block->transfer_bytes - 1) + 1,
    };
}

/* First and last byte of a packet. */
static void packet_range(const pw_block_frame *block, uint32_t packet, uint64_t *first, uint64_t *last)
{
    *first = block->destination_address + (uint64_t)packet * PW_PACKET_BYTES;
    *last = packet + 1 == block->num_packets ? block->destination_address + block->block_bytes - 1 : *first + PW_PACKET_BYTES - 1;
}

/* Stall mode: write the packets, each as soon as its page is there. Returns when the last one is written, or
 * an access was terminated with *code < 0. Packets that find no room among the outstanding accesses hold the
 * receive engine. */
static pw_time write_stalling(pw_ni *ni, pw_landing *landing, const pw_block_frame *block, pw_time start_ns, pw_time end_ns, int *code)
{
    pw_fault fault = fault_of(block);
    pw_time admitted_ns = INT64_MIN, last_ns = end_ns;
    *code = PW_OK;
    for (uint32_t packet = 0; packet < block->num_packets && *code == PW_OK; packet++) {
        if (!(block->packet_mask >> packet & 1)) continue;
        uint64_t first, last;
        packet_range(block, packet, &first, &last);
        pw_time at_ns = pw_later(start_ns + (pw_time)(packet * block->packet_interval_ps / 1000), admitted_ns);
        admitted_ns = pw_smmu_admit(&ni->smmu, at_ns);
        pw_time done_ns = pw_engine_access(ni, &landing->walk, &fault, pw_page_of(first), admitted_ns, code);
        if (*code == PW_OK && pw_page_of(last) != pw_page_of(first))
            done_ns = pw_engine_access(ni, &landing->walk, &fault, pw_page_of(last), done_ns, code);
        if (done_ns > admitted_ns) pw_smmu_hold(&ni->smmu, admitted_ns, done_ns);
        last_ns = pw_later(last_ns, done_ns);
    }
    landing->has_page_ins = true;
    pw_calendar_fill(&ni->receive_engine, end_ns, admitted_ns);
    return last_ns;
}

/* Report each packet that hits an absent page, or an active fault with HUPCF = 0, to the driver. */
static void report_faults(pw_ni *ni, const pw_block_frame *block, const pw_block_view *view, pw_time start_ns)
{
    pw_context_bank *bank = pw_smmu_bank(&ni->smmu, block->header.pdid);
    pw_fault fault = fault_of(block);
    for (uint32_t packet = 0; packet < block->num_packets; packet++) {
        if (!(block->packet_mask >> packet & 1)) continue;
        uint64_t first, last;
        packet_range(block, packet, &first, &last);
        uint64_t page = pw_page_of(first);
        pw_time at_ns = start_ns + (pw_time)(packet * block->packet_interval_ps / 1000);
        bool blocked = pw_smmu_is_blocked(&ni->smmu, bank, at_ns);
        if (view->present[page - view->first_page] && !blocked) page = pw_page_of(last);
        if (view->present[page - view->first_page] && !blocked) continue;
        ni->counters.accesses_blocked += blocked;
        pw_trace_add(&ni->trace, at_ns, PW_TRACE_FAULT_DESTINATION, page, block->transaction_id);
        fault.is_permission = !view->present[page - view->first_page] && view->is_permission[page - view->first_page];
        pw_driver_packet_fault(&ni->driver, bank, &fault, page, at_ns);
    }
    for (uint32_t i = 0; i < view->num_pages; i++)
        if (!view->present[i]) pw_engine_count_fault(ni, true, view->is_permission[i]);
}

/* Take away the ERRs that get lost. True when the fault will not be resolved as it was meant to be. */
static bool lose_errs(pw_ni *ni, const pw_block_frame *block, pw_service *service, uint64_t num_fifo_full)
{
    uint32_t num_kept = 0;
    for (uint32_t i = 0; i < service->num_errs; i++)
        if (!pw_answer_is_lost(ni, PW_FAULT_LOST_ERR, block, i, service->errs[i].at_ns)) service->errs[num_kept++] = service->errs[i];
    bool spoiled = num_kept < service->num_errs || ni->faults.sites[PW_FAULT_FIFO_FULL].injected != num_fifo_full;
    service->num_errs = num_kept;
    return spoiled;
}

static void send_errs(pw_ni *ni, const pw_block_frame *block, const pw_service *service)
{
    for (uint32_t i = 0; i < service->num_errs; i++) {
        const pw_err_order *order = &service->errs[i];
        pw_control_frame frame = {
            .header = {.kind = PW_FRAME_ERR, .pdid = order->pdid, .stream = block->header.stream,
                       .time_ns = order->at_ns + ni->paths[order->source_node].latency_ns},
            .block_idx = block->block_idx, .transaction_id = order->transaction_id, .sequence = order->sequence,
            .argument0 = pw_err_word(order->pdid, order->transaction_id, order->sequence, order->pdid),
        };
        pw_engine_send_control(ni, order->source_node, &frame);
    }
}

/* Do as many blocks as the receive buffer holds wait for the receive engine already? Without a buffer
 * flow control holds the block at its source instead. */
static bool buffer_is_full(const pw_ni *ni, const pw_block_frame *block, pw_time engine_ns)
{
    if (!ni->settings.receive_buffer_blocks) return false;
    pw_time waits_ns = pw_calendar_peek(&ni->receive_engine, block->header.time_ns, engine_ns) - block->header.time_ns;
    pw_time full_block_ns = (pw_time)(PW_BLOCK_BYTES * ni->engine_byte_ps_1000 / 1000000);
    return waits_ns > ni->settings.receive_buffer_blocks * full_block_ns;
}

void pw_destination_refuse(pw_ni *ni)
{
    const pw_arrival *arrival = &ni->arrival;
    const pw_block_frame *block = arrival->block;
    pw_service *service = &ni->service;
    pw_walk_forget(&arrival->landing->walk);
    arrival->landing->has_page_ins = true;
    uint32_t code = service->code == PW_ERR_ADDRESS ? PW_NACK_DECODE : service->code < 0 ? PW_NACK_PROTECTION : PW_NACK_PAGE_FAULT;
    uint8_t flags = ni->faults.any && lose_errs(ni, block, service, arrival->num_fifo_full) ? PW_FLAG_SPOILED : 0;
    if (service->num_errs && code == PW_NACK_PAGE_FAULT) flags |= PW_FLAG_ERR_FOLLOWS;
    bool nacks = arrival->whole || code != PW_NACK_PAGE_FAULT;   /* a block that lacks packets never ends */
    if (nacks) answer(ni, block, arrival->sent_ns, PW_FRAME_NACK, code, flags, arrival->end_ns);
    else if (!service->num_errs) answer(ni, block, arrival->sent_ns, PW_FRAME_NO_ANSWER, 0, flags, arrival->end_ns);
    if (code == PW_NACK_PAGE_FAULT) send_errs(ni, block, service);
}

static void refuse_or_ask(pw_ni *ni, pw_arrival arrival)
{
    ni->arrival = arrival;
    if (pw_driver_service(&ni->driver, &ni->service)) pw_destination_refuse(ni);
    else pw_engine_ask(ni);
}

/* The last block brings its transfer's notification: can that be written? If not, the block is answered. */
static bool notification_is_fine(pw_ni *ni, pw_landing *landing, const pw_block_frame *block, pw_context_bank *bank,
                                 pw_time sent_ns, pw_time end_ns)
{
    bool present;
    int result = pw_notification_check(ni, landing, end_ns, &present);
    if (result < 0) {
        answer(ni, block, sent_ns, PW_FRAME_NACK, pw_nack_of_error(result), 0, end_ns);
        return false;
    }
    uint64_t page = pw_page_of(landing->notification.address);
    pw_fault fault = fault_of(block);
    fault.block_first_page = fault.transfer_first_page = page;
    fault.block_end_page = fault.transfer_end_page = page + 1;
    if (ni->settings.stall) {   /* the access waits, the block does not */
        pw_walk walk = {.for_write = true};
        landing->notification_ns = pw_engine_access(ni, &walk, &fault, page, end_ns, &result);
        landing->has_page_ins = true;
        if (result < 0) answer(ni, block, sent_ns, PW_FRAME_NACK, pw_nack_of_error(result), 0, landing->notification_ns);
        return result == PW_OK;
    }
    uint64_t num_fifo_full = ni->faults.sites[PW_FAULT_FIFO_FULL].injected;
    bool blocked = pw_smmu_is_blocked(&ni->smmu, bank, end_ns);
    if (present && !blocked) return true;
    ni->counters.accesses_blocked += blocked;
    ni->counters.translation_faults_destination += !present;
    uint32_t how;
    if (!present) pw_smmu_translate(&ni->smmu, block->header.pdid, page, false, false, end_ns, &how);
    pw_trace_add(&ni->trace, end_ns, PW_TRACE_FAULT_DESTINATION, page, block->transaction_id);
    pw_driver_packet_fault(&ni->driver, bank, &fault, page, end_ns);
    refuse_or_ask(ni, (pw_arrival){.block = block, .landing = landing, .sent_ns = sent_ns, .end_ns = end_ns,
                                   .num_fifo_full = num_fifo_full, .whole = true});
    return false;
}

void pw_destination_block(pw_ni *ni, const pw_block_frame *block)
{
    const uint32_t *crcs = (const uint32_t *)(block + 1);
    const uint8_t *payload = (const uint8_t *)crcs + ((block->num_packets * 4u + 7u) & ~7u);
    if (!is_well_formed(block)) {
        ni->counters.malformed_frames++;
        return;
    }
    pw_time engine_ns = (pw_time)(block->block_bytes * ni->engine_byte_ps_1000 / 1000000);
    if (buffer_is_full(ni, block, engine_ns)) {
        ni->counters.buffer_full++;
        answer(ni, block, block->last_packet_ns - ni->paths[block->header.source_node].latency_ns, PW_FRAME_NACK,
               PW_NACK_BUFFER_FULL, 0, block->last_packet_ns);
        return;
    }
    pw_time booked_ns = pw_calendar_book(&ni->receive_engine, block->header.time_ns, engine_ns);
    pw_time start_ns = booked_ns;
    pw_time end_ns = pw_later(block->last_packet_ns + (booked_ns - block->header.time_ns), booked_ns);
    pw_time sent_ns = end_ns - ni->paths[block->header.source_node].latency_ns - block->held_ns;
    pw_trace_add(&ni->trace, start_ns, PW_TRACE_BLOCK_FIRST_PACKET, block->transaction_id, block->sequence);
    pw_trace_add(&ni->trace, end_ns, PW_TRACE_BLOCK_LAST_PACKET, block->transaction_id, block->sequence);

    pw_context_bank *bank = pw_smmu_bank(&ni->smmu, block->header.pdid);
    if (!bank) {
        answer(ni, block, sent_ns, PW_FRAME_NACK, PW_NACK_NO_CONTEXT, 0, end_ns);
        return;
    }
    pw_landing *landing = pw_landing_find(ni, block->header.source_node, block->header.stream);
    if (!landing && !(block->header.stream & PW_STREAM_READ)) {
        landing = pw_landing_create(ni, block->header.source_node, block->header.stream, block->transfer_address, block->transfer_bytes,
                                    &block->notification);
        if (landing) pw_engine_begin_transfer(ni, block->header.pdid, block->transfer_address, block->transfer_bytes);
    }
    if (landing && !landing->is_read) landing->pdid = block->header.pdid;
    bool right_range = landing && landing->destination_address == block->transfer_address &&
                       landing->num_bytes == block->transfer_bytes &&
                       landing->notification.address == block->notification.address;
    if (!right_range) {         /* a read that was never asked for, or another range than asked for */
        ni->counters.stale_frames++;
        answer(ni, block, sent_ns, PW_FRAME_NACK, PW_NACK_PROTECTION, 0, end_ns);
        return;
    }
    uint64_t corrupt = corrupt_packets(block, crcs, payload);
    if (corrupt) {
        refuse_packets(ni, block, corrupt, sent_ns, end_ns);
        return;
    }
    uint64_t bit = UINT64_C(1) << (block->block_idx & 63);
    uint64_t *word = &landing->delivered[block->block_idx >> 6];
    bool whole = block->packet_mask == ~UINT64_C(0) >> (PW_BLOCK_PACKETS - block->num_packets);
    int code;
    if (*word & bit) {          /* an early timeout sent it twice: acknowledge, do not write again */
        ni->counters.duplicate_blocks++;
        if (ni->settings.stall) end_ns = write_stalling(ni, landing, block, start_ns, end_ns, &code);
        answer(ni, block, sent_ns, whole ? PW_FRAME_ACK : PW_FRAME_NO_ANSWER, 0, 0, end_ns);
        return;
    }
    pw_block_view view;
    bool granted = grant_holds(ni, landing, block);
    if (granted) {              /* translated when it was granted */
        view.num_absent = 0;
        view.code = PW_OK;
        view.delay_ns = pw_smmu_latency_ns(&ni->smmu, landing->translations[block->block_idx % (2 * PW_GRANT_BLOCKS)]);
    } else view_pages(ni, landing, block, start_ns, &view);
    end_ns += view.delay_ns;
    if (ni->settings.stall && !granted && !(ni->settings.ideal && view.code < 0)) {
        end_ns = write_stalling(ni, landing, block, start_ns + view.delay_ns, end_ns, &view.code);
        view.num_absent = 0;
    }
    if (view.code < 0) {
        uint32_t code = pw_nack_of_error(view.code);     /* the host's own failure has no code on the wire */
        answer(ni, block, sent_ns, PW_FRAME_NACK, code == PW_UNRECOVERABLE ? PW_NACK_DECODE : code, 0, end_ns);
        return;
    }
    if (view.num_absent || (!ni->settings.stall && is_blocked(&ni->smmu, bank, block, start_ns + view.delay_ns))) {
        uint64_t num_fifo_full = ni->faults.sites[PW_FAULT_FIFO_FULL].injected;
        report_faults(ni, block, &view, start_ns + view.delay_ns);
        refuse_or_ask(ni, (pw_arrival){.block = block, .landing = landing, .sent_ns = sent_ns, .end_ns = end_ns,
                                       .num_fifo_full = num_fifo_full, .whole = whole});
        return;
    }
    if (!whole) {
        answer(ni, block, sent_ns, PW_FRAME_NO_ANSWER, 0, 0, end_ns);
        return;
    }
    bool last = block->block_idx + 1 == landing->num_blocks;
    if (last && landing->notification.address && !notification_is_fine(ni, landing, block, bank, sent_ns, end_ns)) return;
    memcpy((void *)(uintptr_t)block->destination_address, payload, block->block_bytes);
    *word |= bit;
    landing->num_delivered++;
    if (landing->granted_end && landing->num_delivered + PW_GRANT_BLOCKS / 2 == landing->granted_end) pw_destination_grant(ni, landing);
    landing->last_delivery_ns = pw_later(landing->last_delivery_ns, end_ns);
    answer(ni, block, sent_ns, PW_FRAME_ACK, 0, 0, end_ns);
    if (block->header.flags & PW_FLAG_NOTIFY) pw_landing_notified(ni, landing, end_ns);
    else complete_when_whole(ni, landing);
}
