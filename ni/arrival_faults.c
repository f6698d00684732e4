/* A block meets absent pages at the destination: its packets are reported to the driver, it is
 * refused when the driver has run. */
#include "ni/bounds.h"
#include "ni/inbound.h"
#include "ni/passage.h"

void pw_passage_packet_range(const pw_block_frame *block, uint32_t packet, uint64_t *first,
                             uint64_t *last)
{
    *first = block->destination_address + (uint64_t)packet * PW_PACKET_BYTES;
    *last = packet + 1 == block->num_packets ? block->destination_address + block->block_bytes - 1
                                             : *first + PW_PACKET_BYTES - 1;
}

pw_fault pw_passage_fault(const pw_arrival *arrival)
{
    const pw_block_frame *block = arrival->block;
    return (pw_fault){
        .identity = pw_identity(block->header.stream, block->block_idx),
        .source_node = block->header.source_node,
        .transaction_id = block->transaction_id,
        .sequence = block->sequence,
        .pdid = block->header.pdid,
        .at_destination = true,
        .block_first_page = pw_page_of(block->destination_address),
        .block_end_page = pw_page_of(block->destination_address + block->block_bytes - 1) + 1,
        .transfer_first_page = pw_page_of(block->transfer_address),
        .transfer_end_page = pw_page_of(block->transfer_address + block->transfer_bytes - 1) + 1,
        .bound_ns = &arrival->inbound->bound_ns,
    };
}

/* Does an active fault terminate a packet of the block, its page present or not? */
static bool is_blocked(const pw_ni *ni, const pw_passage *way)
{
    if (ni->settings.stall || ni->settings.hupcf) return false;
    for (uint32_t packet = 0; packet < way->arrival.block->num_packets; packet++)
        if ((way->arrival.block->packet_mask >> packet & 1) &&
            pw_smmu_is_blocked(&ni->smmu, way->bank, pw_passage_packet_ns(way, packet)))
            return true;
    return false;
}

void pw_faults_tell(pw_ni *ni, const pw_passage *way, const pw_fault *fault, uint64_t page,
                    pw_time at_ns)
{
    pw_trace_add_of(&ni->trace, at_ns, PW_TRACE_FAULT_DESTINATION, fault->source_node, page,
                    fault->transaction_id);
    if (pw_driver_packet_fault(&ni->driver, way->bank, fault, page, at_ns) < 0)
        pw_ni_latch(ni, PW_ERR_NOMEM);
}

bool pw_faults_report_packet(pw_ni *ni, const pw_passage *way, pw_fault *fault, uint32_t packet)
{
    const pw_block_frame *block = way->arrival.block;
    if (!(block->packet_mask >> packet & 1)) return false;
    uint64_t first, last;
    pw_passage_packet_range(block, packet, &first, &last);
    pw_time at_ns = pw_passage_packet_ns(way, packet);
    bool blocked = pw_smmu_is_blocked(&ni->smmu, way->bank, at_ns);
    uint64_t page_idx = pw_page_of(first) - way->first_page;
    if (way->present[page_idx] && !blocked) page_idx = pw_page_of(last) - way->first_page;
    if (way->present[page_idx] && !blocked) return false;
    ni->counters.accesses_blocked += blocked;
    fault->is_permission = !way->present[page_idx] && way->is_permission[page_idx];
    pw_faults_tell(ni, way, fault, way->first_page + page_idx, at_ns);
    return true;
}

void pw_faults_count_pages(pw_ni *ni, const pw_passage *way)
{
    for (uint32_t i = 0; i < way->num_pages; i++)
        if (!way->present[i])
            pw_ni_count_page_fault(ni, true, way->is_permission[i], way->first_page + i,
                                   pw_passage_packet_ns(way, 0));
}

static void report_faults(pw_ni *ni, const pw_passage *way)
{
    pw_fault fault = pw_passage_fault(&way->arrival);
    for (uint32_t packet = 0; packet < way->arrival.block->num_packets; packet++)
        pw_faults_report_packet(ni, way, &fault, packet);
    pw_faults_count_pages(ni, way);
}

/* The ERR of the block as things are now, PW_NEVER: none will come. One that is lost comes never.
 */
static pw_time err_ns(pw_ni *ni, const pw_arrival *arrival, const pw_fault *fault)
{
    pw_time at_ns = pw_driver_err_ns(&ni->driver, fault);
    bool lost = ni->impairments.any && pw_driver_draws_loss(&ni->driver, fault) &&
                pw_answer_is_lost(ni, PW_IMPAIRMENT_LOST_ERR, arrival->block, 0, at_ns);
    if (!lost && ni->service.code == PW_OK) return at_ns;
    pw_driver_lose_err(&ni->driver, fault);
    return PW_NEVER;
}

void pw_destination_refuse(pw_ni *ni)
{
    const pw_arrival *arrival = &ni->arrival;
    const pw_service *service = &ni->service;
    pw_fault fault = pw_passage_fault(arrival);
    bool has_err = pw_driver_err_ns(&ni->driver, &fault) != PW_NEVER;
    pw_time leaves_ns = err_ns(ni, arrival, &fault);
    bool follows = leaves_ns != PW_NEVER;
    bool fifo_full =
        ni->impairments.sites[PW_IMPAIRMENT_FIFO_FULL].injected != arrival->num_fifo_full;
    bool is_fault = service->code == PW_OK;
    uint32_t peer = arrival->block->header.source_node;
    pw_residency_forget(&arrival->inbound->walk);
    arrival->inbound->has_page_ins = true;
    pw_reply out = {.kind = PW_FRAME_NACK,
                    .code = is_fault                          ? PW_NACK_PAGE_FAULT
                            : service->code == PW_ERR_ADDRESS ? PW_NACK_DECODE
                                                              : PW_NACK_PROTECTION,
                    .flags = follows ? PW_FLAG_ERR_FOLLOWS : 0,
                    .part = PW_BLOCK_PACKETS,
                    .err_ns = follows ? leaves_ns + ni->paths[peer].latency_ns : 0,
                    .at_ns = arrival->end_ns};
    if ((is_fault && has_err && !follows) || fifo_full) out.flags |= PW_FLAG_IMPAIRED;
    if (is_fault && !arrival->whole) { /* a block that lacks packets never ends: no NACK */
        out.kind = follows ? PW_FRAME_ERR_LATER : PW_FRAME_NO_ANSWER;
        out.code = 0;
    }
    pw_answer_send(ni, arrival->block, arrival->sent_ns, out);
    pw_bounds_send_errs(ni, arrival->inbound->bound_ns);
    if (pw_driver_is_brief(&ni->driver)) pw_bounds_tell_later(ni, arrival->inbound);
}

pw_verdict pw_faults_refuse_or_ask(pw_ni *ni, const pw_passage *way)
{
    ni->arrival = way->arrival;
    if (pw_driver_service(&ni->driver, &ni->service)) pw_destination_refuse(ni);
    else pw_engine_ask(ni);
    return (pw_verdict){PW_VERDICT_ANSWERED, 0};
}

pw_verdict pw_faults_meet(pw_ni *ni, pw_passage *way)
{
    if (!way->num_absent && !(!way->granted && is_blocked(ni, way)))
        return way->arrival.whole ? pw_pass : (pw_verdict){PW_VERDICT_NO_ANSWER, 0};
    way->arrival.num_fifo_full = ni->impairments.sites[PW_IMPAIRMENT_FIFO_FULL].injected;
    report_faults(ni, way);
    return pw_faults_refuse_or_ask(ni, way);
}
