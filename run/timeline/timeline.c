#include "run/timeline/timeline.h"
#include "run/timeline/tracks.h"
#include <stdio.h>
#include <stdlib.h>

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
    return pw_tracks_start(&timeline->tracks, &timeline->order);
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
            pw_tracks_finish(&timeline->tracks);
            (void)pw_packets_flush(&timeline->file.packets);
            return failure(timeline);
        }
        pw_tracks_draw(&timeline->tracks, rank, &timeline->order.ranks[rank], record);
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
    pw_tracks_destroy(&timeline->tracks);
    pw_record_order_destroy(&timeline->order);
    pw_packets_destroy(&timeline->file.packets);
    for (pw_span *span; (span = timeline->file.free_spans);) {
        timeline->file.free_spans = span->next;
        free(span->flows);
        free(span);
    }
    free(timeline);
}
