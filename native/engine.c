#include "native/engine.h"
#include "native/crc32c.h"
#include "native/engine_state.h"
#include <stdlib.h>
#include <string.h>

#define READ_REQUEST_PACKETS 2      /* source, destination, length, PDID, notification do not fit in one */

int pw_error_of_nack(uint32_t code)
{
    switch (code) {
    case PW_NACK_NONE: return PW_OK;
    case PW_NACK_DECODE: return PW_ERR_ADDRESS;
    case PW_NACK_NO_CONTEXT: return PW_ERR_CONTEXT;
    case PW_NACK_PROTECTION: return PW_ERR_PROTECTION;
    default: return PW_ERR_UNRECOVERABLE;
    }
}

uint32_t pw_nack_of_error(int code)
{
    switch (code) {
    case PW_ERR_ADDRESS: return PW_NACK_DECODE;
    case PW_ERR_CONTEXT: return PW_NACK_NO_CONTEXT;
    case PW_ERR_PROTECTION: return PW_NACK_PROTECTION;
    default: return PW_UNRECOVERABLE;
    }
}

/* --- composition ------------------------------------------------------------------------------- */

static void init_path(pw_ni *ni, uint32_t peer)
{
    const pw_costs *costs = &ni->costs;
    uint32_t per_qfdb = (uint32_t)costs->nodes_per_qfdb, num_qfdbs = (ni->num_nodes + per_qfdb - 1) / per_qfdb;
    uint32_t mine = ni->node / per_qfdb, theirs = peer / per_qfdb;
    uint32_t around = mine > theirs ? mine - theirs : theirs - mine;
    if (num_qfdbs - around < around) around = num_qfdbs - around;
    int64_t hops = peer == ni->node ? 0 : mine == theirs ? 1 : (int64_t)around + 2;
    int64_t mbps = mine == theirs ? costs->link_mbps : costs->link_between_mbps;
    pw_path *path = &ni->paths[peer];
    pw_calendar_init(&path->link);
    /* 8 bits at mbps x coding: ps a byte = 8e6 / (mbps x permille / 1000) */
    path->byte_ps_1000 = (uint64_t)(8000000000000 / (mbps * costs->link_coding_permille));
    path->packet_ps = (PW_PACKET_BYTES + (uint64_t)costs->packet_header_bytes) * path->byte_ps_1000 / 1000;
    path->latency_ns = costs->ni_send_ns + hops * costs->hop_ns + costs->ni_receive_ns;
}

int pw_ni_create(const pw_costs *costs, const pw_settings *settings, uint32_t node, uint32_t num_nodes,
                 pw_memory *memory, pw_ni **out)
{
    if (num_nodes == 0 || num_nodes > 1u << 22 || node >= num_nodes || settings->window_blocks < 1 ||
        settings->window_blocks > PW_WINDOW_MAX || settings->tick_ns < 1 || settings->mailbox_entries < 1 ||
        settings->policy < PW_POLICY_PAGE || settings->policy > PW_POLICY_HOST ||
        (settings->policy == PW_POLICY_HOST && settings->stall) || costs->nodes_per_qfdb < 1 || costs->link_mbps < 1 ||
        costs->link_between_mbps < 1 || costs->link_coding_permille < 1 || costs->receive_engine_mbps < 1 ||
        costs->packetizer_payload_bytes < 1) return PW_ERR_INVALID;
    pw_ni *ni = calloc(1, sizeof *ni);
    if (!ni) return PW_ERR_NOMEM;
    ni->costs = *costs;
    ni->settings = *settings;
    ni->node = ni->trace.node = node;
    ni->num_nodes = num_nodes;
    ni->memory = memory;
    ni->free_region = -1;
    ni->copy_answer_ns = PW_NEVER;
    ni->engine_byte_ps_1000 = (uint64_t)(8000000000 / costs->receive_engine_mbps);
    pw_calendar_init(&ni->send_engine);
    pw_calendar_init(&ni->receive_engine);
    int code = pw_event_queue_create(1024, &ni->events);
    if (code == PW_OK) code = pw_burst_pool_create(num_nodes, &ni->bursts);
    if (code == PW_OK) code = pw_smmu_init(&ni->smmu, &ni->costs, &ni->settings, &ni->counters);
    if (code == PW_OK)
        code = pw_firmware_init(&ni->firmware, &ni->costs, &ni->settings, &ni->counters, ni->events, &ni->trace);
    if (code == PW_OK)
        code = pw_driver_init(&ni->driver, &ni->costs, &ni->settings, &ni->counters, &ni->trace, memory, &ni->smmu, &ni->faults);
    if (code == PW_OK && !(ni->paths = calloc(num_nodes, sizeof *ni->paths))) code = PW_ERR_NOMEM;
    if (code < 0) {
        pw_ni_destroy(ni);
        return code;
    }
    for (uint32_t peer = 0; peer < num_nodes; peer++) init_path(ni, peer);
    *out = ni;
    return PW_OK;
}

void pw_ni_destroy(pw_ni *ni)
{
    if (!ni) return;
    for (uint32_t i = 0; i < PW_LANDING_BUCKETS; i++)
        while (ni->landings[i]) {
            pw_landing *landing = ni->landings[i];
            ni->landings[i] = landing->next;
            if (landing->delivered != landing->small) free(landing->delivered);
            free(landing);
        }
    while (ni->free_landings) {
        pw_landing *landing = ni->free_landings;
        ni->free_landings = landing->next;
        free(landing);
    }
    for (int page = 0; page < PW_CHANNEL_PAGES; page++) free(ni->source_walks[page]);
    pw_engine_drop_held(ni);
    pw_network_forget(ni);
    pw_event_queue_destroy(ni->events);
    pw_burst_pool_destroy(ni->bursts);
    pw_smmu_destroy(&ni->smmu);
    pw_firmware_destroy(&ni->firmware);
    pw_driver_destroy(&ni->driver);
    free(ni->trace.records);
    free(ni->regions);
    free(ni->host_events);
    free(ni->paths);
    free(ni);
}

int pw_ni_open_domain(pw_ni *ni, uint16_t pdid)
{
    if (pdid == 0 || pw_smmu_bank(&ni->smmu, pdid)) return PW_ERR_INVALID;
    pw_walk *walks = calloc(PW_CHANNELS_PER_PAGE, sizeof *walks);
    if (!walks) return PW_ERR_NOMEM;
    int page = pw_firmware_open_page(&ni->firmware, pdid);
    if (page < 0 || pw_smmu_bind(&ni->smmu, pdid) < 0) {
        if (page >= 0) ni->firmware.page_pdid[page] = 0;
        free(walks);
        return page < 0 ? PW_ERR_FULL : PW_ERR_CONTEXT;
    }
    ni->source_walks[page] = walks;
    return PW_OK;
}

/* --- events to the host ------------------------------------------------------------------------ */

void pw_engine_emit_event(pw_ni *ni, const pw_host_event *event)
{
    if (ni->num_host_events == ni->host_capacity) {
        uint32_t capacity = ni->host_capacity ? 2 * ni->host_capacity : 64;
        pw_host_event *bigger = malloc(capacity * sizeof *bigger);
        if (!bigger) abort();       /* a completion must not be lost; the host has no memory left */
        for (uint32_t i = 0; i < ni->num_host_events; i++)
            bigger[i] = ni->host_events[(ni->host_head + i) % ni->host_capacity];
        free(ni->host_events);
        ni->host_events = bigger;
        ni->host_capacity = capacity;
        ni->host_head = 0;
    }
    ni->host_events[(ni->host_head + ni->num_host_events++) % ni->host_capacity] = *event;
}

void pw_engine_emit(pw_ni *ni, uint32_t kind, uint64_t id, int error, pw_time at_ns, uint64_t num_bytes, uint32_t peer)
{
    pw_host_event event = {.kind = kind, .error = error, .id = id, .time_ns = at_ns, .num_bytes = num_bytes, .peer = peer};
    pw_engine_emit_event(ni, &event);
}

/* --- frames ------------------------------------------------------------------------------------ */

void pw_frame_seal(pw_frame_header *header, uint32_t covered_bytes)
{
    header->crc = 0;
    header->crc = pw_crc32c(0, header, covered_bytes);
}

bool pw_frame_is_sound(const pw_frame_header *header, uint32_t covered_bytes)
{
    pw_frame_header copy = *header;
    copy.crc = 0;
    uint32_t crc = pw_crc32c(0, &copy, sizeof copy);
    return pw_crc32c(crc, header + 1, covered_bytes - sizeof copy) == header->crc;
}

void pw_engine_send_control(pw_ni *ni, uint32_t peer, const pw_control_frame *frame)
{
    pw_control_frame *own = pw_burst_append(ni->bursts, peer, sizeof *own);
    if (!own) abort();              /* as above: an answer must not be lost silently */
    *own = *frame;
    own->header.magic = PW_FRAME_MAGIC;
    own->header.frame_bytes = sizeof *own;
    own->header.source_node = ni->node;
    pw_frame_seal(&own->header, sizeof *own);
}

static void send_plain(pw_ni *ni, enum pw_frame_kind kind, uint32_t peer, uint32_t stream, uint32_t code, pw_time at_ns)
{
    pw_control_frame frame = {
        .header = {.kind = (uint8_t)kind, .stream = stream, .time_ns = at_ns + ni->paths[peer].latency_ns}, .code = code};
    pw_engine_send_control(ni, peer, &frame);
}

/* --- memory ------------------------------------------------------------------------------------ */

void pw_engine_count_fault(pw_ni *ni, bool at_destination, bool is_permission)
{
    pw_counters *counters = &ni->counters;
    uint64_t *counter = at_destination ? &counters->translation_faults_destination : &counters->translation_faults_source;
    if (is_permission) counter = at_destination ? &counters->permission_faults_destination : &counters->permission_faults_source;
    ++*counter;
}

void pw_engine_begin_transfer(pw_ni *ni, uint16_t pdid, uint64_t address, uint64_t num_bytes)
{
    if (num_bytes == 0) return;
    uint64_t first_page = pw_page_of(address), last_page = pw_page_of(address + num_bytes - 1);
    if (pw_memory_begin_transfer(ni->memory, first_page, last_page - first_page + 1) == 0) return;
    first_page &= ~(uint64_t)(PW_HUGE_PAGES - 1);       /* khugepaged was here: whole huge pages */
    last_page |= PW_HUGE_PAGES - 1;
    pw_ni_invalidate(ni, pdid, first_page, last_page - first_page + 1);
}

/* --- stall mode -------------------------------------------------------------------------------- */

static bool is_there(pw_ni *ni, pw_walk *walk, pw_fault *fault, uint64_t page, pw_time at_ns)
{
    int state = pw_walk_state(walk, ni->memory, page, fault->transfer_end_page);
    if (!pw_state_is_present(ni, state)) state = pw_walk_state_now(walk, ni->memory, page, fault->transfer_end_page);
    fault->is_permission = pw_state_is_permission(ni, state, page);
    return pw_state_is_present(ni, state) && pw_page_in_present_ns(&ni->driver.page_in, page) <= at_ns;
}

pw_time pw_engine_access(pw_ni *ni, pw_walk *walk, const pw_fault *of, uint64_t page, pw_time at_ns, int *code)
{
    pw_smmu *smmu = &ni->smmu;
    pw_context_bank *bank = pw_smmu_bank(smmu, of->pdid);
    pw_fault own = *of, *fault = &own;
    pw_time since_ns = at_ns;
    for (;;) {
        bool there = is_there(ni, walk, fault, page, at_ns);
        pw_time active_until_ns = pw_smmu_active_until(smmu, bank, at_ns);
        if (active_until_ns != INT64_MIN && !(there && ni->settings.hupcf)) {
            if (there) ni->counters.accesses_blocked++;
            else pw_smmu_record_fault(smmu, bank, at_ns, page << PW_PAGE_SHIFT, fault->at_destination, fault->is_permission);
            at_ns = active_until_ns;
            continue;
        }
        if (there) break;
        pw_engine_count_fault(ni, fault->at_destination, fault->is_permission);
        pw_trace_add(&ni->trace, at_ns, fault->at_destination ? PW_TRACE_FAULT_DESTINATION : PW_TRACE_FAULT_SOURCE, page,
                     fault->transaction_id);
        at_ns = pw_driver_stall(&ni->driver, bank, fault, page, at_ns, code);
        pw_walk_forget(walk);
        if (*code < 0) return at_ns;
    }
    if (at_ns == since_ns) return at_ns;
    uint32_t how;
    at_ns += pw_smmu_translate(smmu, fault->pdid, page, true, pw_walk_is_present(walk, page + 1), at_ns, &how);
    ni->counters.accesses_stalled++;
    ni->counters.stalled_ns += at_ns - since_ns;
    return at_ns;
}

/* --- the user's operations --------------------------------------------------------------------- */

static const pw_scheduling by_size = {PW_HINT_NONE, 0};

static bool is_valid(const pw_scheduling *scheduling)
{
    return scheduling->hint <= PW_HINT_LOW && scheduling->window_blocks <= PW_WINDOW_MAX;
}

int pw_ni_expose(pw_ni *ni, uint32_t peer, uint64_t address, uint64_t num_bytes, uint64_t *key)
{
    return pw_ni_expose_scheduled(ni, peer, address, num_bytes, &by_size, key);
}

int pw_ni_expose_scheduled(pw_ni *ni, uint32_t peer, uint64_t address, uint64_t num_bytes,
                           const pw_scheduling *scheduling, uint64_t *key)
{
    if (peer >= ni->num_nodes || num_bytes > PW_TRANSFER_MAX_BYTES || !is_valid(scheduling)) return PW_ERR_INVALID;
    if (ni->free_region < 0) {
        uint32_t capacity = ni->regions_capacity ? 2 * ni->regions_capacity : 64;
        pw_region *regions = realloc(ni->regions, capacity * sizeof *regions);
        if (!regions) return PW_ERR_NOMEM;
        ni->regions = regions;
        for (uint32_t i = capacity; i-- > ni->regions_capacity;) {
            regions[i] = (pw_region){.next_free = ni->free_region};
            ni->free_region = (int32_t)i;
        }
        ni->regions_capacity = capacity;
    }
    int32_t slot = ni->free_region;
    pw_region *region = &ni->regions[slot];
    ni->free_region = region->next_free;
    region->address = address;
    region->num_bytes = num_bytes;
    region->peer = peer;
    region->scheduling = *scheduling;
    region->reading = region->stays = false;
    region->key = (uint64_t)++region->generation << 32 | (uint64_t)(slot + 1);
    *key = region->key;
    ni->num_regions++;
    return PW_OK;
}

static bool close_region(pw_ni *ni, uint64_t key)
{
    uint64_t slot = (key & 0xffffffffu) - 1;
    if (key == 0 || slot >= ni->regions_capacity || ni->regions[slot].key != key) return false;
    ni->regions[slot].key = 0;
    ni->regions[slot].next_free = ni->free_region;
    ni->free_region = (int32_t)slot;
    ni->num_regions--;
    return true;
}

static bool region_stays(const pw_ni *ni, uint64_t key)
{
    uint64_t slot = (key & 0xffffffffu) - 1;
    return key != 0 && slot < ni->regions_capacity && ni->regions[slot].key == key && ni->regions[slot].stays;
}

int pw_ni_unexpose(pw_ni *ni, uint64_t key) { return close_region(ni, key) ? PW_OK : PW_ERR_INVALID; }

int64_t pw_engine_request_read(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t key, uint64_t source_address,
                               uint64_t destination_address, uint64_t num_bytes, const pw_notification *notification,
                               pw_time at_ns, uint64_t *id)
{
    if (peer >= ni->num_nodes || num_bytes > PW_TRANSFER_MAX_BYTES) return PW_ERR_INVALID;
    if (!pw_smmu_bank(&ni->smmu, pdid)) return PW_ERR_CONTEXT;
    uint32_t stream = (ni->next_read++ & ~PW_STREAM_READ) | PW_STREAM_READ;
    pw_landing *landing = pw_landing_create(ni, peer, stream, destination_address, num_bytes, notification);
    if (!landing) return PW_ERR_NOMEM;
    landing->pdid = pdid;
    pw_read_request_frame *frame = pw_burst_append(ni->bursts, peer, sizeof *frame);
    if (!frame) return PW_ERR_NOMEM;
    pw_time posted_ns = at_ns + READ_REQUEST_PACKETS * ni->costs.packetizer_writes * ni->costs.core_register_write_ns;
    *frame = (pw_read_request_frame){
        .header = {.magic = PW_FRAME_MAGIC, .kind = PW_FRAME_READ_REQUEST, .frame_bytes = sizeof *frame,
                   .source_node = ni->node, .pdid = pdid, .stream = stream,
                   .time_ns = posted_ns + ni->paths[peer].latency_ns},
        .source_address = source_address, .destination_address = destination_address, .num_bytes = num_bytes, .key = key,
        .notification = *notification,
    };
    pw_frame_seal(&frame->header, sizeof *frame);
    *id = stream;
    pw_engine_begin_transfer(ni, pdid, destination_address, num_bytes);
    pw_destination_grant(ni, landing);
    return posted_ns;
}

int pw_ni_fetch(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t source_address, uint64_t key,
                uint64_t destination_address, uint64_t num_bytes, int64_t at_ns, uint64_t *id)
{
    const pw_notification none = {0};
    int64_t posted_ns = pw_engine_request_read(ni, pdid, peer, key, source_address, destination_address, num_bytes, &none, at_ns, id);
    return posted_ns < 0 ? (int)posted_ns : PW_OK;
}

/* Words of the descriptor that the user writes: five addresses and data, then size with done. */
#define DESCRIPTOR_WRITES 6

int pw_ni_write(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t source_address, uint64_t destination_address,
                uint64_t num_bytes, int64_t at_ns, uint64_t *id, uint32_t *stream)
{
    return pw_ni_write_scheduled(ni, pdid, peer, source_address, destination_address, num_bytes, &by_size, at_ns, id, stream);
}

int pw_ni_write_scheduled(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t source_address, uint64_t destination_address,
                          uint64_t num_bytes, const pw_scheduling *scheduling, int64_t at_ns, uint64_t *id, uint32_t *stream)
{
    if (peer >= ni->num_nodes || num_bytes > PW_TRANSFER_MAX_BYTES || !is_valid(scheduling)) return PW_ERR_INVALID;
    int channel = pw_firmware_claim_write(&ni->firmware, pdid);
    if (channel < 0) return channel;
    pw_transfer transfer = {
        .source_address = source_address, .destination_address = destination_address, .num_bytes = num_bytes,
        .peer = peer, .pdid = pdid, .stream = pw_firmware_new_stream(&ni->firmware),
        .hint = (uint8_t)scheduling->hint, .window_blocks = (uint8_t)scheduling->window_blocks,
    };
    transfer.cookie = transfer.stream;
    pw_firmware_trigger(&ni->firmware, (uint32_t)channel, &transfer,
                        at_ns + DESCRIPTOR_WRITES * ni->costs.core_register_write_ns);
    *id = transfer.cookie;
    *stream = transfer.stream;
    return PW_OK;
}

/* --- progress ---------------------------------------------------------------------------------- */

static void finish_transfer(pw_ni *ni, const pw_action *action)
{
    const pw_transfer *transfer = &action->transfer;
    bool is_read = (transfer->stream & PW_STREAM_READ) != 0, failed = action->kind == PW_ACTION_FAILED;
    int error = failed ? pw_error_of_nack(action->code) : PW_OK;
    ni->counters.transfers_failed += failed;
    send_plain(ni, failed ? PW_FRAME_ABORT : PW_FRAME_CLOSE, transfer->peer, transfer->stream, action->code, action->at_ns);
    pw_trace_add(&ni->trace, action->at_ns, PW_TRACE_TRANSFER_DONE, transfer->stream, transfer->num_bytes);
    if (ni->driver.page_in.num_entries && transfer->num_bytes)
        pw_page_in_forget(&ni->driver.page_in, pw_page_of(transfer->source_address),
                          pw_page_of(transfer->source_address + transfer->num_bytes - 1) - pw_page_of(transfer->source_address) + 1);
    if (!is_read) {
        pw_engine_emit(ni, PW_HOST_WRITE_DONE, transfer->cookie, error, action->at_ns, transfer->num_bytes, transfer->peer);
    } else if (!region_stays(ni, transfer->cookie) && close_region(ni, transfer->cookie)) {
        pw_engine_emit(ni, PW_HOST_EXPOSE_DONE, transfer->cookie, error, action->at_ns, transfer->num_bytes, transfer->peer);
    }
}

void pw_engine_perform(pw_ni *ni)
{
    while (ni->next_action < ni->actions.num_actions && !ni->decision_wanted) {     /* starting a block may append failures */
        const pw_action *action = &ni->actions.list[ni->next_action++];
        const pw_transfer *transfer = &ni->firmware.transfers[action->channel];
        switch (action->kind) {
        case PW_ACTION_START_BLOCK:
            if (action->transaction->state != PW_TRANSACTION_FREE)
                pw_source_start_block(ni, action->transaction, action->at_ns, &ni->actions);
            break;
        case PW_ACTION_NOTIFY:
            send_plain(ni, PW_FRAME_COMPLETION, transfer->peer, transfer->stream, 0, action->at_ns);
            break;
        case PW_ACTION_DONE:
        case PW_ACTION_FAILED:
            finish_transfer(ni, action);
        }
    }
}

int pw_ni_run(pw_ni *ni, int64_t horizon_ns, pw_host_event *events, int max)
{
    pw_event event;
    pw_time last_ns = horizon_ns < PW_NEVER ? horizon_ns : PW_NEVER - 1;
    while (!ni->decision_wanted && ni->num_host_events < (uint32_t)max && !pw_burst_is_full(ni->bursts) && pw_ni_next_ns(ni) <= last_ns &&
           pw_event_queue_pop(ni->events, &event)) {
        if (event.kind == PW_EVENT_DEPARTURE) {
            pw_network_let_go(ni, &event);
            continue;
        }
        ni->actions.num_actions = ni->next_action = 0;
        pw_firmware_handle(&ni->firmware, &event, &ni->actions);
        pw_engine_perform(ni);
    }
    const pw_mailbox *mailbox = &ni->firmware.mailboxes[PW_MAILBOX_ANSWERS];
    if (mailbox->blocked && !ni->deadlock_told && pw_firmware_is_deadlocked(&ni->firmware)) {
        ni->deadlock_told = true;
        pw_engine_emit(ni, PW_HOST_DEADLOCK, 0, PW_ERR_DEADLOCK, pw_mailbox_head(mailbox)->time_ns, 0, ni->node);
    }
    int num_events = 0;
    while (num_events < max && ni->num_host_events) {
        events[num_events++] = ni->host_events[ni->host_head];
        ni->host_head = (ni->host_head + 1) % ni->host_capacity;
        ni->num_host_events--;
    }
    return num_events;
}

/* Not behind an answer that is still on its way: it may change what comes next. */
int64_t pw_ni_next_ns(const pw_ni *ni)
{
    if (ni->decision_wanted) return INT64_MIN;
    pw_time next_ns = pw_event_queue_next_ns(ni->events);
    bool waits = next_ns > ni->firmware.transactions.earliest_answer_ns || next_ns > ni->copy_answer_ns || ni->firmware.lookahead_full;
    return waits ? PW_NEVER : next_ns;
}

int pw_ni_tx_burst(pw_ni *ni, pw_burst *out)
{
    if (!pw_burst_take(ni->bursts, out)) return 0;
    ni->counters.bursts_sent++;
    ni->counters.burst_bytes_sent += out->num_bytes;
    return 1;
}

void pw_ni_tx_release(pw_ni *ni, uint8_t *data) { pw_burst_release(ni->bursts, data); }

static void refuse_read(pw_ni *ni, const pw_read_request_frame *request, uint32_t code)
{
    ni->counters.reads_refused++;
    send_plain(ni, PW_FRAME_READ_REFUSED, request->header.source_node, request->header.stream, code, request->header.time_ns);
}

static int read_request(pw_ni *ni, const pw_read_request_frame *request)
{
    const pw_frame_header *header = &request->header;
    bool sane = request->num_bytes <= PW_TRANSFER_MAX_BYTES && (header->stream & PW_STREAM_READ) &&
                request->source_address + request->num_bytes >= request->source_address &&
                request->destination_address + request->num_bytes >= request->destination_address &&
                request->notification.address % PW_NOTIFICATION_BYTES == 0;
    if (!sane) refuse_read(ni, request, PW_NACK_DECODE);
    else if (!pw_smmu_bank(&ni->smmu, header->pdid) || !pw_firmware_has_page(&ni->firmware, header->pdid))
        refuse_read(ni, request, PW_NACK_NO_CONTEXT);
    else if (pw_source_accept_read(ni, request) < 0) refuse_read(ni, request, PW_NACK_PROTECTION);
    else {
        pw_read_request kept = {
            .source_address = request->source_address, .destination_address = request->destination_address,
            .num_bytes = request->num_bytes, .cookie = request->key, .peer = header->source_node,
            .stream = header->stream, .pdid = header->pdid, .notification = request->notification,
        };
        if (request->key) {
            const pw_scheduling *scheduling = &ni->regions[(request->key & 0xffffffffu) - 1].scheduling;
            kept.hint = (uint8_t)scheduling->hint;
            kept.window_blocks = (uint8_t)scheduling->window_blocks;
        }
        return pw_firmware_read_request(&ni->firmware, &kept, header->time_ns);
    }
    return PW_OK;
}

static int control_frame(pw_ni *ni, const pw_control_frame *frame)
{
    const pw_frame_header *header = &frame->header;
    uint64_t identity = pw_identity(header->stream, frame->block_idx);
    pw_landing *landing = NULL;
    pw_firmware *firmware = &ni->firmware;
    bool is_answer = header->kind == PW_FRAME_ACK || header->kind == PW_FRAME_NACK || header->kind == PW_FRAME_NO_ANSWER;
    if (is_answer && frame->argument1 > (uint64_t)header->time_ns) return PW_ERR_MALFORMED;
    bool known = frame->code >= PW_NACK_PAGE_FAULT && frame->code <= PW_NACK_BUFFER_FULL && frame->code != PW_NACK_RESERVED;
    if (header->kind == PW_FRAME_NACK && !known) return PW_ERR_MALFORMED;
    if (is_answer && header->flags & PW_FLAG_SPOILED)
        pw_firmware_spoiled(firmware, frame->transaction_id, frame->sequence, identity);
    if (is_answer && header->flags & PW_FLAG_COPY) {
        enum pw_event_kind kind = header->kind == PW_FRAME_ACK ? PW_EVENT_ACK : PW_EVENT_NACK;
        if (header->kind == PW_FRAME_NO_ANSWER) return pw_network_settle(ni, header->source_node) ? PW_OK : PW_ERR_MALFORMED;
        pw_firmware_extra_answer(firmware, kind, frame->transaction_id, frame->sequence, frame->code, identity,
                                 !(header->flags & PW_FLAG_ERR_FOLLOWS), header->time_ns);
        return PW_OK;
    }
    switch ((enum pw_frame_kind)header->kind) {
    case PW_FRAME_ACK:
        pw_firmware_answer(firmware, PW_EVENT_ACK, frame->transaction_id, frame->sequence, 0, identity, true,
                           (pw_time)frame->argument1, header->time_ns);
        return PW_OK;
    case PW_FRAME_NACK:
        pw_firmware_answer(firmware, PW_EVENT_NACK, frame->transaction_id, frame->sequence, frame->code, identity,
                           !(header->flags & PW_FLAG_ERR_FOLLOWS), (pw_time)frame->argument1, header->time_ns);
        return PW_OK;
    case PW_FRAME_ERR:
        if (pw_err_wired_pdid(frame->argument0) != pw_err_claimed_pdid(frame->argument0)) {
            ni->counters.errs_refused++;
            pw_firmware_no_answer(firmware, frame->transaction_id, frame->sequence, identity, INT64_MIN, header->time_ns);
            return PW_OK;
        }
        pw_firmware_answer(firmware, PW_EVENT_ERR, frame->transaction_id, frame->sequence, 0, identity, true,
                           INT64_MIN, header->time_ns);
        return PW_OK;
    case PW_FRAME_NO_ANSWER:
        pw_firmware_no_answer(firmware, frame->transaction_id, frame->sequence, identity, (pw_time)frame->argument1, header->time_ns);
        return PW_OK;
    case PW_FRAME_READ_REFUSED:
    case PW_FRAME_ABORT:
    case PW_FRAME_COMPLETION:
    case PW_FRAME_CLOSE:
        landing = pw_landing_find(ni, header->source_node, header->stream);
        break;
    default:
        return PW_ERR_MALFORMED;
    }
    if (!landing) {
        bool empty_write = !(header->stream & PW_STREAM_READ) && header->kind == PW_FRAME_COMPLETION;
        const pw_notification none = {0};
        if (empty_write) landing = pw_landing_create(ni, header->source_node, header->stream, 0, 0, &none);
        if (!landing) {
            ni->counters.stale_frames++;
            return PW_OK;
        }
    }
    if (header->kind == PW_FRAME_COMPLETION) pw_landing_notified(ni, landing, header->time_ns);
    else if (header->kind == PW_FRAME_CLOSE) pw_landing_close(ni, landing);
    else pw_landing_fail(ni, landing, pw_error_of_nack(frame->code), header->time_ns);
    return PW_OK;
}

static uint32_t covered_bytes(const pw_frame_header *header, uint32_t room)
{
    if (header->kind == PW_FRAME_GRANT) return header->frame_bytes == sizeof(pw_grant_frame) ? (uint32_t)sizeof(pw_grant_frame) : 0;
    if (header->kind == PW_FRAME_READ_REQUEST)
        return header->frame_bytes == sizeof(pw_read_request_frame) ? (uint32_t)sizeof(pw_read_request_frame) : 0;
    if (header->kind != PW_FRAME_BLOCK) return header->frame_bytes == sizeof(pw_control_frame) ? (uint32_t)sizeof(pw_control_frame) : 0;
    const pw_block_frame *block = (const pw_block_frame *)header;
    if (room < sizeof *block || block->num_packets == 0 || block->num_packets > PW_BLOCK_PACKETS) return 0;
    uint32_t covered = (uint32_t)sizeof *block + ((block->num_packets * 4u + 7u) & ~7u);
    return covered <= header->frame_bytes ? covered : 0;
}

uint32_t pw_engine_receive(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes, int *result)
{
    uint32_t total_bytes = num_bytes;
    while (num_bytes && !ni->decision_wanted) {
        const pw_frame_header *header = (const pw_frame_header *)(const void *)data;
        bool framed = num_bytes >= sizeof *header && header->magic == PW_FRAME_MAGIC && header->frame_bytes <= num_bytes &&
                      header->frame_bytes >= sizeof(pw_control_frame) && header->frame_bytes % 8 == 0;
        if (!framed) {              /* the rest cannot be delimited */
            ni->counters.malformed_frames++;
            *result = PW_ERR_MALFORMED;
            return total_bytes;
        }
        uint32_t covered = covered_bytes(header, num_bytes);
        bool timed = header->time_ns >= 0 && header->time_ns <= PW_FRAME_TIME_MAX;
        bool sound = covered && timed && header->source_node == source && source < ni->num_nodes && pw_frame_is_sound(header, covered);
        int code = PW_ERR_MALFORMED;
        if (sound && header->kind == PW_FRAME_BLOCK) {
            pw_destination_block(ni, (const pw_block_frame *)(const void *)data);
            if (!ni->decision_wanted) pw_destination_answered(ni, (const pw_block_frame *)(const void *)data);
            code = PW_OK;
        } else if (sound && header->kind == PW_FRAME_GRANT) {
            pw_source_accept_grant(ni, (const pw_grant_frame *)(const void *)data);
            code = PW_OK;
        } else if (sound && header->kind == PW_FRAME_READ_REQUEST) {
            code = read_request(ni, (const pw_read_request_frame *)(const void *)data);
        } else if (sound) {
            code = control_frame(ni, (const pw_control_frame *)(const void *)data);
        }
        if (code < 0) {
            ni->counters.malformed_frames++;
            *result = PW_ERR_MALFORMED;
        }
        data += header->frame_bytes;
        num_bytes -= header->frame_bytes;
    }
    return total_bytes - num_bytes;
}

int pw_ni_rx_burst(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes)
{
    int result = PW_OK;
    ni->counters.bursts_received++;
    uint32_t handled_bytes = pw_engine_receive(ni, source, data, num_bytes, &result);
    if (ni->decision_wanted) pw_engine_hold(ni, source, data, num_bytes, handled_bytes);
    return result;
}

/* --- reports ----------------------------------------------------------------------------------- */

uint32_t pw_ni_num_pending(const pw_ni *ni)
{
    uint32_t num_pending = ni->num_landings + ni->num_regions + (uint32_t)pw_event_queue_length(ni->events) + ni->decision_wanted;
    num_pending += ni->firmware.num_buffered + ni->num_copies_under_way;
    for (int i = 0; i < PW_NUM_MAILBOXES; i++) num_pending += ni->firmware.mailboxes[i].num_waiting;
    for (uint32_t i = 0; i < PW_NUM_CHANNELS; i++) num_pending += ni->firmware.transfers[i].active;
    return num_pending;
}

uint32_t pw_ni_num_transactions(const pw_ni *ni) { return PW_TRANSACTIONS - ni->firmware.transactions.num_free; }

void pw_ni_read_counters(const pw_ni *ni, pw_counters *out) { *out = ni->counters; }

int pw_ni_read_bank(const pw_ni *ni, uint32_t idx, pw_context_bank *out)
{
    if (idx >= ni->smmu.num_banks) return PW_ERR_INVALID;
    *out = ni->smmu.banks[idx];
    return PW_OK;
}

void pw_ni_read_interrupt_times(const pw_ni *ni, pw_time_histogram *out) { *out = ni->driver.interrupt_times; }

void pw_ni_enter(pw_ni *ni) { pw_memory_enter(ni->memory); }

void pw_ni_invalidate(pw_ni *ni, uint16_t pdid, uint64_t first_page, uint64_t num_pages)
{
    pw_smmu_invalidate(&ni->smmu, pdid, first_page, num_pages);
    pw_memory_changed(ni->memory);
}

void pw_ni_invalidate_context(pw_ni *ni, uint16_t pdid)
{
    pw_smmu_invalidate_context(&ni->smmu, pdid);
    pw_memory_changed(ni->memory);
}

void pw_ni_invalidate_all(pw_ni *ni)
{
    pw_smmu_invalidate_all(&ni->smmu);
    pw_memory_changed(ni->memory);
}

int pw_ni_trace_start(pw_ni *ni, uint32_t capacity)
{
    free(ni->trace.records);
    ni->trace = (pw_trace){.node = ni->node};
    if (capacity == 0) return PW_OK;
    ni->trace.records = malloc(capacity * sizeof *ni->trace.records);
    if (!ni->trace.records) return PW_ERR_NOMEM;
    ni->trace.capacity = capacity;
    return PW_OK;
}

uint32_t pw_ni_trace_read(const pw_ni *ni, const pw_trace_record **records)
{
    *records = ni->trace.records;
    return ni->trace.num_records;
}
