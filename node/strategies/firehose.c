/* Memory strategy `firehose` [Bell and Bonachea 2003]: who reads a peer's memory holds pages of it
 * pinned, so many for each peer, and reads as often as it likes while it does; to read others it
 * moves a firehose, which takes a round trip. Pages that a peer holds, and those that transfers of
 * its own use, are pinned; when nobody holds them any more they stand in a queue of victims, pinned
 * still, of which the first goes when the queue is full. Memory that peers know by its address, and
 * what is read and written one-sided, is pinned here as long as it is registered. */
#include "node/strategies/kept_pins.h"
#include "node/strategies/message_way.h"
#include "node/strategies/strategy_pages.h"
#include "node/node_state.h"
#include <stdlib.h>

typedef unsigned long long printed;

static int create_pins(pw_strategy_context *context, void **self)
{
    /* What peers hold is theirs to limit. */
    return pw_kept_pins_create(context, UINT64_MAX,
                               (uint64_t)context->settings->firehose_victims_bytes >> PW_PAGE_SHIFT,
                               self);
}

/* A message to be sent is read through firehoses: nothing is done here, but that pages that peers
 * hold and the OS has unpinned with their mapping are pinned anew. */
static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    pw_kept_pins *pins = self;
    pw_strategy_context *context = pins->context;
    uint64_t first_page = pw_span_first_page(span), num_pages = pw_span_num_pages(span), num_new;
    pw_lease lease = {.span = span};
    int code;
    if (access == (PW_ACCESS_READ | PW_ACCESS_MESSAGE)) {
        code = pw_kept_pins_renew(pins, first_page, num_pages, &lease.cost);
    } else {
        lease.token = 1;
        lease.cost.pin_ns = context->costs->lookup_ns;
        code = pw_kept_pins_hold(pins, first_page, num_pages, true, &lease.cost, &num_new);
        if (code == PW_OK && num_new) context->counters.strategy_misses++;
        else if (code == PW_OK) context->counters.strategy_hits++;
    }
    if (code == PW_OK) *out = lease;
    return code;
}

static int release(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    if (lease->token) return pw_kept_pins_release(self, lease, cost);
    *cost = (pw_strategy_cost){0};
    return PW_OK;
}

static int hold(void *self, uint64_t first_page, uint64_t num_pages, pw_strategy_cost *cost)
{
    uint64_t num_new;
    int code = pw_kept_pins_hold(self, first_page, num_pages, true, cost, &num_new);
    return code == PW_ERR_ADDRESS || code == PW_ERR_PROTECTION ? PW_OK : code;
}

/* --- what nodes tell each other -----------------------------------------------------------------
 */

/* Firehoses: pages of peers that this node holds pinned, to read them without a word to their owner
 * [Bell and Bonachea 2003]. F = M / (P * (nodes - 1)) of them for each peer: M is what a node lets
 * its peers hold (strategy.firehose_limit), P the page. Those that no read uses stand in a queue;
 * for pages that are not held the first ones of it are moved:
 *
 *   reader                          owner
 *   LET_GO (pages), one a run    -> may unpin them
 *   HOLD (pages), one a run      -> pins them
 *                               <- HELD
 *   reads                           (its NI answers)
 *   DONE, of one in chunks       -> the message is over
 *
 * A message of more than F pages, or longer than a transfer, is read in chunks, one after the
 * other. What the owner's library does is its progress thread's (message_way.h). */

/* Pages: first in address, number in num_bytes. */
#define OF_FIREHOSES (PW_MESSAGE_OF_NODES + 8) /* kinds from here on */
#define KIND_LET_GO OF_FIREHOSES
#define KIND_HOLD (OF_FIREHOSES + 1) /* key: the move; extra: runs that follow */
#define KIND_HELD (OF_FIREHOSES + 2) /* key: the move */
#define KIND_DONE                                                                       \
    (OF_FIREHOSES + 3)                /* key: of the message; extra: its error, negated \
                                       */
#define IN_CHUNKS (UINT64_C(1) << 62) /* in an address: no program has memory there */

/* A message that is being read, in chunks of as many pages as there are firehoses. */
typedef struct {
    pw_link link;
    pw_handle *handle;
    uint64_t source_address, key, address, num_bytes; /* what is left; the chunk comes first */
    uint64_t chunk_bytes;
    uint64_t awaits; /* the move by which the chunk's last pages come */
    int64_t at_ns;
    bool in_chunks, has_waited;
} firehose_read;

typedef struct {
    pw_kept_pages pages; /* that this node holds there */
    uint64_t num_moves;  /* asked for; answers come in their order */
    pw_queue moving;     /* wait for an answer */
    pw_queue waiting;    /* for firehoses that are in use */
    int64_t held_ns;     /* as owner: through with what the peer asked for last */
} firehose_peer;

typedef struct {
    uint32_t num_nodes;
    uint64_t max_pages; /* of each peer */
    pw_pool reads;
    firehose_peer peers[]; /* by node */
} node_firehoses;

static node_firehoses *of(const pw_node *node) { return node->way_state; }

static int create(pw_node *node, uint32_t num_started, void **state, const char **reason)
{
    uint32_t num_nodes = num_started ? num_started : node->wire->num_nodes;
    uint64_t num_peers = num_nodes > 1 ? num_nodes - 1 : 1;
    uint64_t max_pages =
        (uint64_t)node->shared->settings.firehose_limit_bytes / (PW_PAGE_BYTES * num_peers);
    *reason = "strategy.firehose_limit has no page of 4 KiB for each peer; raise it or take fewer "
              "ranks";
    if (!max_pages) return PW_ERR_INVALID;
    node_firehoses *all = calloc(1, sizeof *all + node->wire->num_nodes * sizeof *all->peers);
    *reason = "no memory for the table of firehoses";
    if (!all) return PW_ERR_NOMEM;
    all->max_pages = max_pages;
    all->num_nodes = node->wire->num_nodes;
    *state = all;
    return PW_OK;
}

static void destroy(pw_node *node)
{
    node_firehoses *all = of(node);
    for (uint32_t i = 0; i < all->num_nodes; i++) pw_kept_pages_finish(&all->peers[i].pages);
    pw_pool_finish(&all->reads);
    free(all);
}

/* A node holds no firehoses at itself. */
static bool concerns(const pw_node *node, uint32_t peer) { return peer != node->wire->node; }

/* --- the owner; PW_ERR_MALFORMED, with nothing said: no sound peer says that --------------------
 */

static int offer(pw_node *node, pw_handle *handle, uint64_t address)
{
    const pw_span span = {address, handle->num_bytes};
    if (pw_span_num_pages(span) <= of(node)->max_pages &&
        handle->num_bytes <= node->transfer_max_bytes)
        return 0;
    int code = pw_ni_register(node->ni, address, handle->num_bytes, PW_REMOTE_READ, &handle->key);
    if (code < 0)
        return pw_node_fail(node, code, "send of %llu bytes to node %u", (printed)handle->num_bytes,
                            handle->peer);
    handle->address = address | IN_CHUNKS;
    pw_handles_begin(&node->handles, handle, ~handle->key);
    return 1;
}

/* The peer has read all of a message that it wants. */
static int done(pw_node *node, uint32_t source, const pw_envelope *envelope)
{
    pw_handle *handle = pw_handles_end(&node->handles, ~envelope->key);
    if (!handle || handle->peer != source) return PW_ERR_MALFORMED;
    pw_ni_unexpose(node->ni, envelope->key);
    return pw_node_complete(node, handle, pw_library_read_ns(node, envelope),
                            -(int)envelope->extra);
}

/* The progress thread holds pages for the peer, or lets them go. */
static int serve(pw_node *node, uint32_t source, const pw_envelope *envelope)
{
    firehose_peer *peer = &of(node)->peers[source];
    bool is_hold = envelope->kind == KIND_HOLD;
    pw_span span = {envelope->address << PW_PAGE_SHIFT, envelope->num_bytes << PW_PAGE_SHIFT};
    pw_strategy_cost cost = {0};
    int64_t at_ns = pw_library_read_ns(node, envelope);
    if (!envelope->num_bytes || envelope->num_bytes > of(node)->max_pages ||
        pw_range_wraps(envelope->address, envelope->num_bytes))
        return PW_ERR_MALFORMED;
    node->context.now_ns = at_ns;
    uint64_t num_swapped = pw_node_count_swapped(node);
    int code = (is_hold ? hold : pw_kept_pins_drop)(node->strategy_self, envelope->address,
                                                    envelope->num_bytes, &cost);
    if (code < 0) return pw_node_fail_span(node, code, is_hold ? "hold" : "let go", span);
    pw_node_add_swapped(node, num_swapped, &cost);
    int64_t cost_ns = pw_node_count_cost(node, &cost, "hold");
    if (cost_ns < 0) return (int)cost_ns;
    peer->held_ns = pw_later(peer->held_ns, pw_library_work(node, at_ns, cost_ns));
    if (!is_hold || envelope->extra) return PW_OK;
    return pw_library_tell(node, source, KIND_HELD, 0, 0, envelope->key, 0, peer->held_ns);
}

/* --- reads --------------------------------------------------------------------------------------
 */

static firehose_peer *peer_of(pw_node *node, const firehose_read *read)
{
    return &of(node)->peers[read->handle->peer];
}

static uint64_t first_page(const firehose_read *read) { return pw_page_of(read->source_address); }

static uint64_t end_page(const firehose_read *read)
{
    return pw_page_of(read->source_address + read->chunk_bytes - 1) + 1;
}

/* The chunk has all its firehoses: the NI reads. */
static int start(pw_node *node, firehose_read *read)
{
    const pw_kept_pages *pages = &peer_of(node, read)->pages;
    uint32_t peer = read->handle->peer;
    int64_t at_ns = read->at_ns;
    for (uint64_t page = first_page(read); page < end_page(read); page++)
        at_ns = pw_later(at_ns, pw_kept_pages_find(pages, page)->ready_ns);
    pw_handle *chunk = pw_handles_take(&node->handles);
    if (!chunk) return pw_node_fail(node, PW_ERR_NOMEM, "no memory for a part of a message");
    chunk->peer = peer;
    chunk->num_bytes = read->chunk_bytes;
    chunk->is_fetch = true;
    chunk->piece_of = read;
    uint64_t id;
    int code = pw_ni_fetch(node->ni, node->pdid, peer, read->source_address, read->key,
                           read->address, read->chunk_bytes, at_ns, &id);
    if (code < 0)
        return pw_node_fail(node, code, "read of %llu bytes from node %u",
                            (printed)read->chunk_bytes, peer);
    pw_handles_begin(&node->handles, chunk, id);
    node->is_posted = true;
    return PW_OK;
}

/* The next chunk: as many pages as there are firehoses, and what a transfer can hold. */
static void cut(const pw_node *node, firehose_read *read)
{
    uint64_t max_bytes =
        (of(node)->max_pages << PW_PAGE_SHIFT) - read->source_address % PW_PAGE_BYTES;
    const uint64_t piece_bytes = pw_node_piece_bytes(node, read->address, read->num_bytes);
    read->chunk_bytes = piece_bytes < max_bytes ? piece_bytes : max_bytes;
}

/* Could the chunk have its firehoses, if every one that no read uses were moved? *num_new: pages
 * that are not held. */
static bool has_room(const pw_node *node, const firehose_peer *peer, const firehose_read *read,
                     uint64_t *num_new)
{
    uint64_t num_idle = peer->pages.num_idle; /* that it does not need itself */
    *num_new = 0;
    for (uint64_t page = first_page(read); page < end_page(read); page++) {
        const pw_kept_page *held = pw_kept_pages_find(&peer->pages, page);
        if (!held) ++*num_new;
        else if (!held->num_users) num_idle--;
    }
    return *num_new <= of(node)->max_pages - peer->pages.num_pages + num_idle;
}

/* Use the chunk's pages. Those that are not held yet come by the next move. */
static void use_pages(firehose_peer *peer, firehose_read *read)
{
    read->awaits = 0;
    for (uint64_t page = first_page(read); page < end_page(read); page++) {
        bool is_new = !pw_kept_pages_find(&peer->pages, page);
        pw_kept_page *held = pw_kept_pages_use(&peer->pages, page);
        if (is_new) held->awaits = peer->num_moves + 1;
        if (!held->is_good && held->awaits > read->awaits) read->awaits = held->awaits;
    }
}

/* Let the firehoses go that have been idle for longest, as many as are too many. */
static int let_victims_go(pw_node *node, uint32_t number, int64_t *at_ns)
{
    pw_kept_pages *pages = &of(node)->peers[number].pages;
    while (pages->num_pages > of(node)->max_pages) {
        uint64_t first = pages->head->page;
        uint64_t run = pw_kept_pages_run(pages, pages->num_pages - of(node)->max_pages);
        for (uint64_t i = 0; i < run; i++) { /* what happened later to one holds up the move */
            *at_ns = pw_later(*at_ns, pages->head->idle_ns);
            pw_kept_pages_remove(pages, pages->head);
        }
        int code = pw_library_tell(node, number, KIND_LET_GO, first, run, 0, 0, *at_ns);
        if (code < 0) return code;
        node->context.counters.strategy_evictions++;
    }
    return PW_OK;
}

/* From *page on: the next run of pages that come by this move; its length, 0 behind the last. */
static uint64_t next_run(const pw_kept_pages *pages, uint64_t *page, uint64_t end, uint64_t move)
{
    for (; *page < end; ++*page) {
        uint64_t run = 0;
        while (*page + run < end) {
            const pw_kept_page *each = pw_kept_pages_find(pages, *page + run);
            if (each->is_good || each->awaits != move) break;
            run++;
        }
        if (run) return run;
    }
    return 0;
}

static int ask_for_pages(pw_node *node, const firehose_read *read, int64_t at_ns)
{
    firehose_peer *peer = peer_of(node, read);
    uint32_t number = read->handle->peer;
    uint64_t move = ++peer->num_moves, page = first_page(read), end = end_page(read);
    node->context.counters.firehose_moves++;
    for (uint64_t run = next_run(&peer->pages, &page, end, move); run;) {
        uint64_t next = page + run, next_length = next_run(&peer->pages, &next, end, move);
        int code =
            pw_library_tell(node, number, KIND_HOLD, page, run, move, next_length > 0, at_ns);
        if (code < 0) return code;
        node->context.counters.firehose_pages += run;
        page = next;
        run = next_length;
    }
    return PW_OK;
}

/* Begin the next chunk. */
static int begin(pw_node *node, firehose_read *read)
{
    firehose_peer *peer = peer_of(node, read);
    uint64_t num_new;
    cut(node, read);
    bool fits = has_room(node, peer, read, &num_new);
    if (num_new && (!fits || (peer->waiting.first && !read->has_waited))) {
        if (!read->has_waited) node->context.counters.firehose_waits++;
        pw_queue_append(&peer->waiting, read);
        return PW_OK;
    }
    if (pw_kept_pages_prepare(&peer->pages, first_page(read), end_page(read) - first_page(read)))
        return pw_node_fail(node, PW_ERR_NOMEM, "no memory for pages held at node %u",
                            read->handle->peer);
    const pw_strategy_cost lookup = {.pin_ns = node->shared->costs.lookup_ns};
    read->at_ns += pw_node_count_cost(node, &lookup, "look-up");
    use_pages(peer, read);
    if (num_new) node->context.counters.strategy_misses++;
    else node->context.counters.strategy_hits++;
    if (!read->awaits) return start(node, read);
    pw_queue_append(&peer->moving, read);
    if (!num_new) return PW_OK; /* another read has asked */
    int64_t at_ns = read->at_ns;
    int code = let_victims_go(node, read->handle->peer, &at_ns);
    return code < 0 ? code : ask_for_pages(node, read, at_ns);
}

/* Firehoses are free again: who waits longest comes first. */
static int wake_waiting(pw_node *node, firehose_peer *peer, int64_t at_ns)
{
    uint64_t num_new;
    while (peer->waiting.first) {
        firehose_read *first = peer->waiting.first;
        if (!has_room(node, peer, first, &num_new)) return PW_OK;
        pw_queue_take(&peer->waiting);
        first->has_waited = true;
        first->at_ns = pw_later(first->at_ns, at_ns);
        int code = begin(node, first);
        if (code < 0) return code;
    }
    return PW_OK;
}

static int fetch(pw_node *node, pw_handle *handle, uint64_t source_address, int64_t at_ns)
{
    if (!handle->num_bytes) return 0;
    firehose_read *read = pw_pool_take(&of(node)->reads, sizeof *read);
    if (!read)
        return pw_node_fail(node, PW_ERR_NOMEM, "no memory for a read from node %u", handle->peer);
    read->handle = handle;
    read->source_address = source_address & ~IN_CHUNKS;
    read->key = handle->key;
    read->address = handle->address;
    read->num_bytes = handle->num_bytes;
    read->at_ns = at_ns;
    read->in_chunks = source_address & IN_CHUNKS;
    read->has_waited = false;
    if (!pw_range_wraps(read->source_address, read->num_bytes)) {
        int code = begin(node, read);
        return code < 0 ? code : 1;
    }
    pw_pool_give(&of(node)->reads, read);
    return pw_node_fail(node, PW_ERR_MALFORMED, "read of %llu bytes at %#llx of node %u",
                        (printed)handle->num_bytes, (printed)source_address, handle->peer);
}

static int end(pw_node *node, firehose_read *read, int error)
{
    pw_handle *handle = read->handle;
    int64_t at_ns = read->at_ns;
    int code = PW_OK;
    if (read->in_chunks)
        code = pw_library_tell(node, handle->peer, KIND_DONE, 0, 0, read->key, (uint64_t)-error,
                               at_ns);
    pw_pool_give(&of(node)->reads, read);
    int completed = pw_node_complete(node, handle, at_ns, error);
    return code < 0 ? code : completed;
}

static int finish(pw_node *node, pw_handle *chunk, const pw_host_event *event)
{
    firehose_read *read = chunk->piece_of;
    firehose_peer *peer = peer_of(node, read);
    pw_handles_give(&node->handles, chunk);
    for (uint64_t page = first_page(read); page < end_page(read); page++) {
        pw_kept_page *held = pw_kept_pages_find(&peer->pages, page);
        held->idle_ns = pw_later(held->idle_ns, event->time_ns);
        pw_kept_pages_let_go(&peer->pages, held);
    }
    read->at_ns = event->time_ns;
    read->source_address += read->chunk_bytes;
    read->address += read->chunk_bytes;
    read->num_bytes -= read->chunk_bytes;
    int code = wake_waiting(node, peer, event->time_ns);
    if (code < 0) return code;
    read->has_waited = false;
    return read->num_bytes && !event->error ? begin(node, read) : end(node, read, event->error);
}

/* --- messages -----------------------------------------------------------------------------------
 */

/* The pages of a move are held: reads that waited for no later one start. */
static int answered(pw_node *node, uint32_t source, const pw_envelope *envelope)
{
    firehose_peer *peer = &of(node)->peers[source];
    pw_queue moving = peer->moving;
    int64_t ready_ns = pw_library_read_ns(node, envelope);
    if (envelope->key > peer->num_moves) return PW_ERR_MALFORMED;
    peer->moving = (pw_queue){NULL, NULL};
    while (moving.first) {
        firehose_read *read = pw_queue_take(&moving);
        for (uint64_t page = first_page(read); page < end_page(read); page++) {
            pw_kept_page *held = pw_kept_pages_find(&peer->pages, page);
            if (held->is_good || held->awaits > envelope->key) continue;
            held->is_good = true;
            held->ready_ns = ready_ns;
        }
        int code = PW_OK;
        if (read->awaits > envelope->key) pw_queue_append(&peer->moving, read);
        else code = start(node, read);
        if (code < 0) return code;
    }
    return PW_OK;
}

static int take_message(pw_node *node, uint32_t source, const pw_envelope *envelope)
{
    switch (envelope->kind) {
    case KIND_LET_GO:
    case KIND_HOLD: return serve(node, source, envelope);
    case KIND_HELD: return answered(node, source, envelope);
    case KIND_DONE: return done(node, source, envelope);
    default: return PW_ERR_MALFORMED;
    }
}

static const pw_message_way through_firehoses = {
    .create = create,
    .destroy = destroy,
    .concerns = concerns,
    .offer = offer,
    .fetch = fetch,
    .finish = finish,
    .message = take_message,
    .about = "firehoses",
    .unknown = "firehose here; the same strategy.firehose_limit on all ranks?",
};

const pw_strategy_ops pw_strategy_firehose = {
    .name = "firehose",
    .summary =
        "a reader holds pages of each peer pinned, and moves them by a round trip (Firehose)",
    .create = create_pins,
    .destroy = pw_kept_pins_destroy,
    .acquire = acquire,
    .release = release,
    .invalidated = pw_kept_pins_invalidated,
    .way = &through_firehoses,
};
