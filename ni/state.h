/* The state of an NI, and what its files use of each other. One NI, one thread at a time. */
#ifndef PW_NI_STATE_H
#define PW_NI_STATE_H
#include "native/calendar.h"
#include "ni/bounds.h"
#include "ni/control_frames.h"
#include "ni/host_events.h"
#include "ni/inbound.h"
#include "ni/ni.h"
#include "ni/path.h"
#include "ni/regions.h"
#include "native/impairments.h"
#include "native/frames.h"
#include "r5sched/firmware.h"
#include "driver/driver.h"
#include "translation/residency.h"
#include "mini/static_tables.h"
#include "odp/odp.h"
#include "smmu/unit.h"
#include "translation/unit.h"

#define PW_INBOUND_BUCKETS 1024
#define PW_GRANTS_KEPT 16

/* A block that met an absent page, until the driver has run. */
typedef struct {
    const pw_block_frame *block; /* in the host's burst, or in a held one */
    pw_inbound *inbound;
    pw_time sent_ns, end_ns;
    uint64_t num_fifo_full; /* injected until then */
    bool whole;
} pw_arrival;

/* A block whose pages are translated, until it is sent. */
typedef struct {
    pw_transaction *transaction;
    pw_time translated_ns, first_ns, last_ns; /* first, last packet at the destination */
    pw_time waited_ns;                        /* for send engine and link */
    uint64_t mask, interval_ps;
} pw_departure;

/* Two blocks that the R5 has issued together, until both are sent. */
typedef struct {
    const pw_transaction *first, *second;
    pw_block_frame *frame; /* of the first, when it has left */
} pw_pairing;

struct pw_held_burst;

struct pw_ni {
    pw_costs costs;
    pw_settings settings;
    pw_counters counters;
    pw_tallies tallies;
    uint32_t node, num_nodes;
    pw_memory *memory;
    pw_event_queue *events;
    pw_trace trace;
    pw_firmware firmware;
    pw_smmu smmu;
    pw_driver driver;
    pw_smmu_unit smmu_unit;
    pw_mini mini;
    pw_static_tables static_tables;
    pw_odp odp;
    pw_utlb_cache utlb;
    pw_translation_unit *translation; /* that of them that runs */
    pw_bounds bounds;                 /* that destinations want of this source */
    pw_impairments impairments;
    struct pw_kept_frame
        *copies_under_way; /* copies of blocks whose answers are not here, in the order they left */
    uint32_t num_copies_under_way;
    pw_time copy_answer_ns; /* earliest answer to one of them; PW_NEVER when there is none */
    pw_burst_pool *bursts;
    pw_calendar send_engine, receive_engine;
    uint64_t engine_byte_ps_1000;
    pw_path *paths;
    pw_residency *source_walks[PW_CHANNEL_PAGES]; /* one a channel, where the page is taken */
    pw_grant_frame grants[PW_GRANTS_KEPT]; /* last one of a stream, by hash: hints, nothing is lost
                                              with them */
    pw_inbound *inbounds[PW_INBOUND_BUCKETS];
    pw_inbound *free_inbounds;
    uint32_t num_inbounds, next_read;
    struct pw_sender **senders; /* by peer; NULL: it has written nothing yet */
    pw_regions regions;
    bool deadlock_told, shortage_told;
    bool advises; /* of fetches, before their transfers begin */
    pw_host_events host_events;
    int32_t failure; /* PW_ERR_* of the host's own that cost a frame or an event: nothing goes on */
    pw_actions actions; /* of the event under way */
    uint32_t next_action;
    pw_arrival arrival;
    pw_departure departure;
    pw_pairing pairing;
    pw_service service;   /* of the arrival or departure */
    bool decision_wanted; /* nothing goes on before the host's answer */
    uint64_t decision_id;
    struct pw_held_burst *first_held, *last_held; /* bursts that came meanwhile */
};

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
/* decision.c */
void pw_engine_ask(pw_ni *ni);
/* Keep a burst until the decision is there; what is before position has been handled. */
void pw_engine_hold(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes,
                    uint32_t position);
void pw_engine_drop_held(pw_ni *ni);

/* source.c */
void pw_source_start_block(pw_ni *ni, pw_transaction *transaction, pw_time at_ns,
                           pw_actions *failures);
/* ni->departure goes out, the driver has run. */
void pw_source_send_block(pw_ni *ni, pw_actions *failures);

/* notification.c */
/* Write the inbound's notification at *at_ns or later; *at_ns: when it is in memory. Negative when
 * the mapping has gone since the last block came. */
int pw_notification_write(pw_ni *ni, const pw_inbound *inbound, pw_time *at_ns);

/* impaired_network.c; only when ni->impairments.any */
/* The packets of the mask that the network does not lose. */
uint64_t pw_network_lose(pw_ni *ni, uint32_t peer, pw_transaction *transaction, uint64_t identity,
                         uint64_t mask, pw_time at_ns);
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
void pw_network_alter(pw_ni *ni, uint32_t peer, uint32_t channel, pw_block_frame *frame,
                      uint32_t covered_bytes);
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
#endif
