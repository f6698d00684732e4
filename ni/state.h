/* The state of an NI, and what its files use of each other; private to ni/. One NI, one thread at a
 * time. */
#ifndef PW_NI_STATE_H
#define PW_NI_STATE_H
#include "native/calendar.h"
#include "native/peers.h"
#include "native/pool.h"
#include "native/costs.h"
#include "network/demand.h"
#include "network/links.h"
#include "ni/ni.h"
#include "native/frames.h"
#include "smmu/residency.h"
#include "r5sched/scheduler.h"
#include "ni/regions.h"
#include "native/impairments.h"
#include "r5sched/firmware.h"
#include "driver/driver.h"
#include "smmu/unit.h"
#include "driver/library_thread.h"

/* The way of a packet to a peer. Without links of a network that all nodes share (ni->links) each
 * pair has one of its own, at the rate of the slowest on the way. */
typedef struct {
    pw_peer peer;
    uint64_t packet_ps;    /* PW_PACKET_BYTES on the link, with their headers */
    uint64_t byte_ps_1000; /* 1000 x picoseconds of one byte on the link */
    pw_time latency_ns;    /* NI, hops, NI; without serialisation */
    pw_calendar link;
    bool stays;       /* within the node: over no link of the network */
    bool is_unsealed; /* see pw_ni_set_unsealed_to */
    pw_unloaded unloaded;
    struct {
        bool is_set;
        uint32_t stream, block_idx;
        pw_time at_ns;
    } lost; /* a block of the peer that was dropped here and has not come again */
} pw_path;

/* What moves a node's blocks between its memory and the network. */
typedef struct {
    pw_calendar send, receive;
    pw_calendar limiter; /* of firmware.rate_limit: each block takes its bytes over the rate */
} pw_engines;

/* Inbound transfers: what the destination knows of each stream of blocks until it is complete here
 * and closed by its source. */
typedef struct pw_inbound {
    struct pw_inbound *next; /* hash chain, or free list */
    uint64_t destination_address, num_bytes;
    uint64_t *delivered; /* bit a block: few while that is enough, else many */
    uint64_t few, *many; /* many: NULL, or of many_words; stays for the next transfer */
    uint32_t many_words;
    pw_notification notification;
    pw_time notification_ns; /* stall: its access waits until then */
    uint32_t peer, stream;
    uint16_t pdid;
    uint32_t num_blocks, num_delivered;
    bool is_read, notified, complete, closed, has_page_ins;
    bool refused; /* going back: the source was told of the next block, and has not sent it again */
    uint64_t granted_generation; /* of the memory, when the blocks were granted */
    uint32_t granted_end;        /* blocks before this one are translated already */
    uint8_t *translations;       /* ring of 2 * PW_GRANT_BLOCKS by block: how its first page is
                                    translated; NULL: nothing was granted yet */
    int32_t error;
    pw_time last_delivery_ns, notified_ns;
    pw_time bound_ns;     /* nothing more of it arrives before */
    pw_time requested_ns; /* a read: when the source has its request */
    pw_residency walk;
} pw_inbound;

pw_inbound *pw_inbound_find(pw_ni *ni, uint32_t peer, uint32_t stream);
/* NULL when the host has no memory. */
pw_inbound *pw_inbound_create(pw_ni *ni, uint32_t peer, uint32_t stream,
                              uint64_t destination_address, uint64_t num_bytes,
                              const pw_notification *notification);
/* Free every one, at the end of the NI. */
void pw_inbound_destroy_all(pw_ni *ni);
/* The source's word that every block has left. */
void pw_inbound_notified(pw_ni *ni, pw_inbound *inbound, pw_time at_ns);
/* Complete it when every block is here and the source has said so. */
void pw_inbound_complete_when_whole(pw_ni *ni, pw_inbound *inbound);
/* The source will send nothing more: gone as soon as it is complete. */
void pw_inbound_close(pw_ni *ni, pw_inbound *inbound);
/* The transfer ends with an error, if it was not complete; the inbound is gone. */
void pw_inbound_fail(pw_ni *ni, pw_inbound *inbound, int error, pw_time at_ns);
/* The reads from peer of which no block has come end with PW_ERR_MALFORMED, at time 0: it is not
 * known when what would have answered them was lost. */
void pw_inbound_fail_unserved(pw_ni *ni, uint32_t peer);

/* Bounds between source and destination of a transfer: emulation only, in virtual time nothing
 * changes.
 *
 * An ERR depends on entries that may still arrive while the tasklet runs. So a destination that
 * refuses a block says "no ERR before L" (NACK, ERR_LATER); the source decides what lies before L
 * and says "no block of mine before T" (BOUND); an ERR that leaves before T is final, and is sent.
 */

typedef struct {
    pw_time leaves_ns; /* from here: what comes no earlier is all that the destination waits for */
    uint32_t stream, channel;
} pw_wanted_bound;

typedef struct {
    pw_wanted_bound *wanted; /* one a channel at most */
    uint32_t num_wanted, capacity;
    pw_time earliest_ns; /* of them; one that is over may be among them */
    pw_time known_ns;    /* in order: nothing arrives here before */
    pw_time err_ns;      /* nor does an ERR leave; PW_NEVER: none is to be sent */
} pw_bounds;

/* Source: an answer said that an ERR comes; its destination wants a bound of the transfer. */
void pw_bounds_want(pw_ni *ni, const pw_control_frame *answer);
/* Source: send the bounds that are wanted and reach far enough as things are now. */
void pw_bounds_announce(pw_ni *ni);
/* In order: nothing arrives before known_ns. Sends the ERRs that leave until then. */
void pw_bounds_reach(pw_ni *ni, pw_time known_ns);
/* Destination: a block of the transfer was refused, and may get an ERR. */
void pw_bounds_refused(pw_ni *ni, const pw_inbound *inbound);
/* Destination: nothing of the transfer arrives before at_ns. Sends ERRs that are final by it. */
void pw_bounds_note(pw_ni *ni, pw_inbound *inbound, pw_time at_ns);
/* PW_FRAME_BOUND came. PW_OK. */
int pw_bounds_on_frame(pw_ni *ni, const pw_frame_header *frame);
/* Destination: nothing of the transfer arrives any more. */
void pw_bounds_release(pw_ni *ni, pw_inbound *inbound);

#define PW_GRANTS_KEPT 16

/* A block that met an absent page, until the driver has run. */
typedef struct {
    const pw_block_frame *block; /* in the host's burst, or in a held one */
    pw_inbound *inbound;
    pw_time sent_ns, end_ns;
    uint64_t num_fifo_full; /* injected until then */
    bool whole;
} pw_arrival;

/* Two blocks that the R5 has issued together, until both are sent. */
typedef struct {
    const pw_transaction *first, *second;
    pw_block_frame *frame; /* of the first, when it has left */
} pw_pairing;

/* Reads that are foreseen. */
typedef struct {
    void (*keep)(void *owner); /* see pw_ni_set_keeper */
    void *owner;
    bool is_promised;
    bool is_asked; /* source: by reader, stream; nothing else was to do, and has been asked since */
    bool is_kept;  /* source: the reader has taken `kept`, which is still to leave */
    bool was_wrong;
    uint16_t how; /* is_asked: the block's first page will be translated */
    uint32_t reader, stream;
    pw_block_frame kept, left;
    struct pw_known_read *known; /* reader; NULL: none */
} pw_ahead;

/* What NIs with the same costs and settings share. */
typedef struct {
    uint32_t num_users;
    pw_costs costs;
    pw_settings settings;
} pw_ni_rules;

struct pw_ni {
    const pw_costs *costs; /* these two: of the rules */
    const pw_settings *settings;
    pw_ni_rules *rules;
    pw_counters counters;
    pw_tallies tallies;
    uint32_t node, num_nodes;
    pw_memory *memory;
    pw_event_queue *events;
    pw_trace trace;
    pw_firmware firmware;
    pw_smmu smmu;
    pw_driver driver;
    pw_translation_unit *translation;
    pw_bounds bounds; /* that destinations want of this source */
    pw_impairments impairments;
    struct pw_kept_frame
        *copies_under_way; /* copies of blocks whose answers are not here, in the order they left */
    uint32_t num_copies_under_way;
    pw_time copy_answer_ns; /* earliest answer to one of them; PW_NEVER when there is none */
    pw_burst_pool *bursts;
    pw_time past_ns;                  /* in order: nothing is booked any more that far back */
    pw_engines own_engines, *engines; /* the latter of one NI of the node */
    bool shares_node;                 /* these and more, with another NI */
    pw_occupancy kept;                /* blocks whose pages are not there yet */
    pw_calendar copier;               /* software that copies them to where they belong */
    uint64_t engine_byte_ps_1000;
    uint64_t packet_bytes;       /* payload of a packet on the link, at most: FRDMA's or ZDMA's */
    pw_peers paths;              /* of pw_path */
    uint32_t machine_nodes;      /* see pw_ni_set_machine_nodes */
    const pw_topology *topology; /* the host's, or NULL: */
    pw_topology *own_topologies[2]; /* the machine's own, of machine_nodes and of num_nodes */
    pw_links *links;                /* NULL: each pair of nodes has one, */
    pw_peers demands;               /* and what left for each peer is noted: of pw_demand */
    pw_forwarding *forwarding;      /* NULL: blocks pass as a whole */
    pw_path no_path; /* where there is no memory for one, after which nothing goes on */
    pw_residency **source_walks[PW_CHANNEL_PAGES]; /* of a channel that has sent a block, where the
                                                    * page is taken */
    pw_grant_frame *grants; /* PW_GRANTS_KEPT, the last one of a stream, by hash: hints, nothing is
                             * lost with them; NULL: none came */
    pw_inbound **inbounds;  /* buckets of chains */
    uint32_t num_inbound_buckets; /* a power of two, or 0 */
    pw_inbound *free_inbounds;
    uint32_t num_inbounds, next_read;
    uint32_t num_arriving; /* of the inbounds: those that are not complete */
    pw_peers senders;      /* of struct pw_sender: who has written something */
    pw_regions regions;
    bool deadlock_told, shortage_told;
    bool has_no_bytes;    /* see pw_ni_set_without_bytes */
    bool is_unsealed;     /* to all peers: see pw_ni_set_unsealed */
    bool advises;         /* of fetches, before their transfers begin */
    pw_queue host_events; /* in the order in which they came up */
    pw_pool host_event_pool;
    uint32_t num_host_events;
    uint64_t num_events; /* run so far, and frames handled */
    int32_t failure; /* PW_ERR_* of the host's own that cost a frame or an event: nothing goes on */
    pw_actions actions; /* of the event under way */
    uint32_t next_action;
    pw_arrival arrival;
    struct {
        uint32_t channel;
        pw_time at_ns;
    } source_fault; /* that the driver runs for */
    pw_pairing pairing;
    pw_ahead ahead;
    pw_service service;   /* of the arrival or the fault at the source */
    bool decision_wanted; /* nothing goes on before the host's answer */
    uint64_t decision_id;
    pw_queue held; /* bursts that came meanwhile */
};

pw_path *pw_ni_make_path(pw_ni *ni, uint32_t peer);
/* The way to a peer, and from it. */
static inline pw_path *pw_ni_path(pw_ni *ni, uint32_t peer)
{
    const pw_peer_slot *latest = &ni->paths.latest;
    return latest->item && latest->peer == peer ? (pw_path *)(void *)latest->item
                                                : pw_ni_make_path(ni, peer);
}

/* What a block's bytes are on the link: each packet has a header. */
static inline uint64_t pw_link_bytes(const pw_ni *ni, uint64_t num_bytes)
{
    uint64_t num_packets = (num_bytes + ni->packet_bytes - 1) / ni->packet_bytes;
    return num_bytes + num_packets * (uint64_t)ni->costs->packet_header_bytes;
}

/* What the CRC of a block's frame covers, and all of the frame: as it is, and with its bytes. */
static inline uint32_t pw_block_covered_bytes(const pw_ni *ni, uint32_t num_packets)
{
    return (uint32_t)sizeof(pw_block_frame) +
           (ni->has_no_bytes ? 0 : (num_packets * 4u + 7u) & ~7u);
}
static inline uint32_t pw_block_full_bytes(uint32_t num_packets, uint32_t block_bytes)
{
    uint32_t covered = (uint32_t)sizeof(pw_block_frame) + ((num_packets * 4u + 7u) & ~7u);
    return (covered + block_bytes + 7u) & ~7u;
}
static inline uint32_t pw_block_frame_bytes(const pw_ni *ni, uint32_t num_packets,
                                            uint32_t block_bytes)
{
    return ni->has_no_bytes ? (uint32_t)(sizeof(pw_block_frame) + sizeof(uint64_t))
                            : pw_block_full_bytes(num_packets, block_bytes);
}
/* Nothing can damage what goes to the peer, or comes from it. */
static inline bool pw_ni_is_unsealed(pw_ni *ni, uint32_t peer)
{
    return ni->is_unsealed || pw_ni_path(ni, peer)->is_unsealed;
}
/* Fill in the CRC of a frame to the peer. */
static inline void pw_ni_seal(pw_ni *ni, uint32_t peer, pw_frame_header *header,
                              uint32_t covered_bytes)
{
    if (pw_ni_is_unsealed(ni, peer)) header->crc = 0;
    else pw_frame_seal(header, covered_bytes);
}
/* Without bytes: which packets of the block were damaged. */
static inline uint64_t *pw_block_damaged(pw_block_frame *block) { return (uint64_t *)(block + 1); }

void pw_engine_emit(pw_ni *ni, uint32_t kind, uint64_t id, int error, pw_time at_ns,
                    uint64_t num_bytes, uint32_t peer);
void pw_engine_emit_event(pw_ni *ni, const pw_host_event *event);
/* Something was lost for want of memory, or the like: pw_ni_run returns the code from now on. The
 * first code counts; returns code. */
int pw_ni_latch(pw_ni *ni, int code);

/* A transfer over these bytes begins here. */
void pw_ni_begin_transfer(pw_ni *ni, uint16_t pdid, uint64_t address, uint64_t num_bytes);
/* Tally and trace an access of a block that the translation unit itself brings pages in for. */
void pw_ni_note_unit_fault(pw_ni *ni, enum pw_trace_kind kind, uint32_t source_node,
                           uint32_t transaction_id, const pw_access *access,
                           const pw_access_result *result);
/* Count an access that faults; and trace it. */
void pw_ni_count_page_fault(pw_ni *ni, bool at_destination, bool is_permission, uint64_t page,
                            pw_time at_ns);
void pw_ni_count_fault(pw_ni *ni, const pw_fault *fault, uint64_t page, pw_time at_ns);

/* Do what the firmware ordered, from where it stopped; stops when a decision is wanted. */
void pw_engine_perform(pw_ni *ni);
/* The region is known no more, to the translation unit either. */
void pw_engine_close_region(pw_ni *ni, pw_region *region);
/* dispatch.c: while the host decides */
void pw_engine_ask(pw_ni *ni);
/* Keep a burst until the decision is there; what is before position has been handled. */
void pw_engine_hold(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes,
                    uint32_t position);
void pw_engine_drop_held(pw_ni *ni);

/* ni.c: run events until the block that was promised has left, or nothing is to do. */
void pw_engine_run_kept(pw_ni *ni);

/* foreseen.c: reads that are foreseen */
/* Something is about to be asked of this NI. */
static inline void pw_ahead_disturb(pw_ni *ni)
{
    ni->ahead.is_asked = false;
    if (ni->ahead.is_promised) pw_ni_keep(ni);
}
/* Source: a read is here, and is not with the firmware yet. */
void pw_ahead_asked(pw_ni *ni, const pw_read_request_frame *request);
/* Source: is the block that leaves, whose translation took delay_ns, what any such read gets? */
bool pw_ahead_was_asked(const pw_ni *ni, const pw_transfer *transfer, pw_time delay_ns);
/* Source: has its reader the transfer's block? Then it need not be sent, */
bool pw_ahead_is_kept(const pw_ni *ni, const pw_transfer *transfer);
/* but `left` must be the one that was taken. */
void pw_ahead_left(pw_ni *ni);
/* Reader: from now on it remembers what reads get; without memory none is foreseen. */
void pw_ahead_begin(pw_ni *ni);
/* Reader: a block that is what any such read gets. */
void pw_ahead_learn(pw_ni *ni, const pw_block_frame *block);

/* source.c */
void pw_source_start_block(pw_ni *ni, pw_transaction *transaction, pw_time at_ns,
                           pw_actions *failures);
/* PW_EVENT_BLOCK_DUE: a block that waited for packets of its transfer starts. */
/* The network has let its block through: the frame gets its times. */
void pw_source_passed(pw_ni *ni, uint32_t peer, pw_block_frame *frame,
                      const pw_forwarding_out *passed);
void pw_source_due(pw_ni *ni, const pw_event *event, pw_actions *failures);
/* PW_EVENT_SOURCE_FAULT: a read of a block meets an absent page. */
void pw_source_fault(pw_ni *ni, const pw_event *event, pw_actions *failures);
/* The driver has run for ni->source_fault. */
void pw_source_fault_served(pw_ni *ni, pw_actions *failures);

/* accesses.c */
/* Write the inbound's notification at *at_ns or later; *at_ns: when it is in memory. Negative when
 * the mapping has gone since the last block came. */
int pw_notification_write(pw_ni *ni, const pw_inbound *inbound, pw_time *at_ns);

/* impaired_network.c; only when ni->impairments.any */
/* The packets of the mask that the network does not lose. site: PACKET_LOSS, where 0, or LINK_LOSS
 * on the link where - 1. */
uint64_t pw_network_lose(pw_ni *ni, enum pw_impairment_id site, uint64_t where, uint32_t peer,
                         pw_transaction *transaction, uint64_t identity, uint64_t mask,
                         pw_time at_ns);
/* Delay the block by *held_ns. True when its attempt is over before an answer can be here. */
bool pw_network_delay(pw_ni *ni, uint32_t peer, pw_transaction *transaction, uint64_t identity,
                      pw_time *first_ns, pw_time *last_ns, pw_time *held_ns);
/* Room for a frame that the network keeps: it leaves when the clock is at its arrival less the way.
 */
pw_block_frame *pw_network_keep(pw_ni *ni, enum pw_impairment_id site, uint32_t peer,
                                uint32_t channel, uint32_t frame_bytes, pw_time arrival_ns);
/* PW_EVENT_DEPARTURE: a kept frame leaves, or is dropped because its transfer is over. */
void pw_network_let_go(pw_ni *ni, const pw_event *event);
/* Is the copy at the peer that this claims to answer, and not all of its answers here? */
bool pw_network_has_copy(const pw_ni *ni, const pw_control_frame *answer);
/* Every answer to the copy that left first for the peer is here. False when there is no such copy.
 */
bool pw_network_settle(pw_ni *ni, uint32_t peer);
/* Free what is kept still, with every other event. */
void pw_network_forget(pw_ni *ni);
/* Damage a sealed frame's payload and keep the copy that the network makes. */
void pw_network_alter(pw_ni *ni, uint32_t peer, uint32_t channel, pw_block_frame *frame);
/* Is the answer to a block lost? part: which of several. */
bool pw_answer_is_lost(pw_ni *ni, enum pw_impairment_id site, const pw_block_frame *block,
                       uint32_t part, pw_time at_ns);

/* destination.c */
void pw_destination_block(pw_ni *ni, const pw_block_frame *block);
/* The block is answered. A copy's source is told, since it cannot know how many answers there are.
 */
void pw_destination_answered(pw_ni *ni, const pw_block_frame *block);
/* Answer ni->arrival, the driver has run. */
void pw_destination_refuse(pw_ni *ni);

/* Control frames out: answers to blocks and news of transfers; and how errors look on the wire. */

/* PW_ERR_* of a NACK's code, and the code of an error. */
int pw_error_of_nack(uint32_t code);
uint32_t pw_nack_of_error(int code);
/* A control frame about a block that came here, which says nothing else yet. */
pw_control_frame pw_control_of_block(const pw_block_frame *block, enum pw_frame_kind kind,
                                     uint8_t flags, pw_time arrives_ns);
/* Append a control frame that arrives at header.time_ns; magic, length, node and CRC are filled in.
 */
void pw_engine_send_control(pw_ni *ni, uint32_t peer, const pw_control_frame *frame);
/* A frame about a transfer that leaves at at_ns. */
void pw_control_send_plain(pw_ni *ni, enum pw_frame_kind kind, uint32_t peer, uint32_t stream,
                           uint32_t code, pw_time at_ns);

/* Senders: what a destination keeps of each peer that writes to it, beyond the end of a transfer. A
 * block of a transfer that its source has ended is no new one: what stood in memory since would be
 * overwritten by old bytes. A node has channels for so many transfers at a time and no more.
 *
 * Not seen: a block of a transfer behind whose end PW_ENDED_KEPT others of the same peer ended in
 * its slot's place; the machine sees none at all. */

#define PW_ENDED_KEPT 1024

/* May the peer begin a write of this stream? Counted when not. */
bool pw_senders_admit(pw_ni *ni, uint32_t peer, uint32_t stream);
/* The peer says that it will send no more of the stream. */
void pw_senders_ended(pw_ni *ni, uint32_t peer, uint32_t stream);

/* Look-ahead: the destination translates the next blocks of a lone transfer and tells the source,
 * which then knows when their ACKs will be here and need not wait for them in wall time. Virtual
 * times are the same without it. */

/* Destination: look at the pages of the stream's next blocks and tell the source, when that can
 * help. */
void pw_lookahead_grant(pw_ni *ni, pw_inbound *inbound);
/* Destination: may the block still be written as it was granted? Not when the OS has changed its
 * pages since. */
bool pw_lookahead_holds(pw_ni *ni, pw_inbound *inbound, const pw_block_frame *block);
/* Source: PW_FRAME_GRANT came, and is kept; the last one of a stream counts. PW_OK. */
int pw_lookahead_on_grant(pw_ni *ni, const pw_frame_header *frame);
/* Source: when the block's ACK will be here, if that is certain but for other flows at the
 * destination: it has translated the pages, and an idle receive engine takes packets as they come.
 */
bool pw_lookahead_foresee(pw_ni *ni, const pw_transfer *transfer, const pw_transaction *transaction,
                          const pw_block_frame *frame, pw_time *ack_ns);

/* The NI's own copies from and to the program's memory, which is mapped, and was present a moment
 * ago. Where a file is mapped the copy survives that the file has been truncated since. */

/* Read the packets of the mask and compute their CRCs (crcs NULL: none); the others are zero. walk:
 * of these bytes. PW_ERR_ADDRESS when they cannot be read any more. */
int pw_copy_packets_in(const pw_residency *walk, uint8_t *payload, uint64_t address,
                       uint32_t num_bytes, uint64_t mask, uint32_t *crcs);
/* Write a block. PW_ERR_ADDRESS when its pages cannot be written any more: a part may stand there.
 */
int pw_copy_block_out(const pw_residency *walk, uint64_t address, const uint8_t *payload,
                      uint32_t num_bytes);

/* Accesses that wait (SCTLR.CFCFG = 1). */

/* An access to the page, translated at at_ns: returns when it is done, or can never be, with
 * *code < 0. */
pw_time pw_stall_access(pw_ni *ni, pw_residency *walk, const pw_fault *fault, uint64_t page,
                        pw_time at_ns, int *code);

/* Pairs of blocks whose packets share the link in turn (ni.interleave = packet). Assumed: blocks of
 * a transfer that the R5 issues together interleave; one that it issues alone, when an
 * acknowledgement has come, or again, does not. No pair either where impairments are on, where a
 * block was not read to its end, or where its acknowledgement was foreseen. */

/* The source: */
/* The action is about to be done: does the next one start the block that goes with this one's? */
void pw_pair_expect(pw_ni *ni, const pw_action *action, const pw_action *next);
/* The frame is sealed, and all of the block is in it. The pair's second one: mark the first. When
 * the last packet arrives at the earliest. */
pw_time pw_pair_join(pw_ni *ni, const pw_transaction *transaction, pw_block_frame *frame);

/* The destination: */
/* Do these two sane blocks, the first one marked, share the link? */
bool pw_pair_is_sane(const pw_ni *ni, const pw_block_frame *first, const pw_block_frame *second);
void pw_destination_pair(pw_ni *ni, const pw_block_frame *first, const pw_block_frame *second);

#endif
