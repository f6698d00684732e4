/* Source side of the NI: the send engine reads a block through the SMMU, cuts it in packets, sends.
 * It stops at the first read that meets a slave error: the packets before have left, the block is
 * not completed, and the driver learns of one page [PSI 3.2.2, 4]. */
#include "ni/state.h"
#include "r5sched/segmentation.h"
#include <stdlib.h>
#include <string.h>

static uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

static uint32_t at_most(uint64_t value, uint32_t max)
{
    return value < max ? (uint32_t)value : max;
}

static uint64_t first_packets(uint64_t num_packets)
{
    return num_packets ? ~UINT64_C(0) >> (PW_BLOCK_PACKETS - num_packets) : 0;
}

/* The block that leaves, and how far it can be read. */
typedef struct {
    pw_transaction *transaction;
    const pw_transfer *transfer;
    pw_residency *walk;
    uint64_t address;
    uint32_t num_bytes, num_packets;
    uint32_t num_readable; /* packets before the first that meets an absent page */
    uint64_t absent_page;
    bool is_permission;
    pw_time delay_ns; /* translation of the first page: later walks run beside the packets */
    int code;         /* negative: the source can never be read */
    pw_time translated_ns, first_ns, last_ns; /* first, last packet at the destination */
    pw_time waited_ns;                        /* for send engine and link */
    pw_time queued_ns;                        /* in the network, which is in the times above */
    pw_time paced_ns;           /* ZDMA: behind its first packet leaves the next block's */
    uint64_t mask, interval_ps; /* packets that leave, and the time between them */
    pw_time held_ns;            /* an injected delay in the network, which is in the times above */
    uint64_t kept;              /* packets that no lossy link on its way has lost */
    bool late;                  /* with it the attempt is over before an answer can be here */
    uint64_t *passes; /* where the packets' network wants its frame; NULL: its times are known */
} reading;

/* Of a channel's transfers, one after the other. NULL: no memory. */
static pw_residency *walk_of(pw_ni *ni, uint32_t channel)
{
    pw_residency **walk =
        &ni->source_walks[channel / PW_CHANNELS_PER_PAGE][channel % PW_CHANNELS_PER_PAGE];
    if (!*walk) *walk = calloc(1, sizeof **walk);
    return *walk;
}

static reading reading_of(pw_ni *ni, pw_transaction *transaction)
{
    const pw_transfer *transfer = pw_transfer_on(&ni->firmware, transaction->channel);
    uint32_t num_packets = (uint32_t)divide_up(transaction->block_bytes, PW_PACKET_BYTES);
    return (reading){
        .transaction = transaction,
        .transfer = transfer,
        .walk = walk_of(ni, transaction->channel),
        .address = transfer->source_address + pw_block_offset((uint64_t)ni->settings->block_bytes,
                                                              transfer->first_block_bytes,
                                                              transaction->block_idx),
        .num_bytes = transaction->block_bytes,
        .num_packets = num_packets,
        .num_readable = num_packets,
        .kept = UINT64_MAX,
    };
}

static uint64_t source_end_page(const pw_transfer *transfer)
{
    return pw_page_of(transfer->source_address + transfer->num_bytes - 1) + 1;
}

/* Translate the block's pages, up to the first that is absent; stalled reads go on behind it. */
static void translate(pw_ni *ni, reading *block, pw_time at_ns)
{
    uint64_t first_page = pw_page_of(block->address);
    uint64_t last_page = pw_page_of(block->address + block->num_bytes - 1);
    for (uint64_t page = first_page; page <= last_page; page++) {
        pw_access_result result;
        pw_access access = {.page = page,
                            .end_page = source_end_page(block->transfer),
                            .at_ns = at_ns,
                            .use_ns =
                                (pw_time)(block->num_bytes * ni->engine_byte_ps_1000 / 1000000),
                            .pdid = block->transfer->pdid,
                            .is_further = page > first_page};
        pw_translate(ni->translation, block->walk, &access, &result);
        if (result.num_paged_in)
            pw_ni_note_unit_fault(ni, PW_TRACE_FAULT_SOURCE, ni->node, block->transaction->id,
                                  &access, &result);
        if (page == first_page || (result.block_waits && result.delay_ns > block->delay_ns))
            block->delay_ns = result.delay_ns;
        if (result.outcome == PW_ACCESS_REFUSED) {
            block->code = result.code;
            return;
        }
        bool is_first = block->num_readable == block->num_packets;
        if (result.outcome != PW_ACCESS_FAULT || !is_first) continue;
        uint64_t begin = page == first_page ? 0 : (page << PW_PAGE_SHIFT) - block->address;
        block->num_readable = (uint32_t)(begin / PW_PACKET_BYTES);
        block->absent_page = page;
        block->is_permission = result.is_permission;
        if (!ni->settings->stall) return;
    }
}

static pw_fault fault_of(const pw_ni *ni, const reading *block)
{
    const pw_transfer *transfer = block->transfer;
    return (pw_fault){
        .identity = pw_identity(transfer->stream, block->transaction->block_idx),
        .source_node = ni->node,
        .transaction_id = block->transaction->id,
        .sequence = block->transaction->sequence,
        .pdid = transfer->pdid,
        .at_destination = false,
        .is_permission = block->is_permission,
        .block_first_page = pw_page_of(block->address),
        .block_end_page = pw_page_of(block->address + block->num_bytes - 1) + 1,
        .transfer_first_page = pw_page_of(transfer->source_address),
        .transfer_end_page = source_end_page(transfer),
    };
}

void pw_source_fault_served(pw_ni *ni, pw_actions *failures)
{
    if (ni->service.code < 0)
        pw_firmware_fail(&ni->firmware, ni->source_fault.channel,
                         pw_nack_of_error(ni->service.code), failures, ni->source_fault.at_ns);
}

/* When the packet is read. */
static pw_time read_ns(const reading *block, uint32_t packet, pw_time first_ns)
{
    return first_ns + (pw_time)(packet * block->interval_ps / 1000);
}

/* A fault's event: subject is the attempt, detail the page. */
#define IS_PERMISSION (UINT64_C(1) << 32)
#define IS_BLOCKED (UINT64_C(1) << 33) /* the page is there: another fault is active */

void pw_source_fault(pw_ni *ni, const pw_event *event, pw_actions *failures)
{
    pw_transaction *transaction =
        pw_transactions_find(&ni->firmware.transactions, (uint16_t)event->subject);
    if (!transaction) return; /* its transfer has failed */
    const reading block = reading_of(ni, transaction);
    pw_fault fault = fault_of(ni, &block);
    fault.sequence = (uint16_t)(event->subject >> 16);
    fault.is_permission = event->subject & IS_PERMISSION;
    pw_context_bank *bank = pw_smmu_bank(&ni->smmu, fault.pdid);
    pw_time at_ns = event->time_ns;
    uint64_t page = event->detail;
    ni->counters.accesses_blocked += pw_smmu_is_blocked(&ni->smmu, bank, at_ns);
    if (event->subject & IS_BLOCKED)
        pw_trace_add(&ni->trace, at_ns, PW_TRACE_FAULT_SOURCE, page, fault.transaction_id);
    else pw_ni_count_fault(ni, &fault, page, at_ns);
    if (pw_driver_packet_fault(&ni->driver, bank, &fault, page, at_ns) < 0)
        pw_ni_latch(ni, PW_ERR_NOMEM);
    ni->source_fault.channel = transaction->channel;
    ni->source_fault.at_ns = at_ns;
    if (pw_driver_service(&ni->driver, &ni->service)) pw_source_fault_served(ni, failures);
    else pw_engine_ask(ni);
}

/* Terminate: packets before the first read that cannot be done, of an absent page or, with HUPCF =
 * 0, while another fault is active. The first packet is read at first_ns. */
static uint32_t packets_before_fault(pw_ni *ni, const reading *block, pw_time first_ns)
{
    if (ni->settings->hupcf) return block->num_readable;
    const pw_context_bank *bank = pw_smmu_bank(&ni->smmu, block->transfer->pdid);
    for (uint32_t packet = 0; packet < block->num_readable; packet++)
        if (pw_smmu_is_blocked(&ni->smmu, bank, read_ns(block, packet, first_ns))) return packet;
    return block->num_readable;
}

/* The read of this packet faults. The SMMU learns of it when it happens, since a read of another
 * block, whose walk was shorter, may fault before; with HUPCF = 0 at once, since reads that start
 * later ask whether a fault is active. */
static void fault_at(pw_ni *ni, const reading *block, uint32_t packet, pw_time first_ns,
                     pw_actions *failures)
{
    bool is_blocked = packet < block->num_readable;
    pw_event fault = {
        .time_ns = read_ns(block, packet, first_ns),
        .kind = PW_EVENT_SOURCE_FAULT,
        .subject = (uint64_t)block->transaction->sequence << 16 | block->transaction->id,
        .detail =
            is_blocked ? pw_page_of(block->address + packet * PW_PACKET_BYTES) : block->absent_page,
    };
    if (is_blocked) fault.subject |= IS_BLOCKED;
    else if (block->is_permission) fault.subject |= IS_PERMISSION;
    pw_residency_forget(block->walk);
    if (!ni->settings->hupcf) pw_source_fault(ni, &fault, failures);
    else if (pw_event_queue_push(ni->events, &fault) < 0) pw_ni_latch(ni, PW_ERR_NOMEM);
}

/* Stall mode: when every page of the block was read. The engine reads in order, and the block
 * leaves when its last stalled read is answered. */
static pw_time read_stalling(pw_ni *ni, reading *block, pw_time at_ns)
{
    pw_fault fault = fault_of(ni, block);
    block->code = PW_OK;
    for (uint64_t page = fault.block_first_page;
         page < fault.block_end_page && block->code == PW_OK; page++) {
        pw_time admitted_ns = pw_smmu_admit(&ni->smmu, at_ns);
        at_ns = pw_stall_access(ni, block->walk, &fault, page, admitted_ns, &block->code);
        if (at_ns > admitted_ns) pw_smmu_hold(&ni->smmu, admitted_ns, at_ns);
    }
    block->num_readable = block->num_packets;
    return at_ns;
}

/* Bytes of the block's first packets. */
static uint64_t bytes_of(const reading *block, uint32_t num_packets)
{
    uint64_t num_bytes = (uint64_t)num_packets * PW_PACKET_BYTES;
    return num_bytes < block->num_bytes ? num_bytes : block->num_bytes;
}

/* ZDMA: when packet idx of a transfer leaves, behind its first: as many as may be outstanding one
 * after the other, and then each when a response is back [PSI 1.3.2]. */
static pw_time zdma_leaves_ns(const pw_ni *ni, const pw_path *path, uint64_t idx)
{
    uint64_t window = (uint64_t)ni->costs->zdma_outstanding;
    uint64_t packet_ps = pw_link_bytes(ni, ni->packet_bytes) * path->byte_ps_1000 / 1000;
    uint64_t round_ps = packet_ps + 2000 * (uint64_t)path->latency_ns;
    if (round_ps < window * packet_ps) round_ps = window * packet_ps;
    return (pw_time)((idx / window * round_ps + idx % window * packet_ps) / 1000);
}

/* ZDMA: the block's last packet waits for responses, and so does the next block. It leaves the link
 * at link_ns at the earliest. */
static void pace(pw_ni *ni, reading *block, pw_time link_ns)
{
    const pw_path *path = pw_ni_path(ni, block->transfer->peer);
    uint64_t num_bytes = bytes_of(block, block->num_readable);
    uint64_t before = divide_up(block->address - block->transfer->source_address, ni->packet_bytes);
    uint64_t last = divide_up(num_bytes, ni->packet_bytes) - 1;
    pw_time begin_ns = zdma_leaves_ns(ni, path, before);
    uint64_t last_bytes = pw_link_bytes(ni, num_bytes - last * ni->packet_bytes);
    pw_time sent_ns = link_ns + zdma_leaves_ns(ni, path, before + last) - begin_ns +
                      (pw_time)(last_bytes * path->byte_ps_1000 / 1000000);
    block->paced_ns = zdma_leaves_ns(ni, path, before + last + 1) - begin_ns;
    block->transaction->sending_until_ns = pw_later(block->transaction->sending_until_ns, sent_ns);
    block->last_ns = pw_later(block->last_ns, sent_ns + path->latency_ns);
    if (block->num_readable < 2) return;
    uint64_t spread_ps = 1000 * (uint64_t)(block->last_ns - block->first_ns);
    if (spread_ps / (block->num_readable - 1) > block->interval_ps)
        block->interval_ps = spread_ps / (block->num_readable - 1);
}

/* Which way a block takes where there are several [R5 1.2], and what one is drawn with. */
static uint32_t variant_of(const pw_ni *ni, const reading *block)
{
    return block->transaction->block_idx % (uint32_t)ni->settings->multipath;
}

static uint64_t salt_of(const reading *block)
{
    return (uint64_t)block->transfer->stream << 32 ^ (uint64_t)block->transaction->block_idx << 12 ^
           block->transaction->sequence;
}

/* Links are private: for what shared ones would have been asked. */
static void note_demand(pw_ni *ni, uint32_t peer, pw_time link_ns, uint64_t wire_bytes)
{
    pw_demand *demand = pw_peers_find(&ni->demands, peer);
    if (!demand) demand = pw_peers_make(&ni->demands, peer, sizeof *demand);
    if (demand) pw_demand_add(demand, link_ns, wire_bytes);
    else pw_ni_latch(ni, PW_ERR_NOMEM);
}

/* One by one: its times are those that it would have alone, until it has passed. */
static void send_packets(pw_ni *ni, reading *block, uint64_t wire_bytes, pw_time at_ns,
                         pw_passing *passing)
{
    const uint64_t num_packets = (uint64_t)ni->settings->network_quantum_bytes / ni->packet_bytes;
    const pw_forwarding_block sent = {
        .from = ni->node,
        .to = block->transfer->peer,
        .variant = variant_of(ni, block),
        .quantum_bytes = (uint32_t)(num_packets * pw_link_bytes(ni, ni->packet_bytes)),
        .salt = salt_of(block),
        .wire_bytes = wire_bytes,
        .at_ns = at_ns,
        .interval_ps = (int64_t)(num_packets * ni->packet_bytes * ni->engine_byte_ps_1000 / 1000)};
    *passing = (pw_passing){.leaves_ns = at_ns};
    block->passes = pw_forwarding_send(ni->forwarding, &sent, passing);
    if (!block->passes) pw_ni_latch(ni, PW_ERR_NOMEM);
}

static bool may_lose(const pw_ni *ni)
{
    return ni->impairments.any && ni->topology && pw_topology_has_lossy(ni->topology);
}

/* What is lost on the links of its way: what one has lost does not come to the next. */
static void lose_on_links(pw_ni *ni, reading *block, const uint32_t *way, uint32_t num_links)
{
    pw_transaction *transaction = block->transaction;
    const uint64_t identity = pw_identity(block->transfer->stream, transaction->block_idx);
    block->kept = first_packets(block->num_readable);
    for (uint32_t i = 0; i < num_links; i++)
        if (pw_topology_is_lossy(ni->topology, way[i]))
            block->kept = pw_network_lose(ni, PW_IMPAIRMENT_LINK_LOSS, way[i] + UINT64_C(1),
                                          block->transfer->peer, transaction, identity, block->kept,
                                          transaction->sending_until_ns);
}

/* On the usual way, or on that of shared links that it has just been given. */
static void lose(pw_ni *ni, reading *block)
{
    const uint32_t peer = block->transfer->peer;
    uint32_t usual[PW_ROUTE_MAX];
    const uint32_t *way = usual;
    const uint32_t num_links = ni->links
                                   ? pw_links_latest_way(ni->links, &way)
                                   : pw_topology_route(ni->topology, ni->node, peer, 0, 0, usual);
    if (peer != ni->node) lose_on_links(ni, block, way, num_links);
}

/* Over the links that all nodes share, or over the pair's own: when its head enters the first one.
 * *tail_ns: when the last byte is at the peer, as far as links are concerned. */
static pw_time pass(pw_ni *ni, reading *block, uint64_t wire_bytes, pw_time at_ns, pw_time wire_ns,
                    pw_time *tail_ns)
{
    pw_path *path = pw_ni_path(ni, block->transfer->peer);
    const uint32_t peer = block->transfer->peer;
    pw_passing passing;
    if (!ni->links || path->stays) {
        pw_time link_ns = pw_calendar_book(&path->link, at_ns, wire_ns);
        if (!path->stays) note_demand(ni, peer, link_ns, wire_bytes);
        *tail_ns = link_ns + wire_ns + path->latency_ns;
        return link_ns;
    }
    if (ni->forwarding) send_packets(ni, block, wire_bytes, at_ns, &passing);
    else
        pw_links_pass(ni->links, ni->node, peer, variant_of(ni, block), salt_of(block), wire_bytes,
                      at_ns, &passing);
    pw_time ends_ns = ni->costs->ni_send_ns + ni->costs->ni_receive_ns;
    block->queued_ns =
        pw_later(passing.head_ns + ends_ns - passing.leaves_ns - path->latency_ns, 0);
    *tail_ns = passing.tail_ns + ends_ns;
    return passing.leaves_ns;
}

/* When a block for the peer may start that was ready at at_ns. */
static pw_time limited(pw_ni *ni, uint32_t peer, uint64_t wire_bytes, pw_time at_ns)
{
    const uint64_t mbps = (uint64_t)ni->settings->rate_limit_mbps;
    at_ns = pw_firmware_pace(&ni->firmware, peer, wire_bytes, at_ns);
    if (!mbps) return at_ns;
    return pw_calendar_book(&ni->engines->limiter, at_ns,
                            (pw_time)divide_up(wire_bytes * 8000, mbps));
}

/* Occupy the send engine and the link from at_ns on. When the first packet leaves. */
static pw_time occupy(pw_ni *ni, reading *block, pw_time at_ns)
{
    pw_path *path = pw_ni_path(ni, block->transfer->peer);
    uint32_t num_read = block->num_readable + (block->num_readable < block->num_packets);
    pw_time engine_ns =
        (pw_time)divide_up(bytes_of(block, num_read) * ni->engine_byte_ps_1000, 1000000);
    pw_time free_ns =
        limited(ni, block->transfer->peer, pw_link_bytes(ni, bytes_of(block, num_read)), at_ns);
    pw_time start_ns = pw_calendar_book(&ni->engines->send, free_ns, engine_ns);
    uint64_t engine_packet_ps = ni->engine_byte_ps_1000 * PW_PACKET_BYTES / 1000;
    block->translated_ns = at_ns;
    block->interval_ps = path->packet_ps > engine_packet_ps ? path->packet_ps : engine_packet_ps;
    block->last_ns = start_ns + path->latency_ns;
    block->transaction->started_ns = free_ns;
    block->transaction->sending_until_ns = start_ns;
    pw_trace_detail(&ni->trace, start_ns, PW_TRACE_SEND_ENGINE, block->transfer->peer,
                    (uint64_t)engine_ns,
                    PW_TRACE_BLOCK(block->transaction->id, block->transaction->sequence, num_read));
    if (!block->num_readable) return start_ns;
    uint64_t num_bytes = bytes_of(block, block->num_readable);
    uint64_t wire_ps = pw_link_bytes(ni, num_bytes) * path->byte_ps_1000 / 1000;
    pw_time wire_ns = (pw_time)divide_up(wire_ps, 1000), tail_ns;
    pw_time link_ns = pass(ni, block, pw_link_bytes(ni, num_bytes), start_ns, wire_ns, &tail_ns);
    if (may_lose(ni)) lose(ni, block);
    pw_trace_detail(
        &ni->trace, link_ns, PW_TRACE_LINK, block->transfer->peer, (uint64_t)wire_ns,
        PW_TRACE_BLOCK(block->transaction->id, block->transaction->sequence, block->num_readable));
    uint64_t first_bytes =
        pw_link_bytes(ni, num_bytes < ni->packet_bytes ? num_bytes : ni->packet_bytes);
    /* links have flow control: what waits on its way waits at its source, without its timer */
    block->transaction->sending_until_ns =
        pw_later(link_ns + wire_ns + block->queued_ns, tail_ns - path->latency_ns);
    pw_time first_packet_ns =
        (pw_time)(first_bytes * path->byte_ps_1000 / 1000000) + path->latency_ns;
    block->first_ns = link_ns + block->queued_ns + first_packet_ns;
    block->waited_ns = link_ns + block->queued_ns - at_ns;
    block->last_ns = pw_later(tail_ns, start_ns + engine_ns + path->latency_ns);
    /* a last link may be faster than the one that the head was serialised on */
    block->last_ns = pw_later(block->last_ns, block->first_ns);
    if (ni->settings->engine == PW_ENGINE_ZDMA) pace(ni, block, link_ns);
    return link_ns;
}

static pw_answer attempt_of(const pw_transaction *transaction, uint64_t identity)
{
    return (pw_answer){.transaction_id = transaction->id,
                       .sequence = transaction->sequence,
                       .identity = identity,
                       .sent_ns = INT64_MIN,
                       .at_ns = transaction->sending_until_ns};
}

/* What the network does to the block that departs. False: no packet arrives. */
static bool impair(pw_ni *ni, reading *block, uint64_t identity)
{
    pw_transaction *transaction = block->transaction;
    uint32_t peer = block->transfer->peer;
    if (ni->impairments.any && block->mask)
        block->mask = pw_network_lose(ni, PW_IMPAIRMENT_PACKET_LOSS, 0, peer, transaction, identity,
                                      block->mask, transaction->sending_until_ns);
    block->late = ni->impairments.any && block->mask &&
                  pw_network_delay(ni, peer, transaction, identity, &block->first_ns,
                                   &block->last_ns, &block->held_ns);
    if (!block->mask || block->late) {
        pw_answer none = attempt_of(transaction, identity);
        pw_firmware_no_answer(&ni->firmware, &none);
    }
    return block->mask != 0;
}

/* Nobody damages packets where none is to be lost or late either. */
static bool is_unsealed(pw_ni *ni, uint32_t peer)
{
    return pw_ni_is_unsealed(ni, peer) && !ni->has_no_bytes && !ni->impairments.any;
}

static void write_header(pw_ni *ni, const reading *block, uint32_t frame_bytes,
                         pw_block_frame *frame)
{
    bool is_notice = block->transfer->num_blocks == 1 && block->transfer->notified;
    const bool is_at_rest = pw_ahead_was_asked(ni, block->transfer, block->delay_ns) ||
                            pw_ahead_is_kept(ni, block->transfer);
    *frame = (pw_block_frame){
        .header = {.magic = PW_FRAME_MAGIC,
                   .kind = PW_FRAME_BLOCK,
                   .flags = (uint8_t)((is_notice ? PW_FLAG_NOTIFY : 0) |
                                      (block->late ? PW_FLAG_COPY : 0) |
                                      (is_at_rest ? PW_FLAG_AT_REST : 0)),
                   .frame_bytes = frame_bytes,
                   .source_node = ni->node,
                   .pdid = block->transfer->pdid,
                   .how = is_at_rest ? ni->ahead.how : 0,
                   .time_ns = block->first_ns,
                   .stream = block->transfer->stream},
        .block_idx = block->transaction->block_idx,
        .transaction_id = block->transaction->id,
        .sequence = block->transaction->sequence,
        .destination_address = block->transfer->destination_address +
                               (block->address - block->transfer->source_address),
        .transfer_address = block->transfer->destination_address,
        .transfer_bytes = block->transfer->num_bytes,
        .packet_mask = block->mask,
        .block_bytes = block->num_bytes,
        .num_packets = (uint16_t)block->num_packets,
        .is_unsealed = is_unsealed(ni, block->transfer->peer),
        .packet_interval_ps = at_most(block->interval_ps, UINT32_MAX),
        .waited_ns = at_most((uint64_t)block->waited_ns, PW_WAITED_MAX_NS),
        .last_packet_ns = block->last_ns,
        .held_ns = block->held_ns,
        .notification = block->transfer->notification,
        .key = block->transfer->key,
    };
}

/* The packets, and their CRCs. */
static int write_payload(const reading *block, pw_block_frame *frame, uint32_t frame_bytes,
                         uint32_t covered_bytes)
{
    uint32_t *crcs = (uint32_t *)(frame + 1);
    uint8_t *payload = (uint8_t *)frame + covered_bytes;
    if (frame->is_unsealed) crcs = NULL;
    else crcs[block->num_packets - 1 + (block->num_packets & 1)] = 0;
    int code = pw_copy_packets_in(block->walk, payload, block->address, block->num_bytes,
                                  block->mask, crcs);
    memset(payload + block->num_bytes, 0, frame_bytes - covered_bytes - block->num_bytes);
    return code;
}

/* In the burst to the peer, or where a block waits that comes later. NULL: no memory. */
static pw_block_frame *take_room(pw_ni *ni, const reading *block, uint32_t frame_bytes)
{
    const uint32_t peer = block->transfer->peer;
    const uint32_t full_bytes = pw_block_full_bytes(block->num_packets, block->num_bytes);
    if (block->held_ns)
        return pw_network_keep(ni, PW_IMPAIRMENT_DELAY, peer, block->transaction->channel,
                               frame_bytes, block->first_ns);
    if (block->passes) return pw_burst_alone(ni->bursts, peer, frame_bytes, full_bytes);
    return pw_burst_append_part(ni->bursts, peer, frame_bytes, full_bytes);
}

/* The frame's packets cannot be read. */
static void give_room(pw_ni *ni, const reading *block, pw_block_frame *frame)
{
    if (block->held_ns) return;
    if (block->passes) pw_burst_release(ni->bursts, (uint8_t *)frame);
    else pw_burst_take_back(ni->bursts, block->transfer->peer, frame->header.frame_bytes);
}

/* Room for the frame, with the packets in it and sealed; NULL with *code: why not. */
static pw_block_frame *make_frame(pw_ni *ni, const reading *block, uint32_t *code)
{
    uint32_t covered_bytes = pw_block_covered_bytes(ni, block->num_packets);
    uint32_t frame_bytes = pw_block_frame_bytes(ni, block->num_packets, block->num_bytes);
    *code = PW_UNRECOVERABLE;
    if (pw_ahead_is_kept(ni, block->transfer)) {
        write_header(ni, block, frame_bytes, &ni->ahead.left);
        pw_ahead_left(ni);
        return &ni->ahead.left;
    }
    pw_block_frame *frame = take_room(ni, block, frame_bytes);
    if (!frame) return NULL;
    write_header(ni, block, frame_bytes, frame);
    *code = PW_NACK_DECODE;
    if (ni->has_no_bytes) *pw_block_damaged(frame) = 0;
    else if (write_payload(block, frame, frame_bytes, covered_bytes) < 0) {
        give_room(ni, block, frame);
        return NULL;
    }
    pw_ni_seal(ni, block->transfer->peer, &frame->header, covered_bytes);
    if (block->passes) *block->passes = (uint64_t)(uintptr_t)frame;
    return frame;
}

#define NOT_YET (PW_NEVER - 1) /* while a block passes nothing waits for its answer */

/* The block is out: its answer is foreseen or awaited. */
static void await_answer(pw_ni *ni, const reading *block, pw_block_frame *frame)
{
    if (block->passes) {
        pw_transactions_await(&ni->firmware.transactions, block->transaction, NOT_YET);
        return;
    }
    bool whole = block->mask == first_packets(block->num_packets);
    pw_time answer_ns, last_ns = block->last_ns;
    if (whole && pw_lookahead_foresee(ni, block->transfer, block->transaction, frame, &answer_ns)) {
        pw_firmware_predict(&ni->firmware, block->transaction, answer_ns);
        return;
    }
    if (block->late) return;
    if (ni->pairing.first && whole) last_ns = pw_pair_join(ni, block->transaction, frame);
    pw_transactions_await(&ni->firmware.transactions, block->transaction,
                          last_ns + pw_ni_path(ni, block->transfer->peer)->latency_ns);
}

/* The packets before num_sent leave. */
static void send_block(pw_ni *ni, reading *block, uint32_t num_sent, pw_actions *failures)
{
    uint32_t channel = block->transaction->channel;
    block->mask = first_packets(num_sent) & block->kept;
    ni->counters.packets += num_sent;
    uint64_t identity = pw_identity(block->transfer->stream, block->transaction->block_idx);
    if (!impair(ni, block, identity)) return;
    uint32_t code;
    pw_block_frame *frame = make_frame(ni, block, &code);
    if (!frame) {
        pw_firmware_fail(&ni->firmware, channel, code, failures, block->translated_ns);
        return;
    }
    await_answer(ni, block, frame);
    if (ni->impairments.any) pw_network_alter(ni, block->transfer->peer, channel, frame);
}

void pw_source_passed(pw_ni *ni, uint32_t peer, pw_block_frame *frame,
                      const pw_forwarding_out *passed)
{
    const pw_time ends_ns = ni->costs->ni_send_ns + ni->costs->ni_receive_ns;
    pw_answer attempt = {.transaction_id = frame->transaction_id,
                         .sequence = frame->sequence,
                         .identity = pw_identity(frame->header.stream, frame->block_idx),
                         .peer = peer};
    frame->header.time_ns += passed->head_late_ns;
    frame->waited_ns =
        at_most((uint64_t)pw_later(frame->waited_ns + passed->head_late_ns, 0), PW_WAITED_MAX_NS);
    frame->last_packet_ns = pw_later(pw_later(frame->last_packet_ns, frame->header.time_ns),
                                     passed->passing.tail_ns + ends_ns);
    if (passed->tail_late_ns > passed->head_late_ns && frame->num_packets > 1) /* others between */
        frame->packet_interval_ps =
            at_most(1000 * (uint64_t)(frame->last_packet_ns - frame->header.time_ns) /
                        (frame->num_packets - 1u),
                    UINT32_MAX);
    pw_ni_seal(ni, peer, &frame->header, pw_block_covered_bytes(ni, frame->num_packets));
    attempt.at_ns = frame->last_packet_ns + pw_ni_path(ni, peer)->latency_ns;
    pw_firmware_passed(&ni->firmware, &attempt, passed->tail_late_ns);
}

/* ZDMA: a block that must wait for the responses to packets before it starts by an event. True: it
 * does. */
static bool put_off(pw_ni *ni, const reading *block, pw_time at_ns)
{
    pw_event due = {.time_ns = block->transfer->in_order_ns,
                    .kind = PW_EVENT_BLOCK_DUE,
                    .subject = block->transaction->id};
    if (ni->settings->engine != PW_ENGINE_ZDMA || due.time_ns <= at_ns) return false;
    if (pw_event_queue_push(ni->events, &due) < 0) pw_ni_latch(ni, PW_ERR_NOMEM);
    return true;
}

void pw_source_due(pw_ni *ni, const pw_event *event, pw_actions *failures)
{
    pw_transaction *transaction =
        pw_transactions_find(&ni->firmware.transactions, (uint16_t)event->subject);
    if (transaction) pw_source_start_block(ni, transaction, event->time_ns, failures);
}

/* The bytes were taken when they were there, whatever the program has done with their pages. */
static void read_as_promised(const pw_ni *ni, reading *block)
{
    block->code = PW_OK;
    block->num_readable = block->num_packets;
    block->delay_ns = pw_translation_latency_ns(ni->translation, ni->ahead.how);
}

void pw_source_start_block(pw_ni *ni, pw_transaction *transaction, pw_time at_ns,
                           pw_actions *failures)
{
    reading block = reading_of(ni, transaction);
    const pw_transfer *transfer = block.transfer;
    if (!block.walk) pw_ni_latch(ni, PW_ERR_NOMEM);
    if (!block.walk || put_off(ni, &block, at_ns)) return;
    pw_trace_add(&ni->trace, at_ns, PW_TRACE_BLOCK_STARTED, transaction->id, transaction->sequence);
    pw_trace_detail(&ni->trace, at_ns, PW_TRACE_BLOCK_OF, transfer->peer,
                    PW_TRACE_BLOCK(transaction->id, transaction->sequence, 0), transfer->stream);
    if (transaction->block_idx == 0 && transaction->sequence == 0) {
        pw_residency_forget(block.walk);
        pw_ni_begin_transfer(ni, transfer->pdid, transfer->source_address, transfer->num_bytes);
    }
    pw_library_thread_catch_up(&ni->driver.core->thread, at_ns);
    translate(ni, &block, at_ns);
    if (pw_ahead_is_kept(ni, transfer)) read_as_promised(ni, &block);
    bool stalls =
        ni->settings->stall && !(ni->settings->ideal && block.code < 0) &&
        (block.num_readable < block.num_packets || block.code < 0 || !ni->settings->hupcf);
    at_ns += block.delay_ns;
    if (stalls) at_ns = read_stalling(ni, &block, at_ns);
    pw_time *in_order_ns = &pw_transfer_on(&ni->firmware, transaction->channel)->in_order_ns;
    if (ni->translation->receiver.goes_back) at_ns = pw_later(at_ns, *in_order_ns);
    if (block.code < 0) {
        pw_firmware_fail(&ni->firmware, transaction->channel, pw_nack_of_error(block.code),
                         failures, at_ns);
        return;
    }
    pw_time first_ns = occupy(ni, &block, at_ns);
    uint32_t num_sent;
    *in_order_ns = first_ns + block.paced_ns;
    if (ni->settings->stall) num_sent = block.num_packets;
    else num_sent = packets_before_fault(ni, &block, first_ns);
    send_block(ni, &block, num_sent, failures);
    if (num_sent < block.num_packets) fault_at(ni, &block, num_sent, first_ns, failures);
}
