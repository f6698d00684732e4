#include "transport/node/firehoses.h"

#include <stdlib.h>
#include <string.h>

#include "transport/node/firehoses_owner.h"
#include "transport/node/library.h"
#include "transport/node/node_state.h"

typedef unsigned long long printed;

int pw_firehoses_init(pw_node *node, uint32_t num_started)
{
    pw_firehoses *all = &node->firehoses;
    uint32_t num_nodes = num_started ? num_started : node->wire->num_nodes;
    uint64_t num_peers = num_nodes > 1 ? num_nodes - 1 : 1;
    all->max_pages = (uint64_t)node->settings.firehose_limit_bytes / (PW_PAGE_BYTES * num_peers);
    if (!all->max_pages) return PW_ERR_INVALID;
    all->num_nodes = node->wire->num_nodes;
    all->peers = calloc(all->num_nodes, sizeof *all->peers);
    return all->peers ? PW_OK : PW_ERR_NOMEM;
}

void pw_firehoses_destroy(pw_node *node)
{
    pw_firehoses *all = &node->firehoses;
    for (uint32_t i = 0; all->peers && i < all->num_nodes; i++)
        pw_kept_pages_finish(&all->peers[i].pages);
    for (pw_firehose_read *each = all->made, *next; each; each = next) {
        next = each->next_made;
        free(each);
    }
    free(all->peers);
}

/* -- reads */

/* From the pool. NULL: no memory. */
static pw_firehose_read *take_read(pw_firehoses *all)
{
    pw_firehose_read *read = all->free;
    if (read) {
        all->free = read->next;
        return read;
    }
    read = calloc(1, sizeof *read);
    if (!read) return NULL;
    read->next_made = all->made;
    return all->made = read;
}

static void give_read(pw_firehoses *all, pw_firehose_read *read)
{
    read->next = all->free;
    all->free = read;
}

static void append(pw_firehose_reads *reads, pw_firehose_read *read)
{
    read->next = NULL;
    if (reads->last) reads->last->next = read;
    else reads->first = read;
    reads->last = read;
}

static pw_firehose_read *pop(pw_firehose_reads *reads)
{
    pw_firehose_read *first = reads->first;
    reads->first = first->next;
    if (!reads->first) reads->last = NULL;
    return first;
}

static pw_firehose_peer *peer_of(pw_node *node, const pw_firehose_read *read)
{
    return &node->firehoses.peers[read->handle->peer];
}

static uint64_t first_page(const pw_firehose_read *read)
{
    return pw_page_of(read->source_address);
}

static uint64_t end_page(const pw_firehose_read *read)
{
    return pw_page_of(read->source_address + read->chunk_bytes - 1) + 1;
}

/* The chunk has all its firehoses: the NI reads. */
static int start(pw_node *node, pw_firehose_read *read)
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

/* The next chunk: as many pages as there are firehoses. */
static void cut(const pw_node *node, pw_firehose_read *read)
{
    uint64_t max_bytes =
        (node->firehoses.max_pages << PW_PAGE_SHIFT) - read->source_address % PW_PAGE_BYTES;
    read->chunk_bytes = read->num_bytes < max_bytes ? read->num_bytes : max_bytes;
}

/* Could the chunk have its firehoses, if every one that no read uses were moved? *num_new: pages
 * that are not held. */
static bool has_room(const pw_node *node, const pw_firehose_peer *peer,
                     const pw_firehose_read *read, uint64_t *num_new)
{
    uint64_t num_idle = peer->pages.num_idle; /* that it does not need itself */
    *num_new = 0;
    for (uint64_t page = first_page(read); page < end_page(read); page++) {
        const pw_kept_page *held = pw_kept_pages_find(&peer->pages, page);
        if (!held) ++*num_new;
        else if (!held->num_users) num_idle--;
    }
    return *num_new <= node->firehoses.max_pages - peer->pages.num_pages + num_idle;
}

/* Use the chunk's pages. Those that are not held yet come by the next move. */
static void use_pages(pw_firehose_peer *peer, pw_firehose_read *read)
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
    pw_kept_pages *pages = &node->firehoses.peers[number].pages;
    while (pages->num_pages > node->firehoses.max_pages) {
        uint64_t first = pages->head->page;
        uint64_t run = pw_kept_pages_run(pages, pages->num_pages - node->firehoses.max_pages);
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

static int ask_for_pages(pw_node *node, const pw_firehose_read *read, int64_t at_ns)
{
    pw_firehose_peer *peer = peer_of(node, read);
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
static int begin(pw_node *node, pw_firehose_read *read)
{
    pw_firehose_peer *peer = peer_of(node, read);
    uint64_t num_new;
    cut(node, read);
    bool fits = has_room(node, peer, read, &num_new);
    if (num_new && (!fits || (peer->waiting.first && !read->has_waited))) {
        if (!read->has_waited) node->context.counters.firehose_waits++;
        append(&peer->waiting, read);
        return PW_OK;
    }
    if (pw_kept_pages_prepare(&peer->pages, first_page(read), end_page(read) - first_page(read)))
        return pw_node_fail(node, PW_ERR_NOMEM, "no memory for pages held at node %u",
                            read->handle->peer);
    const pw_strategy_cost lookup = {.pin_ns = node->costs.lookup_ns};
    read->at_ns += pw_node_count_cost(node, &lookup, "look-up");
    use_pages(peer, read);
    if (num_new) node->context.counters.strategy_misses++;
    else node->context.counters.strategy_hits++;
    if (!read->awaits) return start(node, read);
    append(&peer->moving, read);
    if (!num_new) return PW_OK; /* another read has asked */
    int64_t at_ns = read->at_ns;
    int code = let_victims_go(node, read->handle->peer, &at_ns);
    return code < 0 ? code : ask_for_pages(node, read, at_ns);
}

/* Firehoses are free again: who waits longest comes first. */
static int wake_waiting(pw_node *node, pw_firehose_peer *peer, int64_t at_ns)
{
    uint64_t num_new;
    while (peer->waiting.first) {
        pw_firehose_read *first = peer->waiting.first;
        if (!has_room(node, peer, first, &num_new)) return PW_OK;
        pop(&peer->waiting);
        first->has_waited = true;
        first->at_ns = pw_later(first->at_ns, at_ns);
        int code = begin(node, first);
        if (code < 0) return code;
    }
    return PW_OK;
}

int pw_firehoses_fetch(pw_node *node, pw_handle *handle, uint64_t source_address, uint64_t key,
                       uint64_t address, int64_t at_ns)
{
    pw_firehose_read *read = take_read(&node->firehoses);
    if (!read)
        return pw_node_fail(node, PW_ERR_NOMEM, "no memory for a read from node %u", handle->peer);
    read->handle = handle;
    read->source_address = source_address & ~IN_CHUNKS;
    read->key = key;
    read->address = address;
    read->num_bytes = handle->num_bytes;
    read->at_ns = at_ns;
    read->in_chunks = source_address & IN_CHUNKS;
    read->has_waited = false;
    if (!pw_range_wraps(read->source_address, read->num_bytes)) return begin(node, read);
    give_read(&node->firehoses, read);
    return pw_node_fail(node, PW_ERR_MALFORMED, "read of %llu bytes at %#llx of node %u",
                        (printed)handle->num_bytes, (printed)source_address, handle->peer);
}

static int end(pw_node *node, pw_firehose_read *read, int error)
{
    pw_handle *handle = read->handle;
    int64_t at_ns = read->at_ns;
    int code = PW_OK;
    if (read->in_chunks)
        code = pw_library_tell(node, handle->peer, KIND_DONE, 0, 0, read->key, (uint64_t)-error,
                               at_ns);
    give_read(&node->firehoses, read);
    int completed = pw_node_complete(node, handle, at_ns, error);
    return code < 0 ? code : completed;
}

int pw_firehoses_finish(pw_node *node, pw_handle *chunk, const pw_host_event *event)
{
    pw_firehose_read *read = chunk->piece_of;
    pw_firehose_peer *peer = peer_of(node, read);
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

/* -- messages */

/* The pages of a move are held: reads that waited for no later one start. */
static int answered(pw_node *node, uint32_t source, const pw_envelope *envelope)
{
    pw_firehose_peer *peer = &node->firehoses.peers[source];
    pw_firehose_reads moving = peer->moving;
    int64_t ready_ns = pw_library_read_ns(node, envelope);
    if (envelope->key > peer->num_moves) return PW_ERR_MALFORMED;
    peer->moving = (pw_firehose_reads){0};
    while (moving.first) {
        pw_firehose_read *read = pop(&moving);
        for (uint64_t page = first_page(read); page < end_page(read); page++) {
            pw_kept_page *held = pw_kept_pages_find(&peer->pages, page);
            if (held->is_good || held->awaits > envelope->key) continue;
            held->is_good = true;
            held->ready_ns = ready_ns;
        }
        int code = PW_OK;
        if (read->awaits > envelope->key) append(&peer->moving, read);
        else code = start(node, read);
        if (code < 0) return code;
    }
    return PW_OK;
}

int pw_firehoses_message(pw_node *node, uint32_t source, const uint8_t *frame, uint32_t frame_bytes)
{
    pw_envelope envelope;
    int code = pw_ni_message_check(node->ni, frame, frame_bytes);
    if (code < 0) return pw_node_fail(node, code, "message of node %u about firehoses", source);
    memcpy(&envelope, frame, sizeof envelope);
    if (!node->firehoses.peers)
        return pw_node_fail(node, PW_ERR_MALFORMED,
                            "message about firehoses from node %u; the same run.memory on all "
                            "ranks?",
                            source);
    switch (envelope.kind) {
    case KIND_LET_GO:
    case KIND_HOLD: code = pw_firehoses_serve(node, source, &envelope); break;
    case KIND_HELD: code = answered(node, source, &envelope); break;
    case KIND_DONE: code = pw_firehoses_done(node, source, &envelope); break;
    default: code = PW_ERR_MALFORMED;
    }
    if (code != PW_ERR_MALFORMED) return code;
    pw_ni_message_refuse(node->ni);
    return pw_node_fail(node, code,
                        "message of kind %u of node %u is about no firehose here; the same "
                        "strategy.firehose_limit on all ranks?",
                        envelope.kind, source);
}
