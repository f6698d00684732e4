/* The engine composed: its parts are made here, it runs over their events, and the host reads it.
 */
#include "native/warm.h"
#include "ni/state.h"
#include <stdlib.h>
#include <string.h>

#define BOOKS_BACK_NS 1000000 /* the most that was ever seen are 34 us */
#define FIRST_EVENTS 16       /* that the queue has room for at first */
#define KEYS_SEED UINT64_C(1) /* of buffers' keys: any will do, and two runs draw alike */

/* Where the peer stands; NULL: no memory. */
static const pw_topology *topology_of(pw_ni *ni, uint32_t peer)
{
    char reason[PW_TOPOLOGY_REASON_BYTES];
    const bool is_behind = peer >= ni->machine_nodes;
    pw_topology **own = &ni->own_topologies[is_behind];
    if (ni->topology) return ni->topology;
    if (!*own)
        (void)pw_topology_create("qfdb", "packed", is_behind ? ni->num_nodes : ni->machine_nodes,
                                 (uint32_t)ni->costs->nodes_per_qfdb, own, reason);
    return *own;
}

static void path_init(pw_path *path, pw_ni *ni)
{
    uint32_t peer = path->peer.peer;
    const pw_costs *costs = ni->costs;
    const pw_topology *topology = topology_of(ni, peer);
    if (!topology) pw_ni_latch(ni, PW_ERR_NOMEM);
    int64_t hops = topology ? pw_topology_hops(topology, ni->node, peer) : 0;
    uint32_t tier = topology ? pw_topology_tier(topology, ni->node, peer) : PW_TIER_INSIDE;
    path->byte_ps_1000 = (uint64_t)pw_link_byte_ps_1000(costs, tier);
    path->stays = hops == 0;
    if (path->stays) /* passes no link, whose code it would need [R5 5.1] */
        path->byte_ps_1000 = (uint64_t)(8000000000 / costs->link_mbps);
    path->packet_ps = pw_link_bytes(ni, PW_PACKET_BYTES) * path->byte_ps_1000 / 1000;
    const int64_t way_ns = hops * costs->hop_ns + (hops ? hops - 1 : 0) * costs->router_ns;
    path->latency_ns = costs->ni_send_ns + way_ns + costs->ni_receive_ns;
    if (ni->firmware.is_in_order) path->link.past_ns = &ni->past_ns;
}

/* What a full window of blocks takes to the peer, with its last acknowledgement back [R5 4.2, 4.4].
 */
static pw_time window_ns(const pw_ni *ni, const pw_path *path)
{
    const pw_costs *costs = ni->costs;
    pw_time start_ns =
        3 * costs->r5_queue_op_ns + costs->r5_start_block_ns + costs->r5_logic_round_trip_ns;
    uint64_t num_packets = (uint64_t)ni->settings->block_bytes / PW_PACKET_BYTES;
    pw_time block_ns = pw_later((pw_time)(num_packets * path->packet_ps / 1000), start_ns);
    return start_ns + ni->settings->window_blocks * block_ns + 2 * path->latency_ns +
           costs->r5_ack_read_ns;
}

pw_path *pw_ni_make_path(pw_ni *ni, uint32_t peer)
{
    pw_path *path = pw_peers_make(&ni->paths, peer, sizeof *path);
    if (!path) {
        pw_ni_latch(ni, PW_ERR_NOMEM);
        path = &ni->no_path;
        path->peer.peer = peer;
        path->byte_ps_1000 = 0;
    }
    if (path->byte_ps_1000) return path;
    path_init(path, ni);
    path->unloaded =
        (pw_unloaded){window_ns(ni, path), UINT64_C(8000000000000) / path->byte_ps_1000};
    return path;
}

static pw_unloaded unloaded(void *ni, uint32_t peer) { return pw_ni_path(ni, peer)->unloaded; }

static void forget_paths(pw_ni *ni)
{
    for (uint32_t i = 0; i < ni->paths.num_slots; i++)
        if (ni->paths.slots[i].item)
            pw_calendar_finish(&((pw_path *)(void *)ni->paths.slots[i].item)->link);
    pw_calendar_finish(&ni->no_path.link);
    pw_peers_clear(&ni->paths);
}

static void forget_topologies(pw_ni *ni)
{
    for (int i = 0; i < 2; i++) {
        pw_topology_destroy(ni->own_topologies[i]);
        ni->own_topologies[i] = NULL;
    }
}

static int create_translation(pw_ni *ni)
{
    const pw_unit_parts parts = {.costs = ni->costs,
                                 .settings = ni->settings,
                                 .counters = &ni->counters,
                                 .memory = ni->memory,
                                 .smmu = &ni->smmu,
                                 .presence = &ni->driver.presence};
    int code = pw_translation_create(&parts, &ni->translation);
    if (code == PW_OK && ni->translation->buffer_bits)
        pw_regions_draw_keys(&ni->regions, ni->translation->buffer_bits,
                             KEYS_SEED << 32 | ni->node);
    return code;
}

static int create_parts(pw_ni *ni)
{
    int code = pw_event_queue_create(FIRST_EVENTS, &ni->events);
    if (code == PW_OK) code = pw_burst_pool_create(&ni->bursts);
    if (code == PW_OK) code = pw_smmu_init(&ni->smmu, ni->costs, ni->settings, &ni->counters);
    ni->smmu.trace = &ni->trace;
    if (code == PW_OK) code = create_translation(ni);
    if (code == PW_OK)
        code = pw_firmware_init(&ni->firmware, ni->costs, ni->settings, &ni->translation->receiver,
                                &ni->counters, &ni->tallies, ni->events, &ni->trace);
    if (code < 0) return code;
    pw_driver_init(&ni->driver, ni->costs, ni->settings, &ni->counters, &ni->trace, ni->memory,
                   &ni->smmu, &ni->impairments);
    ni->firmware.unloaded = unloaded;
    ni->firmware.owner = ni;
    return PW_OK;
}

/* ZDMA's channels do in hardware, in no time of its own (assumed), what the R5 does for FRDMA; and
 * nothing sends a block again [PSI 1.3.2]. */
static void choose_engine(pw_ni *ni, pw_costs *costs, pw_settings *settings)
{
    int64_t *const of_r5[] = {&costs->r5_notice_transfer_ns,    &costs->r5_mailbox_notice_ns,
                              &costs->r5_queue_op_ns,           &costs->r5_id_search_ns,
                              &costs->r5_bypass_check_ns,       &costs->r5_start_block_ns,
                              &costs->r5_completion_message_ns, &costs->r5_ack_read_ns,
                              &costs->r5_logic_round_trip_ns,   &costs->r5_read_request_word_ns};
    ni->packet_bytes = PW_PACKET_BYTES;
    if (settings->engine != PW_ENGINE_ZDMA) return;
    ni->packet_bytes = (uint64_t)costs->zdma_packet_bytes;
    for (size_t i = 0; i < sizeof of_r5 / sizeof *of_r5; i++) *of_r5[i] = 0;
    settings->timeout_ns = -1;
    settings->err_enabled = settings->nack_cancels_timer = 0;
    if (settings->window_blocks < 2) settings->window_blocks = 2; /* no pause between them */
}

/* Those of `like` where they are the same. PW_ERR_NOMEM. */
static int make_rules(pw_ni *ni, const pw_costs *costs, const pw_settings *settings,
                      const pw_ni *like)
{
    pw_ni_rules *made = malloc(sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->num_users = 1;
    made->costs = *costs;
    made->settings = *settings;
    choose_engine(ni, &made->costs, &made->settings);
    if (like && !memcmp(&like->rules->costs, &made->costs, sizeof made->costs) &&
        !memcmp(&like->rules->settings, &made->settings, sizeof made->settings)) {
        free(made);
        made = like->rules;
        made->num_users++;
    }
    ni->rules = made;
    ni->costs = &made->costs;
    ni->settings = &made->settings;
    return PW_OK;
}

int pw_ni_create(const pw_costs *costs, const pw_settings *settings, uint32_t node,
                 uint32_t num_nodes, pw_memory *memory, pw_ni **out)
{
    return pw_ni_create_like(NULL, costs, settings, node, num_nodes, memory, out);
}

int pw_ni_create_like(const pw_ni *like, const pw_costs *costs, const pw_settings *settings,
                      uint32_t node, uint32_t num_nodes, pw_memory *memory, pw_ni **out)
{
    if (num_nodes == 0 || num_nodes > PW_NODES_MAX || node >= num_nodes ||
        pw_ni_refused(costs, settings))
        return PW_ERR_INVALID;
    pw_ni *ni = calloc(1, sizeof *ni);
    if (!ni) return PW_ERR_NOMEM;
    if (make_rules(ni, costs, settings, like) < 0) {
        free(ni);
        return PW_ERR_NOMEM;
    }
    ni->node = ni->trace.node = node;
    ni->num_nodes = ni->machine_nodes = num_nodes;
    ni->memory = memory;
    ni->engines = &ni->own_engines;
    pw_regions_init(&ni->regions);
    ni->copy_answer_ns = ni->bounds.err_ns = PW_NEVER;
    ni->bounds.known_ns = INT64_MIN;
    ni->engine_byte_ps_1000 = (uint64_t)(8000000000 / costs->receive_engine_mbps);
    int code = create_parts(ni);
    if (code < 0) {
        pw_ni_destroy(ni);
        return code;
    }
    *out = ni;
    return PW_OK;
}

void pw_ni_set_machine_nodes(pw_ni *ni, uint32_t machine_nodes)
{
    if (ni->node >= machine_nodes) return;
    forget_paths(ni);
    forget_topologies(ni);
    ni->machine_nodes = machine_nodes;
}

void pw_ni_set_network(pw_ni *ni, const pw_topology *topology, pw_links *links,
                       pw_forwarding *forwarding)
{
    forget_paths(ni);
    ni->topology = topology;
    ni->links = links;
    ni->forwarding = forwarding;
}

int pw_ni_share_node(pw_ni *ni, pw_ni *with)
{
    ni->engines = with->engines;
    ni->shares_node = with->shares_node = true;
    pw_firmware_share(&ni->firmware, &with->firmware);
    pw_driver_share(&ni->driver, &with->driver);
    return pw_smmu_share(&ni->smmu, &with->smmu);
}

void pw_ni_destroy(pw_ni *ni)
{
    if (!ni) return;
    pw_inbound_destroy_all(ni);
    pw_peers_clear(&ni->senders);
    for (int page = 0; page < PW_CHANNEL_PAGES; page++) {
        for (int i = 0; ni->source_walks[page] && i < PW_CHANNELS_PER_PAGE; i++) {
            if (ni->source_walks[page][i]) pw_residency_finish(ni->source_walks[page][i]);
            free(ni->source_walks[page][i]);
        }
        free(ni->source_walks[page]);
    }
    free(ni->bounds.wanted);
    free(ni->grants);
    free(ni->ahead.known);
    pw_occupancy_finish(&ni->kept);
    pw_engine_drop_held(ni);
    pw_network_forget(ni);
    pw_event_queue_destroy(ni->events);
    pw_burst_pool_destroy(ni->bursts);
    pw_translation_destroy(ni->translation);
    pw_smmu_destroy(&ni->smmu);
    pw_firmware_destroy(&ni->firmware);
    pw_driver_destroy(&ni->driver);
    free(ni->trace.records);
    pw_regions_destroy(&ni->regions);
    pw_pool_finish(&ni->host_event_pool);
    pw_actions_finish(&ni->actions);
    forget_paths(ni);
    forget_topologies(ni);
    pw_calendar_finish(&ni->own_engines.send);
    pw_calendar_finish(&ni->own_engines.receive);
    pw_calendar_finish(&ni->own_engines.limiter);
    pw_calendar_finish(&ni->copier);
    pw_peers_clear(&ni->tallies.peers);
    pw_peers_clear(&ni->demands);
    pw_page_heat_finish(&ni->tallies.fault_pages);
    free(ni->tallies.fault_times);
    if (--ni->rules->num_users == 0) free(ni->rules);
    free(ni);
}

int pw_ni_open_domain(pw_ni *ni, uint16_t pdid)
{
    if (pdid == 0 || pw_translation_is_open(ni->translation, pdid)) return PW_ERR_INVALID;
    pw_residency **walks = calloc(PW_CHANNELS_PER_PAGE, sizeof *walks);
    if (!walks) return PW_ERR_NOMEM;
    int page = pw_firmware_open_page(&ni->firmware, pdid);
    if (page < 0 || ni->translation->ops->open(ni->translation, pdid) < 0) {
        if (page >= 0) ni->firmware.page_pdid[page] = 0;
        free(walks);
        return page < 0 ? page : PW_ERR_CONTEXT;
    }
    ni->source_walks[page] = walks;
    return PW_OK;
}

int pw_ni_latch(pw_ni *ni, int code)
{
    if (!ni->failure) ni->failure = code;
    return code;
}

typedef struct {
    pw_link link;
    pw_host_event event;
} kept_event;

void pw_engine_emit_event(pw_ni *ni, const pw_host_event *event)
{
    kept_event *kept = pw_pool_take(&ni->host_event_pool, sizeof *kept);
    if (!kept) {
        pw_ni_latch(ni, PW_ERR_NOMEM);
        return;
    }
    kept->event = *event;
    pw_queue_append(&ni->host_events, kept);
    ni->num_host_events++;
}

/* The earliest ones, at most max; how many. */
static int take_events(pw_ni *ni, pw_host_event *out, int max)
{
    int num_taken = 0;
    for (kept_event *kept; num_taken < max && (kept = pw_queue_take(&ni->host_events));) {
        out[num_taken++] = kept->event;
        pw_pool_give(&ni->host_event_pool, kept);
        ni->num_host_events--;
    }
    return num_taken;
}

void pw_engine_emit(pw_ni *ni, uint32_t kind, uint64_t id, int error, pw_time at_ns,
                    uint64_t num_bytes, uint32_t peer)
{
    pw_host_event event = {.kind = kind,
                           .error = error,
                           .id = id,
                           .time_ns = at_ns,
                           .num_bytes = num_bytes,
                           .peer = peer};
    pw_engine_emit_event(ni, &event);
}

void pw_ni_count_page_fault(pw_ni *ni, bool at_destination, bool is_permission, uint64_t page,
                            pw_time at_ns)
{
    pw_counters *counters = &ni->counters;
    uint64_t *counter = at_destination ? &counters->translation_faults_destination
                                       : &counters->translation_faults_source;
    if (is_permission)
        counter = at_destination ? &counters->permission_faults_destination
                                 : &counters->permission_faults_source;
    ++*counter;
    pw_tallies_fault(&ni->tallies, page, at_ns);
}

void pw_ni_count_fault(pw_ni *ni, const pw_fault *fault, uint64_t page, pw_time at_ns)
{
    pw_ni_count_page_fault(ni, fault->at_destination, fault->is_permission, page, at_ns);
    pw_trace_add_of(&ni->trace, at_ns,
                    fault->at_destination ? PW_TRACE_FAULT_DESTINATION : PW_TRACE_FAULT_SOURCE,
                    fault->source_node, page, fault->transaction_id);
}

void pw_ni_begin_transfer(pw_ni *ni, uint16_t pdid, uint64_t address, uint64_t num_bytes)
{
    if (num_bytes == 0) return;
    uint64_t first_page = pw_page_of(address), last_page = pw_page_of(address + num_bytes - 1);
    if (pw_memory_begin_transfer(ni->memory, first_page, last_page - first_page + 1) == 0) return;
    first_page &= ~(uint64_t)(PW_HUGE_PAGES - 1); /* khugepaged was here: whole huge pages */
    last_page |= PW_HUGE_PAGES - 1;
    pw_ni_invalidate(ni, pdid, first_page, last_page - first_page + 1);
}

static void finish_transfer(pw_ni *ni, const pw_action *action)
{
    const pw_transfer *transfer = &action->transfer;
    bool is_read = (transfer->stream & PW_STREAM_READ) != 0,
         failed = action->kind == PW_ACTION_FAILED;
    int error = failed ? pw_error_of_nack(action->code) : PW_OK;
    ni->counters.transfers_failed += failed;
    if (!failed && !transfer->notified)
        pw_control_send_plain(ni, PW_FRAME_COMPLETION, transfer->peer, transfer->stream, 0,
                              action->at_ns);
    pw_control_send_plain(ni, failed ? PW_FRAME_ABORT : PW_FRAME_CLOSE, transfer->peer,
                          transfer->stream, action->code, action->at_ns);
    pw_trace_add(&ni->trace, action->at_ns, PW_TRACE_TRANSFER_DONE, transfer->stream,
                 transfer->num_bytes);
    if (ni->driver.presence.num_entries && transfer->num_bytes)
        pw_presence_forget(&ni->driver.presence, pw_page_of(transfer->source_address),
                           pw_page_of(transfer->source_address + transfer->num_bytes - 1) -
                               pw_page_of(transfer->source_address) + 1);
    if (!is_read) {
        pw_engine_emit(ni, PW_HOST_WRITE_DONE, transfer->cookie, error, action->at_ns,
                       transfer->num_bytes, transfer->peer);
        return;
    }
    pw_region *region = pw_regions_find(&ni->regions, transfer->cookie);
    if (region && pw_region_end_read(region, error)) {
        error = region->error;
        pw_engine_close_region(ni, region);
        pw_engine_emit(ni, PW_HOST_EXPOSE_DONE, transfer->cookie, error, action->at_ns,
                       transfer->num_bytes, transfer->peer);
    }
}

void pw_engine_perform(pw_ni *ni)
{
    while (ni->next_action < ni->actions.num_actions &&
           !ni->decision_wanted) { /* starting a block may append failures */
        const pw_action *action = &ni->actions.list[ni->next_action++];
        const pw_transfer *transfer = pw_transfer_on(&ni->firmware, action->channel);
        if (ni->settings->interleave == PW_INTERLEAVE_PACKET)
            pw_pair_expect(ni, action,
                           ni->next_action < ni->actions.num_actions
                               ? &ni->actions.list[ni->next_action]
                               : NULL);
        switch (action->kind) {
        case PW_ACTION_START_BLOCK:
            if (action->transaction->state != PW_TRANSACTION_FREE)
                pw_source_start_block(ni, action->transaction, action->at_ns, &ni->actions);
            break;
        case PW_ACTION_NOTIFY:
            pw_control_send_plain(ni, PW_FRAME_COMPLETION, transfer->peer, transfer->stream, 0,
                                  action->at_ns);
            break;
        case PW_ACTION_DONE:
        case PW_ACTION_FAILED: finish_transfer(ni, action);
        }
    }
}

/* What the host should know although no transfer tells it. */
static void tell_remedies(pw_ni *ni)
{
    const pw_mailbox *mailbox = &ni->firmware.mailboxes[PW_MAILBOX_ANSWERS];
    if (mailbox->blocked && !ni->deadlock_told && pw_firmware_is_deadlocked(&ni->firmware)) {
        ni->deadlock_told = true;
        pw_engine_emit(ni, PW_HOST_DEADLOCK, 0, PW_ERR_DEADLOCK, pw_mailbox_head(mailbox)->time_ns,
                       0, ni->node);
    }
    if (!ni->shortage_told && pw_memory_is_short(ni->memory)) {
        ni->shortage_told = true;
        pw_engine_emit(ni, PW_HOST_FRAMES_SHORT, 0, PW_ERR_FRAMES, ni->service.page_in_ns, 0,
                       ni->node);
    }
}

/* A fault at the source, while blocks that this node has sent to itself before are not here: theirs
 * may come first. */
static bool fault_waits(const pw_ni *ni)
{
    const pw_event *next = pw_event_queue_first(ni->events);
    return next && next->kind == PW_EVENT_SOURCE_FAULT && pw_burst_waits(ni->bursts, ni->node);
}

/* Not behind an answer that is still on its way: it may change what comes next. */
static pw_time next_event_ns(const pw_ni *ni)
{
    pw_time next_ns = pw_event_queue_next_ns(ni->events);
    bool waits = next_ns > ni->firmware.transactions.earliest_answer_ns ||
                 next_ns > ni->copy_answer_ns || ni->firmware.lookahead_full;
    return waits ? PW_NEVER : next_ns;
}

/* The next event, if it is not behind last_ns. */
static bool run_next(pw_ni *ni, pw_time last_ns)
{
    pw_event event;
    if (ni->failure || ni->decision_wanted || next_event_ns(ni) > last_ns || fault_waits(ni) ||
        !pw_event_queue_pop(ni->events, &event))
        return false;
    ni->num_events++;
    if (event.kind == PW_EVENT_DEPARTURE) {
        pw_network_let_go(ni, &event);
        return true;
    }
    ni->actions.num_actions = ni->next_action = 0;
    if (event.kind == PW_EVENT_SOURCE_FAULT) pw_source_fault(ni, &event, &ni->actions);
    else if (event.kind == PW_EVENT_BLOCK_DUE) pw_source_due(ni, &event, &ni->actions);
    else pw_firmware_handle(&ni->firmware, &event, &ni->actions);
    pw_engine_perform(ni);
    return true;
}

void pw_engine_run_kept(pw_ni *ni)
{
    while (ni->ahead.is_kept && run_next(ni, PW_NEVER - 1)) continue;
}

int pw_ni_run(pw_ni *ni, int64_t horizon_ns, pw_host_event *events, int max)
{
    pw_time last_ns = horizon_ns < PW_NEVER ? horizon_ns : PW_NEVER - 1;
    while (ni->num_host_events < (uint32_t)max && !pw_burst_close_full(ni->bursts) &&
           run_next(ni, last_ns))
        continue;
    tell_remedies(ni);
    if (pw_event_queue_lost_event(ni->events) || ni->firmware.lost_entry || ni->actions.is_short)
        pw_ni_latch(ni, PW_ERR_NOMEM);
    if (ni->failure) return ni->failure;
    if (!ni->firmware.is_in_order) pw_bounds_announce(ni);
    else if (!ni->decision_wanted) pw_bounds_reach(ni, pw_earlier(last_ns, next_event_ns(ni)));
    return take_events(ni, events, max);
}

int64_t pw_ni_next_ns(const pw_ni *ni)
{
    return ni->decision_wanted ? INT64_MIN : pw_earlier(next_event_ns(ni), ni->bounds.err_ns);
}

uint64_t pw_ni_num_events(const pw_ni *ni) { return ni->num_events; }

int pw_ni_tx_burst(pw_ni *ni, pw_burst *out)
{
    if (!pw_burst_take(ni->bursts, out)) return 0;
    ni->counters.bursts_sent++;
    ni->counters.burst_bytes_sent += out->full_bytes;
    return 1;
}

int64_t pw_ni_passed(pw_ni *ni, const pw_forwarding_out *passed, pw_burst *out)
{
    pw_block_frame *frame = (pw_block_frame *)(uintptr_t)passed->token;
    if (!frame) return PW_NEVER;
    pw_burst_of_alone(ni->bursts, (const uint8_t *)frame, out);
    pw_source_passed(ni, out->peer, frame, passed);
    ni->counters.bursts_sent++;
    ni->counters.burst_bytes_sent += out->full_bytes;
    return frame->last_packet_ns;
}

void pw_ni_set_burst_memory(pw_ni *ni, pw_burst_allocate allocate, void *context)
{
    pw_burst_pool_set_memory(ni->bursts, allocate, context);
}

void pw_ni_set_without_bytes(pw_ni *ni, struct pw_parts *shared)
{
    ni->has_no_bytes = ni->is_unsealed = true;
    pw_burst_pool_set_parts(ni->bursts, shared);
}

void pw_ni_set_in_order(pw_ni *ni)
{
    pw_engines *engines = &ni->own_engines;
    pw_calendar *const all[] = {&engines->send, &engines->receive, &engines->limiter, &ni->copier,
                                &ni->firmware.own_r5};
    ni->firmware.is_in_order = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i]->past_ns = &ni->past_ns;
}

void pw_ni_set_now(pw_ni *ni, int64_t at_ns) { ni->past_ns = pw_later(at_ns, 0) - BOOKS_BACK_NS; }

void pw_ni_set_unsealed(pw_ni *ni, bool is_unsealed) { ni->is_unsealed = is_unsealed; }

void pw_ni_set_unsealed_to(pw_ni *ni, uint32_t peer)
{
    pw_ni_path(ni, peer)->is_unsealed = true;
    pw_ahead_begin(ni);
}

bool pw_ni_has_no_bytes(const pw_ni *ni) { return ni->has_no_bytes; }

void pw_ni_tx_release(pw_ni *ni, uint8_t *data) { pw_burst_release(ni->bursts, data); }

void pw_ni_warm(const pw_ni *ni)
{
    PW_WARM_FIELDS(ni, node, smmu);
    PW_WARM_FIELDS(&ni->smmu, costs, own_tlbs.walkers);
    PW_WARM_FIELDS(ni, bursts, no_path);
    PW_WARM_FIELDS(ni, grants, arrival);
}

uint32_t pw_ni_num_pending(const pw_ni *ni)
{
    uint32_t num_pending = ni->num_inbounds + ni->regions.num_open +
                           (uint32_t)pw_event_queue_length(ni->events) + ni->decision_wanted;
    num_pending += ni->firmware.num_buffered + ni->num_copies_under_way;
    for (int i = 0; i < PW_NUM_MAILBOXES; i++) num_pending += ni->firmware.mailboxes[i].num_waiting;
    num_pending += pw_firmware_num_busy(&ni->firmware);
    return num_pending;
}

uint32_t pw_ni_num_transactions(const pw_ni *ni)
{
    return PW_TRANSACTIONS - ni->firmware.transactions.num_free;
}

void pw_ni_read_pools(const pw_ni *ni, pw_ni_pools *out)
{
    *out = (pw_ni_pools){.burst_buffers = pw_burst_pool_num_buffers(ni->bursts),
                         .inbounds = ni->num_inbounds,
                         .regions = ni->regions.capacity,
                         .events = pw_event_queue_capacity(ni->events),
                         .read_requests = ni->firmware.reads_capacity,
                         .overtaken_attempts = ni->firmware.transactions.overtaken_capacity,
                         .tasklet_runs = ni->driver.core->cpu.num_slots};
    for (const pw_inbound *free = ni->free_inbounds; free; free = free->next) out->inbounds++;
}

void pw_ni_read_counters(const pw_ni *ni, pw_counters *out) { *out = ni->counters; }
const pw_tallies *pw_ni_tallies(const pw_ni *ni) { return &ni->tallies; }
const pw_peers *pw_ni_demands(const pw_ni *ni) { return &ni->demands; }
const pw_pinned *pw_ni_pinned(const pw_ni *ni) { return ni->translation->pinned; }

int pw_ni_read_bank(const pw_ni *ni, uint32_t idx, pw_context_bank *out)
{
    if (idx >= ni->smmu.num_banks) return PW_ERR_INVALID;
    *out = ni->smmu.banks[idx];
    return PW_OK;
}

void pw_ni_read_interrupt_times(const pw_ni *ni, pw_time_histogram *out)
{
    if (ni->driver.interrupt_times) *out = *ni->driver.interrupt_times;
    else pw_time_histogram_init(out);
}

void pw_ni_enter(pw_ni *ni) { pw_memory_enter(ni->memory); }

pw_time pw_ni_invalidate(pw_ni *ni, uint16_t pdid, uint64_t first_page, uint64_t num_pages)
{
    pw_ahead_disturb(ni);
    pw_memory_changed(ni->memory);
    return ni->translation->ops->invalidate(ni->translation, pdid, first_page, num_pages);
}

int pw_ni_trace_start(pw_ni *ni, uint32_t capacity)
{
    free(ni->trace.records);
    ni->trace = (pw_trace){.node = ni->node};
    pw_driver_forget_records(&ni->driver);
    if (capacity == 0) return PW_OK;
    ni->trace.records = malloc(capacity * sizeof *ni->trace.records);
    if (!ni->trace.records) return PW_ERR_NOMEM;
    ni->trace.capacity = capacity;
    return PW_OK;
}

pw_trace *pw_ni_trace(pw_ni *ni) { return &ni->trace; }

uint32_t pw_ni_trace_read(const pw_ni *ni, const pw_trace_record **records)
{
    *records = ni->trace.records;
    return ni->trace.num_records;
}

uint64_t pw_ni_trace_lost(const pw_ni *ni) { return ni->trace.lost; }

void pw_ni_trace_detail(pw_ni *ni) { ni->trace.is_detailed = true; }

void pw_ni_note_unit_fault(pw_ni *ni, enum pw_trace_kind kind, uint32_t source_node,
                           uint32_t transaction_id, const pw_access *access,
                           const pw_access_result *result)
{
    pw_tallies_fault(&ni->tallies, access->page, access->at_ns);
    pw_trace_add_of(&ni->trace, access->at_ns, (uint32_t)kind, source_node, access->page,
                    transaction_id);
    pw_trace_detail(&ni->trace, result->page_in_ns, PW_TRACE_UNIT_PAGE_IN, result->num_paged_in,
                    (uint64_t)(result->paged_in_ns - result->page_in_ns), access->page);
}
