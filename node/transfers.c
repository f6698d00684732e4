/* Long messages: the sender exposes its buffer, the receiver's NI reads it. What the memory
 * strategy does before and after costs the CPU's clock. */
#include "native/crc32c.h"
#include "node/node_state.h"
#include "node/node_trace.h"
#include "node/record/recorder.h"
#include "native/frames.h"
#include <string.h>

#define ALL_PAGES (UINT64_C(1) << (64 - PW_PAGE_SHIFT))

typedef unsigned long long printed;

int pw_node_fail_span(pw_node *node, int code, const char *call, pw_span span)
{
    const char *reason = node->context.reason;
    return pw_node_fail(node, code, "memory strategy %s: %s of %llu bytes at %#llx%s%s",
                        node->strategy->name, call, (printed)span.num_bytes, (printed)span.address,
                        *reason ? ": " : "", reason);
}

int64_t pw_node_count_cost(pw_node *node, const pw_strategy_cost *cost, const char *call)
{
    if (cost->touch_ns < 0 || cost->pin_ns < 0 || cost->copy_ns < 0)
        return pw_node_fail(node, PW_ERR_INVALID,
                            "memory strategy %s: %s took %lld + %lld + %lld ns; allowed are times "
                            "from 0",
                            node->strategy->name, call, (long long)cost->touch_ns,
                            (long long)cost->pin_ns, (long long)cost->copy_ns);
    node->strategy_cost.touch_ns += cost->touch_ns;
    node->strategy_cost.pin_ns += cost->pin_ns;
    node->strategy_cost.copy_ns += cost->copy_ns;
    pw_node_trace_strategy(node, cost);
    return cost->touch_ns + cost->pin_ns + cost->copy_ns;
}

uint64_t pw_node_count_swapped(const pw_node *node)
{
    pw_memory_counters counters;
    pw_memory_read_counters(node->memory, &counters);
    return counters.major_faults;
}

void pw_node_add_swapped(pw_node *node, uint64_t count_before, pw_strategy_cost *cost)
{
    uint64_t num_swapped = pw_node_count_swapped(node) - count_before;
    node->context.counters.strategy_major_faults += num_swapped;
    cost->touch_ns += (int64_t)num_swapped * node->shared->costs.major_fault_ns;
}

int pw_node_pass(pw_node *node, const pw_strategy_cost *cost, const char *call)
{
    int64_t passed_ns = pw_node_count_cost(node, cost, call);
    if (passed_ns < 0) return (int)passed_ns;
    node->clock.now_ns += passed_ns;
    return PW_OK;
}

int pw_node_acquire(pw_node *node, pw_span span, int access, pw_lease *out)
{
    *out = (pw_lease){.span = span, .ni_address = span.address};
    out->is_in_pieces = node->strategy->pieces && (access & PW_ACCESS_MESSAGE);
    if (out->is_in_pieces) return PW_OK;
    node->context.now_ns = node->clock.now_ns;
    uint64_t num_swapped = pw_node_count_swapped(node);
    int code = node->strategy->acquire(node->strategy_self, span, access, out);
    if (node->clock.recorder) pw_recorder_brought(node->clock.recorder);
    if (code < 0) return pw_node_fail_span(node, code, "acquire", span);
    pw_node_add_swapped(node, num_swapped, &out->cost);
    if (out->span.address != span.address || out->span.num_bytes != span.num_bytes)
        return pw_node_fail(node, PW_ERR_INVALID, "memory strategy %s: a lease of another span",
                            node->strategy->name);
    if (!out->ni_address) out->ni_address = span.address;
    if (out->ni_address != span.address && (access & PW_ACCESS_IN_PLACE))
        return pw_node_fail(node, PW_ERR_INVALID,
                            "memory strategy %s: a lease of another place for memory that peers "
                            "know by its address",
                            node->strategy->name);
    return pw_node_pass(node, &out->cost, "acquire");
}

/* Time that the release takes, or a code. */
static int64_t release_ns(pw_node *node, const pw_lease *lease, int64_t now_ns)
{
    pw_strategy_cost cost = {0};
    node->context.now_ns = now_ns;
    const pw_strategy_ops *ops = node->strategy;
    if (lease->is_in_pieces) return 0;
    int code = ops->release ? ops->release(node->strategy_self, lease, &cost) : PW_OK;
    if (code < 0) return pw_node_fail_span(node, code, "release", lease->span);
    return pw_node_count_cost(node, &cost, "release");
}

int pw_node_release(pw_node *node, const pw_lease *lease)
{
    int64_t passed_ns = release_ns(node, lease, node->clock.now_ns);
    if (passed_ns < 0) return (int)passed_ns;
    node->clock.now_ns += passed_ns;
    return PW_OK;
}

/* What the OS does for it is the process's time. */
static void shoot_down(pw_node *node, uint64_t first_page, uint64_t num_pages)
{
    node->clock.now_ns += pw_ni_invalidate(node->ni, node->pdid, first_page, num_pages);
}

static int tell_invalidated(pw_node *node, uint64_t first_page, uint64_t num_pages)
{
    const pw_strategy_ops *ops = node->strategy;
    node->context.now_ns = node->clock.now_ns;
    if (!ops->invalidated) return PW_OK;
    int code = ops->invalidated(node->strategy_self, first_page, num_pages);
    if (code >= 0) return PW_OK;
    return pw_node_fail(node, code, "memory strategy %s: invalidated(%llu, %llu)",
                        node->strategy->name, (printed)first_page, (printed)num_pages);
}

int pw_node_unmapped(pw_node *node, uint64_t first_page, uint64_t num_pages)
{
    if (node->clock.recorder) pw_recorder_unmapped(node->clock.recorder, first_page, num_pages);
    shoot_down(node, first_page, num_pages);
    pw_memory_at(node->memory, node->clock.now_ns);
    pw_memory_unmapped(node->memory, first_page, num_pages);
    return tell_invalidated(node, first_page, num_pages);
}

void pw_node_forked(pw_node *node)
{
    atomic_fetch_add_explicit(&node->num_forks, 1, memory_order_relaxed);
}

/* A fork write-protects every page: the OS shoots down the context's translations. */
int pw_node_share_pages(pw_node *node)
{
    atomic_store_explicit(&node->num_forks, 0, memory_order_relaxed);
    if (node->clock.recorder) pw_recorder_forked(node->clock.recorder);
    int code = pw_memory_fork(node->memory, 0, UINT64_MAX);
    if (code < 0) return pw_node_fail(node, code, "fork");
    shoot_down(node, 0, PW_ALL_PAGES);
    return tell_invalidated(node, 0, ALL_PAGES);
}

static pw_handle *take_handle(pw_node *node, uint32_t peer)
{
    pw_handle *handle = pw_handles_take(&node->handles);
    if (handle) handle->peer = peer;
    else pw_node_fail(node, PW_ERR_NOMEM, "no memory for a transfer with node %u", peer);
    return handle;
}

int pw_node_post_exposed(pw_node *node, pw_handle *handle, uint64_t address, int64_t at_ns)
{
    pw_scheduling scheduling = {PW_HINT_NONE, 0};
    int code = PW_OK;
    if (node->host.schedule)
        code = node->host.schedule(node->host.context, handle->num_bytes, handle->peer, true, at_ns,
                                   &scheduling);
    if (code >= 0)
        code = pw_ni_expose(node->ni, handle->peer, address, handle->num_bytes, &scheduling,
                            &handle->key);
    if (code < 0) return code;
    pw_handles_begin(&node->handles, handle, handle->key);
    return PW_OK;
}

/* Post what pw_node_expose has a handle for. */
static int post_exposed(pw_node *node, pw_handle *handle)
{
    int code = pw_node_post_exposed(node, handle, handle->address, node->clock.now_ns);
    if (code >= 0) return PW_OK;
    if (handle->has_lease) pw_node_release(node, &handle->lease); /* the first error counts */
    return pw_node_fail(node, code, "send of %llu bytes to node %u", (printed)handle->num_bytes,
                        handle->peer);
}

/* How the strategy has messages with the peer go, NULL: as a whole. */
static const pw_message_way *way_to(const pw_node *node, uint32_t peer)
{
    const pw_message_way *way = node->strategy->way;
    return way && (!way->concerns || way->concerns(node, peer)) ? way : NULL;
}

int pw_node_expose(pw_node *node, uint32_t peer, uint64_t address, uint64_t num_bytes,
                   pw_handle **out)
{
    pw_handle *handle = take_handle(node, peer);
    if (!handle) return PW_ERR_NOMEM;
    handle->num_bytes = num_bytes;
    handle->address = address;
    handle->has_lease = num_bytes > 0;
    const pw_message_way *way = way_to(node, peer);
    int code = PW_OK;
    if (handle->has_lease) {
        /* where the strategy's way does not concern the peer, it is no message to the strategy */
        int access = PW_ACCESS_READ | (way || !node->strategy->way ? PW_ACCESS_MESSAGE : 0);
        code = pw_node_acquire(node, (pw_span){address, num_bytes}, access, &handle->lease);
        if (code == PW_OK) handle->address = handle->lease.ni_address;
        if (code == PW_OK && way) code = way->offer(node, handle, address);
    }
    if (code == PW_OK) code = post_exposed(node, handle);
    if (code < 0) {
        pw_handles_give(&node->handles, handle);
        return code;
    }
    *out = handle;
    return PW_OK;
}

uint64_t pw_node_piece_bytes(const pw_node *node, uint64_t address, uint64_t num_bytes)
{
    const uint64_t max_bytes = node->transfer_max_bytes;
    return num_bytes <= max_bytes ? num_bytes : max_bytes - address % PW_BLOCK_BYTES;
}

/* Ask for as much of the rest as a transfer can hold. The library's progress thread does so as soon
 * as the piece before is here. */
static int fetch_piece(pw_node *node, pw_handle *fetch, int64_t at_ns)
{
    const uint64_t done_bytes = fetch->num_bytes - fetch->rest_bytes;
    const pw_lease *lease = &fetch->lease;
    uint64_t address = fetch->address + done_bytes, id;
    if (fetch->has_lease) address += lease->ni_address - lease->span.address;
    if (pw_range_wraps(fetch->rest_address, fetch->rest_bytes) ||
        pw_range_wraps(address, fetch->rest_bytes))
        return PW_ERR_ADDRESS;
    const uint64_t num_bytes = pw_node_piece_bytes(node, address, fetch->rest_bytes);
    const bool is_last = num_bytes == fetch->rest_bytes;
    int code = pw_ni_fetch_piece(node->ni, node->pdid, fetch->peer, fetch->rest_address, fetch->key,
                                 address, num_bytes, is_last, at_ns, &id);
    if (code < 0) return code;
    fetch->rest_address += num_bytes;
    fetch->rest_bytes -= num_bytes;
    pw_handles_begin(&node->handles, fetch, id);
    node->is_posted = true;
    return PW_OK;
}

static int fail_fetch(pw_node *node, int code, const pw_handle *fetch)
{
    return pw_node_fail(node, code, "read of %llu bytes from node %u", (printed)fetch->num_bytes,
                        fetch->peer);
}

int pw_node_fetch(pw_node *node, uint32_t peer, uint64_t source_address, uint64_t key,
                  uint64_t address, uint64_t num_bytes, int64_t at_ns, const pw_lease *lease,
                  pw_handle **out)
{
    pw_handle *handle = take_handle(node, peer);
    if (!handle) return PW_ERR_NOMEM;
    handle->is_fetch = true;
    handle->key = key;
    handle->address = address;
    handle->num_bytes = handle->rest_bytes = num_bytes;
    handle->rest_address = source_address;
    handle->has_lease = lease != NULL;
    if (lease) handle->lease = *lease;
    const pw_message_way *way = way_to(node, peer);
    int code = way ? way->fetch(node, handle, source_address, at_ns) : 0;
    if (code > 0) *out = handle;
    if (code) return code < 0 ? code : PW_OK;
    if (lease) address = address - lease->span.address + lease->ni_address;
    if (node->context.advises) code = pw_ni_advise(node->ni, node->pdid, address, num_bytes, at_ns);
    if (code == PW_OK) code = fetch_piece(node, handle, at_ns);
    if (code < 0) {
        (void)fail_fetch(node, code, handle);
        pw_handles_give(&node->handles, handle);
        return code;
    }
    *out = handle;
    return PW_OK;
}

int pw_node_started(pw_node *node, uint64_t id, uint32_t peer, pw_handle **out)
{
    node->is_posted = true;
    pw_handle *handle = take_handle(node, peer);
    if (!handle) return PW_ERR_NOMEM;
    pw_handles_begin(&node->handles, handle, id);
    *out = handle;
    return PW_OK;
}

/* A sum, so that the order of messages does not count. */
static void note_received(pw_node *node, const pw_handle *handle)
{
    const void *data = (const void *)(uintptr_t)handle->address;
    uint64_t hash = pw_crc32c(0, data, handle->num_bytes) + (handle->num_bytes << 32);
    hash = (hash ^ hash >> 31) * UINT64_C(0x9E3779B97F4A7C15);
    node->received_hash += hash ^ hash >> 29;
}

int pw_node_complete(pw_node *node, pw_handle *handle, int64_t time_ns, int error)
{
    if (handle->is_fetch && !error) handle->lease.landed_bytes = handle->num_bytes;
    int64_t passed_ns = handle->has_lease ? release_ns(node, &handle->lease, time_ns) : 0;
    if (node->shared->settings.hash_received && !node->has_no_bytes && handle->is_fetch &&
        handle->address && !error)
        note_received(node, handle);
    handle->complete_ns = time_ns + (passed_ns > 0 ? passed_ns : 0);
    handle->error = error;
    handle->has_lease = false;
    handle->done = true;
    if (handle->is_dropped) pw_handles_give(&node->handles, handle);
    else if (handle->owner && node->host.finished) {
        int code = node->host.finished(node->host.context, handle);
        if (code < 0) return pw_node_fail(node, code, "end of a transfer: the host failed");
    }
    return passed_ns < 0 ? (int)passed_ns : PW_OK;
}

int pw_node_finish(pw_node *node, const pw_host_event *event)
{
    pw_handle *handle = pw_handles_end(&node->handles, event->id);
    if (!handle) return PW_OK; /* posted by the host, which does not ask for it */
    if (handle->piece_of) return node->strategy->way->finish(node, handle, event);
    if (event->error || !handle->rest_bytes)
        return pw_node_complete(node, handle, event->time_ns, event->error);
    int code = fetch_piece(node, handle, event->time_ns);
    return code < 0 ? fail_fetch(node, code, handle) : PW_OK;
}

void pw_node_free_handle(pw_node *node, pw_handle *handle)
{
    if (handle->done) pw_handles_give(&node->handles, handle);
    else handle->is_dropped = true;
}

uint32_t pw_node_write_message(pw_node *node, uint32_t peer, uint8_t kind, uint64_t address,
                               uint64_t num_bytes, uint64_t key, uint8_t *frame)
{
    uint64_t payload_bytes = kind == PW_MESSAGE_EAGER ? num_bytes : 0;
    if (peer >= node->wire->num_nodes || payload_bytes > UINT32_MAX - PW_ENVELOPE_BYTES) return 0;
    node->clock.now_ns = pw_ni_message_write(node->ni, peer, kind, address, num_bytes, key,
                                             (uint32_t)payload_bytes, node->clock.now_ns, frame);
    return PW_ENVELOPE_BYTES + (node->has_no_bytes ? 0 : (uint32_t)payload_bytes);
}

/* ---- reads that are foreseen */

#define VAIN_MAX 4u /* promises in a row that nobody takes, before fewer are given */
#define LEFT_OUT_MAX 31u

typedef struct {
    pw_read_request_frame request;
    pw_block_frame block;
} taken_promise;
_Static_assert(sizeof(taken_promise) <= PW_PROMISE_BYTES - 8, "what a reader writes");

static pw_promise_place *place_of(const pw_node *node, uint32_t giver, uint32_t reader)
{
    const pw_wire_ops *ops = node->wire->ops;
    return ops->promises ? ops->promises(node->wire, giver, reader) : NULL;
}

pw_peer_asks *pw_node_asks(pw_node *node, uint32_t peer)
{
    if (!node->wire->ops->promises) return NULL;
    pw_peer_asks *asks = pw_peers_make(&node->promises.asks, peer, sizeof *asks);
    if (!asks || asks->is_near || !place_of(node, node->wire->node, peer)) return asks;
    asks->is_near = true;
    pw_ni_set_unsealed_to(node->ni, peer);
    return asks;
}

uint32_t pw_node_promise_bytes(const pw_node *node, uint64_t num_bytes)
{
    return node->wire->ops->promises ? pw_ni_promise_bytes(node->ni, num_bytes) : 0;
}

/* It was given, and is not any more: true if its reader had taken it. */
static bool take_back(pw_node_promises *promises)
{
    uint64_t number = promises->number;
    return promises->stands &&
           !__atomic_compare_exchange_n(&promises->place->state, &number, 0, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

void pw_node_keep_promise(void *context)
{
    pw_node *node = context;
    pw_node_promises *promises = &node->promises;
    pw_promise_place *place = promises->place;
    const bool was_taken = take_back(promises);
    promises->place = NULL;
    promises->stands = false;
    promises->num_vain = was_taken ? 0 : promises->num_vain + (promises->num_vain < VAIN_MAX);
    if (!was_taken) return;
    taken_promise taken;
    memcpy(&taken, place->taken, sizeof taken);
    __atomic_store_n(&place->state, 0, __ATOMIC_RELAXED);
    pw_ni_keep_promise(node->ni, promises->reader, &taken.request, &taken.block);
    node->is_posted = true;
}

void pw_node_stand_by(pw_node *node, bool is_waiting)
{
    pw_node_promises *promises = &node->promises;
    if (!promises->place || promises->stands == is_waiting) return;
    if (is_waiting) __atomic_store_n(&promises->place->state, promises->number, __ATOMIC_RELEASE);
    else if (take_back(promises)) {
        pw_ni_keep(node->ni);
        return;
    }
    promises->stands = is_waiting;
}

uint8_t *pw_node_promise(pw_node *node, const pw_handle *exposed, uint32_t bytes_behind,
                         uint32_t *promise_bytes)
{
    pw_node_promises *promises = &node->promises;
    const uint32_t peer = exposed->peer;
    *promise_bytes = pw_node_promise_bytes(node, exposed->num_bytes);
    if (!*promise_bytes || node->clock.recorder || node->host.schedule || exposed->piece_of ||
        exposed->lease.is_in_pieces || node->handles.num_under_way > 1 || way_to(node, peer))
        return NULL;
    if (promises->num_vain == VAIN_MAX && promises->num_left_out++ < LEFT_OUT_MAX) return NULL;
    pw_promise_place *place = place_of(node, node->wire->node, peer);
    pw_peer_asks *asks = place ? pw_node_asks(node, peer) : NULL;
    uint8_t *frame = asks ? pw_ni_promise(node->ni, node->pdid, peer, exposed->address,
                                          exposed->num_bytes, PW_ENVELOPE_BYTES, bytes_behind)
                          : NULL;
    if (!frame) return NULL;
    pw_promise *promise = (pw_promise *)(void *)(frame + PW_ENVELOPE_BYTES);
    promise->number = ++promises->number;
    promise->num_heard = asks->num_received;
    promises->place = place;
    promises->reader = peer;
    promises->num_left_out = 0;
    return frame;
}

int pw_node_take_promise(pw_node *node, uint32_t peer, const uint8_t *data)
{
    const pw_promise *promise = (const pw_promise *)(const void *)data;
    pw_promise_place *place = place_of(node, peer, node->wire->node);
    const pw_peer_asks *asks = place && !node->clock.recorder ? pw_node_asks(node, peer) : NULL;
    uint64_t number = promise->number;
    if (!asks || asks->num_sent != promise->num_heard ||
        __atomic_load_n(&place->state, __ATOMIC_ACQUIRE) != number)
        return PW_OK;
    pw_block_frame *block = (pw_block_frame *)(uintptr_t)(promise + 1); /* is for this node */
    const pw_read_request_frame *request = pw_ni_foresee(node->ni, peer, promise, block);
    if (!request) return PW_OK;
    const taken_promise taken = {*request, *block};
    memcpy(place->taken, &taken, sizeof taken);
    if (!__atomic_compare_exchange_n(&place->state, &number, PW_PROMISE_TAKEN, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return PW_OK;
    pw_ni_take_request_back(node->ni, peer);
    return pw_node_receive_burst(node, peer, (const uint8_t *)block, block->header.frame_bytes);
}
