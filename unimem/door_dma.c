/* User-initiated DMA of a host in C: see include/unimem.h. */
#include "unimem/door.h"
#include "native/status.h"
#include <stdlib.h>

typedef unsigned long long printed;

struct unim_dma {
    unimem *memory;
    pagewire_node *node;
    pw_dma *dma;
    bool is_telling;
    struct {
        unim_dma_callback callback;
        void *arg;
    } told[PW_DMA_TRANSFERS]; /* by id */
};

_Static_assert(UNIM_DMA_PENDING == PW_DMA_PENDING && UNIM_DMA_STARTED == PW_DMA_STARTED &&
                   UNIM_DMA_COMPLETED == PW_DMA_COMPLETED && UNIM_DMA_FAILED == PW_DMA_FAILED &&
                   UNIM_DMA_TRANSFERS_MAX == PW_DMA_TRANSFERS,
               "the numbers are the library's");
_Static_assert(sizeof(unim_buf *) >= sizeof(uint64_t), "a handle is the buffer's id");

/* A handle is never followed: one of a buffer that is gone names nothing, and is found out. */
static uint64_t id_of(const unim_buf *buffer) { return (uintptr_t)buffer; }
static unim_buf *handle_of(uint64_t id) { return (unim_buf *)(uintptr_t)id; }

/* Call back for what is over; one call at a time, that of a callback itself leaves it to the one
 * that has called the callback. */
static void tell(unim_dma *self)
{
    pw_node *node = pw_door_node(self->node);
    pw_node_lock(node);
    while (!self->is_telling) {
        uint64_t id = pw_dma_take_ended(self->dma);
        if (id == 0) break;
        int status = pw_dma_state(self->dma, id);
        const uint64_t at = id % PW_DMA_TRANSFERS;
        self->is_telling = true;
        pw_node_unlock(node);
        self->told[at].callback(id, status, self->told[at].arg);
        pw_node_lock(node);
        self->is_telling = false;
    }
    pw_node_unlock(node);
}

static int leave(unim_dma *self, int result)
{
    pw_door_leave(self->node, result);
    tell(self);
    return result;
}

int unim_dma_init(unimem *memory, unim_dma **out)
{
    pw_door_enter(memory->node);
    unim_dma *self = calloc(1, sizeof *self);
    if (!self)
        return pw_door_leave(memory->node, pw_door_fail(memory->node, PW_ERR_NOMEM,
                                                        "no memory for the DMA library"));
    *self =
        (unim_dma){.memory = memory, .node = memory->node, .dma = pw_dma_of_node(memory->on_node)};
    int code = pw_dma_open(self->dma);
    if (code < 0) {
        free(self);
        return pw_door_leave(memory->node, pw_door_fail_as_node(memory->node, code));
    }
    *out = self;
    return pw_door_leave(memory->node, PW_OK);
}

int unim_dma_cleanup(unim_dma *dma)
{
    if (!dma) return PW_OK;
    pw_door_enter(dma->node);
    if (dma->is_telling)
        return pw_door_leave(dma->node, pw_door_fail(dma->node, PW_ERR_INVALID,
                                                     "clean-up of the DMA library in a callback of "
                                                     "it: call it behind the callback"));
    int code = pw_dma_close(dma->dma);
    if (code < 0) return leave(dma, pw_door_fail_as_node(dma->node, code));
    code = leave(dma, PW_OK);
    free(dma);
    return code;
}

uint32_t unim_dma_get_node(const unim_dma *dma) { return unimem_node(dma->memory); }

/* ---- buffers */

/* Until the owner's kernel has answered: PW_OK, or a code. */
static int wait_for_answer(unim_dma *self, int request, const char *what, uint32_t owner,
                           uint64_t *id)
{
    pw_door_wait wait = pw_thread_wait(self->memory);
    for (;;) {
        int found = pw_dma_answered(self->dma, request, id);
        if (found < 0) return pw_door_fail_as_node(self->node, found);
        if (found) return PW_OK;
        int moved = pw_door_step(self->node, &wait);
        bool is_late = pw_door_is_late(&wait);
        if (moved >= 0 && !is_late) continue;
        pw_dma_forget(self->dma, request);
        if (moved < 0) return moved;
        return pw_door_fail(self->node, PW_ERR_UNRECOVERABLE,
                            "%s: node %u has not answered within %lld ms of wall time", what, owner,
                            (long long)(wait.limit_ns / 1000000));
    }
}

/* The end of a call that has asked an owner's kernel: request is its number, 0 when it needs no
 * answer, or a code. */
static int finish(unim_dma *self, int request, const char *what, uint32_t owner, uint64_t *id)
{
    int code = PW_OK;
    if (request < 0) code = pw_door_fail_as_node(self->node, request);
    else if (request > 0) code = wait_for_answer(self, request, what, owner, id);
    return leave(self, code);
}

static uint32_t owner_of(uint64_t id) { return (uint32_t)(id >> PW_UNIMEM_NODE_SHIFT); }

unim_buf *unim_alloc_buf_l(unim_dma *dma, uint64_t size)
{
    return unim_alloc_buf_r(dma, size, unimem_node(dma->memory));
}

unim_buf *unim_alloc_buf_r(unim_dma *dma, uint64_t size, uint32_t node)
{
    uint64_t id = 0;
    pw_door_enter(dma->node);
    int request = pw_dma_ask_allocate(dma->dma, node, size, &id);
    return finish(dma, request, "DMA buffer", node, &id) < 0 ? NULL : handle_of(id);
}

int unim_free_buf(unim_dma *dma, unim_buf *buffer)
{
    uint64_t id = id_of(buffer);
    pw_door_enter(dma->node);
    int request = pw_dma_ask_free(dma->dma, id);
    return finish(dma, request, "free of a DMA buffer", owner_of(id), &id);
}

unim_buf *unim_get_buf(unim_dma *dma, uint64_t id)
{
    pw_door_enter(dma->node);
    int request = pw_dma_ask_known(dma->dma, id);
    int code = finish(dma, request, "look-up of a DMA buffer", owner_of(id), &id);
    return code < 0 ? NULL : handle_of(id);
}

static bool look_up(unim_dma *self, const unim_buf *buffer, pw_dma_buffer *out)
{
    pw_door_enter(self->node);
    const pw_dma_buffer *known = pw_dma_find(self->dma, id_of(buffer));
    if (known) *out = *known;
    else
        pw_door_fail(self->node, PW_ERR_INVALID,
                     "DMA buffer %#llx: this node knows none of that handle, or it was freed; take "
                     "what an allocation or unim_get_buf gave",
                     (printed)id_of(buffer));
    pw_door_leave(self->node, PW_OK);
    return known != NULL;
}

uint64_t unim_get_buf_id(unim_dma *dma, const unim_buf *buffer)
{
    pw_dma_buffer known;
    return look_up(dma, buffer, &known) ? known.id : 0;
}

uint64_t unim_buf_get_size(unim_dma *dma, const unim_buf *buffer)
{
    pw_dma_buffer known;
    return look_up(dma, buffer, &known) ? known.num_bytes : 0;
}

void *unim_buf_get_memory(unim_dma *dma, const unim_buf *buffer)
{
    pw_dma_buffer known;
    if (!look_up(dma, buffer, &known)) return NULL;
    if (known.node == unimem_node(dma->memory) || pw_door_is_joined(dma->node))
        return (void *)(uintptr_t)known.address;
    pw_node_lock(pw_door_node(dma->node));
    pw_door_fail(dma->node, PW_ERR_ADDRESS,
                 "DMA buffer %#llx: its memory is in the process of node %u; use "
                 "unim_dma_submit_transfer_from_mem and _to_mem",
                 (printed)known.id, known.node);
    pw_node_unlock(pw_door_node(dma->node));
    return NULL;
}

/* ---- transfers */

static uint64_t submit(unim_dma *self, const pw_dma_end *source, const pw_dma_end *destination,
                       uint64_t size, unim_dma_callback callback, void *arg)
{
    uint64_t id = 0;
    pw_door_enter(self->node);
    int code = pw_door_move(self->node, false, true);
    if (code >= 0) {
        code = pw_dma_submit(self->dma, source, destination, size, callback != NULL, &id);
        if (code < 0) pw_door_fail_as_node(self->node, code);
    }
    if (code >= 0) {
        self->told[id % PW_DMA_TRANSFERS].callback = callback;
        self->told[id % PW_DMA_TRANSFERS].arg = arg;
    }
    leave(self, code);
    return code < 0 ? 0 : id;
}

uint64_t unim_dma_submit_transfer(unim_dma *dma, unim_buf *src, unim_buf *dst, uint64_t src_off,
                                  uint64_t dst_off, uint64_t size, unim_dma_callback callback,
                                  void *arg)
{
    const pw_dma_end source = {.buffer = id_of(src), .offset = src_off};
    const pw_dma_end destination = {.buffer = id_of(dst), .offset = dst_off};
    return submit(dma, &source, &destination, size, callback, arg);
}

uint64_t unim_dma_submit_transfer_from_mem(unim_dma *dma, const void *src, unim_buf *dst,
                                           uint64_t dst_off, uint64_t size,
                                           unim_dma_callback callback, void *arg)
{
    const pw_dma_end source = {.memory = (void *)(uintptr_t)src};
    const pw_dma_end destination = {.buffer = id_of(dst), .offset = dst_off};
    return submit(dma, &source, &destination, size, callback, arg);
}

uint64_t unim_dma_submit_transfer_to_mem(unim_dma *dma, unim_buf *src, void *dst, uint64_t src_off,
                                         uint64_t size, unim_dma_callback callback, void *arg)
{
    const pw_dma_end source = {.buffer = id_of(src), .offset = src_off};
    const pw_dma_end destination = {.memory = dst};
    return submit(dma, &source, &destination, size, callback, arg);
}

int unim_dma_status(unim_dma *dma, uint64_t id)
{
    pw_node *node = pw_door_node(dma->node);
    pw_clock *clock = pw_node_clock(node);
    pw_door_enter(dma->node);
    int code = pw_door_move(dma->node, false, true);
    if (code < 0) return leave(dma, code);
    int state = pw_dma_state(dma->dma, id);
    int64_t poll_ns = pw_node_costs(node)->poll_ns;
    if (state < 0) pw_door_fail_as_node(dma->node, state);
    else if (state >= PW_DMA_COMPLETED) clock->now_ns += poll_ns;
    else pw_node_failed_test(node, pw_dma_complete_ns(dma->dma, id) != PW_NEVER, poll_ns);
    return leave(dma, state);
}

int unim_dma_wait(unim_dma *dma, uint64_t id)
{
    pw_door_wait wait = pw_thread_wait(dma->memory);
    pw_node *node = pw_door_node(dma->node);
    pw_clock *clock = pw_node_clock(node);
    pw_door_enter(dma->node);
    int state = pw_dma_state(dma->dma, id);
    if (state < 0) return leave(dma, pw_door_fail_as_node(dma->node, state));
    while (pw_dma_complete_ns(dma->dma, id) == PW_NEVER) {
        int moved = pw_door_step(dma->node, &wait);
        if (moved < 0) return leave(dma, moved);
        if (pw_door_is_late(&wait)) pw_dma_give_up(dma->dma, id);
    }
    clock->now_ns = pw_later(clock->now_ns, pw_dma_complete_ns(dma->dma, id));
    state = pw_dma_state(dma->dma, id);
    clock->now_ns += pw_node_costs(node)->poll_ns;
    return leave(dma, state);
}

int unim_dma_error(unim_dma *dma, uint64_t id)
{
    pw_door_enter(dma->node);
    int error = pw_dma_error(dma->dma, id);
    if (error < 0 && pw_dma_complete_ns(dma->dma, id) == PW_NEVER)
        pw_door_fail_as_node(dma->node, error);
    else if (error < 0)
        pw_door_fail(dma->node, error, "DMA transfer %llu: %s", (printed)id, pw_status_text(error));
    return leave(dma, error);
}
