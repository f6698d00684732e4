/* What the kernels of nodes ask each other about DMA buffers: a packet there, a packet back. */
#include "native/status.h"
#include "transport/unimem/dma_state.h"
#include <string.h>

typedef unsigned long long printed;

enum { KIND_ASK = PW_MESSAGE_OF_DMA, KIND_SAID };

/* Behind the envelope of either: its four words have no room for it. */
typedef struct {
    uint64_t number, what, value; /* value: bytes wanted, or a buffer's id */
    uint64_t refusal, limit;
    uint64_t id, address, num_bytes, key;
} ask_payload;

static int64_t send(pw_dma *dma, uint32_t peer, uint8_t kind, const ask_payload *payload,
                    int64_t at_ns)
{
    static const uint64_t none[4] = {0};
    uint8_t *frame = pw_node_take_frame(dma->node);
    if (!frame) return pw_node_fail(dma->node, PW_ERR_NOMEM, "DMA: no memory for a message");
    at_ns += dma->node->costs.packetizer_writes * dma->node->costs.core_register_write_ns;
    pw_ni_packet_write(dma->node->ni, peer, kind, 0, none, payload, sizeof *payload, at_ns, frame);
    int code = pw_node_send_frame(dma->node, peer, frame, PW_ENVELOPE_BYTES + sizeof *payload);
    return code < 0 ? code : at_ns;
}

/* ---- the node that asks */

static const char *text_of(uint32_t what)
{
    static const char *const texts[] = {"DMA buffer", "free of DMA buffer",
                                        "look-up of DMA buffer"};
    return texts[what];
}

int pw_dma_fail_limit(pw_dma *dma, const dma_ask *asked)
{
    const char *what = text_of(asked->what);
    switch (asked->refusal) {
    case REFUSED_SIZE:
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "%s of %llu bytes at node %u: allowed is 1 to %llu; raise that node's "
                            "unimem.dma_buffer, or take several buffers",
                            what, (printed)asked->value, asked->node, (printed)asked->limit);
    case REFUSED_COUNT:
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "%s of %llu bytes at node %u: it has %llu, the most allowed; free one, "
                            "or raise that node's unimem.dma_buffers",
                            what, (printed)asked->value, asked->node, (printed)asked->limit);
    case REFUSED_MEMORY:
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "%s of %llu bytes at node %u: its host or its memory strategy refuses "
                            "them; ask for less, or see that node's run.memory",
                            what, (printed)asked->value, asked->node);
    default:
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "%s %#llx: node %u has none of that id, or not any more; take an id of "
                            "unim_get_buf_id",
                            what, (printed)asked->value, asked->node);
    }
}

static int ask(pw_dma *dma, uint32_t node, uint32_t what, uint64_t value)
{
    int slot = 0;
    while (slot < DMA_ASKS && dma->asks[slot].is_open) slot++;
    if (slot == DMA_ASKS)
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "%s: %d requests are not answered, the most allowed; wait for one",
                            text_of(what), DMA_ASKS);
    const ask_payload payload = {.number = ++dma->last_ask, .what = what, .value = value};
    dma->asks[slot] = (dma_ask){
        .is_open = true, .node = node, .number = payload.number, .what = what, .value = value};
    int64_t posted_ns = send(dma, node, KIND_ASK, &payload, dma->node->clock.now_ns);
    if (posted_ns < 0) {
        dma->asks[slot].is_open = false;
        return (int)posted_ns;
    }
    dma->node->clock.now_ns = posted_ns;
    return slot + 1;
}

int pw_dma_ask_allocate(pw_dma *dma, uint32_t node, uint64_t num_bytes, uint64_t *id)
{
    if (node >= pw_node_count(dma->node))
        return pw_node_fail(dma->node, PW_ERR_INVALID,
                            "DMA buffer of %llu bytes at node %u: there are nodes 0 to %u",
                            (printed)num_bytes, node, pw_node_count(dma->node) - 1);
    if (node == pw_node_number(dma->node)) return pw_dma_allocate(dma, num_bytes, id);
    return ask(dma, node, ASK_ALLOCATE, num_bytes);
}

int pw_dma_ask_free(pw_dma *dma, uint64_t id)
{
    const pw_dma_buffer *known = pw_dma_find(dma, id);
    dma_ask asked = {.what = ASK_FREE,
                     .node = (uint32_t)(id >> DMA_OWNER_SHIFT),
                     .value = id,
                     .refusal = REFUSED_BUFFER};
    if (!known) return pw_dma_fail_limit(dma, &asked);
    uint32_t num_using = pw_dma_num_using(dma, id);
    if (num_using)
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "free of DMA buffer %#llx: %u transfers with it are not over; wait for "
                            "them",
                            (printed)id, num_using);
    pw_dma_unknow(dma, id);
    if (asked.node != pw_node_number(dma->node)) return ask(dma, asked.node, ASK_FREE, id);
    dma_pages *own = pw_dma_own(dma, id);
    return own ? pw_dma_unmap(dma, own) : pw_dma_fail_limit(dma, &asked);
}

int pw_dma_ask_known(pw_dma *dma, uint64_t id)
{
    dma_ask asked = {.what = ASK_KNOWN,
                     .node = (uint32_t)(id >> DMA_OWNER_SHIFT),
                     .value = id,
                     .refusal = REFUSED_BUFFER};
    const dma_pages *own = pw_dma_own(dma, id);
    if (own) return pw_dma_know(dma, &own->buffer);
    if (asked.node == pw_node_number(dma->node) || asked.node >= pw_node_count(dma->node))
        return pw_dma_fail_limit(dma, &asked);
    return pw_dma_find(dma, id) ? PW_OK : ask(dma, asked.node, ASK_KNOWN, id);
}

int pw_dma_answered(pw_dma *dma, int request, uint64_t *id)
{
    dma_ask *asked = &dma->asks[request - 1];
    if (!asked->is_answered) return 0;
    asked->is_open = false;
    dma->node->clock.now_ns = pw_later(dma->node->clock.now_ns, asked->answer_ns);
    if (asked->refusal) return pw_dma_fail_limit(dma, asked);
    *id = asked->buffer.id;
    int code = asked->what == ASK_FREE ? PW_OK : pw_dma_know(dma, &asked->buffer);
    return code < 0 ? code : 1;
}

void pw_dma_forget(pw_dma *dma, int request) { dma->asks[request - 1].is_open = false; }

static int take_said(pw_dma *dma, uint32_t source, const ask_payload *payload, int64_t arrival_ns)
{
    for (int i = 0; i < DMA_ASKS; i++) {
        dma_ask *asked = &dma->asks[i];
        if (!asked->is_open || asked->number != payload->number || asked->node != source) continue;
        if (!payload->refusal && payload->id >> DMA_OWNER_SHIFT != source) return PW_ERR_MALFORMED;
        asked->is_answered = true;
        asked->refusal = (uint32_t)payload->refusal;
        asked->limit = payload->limit;
        asked->buffer = (pw_dma_buffer){.id = payload->id,
                                        .address = payload->address,
                                        .num_bytes = payload->num_bytes,
                                        .key = payload->key,
                                        .node = source};
        asked->answer_ns = arrival_ns + dma->node->costs.handler_ns;
        return PW_OK;
    }
    return PW_OK; /* nobody waits for it any more */
}

/* ---- the node that is asked */

/* What its host lacks or its strategy refuses is the asker's error, and does not end the owner's
 * call. */
static void serve(pw_dma *dma, const ask_payload *asked, ask_payload *said)
{
    dma_pages *pages = pw_dma_own(dma, asked->value);
    if (asked->what == ASK_ALLOCATE) {
        said->refusal = pw_dma_refused(dma, asked->value, &said->limit);
        if (!said->refusal && pw_dma_make(dma, asked->value, &pages) < 0)
            said->refusal = REFUSED_MEMORY;
    } else if (!pages) said->refusal = REFUSED_BUFFER;
    if (said->refusal) return;
    const pw_dma_buffer buffer = pages->buffer;
    if (asked->what == ASK_FREE) {
        pw_dma_unknow(dma, buffer.id);
        if (pw_dma_unmap(dma, pages) < 0) said->refusal = REFUSED_MEMORY;
    }
    said->id = buffer.id;
    said->address = buffer.address;
    said->num_bytes = buffer.num_bytes;
    said->key = buffer.key;
}

static int take_ask(pw_dma *dma, uint32_t source, const ask_payload *asked, int64_t arrival_ns)
{
    ask_payload said = {.number = asked->number, .what = asked->what, .value = asked->value};
    int64_t before_ns = dma->node->clock.now_ns;
    serve(dma, asked, &said);
    int64_t took_ns = dma->node->clock.now_ns - before_ns;
    int64_t sent_ns =
        send(dma, source, KIND_SAID, &said, arrival_ns + dma->node->costs.handler_ns + took_ns);
    return sent_ns < 0 ? (int)sent_ns : PW_OK;
}

int pw_dma_receive(pw_dma *dma, uint32_t source, const uint8_t *frame, uint32_t frame_bytes)
{
    pw_envelope envelope;
    ask_payload payload;
    int code = pw_ni_message_check(dma->node->ni, frame, frame_bytes);
    if (code < 0) return code;
    memcpy(&envelope, frame, sizeof envelope);
    bool is_sound = envelope.source_node == source && envelope.payload_bytes == sizeof payload &&
                    envelope.kind <= KIND_SAID;
    if (is_sound) memcpy(&payload, frame + sizeof envelope, sizeof payload);
    if (!is_sound || payload.what > ASK_KNOWN || payload.refusal > REFUSED_BUFFER) {
        pw_ni_message_refuse(dma->node->ni);
        return PW_ERR_MALFORMED;
    }
    return envelope.kind == KIND_ASK ? take_ask(dma, source, &payload, envelope.arrival_ns)
                                     : take_said(dma, source, &payload, envelope.arrival_ns);
}
