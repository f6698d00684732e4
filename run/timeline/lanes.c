#include "run/timeline/lanes.h"
#include "native/array.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)
#define VARINT_BYTES_MAX 10
#define FRAME_BYTES_MAX 64 /* of a packet, all but its text and its arrows */
#define FLOW_BYTES 10

enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2 };

enum field {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_FLAGS = 13,
    PACKET_TRACK = 60,
    EVENT_TYPE = 9,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_VALUE = 30,
    EVENT_FLOW = 47,
    EVENT_LAST_FLOW = 48,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    TRACK_CHILD_ORDERING = 11,
    TRACK_ORDER = 12,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    COUNTER_UNIT = 6,
};

enum event_type { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 };

#define EXPLICIT_ORDERING 3
#define STATE_CLEARED 1 /* SEQ_INCREMENTAL_STATE_CLEARED: the sequence begins */

/* --- bytes ---------------------------------------------------------------------------------------
 */

static size_t varint_bytes(uint64_t value)
{
    size_t count = 1;
    while (value >>= 7) count++;
    return count;
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static uint8_t *put_tag(uint8_t *at, enum field field, enum wire_type type)
{
    return put_varint(at, (uint64_t)field << 3 | (uint64_t)type);
}

static uint8_t *put_number(uint8_t *at, enum field field, uint64_t value)
{
    return put_varint(put_tag(at, field, VARINT), value);
}

static uint8_t *put_bytes(uint8_t *at, enum field field, const void *bytes, size_t num_bytes)
{
    at = put_varint(put_tag(at, field, BYTES), num_bytes);
    memcpy(at, bytes, num_bytes);
    return at + num_bytes;
}

static size_t number_bytes(enum field field, uint64_t value)
{
    return varint_bytes((uint64_t)field << 3) + varint_bytes(value);
}

static size_t nested_bytes(enum field field, size_t num_bytes)
{
    return number_bytes(field, num_bytes) + num_bytes;
}

/* --- the file ------------------------------------------------------------------------------------
 */

int pw_packets_start(pw_packets *packets, int descriptor, uint32_t sequence)
{
    *packets = (pw_packets){.descriptor = descriptor, .sequence = sequence};
    packets->buffer = malloc(BUFFER_BYTES);
    if (!packets->buffer) return PW_ERR_NOMEM;
    packets->capacity = BUFFER_BYTES;
    return PW_OK;
}

int pw_packets_flush(pw_packets *packets)
{
    const uint8_t *data = packets->buffer;
    while (packets->used && !packets->failed) {
        ssize_t count = write(packets->descriptor, data, packets->used);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) {
            packets->failed = PW_ERR_HOST;
            packets->host_error = errno;
        } else {
            data += count;
            packets->used -= (size_t)count;
        }
    }
    packets->used = 0;
    if (packets->failed == PW_ERR_HOST) errno = packets->host_error;
    return packets->failed;
}

void pw_packets_destroy(pw_packets *packets)
{
    free(packets->buffer);
    packets->buffer = NULL;
}

/* Room for that many bytes; NULL: packets are lost. */
static uint8_t *room(pw_packets *packets, size_t num_bytes)
{
    if (packets->used + num_bytes > packets->capacity) (void)pw_packets_flush(packets);
    if (packets->failed) return NULL;
    if (num_bytes > packets->capacity) {
        uint8_t *bigger = realloc(packets->buffer, num_bytes);
        if (!bigger) {
            packets->failed = PW_ERR_NOMEM;
            return NULL;
        }
        packets->buffer = bigger;
        packets->capacity = num_bytes;
    }
    return packets->buffer + packets->used;
}

static void end_packet(pw_packets *packets, const uint8_t *end)
{
    packets->used = (size_t)(end - packets->buffer);
    packets->num_packets++;
}

/* --- tracks --------------------------------------------------------------------------------------
 */

static uint8_t *put_track_packet(pw_packets *packets, uint8_t *at, size_t track_bytes)
{
    bool is_first = !packets->num_packets;
    size_t packet_bytes = number_bytes(PACKET_SEQUENCE, packets->sequence) +
                          (is_first ? number_bytes(PACKET_FLAGS, STATE_CLEARED) : 0) +
                          nested_bytes(PACKET_TRACK, track_bytes);
    at = put_varint(put_tag(at, TRACE_PACKET, BYTES), packet_bytes);
    at = put_number(at, PACKET_SEQUENCE, packets->sequence);
    if (is_first) at = put_number(at, PACKET_FLAGS, STATE_CLEARED);
    return put_varint(put_tag(at, PACKET_TRACK, BYTES), track_bytes);
}

void pw_packets_process(pw_packets *packets, uint64_t uuid, uint64_t pid, const char *name)
{
    const size_t name_bytes = strlen(name);
    uint8_t *at = room(packets, FRAME_BYTES_MAX + name_bytes);
    if (!at) return;
    size_t process_bytes = number_bytes(PROCESS_PID, pid) + nested_bytes(PROCESS_NAME, name_bytes);
    size_t track_bytes = number_bytes(TRACK_UUID, uuid) +
                         nested_bytes(TRACK_PROCESS, process_bytes) +
                         number_bytes(TRACK_CHILD_ORDERING, EXPLICIT_ORDERING);
    at = put_track_packet(packets, at, track_bytes);
    at = put_number(at, TRACK_UUID, uuid);
    at = put_varint(put_tag(at, TRACK_PROCESS, BYTES), process_bytes);
    at = put_number(at, PROCESS_PID, pid);
    at = put_bytes(at, PROCESS_NAME, name, name_bytes);
    end_packet(packets, put_number(at, TRACK_CHILD_ORDERING, EXPLICIT_ORDERING));
}

void pw_packets_track(pw_packets *packets, uint64_t uuid, uint64_t parent, const char *name,
                      uint32_t order, const char *unit)
{
    size_t name_bytes = strlen(name), unit_bytes = unit ? strlen(unit) : 0;
    uint8_t *at = room(packets, FRAME_BYTES_MAX + name_bytes + unit_bytes);
    if (!at) return;
    size_t counter_bytes = unit ? nested_bytes(COUNTER_UNIT, unit_bytes) : 0;
    size_t track_bytes = number_bytes(TRACK_UUID, uuid) + nested_bytes(TRACK_NAME, name_bytes) +
                         number_bytes(TRACK_PARENT, parent) + number_bytes(TRACK_ORDER, order) +
                         (unit ? nested_bytes(TRACK_COUNTER, counter_bytes) : 0);
    at = put_track_packet(packets, at, track_bytes);
    at = put_number(at, TRACK_UUID, uuid);
    at = put_bytes(at, TRACK_NAME, name, name_bytes);
    at = put_number(at, TRACK_PARENT, parent);
    if (unit) {
        at = put_varint(put_tag(at, TRACK_COUNTER, BYTES), counter_bytes);
        at = put_bytes(at, COUNTER_UNIT, unit, unit_bytes);
    }
    end_packet(packets, put_number(at, TRACK_ORDER, order));
}

/* --- events --------------------------------------------------------------------------------------
 */

/* A packet's begin, up to where its event has more than type and track: more_bytes. */
static uint8_t *put_event(const pw_packets *packets, uint8_t *at, uint64_t uuid, pw_time time_ns,
                          enum event_type type, size_t more_bytes)
{
    size_t event_bytes =
        number_bytes(EVENT_TYPE, (uint64_t)type) + number_bytes(EVENT_TRACK, uuid) + more_bytes;
    size_t packet_bytes = number_bytes(PACKET_TIMESTAMP, (uint64_t)time_ns) +
                          number_bytes(PACKET_SEQUENCE, packets->sequence) +
                          nested_bytes(PACKET_EVENT, event_bytes);
    at = put_varint(put_tag(at, TRACE_PACKET, BYTES), packet_bytes);
    at = put_number(at, PACKET_TIMESTAMP, (uint64_t)time_ns);
    at = put_number(at, PACKET_SEQUENCE, packets->sequence);
    at = put_varint(put_tag(at, PACKET_EVENT, BYTES), event_bytes);
    at = put_number(at, EVENT_TYPE, (uint64_t)type);
    return put_number(at, EVENT_TRACK, uuid);
}

static uint8_t *put_flow(uint8_t *at, const pw_flow *flow)
{
    at = put_tag(at, flow->is_last ? EVENT_LAST_FLOW : EVENT_FLOW, FIXED64);
    for (int byte = 0; byte < 8; byte++) *at++ = (uint8_t)(flow->number >> 8 * byte);
    return at;
}

void pw_packets_span(pw_packets *packets, uint64_t uuid, pw_time start_ns, pw_time end_ns,
                     const char *name, const pw_flow *flows, size_t num_flows)
{
    const size_t name_bytes = strlen(name), flow_bytes = num_flows * FLOW_BYTES;
    uint8_t *at = room(packets, FRAME_BYTES_MAX + name_bytes + flow_bytes);
    if (!at) return;
    bool is_span = end_ns > start_ns;
    at = put_event(packets, at, uuid, start_ns, is_span ? SLICE_BEGIN : INSTANT,
                   nested_bytes(EVENT_NAME, name_bytes) + flow_bytes);
    at = put_bytes(at, EVENT_NAME, name, name_bytes);
    for (size_t i = 0; i < num_flows; i++) at = put_flow(at, &flows[i]);
    end_packet(packets, at);
    if (!is_span) return;
    at = room(packets, FRAME_BYTES_MAX);
    if (at) end_packet(packets, put_event(packets, at, uuid, end_ns, SLICE_END, 0));
}

void pw_packets_value(pw_packets *packets, uint64_t uuid, pw_time time_ns, int64_t value)
{
    uint8_t *at = room(packets, FRAME_BYTES_MAX + VARINT_BYTES_MAX);
    if (!at) return;
    at = put_event(packets, at, uuid, time_ns, COUNTER, number_bytes(EVENT_VALUE, (uint64_t)value));
    end_packet(packets, put_number(at, EVENT_VALUE, (uint64_t)value));
}

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
