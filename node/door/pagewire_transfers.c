/* Memory and transfers of a host in C, and the turns that move them. See pagewire.h. */
#include "native/status.h"
#include "native/array.h"
#include "node/door/pagewire_state.h"
#include <stdlib.h>

typedef unsigned long long printed;

static pw_handle *handle_of(pagewire_operation *operation)
{
    return (pw_handle *)(void *)operation;
}

void pw_door_enter(pagewire_node *node)
{
    pw_node_lock(node->node);
    pw_clock_enter(pw_node_clock(node->node), false);
}

int pw_door_leave(pagewire_node *node, int result)
{
    pw_clock_leave(pw_node_clock(node->node));
    pw_node_unlock(node->node);
    return result;
}

/* ---- memory */

static int register_memory(pagewire_node *node, pw_span span, uint64_t *key)
{
    pw_registration made;
    if (span.num_bytes == 0 || span.num_bytes > PW_TRANSFER_MAX_BYTES)
        return pw_door_fail(node, PW_ERR_INVALID,
                            "registration of %llu bytes: allowed is 1 to %llu",
                            (printed)span.num_bytes, (printed)PW_TRANSFER_MAX_BYTES);
    int code = PW_ARRAY_MAKE_ROOM(node->registrations, node->num_registrations, node->capacity, 16);
    if (code == PW_OK)
        code = pw_ni_register(pw_node_ni(node->node), span.address, span.num_bytes,
                              PW_REMOTE_READ | PW_REMOTE_WRITE, &made.key);
    if (code < 0)
        return pw_door_fail(node, code, "registration of %llu bytes at %#llx: %s",
                            (printed)span.num_bytes, (printed)span.address, pw_status_text(code));
    code = pw_node_acquire(node->node, span, PW_ACCESS_WRITE | PW_ACCESS_IN_PLACE, &made.lease);
    if (code < 0) {
        pw_ni_unexpose(pw_node_ni(node->node), made.key);
        return pw_door_fail_as_node(node, code);
    }
    node->registrations[node->num_registrations++] = made;
    *key = made.key;
    return PW_OK;
}

int pagewire_register(pagewire_node *node, void *address, uint64_t num_bytes, uint64_t *key)
{
    pw_door_enter(node);
    const pw_span span = {(uintptr_t)address, num_bytes};
    return pw_door_leave(node, register_memory(node, span, key));
}

static int deregister(pagewire_node *node, uint64_t key)
{
    uint32_t i = node->num_registrations;
    while (i > 0 && node->registrations[i - 1].key != key) i--;
    if (i == 0)
        return pw_door_fail(node, PW_ERR_INVALID,
                            "key %#llx is not registered here, or not any more", (printed)key);
    pw_registration gone = node->registrations[i - 1];
    node->registrations[i - 1] = node->registrations[--node->num_registrations];
    pw_ni_unexpose(pw_node_ni(node->node), key);
    int code = pw_node_release(node->node, &gone.lease);
    return code < 0 ? pw_door_fail_as_node(node, code) : PW_OK;
}

int pagewire_deregister(pagewire_node *node, uint64_t key)
{
    pw_door_enter(node);
    return pw_door_leave(node, deregister(node, key));
}

static int unmapped(pagewire_node *node, uint64_t address, uint64_t num_bytes)
{
    if (num_bytes == 0) return PW_OK;
    if (pw_range_wraps(address, num_bytes))
        return pw_door_fail(node, PW_ERR_INVALID,
                            "%llu unmapped bytes at %#llx: they reach the end of the address "
                            "space; take those that were mapped",
                            (printed)num_bytes, (printed)address);
    uint64_t first_page = pw_page_of(address), last_page = pw_page_of(address + num_bytes - 1);
    int code = pw_node_unmapped(node->node, first_page, last_page - first_page + 1);
    return code < 0 ? pw_door_fail_as_node(node, code) : PW_OK;
}

int pagewire_unmapped(pagewire_node *node, const void *address, uint64_t num_bytes)
{
    pw_door_enter(node);
    return pw_door_leave(node, unmapped(node, (uintptr_t)address, num_bytes));
}

void pagewire_forked(pagewire_node *node) { pw_node_forked(node->node); }

/* ---- posting */

static int check_options(pagewire_node *node, bool is_read,
                         const pagewire_transfer_options *options)
{
    if (options->hint > PAGEWIRE_HINT_LOW)
        return pw_door_fail(node, PW_ERR_INVALID, "hint = %u: allowed is one of PAGEWIRE_HINT_*",
                            options->hint);
    if (options->window_blocks > PAGEWIRE_WINDOW_MAX)
        return pw_door_fail(node, PW_ERR_INVALID, "window_blocks = %u: allowed is 0 to %d",
                            options->window_blocks, PAGEWIRE_WINDOW_MAX);
    if (is_read && (options->hint || options->window_blocks))
        return pw_door_fail(node, PW_ERR_INVALID,
                            "hint = %u, window_blocks = %u: the peer's firmware schedules what is "
                            "read from it; leave them 0",
                            options->hint, options->window_blocks);
    if (options->notification_address % PW_NOTIFICATION_BYTES)
        return pw_door_fail(node, PW_ERR_INVALID,
                            "notification_address = %#llx: allowed is a multiple of %d",
                            (printed)options->notification_address, PW_NOTIFICATION_BYTES);
    return PW_OK;
}

typedef struct {
    uint32_t peer;
    bool is_read;
    uint64_t key;
    pw_span local;
    pw_descriptor descriptor;
} transfer;

/* The rest of the descriptor is in the options. */
static int read_options(pagewire_node *node, transfer *wanted,
                        const pagewire_transfer_options *given)
{
    const uint64_t num_bytes = wanted->local.num_bytes;
    pagewire_transfer_options options = {.struct_size = 0};
    if (num_bytes == 0 || num_bytes > PAGEWIRE_TRANSFER_MAX_BYTES)
        return pw_door_fail(node, PW_ERR_INVALID,
                            "transfer of %llu bytes: allowed is 1 to %llu; cut it into several",
                            (printed)num_bytes, (printed)PAGEWIRE_TRANSFER_MAX_BYTES);
    if (wanted->peer >= pw_node_count(node->node))
        return pw_door_fail(node, PW_ERR_INVALID, "peer %u: there are nodes 0 to %u", wanted->peer,
                            pw_node_count(node->node) - 1);
    if (given && !pw_door_copy_struct(&options, sizeof options, given))
        return pw_door_fail(node, PW_ERR_INVALID,
                            "transfer options with struct_size = %zu: allowed is "
                            "sizeof(pagewire_transfer_options) of this library's pagewire.h",
                            given->struct_size);
    pw_descriptor *descriptor = &wanted->descriptor;
    descriptor->destination_address_notification = options.notification_address;
    descriptor->first_data_notification = options.notification_data[0];
    descriptor->last_data_notification = options.notification_data[1];
    descriptor->transfer_bytes = (uint32_t)num_bytes;
    descriptor->reserved[0] = options.hint;
    descriptor->reserved[1] = options.window_blocks;
    if (!wanted->is_read) wanted->key = options.key;
    return check_options(node, wanted->is_read, &options);
}

/* local_address: where the NI finds the local bytes. */
static int64_t post_to_engine(pagewire_node *node, const transfer *wanted, uint64_t local_address,
                              uint64_t *id)
{
    pw_ni *ni = pw_node_ni(node->node);
    int64_t now_ns = pw_node_clock(node->node)->now_ns;
    pw_descriptor descriptor = wanted->descriptor;
    if (wanted->is_read) descriptor.destination_address = local_address;
    else descriptor.source_address = local_address;
    return wanted->is_read
               ? pw_ni_read(ni, node->pdid, wanted->peer, &descriptor, wanted->key, now_ns, id)
               : pw_ni_write_descriptor(ni, node->pdid, wanted->peer, &descriptor, wanted->key,
                                        now_ns, id);
}

static int post(pagewire_node *node, const transfer *wanted, pagewire_operation **out)
{
    pw_lease lease;
    pw_handle *handle;
    uint64_t id;
    int access = wanted->is_read ? PW_ACCESS_WRITE : PW_ACCESS_READ;
    int code = pw_node_acquire(node->node, wanted->local, access, &lease);
    if (code < 0) return pw_door_fail_as_node(node, code);
    int64_t posted_ns = post_to_engine(node, wanted, lease.ni_address, &id);
    if (posted_ns < 0) {
        code = (int)posted_ns;
        pw_node_release(node->node, &lease);
        const char *why = code == PW_ERR_FULL && !wanted->is_read
                              ? "the 32 write channels are taken; take an operation that is over, "
                                "and try again"
                              : pw_status_text(code);
        return pw_door_fail(node, code, "%s of %llu bytes, peer %u: %s",
                            wanted->is_read ? "read" : "write", (printed)wanted->local.num_bytes,
                            wanted->peer, why);
    }
    pw_node_clock(node->node)->now_ns = posted_ns;
    code = pw_node_started(node->node, id, wanted->peer, &handle);
    if (code < 0) { /* it goes on, and nobody can ask for it */
        pw_node_release(node->node, &lease);
        return pw_door_fail_as_node(node, code);
    }
    handle->num_bytes = wanted->local.num_bytes;
    handle->is_fetch = wanted->is_read;
    handle->has_lease = true;
    handle->lease = lease;
    *out = (pagewire_operation *)(void *)handle;
    return PW_OK;
}

static int post_checked(pagewire_node *node, transfer *wanted,
                        const pagewire_transfer_options *options, pagewire_operation **out)
{
    pw_door_enter(node);
    int code = read_options(node, wanted, options);
    if (code == PW_OK) code = post(node, wanted, out);
    return pw_door_leave(node, code);
}

int pagewire_write(pagewire_node *node, uint32_t peer, const void *source,
                   uint64_t destination_address, uint64_t num_bytes,
                   const pagewire_transfer_options *options, pagewire_operation **out)
{
    transfer wanted = {.peer = peer,
                       .local = {(uintptr_t)source, num_bytes},
                       .descriptor.destination_address = destination_address};
    return post_checked(node, &wanted, options, out);
}

int pagewire_read(pagewire_node *node, uint32_t peer, uint64_t source_address, uint64_t key,
                  void *destination, uint64_t num_bytes, const pagewire_transfer_options *options,
                  pagewire_operation **out)
{
    transfer wanted = {.peer = peer,
                       .is_read = true,
                       .key = key,
                       .local = {(uintptr_t)destination, num_bytes},
                       .descriptor.source_address = source_address};
    return post_checked(node, &wanted, options, out);
}

/* ---- moving */

/* The other nodes of this process, whose CPUs wait while this one runs. ran: the program may have
 * changed mappings since the last turn. */
static int move_others(pagewire_node *node, bool ran)
{
    pagewire_network *network = node->network;
    int moved = 0;
    for (uint32_t i = 0; i < network->num_nodes; i++) {
        pagewire_node *other = network->nodes[i];
        if (!other || other == node) continue;
        if (ran) pw_ni_enter(pw_node_ni(other->node));
        int code = pw_node_turn(other->node, true);
        if (code < 0)
            return pw_door_fail(node, code, "node %u: %s: %s", i, pw_node_reason(other->node),
                                pw_status_text(code));
        moved |= code;
    }
    return moved;
}

int pw_door_move(pagewire_node *node, bool is_waiting, bool ran)
{
    const pw_door_host *host = &node->host;
    int moved =
        host->turn ? host->turn(host->context, is_waiting) : pw_node_turn(node->node, is_waiting);
    if (moved < 0) return pw_door_fail_as_node(node, moved);
    int others = node->network ? move_others(node, ran) : 0;
    return others < 0 ? others : moved | others;
}

int pw_door_step(pagewire_node *node, pw_door_wait *wait)
{
    const pw_door_host *host = &node->host;
    bool is_first = !wait->began_ns;
    if (is_first) wait->began_ns = pw_clock_wall_ns();
    int moved = pw_door_move(node, !wait->is_of_another, is_first);
    if (moved < 0) return moved;
    if (moved) pw_node_busy(node->node);
    else pw_node_idle(node->node);
    if (!host->pause || !pw_node_is_due(node->node, &wait->pace, moved, host->pause_ns))
        return moved;
    pw_node_unlock(node->node);
    int code = host->pause(host->context);
    pw_node_lock(node->node);
    return code < 0 ? pw_door_fail(node, code, "the host has ended the wait") : moved;
}

bool pw_door_is_late(const pw_door_wait *wait)
{
    return wait->limit_ns > 0 && pw_clock_wall_ns() - wait->began_ns >= wait->limit_ns;
}

/* The operation is over, and the CPU has seen it: its handle goes. */
static int take(pagewire_node *node, pagewire_operation **operation,
                pagewire_completion *completion)
{
    pw_handle *handle = handle_of(*operation);
    pw_clock *clock = pw_node_clock(node->node);
    int64_t seen_ns = clock->now_ns > handle->complete_ns ? clock->now_ns : handle->complete_ns;
    clock->now_ns = seen_ns + (handle->is_fetch ? node->read_poll_ns : node->write_poll_ns);
    if (completion)
        *completion = (pagewire_completion){.complete_ns = handle->complete_ns,
                                            .num_bytes = handle->num_bytes,
                                            .peer = handle->peer,
                                            .error = handle->error};
    pw_node_free_handle(node->node, handle);
    *operation = NULL;
    return 1;
}

bool pw_door_is_over(const pagewire_operation *operation, int64_t *complete_ns)
{
    const pw_handle *handle = (const pw_handle *)(const void *)operation;
    if (handle->done) *complete_ns = handle->complete_ns;
    return handle->done;
}

int pagewire_test(pagewire_node *node, pagewire_operation **operation,
                  pagewire_completion *completion)
{
    pw_handle *handle = handle_of(*operation);
    pw_door_enter(node);
    int code = pw_door_move(node, false, true);
    if (code < 0) return pw_door_leave(node, code);
    if (handle->done && handle->complete_ns <= pw_node_clock(node->node)->now_ns)
        return pw_door_leave(node, take(node, operation, completion));
    pw_node_failed_test(node->node, handle->done,
                        handle->is_fetch ? node->read_poll_ns : node->write_poll_ns);
    return pw_door_leave(node, 0);
}

int pagewire_wait(pagewire_node *node, pagewire_operation **operation,
                  pagewire_completion *completion, int64_t wall_limit_ns)
{
    pw_handle *handle = handle_of(*operation);
    int64_t started_ns = wall_limit_ns < 0 ? 0 : pw_clock_wall_ns();
    pw_door_enter(node);
    for (bool ran = true; !handle->done; ran = false) {
        int moved = pw_door_move(node, true, ran);
        if (moved < 0) return pw_door_leave(node, moved);
        if (wall_limit_ns >= 0 && !handle->done && pw_clock_wall_ns() - started_ns >= wall_limit_ns)
            return pw_door_leave(node, 0);
        if (moved) pw_node_busy(node->node);
        else pw_node_idle(node->node);
    }
    return pw_door_leave(node, take(node, operation, completion));
}

void pagewire_forget(pagewire_node *node, pagewire_operation **operation)
{
    pw_node_lock(node->node);
    if (*operation) pw_node_free_handle(node->node, handle_of(*operation));
    *operation = NULL;
    pw_node_unlock(node->node);
}

int pagewire_progress(pagewire_node *node, uint32_t flags)
{
    bool is_waiting = (flags & PAGEWIRE_CPU_WAITS) != 0;
    bool may_yield = is_waiting && !(flags & PAGEWIRE_KEEPS_CORE);
    pw_door_enter(node);
    if (flags & ~(PAGEWIRE_CPU_WAITS | PAGEWIRE_KEEPS_CORE))
        return pw_door_leave(node, pw_door_fail(node, PW_ERR_INVALID,
                                                "flags = %#x: allowed are PAGEWIRE_CPU_WAITS and "
                                                "PAGEWIRE_KEEPS_CORE",
                                                flags));
    int moved = pw_door_move(node, is_waiting, true);
    if (moved > 0) pw_node_busy(node->node);
    else if (moved == 0 && may_yield) pw_node_idle(node->node);
    return pw_door_leave(node, moved);
}

uint32_t pagewire_num_pending(pagewire_node *node)
{
    pw_node_lock(node->node);
    uint32_t num_pending = pw_ni_num_pending(pw_node_ni(node->node));
    pw_node_unlock(node->node);
    return num_pending;
}
