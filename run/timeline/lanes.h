/* The tracks of one rank in the file: spans on as many lines as overlap, and values. A span that is
 * not complete yet (its arrows are not known) keeps those behind it on its line waiting, because
 * spans of a line must come in their order. One thread at a time. */
#ifndef PW_RUN_TIMELINE_LANES_H
#define PW_RUN_TIMELINE_LANES_H
#include "native/types.h"

/* Packets of a Perfetto trace as they go to a file: tracks, spans, instants, arrows and values, as
 * protobuf track events (field numbers: Perfetto's trace_packet.proto, track_event.proto and
 * track_descriptor.proto). What is written is forgotten, so a file of any length takes one buffer.
 * Perfetto sorts by time, and what has one time by its place in the file: spans of a track must
 * come in their order and not overlap, tracks among each other in any order. */

/* An arrow's number, and whether it ends here. */
typedef struct {
    uint64_t number;
    bool is_last;
} pw_flow;

typedef struct {
    int descriptor;
    uint32_t sequence;
    int failed; /* PW_ERR_*, of the first packet that was not written; none is written any more */
    int host_error; /* errno with PW_ERR_HOST */
    uint8_t *buffer;
    size_t capacity, used;
    uint64_t num_packets;
} pw_packets;

/* PW_ERR_NOMEM. sequence: whose the packets are; a file may hold several. */
int pw_packets_start(pw_packets *packets, int descriptor, uint32_t sequence);
/* Write what waits: PW_ERR_HOST (errno) or PW_ERR_NOMEM when packets are missing. */
int pw_packets_flush(pw_packets *packets);
void pw_packets_destroy(pw_packets *packets);

/* A group of tracks; uuid is a number that no other track has. */
void pw_packets_process(pw_packets *packets, uint64_t uuid, uint64_t pid, const char *name);
/* A track of it. unit NULL: of spans and instants, else of values. */
void pw_packets_track(pw_packets *packets, uint64_t uuid, uint64_t parent, const char *name,
                      uint32_t order, const char *unit);
/* A span, or an instant when start and end are one. */
void pw_packets_span(pw_packets *packets, uint64_t uuid, pw_time start_ns, pw_time end_ns,
                     const char *name, const pw_flow *flows, size_t num_flows);
/* A value from then on. */
void pw_packets_value(pw_packets *packets, uint64_t uuid, pw_time time_ns, int64_t value);

#define PW_SPAN_NAME_BYTES 72

/* A name of at most so many bytes; what is longer is cut. */
typedef struct {
    char text[PW_SPAN_NAME_BYTES + 1];
} pw_name;

__attribute__((format(printf, 1, 2))) pw_name pw_name_of(const char *format, ...);

/* In the order in which they stand below each other; their names are in lanes.c. */
enum pw_track {
    PW_TRACK_REGIONS,
    PW_TRACK_CALLS,
    PW_TRACK_MESSAGES,
    PW_TRACK_STRATEGY,
    PW_TRACK_R5,
    PW_TRACK_ANSWERS,
    PW_TRACK_SEND_ENGINE,
    PW_TRACK_LINK,
    PW_TRACK_RECEIVE_ENGINE,
    PW_TRACK_WALKS,
    PW_TRACK_FAULTS,
    PW_TRACK_NACKS,
    PW_TRACK_HANDLER,
    PW_TRACK_TASKLET,
    PW_TRACK_PAGE_IN,
    PW_TRACK_UNIT,
    PW_TRACK_THREAD,
    PW_TRACK_SPANS, /* how many of spans; the others have values */
    PW_TRACK_OUTSTANDING = PW_TRACK_SPANS,
    PW_TRACK_ABSENT,
    PW_TRACK_PINNED,
    PW_TRACK_RESIDENT,
    PW_TRACK_BANDWIDTH,
    PW_TRACKS,
};

typedef struct pw_track_lane pw_track_lane;
typedef struct pw_span pw_span;

/* What tracks of all ranks share. */
typedef struct {
    pw_packets packets;
    uint64_t uuid_base, next_uuid, next_flow;
    pw_span *free_spans;
    uint64_t num_waiting; /* in memory: spans, faults, messages */
    int failed;           /* PW_ERR_NOMEM: something is missing in the file */
} pw_timeline_file;

struct pw_span {
    pw_span *next;
    pw_track_lane *lane;
    pw_time start_ns, end_ns;
    pw_flow *flows;
    uint32_t num_flows, flows_capacity;
    bool is_ready;
    char name[PW_SPAN_NAME_BYTES + 1];
};

typedef struct {
    uint64_t uuid; /* 0: no value yet */
    pw_time time_ns;
    int64_t value;
} pw_timeline_value;

/* Of a rank. */
typedef struct {
    pw_timeline_file *file;
    uint64_t process;
    pw_track_lane *lanes[PW_TRACK_SPANS];
    pw_timeline_value values[PW_TRACKS - PW_TRACK_SPANS];
} pw_lanes;

/* A number that no other arrow has. */
uint64_t pw_timeline_flow(pw_timeline_file *file);
/* Something waits in memory, or no longer. */
void pw_timeline_hold(pw_timeline_file *file, int64_t change);

void pw_lanes_destroy(pw_lanes *lanes);
/* A line of the track that is free at that time, taken until its span ends. NULL: no memory. */
pw_track_lane *pw_track_lane_take(pw_lanes *lanes, enum pw_track track, pw_time start_ns);
/* A complete span on a line that was taken. */
void pw_track_lane_end(pw_lanes *lanes, pw_track_lane *lane, pw_time start_ns, pw_time end_ns,
                       const char *name, const pw_flow *flows, size_t num_flows);
/* Both. */
void pw_lanes_span(pw_lanes *lanes, enum pw_track track, pw_time start_ns, pw_time end_ns,
                   const char *name, const pw_flow *flows, size_t num_flows);
/* A complete span on the track's line of that depth, below those that it lies within. Spans of a
 * depth come in their order. */
void pw_lanes_nested(pw_lanes *lanes, enum pw_track track, uint32_t depth, pw_time start_ns,
                     pw_time end_ns, const char *name);
/* A span without its arrows; it waits for pw_span_ready. NULL: no memory. */
pw_span *pw_lanes_begin(pw_lanes *lanes, enum pw_track track, pw_time start_ns, pw_time end_ns,
                        const char *name);
void pw_span_add_flow(pw_timeline_file *file, pw_span *span, pw_flow flow);
/* It ends later than was known. */
void pw_span_prolong(pw_span *span, pw_time end_ns);
/* The span is complete; it and what waited behind it goes to the file. */
void pw_span_ready(pw_timeline_file *file, pw_span *span);
/* The value from then on; of several at a time the last one. */
void pw_lanes_value(pw_lanes *lanes, enum pw_track track, pw_time time_ns, int64_t value);
void pw_lanes_add(pw_lanes *lanes, enum pw_track track, pw_time time_ns, int64_t change);
/* Write the last values; all spans are ready. */
void pw_lanes_finish(pw_lanes *lanes);
#endif
