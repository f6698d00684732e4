#include "run/timeline/driver_tracks.h"
#include "run/timeline/label.h"

void pw_tracks_instant(const pw_tracks *tracks, uint32_t rank, enum pw_track track, pw_time at_ns,
                       const pw_name *name)
{
    const pw_story *story = &tracks->story;
    pw_lanes_span(&story->ranks[rank].lanes, track, at_ns, at_ns, pw_name_label(name), story->flows,
                  story->num_flows);
}

void pw_tracks_fault(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    bool at_destination = record->kind == PW_TRACE_FAULT_DESTINATION;
    pw_block_name block = {at_destination ? record->peer : rank, (uint32_t)record->b, 0};
    pw_story_fault(&tracks->story, block, rank, at_destination, record->a, record->time_ns);
}

void pw_tracks_handler(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_name name = {0};
    pw_name_text(&name, "page ");
    pw_name_hex(&name, record->a);
    pw_lanes_span(&tracks->story.ranks[rank].lanes, PW_TRACK_HANDLER, record->time_ns,
                  record->time_ns + tracks->handler_ns, pw_name_label(&name), NULL, 0);
}

void pw_tracks_tasklet(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_rank_tracks *state = &tracks->ranks[rank];
    pw_story *story = &tracks->story;
    pw_name name = {0};
    pw_name_text(&name, "page ");
    pw_name_hex(&name, record->a);
    if (record->b > 1) {
        pw_name_text(&name, " + ");
        pw_name_number(&name, record->b - 1);
    }
    if (!record->b) pw_name_text(&name, ", known");
    state->job_page = record->a;
    state->job_pages = record->b ? record->b : 1;
    if (state->job) pw_span_ready(story->file, state->job);
    state->job = pw_lanes_begin(&story->ranks[rank].lanes, PW_TRACK_TASKLET, record->time_ns,
                                record->time_ns, pw_name_label(&name));
    pw_story_tasklet(story, rank, record->a, record->time_ns);
    for (uint32_t i = 0; i < story->num_flows && state->job; i++)
        pw_span_add_flow(story->file, state->job, story->flows[i]);
}

void pw_tracks_page_in(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_rank_tracks *state = &tracks->ranks[rank];
    pw_name name = {0};
    if (state->job) pw_span_prolong(state->job, record->time_ns);
    pw_story_page_in(&tracks->story, rank, state->job_page, state->job_pages, record->time_ns,
                     false);
    pw_name_text(&name, "page ");
    pw_name_hex(&name, record->a);
    pw_name_text(&name, ": ");
    pw_name_number(&name, record->b);
    pw_name_text(&name, " were absent");
    pw_tracks_instant(tracks, rank, PW_TRACK_PAGE_IN, record->time_ns, &name);
}

void pw_tracks_unit_page_in(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    pw_story *story = &tracks->story;
    pw_time end_ns = record->time_ns + (pw_time)record->a;
    pw_name name = {0};
    pw_story_page_in(story, rank, record->b, record->peer, end_ns, true);
    pw_name_text(&name, "page ");
    pw_name_hex(&name, record->b);
    if (record->peer > 1) {
        pw_name_text(&name, " + ");
        pw_name_number(&name, record->peer - 1);
    }
    pw_lanes_span(&story->ranks[rank].lanes, PW_TRACK_UNIT, record->time_ns, end_ns,
                  pw_name_label(&name), story->flows, story->num_flows);
}

void pw_tracks_touch(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record)
{
    bool is_there = record->kind == PW_TRACE_PAGE_TOUCHED;
    pw_name name = {0};
    if (is_there) pw_story_page_in(&tracks->story, rank, record->a, 1, record->time_ns, false);
    else tracks->story.num_flows = 0;
    pw_name_text(&name, is_there ? "touch: page " : "segmentation fault: page ");
    pw_name_hex(&name, record->a);
    pw_tracks_instant(tracks, rank, PW_TRACK_THREAD, record->time_ns, &name);
}
