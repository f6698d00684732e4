#include "run/timeline/tracks.h"
#include "r5sched/protocol.h"
#include "run/timeline/driver_tracks.h"
#include "run/timeline/label.h"
#include <stdlib.h>
#include <string.h>

#define NUM_KINDS 128
#define BANDWIDTH_POINTS 2000
#define BIN_NS_MIN 1000
#define NO_CALL UINT32_MAX /* in a CALL: one that is none of MPI */

/* --- records that are a span on a track ----------------------------------------------------------
 */

static void name_block(pw_name *name, const pw_trace_record *record)
{
    uint32_t sequence = record->b >> 16 & UINT16_MAX;
    pw_name_text(name, "block ");
    pw_name_number(name, record->b & UINT16_MAX);
    pw_name_text(name, " with rank ");
    pw_name_number(name, record->peer);
    if (!sequence) return;
    pw_name_text(name, ", attempt ");
    pw_name_number(name, sequence + 1);
}

static void name_page_of_walk(pw_name *name, const pw_trace_record *record)
{
    pw_name_text(name, "page ");
    pw_name_hex(name, record->b);
}

static void name_touch(pw_name *name, const pw_trace_record *record)
{
    (void)record;
    pw_name_text(name, "touch");
}

static void name_pin(pw_name *name, const pw_trace_record *record)
{
    (void)record;
    pw_name_text(name, "pin, unpin");
}

static void name_copy(pw_name *name, const pw_trace_record *record)
{
    (void)record;
    pw_name_text(name, "copy");
}

/* A record that begins at its time and takes `a` ns. One more kind is one more row, in is_span
 * (record_order.c) too; one that is recorded when it ends is added to pw_record_time there. */
static const struct {
    enum pw_track track;
    void (*name)(pw_name *name, const pw_trace_record *record); /* NULL: no such kind */
} span_kinds[NUM_KINDS] = {
    [PW_TRACE_SEND_ENGINE] = {PW_TRACK_SEND_ENGINE, name_block},
    [PW_TRACE_WALK] = {PW_TRACK_WALKS, name_page_of_walk},
    [PW_TRACE_TOUCH] = {PW_TRACK_STRATEGY, name_touch},
    [PW_TRACE_PIN] = {PW_TRACK_STRATEGY, name_pin},
    [PW_TRACE_COPY] = {PW_TRACK_STRATEGY, name_copy},
};

/* --- spans and instants --------------------------------------------------------------------------
 */

static pw_label plain(const char *text) { return (pw_label){text, strlen(text)}; }

static void draw_call(pw_tracks *tracks, uint32_t rank, const pw_rank_records *of_rank,
                      const pw_trace_record *record)
{
    pw_lanes *lanes = &tracks->story.ranks[rank].lanes;
    pw_rank_tracks *state = &tracks->ranks[rank];
    pw_time end_ns = record->time_ns + (pw_time)record->a;
    if (record->time_ns > state->calls_end_ns)
        pw_lanes_span(lanes, PW_TRACK_CALLS, state->calls_end_ns, record->time_ns, plain("program"),
                      NULL, 0);
    pw_name name = {0};
    if (record->b == NO_CALL) pw_name_text(&name, "RDMA library");
    else pw_name_text(&name, pw_record_names_of(&of_rank->calls, record->b));
    if (!name.num_bytes) {
        pw_name_text(&name, "call ");
        pw_name_number(&name, record->b);
    }
    pw_lanes_span(lanes, PW_TRACK_CALLS, record->time_ns, end_ns, pw_name_label(&name), NULL, 0);
    state->calls_end_ns = pw_later(state->calls_end_ns, end_ns);
}

/* Its name within the outer ones. A mark takes no time, so which of two that begin together is the
 * outer one, only their lines tell. */
static void draw_region(const pw_tracks *tracks, uint32_t rank, const pw_rank_records *of_rank,
                        const pw_trace_record *record)
{
    const char *path = pw_record_names_of(&of_rank->regions, record->b);
    const char *last = strrchr(path, '/');
    pw_name name = {0};
    pw_name_text(&name, last ? last + 1 : path);
    pw_lanes_nested(&tracks->story.ranks[rank].lanes, PW_TRACK_REGIONS, record->peer,
                    record->time_ns, record->time_ns + (pw_time)record->a, pw_name_label(&name));
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
                               end_ns, plain("work"));
}

/* --- messages ------------------------------------------------------------------------------------
 */

static void draw_message(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_story *story = &tracks->story;
    const pw_flow flow = {pw_timeline_flow(story->file), false};
    pw_name name = {0};
    pw_name_number(&name, record->b);
    pw_name_text(&name, " B to rank ");
    pw_name_number(&name, record->peer);
    pw_lanes_span(&story->ranks[rank].lanes, PW_TRACK_MESSAGES, record->time_ns, record->time_ns,
                  pw_name_label(&name), &flow, 1);
    if (record->peer >= story->num_ranks) return;
    pw_message_arrival arrival = {.at_ns = (pw_time)record->a,
                                  .source = rank,
                                  .destination = record->peer,
                                  .num_bytes = record->b,
                                  .flow = flow.number};
    if (pw_arrivals_add(&tracks->arrivals, &arrival) < 0) story->file->failed = PW_ERR_NOMEM;
    else pw_timeline_hold(story->file, 1);
}

static void draw_arrivals(pw_tracks *tracks, pw_time by_ns)
{
    pw_story *story = &tracks->story;
    for (pw_message_arrival arrival; pw_arrivals_take(&tracks->arrivals, by_ns, &arrival);) {
        pw_timeline_hold(story->file, -1);
        const pw_flow flow = {arrival.flow, true};
        pw_name name = {0};
        pw_name_number(&name, arrival.num_bytes);
        pw_name_text(&name, " B from rank ");
        pw_name_number(&name, arrival.source);
        pw_lanes_span(&story->ranks[arrival.destination].lanes, PW_TRACK_MESSAGES, arrival.at_ns,
                      arrival.at_ns, pw_name_label(&name), &flow, 1);
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
    pw_name name = {0};
    name_block(&name, record);
    pw_story_link(&tracks->story,
                  (pw_block_name){rank, record->b & UINT16_MAX, record->b >> 16 & UINT16_MAX},
                  record->time_ns, record->time_ns + (pw_time)record->a, pw_name_label(&name));
}

static void draw_receive(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_name name = {0};
    name_block(&name, record);
    pw_story_receive(
        &tracks->story,
        (pw_block_name){record->peer, record->b & UINT16_MAX, record->b >> 16 & UINT16_MAX}, rank,
        record->time_ns, record->time_ns + (pw_time)record->a, pw_name_label(&name));
}

/* --- answers -------------------------------------------------------------------------------------
 */

static void draw_answer(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_name name = {0};
    pw_block_name block = {rank, (uint32_t)record->a, 0};
    /* An ERR may leave before the last packets came in, and met pages. */
    pw_story_answer(&tracks->story, block, record->time_ns, false, record->kind != PW_TRACE_ERR);
    if (record->kind == PW_TRACE_NACK) {
        pw_name_text(&name, "NACK ");
        pw_name_number(&name, record->b);
    } else pw_name_text(&name, record->kind == PW_TRACE_ERR ? "ERR" : "timeout");
    pw_name_text(&name, ": block ");
    pw_name_number(&name, record->a);
    pw_tracks_instant(tracks, rank, PW_TRACK_ANSWERS, record->time_ns, &name);
}

static void draw_nack_sent(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_name name = {0};
    pw_story_last_step(&tracks->story, (pw_block_name){record->peer, (uint32_t)record->a, 0},
                       record->time_ns, true);
    pw_name_text(&name, "NACK ");
    pw_name_number(&name, record->b);
    pw_name_text(&name, " to rank ");
    pw_name_number(&name, record->peer);
    pw_tracks_instant(tracks, rank, PW_TRACK_NACKS, record->time_ns, &name);
}

/* The arrow leaves where the ERR does: at the end. */
static void draw_err_sent(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_name name = {0}, leaves = {0};
    pw_name_text(&name, "ERR: block ");
    pw_name_number(&name, record->a);
    pw_name_text(&name, " of rank ");
    pw_name_number(&name, record->peer);
    pw_lanes_span(&tracks->story.ranks[rank].lanes, PW_TRACK_THREAD,
                  pw_later(0, record->time_ns - tracks->err_send_ns), record->time_ns,
                  pw_name_label(&name), NULL, 0);
    pw_story_step(&tracks->story,
                  (pw_block_name){record->peer, (uint32_t)record->a, (uint32_t)record->b},
                  record->time_ns);
    pw_name_text(&leaves, "ERR leaves");
    pw_tracks_instant(tracks, rank, PW_TRACK_THREAD, record->time_ns, &leaves);
}

/* --- all of them ---------------------------------------------------------------------------------
 */

void pw_tracks_draw(pw_tracks *tracks, uint32_t rank, const pw_rank_records *of_rank,
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
    case PW_TRACE_FAULT_DESTINATION: pw_tracks_fault(tracks, rank, record); break;
    case PW_TRACE_HANDLER: pw_tracks_handler(tracks, rank, record); break;
    case PW_TRACE_TASKLET_ENTRY: pw_tracks_tasklet(tracks, rank, record); break;
    case PW_TRACE_PAGE_IN_DONE: pw_tracks_page_in(tracks, rank, record); break;
    case PW_TRACE_NETLINK_SENT:
        if (tracks->ranks[rank].job) pw_span_prolong(tracks->ranks[rank].job, record->time_ns);
        break;
    case PW_TRACE_UNIT_PAGE_IN: pw_tracks_unit_page_in(tracks, rank, record); break;
    case PW_TRACE_PAGE_TOUCHED:
    case PW_TRACE_TOUCH_SEGFAULT: pw_tracks_touch(tracks, rank, record); break;
    case PW_TRACE_RESUME: pw_story_resume(story, rank, record->a, record->time_ns); break;
    case PW_TRACE_NACK_SENT: draw_nack_sent(tracks, rank, record); break;
    case PW_TRACE_ERR_SENT: draw_err_sent(tracks, rank, record); break;
    case PW_TRACE_PINNED:
        pw_lanes_value(&story->ranks[rank].lanes, PW_TRACK_PINNED, record->time_ns,
                       (int64_t)record->a);
        break;
    default:
        if (record->kind < NUM_KINDS && span_kinds[record->kind].name) {
            pw_name name = {0};
            span_kinds[record->kind].name(&name, record);
            pw_lanes_span(&story->ranks[rank].lanes, span_kinds[record->kind].track,
                          record->time_ns, record->time_ns + (pw_time)record->a,
                          pw_name_label(&name), NULL, 0);
        }
    }
}

int pw_tracks_start(pw_tracks *tracks, const pw_record_order *order)
{
    tracks->ranks = calloc(order->num_ranks, sizeof *tracks->ranks);
    if (!tracks->ranks) return PW_ERR_NOMEM;
    for (uint32_t rank = 0; rank < order->num_ranks; rank++)
        tracks->ranks[rank].bin_ns =
            pw_later(BIN_NS_MIN, order->ranks[rank].last_link_ns / BANDWIDTH_POINTS);
    return PW_OK;
}

void pw_tracks_finish(pw_tracks *tracks)
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

void pw_tracks_destroy(pw_tracks *tracks)
{
    pw_story_destroy(&tracks->story);
    pw_arrivals_destroy(&tracks->arrivals);
    free(tracks->ranks);
}
