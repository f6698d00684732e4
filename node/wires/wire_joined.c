#include "node/wires/wire.h"
#include "native/parts.h"
#include "native/pool.h"

/* A burst is in one list at a time: its destination's inbox, nowhere while that reads it, its
 * source's `left`, or free. */
typedef struct entry {
    pw_link link;
    struct entry *before; /* in an inbox */
    uint32_t source, destination, num_bytes;
    bool keeps_order; /* among those of its source that do */
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
} end;

struct join {
    uint32_t num_nodes, num_open;
    bool (*sent)(void *context, uint32_t node, const pw_wire_burst *burst); /* NULL: none watches */
    void *context;
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

static void leave(join *joined, entry *burst)
{
    end *source = &joined->ends[burst->source];
    if (!source->is_open) {
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

static int send_burst(pw_wire *wire, uint32_t peer, uint8_t *data, uint32_t num_bytes,
                      bool *is_free)
{
    end *self = (end *)(void *)wire;
    join *joined = self->joined;
    if (peer >= joined->num_nodes || !joined->ends[peer].is_open) return PW_ERR_INVALID;
    entry *burst = pw_pool_take(&joined->pool, sizeof *burst);
    if (!burst) return PW_ERR_NOMEM;
    *burst =
        (entry){.source = wire->node, .destination = peer, .num_bytes = num_bytes, .data = data};
    append_to_inbox(&joined->ends[peer].inbox, burst);
    self->num_pending++;
    *is_free = false;
    if (joined->sent) {
        const pw_wire_burst seen = seen_from_outside(burst);
        burst->keeps_order = joined->sent(joined->context, peer, &seen);
    }
    return PW_OK;
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
                   void *context)
{
    join *joined = ((end *)(void *)wire)->joined;
    joined->sent = sent;
    joined->context = context;
}
