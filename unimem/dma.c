/* Transfers of the DMA library, and the submitter that starts them. */
#include "native/status.h"
#include "node/record/recorder.h"
#include "unimem/dma_state.h"
#include <string.h>

typedef unsigned long long printed;

/* One end of a transfer: a buffer and an offset in it, or memory of the program's (buffer 0). */
typedef struct {
    uint64_t buffer, offset;
    void *memory;
} dma_end;

static dma_transfer *slot_of(const unim_dma *dma, uint64_t id)
{
    return &dma->transfers[id % DMA_TRANSFERS];
}

static dma_transfer *find(const unim_dma *dma, uint64_t id)
{
    dma_transfer *transfer = slot_of(dma, id);
    return id && transfer->id == id ? transfer : NULL;
}

static bool is_over(const unim_dma *dma, const dma_transfer *transfer)
{
    return transfer->stage == STAGE_OVER && transfer->complete_ns <= dma->clock->now_ns;
}

/* ---- legs: what the engine carries in one piece */

static bool is_own(const unim_dma *dma, const dma_buffer *buffer)
{
    return buffer->node == pw_node_number(dma->node);
}

static int64_t post(unim_dma *dma, const dma_buffer *from, const dma_buffer *to, uint64_t num_bytes,
                    int64_t at_ns, uint64_t *id)
{
    const pw_descriptor descriptor = {.source_address = from->address,
                                      .destination_address = to->address,
                                      .transfer_bytes = (uint32_t)num_bytes};
    uint16_t pdid = pw_node_pdid(dma->node);
    return is_own(dma, from)
               ? pw_ni_write_descriptor(dma->ni, pdid, to->node, &descriptor, to->key, at_ns, id)
               : pw_ni_read(dma->ni, pdid, from->node, &descriptor, from->key, at_ns, id);
}

static void end(unim_dma *dma, dma_transfer *transfer, int64_t at_ns, int error)
{
    if (transfer->copied_to && !error) {
        const void *from = (const void *)(uintptr_t)transfer->internal->buffer.address;
        memcpy(transfer->copied_to, from, transfer->num_bytes);
        at_ns = pw_later(at_ns, dma->submitter_ns) +
                pw_cost_bytes_ns(pw_node_tables(dma->node), PW_COST_COPY, transfer->num_bytes);
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
static int start(unim_dma *dma, dma_transfer *transfer)
{
    const dma_buffer *from = &transfer->source, *to = &transfer->destination;
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
    pw_node_record_lost(dma->node, "a DMA operation");
    int code = pw_node_started(dma->node, id, is_own(dma, from) ? to->node : from->node,
                               &transfer->handle);
    if (code < 0) return code;
    transfer->stage = STAGE_MOVES;
    return 1;
}

static void end_leg(unim_dma *dma, dma_transfer *transfer)
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

static void forget_old(unim_dma *dma)
{
    while (dma->first_id < dma->next_id) {
        const dma_transfer *oldest = slot_of(dma, dma->first_id);
        if (!is_over(dma, oldest) || oldest->callback) return;
        dma->first_id++;
    }
}

int pw_dma_move(unim_dma *dma)
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
static int check_end(const unim_dma *dma, const dma_end *given, uint64_t num_bytes,
                     const char *which, dma_buffer *out)
{
    if (!given->buffer) return PW_OK;
    const dma_buffer *known = pw_dma_find(dma, given->buffer);
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

static int check(unim_dma *dma, const dma_end *source, const dma_end *destination,
                 uint64_t num_bytes, dma_transfer *made)
{
    if (!dma->memory)
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA transfer: the library is not open; initialize it first");
    if (num_bytes == 0 || num_bytes > DMA_BUFFER_MAX_BYTES)
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA transfer of %llu bytes: allowed is 1 to %llu; take several",
                            (printed)num_bytes, (printed)DMA_BUFFER_MAX_BYTES);
    if (!source->buffer && !destination->buffer)
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA transfer from memory to memory: one end must be a buffer");
    int code = check_end(dma, source, num_bytes, "source", &made->source);
    if (code == PW_OK)
        code = check_end(dma, destination, num_bytes, "destination", &made->destination);
    if (code < 0) return code;
    forget_old(dma);
    if (dma->next_id - dma->first_id >= DMA_TRANSFERS)
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "DMA transfer: %d are not over, the most allowed; wait for the oldest",
                            DMA_TRANSFERS);
    return PW_OK;
}

/* An internal buffer where the engine cannot go from end to end. */
static int take_internal(unim_dma *dma, const dma_end *source, const dma_end *destination,
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
        dma->clock->now_ns +=
            pw_cost_bytes_ns(pw_node_tables(dma->node), PW_COST_COPY, made->num_bytes);
    } else if (!destination->buffer) {
        made->destination = made->internal->buffer;
        made->copied_to = destination->memory;
    }
    return PW_OK;
}

/* Its thread sleeps while it has nothing to start. */
static bool is_asleep(const unim_dma *dma)
{
    for (uint64_t id = dma->first_id; id < dma->next_id; id++)
        if (slot_of(dma, id)->stage == STAGE_WAITS) return false;
    return dma->submitter_ns < dma->clock->now_ns;
}

static uint64_t submit(unim_dma *dma, const dma_end *source, const dma_end *destination,
                       uint64_t num_bytes, unim_dma_callback callback, void *arg)
{
    dma_transfer made = {.num_bytes = num_bytes,
                         .buffers = {source->buffer, destination->buffer},
                         .stage = STAGE_WAITS,
                         .callback = callback,
                         .arg = arg,
                         .start_ns = PW_NEVER,
                         .complete_ns = PW_NEVER};
    pw_door_enter(dma->door);
    int code = pw_door_move(dma->door, false, true);
    if (code < 0) {
        pw_dma_leave(dma, code);
        return 0;
    }
    code = check(dma, source, destination, num_bytes, &made);
    if (code == PW_OK) code = take_internal(dma, source, destination, &made);
    if (code == PW_OK) {
        made.id = dma->next_id++;
        made.ready_ns = dma->clock->now_ns + (is_asleep(dma) ? dma->costs->user_wakeup_ns : 0);
        *slot_of(dma, made.id) = made;
        dma->num_under_way++;
        code = pw_dma_move(dma);
    }
    if (code < 0) pw_door_fail_as_node(dma->door, code);
    pw_dma_leave(dma, code);
    return code < 0 ? 0 : made.id;
}

uint64_t unim_dma_submit_transfer(unim_dma *dma, unim_buf *src, unim_buf *dst, uint64_t src_off,
                                  uint64_t dst_off, uint64_t size, unim_dma_callback callback,
                                  void *arg)
{
    const dma_end source = {.buffer = id_of(src), .offset = src_off};
    const dma_end destination = {.buffer = id_of(dst), .offset = dst_off};
    return submit(dma, &source, &destination, size, callback, arg);
}

uint64_t unim_dma_submit_transfer_from_mem(unim_dma *dma, const void *src, unim_buf *dst,
                                           uint64_t dst_off, uint64_t size,
                                           unim_dma_callback callback, void *arg)
{
    const dma_end source = {.memory = (void *)(uintptr_t)src};
    const dma_end destination = {.buffer = id_of(dst), .offset = dst_off};
    return submit(dma, &source, &destination, size, callback, arg);
}

uint64_t unim_dma_submit_transfer_to_mem(unim_dma *dma, unim_buf *src, void *dst, uint64_t src_off,
                                         uint64_t size, unim_dma_callback callback, void *arg)
{
    const dma_end source = {.buffer = id_of(src), .offset = src_off};
    const dma_end destination = {.memory = dst};
    return submit(dma, &source, &destination, size, callback, arg);
}

/* ---- what became of them */

static int state_of(unim_dma *dma, uint64_t id)
{
    const dma_transfer *transfer = find(dma, id);
    if (!transfer)
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA transfer %llu: there is none of that id, or it is older than the "
                            "%d newest; take an id that a submission gave",
                            (printed)id, DMA_TRANSFERS);
    if (is_over(dma, transfer)) return transfer->error ? UNIM_DMA_FAILED : UNIM_DMA_COMPLETED;
    return transfer->start_ns <= dma->clock->now_ns ? UNIM_DMA_STARTED : UNIM_DMA_PENDING;
}

static int64_t complete_ns(const unim_dma *dma, uint64_t id)
{
    const dma_transfer *transfer = find(dma, id);
    return transfer ? transfer->complete_ns : PW_NEVER;
}

/* The host waits for it no longer: it has failed, although its bytes may still arrive. */
static void give_up(unim_dma *dma, uint64_t id)
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

/* The first transfer that is over at the CPU's clock and has not been told; NULL: none. */
static dma_transfer *first_ended(const unim_dma *dma)
{
    dma_transfer *first = NULL;
    for (uint64_t id = dma->first_id; id < dma->next_id; id++) {
        dma_transfer *each = slot_of(dma, id);
        if (!each->callback || !is_over(dma, each)) continue;
        if (!first || each->complete_ns < first->complete_ns) first = each;
    }
    return first;
}

/* One callback at a time: the call of a callback itself leaves others to the one that has called
 * it. */
int pw_dma_leave(unim_dma *dma, int result)
{
    pw_door_leave(dma->door, result);
    pw_node_lock(dma->node);
    for (dma_transfer *ended; !dma->is_telling && (ended = first_ended(dma));) {
        const dma_transfer told = *ended;
        int status = state_of(dma, told.id);
        ended->callback = NULL;
        forget_old(dma);
        dma->is_telling = true;
        pw_node_unlock(dma->node);
        told.callback(told.id, status, told.arg);
        pw_node_lock(dma->node);
        dma->is_telling = false;
    }
    pw_node_unlock(dma->node);
    return result;
}

int unim_dma_status(unim_dma *dma, uint64_t id)
{
    pw_door_enter(dma->door);
    int code = pw_door_move(dma->door, false, true);
    if (code < 0) return pw_dma_leave(dma, code);
    int state = state_of(dma, id);
    if (state < 0) pw_door_fail_as_node(dma->door, state);
    else if (state >= UNIM_DMA_COMPLETED) dma->clock->now_ns += dma->costs->poll_ns;
    else pw_node_failed_test(dma->node, complete_ns(dma, id) != PW_NEVER, dma->costs->poll_ns);
    return pw_dma_leave(dma, state);
}

int unim_dma_wait(unim_dma *dma, uint64_t id)
{
    pw_door_wait wait = pw_thread_wait(dma->memory);
    pw_door_enter(dma->door);
    int state = state_of(dma, id);
    if (state < 0) return pw_dma_leave(dma, pw_door_fail_as_node(dma->door, state));
    while (complete_ns(dma, id) == PW_NEVER) {
        int moved = pw_door_step(dma->door, &wait);
        if (moved < 0) return pw_dma_leave(dma, moved);
        if (pw_door_is_late(&wait)) give_up(dma, id);
    }
    dma->clock->now_ns = pw_later(dma->clock->now_ns, complete_ns(dma, id));
    state = state_of(dma, id);
    dma->clock->now_ns += dma->costs->poll_ns;
    return pw_dma_leave(dma, state);
}

int unim_dma_error(unim_dma *dma, uint64_t id)
{
    pw_door_enter(dma->door);
    int error = PW_OK, state = state_of(dma, id);
    if (state < 0) error = pw_door_fail_as_node(dma->door, state);
    else if (state == UNIM_DMA_FAILED) {
        error = find(dma, id)->error;
        pw_door_fail(dma->door, error, "DMA transfer %llu: %s", (printed)id, pw_status_text(error));
    }
    return pw_dma_leave(dma, error);
}

uint32_t pw_dma_num_using(const unim_dma *dma, uint64_t buffer)
{
    uint32_t num_using = 0;
    for (uint64_t id = dma->first_id; id < dma->next_id; id++) {
        const dma_transfer *each = slot_of(dma, id);
        if (is_over(dma, each)) continue;
        num_using += !buffer || each->buffers[0] == buffer || each->buffers[1] == buffer;
    }
    return num_using;
}
