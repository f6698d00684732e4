/* The engine's state, shared by engine.c (composition), engine_source.c, engine_destination.c and
 * engine_decision.c. */
#ifndef PW_NATIVE_ENGINE_STATE_H
#define PW_NATIVE_ENGINE_STATE_H
#include "native/calendar.h"
#include "native/engine.h"
#include "native/fault_injection.h"
#include "native/frames.h"
#include "r5sched/firmware.h"
#include "smmu/driver.h"
#include "smmu/walk.h"

/* How a packet gets to a peer. Inside a QFDB every pair of nodes has its own link (1 hop); between
 * QFDBs a packet leaves and enters through a network node, and QFDBs form a ring (assumed): distance
 * + 2 hops at the slower link. Links on the way are not shared between pairs. */
typedef struct {
    uint64_t packet_ps;         /* a full packet on the link */
    uint64_t byte_ps_1000;      /* 1000 x picoseconds of one byte on the link */
    pw_time latency_ns;         /* NI, hops, NI; without serialisation */
    pw_calendar link;
} pw_path;

/* What the destination knows of a stream of blocks. */
typedef struct pw_landing {
    struct pw_landing *next;    /* hash chain, or free list */
    uint64_t destination_address, num_bytes;
    uint64_t *delivered;        /* bit a block; inside small while that is enough */
    uint64_t small[8];
    pw_notification notification;
    pw_time notification_ns;    /* stall: its access waits until then */
    uint32_t peer, stream;
    uint16_t pdid;
    uint32_t num_blocks, num_delivered;
    bool is_read, notified, complete, closed, has_page_ins;
    uint64_t granted_generation;    /* of the memory, when the blocks were granted */
    uint32_t granted_end;       /* blocks before this one are translated already */
    uint8_t translations[2 * PW_GRANT_BLOCKS];  /* ring by block: how its first page is translated */
    int32_t error;
    pw_time last_delivery_ns, notified_ns;
    pw_walk walk;
} pw_landing;

#define PW_LANDING_BUCKETS 1024
#define PW_GRANTS_KEPT 16

typedef struct {
    uint64_t address, num_bytes, key;   /* key 0: free */
    pw_scheduling scheduling;           /* of the transfer that serves the read */
    uint32_t peer, generation;
    int32_t next_free;
    bool reading;
    bool stays;                         /* any peer may read, any number of times */
} pw_region;

/* A block that met an absent page, until the driver has run. */
typedef struct {
    const pw_block_frame *block;    /* in the host's burst, or in a held one */
    pw_landing *landing;
    pw_time sent_ns, end_ns;
    uint64_t num_fifo_full;         /* injected until then */
    bool whole;
} pw_arrival;

/* A block whose pages are translated, until it is sent. */
typedef struct {
    pw_transaction *transaction;
    pw_time translated_ns, first_ns, last_ns;   /* first, last packet at the destination */
    uint64_t mask, interval_ps;
} pw_departure;

struct pw_held_burst;

struct pw_ni {
    pw_costs costs;
    pw_settings settings;
    pw_counters counters;
    uint32_t node, num_nodes;
    pw_memory *memory;
    pw_event_queue *events;
    pw_trace trace;
    pw_firmware firmware;
    pw_smmu smmu;
    pw_driver driver;
    pw_faults faults;
    struct pw_kept_frame *copies_under_way;     /* copies of blocks whose answers are not here, in the order they left */
    uint32_t num_copies_under_way;
    pw_time copy_answer_ns;         /* earliest answer to one of them; PW_NEVER when there is none */
    pw_burst_pool *bursts;
    pw_calendar send_engine, receive_engine;
    uint64_t engine_byte_ps_1000;
    pw_path *paths;
    pw_walk *source_walks[PW_CHANNEL_PAGES];    /* one a channel, where the page is taken */
    pw_grant_frame grants[PW_GRANTS_KEPT];      /* last one of a stream, by hash: hints, nothing is lost with them */
    pw_landing *landings[PW_LANDING_BUCKETS];
    pw_landing *free_landings;
    uint32_t num_landings, next_read;
    pw_region *regions;
    uint32_t regions_capacity;
    int32_t free_region;
    uint32_t num_regions;
    bool deadlock_told;
    pw_host_event *host_events;                 /* ring */
    uint32_t host_capacity, host_head, num_host_events;
    pw_actions actions;                         /* of the event under way */
    uint32_t next_action;
    pw_arrival arrival;
    pw_departure departure;
    pw_service service;                         /* of the arrival or departure */
    bool decision_wanted;                       /* nothing goes on before the host's answer */
    uint64_t decision_id;
    struct pw_held_burst *first_held, *last_held;   /* bursts that came meanwhile */
};

int pw_error_of_nack(uint32_t code);
uint32_t pw_nack_of_error(int code);
void pw_engine_emit(pw_ni *ni, uint32_t kind, uint64_t id, int error, pw_time at_ns, uint64_t num_bytes, uint32_t peer);
void pw_engine_emit_event(pw_ni *ni, const pw_host_event *event);
/* Append a control frame that arrives at arrival_ns; CRC is filled in. */
void pw_engine_send_control(pw_ni *ni, uint32_t peer, const pw_control_frame *frame);
/* Ask the peer's R5 for a read. When the request is posted, or PW_ERR_*. */
int64_t pw_engine_request_read(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t key, uint64_t source_address,
                               uint64_t destination_address, uint64_t num_bytes, const pw_notification *notification,
                               pw_time at_ns, uint64_t *id);
void pw_frame_seal(pw_frame_header *header, uint32_t covered_bytes);
bool pw_frame_is_sound(const pw_frame_header *header, uint32_t covered_bytes);

/* Does the state let the access through? With the ideal memory a mapped page never faults. */
static inline bool pw_state_is_present(const pw_ni *ni, int state)
{
    return state == PW_PAGE_PRESENT || (ni->settings.ideal && (state == PW_PAGE_ABSENT || state == PW_PAGE_WRITE_PROTECTED));
}
/* Is it the page's protection that stops the access? A page in page-in is not what its state says yet. */
static inline bool pw_state_is_permission(const pw_ni *ni, int state, uint64_t page)
{
    if (state == PW_PAGE_PRESENT) return pw_page_in_is_permission(&ni->driver.page_in, page);
    return state == PW_PAGE_WRITE_PROTECTED || state == PW_PAGE_FORBIDDEN;
}
/* No page-in will be tried: what the access ends with, or PW_OK. The ideal memory pages nothing in. */
static inline int pw_state_error(const pw_ni *ni, pw_walk *walk, int state, uint64_t page)
{
    if (state < 0) return state;
    if (state == PW_PAGE_UNMAPPED) return PW_ERR_ADDRESS;
    if (!ni->settings.ideal || state == PW_PAGE_PRESENT) return PW_OK;
    return state == PW_PAGE_FORBIDDEN ? PW_ERR_PROTECTION : pw_walk_check_mapping(walk, ni->memory, page);
}
/* A transfer over these bytes begins here. */
void pw_engine_begin_transfer(pw_ni *ni, uint16_t pdid, uint64_t address, uint64_t num_bytes);
void pw_engine_count_fault(pw_ni *ni, bool at_destination, bool is_permission);

/* Stall mode: an access to the page, translated at at_ns. Waits for RESUME as often as it must; returns when it
 * is done, or terminated with *code < 0. */
pw_time pw_engine_access(pw_ni *ni, pw_walk *walk, const pw_fault *fault, uint64_t page, pw_time at_ns, int *code);

/* Do what the firmware ordered, from where it stopped; stops when a decision is wanted. */
void pw_engine_perform(pw_ni *ni);
/* Handle frames until a decision is wanted; how many bytes were taken. *result: PW_ERR_MALFORMED when part was dropped. */
uint32_t pw_engine_receive(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes, int *result);

/* engine_decision.c */
void pw_engine_ask(pw_ni *ni);
/* Keep a burst until the decision is there; what is before position has been handled. */
void pw_engine_hold(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes, uint32_t position);
void pw_engine_drop_held(pw_ni *ni);

/* engine_source.c */
void pw_source_start_block(pw_ni *ni, pw_transaction *transaction, pw_time at_ns, pw_actions *failures);
/* ni->departure goes out, the driver has run. */
void pw_source_send_block(pw_ni *ni, pw_actions *failures);
void pw_source_accept_grant(pw_ni *ni, const pw_grant_frame *grant);
int pw_source_accept_read(pw_ni *ni, const pw_read_request_frame *request);

/* engine_notification.c */
/* May the notification of the landing be written at at_ns? Negative: never. */
int pw_notification_check(pw_ni *ni, const pw_landing *landing, pw_time at_ns, bool *present);
/* Write it; *at_ns: when it stands in memory. Negative when the mapping has gone since the last block came. */
int pw_notification_write(pw_ni *ni, const pw_landing *landing, pw_time *at_ns);

/* engine_faults.c; only when ni->faults.any */
/* The packets of the mask that the network does not lose. */
uint64_t pw_network_lose(pw_ni *ni, uint32_t peer, pw_transaction *transaction, uint64_t identity, uint64_t mask, pw_time at_ns);
/* Delay the block by *held_ns. True when its attempt is over before an answer can be here. */
bool pw_network_delay(pw_ni *ni, uint32_t peer, pw_transaction *transaction, uint64_t identity,
                      pw_time *first_ns, pw_time *last_ns, pw_time *held_ns);
/* Room for a frame that the network keeps: it leaves when the clock is at its arrival less the way. */
pw_block_frame *pw_network_keep(pw_ni *ni, enum pw_fault_site_id site, uint32_t peer, uint32_t channel,
                                uint32_t frame_bytes, pw_time arrival_ns);
/* PW_EVENT_DEPARTURE: a kept frame leaves, or is dropped because its transfer is over. */
void pw_network_let_go(pw_ni *ni, const pw_event *event);
/* Every answer to the copy that left first for the peer is here. False when there is no such copy. */
bool pw_network_settle(pw_ni *ni, uint32_t peer);
/* Free what is kept still, with every other event. */
void pw_network_forget(pw_ni *ni);
/* Damage a sealed frame's payload and keep the copy that the network makes. */
void pw_network_alter(pw_ni *ni, uint32_t peer, uint32_t channel, pw_block_frame *frame, uint32_t covered_bytes);
/* Is the answer to a block lost? part: which of several. */
bool pw_answer_is_lost(pw_ni *ni, enum pw_fault_site_id site, const pw_block_frame *block, uint32_t part, pw_time at_ns);

/* engine_destination.c */
pw_landing *pw_landing_find(pw_ni *ni, uint32_t peer, uint32_t stream);
pw_landing *pw_landing_create(pw_ni *ni, uint32_t peer, uint32_t stream, uint64_t destination_address, uint64_t num_bytes,
                              const pw_notification *notification);
void pw_landing_close(pw_ni *ni, pw_landing *landing);
void pw_landing_fail(pw_ni *ni, pw_landing *landing, int error, pw_time at_ns);
void pw_landing_notified(pw_ni *ni, pw_landing *landing, pw_time at_ns);
/* Look at the pages of the stream's next blocks and tell the source, when that can help. */
void pw_destination_grant(pw_ni *ni, pw_landing *landing);
void pw_destination_block(pw_ni *ni, const pw_block_frame *block);
/* The block is answered. A copy's source is told, since it cannot know how many answers there are. */
void pw_destination_answered(pw_ni *ni, const pw_block_frame *block);
/* Answer ni->arrival, the driver has run. */
void pw_destination_refuse(pw_ni *ni);
#endif
