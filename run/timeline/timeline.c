#include "run/timeline/timeline.h"
#include "native/event_queue.h"
#include "r5sched/protocol.h"
#include "run/timeline/lifelines.h"
#include "run/timeline/record_order.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what each kind of record draws, and on which track --- */

/* Of a rank: what goes on with the next record. */
typedef struct {
    pw_span *r5, *job; /* NULL: none */
    uint64_t job_page, job_pages;
    pw_time calls_end_ns;
    pw_time bin_ns; /* of the link's bandwidth */
    int64_t bin_idx;
    uint64_t bin_bytes;
} pw_rank_tracks;

typedef struct {
    pw_story story;
    pw_event_queue *arrivals; /* of messages on their way; kind: from << 16 | to */
    pw_rank_tracks *ranks;    /* as many as the story's */
    pw_time handler_ns, err_send_ns;
} pw_tracks;

#define BANDWIDTH_POINTS 2000
#define BIN_NS_MIN 1000
#define NO_CALL UINT32_MAX /* in a CALL: one that is none of MPI */

/* --- spans and instants --------------------------------------------------------------------------
 */

static pw_name name_block(const pw_trace_record *record)
{
    const uint32_t id = record->b & UINT16_MAX, sequence = record->b >> 16 & UINT16_MAX;
    if (!sequence) return pw_name_of("block %u with rank %u", id, record->peer);
    return pw_name_of("block %u with rank %u, attempt %u", id, record->peer, sequence + 1);
}

/* A record that begins at its time and takes `a` ns. One more such kind stands in is_span
 * (record_order.c) too; one that is recorded when it ends is added to pw_record_time there. */
static void draw_span(const pw_tracks *tracks, uint32_t rank, enum pw_track track,
                      const pw_trace_record *record, pw_name name)
{
    pw_lanes_span(&tracks->story.ranks[rank].lanes, track, record->time_ns,
                  record->time_ns + (pw_time)record->a, name.text, NULL, 0);
}

/* Something without a length, with the arrows that the story has found last. */
static void draw_instant(const pw_tracks *tracks, uint32_t rank, enum pw_track track, pw_time at_ns,
                         pw_name name)
{
    const pw_story *story = &tracks->story;
    pw_lanes_span(&story->ranks[rank].lanes, track, at_ns, at_ns, name.text, story->flows,
                  story->num_flows);
}

static void draw_call(pw_tracks *tracks, uint32_t rank, const pw_rank_records *of_rank,
                      const pw_trace_record *record)
{
    pw_rank_tracks *state = &tracks->ranks[rank];
    if (record->time_ns > state->calls_end_ns)
        pw_lanes_span(&tracks->story.ranks[rank].lanes, PW_TRACK_CALLS, state->calls_end_ns,
                      record->time_ns, "program", NULL, 0);
    pw_name name =
        pw_name_of("%s", record->b == NO_CALL ? "RDMA library"
                                              : pw_record_names_of(&of_rank->calls, record->b));
    if (!name.text[0]) name = pw_name_of("call %" PRIu64, record->b);
    draw_span(tracks, rank, PW_TRACK_CALLS, record, name);
    state->calls_end_ns = pw_later(state->calls_end_ns, record->time_ns + (pw_time)record->a);
}

/* Its name within the outer ones. A mark takes no time, so which of two that begin together is the
 * outer one, only their lines tell. */
static void draw_region(const pw_tracks *tracks, uint32_t rank, const pw_rank_records *of_rank,
                        const pw_trace_record *record)
{
    const char *path = pw_record_names_of(&of_rank->regions, record->b);
    const char *last = strrchr(path, '/');
    const pw_name name = pw_name_of("%s", last ? last + 1 : path);
    pw_lanes_nested(&tracks->story.ranks[rank].lanes, PW_TRACK_REGIONS, record->peer,
                    record->time_ns, record->time_ns + (pw_time)record->a, name.text);
}

/* Works that follow each other without a gap are one span. */
static void draw_r5(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_rank_tracks *state = &tracks->ranks[rank];
    pw_time end_ns = record->time_ns + (pw_time)record->a;
    if (state->r5 && record->time_ns <= state->r5->end_ns) {
        pw_span_prolong(state->r5, end_ns);
        return;
    }
    if (state->r5) pw_span_ready(tracks->story.file, state->r5);
    state->r5 = pw_lanes_begin(&tracks->story.ranks[rank].lanes, PW_TRACK_R5, record->time_ns,
                               end_ns, "work");
}

/* --- messages ------------------------------------------------------------------------------------
 */

static void draw_message(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_story *story = &tracks->story;
    const pw_flow flow = {pw_timeline_flow(story->file), false};
    const pw_name name = pw_name_of("%" PRIu64 " B to rank %u", record->b, record->peer);
    pw_lanes_span(&story->ranks[rank].lanes, PW_TRACK_MESSAGES, record->time_ns, record->time_ns,
                  name.text, &flow, 1);
    if (record->peer >= story->num_ranks) return;
    const pw_event arrival = {.time_ns = (pw_time)record->a,
                              .kind = rank << 16 | record->peer, /* fewer than 2^13 */
                              .subject = record->b,
                              .detail = flow.number};
    if (pw_event_queue_push(tracks->arrivals, &arrival) < 0) story->file->failed = PW_ERR_NOMEM;
    else pw_timeline_hold(story->file, 1);
}

static void draw_arrivals(pw_tracks *tracks, pw_time by_ns)
{
    pw_story *story = &tracks->story;
    pw_event arrival;
    while (pw_event_queue_next_ns(tracks->arrivals) <= by_ns &&
           pw_event_queue_pop(tracks->arrivals, &arrival)) {
        pw_timeline_hold(story->file, -1);
        const pw_flow flow = {arrival.detail, true};
        const pw_name name =
            pw_name_of("%" PRIu64 " B from rank %u", arrival.subject, arrival.kind >> 16);
        pw_lanes_span(&story->ranks[arrival.kind & UINT16_MAX].lanes, PW_TRACK_MESSAGES,
                      arrival.time_ns, arrival.time_ns, name.text, &flow, 1);
    }
}

/* --- the link ------------------------------------------------------------------------------------
 */

static void end_bin(pw_tracks *tracks, uint32_t rank)
{
    const pw_rank_tracks *state = &tracks->ranks[rank];
    double bytes_per_s = (double)state->bin_bytes * 1e9 / (double)state->bin_ns;
    pw_lanes *lanes = &tracks->story.ranks[rank].lanes;
    if (!state->bin_bytes) return;
    pw_lanes_value(lanes, PW_TRACK_BANDWIDTH, state->bin_idx * state->bin_ns, (int64_t)bytes_per_s);
    pw_lanes_value(lanes, PW_TRACK_BANDWIDTH, (state->bin_idx + 1) * state->bin_ns, 0);
}

static void draw_link(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_rank_tracks *state = &tracks->ranks[rank];
    int64_t bin_idx = record->time_ns / state->bin_ns;
    if (bin_idx != state->bin_idx) {
        end_bin(tracks, rank);
        state->bin_idx = bin_idx;
        state->bin_bytes = 0;
    }
    state->bin_bytes += (record->b >> 32) * PW_PACKET_BYTES;
    pw_story_link(&tracks->story,
                  (pw_block_name){rank, record->b & UINT16_MAX, record->b >> 16 & UINT16_MAX},
                  record->time_ns, record->time_ns + (pw_time)record->a, name_block(record).text);
}

static void draw_receive(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_story_receive(
        &tracks->story,
        (pw_block_name){record->peer, record->b & UINT16_MAX, record->b >> 16 & UINT16_MAX}, rank,
        record->time_ns, record->time_ns + (pw_time)record->a, name_block(record).text);
}

/* --- the driver: faults, handler, tasklet, page-ins, touches -------------------------------------
 */

static void draw_fault(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    bool at_destination = record->kind == PW_TRACE_FAULT_DESTINATION;
    pw_block_name block = {at_destination ? record->peer : rank, (uint32_t)record->b, 0};
    pw_story_fault(&tracks->story, block, rank, at_destination, record->a, record->time_ns);
}

static pw_name name_pages(uint64_t page, uint64_t num_pages)
{
    if (num_pages <= 1) return pw_name_of("page 0x%" PRIx64, page);
    return pw_name_of("page 0x%" PRIx64 " + %" PRIu64, page, num_pages - 1);
}

static void draw_handler(const pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    const pw_name name = name_pages(record->a, 1);
    pw_lanes_span(&tracks->story.ranks[rank].lanes, PW_TRACK_HANDLER, record->time_ns,
                  record->time_ns + tracks->handler_ns, name.text, NULL, 0);
}

static void draw_tasklet(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_rank_tracks *state = &tracks->ranks[rank];
    pw_story *story = &tracks->story;
    const pw_name name = record->b ? name_pages(record->a, record->b)
                                   : pw_name_of("page 0x%" PRIx64 ", known", record->a);
    state->job_page = record->a;
    state->job_pages = record->b ? record->b : 1;
    if (state->job) pw_span_ready(story->file, state->job);
    state->job = pw_lanes_begin(&story->ranks[rank].lanes, PW_TRACK_TASKLET, record->time_ns,
                                record->time_ns, name.text);
    pw_story_tasklet(story, rank, record->a, record->time_ns);
    for (uint32_t i = 0; i < story->num_flows && state->job; i++)
        pw_span_add_flow(story->file, state->job, story->flows[i]);
}

static void draw_page_in(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_rank_tracks *state = &tracks->ranks[rank];
    if (state->job) pw_span_prolong(state->job, record->time_ns);
    pw_story_page_in(&tracks->story, rank, state->job_page, state->job_pages, record->time_ns,
                     false);
    draw_instant(tracks, rank, PW_TRACK_PAGE_IN, record->time_ns,
                 pw_name_of("page 0x%" PRIx64 ": %" PRIu64 " were absent", record->a, record->b));
}

/* The translation unit has brought pages in, or its software. */
static void draw_unit_page_in(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_story *story = &tracks->story;
    const pw_time end_ns = record->time_ns + (pw_time)record->a;
    const pw_name name = name_pages(record->b, record->peer);
    pw_story_page_in(story, rank, record->b, record->peer, end_ns, true);
    pw_lanes_span(&story->ranks[rank].lanes, PW_TRACK_UNIT, record->time_ns, end_ns, name.text,
                  story->flows, story->num_flows);
}

/* The library has touched a page, or could not. */
static void draw_touch(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    const bool is_there = record->kind == PW_TRACE_PAGE_TOUCHED;
    if (is_there) pw_story_page_in(&tracks->story, rank, record->a, 1, record->time_ns, false);
    else tracks->story.num_flows = 0;
    draw_instant(
        tracks, rank, PW_TRACK_THREAD, record->time_ns,
        pw_name_of("%s: page 0x%" PRIx64, is_there ? "touch" : "segmentation fault", record->a));
}

/* --- answers -------------------------------------------------------------------------------------
 */

static void draw_answer(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    const char *kind = record->kind == PW_TRACE_ERR ? "ERR" : "timeout";
    pw_block_name block = {rank, (uint32_t)record->a, 0};
    /* An ERR may leave before the last packets came in, and met pages. */
    pw_story_answer(&tracks->story, block, record->time_ns, false, record->kind != PW_TRACE_ERR);
    draw_instant(tracks, rank, PW_TRACK_ANSWERS, record->time_ns,
                 record->kind == PW_TRACE_NACK
                     ? pw_name_of("NACK %" PRIu64 ": block %" PRIu64, record->b, record->a)
                     : pw_name_of("%s: block %" PRIu64, kind, record->a));
}

static void draw_nack_sent(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_story_received_step(&tracks->story, (pw_block_name){record->peer, (uint32_t)record->a, 0},
                           record->time_ns);
    draw_instant(tracks, rank, PW_TRACK_NACKS, record->time_ns,
                 pw_name_of("NACK %" PRIu64 " to rank %u", record->b, record->peer));
}

/* The arrow leaves where the ERR does: at the end. */
static void draw_err_sent(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    const pw_name name = pw_name_of("ERR: block %" PRIu64 " of rank %u", record->a, record->peer);
    pw_lanes_span(&tracks->story.ranks[rank].lanes, PW_TRACK_THREAD,
                  pw_later(0, record->time_ns - tracks->err_send_ns), record->time_ns, name.text,
                  NULL, 0);
    pw_story_step(&tracks->story,
                  (pw_block_name){record->peer, (uint32_t)record->a, (uint32_t)record->b},
                  record->time_ns);
    draw_instant(tracks, rank, PW_TRACK_THREAD, record->time_ns, pw_name_of("ERR leaves"));
}

/* --- all of them ---------------------------------------------------------------------------------
 */

static void tracks_draw(pw_tracks *tracks, uint32_t rank, const pw_rank_records *of_rank,
                        const pw_trace_record *record)
{
    pw_story *story = &tracks->story;
    draw_arrivals(tracks, record->time_ns);
    switch (record->kind) {
    case PW_TRACE_BLOCK_STARTED:
        pw_story_begin(story, (pw_block_name){rank, (uint32_t)record->a, (uint32_t)record->b},
                       record->time_ns);
        break;
    case PW_TRACE_TRANSITION:
        if (record->b >> 16 == PW_TRANSACTION_FREE)
            pw_story_end(story, (pw_block_name){rank, record->a & UINT16_MAX, 0});
        break;
    case PW_TRACE_ACK:
        pw_story_answer(story, (pw_block_name){rank, (uint32_t)record->a, 0}, record->time_ns, true,
                        true);
        break;
    case PW_TRACE_NACK:
    case PW_TRACE_ERR:
    case PW_TRACE_TIMEOUT: draw_answer(tracks, rank, record); break;
    case PW_TRACE_R5: draw_r5(tracks, rank, record); break;
    case PW_TRACE_LINK: draw_link(tracks, rank, record); break;
    case PW_TRACE_RECEIVE_ENGINE: draw_receive(tracks, rank, record); break;
    case PW_TRACE_CALL: draw_call(tracks, rank, of_rank, record); break;
    case PW_TRACE_REGION: draw_region(tracks, rank, of_rank, record); break;
    case PW_TRACE_MESSAGE_SENT: draw_message(tracks, rank, record); break;
    case PW_TRACE_FAULT_SOURCE:
    case PW_TRACE_FAULT_DESTINATION: draw_fault(tracks, rank, record); break;
    case PW_TRACE_HANDLER: draw_handler(tracks, rank, record); break;
    case PW_TRACE_TASKLET_ENTRY: draw_tasklet(tracks, rank, record); break;
    case PW_TRACE_PAGE_IN_DONE: draw_page_in(tracks, rank, record); break;
    case PW_TRACE_NETLINK_SENT:
        if (tracks->ranks[rank].job) pw_span_prolong(tracks->ranks[rank].job, record->time_ns);
        break;
    case PW_TRACE_UNIT_PAGE_IN: draw_unit_page_in(tracks, rank, record); break;
    case PW_TRACE_PAGE_TOUCHED:
    case PW_TRACE_TOUCH_SEGFAULT: draw_touch(tracks, rank, record); break;
    case PW_TRACE_RESUME: pw_story_resume(story, rank, record->a, record->time_ns); break;
    case PW_TRACE_NACK_SENT: draw_nack_sent(tracks, rank, record); break;
    case PW_TRACE_ERR_SENT: draw_err_sent(tracks, rank, record); break;
    case PW_TRACE_PINNED:
    case PW_TRACE_RESIDENT:
        pw_lanes_value(&story->ranks[rank].lanes,
                       record->kind == PW_TRACE_PINNED ? PW_TRACK_PINNED : PW_TRACK_RESIDENT,
                       record->time_ns, (int64_t)record->a);
        break;
    case PW_TRACE_SEND_ENGINE:
        draw_span(tracks, rank, PW_TRACK_SEND_ENGINE, record, name_block(record));
        break;
    case PW_TRACE_WALK:
        draw_span(tracks, rank, PW_TRACK_WALKS, record, name_pages(record->b, 1));
        break;
    case PW_TRACE_TOUCH:
        draw_span(tracks, rank, PW_TRACK_STRATEGY, record, pw_name_of("touch"));
        break;
    case PW_TRACE_PIN:
        draw_span(tracks, rank, PW_TRACK_STRATEGY, record, pw_name_of("pin, unpin"));
        break;
    case PW_TRACE_COPY:
        draw_span(tracks, rank, PW_TRACK_STRATEGY, record, pw_name_of("copy"));
        break;
    default: break;
    }
}

static int tracks_start(pw_tracks *tracks, const pw_record_order *order)
{
    tracks->ranks = calloc(order->num_ranks, sizeof *tracks->ranks);
    if (!tracks->ranks) return PW_ERR_NOMEM;
    const int code = pw_event_queue_create(0, &tracks->arrivals);
    if (code < 0) return code;
    for (uint32_t rank = 0; rank < order->num_ranks; rank++)
        tracks->ranks[rank].bin_ns =
            pw_later(BIN_NS_MIN, order->ranks[rank].last_link_ns / BANDWIDTH_POINTS);
    return PW_OK;
}

static void tracks_finish(pw_tracks *tracks)
{
    pw_story *story = &tracks->story;
    draw_arrivals(tracks, PW_NEVER);
    pw_story_finish(story);
    for (uint32_t rank = 0; rank < story->num_ranks; rank++) {
        const pw_rank_tracks *state = &tracks->ranks[rank];
        if (state->r5) pw_span_ready(story->file, state->r5);
        if (state->job) pw_span_ready(story->file, state->job);
        end_bin(tracks, rank);
        pw_lanes_finish(&story->ranks[rank].lanes);
    }
}

static void tracks_destroy(pw_tracks *tracks)
{
    pw_story_destroy(&tracks->story);
    pw_event_queue_destroy(tracks->arrivals);
    free(tracks->ranks);
}

/* --- the file --- */

#define GROUP_SHIFT 40   /* numbers of tracks and arrows: below it those of one group */
#define GROUP_RANKS 8192 /* more than a run has */
#define PROCESS_NAME_BYTES 256

struct pw_timeline {
    pw_timeline_file file;
    pw_record_order order;
    pw_tracks tracks;
    pw_timeline_counts counts;
    uint32_t group;
    uint64_t network; /* process of the network's tracks; 0: none yet */
    uint32_t num_network_tracks;
    bool has_begun;
    char label[PROCESS_NAME_BYTES];
};

int pw_timeline_create(pw_timeline **timeline, int descriptor, const pw_timeline_options *options)
{
    pw_timeline *created = calloc(1, sizeof *created);
    if (!created) return PW_ERR_NOMEM;
    created->group = options->group;
    created->file.uuid_base = (uint64_t)options->group << GROUP_SHIFT;
    created->tracks.handler_ns = options->handler_ns;
    created->tracks.err_send_ns = options->err_send_ns;
    snprintf(created->label, sizeof created->label, "%s%s", options->label,
             options->label[0] ? " " : "");
    int code =
        pw_packets_start(&created->file.packets, descriptor, options->group * GROUP_RANKS + 1);
    if (code < 0) {
        free(created);
        return code;
    }
    *timeline = created;
    return PW_OK;
}

int pw_timeline_add_rank(pw_timeline *timeline, const char *path)
{
    return pw_record_order_add(&timeline->order, path);
}

static int begin(pw_timeline *timeline)
{
    pw_story *story = &timeline->tracks.story;
    uint32_t num_ranks = timeline->order.num_ranks;
    story->file = &timeline->file;
    story->ranks = calloc(num_ranks, sizeof *story->ranks);
    if (!story->ranks) return PW_ERR_NOMEM;
    story->num_ranks = num_ranks;
    for (uint32_t rank = 0; rank < num_ranks; rank++) {
        pw_lanes *lanes = &story->ranks[rank].lanes;
        lanes->file = &timeline->file;
        lanes->process = timeline->file.uuid_base | ++timeline->file.next_uuid;
        char name[2 * PROCESS_NAME_BYTES];
        snprintf(name, sizeof name, "%srank %u", timeline->label, rank);
        pw_packets_process(&timeline->file.packets, lanes->process,
                           (uint64_t)timeline->group * GROUP_RANKS + rank + 1, name);
    }
    timeline->has_begun = true;
    return tracks_start(&timeline->tracks, &timeline->order);
}

/* The first thing that failed; what failed to be written keeps failing. */
static int failure(pw_timeline *timeline)
{
    if (timeline->file.packets.failed) return pw_packets_flush(&timeline->file.packets);
    return timeline->file.failed;
}

int pw_timeline_step(pw_timeline *timeline, uint64_t num_records)
{
    int code = timeline->has_begun ? PW_OK : begin(timeline);
    if (code < 0) return code;
    for (uint64_t i = 0; i < num_records; i++) {
        const pw_trace_record *record;
        uint32_t rank;
        code = pw_record_order_next(&timeline->order, &record, &rank);
        if (code < 0) return code;
        if (code == 0) {
            tracks_finish(&timeline->tracks);
            (void)pw_packets_flush(&timeline->file.packets);
            return failure(timeline);
        }
        tracks_draw(&timeline->tracks, rank, &timeline->order.ranks[rank], record);
        timeline->counts.num_records++;
        uint64_t num_held = timeline->order.num_held + timeline->file.num_waiting;
        if (num_held > timeline->counts.num_held_max) timeline->counts.num_held_max = num_held;
    }
    code = failure(timeline);
    return code < 0 ? code : 1;
}

/* Its number is behind those of ranks. */
static void begin_network(pw_timeline *timeline)
{
    char name[2 * PROCESS_NAME_BYTES];
    snprintf(name, sizeof name, "%slinks", timeline->label);
    timeline->network = timeline->file.uuid_base | ++timeline->file.next_uuid;
    pw_packets_process(&timeline->file.packets, timeline->network,
                       ((uint64_t)timeline->group + 1) * GROUP_RANKS, name);
}

int pw_timeline_add_values(pw_timeline *timeline, const char *name, pw_time bin_ns,
                           const uint32_t *percent, uint32_t num_bins)
{
    pw_packets *packets = &timeline->file.packets;
    uint32_t latest = UINT32_MAX;
    if (!timeline->network) begin_network(timeline);
    const uint64_t track = timeline->file.uuid_base | ++timeline->file.next_uuid;
    pw_packets_track(packets, track, timeline->network, name, timeline->num_network_tracks++, "%");
    for (uint32_t i = 0; i <= num_bins; i++) {
        const uint32_t value = i < num_bins ? percent[i] : 0;
        if (value != latest) pw_packets_value(packets, track, i * bin_ns, value);
        latest = value;
    }
    return failure(timeline);
}

void pw_timeline_count(const pw_timeline *timeline, pw_timeline_counts *counts)
{
    *counts = timeline->counts;
    counts->num_packets = timeline->file.packets.num_packets;
}

void pw_timeline_destroy(pw_timeline *timeline)
{
    if (!timeline) return;
    tracks_destroy(&timeline->tracks);
    pw_record_order_destroy(&timeline->order);
    pw_packets_destroy(&timeline->file.packets);
    for (pw_span *span; (span = timeline->file.free_spans);) {
        timeline->file.free_spans = span->next;
        free(span->flows);
        free(span);
    }
    free(timeline);
}
