#include "node/wires/wire.h"
#include "native/parts.h"
#include "native/pool.h"
#include <string.h>

/* A burst is in one list at a time: its destination's inbox, nowhere while that reads it, its
 * source's `left`, or free. */
typedef struct entry {
    pw_link link;
    struct entry *before; /* in an inbox */
    struct entry *whole;  /* the burst's first piece, which has its buffer */
    uint32_t num_left;    /* of the whole: pieces that nobody has taken */
    uint32_t source, destination, num_bytes;
    uint32_t buffer_bytes; /* of a copied whole */
    bool keeps_order;      /* among those of its source that do */
    bool is_copied;        /* the source is away: data is one of the joined parts */
    uint8_t *data;
} entry;

typedef struct join join;

typedef struct {
    pw_wire wire; /* first: see wire.h */
    join *joined;
    pw_queue inbox, left;
    pw_queue expected;    /* out of the inbox, to be polled */
    bool expects;         /* polls give those alone */
    uint32_t num_pending; /* sent and not taken yet */
    bool is_open;
    bool is_away; /* in another process */
} end;

struct join {
    uint32_t num_nodes, num_open;
    bool (*sent)(void *context, uint32_t node, const pw_wire_burst *burst); /* NULL: none watches */
    uint32_t (*first)(const uint8_t *data, uint32_t num_bytes); /* NULL: bursts have no pieces */
    void *context;
    int (*carry)(void *context, uint32_t node, const pw_wire_burst *burst); /* who is away */
    void *carry_context;
    pw_pool pool;
    pw_parts parts;
    end ends[];
};

static void append_to_inbox(pw_queue *inbox, entry *burst)
{
    burst->before = inbox->last;
    pw_queue_append(inbox, burst);
}

/* The burst, out of the inbox. */
static entry *take_out(pw_queue *inbox, entry *burst)
{
    pw_link *next = burst->link.next;
    if (burst->before) burst->before->link.next = next;
    else inbox->first = next;
    if (next) ((entry *)next)->before = burst->before;
    else inbox->last = burst->before;
    return burst;
}

static void leave(join *joined, entry *piece)
{
    entry *burst = piece->whole;
    end *source = &joined->ends[burst->source];
    if (piece != burst) pw_pool_give(&joined->pool, piece);
    if (--burst->num_left) return;
    if (burst->is_copied)
        pw_parts_give(&joined->parts, burst->data, pw_parts_size(burst->buffer_bytes));
    if (burst->is_copied || !source->is_open) {
        pw_pool_give(&joined->pool, burst);
        return;
    }
    source->num_pending--;
    pw_queue_append(&source->left, burst);
}

static pw_wire_burst seen_from_outside(const entry *burst)
{
    return (pw_wire_burst){.source = burst->source,
                           .num_bytes = burst->num_bytes,
                           .data = burst->data,
                           .token = (uint64_t)(uintptr_t)burst};
}

/* One entry for each piece; PW_ERR_NOMEM: none. */
static int make_pieces(join *joined, uint32_t node, const pw_wire_burst *burst, bool is_copied,
                       pw_queue *pieces)
{
    entry *whole = NULL;
    for (uint32_t offset = 0; !whole || offset < burst->num_bytes;) {
        uint8_t *data = (uint8_t *)(uintptr_t)burst->data + offset;
        const uint32_t left_bytes = burst->num_bytes - offset;
        entry *piece = pw_pool_take(&joined->pool, sizeof *piece);
        if (!piece) {
            while ((piece = pw_queue_take(pieces))) pw_pool_give(&joined->pool, piece);
            return PW_ERR_NOMEM;
        }
        *piece = (entry){.source = burst->source,
                         .destination = node,
                         .num_bytes = joined->first ? joined->first(data, left_bytes) : left_bytes,
                         .buffer_bytes = burst->num_bytes,
                         .is_copied = is_copied,
                         .data = data};
        if (!whole) whole = piece;
        piece->whole = whole;
        whole->num_left++;
        pw_queue_append(pieces, piece);
        offset += piece->num_bytes;
    }
    return PW_OK;
}

/* It is at its destination's, piece by piece. */
static int come(join *joined, uint32_t node, const pw_wire_burst *burst, bool is_copied)
{
    pw_queue pieces = {NULL, NULL};
    const int code = make_pieces(joined, node, burst, is_copied, &pieces);
    for (entry *piece; (piece = pw_queue_take(&pieces));) {
        append_to_inbox(&joined->ends[node].inbox, piece);
        if (!joined->sent) continue;
        const pw_wire_burst seen = seen_from_outside(piece);
        piece->keeps_order = joined->sent(joined->context, node, &seen);
    }
    return code;
}

static int send_burst(pw_wire *wire, uint32_t peer, uint8_t *data, uint32_t num_bytes,
                      bool *is_free)
{
    end *self = (end *)(void *)wire;
    join *joined = self->joined;
    const pw_wire_burst burst = {.source = wire->node, .num_bytes = num_bytes, .data = data};
    if (peer >= joined->num_nodes || !joined->ends[peer].is_open) return PW_ERR_INVALID;
    *is_free = joined->ends[peer].is_away;
    if (*is_free) return joined->carry(joined->carry_context, peer, &burst);
    const int code = come(joined, peer, &burst, false);
    if (code == PW_OK) self->num_pending++;
    return code;
}

void pw_wire_set_away(pw_wire *wire,
                      int (*carry)(void *context, uint32_t node, const pw_wire_burst *burst),
                      void *context)
{
    end *self = (end *)(void *)wire;
    self->is_away = true;
    self->joined->carry = carry;
    self->joined->carry_context = context;
}

int pw_wire_bring(pw_wire *wire, const pw_wire_burst *brought)
{
    join *joined = ((end *)(void *)wire)->joined;
    if (brought->source >= joined->num_nodes || !joined->ends[brought->source].is_away)
        return PW_ERR_INVALID;
    const size_t size = pw_parts_size(brought->num_bytes);
    uint8_t *data = pw_parts_take(&joined->parts, size);
    if (!data) return PW_ERR_NOMEM;
    memcpy(data, brought->data, brought->num_bytes);
    const pw_wire_burst copy = {
        .source = brought->source, .num_bytes = brought->num_bytes, .data = data};
    const int code = come(joined, wire->node, &copy, true);
    if (code < 0) pw_parts_give(&joined->parts, data, size);
    return code;
}

static uint8_t *sent(pw_wire *wire)
{
    end *self = (end *)(void *)wire;
    entry *burst = pw_queue_take(&self->left);
    if (!burst) return NULL;
    pw_pool_give(&self->joined->pool, burst);
    return burst->data;
}

static int poll_inbox(pw_wire *wire, pw_wire_burst *out)
{
    end *self = (end *)(void *)wire;
    entry *burst = self->expects ? pw_queue_take(&self->expected) : self->inbox.first;
    if (!burst) return 0;
    if (!self->expects) take_out(&self->inbox, burst);
    *out = seen_from_outside(burst);
    return 1;
}

static void taken(pw_wire *wire, const pw_wire_burst *burst)
{
    leave(((end *)(void *)wire)->joined, (entry *)(uintptr_t)burst->token);
}

/* The first burst that suits, out of the inbox; NULL: there is none. */
static entry *take_first(pw_queue *inbox, bool (*suits)(const entry *burst, uint32_t source),
                         uint32_t source)
{
    entry *each = inbox->first;
    while (each && !suits(each, source)) each = (entry *)each->link.next;
    return each ? take_out(inbox, each) : NULL;
}

static bool is_from(const entry *burst, uint32_t source) { return burst->source == source; }

static bool is_next_from(const entry *burst, uint32_t source)
{
    return burst->keeps_order && burst->source == source;
}

void pw_wire_hand(pw_wire *wire, uint32_t source, uint64_t token)
{
    end *self = (end *)(void *)wire;
    entry *burst = token ? take_out(&self->inbox, (entry *)(uintptr_t)token)
                         : take_first(&self->inbox, is_next_from, source);
    if (burst) pw_queue_append(&self->expected, burst);
}

/* Back to the inbox, before all others: the order of each source is as it was. */
static void put_back(end *self)
{
    pw_queue others = self->inbox;
    self->inbox = (pw_queue){NULL, NULL};
    for (entry *burst; (burst = pw_queue_take(&self->expected));)
        append_to_inbox(&self->inbox, burst);
    for (entry *burst; (burst = pw_queue_take(&others));) append_to_inbox(&self->inbox, burst);
}

bool pw_wire_expect(pw_wire *wire, const uint32_t *sources, uint32_t num_sources)
{
    end *self = (end *)(void *)wire;
    self->expects = true;
    for (uint32_t i = 0; i < num_sources; i++) {
        entry *burst = take_first(&self->inbox, is_from, sources[i]);
        if (!burst) {
            put_back(self);
            return false;
        }
        pw_queue_append(&self->expected, burst);
    }
    return true;
}

void pw_wire_expect_any(pw_wire *wire)
{
    end *self = (end *)(void *)wire;
    put_back(self);
    self->expects = false;
}

static uint32_t num_pending(const pw_wire *wire)
{
    return ((const end *)(const void *)wire)->num_pending;
}

static pw_parts *parts(pw_wire *wire) { return &((end *)(void *)wire)->joined->parts; }

static void forget_sent(join *joined, pw_queue *inbox, uint32_t source)
{
    pw_queue kept = {NULL, NULL};
    for (entry *burst; (burst = pw_queue_take(inbox));) {
        if (burst->source == source) pw_pool_give(&joined->pool, burst);
        else append_to_inbox(&kept, burst);
    }
    *inbox = kept;
}

/* The buffers of its node go with it: nobody may be left with one. */
static void close_end(pw_wire *wire)
{
    end *self = (end *)(void *)wire;
    join *joined = self->joined;
    self->is_open = false;
    for (uint32_t node = 0; self->num_pending && node < joined->num_nodes; node++)
        forget_sent(joined, &joined->ends[node].inbox, wire->node);
    for (entry *burst; (burst = pw_queue_take(&self->inbox));) leave(joined, burst);
    for (entry *burst; (burst = pw_queue_take(&self->left));) pw_pool_give(&joined->pool, burst);
    if (--joined->num_open) return;
    pw_pool_finish(&joined->pool);
    pw_parts_finish(&joined->parts);
    free(joined);
}

static const pw_wire_ops joined_ops = {
    .send = send_burst,
    .sent = sent,
    .poll = poll_inbox,
    .taken = taken,
    .num_pending = num_pending,
    .parts = parts,
    .close = close_end,
};

int pw_wire_join(uint32_t num_nodes, pw_wire **wires)
{
    if (num_nodes == 0) return PW_ERR_INVALID;
    join *joined = calloc(1, sizeof *joined + num_nodes * sizeof *joined->ends);
    if (!joined) return PW_ERR_NOMEM;
    joined->num_nodes = joined->num_open = num_nodes;
    for (uint32_t node = 0; node < num_nodes; node++) {
        end *self = &joined->ends[node];
        self->wire = (pw_wire){.ops = &joined_ops, .node = node, .num_nodes = num_nodes};
        self->joined = joined;
        self->is_open = true;
        wires[node] = &self->wire;
    }
    return PW_OK;
}

void pw_wire_watch(pw_wire *wire,
                   bool (*sent)(void *context, uint32_t node, const pw_wire_burst *burst),
                   uint32_t (*first)(const uint8_t *data, uint32_t num_bytes), void *context)
{
    join *joined = ((end *)(void *)wire)->joined;
    joined->sent = sent;
    joined->first = first;
    joined->context = context;
}
