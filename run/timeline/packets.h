/* Packets of a Perfetto trace as they go to a file: tracks, spans, instants, arrows and values, as
 * protobuf track events (field numbers: Perfetto's trace_packet.proto, track_event.proto and
 * track_descriptor.proto). What is written is forgotten, so a file of any length takes one buffer.
 * Perfetto sorts by time, and what has one time by its place in the file: spans of a track must
 * come in their order and not overlap, tracks among each other in any order. */
#ifndef PW_RUN_TIMELINE_PACKETS_H
#define PW_RUN_TIMELINE_PACKETS_H
#include "native/types.h"

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
#endif
