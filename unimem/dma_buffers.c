/* Buffers of the DMA library: pages of this node, what its program knows of others', and what the
 * kernels of nodes ask each other about them: a packet there, a packet back. */
#include "native/status.h"
#include "native/array.h"
#include "unimem/dma_state.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef unsigned long long printed;

static void spend(unim_dma *dma, int table, uint64_t num_bytes)
{
    dma->clock->now_ns += pw_cost_bytes_ns(pw_node_tables(dma->node), table, num_bytes);
}

/* The NI may use them from now on. */
static int give_to_ni(unim_dma *dma, dma_pages *made)
{
    pw_node *node = dma->node;
    const pw_span span = {made->buffer.address, made->buffer.num_bytes};
    int code = pw_ni_register(dma->ni, span.address, span.num_bytes,
                              PW_REMOTE_READ | PW_REMOTE_WRITE, &made->buffer.key);
    if (code < 0)
        return pw_node_fail(node, code, "DMA buffer of %llu bytes", (printed)span.num_bytes);
    code = pw_node_acquire(node, span, PW_ACCESS_WRITE | PW_ACCESS_IN_PLACE, &made->lease);
    if (code < 0) pw_ni_unexpose(dma->ni, made->buffer.key);
    return code;
}

/* Zeroed memory, which others of the host can map where it is a buffer and they are in other
 * processes. When the host refuses that, it is this process's alone. False: see errno. */
static bool map_memory(const unim_dma *dma, dma_pages *made, bool is_buffer)
{
    pw_segment segment;
    if (is_buffer && !pw_door_is_joined(dma->door) &&
        pw_segment_create(made->mapped_bytes, made->mapped_bytes, &segment, &made->segment) ==
            PW_OK) {
        made->mapped = segment.base;
        return true;
    }
    made->mapped = mmap(NULL, made->mapped_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return made->mapped != MAP_FAILED;
}

static void close_segment(dma_pages *pages)
{
    if (pages->segment.pid) close(pages->segment.fd);
    pages->segment.pid = 0;
}

/* Zeroed pages for the NI, of this node: id 0: internal ones. The time passes on the CPU's clock.
 */
static int map(unim_dma *dma, uint64_t num_bytes, uint64_t id, dma_pages **out)
{
    int code = PW_ARRAY_MAKE_ROOM(dma->pages, dma->num_pages_rows, dma->pages_capacity, 16);
    dma_pages *made = code == PW_OK ? calloc(1, sizeof *made) : NULL;
    if (!made) return pw_node_fail(dma->node, PW_ERR_NOMEM, "DMA buffer: no memory");
    /* Blocks end alike in every run; a segment begins with its header. */
    made->mapped_bytes = num_bytes + PW_BLOCK_BYTES + sizeof(pw_segment_header);
    if (!map_memory(dma, made, id != 0)) {
        free(made);
        return pw_node_fail(dma->node, PW_ERR_HOST, "mmap of a DMA buffer of %llu bytes",
                            (printed)num_bytes);
    }
    uint64_t address = (uintptr_t)made->mapped + sizeof(pw_segment_header);
    made->buffer = (dma_buffer){.id = id,
                                .address = address + (-address & (PW_BLOCK_BYTES - 1)),
                                .num_bytes = num_bytes,
                                .node = pw_node_number(dma->node)};
    spend(dma, PW_COST_MMAP, num_bytes);
    code = give_to_ni(dma, made);
    if (code < 0) {
        close_segment(made);
        munmap(made->mapped, made->mapped_bytes);
        free(made);
        return code;
    }
    made->is_live = true;
    dma->pages[dma->num_pages_rows++] = made;
    *out = made;
    return PW_OK;
}

static int unmap(unim_dma *dma, dma_pages *pages)
{
    pw_node *node = dma->node;
    const dma_buffer *buffer = &pages->buffer;
    pages->is_live = false;
    pw_ni_unexpose(dma->ni, buffer->key);
    int code = pw_node_release(node, &pages->lease);
    spend(dma, PW_COST_MUNMAP, buffer->num_bytes);
    close_segment(pages);
    /* The addresses stay taken: a peer that does not know that the buffer has gone must not write
     * to what the program has there next. */
    if (mmap(pages->mapped, pages->mapped_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return pw_node_fail(node, PW_ERR_HOST, "a freed DMA buffer's addresses");
    uint64_t first_page = pw_page_of(buffer->address);
    uint64_t last_page = pw_page_of(buffer->address + buffer->num_bytes - 1);
    int dropped = pw_node_unmapped(node, first_page, last_page - first_page + 1);
    return code < 0 ? code : dropped;
}

/* A buffer of this node's, that lives; NULL. */
static dma_pages *find_own(const unim_dma *dma, uint64_t id)
{
    for (uint32_t i = 0; id && i < dma->num_pages_rows; i++)
        if (dma->pages[i]->is_live && dma->pages[i]->buffer.id == id) return dma->pages[i];
    return NULL;
}

int pw_dma_take_internal(unim_dma *dma, uint64_t num_bytes, dma_pages **out)
{
    for (uint32_t i = 0; i < dma->num_pages_rows; i++) {
        dma_pages *each = dma->pages[i];
        if (!each->is_live || each->buffer.id || each->is_used) continue;
        if (each->buffer.num_bytes < num_bytes) continue;
        each->is_used = true;
        *out = each;
        return PW_OK;
    }
    int code = map(dma, num_bytes, 0, out);
    if (code == PW_OK) (*out)->is_used = true;
    return code;
}

/* ---- what the program knows */

static dma_known *find_known(const unim_dma *dma, uint64_t id)
{
    for (uint32_t i = 0; id && i < dma->num_known; i++)
        if (dma->known[i].buffer.id == id) return &dma->known[i];
    return NULL;
}

const dma_buffer *pw_dma_find(const unim_dma *dma, uint64_t id)
{
    const dma_known *known = find_known(dma, id);
    return known ? &known->buffer : NULL;
}

static int know(unim_dma *dma, const dma_buffer *buffer)
{
    if (pw_dma_find(dma, buffer->id)) return PW_OK;
    if (PW_ARRAY_MAKE_ROOM(dma->known, dma->num_known, dma->known_capacity, 16) < 0)
        return pw_node_fail(dma->node, PW_ERR_NOMEM, "DMA buffer: no memory");
    dma->known[dma->num_known++] = (dma_known){.buffer = *buffer};
    return PW_OK;
}

static void forget_known(unim_dma *dma, uint64_t id)
{
    dma_known *known = find_known(dma, id);
    if (!known) return;
    pw_segment_detach(&known->segment);
    *known = dma->known[--dma->num_known];
}

static void forget_all(unim_dma *dma)
{
    while (dma->num_known) forget_known(dma, dma->known[0].buffer.id);
}

/* ---- this node's own */

static const char *text_of(uint32_t what)
{
    static const char *const texts[] = {"DMA buffer", "free of DMA buffer", "look-up of DMA buffer",
                                        "pointer to DMA buffer"};
    return texts[what];
}

static uint32_t owner_of(uint64_t id) { return (uint32_t)(id >> DMA_OWNER_SHIFT); }

/* Why an owner refuses, as the error of who asks. */
static int refuse(unim_dma *dma, uint32_t owner, const dma_request *asked)
{
    const char *what = text_of(asked->what);
    switch (asked->refusal) {
    case REFUSED_SIZE:
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "%s of %llu bytes at node %u: allowed is 1 to %llu; raise that node's "
                            "unimem.dma_buffer, or take several buffers",
                            what, (printed)asked->value, owner, (printed)asked->limit);
    case REFUSED_COUNT:
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "%s of %llu bytes at node %u: it has %llu, the most allowed; free one, "
                            "or raise that node's unimem.dma_buffers",
                            what, (printed)asked->value, owner, (printed)asked->limit);
    case REFUSED_MEMORY:
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "%s of %llu bytes at node %u: its host or its memory strategy refuses "
                            "them; ask for less, or see that node's run.memory",
                            what, (printed)asked->value, owner);
    case REFUSED_POINTER:
        return pw_node_fail(dma->node, PW_ERR_ADDRESS,
                            "%s %#llx: the host of node %u gives it no memory that other processes "
                            "can map; raise that process's limits of open files and file size, or "
                            "use transfers from and to memory",
                            what, (printed)asked->value, owner);
    default:
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "%s %#llx: node %u has none of that id, or not any more; take an id of "
                            "unim_get_buf_id",
                            what, (printed)asked->value, owner);
    }
}

/* Nobody has a buffer of that id. */
static int refuse_id(unim_dma *dma, uint32_t what, uint64_t id)
{
    const dma_request asked = {.what = what, .refusal = REFUSED_BUFFER, .value = id};
    return refuse(dma, owner_of(id), &asked);
}

/* May this node have one more buffer of that size? REFUSED_*, and the limit. */
static uint32_t refusal_of(const unim_dma *dma, uint64_t num_bytes, uint64_t *limit)
{
    const pw_settings *settings = pw_node_ni_settings(dma->node);
    int64_t max_bytes = settings->dma_buffer_bytes;
    int64_t max_buffers = settings->dma_buffers, num_buffers = 0;
    *limit = max_bytes < 0 || max_bytes > DMA_BUFFER_MAX_BYTES ? DMA_BUFFER_MAX_BYTES
                                                               : (uint64_t)max_bytes;
    if (num_bytes == 0 || num_bytes > *limit) return REFUSED_SIZE;
    for (uint32_t i = 0; i < dma->num_pages_rows; i++)
        num_buffers += dma->pages[i]->is_live && dma->pages[i]->buffer.id;
    *limit = (uint64_t)max_buffers;
    return max_buffers >= 0 && num_buffers >= max_buffers ? REFUSED_COUNT : REFUSED_NOT;
}

static int make(unim_dma *dma, uint64_t num_bytes, dma_pages **out)
{
    uint64_t owner = pw_node_number(dma->node);
    int code = map(dma, num_bytes, owner << DMA_OWNER_SHIFT | (dma->last_number + 1), out);
    if (code == PW_OK) dma->last_number++;
    return code;
}

/* Do what is asked of this node. A code: its host or its memory strategy refuses. */
static int serve(unim_dma *dma, dma_request *asked)
{
    int code = PW_OK;
    dma_pages *pages = find_own(dma, asked->value);
    if (asked->what == ASK_ALLOCATE) {
        asked->refusal = refusal_of(dma, asked->value, &asked->limit);
        if (!asked->refusal) code = make(dma, asked->value, &pages);
    } else if (!pages) asked->refusal = REFUSED_BUFFER;
    if (asked->refusal || code < 0) return code;
    asked->buffer = pages->buffer;
    if (asked->what == ASK_MEMORY && !pages->segment.pid) asked->refusal = REFUSED_POINTER;
    if (asked->what != ASK_FREE) return PW_OK;
    forget_known(dma, asked->buffer.id);
    return unmap(dma, pages);
}

/* ---- kernels */

enum { KIND_ASK = PW_MESSAGE_OF_DMA, KIND_SAID, KIND_PLACE };

typedef struct {
    dma_request request;
    dma_place place; /* of KIND_PLACE alone */
} dma_message;

_Static_assert(sizeof(dma_request) == 72, "a message's time is that of its bytes");

static uint32_t bytes_of(uint8_t kind)
{
    return kind == KIND_PLACE ? sizeof(dma_message) : sizeof(dma_request);
}

static int64_t send(unim_dma *dma, uint32_t peer, uint8_t kind, const dma_message *payload,
                    int64_t at_ns)
{
    static const uint64_t none[4] = {0};
    uint8_t *frame = pw_node_take_frame(dma->node);
    if (!frame) return pw_node_fail(dma->node, PW_ERR_NOMEM, "DMA: no memory for a message");
    at_ns += dma->costs->packetizer_writes * dma->costs->core_register_write_ns;
    pw_ni_packet_write(dma->ni, peer, kind, 0, none, payload, bytes_of(kind), at_ns, frame);
    int code = pw_node_send_frame(dma->node, peer, frame, PW_ENVELOPE_BYTES + bytes_of(kind));
    return code < 0 ? code : at_ns;
}

/* ---- the node that asks */

/* A pointer to a buffer of another process, by what its owner has said. */
static int attach(unim_dma *dma, uint32_t owner, uint64_t id, const dma_place *place)
{
    pw_segment_facts mine;
    dma_known *known = find_known(dma, id);
    if (!known) return refuse_id(dma, ASK_MEMORY, id); /* freed meanwhile */
    if (known->memory) return PW_OK;
    uint64_t num_bytes = known->buffer.num_bytes, all_bytes = place->segment.num_bytes;
    bool fits = num_bytes <= all_bytes && place->offset <= all_bytes - num_bytes;
    if (!fits) errno = EINVAL;
    if (!fits || pw_segment_find_facts(&mine) < 0 ||
        pw_segment_attach(&place->segment, &mine, all_bytes, &known->segment) < 0)
        return pw_node_fail(dma->node, PW_ERR_ADDRESS,
                            "pointer to DMA buffer %#llx: the memory of node %u cannot be mapped "
                            "here (%s); use transfers from and to memory",
                            (printed)id, owner, strerror(errno));
    known->memory = known->segment.base + place->offset;
    spend(dma, PW_COST_MMAP, num_bytes);
    return PW_OK;
}

/* What the owner has said: *id, or why not. place: of a buffer in another process. */
static int learn(unim_dma *dma, uint32_t owner, const dma_request *said, const dma_place *place,
                 uint64_t *id)
{
    if (said->refusal) return refuse(dma, owner, said);
    *id = said->buffer.id;
    if (said->what == ASK_MEMORY) return attach(dma, owner, *id, place);
    return said->what == ASK_FREE ? PW_OK : know(dma, &said->buffer);
}

/* Ask a node, or this one. The number of a request that waits for its answer; 0: *id; or a code. */
static int ask(unim_dma *dma, uint32_t node, uint32_t what, uint64_t value, uint64_t *id)
{
    dma_message message = {.request = {.what = what, .value = value}};
    if (node == pw_node_number(dma->node)) {
        int code = serve(dma, &message.request);
        return code < 0 ? code : learn(dma, node, &message.request, NULL, id);
    }
    int slot = 0;
    while (slot < DMA_ASKS && dma->asks[slot].is_open) slot++;
    if (slot == DMA_ASKS)
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "%s: %d requests are not answered, the most allowed; wait for one",
                            text_of(what), DMA_ASKS);
    message.request.number = ++dma->last_ask;
    dma->asks[slot] = (dma_ask){.is_open = true, .node = node, .request = message.request};
    int64_t posted_ns = send(dma, node, KIND_ASK, &message, dma->clock->now_ns);
    if (posted_ns < 0) {
        dma->asks[slot].is_open = false;
        return (int)posted_ns;
    }
    dma->clock->now_ns = posted_ns;
    return slot + 1;
}

static int ask_allocate(unim_dma *dma, uint32_t node, uint64_t num_bytes, uint64_t *id)
{
    if (node >= pw_node_count(dma->node))
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA buffer of %llu bytes at node %u: there are nodes 0 to %u",
                            (printed)num_bytes, node, pw_node_count(dma->node) - 1);
    return ask(dma, node, ASK_ALLOCATE, num_bytes, id);
}

static int ask_free(unim_dma *dma, uint64_t *id)
{
    if (!pw_dma_find(dma, *id)) return refuse_id(dma, ASK_FREE, *id);
    uint32_t num_using = pw_dma_num_using(dma, *id);
    if (num_using)
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "free of DMA buffer %#llx: %u transfers with it are not over; wait for "
                            "them",
                            (printed)*id, num_using);
    forget_known(dma, *id);
    return ask(dma, owner_of(*id), ASK_FREE, *id, id);
}

static int ask_known(unim_dma *dma, uint64_t *id)
{
    if (pw_dma_find(dma, *id)) return PW_OK;
    if (owner_of(*id) >= pw_node_count(dma->node)) return refuse_id(dma, ASK_KNOWN, *id);
    return ask(dma, owner_of(*id), ASK_KNOWN, *id, id);
}

static int take_said(unim_dma *dma, uint32_t source, const dma_message *message, int64_t arrival_ns)
{
    const dma_request *said = &message->request;
    for (int i = 0; i < DMA_ASKS; i++) {
        dma_ask *asked = &dma->asks[i];
        dma_request *request = &asked->request;
        if (!asked->is_open || request->number != said->number || asked->node != source) continue;
        if (request->what != said->what) return PW_ERR_MALFORMED;
        if (!said->refusal && owner_of(said->buffer.id) != source) return PW_ERR_MALFORMED;
        asked->is_answered = true;
        asked->answer_ns = arrival_ns + dma->costs->handler_ns;
        request->refusal = said->refusal;
        request->limit = said->limit;
        request->buffer = said->buffer;
        request->buffer.node = source;
        asked->place = message->place;
        return PW_OK;
    }
    return PW_OK; /* nobody waits for it any more */
}

/* ---- the node that is asked */

/* What its host lacks or its strategy refuses is the asker's error, and does not end the owner's
 * call. */
static int take_ask(unim_dma *dma, uint32_t source, const dma_request *asked, int64_t arrival_ns)
{
    dma_message said = {
        .request = {.number = asked->number, .what = asked->what, .value = asked->value}};
    int64_t before_ns = dma->clock->now_ns;
    if (serve(dma, &said.request) < 0) said.request.refusal = REFUSED_MEMORY;
    uint8_t kind = KIND_SAID;
    if (said.request.what == ASK_MEMORY && !said.request.refusal) {
        const dma_pages *pages = find_own(dma, asked->value);
        said.place = (dma_place){pages->segment, pages->buffer.address - (uintptr_t)pages->mapped};
        kind = KIND_PLACE;
    }
    int64_t took_ns = dma->clock->now_ns - before_ns;
    int64_t sent_ns = send(dma, source, kind, &said, arrival_ns + dma->costs->handler_ns + took_ns);
    return sent_ns < 0 ? (int)sent_ns : PW_OK;
}

int pw_dma_receive(unim_dma *dma, uint32_t source, const uint8_t *frame, uint32_t frame_bytes)
{
    pw_envelope envelope;
    dma_message payload = {0};
    const dma_request *request = &payload.request;
    int code = pw_ni_message_check(dma->ni, frame, frame_bytes);
    if (code < 0) return code;
    memcpy(&envelope, frame, sizeof envelope);
    bool is_sound = envelope.source_node == source && envelope.kind <= KIND_PLACE &&
                    envelope.payload_bytes == bytes_of(envelope.kind);
    if (is_sound) memcpy(&payload, frame + sizeof envelope, envelope.payload_bytes);
    if (!is_sound || request->what > ASK_MEMORY || request->refusal > REFUSED_POINTER) {
        pw_ni_message_refuse(dma->ni);
        return PW_ERR_MALFORMED;
    }
    return envelope.kind == KIND_ASK ? take_ask(dma, source, request, envelope.arrival_ns)
                                     : take_said(dma, source, &payload, envelope.arrival_ns);
}

/* ---- the library itself */

int pw_dma_create(pagewire_node *door, unim_dma **out)
{
    pw_node *node = pw_door_node(door);
    unim_dma *made = calloc(1, sizeof *made);
    if (!made) return pw_node_fail(node, PW_ERR_NOMEM, "no memory for the DMA library");
    made->door = door;
    made->node = node;
    made->ni = pw_node_ni(node);
    made->clock = pw_node_clock(node);
    made->costs = pw_node_costs(node);
    made->first_id = made->next_id = 1;
    *out = made;
    return PW_OK;
}

void pw_dma_destroy(unim_dma *dma)
{
    if (!dma) return;
    for (uint32_t i = 0; i < dma->num_pages_rows; i++) {
        dma_pages *each = dma->pages[i];
        if (each->is_live) unmap(dma, each);
        munmap(each->mapped, each->mapped_bytes);
        free(each);
    }
    forget_all(dma);
    free(dma->pages);
    free(dma->known);
    free(dma->transfers);
    free(dma);
}

int unim_dma_init(unimem *memory, unim_dma **out)
{
    unim_dma *dma = memory->dma;
    if (!memory->node) return PW_ERR_INVALID; /* a program that a remote fork has started */
    pw_door_enter(memory->node);
    if (dma->memory)
        return pw_door_leave(memory->node,
                             pw_door_fail(memory->node, PW_ERR_FULL,
                                          "the node's DMA library is open; a node has one, clean "
                                          "it up first"));
    if (!dma->transfers) dma->transfers = calloc(DMA_TRANSFERS, sizeof *dma->transfers);
    if (!dma->transfers)
        return pw_door_leave(memory->node, pw_door_fail(memory->node, PW_ERR_NOMEM,
                                                        "no memory for the DMA library"));
    dma->memory = memory;
    *out = dma;
    return pw_door_leave(memory->node, PW_OK);
}

int unim_dma_cleanup(unim_dma *dma)
{
    if (!dma) return PW_OK;
    pw_door_enter(dma->door);
    if (dma->is_telling)
        return pw_door_leave(dma->door, pw_door_fail(dma->door, PW_ERR_INVALID,
                                                     "clean-up of the DMA library in a callback of "
                                                     "it: call it behind the callback"));
    uint32_t num_using = pw_dma_num_using(dma, 0);
    if (num_using)
        return pw_dma_leave(dma, pw_door_fail(dma->door, PW_ERR_FULL,
                                              "%u transfers are not over; wait for them before the "
                                              "clean-up",
                                              num_using));
    int code = PW_OK;
    for (uint32_t i = 0; i < dma->num_pages_rows; i++) {
        dma_pages *each = dma->pages[i];
        if (!each->is_live || each->is_used) continue; /* used: given up, its bytes may come */
        int freed = unmap(dma, each);
        if (code == PW_OK) code = freed;
    }
    forget_all(dma);
    dma->memory = NULL;
    if (code < 0) pw_door_fail_as_node(dma->door, code);
    return pw_dma_leave(dma, code);
}

uint32_t unim_dma_get_node(const unim_dma *dma) { return pw_node_number(dma->node); }

/* ---- the program's calls */

static unim_buf *handle_of(uint64_t id) { return (unim_buf *)(uintptr_t)id; }

/* The end of a call that has asked an owner's kernel, when it has answered. request: as of `ask`.
 */
static int finish(unim_dma *dma, int request, const char *what, uint64_t *id)
{
    pw_door_wait wait = pw_thread_wait(dma->memory);
    dma_ask *asked = request > 0 ? &dma->asks[request - 1] : NULL;
    int code = request;
    while (asked && !asked->is_answered) {
        int moved = pw_door_step(dma->door, &wait);
        bool is_late = pw_door_is_late(&wait);
        if (moved >= 0 && !is_late) continue;
        asked->is_open = false; /* a buffer that it brings is lost */
        if (moved >= 0)
            moved = pw_door_fail(dma->door, PW_ERR_UNRECOVERABLE,
                                 "%s: node %u has not answered within %lld ms of wall time", what,
                                 asked->node, (long long)(wait.limit_ns / 1000000));
        return pw_dma_leave(dma, moved);
    }
    if (asked) {
        asked->is_open = false;
        dma->clock->now_ns = pw_later(dma->clock->now_ns, asked->answer_ns);
        code = learn(dma, asked->node, &asked->request, &asked->place, id);
    }
    if (code < 0) pw_door_fail_as_node(dma->door, code);
    return pw_dma_leave(dma, code);
}

unim_buf *unim_alloc_buf_l(unim_dma *dma, uint64_t size)
{
    return unim_alloc_buf_r(dma, size, pw_node_number(dma->node));
}

unim_buf *unim_alloc_buf_r(unim_dma *dma, uint64_t size, uint32_t node)
{
    uint64_t id = 0;
    pw_door_enter(dma->door);
    int request = ask_allocate(dma, node, size, &id);
    return finish(dma, request, "DMA buffer", &id) < 0 ? NULL : handle_of(id);
}

int unim_free_buf(unim_dma *dma, unim_buf *buffer)
{
    uint64_t id = id_of(buffer);
    pw_door_enter(dma->door);
    int request = ask_free(dma, &id);
    return finish(dma, request, "free of a DMA buffer", &id);
}

unim_buf *unim_get_buf(unim_dma *dma, uint64_t id)
{
    pw_door_enter(dma->door);
    int request = ask_known(dma, &id);
    return finish(dma, request, "look-up of a DMA buffer", &id) < 0 ? NULL : handle_of(id);
}

static bool look_up(unim_dma *dma, const unim_buf *buffer, dma_buffer *out)
{
    pw_door_enter(dma->door);
    const dma_buffer *known = pw_dma_find(dma, id_of(buffer));
    if (known) *out = *known;
    else
        pw_door_fail_as_node(
            dma->door, pw_node_fail(dma->node, PW_ERR_INVALID,
                                    "DMA buffer %#llx: this node knows none of that handle, or it "
                                    "was freed; take what an allocation or unim_get_buf gave",
                                    (printed)id_of(buffer)));
    pw_door_leave(dma->door, PW_OK);
    return known != NULL;
}

uint64_t unim_get_buf_id(unim_dma *dma, const unim_buf *buffer)
{
    dma_buffer known;
    return look_up(dma, buffer, &known) ? known.id : 0;
}

uint64_t unim_buf_get_size(unim_dma *dma, const unim_buf *buffer)
{
    dma_buffer known;
    return look_up(dma, buffer, &known) ? known.num_bytes : 0;
}

void *unim_buf_get_memory(unim_dma *dma, const unim_buf *buffer)
{
    dma_buffer known;
    if (!look_up(dma, buffer, &known)) return NULL;
    if (known.node == pw_node_number(dma->node) || pw_door_is_joined(dma->door))
        return (void *)(uintptr_t)known.address;
    uint64_t id = known.id;
    pw_door_enter(dma->door);
    const dma_known *mapped = find_known(dma, id);
    int request = mapped && mapped->memory ? 0 : ask(dma, known.node, ASK_MEMORY, id, &id);
    if (finish(dma, request, "pointer to a DMA buffer", &id) < 0) return NULL;
    pw_node_lock(dma->node);
    mapped = find_known(dma, id);
    void *memory = mapped ? mapped->memory : NULL;
    pw_node_unlock(dma->node);
    return memory;
}
