/* A block on its way through the destination's stages, and what the files of the destination side
 * use of each other. One NI, one thread at a time. */
#ifndef PW_NI_PASSAGE_H
#define PW_NI_PASSAGE_H
#include "ni/interleaving.h"
#include "ni/state.h"

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
    const uint32_t *crcs;
    const uint8_t *payload;
    pw_time start_ns; /* first packet, behind what the receive engine still did */
    pw_lane lane;     /* where its packets stand among those of the block that it shares the link
                         with; none: one behind the other */
    bool has_engine;  /* the receive engine took it */
    pw_time ready_ns; /* dropped: its pages are there from then on, if the unit knows */
    bool is_dropped;  /* the NI has no translation of a page: no answer */
    bool granted;     /* translated already, as its source knows */
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

/* answers_out.c */
/* sent_ns: a receive engine that is busy holds the block in the source's NI until then (flow
 * control of the links), and there the timeout must not run. */
void pw_answer_send(pw_ni *ni, const pw_block_frame *block, pw_time sent_ns, pw_reply out);
/* What the verdict says at the block's end; nothing when it was answered. */
void pw_verdict_answer(pw_ni *ni, const pw_arrival *arrival, pw_verdict by);

/* destination.c: the stages in groups, for blocks that come in pairs */
pw_passage pw_passage_of(const pw_block_frame *block);
/* Receive engine, transfer. */
pw_verdict pw_passage_enter(pw_ni *ni, pw_passage *way);
/* Nothing of its transfer arrives before it; its packets in the trace. */
void pw_passage_note(pw_ni *ni, const pw_passage *way);
/* CRC, duplicate. */
pw_verdict pw_passage_check(pw_ni *ni, pw_passage *way);
/* Translate each page at its first packet. */
pw_verdict pw_passage_translate(pw_ni *ni, pw_passage *way);
/* Notification, delivery. */
pw_verdict pw_passage_deliver(pw_ni *ni, pw_passage *way);
/* All that is behind the check. */
pw_verdict pw_passage_finish(pw_ni *ni, pw_passage *way);

/* arrival_faults.c */
/* First and last byte of a packet. */
void pw_passage_packet_range(const pw_block_frame *block, uint32_t packet, uint64_t *first,
                             uint64_t *last);
pw_fault pw_passage_fault(const pw_arrival *arrival);
void pw_faults_tell(pw_ni *ni, const pw_passage *way, const pw_fault *fault, uint64_t page,
                    pw_time at_ns);
/* Report the packet to the driver when it hits an absent page, or an active fault with HUPCF = 0.
 * Was it so? */
bool pw_faults_report_packet(pw_ni *ni, const pw_passage *way, pw_fault *fault, uint32_t packet);
void pw_faults_count_pages(pw_ni *ni, const pw_passage *way);
pw_verdict pw_faults_refuse_or_ask(pw_ni *ni, const pw_passage *way);
/* The stage behind translation. */
pw_verdict pw_faults_meet(pw_ni *ni, pw_passage *way);

#endif
