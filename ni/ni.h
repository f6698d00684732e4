/* The network interface of one rank: source, destination, their events in virtual time.
 *
 * The engine of one rank: NI, firmware, SMMU, fault driver and their event queue, composed. Knows
 * no MPI and no Python and reads no clock: bursts of frames out and in, virtual time as an
 * argument, completions as events. One handle, one thread at a time. */
#ifndef PW_NI_NI_H
#define PW_NI_NI_H
#include "native/frames.h"
#include "native/costs.h"
#include "network/forwarding.h"
#include "native/counters.h"
#include "native/settings.h"
#include "native/impairments.h"
#include "native/memory.h"
#include "native/pinned.h"
#include "native/tallies.h"
#include "native/trace.h"
#include "r5sched/descriptor.h"
#include "smmu/smmu.h"

/* cdef begin */
typedef struct pw_ni pw_ni;

#define PW_HOST_EXPOSE_DONE 1 /* id: key of the region; its one read is over */
#define PW_HOST_FETCH_DONE 2  /* id: of the fetch; the bytes are there */
#define PW_HOST_WRITE_DONE 3  /* id: of the write; every block is acknowledged */
#define PW_HOST_ARRIVED 4     /* id: stream of a remote write that is complete here */
#define PW_HOST_DECISION                                                                \
    5 /* id: of the decision, from 1 on, no other event's: which pages to bring in, who \
       * sends the ERR */
#define PW_HOST_DEADLOCK 6 /* the R5's mailbox is blocked for ever: see PW_ERR_DEADLOCK */
#define PW_HOST_NOTIFIED \
    7 /* id: address of the notification, which stands there; with an error: never will */
#define PW_HOST_FRAMES_SHORT 8 /* told once: see PW_ERR_FRAMES, with which a transfer here ends */

typedef struct {
    uint32_t kind;
    int32_t error; /* PW_OK or PW_ERR_* */
    uint64_t id;
    int64_t time_ns;
    uint64_t num_bytes;
    uint32_t peer;
    uint32_t reserved;
    uint64_t data[2]; /* of the notification */
} pw_host_event;

#define PW_NODES_MAX 4194304 /* bits of a node number: frames.h */

/* node < num_nodes <= PW_NODES_MAX. The memory backend stays the caller's. PW_ERR_INVALID: see
 * pw_ni_refused. */
int pw_ni_create(const pw_costs *costs, const pw_settings *settings, uint32_t node,
                 uint32_t num_nodes, pw_memory *memory, pw_ni **out);
void pw_ni_destroy(pw_ni *ni);
/* The machine has so many nodes, although more can take part: processes that a program starts
 * later, which are as far as if they stood behind. Before the first transfer. */
void pw_ni_set_machine_nodes(pw_ni *ni, uint32_t machine_nodes);
/* The network that the nodes stand in; without one it is the machine's own, qfdb. links: those of
 * all nodes of this process, which share them; NULL: each pair of nodes has one of its own.
 * forwarding: that passes them packet by packet, and whose blocks the host brings with
 * pw_ni_passed; NULL: blocks pass as a whole. All stay the caller's, and outlive the NI. Before the
 * first transfer. */
void pw_ni_set_network(pw_ni *ni, const pw_topology *topology, pw_links *links,
                       pw_forwarding *forwarding);
/* Both are of one node: they have its engines, its R5's time, its SMMU's TLBs and walkers, its FIFO
 * and the driver's core, those of `with`, which must live as long as this one runs. What else an NI
 * has is its own. Before the first transfer. PW_ERR_FULL: the SMMU has no ASID left. */
int pw_ni_share_node(pw_ni *ni, pw_ni *with);
/* Give a process its protection domain: a scratchpad page and a context bank. PW_ERR_FULL when the
 * scratchpad has no page left, PW_ERR_CONTEXT when the SMMU has no bank left; pdid != 0 and not
 * open yet. */
int pw_ni_open_domain(pw_ni *ni, uint16_t pdid);

/* Let events of one site (enum pw_impairment_id) fail as planned; before the first transfer. With
 * any site on no answer is foreseen. PW_ERR_INVALID: see pw_impairment_refused. */
int pw_ni_plan_impairment(pw_ni *ni, uint32_t site, const pw_impairment_site *plan);
/* The plan of a site, with how many events were eligible and injected. */
int pw_ni_read_impairment(const pw_ni *ni, uint32_t site, pw_impairment_site *out);

/* How the firmware shall treat one transfer; 0 and 0: by size, with the window of the settings. */
typedef struct {
    uint32_t hint;          /* PW_HINT_* */
    uint32_t window_blocks; /* at most PW_WINDOW_MAX */
} pw_scheduling;

/* Ranges of the calls below: PW_ERR_ADDRESS when one reaches the end of the address space. */

/* Let peer read [address, +num_bytes) once, in pieces or as a whole; *key goes to it by the host's
 * own means. It may be longer than a transfer. scheduling: of the transfers that serve the read;
 * NULL: by size. */
int pw_ni_expose(pw_ni *ni, uint32_t peer, uint64_t address, uint64_t num_bytes,
                 const pw_scheduling *scheduling, uint64_t *key);
/* Who does not know the secret cannot tell one key from others. Before the first one; default: 0.
 */
void pw_ni_set_key_secret(pw_ni *ni, uint64_t secret);
/* Take the permission back; PW_ERR_INVALID when the key is not known (any more). */
int pw_ni_unexpose(pw_ni *ni, uint64_t key);
/* Read num_bytes from the peer's source_address to destination_address: request posted at at_ns. */
int pw_ni_fetch(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t source_address, uint64_t key,
                uint64_t destination_address, uint64_t num_bytes, int64_t at_ns, uint64_t *id);
/* The same for a piece of what is exposed, which stays so until the last one has been read. */
int pw_ni_fetch_piece(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t source_address,
                      uint64_t key, uint64_t destination_address, uint64_t num_bytes, bool is_last,
                      int64_t at_ns, uint64_t *id);
/* Write num_bytes to the peer: the user's call at at_ns. PW_ERR_FULL when no write channel is free.
 * key: what pw_ni_register gave there; with 0 the peer's PDID alone guards, where its setting
 * write_keys allows that. scheduling: NULL: by size. *id: of PW_HOST_WRITE_DONE here, and of the
 * peer's PW_HOST_ARRIVED. */
int pw_ni_write(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t source_address,
                uint64_t destination_address, uint64_t key, uint64_t num_bytes,
                const pw_scheduling *scheduling, int64_t at_ns, uint64_t *id);
/* The same with all that a descriptor says, notification and scheduling too; the channel is claimed
 * until the transfer is over. Returns when the CPU, which began at now_ns, has done its register
 * accesses; negative: PW_ERR_*. */
int64_t pw_ni_write_descriptor(pw_ni *ni, uint16_t pdid, uint32_t peer,
                               const pw_descriptor *descriptor, uint64_t key, int64_t now_ns,
                               uint64_t *id);

/* Write channels in a user's hands: opened once, then descriptor, trigger and poll as often as
 * wanted [R5 2.3.3]; and reads. Times: when the CPU, which began at now_ns, has done its register
 * accesses; negative: PW_ERR_*. */

/* What poll says of a channel's last transfer. */
#define PW_CHANNEL_FINISHED 1
#define PW_CHANNEL_ONGOING 2
#define PW_CHANNEL_PAUSED 3 /* without error: a block waits for its page */
#define PW_CHANNEL_FAILED 4 /* finished with error */

/* A write channel of the domain's page for the caller until it is closed: its index. PW_ERR_FULL
 * when the 32 are taken, PW_ERR_CONTEXT without a page. */
int pw_ni_open_channel(pw_ni *ni, uint16_t pdid);
/* PW_ERR_INVALID when it is not open, or its transfer not over. */
int pw_ni_close_channel(pw_ni *ni, uint32_t channel);
/* Put a descriptor for the peer, with a write's key, into the open channel. PW_ERR_INVALID when the
 * channel is not open or in use, the transfer is empty, the notification is not 16-byte aligned, or
 * hint or window is none. */
int64_t pw_ni_insert_descriptor(pw_ni *ni, uint32_t channel, uint32_t peer,
                                const pw_descriptor *descriptor, uint64_t key, int64_t now_ns);
/* Start what was inserted, once. *id: of PW_HOST_WRITE_DONE. PW_ERR_INVALID when there is nothing
 * to start. */
int64_t pw_ni_trigger(pw_ni *ni, uint32_t channel, int64_t now_ns, uint64_t *id);
/* PW_CHANNEL_* of the last transfer as it stands at now_ns, up to which pw_ni_run has been;
 * PW_ERR_INVALID when nothing was triggered. The register access is the caller's to count. */
int pw_ni_poll_channel(const pw_ni *ni, uint32_t channel, int64_t now_ns);
/* What stands in the scratchpad for a channel, the user's or not; PW_ERR_INVALID when there is no
 * such channel. */
int pw_ni_read_descriptor(const pw_ni *ni, uint32_t channel, pw_descriptor *out);
/* Read from the peer; the descriptor's source is there, destination and notification are here. *id:
 * of PW_HOST_FETCH_DONE. key: what pw_ni_register or pw_ni_expose gave there; 0 is refused unless
 * the peer's setting reads_without_key is on: protection by PDID alone. */
int64_t pw_ni_read(pw_ni *ni, uint16_t pdid, uint32_t peer, const pw_descriptor *descriptor,
                   uint64_t key, int64_t now_ns, uint64_t *id);
/* Is a write without a key refused here? By the setting write_keys and the unit. */
bool pw_ni_writes_need_key(const pw_ni *ni);
/* cdef end */
/* ---- emulation: reads that are foreseen (foreseen.c) */

/* What a source that has nothing to do says of a read that comes from from_ns on, and before
 * anything else. Behind it stand a pw_block_frame, which the reader fills in, and its payload. */
typedef struct {
    uint64_t number; /* the host's */
    int64_t from_ns;
    uint32_t num_bytes; /* 0: nothing is promised */
    uint32_t num_heard; /* the host's */
    uint16_t transaction_id, pdid, how, reserved;
} pw_promise;
struct pw_known_read;
/* With the payload of so many bytes; 0: a read of these is never foreseen. */
uint32_t pw_ni_promise_bytes(const pw_ni *ni, uint64_t num_bytes);
/* A frame for the peer, a burst of its own, with a promise at the offset and some bytes more behind
 * it. NULL: nothing is promised. Else `keep` is called before anything else is asked of the NI,
 * once. */
uint8_t *pw_ni_promise(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t address,
                       uint64_t num_bytes, uint32_t offset, uint32_t bytes_behind);
void pw_ni_set_keeper(pw_ni *ni, void (*keep)(void *owner), void *owner);
/* Call `keep` now. */
void pw_ni_keep(pw_ni *ni);
/* The reader has taken this block for the answer to its request, while the CPU waited: the NI does
 * what it has promised, until the block has left. */
void pw_ni_keep_promise(pw_ni *ni, uint32_t reader, const pw_read_request_frame *request,
                        const pw_block_frame *taken);
/* The block that left is not the one that was taken: a defect, with which pw_ni_run has ended. */
bool pw_ni_promise_was_wrong(const pw_ni *ni);
/* Does the burst hold a frame that its receiver's NI has to do something for, in virtual time? */
bool pw_ni_burst_asks(const uint8_t *data, uint32_t num_bytes);
/* The reader: the request that was posted last, if nothing else goes to the peer and its answer is
 * known: *block then, before its packets. NULL: it is not. */
const pw_read_request_frame *pw_ni_foresee(pw_ni *ni, uint32_t peer, const pw_promise *promise,
                                           pw_block_frame *block);
/* It does not go. */
void pw_ni_take_request_back(pw_ni *ni, uint32_t peer);
/* cdef begin */

/* Let any peer that has the key do what the rights say to [address, +num_bytes) as often as it
 * wants, until pw_ni_unexpose. */
#define PW_REMOTE_READ 1u
#define PW_REMOTE_WRITE 2u
int pw_ni_register(pw_ni *ni, uint64_t address, uint64_t num_bytes, uint32_t rights, uint64_t *key);

/* Run events up to horizon_ns; stops when max events were written, a burst is full, or nothing can
 * be done before a frame arrives. Returns how many events were written; PW_ERR_NOMEM from when the
 * host had no memory for a frame or an event: nothing goes on then. */
int pw_ni_run(pw_ni *ni, int64_t horizon_ns, pw_host_event *events, int max);
/* Time of the next event that can be run, INT64_MAX when a frame must arrive first. */
int64_t pw_ni_next_ns(const pw_ni *ni);
/* Events that were run and frames that came, so far: what the speed of a host is told in. */
uint64_t pw_ni_num_events(const pw_ni *ni);
/* 1 and *out when a burst waits to be sent, else 0. */
int pw_ni_tx_burst(pw_ni *ni, pw_burst *out);
void pw_ni_tx_release(pw_ni *ni, uint8_t *data);
/* With PW_POLICY_HOST, and at a destination with PW_ERRS_BY_HOST, a fault waits for the host's
 * decision: pw_ni_run handles nothing and pw_ni_next_ns is INT64_MIN until pw_ni_decide; bursts
 * that come meanwhile are kept. Times, events and frames are those that there would be if the host
 * had answered at once. */
typedef struct {
    uint64_t page;                             /* whose access faulted */
    uint64_t block_first_page, block_end_page; /* end: first page behind */
    uint64_t transfer_first_page, transfer_end_page;
    int64_t time_ns;      /* the tasklet is about to call get_user_pages */
    uint32_t source_node; /* that the block comes from */
    uint32_t bank;        /* context bank, by idx */
    uint16_t pdid, transaction_id, sequence;
    uint16_t at_destination; /* 1: a write that arrives here; 0: a read for a block that leaves */
    uint64_t own_end_page;   /* the engine's own policy brings in [page, own_end_page) */
} pw_decision;
/* PW_ERR_INVALID when the id is not that of the decision wanted. */
int pw_ni_read_decision(const pw_ni *ni, uint64_t id, pw_decision *out);
/* Before pw_ni_decide: who sends the block's ERR, and when (PW_ERRS_BY_LIBRARY or _KERNEL,
 * PW_ERRS_AFTER_*). PW_ERR_INVALID when the id or a value is wrong. */
int pw_ni_decide_err(pw_ni *ni, uint64_t id, uint32_t by, uint32_t after);
/* Page in [first_page, +num_pages), which holds the faulting page, in ascending order. May reach
 * outside of the transfer; cut where pages are not mapped, and outside of the transfer where they
 * cannot be brought in. PW_ERR_INVALID when the id or the range is wrong: the decision is still
 * wanted then. PW_ERR_MALFORMED when a burst that was kept had to be dropped in part. */
int pw_ni_decide(pw_ni *ni, uint64_t id, uint64_t first_page, uint64_t num_pages);
/* A burst from source is here. PW_OK, or PW_ERR_MALFORMED when (part of) it had to be dropped. */
int pw_ni_rx_burst(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes);
/* A block that this node has sent has come out of the packets' network: the burst to send to its
 * peer now, and when it is there with its last packet. PW_NEVER: there is none, nobody gets it. */
int64_t pw_ni_passed(pw_ni *ni, const pw_forwarding_out *passed, pw_burst *out);
/* How many bytes at a burst's beginning arrive as one thing: a message, a frame, or frames that
 * tell something before, if they stand together. */
uint32_t pw_ni_arrives_first(const uint8_t *data, uint32_t num_bytes);
/* When the first of a burst's frames arrives. INT64_MIN: at least one tells what the sender should
 * know before (an answer, a bound), whose own times stand in it. A message keeps its order. */
int64_t pw_ni_arrival_ns(const uint8_t *data, uint32_t num_bytes, bool *keeps_order);
/* The transfers and reads that are not over yet on this node, for leak checks and reports. */
uint32_t pw_ni_num_pending(const pw_ni *ni);
uint32_t pw_ni_num_transactions(const pw_ni *ni);

/* What the pools of the engine hold, in use or not: they grow with the load, not with time. */
typedef struct {
    uint32_t burst_buffers, inbounds, regions, events, read_requests, overtaken_attempts,
        tasklet_runs;
} pw_ni_pools;
void pw_ni_read_pools(const pw_ni *ni, pw_ni_pools *out);

void pw_ni_read_counters(const pw_ni *ni, pw_counters *out);
/* Good as long as the NI. */
const pw_tallies *pw_ni_tallies(const pw_ni *ni);
/* What left for each peer, of pw_demand; empty where nodes share links. Good as long as the NI. */
const pw_peers *pw_ni_demands(const pw_ni *ni);
/* What the translation unit keeps pinned by itself; NULL: it never does. */
const pw_pinned *pw_ni_pinned(const pw_ni *ni);
/* Registers of context bank idx; PW_ERR_INVALID when there is no such bank. pdid 0: not in use. */
int pw_ni_read_bank(const pw_ni *ni, uint32_t idx, pw_context_bank *out);
/* When the fault handler's invocations began. */
void pw_ni_read_interrupt_times(const pw_ni *ni, pw_time_histogram *out);
/* The program's own code may have run since the last call: before the next block is read or written
 * the engine asks once more whether the mapping is there. A buffer that was unmapped under its own
 * transfer is then a bad address, and no crash. Not covered: what another thread unmaps meanwhile.
 * A file truncated under its mapping is a bad address too, at whatever time (Linux 6.11). */
void pw_ni_enter(pw_ni *ni);
/* The way from and to every peer is this host's memory, which damages nothing: from now on frames
 * go without CRCs, and packets too unless an impairment is planned. In virtual time nothing
 * changes. Both ends are told. */
void pw_ni_set_unsealed(pw_ni *ni, bool is_unsealed);
/* The same of one peer, whose reads may be foreseen then, and who may foresee this one's. */
void pw_ni_set_unsealed_to(pw_ni *ni, uint32_t peer);
/* From the beginning: what arrives is handed over in order of its time, and before the NI runs
 * behind it. An ERR leaves when it is time, then, and nodes need not tell each other what may still
 * come. In virtual time that is what the machine does; without it an ERR is taken for final when
 * its own transfer cannot move it any more. */
void pw_ni_set_in_order(pw_ni *ni);
/* In order: it is at_ns. What the NI does is booked then or later, or a little before where it is a
 * thread of the library's that was kept from its core: what was busy long ago is forgotten. */
void pw_ni_set_now(pw_ni *ni, int64_t at_ns);
/* Shootdown: the OS changed the mapping of a range, of a process (fork: UINT64_MAX pages), or
 * anything (these, and pdid 0). Translations are dropped and counted, and the next block of every
 * transfer under way is walked anew. How long the OS waits for it. */
pw_time pw_ni_invalidate(pw_ni *ni, uint16_t pdid, uint64_t first_page, uint64_t num_pages);
/* The library tells the driver at at_ns what a fetch will write: its pages come in at once, on a
 * core of their own. Before pw_ni_fetch. PW_ERR_NOMEM, PW_ERR_HOST. */
int pw_ni_advise(pw_ni *ni, uint16_t pdid, uint64_t address, uint64_t num_bytes, int64_t at_ns);
/* Keep the first capacity trace records from now on (0: off). */
int pw_ni_trace_start(pw_ni *ni, uint32_t capacity);
/* Keep those of a timeline too, from the start on. */
void pw_ni_trace_detail(pw_ni *ni);
uint32_t pw_ni_trace_read(const pw_ni *ni, const pw_trace_record **records);
/* How many there was no room for. */
uint64_t pw_ni_trace_lost(const pw_ni *ni);

/* Messages through packetizer and mailbox: the host carries them. kind is the host's. */
#define PW_ENVELOPE_BYTES 64
#define PW_ENVELOPE_MAGIC 0x5045 /* no frame begins with it: frames.h */
typedef struct {
    uint16_t magic;
    uint8_t kind;
    uint8_t reserved0;
    uint32_t source_node;
    uint64_t num_bytes; /* of the MPI message, riding along or not */
    uint64_t address;
    uint64_t key;
    int64_t arrival_ns;
    uint32_t payload_bytes; /* behind the envelope */
    uint32_t payload_crc;
    uint32_t envelope_crc;
    uint32_t destination; /* of pw_ni_packet_write */
    uint64_t extra;       /* of it and of pw_ni_control_write */
} pw_envelope;
/* Write an envelope and, when payload_bytes > 0, the payload behind it. Returns when the CPU has
 * posted the message, given that it began at now_ns. frame has room for both. */
int64_t pw_ni_message_write(pw_ni *ni, uint32_t peer, uint8_t kind, uint64_t address,
                            uint64_t num_bytes, uint64_t key, uint32_t payload_bytes,
                            int64_t now_ns, uint8_t *frame);
/* The same for what nodes tell each other about a message, in one packet; no message of MPI. What
 * the numbers mean is the kind's. The CPU began at now_ns, and has posted it when this says. */
int64_t pw_ni_control_write(pw_ni *ni, uint32_t peer, uint8_t kind, uint64_t address,
                            uint64_t num_bytes, uint64_t key, uint64_t extra, int64_t now_ns,
                            uint8_t *frame);
#define PW_PACKET_WORDS_BYTES 32
/* What the packetizer, a mailbox or their answer sends by itself, without the CPU: four words,
 * which the envelope carries, and a payload behind it, in packets of its own. The NI has it at
 * at_ns; returns when it arrives. Like any lone packet it waits for no block and delays none. */
int64_t pw_ni_packet_write(pw_ni *ni, uint32_t peer, uint8_t kind, uint32_t destination,
                           const uint64_t words[4], const void *payload, uint32_t payload_bytes,
                           int64_t at_ns, uint8_t *frame);
/* PW_OK when frame holds a sound envelope with its payload, else PW_ERR_MALFORMED (counted). */
int pw_ni_message_check(pw_ni *ni, const uint8_t *frame, uint64_t frame_bytes);
/* The host can make nothing of a message that was sound: it is counted like one that was not. */
void pw_ni_message_refuse(pw_ni *ni);
/* Copy the payload out, at most capacity bytes, if there is one. Returns when the CPU, which wanted
 * it from posted_ns on, has read it from the mailbox. */
int64_t pw_ni_message_land(pw_ni *ni, const uint8_t *frame, uint64_t address,
                           uint64_t capacity_bytes, int64_t posted_ns);
/* cdef end */
/* The trace itself, for who gives its records away. */
pw_trace *pw_ni_trace(pw_ni *ni);

/* As pw_ni_create; shares costs and settings with `like`, which may be destroyed before, where they
 * are the same. One thread for both. NULL: with none. */
int pw_ni_create_like(const pw_ni *like, const pw_costs *costs, const pw_settings *settings,
                      uint32_t node, uint32_t num_nodes, pw_memory *memory, pw_ni **out);
/* Blocks, messages and notifications carry no bytes, and no CRC; no address is read or written:
 * memory is a detached model's. Times, counters and the order of everything are those of an NI with
 * bytes. All nodes alike; before the first transfer. shared: for bursts, NULL: none; see
 * pw_burst_pool_set_parts. */
void pw_ni_set_without_bytes(pw_ni *ni, struct pw_parts *shared);
bool pw_ni_has_no_bytes(const pw_ni *ni);

/* What its next events and frames use comes into the caches. */
void pw_ni_warm(const pw_ni *ni);

/* Memory for bursts, before the first one is made: see pw_burst_pool_set_memory. */
void pw_ni_set_burst_memory(pw_ni *ni, pw_burst_allocate allocate, void *context);

_Static_assert(sizeof(pw_envelope) == PW_ENVELOPE_BYTES, "envelope");

/* What numbers an NI can be made with. */

/* cdef begin */
/* Name of the first setting or cost that pw_ni_create refuses, NULL when all are fine. */
const char *pw_ni_refused(const pw_costs *costs, const pw_settings *settings);
/* The same as a sentence with value and remedy, cut to num_bytes with its 0; false: all are fine.
 */
bool pw_ni_explain_refusal(const pw_costs *costs, const pw_settings *settings, char *text,
                           size_t num_bytes);
/* cdef end */

#endif
