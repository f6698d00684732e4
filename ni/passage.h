/* A block on its way through the destination's stages, alone or as one of a pair, and what the
 * files of the destination side use of each other. One NI, one thread at a time. */
#ifndef PW_NI_PASSAGE_H
#define PW_NI_PASSAGE_H
#include "native/frames.h"
#include "ni/state.h"

/* Two blocks that share the link packet by packet: the first has it alone until the second is
 * ready, then they take turns, beginning with the first, until one of them is out of packets.
 * Stateless; source and destination count the same way. */

/* A block's part in the order; all zero: it has the link alone. */
typedef struct {
    bool is_second;
    uint32_t head;       /* packets of the first block before the second was ready */
    uint32_t num_others; /* packets of the other block */
} pw_lane;

static inline uint32_t pw_fewer(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* How many packets of both precede a block's packet. */
static inline uint64_t pw_lane_slot(const pw_lane *lane, uint32_t packet)
{
    if (lane->is_second) return packet + pw_fewer(lane->head + packet + 1, lane->num_others);
    if (packet < lane->head) return packet;
    return packet + pw_fewer(packet - lane->head, lane->num_others);
}

/* How many packets of the first block arrive before the second could: all of them when they do not
 * share the link. */
static inline uint32_t pw_pair_head(const pw_block_frame *first, const pw_block_frame *second)
{
    uint64_t interval_ps = first->packet_interval_ps;
    pw_time ready_ns = second->header.time_ns - (pw_time)second->waited_ns;
    if (ready_ns <= first->header.time_ns) return 0;
    uint64_t wait_ns = (uint64_t)(ready_ns - first->header.time_ns);
    if (!interval_ps || wait_ns > first->num_packets * interval_ps / 1000)
        return first->num_packets;
    return pw_fewer((uint32_t)((wait_ns * 1000 + interval_ps - 1) / interval_ps),
                    first->num_packets);
}

/* The second block's last packet, where nothing holds up the pair. */
static inline pw_time pw_pair_second_end_ns(const pw_block_frame *first,
                                            const pw_block_frame *second)
{
    const pw_lane lane = {
        .is_second = true, .head = pw_pair_head(first, second), .num_others = first->num_packets};
    uint64_t slot = pw_lane_slot(&lane, second->num_packets - 1);
    return first->header.time_ns + (pw_time)(slot * first->packet_interval_ps / 1000);
}

/* How a block's way ends; PASS: it goes on to the next stage. */
enum pw_verdict_kind {
    PW_VERDICT_PASS,
    PW_VERDICT_ACK,
    PW_VERDICT_NACK,
    PW_VERDICT_NO_ANSWER,
    PW_VERDICT_BEHIND, /* no answer either: a block before it brings it again */
    PW_VERDICT_ANSWERED
};
typedef struct {
    enum pw_verdict_kind kind;
    uint32_t code; /* NACK: PW_NACK_* */
} pw_verdict;

static const pw_verdict pw_pass = {PW_VERDICT_PASS, 0};

typedef struct {
    pw_arrival arrival;
    pw_context_bank *bank; /* NULL: the translation unit has no fault registers */
    const uint32_t *crcs;  /* and payload: of an NI with bytes */
    const uint8_t *payload;
    pw_time start_ns; /* first packet, behind what the receive engine still did */
    pw_lane lane;     /* where its packets stand among those of the block that it shares the link
                         with; none: one behind the other */
    bool has_engine;  /* the receive engine took it */
    pw_time ready_ns; /* dropped: its pages are there from then on, if the unit knows */
    uint32_t num_missing; /* pages of which the NI has no translation yet */
    bool granted;         /* translated already, as its source knows */
    /* its pages: */
    uint64_t first_page;
    uint32_t num_pages, num_absent;
    bool present[PW_BLOCK_PAGES], is_permission[PW_BLOCK_PAGES];
} pw_passage;

/* When a packet arrives. */
static inline pw_time pw_passage_packet_ns(const pw_passage *way, uint32_t packet)
{
    return way->start_ns + (pw_time)(pw_lane_slot(&way->lane, packet) *
                                     way->arrival.block->packet_interval_ps / 1000);
}

/* One answer. */
typedef struct {
    enum pw_frame_kind kind;
    uint32_t code;
    uint8_t flags;
    uint32_t part;  /* which of several answers */
    pw_time err_ns; /* ERR_FOLLOWS, ERR_LATER: at the source not before */
    pw_time at_ns;
} pw_reply;

/* destination.c: answers */
/* What the verdict says at the block's end; nothing when it was answered. */
void pw_verdict_answer(pw_ni *ni, const pw_arrival *arrival, pw_verdict by);

/* destination.c: the stages in groups, for blocks that come in pairs */
pw_passage pw_passage_of(const pw_ni *ni, const pw_block_frame *block);
/* Receive engine, transfer. */
pw_verdict pw_passage_enter(pw_ni *ni, pw_passage *way);
/* Nothing of its transfer arrives before it; its packets in the trace. */
void pw_passage_note(pw_ni *ni, const pw_passage *way);
/* CRC, duplicate, order, key. */
pw_verdict pw_passage_check(pw_ni *ni, pw_passage *way);
/* Translate each page at its first packet. */
pw_verdict pw_passage_translate(pw_ni *ni, pw_passage *way);
/* Notification, delivery. */
pw_verdict pw_passage_deliver(pw_ni *ni, pw_passage *way);
/* All that is behind the check. */
pw_verdict pw_passage_finish(pw_ni *ni, pw_passage *way);

/* destination.c: faults */
pw_fault pw_passage_fault(const pw_ni *ni, const pw_arrival *arrival);
/* Report the packet to the driver when it hits an absent page, or an active fault with HUPCF = 0.
 * Was it so? */
bool pw_faults_report_packet(pw_ni *ni, const pw_passage *way, pw_fault *fault, uint32_t packet);
void pw_faults_count_pages(pw_ni *ni, const pw_passage *way);

#endif
