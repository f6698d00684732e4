#include "run/timeline/lanes.h"
#include "native/array.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pw_track_lane {
    pw_track_lane *next;
    uint64_t uuid;
    pw_time end_ns;        /* of its last span; PW_NEVER: not known */
    pw_span *first, *last; /* those that wait */
};

static const struct {
    const char *name, *unit;
} tracks[PW_TRACKS] = {
    [PW_TRACK_REGIONS] = {"Regions", NULL},
    [PW_TRACK_CALLS] = {"Program and MPI calls", NULL},
    [PW_TRACK_MESSAGES] = {"Messages", NULL},
    [PW_TRACK_STRATEGY] = {"Memory strategy", NULL},
    [PW_TRACK_R5] = {"R5", NULL},
    [PW_TRACK_ANSWERS] = {"R5: NACK, ERR, timeout", NULL},
    [PW_TRACK_SEND_ENGINE] = {"Send engine", NULL},
    [PW_TRACK_LINK] = {"Link", NULL},
    [PW_TRACK_RECEIVE_ENGINE] = {"Receive engine", NULL},
    [PW_TRACK_WALKS] = {"SMMU walks", NULL},
    [PW_TRACK_FAULTS] = {"Page faults", NULL},
    [PW_TRACK_NACKS] = {"NACKs sent", NULL},
    [PW_TRACK_HANDLER] = {"Interrupt handler", NULL},
    [PW_TRACK_TASKLET] = {"Tasklet", NULL},
    [PW_TRACK_PAGE_IN] = {"Page-in done", NULL},
    [PW_TRACK_UNIT] = {"Page-in by the NIC", NULL},
    [PW_TRACK_THREAD] = {"Library thread", NULL},
    [PW_TRACK_OUTSTANDING] = {"Outstanding blocks", "blocks"},
    [PW_TRACK_ABSENT] = {"Absent pages", "pages"},
    [PW_TRACK_PINNED] = {"Pinned bytes", "bytes"},
    [PW_TRACK_RESIDENT] = {"Resident bytes", "bytes"},
    [PW_TRACK_BANDWIDTH] = {"Bandwidth of the link", "bytes/s"},
};

pw_name pw_name_of(const char *format, ...)
{
    pw_name name;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name.text, sizeof name.text, format, arguments);
    va_end(arguments);
    return name;
}

uint64_t pw_timeline_flow(pw_timeline_file *file) { return file->uuid_base | ++file->next_flow; }

void pw_timeline_hold(pw_timeline_file *file, int64_t change)
{
    file->num_waiting += (uint64_t)change;
}

/* depth: of spans that lie within others. */
static uint64_t describe(pw_lanes *lanes, enum pw_track track, uint32_t depth)
{
    pw_timeline_file *file = lanes->file;
    uint64_t uuid = file->uuid_base | ++file->next_uuid;
    char name[PW_SPAN_NAME_BYTES];
    if (depth) snprintf(name, sizeof name, "%s within, %u", tracks[track].name, depth);
    pw_packets_track(&file->packets, uuid, lanes->process, depth ? name : tracks[track].name,
                     (uint32_t)track + 1, tracks[track].unit);
    return uuid;
}

/* --- spans ---------------------------------------------------------------------------------------
 */

static bool make_lane(pw_lanes *lanes, pw_track_lane **at, enum pw_track track, uint32_t depth)
{
    *at = calloc(1, sizeof **at);
    if (!*at) {
        lanes->file->failed = PW_ERR_NOMEM;
        return false;
    }
    (*at)->uuid = describe(lanes, track, depth);
    return true;
}

pw_track_lane *pw_track_lane_take(pw_lanes *lanes, enum pw_track track, pw_time start_ns)
{
    pw_track_lane **at = &lanes->lanes[track];
    for (; *at; at = &(*at)->next)
        if ((*at)->end_ns <= start_ns) break;
    if (!*at && !make_lane(lanes, at, track, 0)) return NULL;
    (*at)->end_ns = PW_NEVER;
    return *at;
}

static void release(pw_timeline_file *file, pw_span *span)
{
    span->next = file->free_spans;
    file->free_spans = span;
    pw_timeline_hold(file, -1);
}

static void write_span(pw_timeline_file *file, const pw_span *span)
{
    pw_packets_span(&file->packets, span->lane->uuid, span->start_ns, span->end_ns, span->name,
                    span->flows, span->num_flows);
}

static pw_span *queue(pw_timeline_file *file, pw_track_lane *lane, pw_time start_ns, pw_time end_ns,
                      const char *name)
{
    pw_span *span = file->free_spans;
    if (span) file->free_spans = span->next;
    else span = calloc(1, sizeof *span);
    if (!span) {
        file->failed = PW_ERR_NOMEM;
        return NULL;
    }
    span->next = NULL;
    span->lane = lane;
    span->start_ns = start_ns;
    span->end_ns = lane->end_ns = end_ns;
    span->num_flows = 0;
    span->is_ready = false;
    strncpy(span->name, name, PW_SPAN_NAME_BYTES); /* the last byte is 0 from the start */
    if (lane->last) lane->last->next = span;
    else lane->first = span;
    lane->last = span;
    pw_timeline_hold(file, 1);
    return span;
}

void pw_track_lane_end(pw_lanes *lanes, pw_track_lane *lane, pw_time start_ns, pw_time end_ns,
                       const char *name, const pw_flow *flows, size_t num_flows)
{
    pw_timeline_file *file = lanes->file;
    if (!lane->first) {
        pw_packets_span(&file->packets, lane->uuid, start_ns, end_ns, name, flows, num_flows);
        lane->end_ns = end_ns;
        return;
    }
    pw_span *span = queue(file, lane, start_ns, end_ns, name);
    if (!span) return;
    for (size_t i = 0; i < num_flows; i++) pw_span_add_flow(file, span, flows[i]);
    span->is_ready = true;
}

void pw_lanes_span(pw_lanes *lanes, enum pw_track track, pw_time start_ns, pw_time end_ns,
                   const char *name, const pw_flow *flows, size_t num_flows)
{
    pw_track_lane *lane = pw_track_lane_take(lanes, track, start_ns);
    if (lane) pw_track_lane_end(lanes, lane, start_ns, end_ns, name, flows, num_flows);
}

void pw_lanes_nested(pw_lanes *lanes, enum pw_track track, uint32_t depth, pw_time start_ns,
                     pw_time end_ns, const char *name)
{
    pw_track_lane **at = &lanes->lanes[track];
    for (uint32_t above = 0;; above++, at = &(*at)->next) {
        if (!*at && !make_lane(lanes, at, track, above)) return;
        if (above == depth) break;
    }
    pw_track_lane_end(lanes, *at, start_ns, end_ns, name, NULL, 0);
}

pw_span *pw_lanes_begin(pw_lanes *lanes, enum pw_track track, pw_time start_ns, pw_time end_ns,
                        const char *name)
{
    pw_track_lane *lane = pw_track_lane_take(lanes, track, start_ns);
    return lane ? queue(lanes->file, lane, start_ns, end_ns, name) : NULL;
}

void pw_span_add_flow(pw_timeline_file *file, pw_span *span, pw_flow flow)
{
    if (PW_ARRAY_MAKE_ROOM(span->flows, span->num_flows, span->flows_capacity, 4) < 0)
        file->failed = PW_ERR_NOMEM;
    else span->flows[span->num_flows++] = flow;
}

void pw_span_prolong(pw_span *span, pw_time end_ns)
{
    span->end_ns = pw_later(span->end_ns, end_ns);
    span->lane->end_ns = span->end_ns;
}

void pw_span_ready(pw_timeline_file *file, pw_span *span)
{
    pw_track_lane *lane = span->lane;
    span->is_ready = true;
    while (lane->first && lane->first->is_ready) {
        pw_span *first = lane->first;
        write_span(file, first);
        lane->first = first->next;
        if (!lane->first) lane->last = NULL;
        release(file, first);
    }
}

/* --- values --------------------------------------------------------------------------------------
 */

static pw_timeline_value *value_of(pw_lanes *lanes, enum pw_track track)
{
    pw_timeline_value *at = &lanes->values[track - PW_TRACK_SPANS];
    if (!at->uuid) *at = (pw_timeline_value){.uuid = describe(lanes, track, 0)};
    return at;
}

void pw_lanes_value(pw_lanes *lanes, enum pw_track track, pw_time time_ns, int64_t value)
{
    pw_timeline_value *at = value_of(lanes, track);
    if (time_ns > at->time_ns) {
        pw_packets_value(&lanes->file->packets, at->uuid, at->time_ns, at->value);
        at->time_ns = time_ns;
    }
    at->value = value;
}

void pw_lanes_add(pw_lanes *lanes, enum pw_track track, pw_time time_ns, int64_t change)
{
    pw_lanes_value(lanes, track, time_ns, value_of(lanes, track)->value + change);
}

/* --- ends ----------------------------------------------------------------------------------------
 */

void pw_lanes_finish(pw_lanes *lanes)
{
    for (size_t i = 0; i < PW_TRACKS - PW_TRACK_SPANS; i++) {
        const pw_timeline_value *at = &lanes->values[i];
        if (at->uuid) pw_packets_value(&lanes->file->packets, at->uuid, at->time_ns, at->value);
    }
}

void pw_lanes_destroy(pw_lanes *lanes)
{
    for (size_t track = 0; track < PW_TRACK_SPANS; track++)
        for (pw_track_lane *lane; (lane = lanes->lanes[track]);) {
            for (pw_span *span; (span = lane->first);) {
                lane->first = span->next;
                free(span->flows);
                free(span);
            }
            lanes->lanes[track] = lane->next;
            free(lane);
        }
}
