/* Transfers of the DMA library, and the submitter that starts them. */
#include "unimem/dma.h"
#include "native/status.h"
#include "unimem/dma_state.h"
#include <string.h>

typedef unsigned long long printed;

static dma_transfer *slot_of(const pw_dma *dma, uint64_t id)
{
    return &dma->transfers[id % PW_DMA_TRANSFERS];
}

static dma_transfer *find(const pw_dma *dma, uint64_t id)
{
    if (!dma->transfers || id == 0) return NULL;
    dma_transfer *transfer = slot_of(dma, id);
    return transfer->id == id ? transfer : NULL;
}

static bool is_over(const pw_dma *dma, const dma_transfer *transfer)
{
    return transfer->stage == STAGE_OVER && transfer->complete_ns <= dma->clock->now_ns;
}

/* ---- legs: what the engine carries in one piece */

static bool is_own(const pw_dma *dma, const pw_dma_buffer *buffer)
{
    return buffer->node == pw_node_number(dma->node);
}

static int64_t post(pw_dma *dma, const pw_dma_buffer *from, const pw_dma_buffer *to,
                    uint64_t num_bytes, int64_t at_ns, uint64_t *id)
{
    const pw_descriptor descriptor = {.source_address = from->address,
                                      .destination_address = to->address,
                                      .transfer_bytes = (uint32_t)num_bytes};
    return is_own(dma, from)
               ? pw_ni_write_descriptor(dma->ni, dma->pdid, to->node, &descriptor, at_ns, id)
               : pw_ni_read(dma->ni, dma->pdid, from->node, &descriptor, from->key, at_ns, id);
}

static void end(pw_dma *dma, dma_transfer *transfer, int64_t at_ns, int error)
{
    if (transfer->copied_to && !error) {
        const void *from = (const void *)(uintptr_t)transfer->internal->buffer.address;
        memcpy(transfer->copied_to, from, transfer->num_bytes);
        at_ns = pw_later(at_ns, dma->submitter_ns) +
                pw_cost_bytes_ns(dma->tables, PW_COST_COPY, transfer->num_bytes);
        dma->submitter_ns = at_ns;
    }
    if (transfer->internal) transfer->internal->is_used = false;
    transfer->internal = NULL;
    transfer->stage = STAGE_OVER;
    transfer->complete_ns = at_ns;
    transfer->error = error;
    dma->num_under_way--;
}

/* 1: its leg is started, or it has failed; 0: no channel is free; or a code. */
static int start(pw_dma *dma, dma_transfer *transfer)
{
    const pw_dma_buffer *from = &transfer->source, *to = &transfer->destination;
    bool is_second_leg = transfer->start_ns != PW_NEVER;
    if (transfer->is_first_leg) to = &transfer->internal->buffer;
    else if (is_second_leg) from = &transfer->internal->buffer;
    int64_t at_ns = pw_later(dma->submitter_ns, transfer->ready_ns);
    if (dma->is_blocked)
        at_ns = pw_later(at_ns, dma->freed_ns < PW_NEVER ? dma->freed_ns : dma->clock->now_ns);
    uint64_t id;
    int64_t posted_ns = post(dma, from, to, transfer->num_bytes, at_ns, &id);
    if (posted_ns == PW_ERR_FULL) {
        if (!dma->is_blocked) dma->freed_ns = PW_NEVER;
        dma->is_blocked = true;
        return 0;
    }
    dma->is_blocked = false;
    if (!is_second_leg) transfer->start_ns = at_ns;
    if (posted_ns < 0) {
        end(dma, transfer, at_ns, (int)posted_ns);
        return 1;
    }
    dma->submitter_ns = posted_ns;
    int code = pw_node_started(dma->node, id, is_own(dma, from) ? to->node : from->node,
                               &transfer->handle);
    if (code < 0) return code;
    transfer->stage = STAGE_MOVES;
    return 1;
}

static void end_leg(pw_dma *dma, dma_transfer *transfer)
{
    int64_t complete_ns = transfer->handle->complete_ns;
    int error = transfer->handle->error;
    pw_node_free_handle(dma->node, transfer->handle);
    transfer->handle = NULL;
    if (complete_ns < dma->freed_ns) dma->freed_ns = complete_ns;
    if (error || !transfer->is_first_leg) {
        end(dma, transfer, complete_ns, error);
        return;
    }
    transfer->is_first_leg = false;
    transfer->ready_ns = complete_ns;
    transfer->stage = STAGE_WAITS;
}

static void forget_old(pw_dma *dma)
{
    while (dma->first_id < dma->next_id) {
        const dma_transfer *oldest = slot_of(dma, dma->first_id);
        if (!is_over(dma, oldest) || (oldest->tells && !oldest->is_told)) return;
        dma->first_id++;
    }
}

int pw_dma_move(pw_dma *dma)
{
    int moved = 0;
    if (dma->num_under_way == 0) return 0;
    for (uint64_t id = dma->first_id; id < dma->next_id; id++) {
        dma_transfer *transfer = slot_of(dma, id);
        if (transfer->stage != STAGE_MOVES || !transfer->handle->done) continue;
        end_leg(dma, transfer);
        moved = 1;
    }
    for (uint64_t id = dma->first_id; id < dma->next_id; id++) {
        dma_transfer *transfer = slot_of(dma, id);
        if (transfer->stage != STAGE_WAITS) continue;
        int code = start(dma, transfer);
        if (code < 0) return code;
        if (code == 0) break; /* those behind it must not overtake it */
        moved = 1;
    }
    forget_old(dma);
    return moved;
}

/* ---- requests */

/* Where an end begins, in *out; memory has no place yet. */
static int check_end(const pw_dma *dma, const pw_dma_end *given, uint64_t num_bytes,
                     const char *which, pw_dma_buffer *out)
{
    if (!given->buffer) return PW_OK;
    const pw_dma_buffer *known = pw_dma_find(dma, given->buffer);
    if (!known)
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA transfer: the %s %#llx is no buffer that this node knows, or it "
                            "was freed; allocate it, or ask for its id first",
                            which, (printed)given->buffer);
    if (num_bytes > known->num_bytes || given->offset > known->num_bytes - num_bytes)
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA transfer of %llu bytes at offset %llu of the %s %#llx: it has "
                            "%llu bytes; end within them",
                            (printed)num_bytes, (printed)given->offset, which,
                            (printed)given->buffer, (printed)known->num_bytes);
    *out = *known;
    out->address += given->offset;
    return PW_OK;
}

static int check(pw_dma *dma, const pw_dma_end *source, const pw_dma_end *destination,
                 uint64_t num_bytes, dma_transfer *made)
{
    if (!dma->is_open)
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA transfer: the library is not open; initialize it first");
    if (num_bytes == 0 || num_bytes > PW_DMA_BUFFER_MAX_BYTES)
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA transfer of %llu bytes: allowed is 1 to %llu; take several",
                            (printed)num_bytes, (printed)PW_DMA_BUFFER_MAX_BYTES);
    if (!source->buffer && !destination->buffer)
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA transfer from memory to memory: one end must be a buffer");
    int code = check_end(dma, source, num_bytes, "source", &made->source);
    if (code == PW_OK)
        code = check_end(dma, destination, num_bytes, "destination", &made->destination);
    if (code < 0) return code;
    forget_old(dma);
    if (dma->next_id - dma->first_id >= PW_DMA_TRANSFERS)
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "DMA transfer: %d are not over, the most allowed; wait for the oldest",
                            PW_DMA_TRANSFERS);
    return PW_OK;
}

/* An internal buffer where the engine cannot go from end to end. */
static int take_internal(pw_dma *dma, const pw_dma_end *source, const pw_dma_end *destination,
                         dma_transfer *made)
{
    bool is_between = source->buffer && destination->buffer;
    made->is_first_leg =
        is_between && !is_own(dma, &made->source) && !is_own(dma, &made->destination);
    if (is_between && !made->is_first_leg) return PW_OK;
    int code = pw_dma_take_internal(dma, made->num_bytes, &made->internal);
    if (code < 0) return code;
    if (!source->buffer) {
        made->source = made->internal->buffer;
        memcpy((void *)(uintptr_t)made->source.address, source->memory, made->num_bytes);
        dma->clock->now_ns += pw_cost_bytes_ns(dma->tables, PW_COST_COPY, made->num_bytes);
    } else if (!destination->buffer) {
        made->destination = made->internal->buffer;
        made->copied_to = destination->memory;
    }
    return PW_OK;
}

/* Its thread sleeps while it has nothing to start. */
static bool is_asleep(const pw_dma *dma)
{
    for (uint64_t id = dma->first_id; id < dma->next_id; id++)
        if (slot_of(dma, id)->stage == STAGE_WAITS) return false;
    return dma->submitter_ns < dma->clock->now_ns;
}

int pw_dma_submit(pw_dma *dma, const pw_dma_end *source, const pw_dma_end *destination,
                  uint64_t num_bytes, bool tells, uint64_t *id)
{
    dma_transfer made = {.num_bytes = num_bytes,
                         .buffers = {source->buffer, destination->buffer},
                         .stage = STAGE_WAITS,
                         .tells = tells,
                         .start_ns = PW_NEVER,
                         .complete_ns = PW_NEVER};
    int code = check(dma, source, destination, num_bytes, &made);
    if (code == PW_OK) code = take_internal(dma, source, destination, &made);
    if (code < 0) return code;
    made.id = dma->next_id;
    made.ready_ns = dma->clock->now_ns + (is_asleep(dma) ? dma->costs->user_wakeup_ns : 0);
    *slot_of(dma, made.id) = made;
    dma->next_id++;
    dma->num_under_way++;
    *id = made.id;
    code = pw_dma_move(dma);
    return code < 0 ? code : PW_OK;
}

/* ---- what became of them */

int pw_dma_state(pw_dma *dma, uint64_t id)
{
    const dma_transfer *transfer = find(dma, id);
    if (!transfer)
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA transfer %llu: there is none of that id, or it is older than the "
                            "%d newest; take an id that a submission gave",
                            (printed)id, PW_DMA_TRANSFERS);
    if (is_over(dma, transfer)) return transfer->error ? PW_DMA_FAILED : PW_DMA_COMPLETED;
    return transfer->start_ns <= dma->clock->now_ns ? PW_DMA_STARTED : PW_DMA_PENDING;
}

int64_t pw_dma_complete_ns(const pw_dma *dma, uint64_t id)
{
    const dma_transfer *transfer = find(dma, id);
    return transfer ? transfer->complete_ns : PW_NEVER;
}

int pw_dma_error(pw_dma *dma, uint64_t id)
{
    int state = pw_dma_state(dma, id);
    return state == PW_DMA_FAILED ? find(dma, id)->error : state < 0 ? state : PW_OK;
}

void pw_dma_give_up(pw_dma *dma, uint64_t id)
{
    dma_transfer *transfer = find(dma, id);
    if (!transfer || transfer->stage == STAGE_OVER) return;
    if (transfer->handle) {
        pw_node_free_handle(dma->node, transfer->handle);
        transfer->handle = NULL;
        transfer->internal = NULL; /* its bytes may still come: nobody else gets it */
    }
    end(dma, transfer, dma->clock->now_ns, PW_ERR_UNRECOVERABLE);
}

uint64_t pw_dma_take_ended(pw_dma *dma)
{
    dma_transfer *first = NULL;
    for (uint64_t id = dma->first_id; id < dma->next_id; id++) {
        dma_transfer *each = slot_of(dma, id);
        if (!each->tells || each->is_told || !is_over(dma, each)) continue;
        if (!first || each->complete_ns < first->complete_ns) first = each;
    }
    if (!first) return 0;
    first->is_told = true;
    forget_old(dma);
    return first->id;
}

uint32_t pw_dma_num_using(const pw_dma *dma, uint64_t buffer)
{
    uint32_t num_using = 0;
    for (uint64_t id = dma->first_id; id < dma->next_id; id++) {
        const dma_transfer *each = slot_of(dma, id);
        if (is_over(dma, each)) continue;
        num_using += !buffer || each->buffers[0] == buffer || each->buffers[1] == buffer;
    }
    return num_using;
}
