/* Packetizer and mailbox messages: the envelope of an MPI message, and the message itself when it
 * is short [PART 6.2, D3.6]. One packet carries the envelope, further ones the payload. */
#include "native/crc32c.h"
#include "ni/state.h"
#include <string.h>

/* A read that begins when the message is there still has a time that its owner believes. */
#define ARRIVAL_MAX_NS (PW_FRAME_TIME_MAX / 2)

static int64_t num_packets(const pw_ni *ni, uint32_t payload_bytes)
{
    int64_t room = ni->costs->packetizer_payload_bytes;
    return 1 + (payload_bytes + room - 1) / room;
}

static uint32_t envelope_crc(pw_envelope envelope)
{
    envelope.envelope_crc = 0;
    return pw_crc32c(0, &envelope, sizeof envelope);
}

/* The message as it leaves, its payload behind the envelope. */
static void write_frame(pw_ni *ni, uint32_t peer, pw_envelope *envelope, const void *payload,
                        uint8_t *frame)
{
    const bool is_sealed = !pw_ni_is_unsealed(ni, peer);
    envelope->magic = PW_ENVELOPE_MAGIC;
    envelope->source_node = ni->node;
    if (payload && envelope->payload_bytes) {
        memcpy(frame + sizeof *envelope, payload, envelope->payload_bytes);
        if (is_sealed)
            envelope->payload_crc = pw_crc32c(0, frame + sizeof *envelope, envelope->payload_bytes);
    }
    if (is_sealed) envelope->envelope_crc = envelope_crc(*envelope);
    memcpy(frame, envelope, sizeof *envelope);
}

/* Send the packets of a message: when the CPU has posted it. A lone packet slips in between those
 * of blocks (is_lone): it waits for no more than one of them, which is left out, so that its time
 * does not depend on what else was booked physically before. */
static int64_t post(pw_ni *ni, uint32_t peer, pw_envelope *envelope, const void *payload,
                    bool is_lone, int64_t now_ns, uint8_t *frame)
{
    if (!is_lone) pw_ahead_disturb(ni);
    pw_path *path = pw_ni_path(ni, peer);
    int64_t packets = num_packets(ni, envelope->payload_bytes);
    int64_t posted_ns =
        now_ns + packets * ni->costs->packetizer_writes * ni->costs->core_register_write_ns;
    uint64_t wire_bytes = (uint64_t)packets * (uint64_t)(ni->costs->packet_header_bytes +
                                                         ni->costs->packetizer_payload_bytes);
    int64_t wire_ns = (int64_t)(wire_bytes * path->byte_ps_1000 / 1000000);
    ni->counters.message_packets += (uint64_t)packets;
    int64_t begun_ns = is_lone ? posted_ns : pw_calendar_book(&path->link, posted_ns, wire_ns);
    envelope->arrival_ns = begun_ns + wire_ns + path->latency_ns;
    pw_trace_detail(&ni->trace, begun_ns, PW_TRACE_MESSAGE_LINK, peer,
                    (uint64_t)(envelope->arrival_ns - begun_ns), (uint64_t)posted_ns);
    write_frame(ni, peer, envelope, payload, frame);
    return posted_ns;
}

int64_t pw_ni_control_write(pw_ni *ni, uint32_t peer, uint8_t kind, uint64_t address,
                            uint64_t num_bytes, uint64_t key, uint64_t extra, int64_t now_ns,
                            uint8_t *frame)
{
    pw_envelope envelope = {
        .kind = kind, .num_bytes = num_bytes, .address = address, .key = key, .extra = extra};
    return post(ni, peer, &envelope, NULL, true, now_ns, frame);
}

int64_t pw_ni_packet_write(pw_ni *ni, uint32_t peer, uint8_t kind, uint32_t destination,
                           const uint64_t words[4], const void *payload, uint32_t payload_bytes,
                           int64_t at_ns, uint8_t *frame)
{
    const pw_path *path = pw_ni_path(ni, peer);
    uint64_t packets = 1 + (payload_bytes + PW_PACKET_BYTES - 1) / PW_PACKET_BYTES;
    uint64_t wire_bytes =
        packets * (uint64_t)ni->costs->packet_header_bytes + PW_PACKET_WORDS_BYTES + payload_bytes;
    ni->counters.message_packets += packets;
    pw_envelope envelope = {
        .kind = kind,
        .num_bytes = words[0],
        .address = words[1],
        .key = words[2],
        .arrival_ns =
            at_ns + (int64_t)(wire_bytes * path->byte_ps_1000 / 1000000) + path->latency_ns,
        .payload_bytes = payload_bytes,
        .destination = destination,
        .extra = words[3],
    };
    write_frame(ni, peer, &envelope, payload, frame);
    return envelope.arrival_ns;
}

int64_t pw_ni_message_write(pw_ni *ni, uint32_t peer, uint8_t kind, uint64_t address,
                            uint64_t num_bytes, uint64_t key, uint32_t payload_bytes,
                            int64_t now_ns, uint8_t *frame)
{
    pw_envelope envelope = {.kind = kind,
                            .num_bytes = num_bytes,
                            .address = address,
                            .key = key,
                            .payload_bytes = payload_bytes};
    int64_t posted_ns =
        post(ni, peer, &envelope, ni->has_no_bytes ? NULL : (const void *)(uintptr_t)address, false,
             now_ns, frame);
    pw_trace_detail(&ni->trace, now_ns, PW_TRACE_MESSAGE_SENT, peer, (uint64_t)envelope.arrival_ns,
                    num_bytes);
    if (key) {
        ni->counters.rdma_messages++;
        ni->counters.rdma_bytes += num_bytes;
    } else {
        ni->counters.eager_messages++;
        ni->counters.eager_bytes += num_bytes;
        pw_tallies_message(&ni->tallies, peer, num_bytes);
    }
    return posted_ns;
}

/* What the CRCs say of it. */
static bool is_intact(const pw_envelope *envelope, const uint8_t *frame)
{
    return envelope_crc(*envelope) == envelope->envelope_crc &&
           (!envelope->payload_bytes ||
            pw_crc32c(0, frame + sizeof *envelope, envelope->payload_bytes) ==
                envelope->payload_crc);
}

static bool is_sound(pw_ni *ni, const uint8_t *frame, uint64_t frame_bytes, pw_envelope *envelope)
{
    if (frame_bytes < sizeof *envelope) return false;
    memcpy(envelope, frame, sizeof *envelope);
    return envelope->magic == PW_ENVELOPE_MAGIC && envelope->source_node < ni->num_nodes &&
           envelope->arrival_ns >= 0 && envelope->arrival_ns <= ARRIVAL_MAX_NS &&
           (ni->has_no_bytes || envelope->payload_bytes <= frame_bytes - sizeof *envelope) &&
           (pw_ni_is_unsealed(ni, envelope->source_node) || is_intact(envelope, frame));
}

void pw_ni_message_refuse(pw_ni *ni) { ni->counters.malformed_frames++; }

int pw_ni_message_check(pw_ni *ni, const uint8_t *frame, uint64_t frame_bytes)
{
    pw_envelope envelope;
    if (is_sound(ni, frame, frame_bytes, &envelope)) return PW_OK;
    ni->counters.malformed_frames++;
    return PW_ERR_MALFORMED;
}

int64_t pw_ni_message_land(pw_ni *ni, const uint8_t *frame, uint64_t address,
                           uint64_t capacity_bytes, int64_t posted_ns)
{
    pw_envelope envelope;
    memcpy(&envelope, frame, sizeof envelope);
    uint64_t num_bytes =
        envelope.payload_bytes < capacity_bytes ? envelope.payload_bytes : capacity_bytes;
    if (num_bytes && !ni->has_no_bytes)
        memcpy((void *)(uintptr_t)address, frame + sizeof envelope, num_bytes);
    return pw_later(posted_ns, envelope.arrival_ns) +
           num_packets(ni, envelope.payload_bytes) * ni->costs->mailbox_read_ns;
}
