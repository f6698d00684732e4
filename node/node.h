/* One rank in C: an NI with clock, memory strategies, wires, settings and report.
 *
 * One rank's emulated node: engine, wire, clock, memory strategy, rendezvous and progress, composed
 * here and only here. Knows no MPI and no Python. Its hosts: the MPI facade, the libfabric
 * provider, a C program. Peers are node numbers, addresses are virtual, times are virtual ns.
 *
 * One thread at a time, which the caller sees to by pw_node_lock; a loop that waits lets the others
 * in between its turns (pw_node_busy, pw_node_idle). */
#ifndef PW_NODE_NODE_H
#define PW_NODE_NODE_H
#include "ni/ni.h"
#include "node/report/call_counts.h"
#include "node/clock.h"
#include "node/strategies/strategy.h"
#include "node/wires/wire.h"

/* cdef begin */
typedef struct pw_node pw_node;
typedef struct pw_handle pw_handle;

/* What a host can be called back for; any may be NULL, `context` goes with each. Called with the
 * node locked. A negative code ends the node's call with it. */
typedef struct {
    void *context;
    /* PW_HOST_DECISION: answer with pw_ni_decide. Needed with PW_POLICY_HOST or PW_ERRS_BY_HOST;
     * asked again by every turn until it does. */
    int (*decide)(void *context, uint64_t id);
    /* How to treat a transfer that is posted; *out untouched: by size. */
    int (*schedule)(void *context, uint64_t num_bytes, uint32_t peer, int is_read, int64_t now_ns,
                    pw_scheduling *out);
    /* Every event of the engine that is no transfer's: PW_HOST_NOTIFIED. */
    int (*event)(void *context, const pw_host_event *event);
    /* A message of a peer's pw_node_send_message is here, which the host checks as it checks what
     * any stranger says; its bytes are gone after the call. */
    int (*message)(void *context, uint32_t source, const uint8_t *frame, uint32_t frame_bytes);
    /* A handle with an owner is done: its members say how. */
    int (*finished)(void *context, pw_handle *handle);
} pw_node_host;

/* A transfer under way with a peer, or a posted buffer; from pw_node_expose, _fetch or _started
 * until pw_node_free_handle. */
struct pw_handle {
    int64_t complete_ns;
    uint64_t key,
        address; /* of an exposed span: what the peer's fetch needs; of a fetch: its own */
    uint64_t num_bytes;
    uint64_t rest_address, rest_bytes; /* of a fetch: there, what has not been asked for yet */
    uint32_t peer;
    int32_t error; /* PW_OK or PW_ERR_* */
    uint8_t done;
    uint8_t is_fetch;
    uint8_t has_lease;
    uint8_t is_dropped; /* nobody asks for it any more: freed when done */
    pw_lease lease;
    pw_handle *next, *previous; /* of those under way; or the next free one */
    uint64_t id;
    void *piece_of; /* the message in pieces that this is one of */
    void *owner;    /* the host's; NULL: `finished` is not called */
};

/* Of a node that pw_node_open (settings/config.h) has made. Its handles end with it. */
void pw_node_destroy(pw_node *node);
/* What the last negative code of a call below was about; until the next one. */
const char *pw_node_reason(const pw_node *node);
/* cdef end */
/* Note what a negative code is about, in words; the code. */
int pw_node_fail(pw_node *node, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* cdef begin */

void pw_node_lock(pw_node *node);
void pw_node_unlock(pw_node *node);
/* Does this thread hold the lock? So in the host's callbacks, which must not wait for it. */
bool pw_node_is_mine(const pw_node *node);

/* cdef end */
/* What its next turn uses comes into the caches. */
void pw_node_warm(const pw_node *node);
/* cdef begin */
pw_ni *pw_node_ni(pw_node *node);
pw_clock *pw_node_clock(pw_node *node);
pw_memory *pw_node_memory(pw_node *node);
bool pw_node_has_no_bytes(const pw_node *node); /* see pw_node_opening */
uint16_t pw_node_pdid(const pw_node *node);
/* The node's own, with the unit that its strategy needs. */
const pw_costs *pw_node_costs(const pw_node *node);
const pw_cost_tables *pw_node_tables(const pw_node *node);
const pw_settings *pw_node_ni_settings(const pw_node *node);
uint32_t pw_node_number(const pw_node *node);
uint32_t pw_node_count(const pw_node *node);
/* Set the host's callbacks after creation: a host in Python knows the node only then. */
void pw_node_set_host(pw_node *node, const pw_node_host *host);
/* Those that are set, for who adds some. */
const pw_node_host *pw_node_host_of(const pw_node *node);

/* The memory strategy's part of posting a span (num_bytes > 0): its cost passes. */
int pw_node_acquire(pw_node *node, pw_span span, int access, pw_lease *out);
int pw_node_release(pw_node *node, const pw_lease *lease);
/* What the strategy works with; of the node. */
pw_strategy_context *pw_node_strategy_context(pw_node *node);
/* The program gave pages back: translations and what the strategy knows of them go. */
int pw_node_unmapped(pw_node *node, uint64_t first_page, uint64_t num_pages);
/* This process was forked; async-signal-safe: acted on at the next turn. */
void pw_node_forked(pw_node *node);

/* Let peer read a span once, for which it is acquired; done when it has. */
int pw_node_expose(pw_node *node, uint32_t peer, uint64_t address, uint64_t num_bytes,
                   pw_handle **out);
/* Read num_bytes from the peer, request posted at at_ns; done when they are all here. What is
 * longer than a transfer (PW_TRANSFER_MAX_BYTES) goes in several, one after the other. lease: of
 * the destination, NULL: none; released at completion, and still the caller's with an error. */
int pw_node_fetch(pw_node *node, uint32_t peer, uint64_t source_address, uint64_t key,
                  uint64_t address, uint64_t num_bytes, int64_t at_ns, const pw_lease *lease,
                  pw_handle **out);
/* The first piece of what goes to the address: as long as a transfer can be, and the rest begins
 * with a whole block. */
uint64_t pw_node_piece_bytes(const pw_node *node, uint64_t address, uint64_t num_bytes);
/* Something was posted to the engine by the host itself; done when the event with that id comes. */
int pw_node_started(pw_node *node, uint64_t id, uint32_t peer, pw_handle **out);
/* Back to the pool; one that is not done is freed when it is. */
void pw_node_free_handle(pw_node *node, pw_handle *handle);

/* One turn: bursts in, engine, events, bursts out. waiting: the CPU waits, the NI runs without
 * limit; else up to the CPU's clock. 1: something happened, 0: nothing, negative: PW_ERR_*. */
int pw_node_turn(pw_node *node, bool waiting);
/* From now on no turn goes further than that, until the next call: for a host that runs nodes in
 * the order of virtual time. */
void pw_node_set_horizon(pw_node *node, int64_t horizon_ns);
/* A turn moved something. */
void pw_node_busy(pw_node *node);
/* A turn was in vain: gives the core away after some; unlocks the node meanwhile. With more nodes
 * than cores it rests soon, else after very many turns, until a peer sends something, or for some
 * part of the wait so far; over a wire whose peers cannot wake it, it yields, and sleeps for short
 * times in the end. True: it has looked on for a moment, and may look again at once, since each
 * node has a core. */
bool pw_node_idle(pw_node *node);
/* A loop of such turns that looks after something else every now and then; zero at first. */
typedef struct {
    int64_t looked_ns;
    uint32_t num_turns;
} pw_pace;
/* Behind a turn of it: is that due, every interval_ns of wall time? Seldom looks at the clock. */
bool pw_node_is_due(const pw_node *node, pw_pace *pace, bool moved, int64_t interval_ns);
/* Wall time in ns since anything happened while the node was waiting; 0 when something just did.
 * Needs no lock. */
int64_t pw_node_silent_ns(const pw_node *node);
/* When this silence began, on the host's clock: tells it from the next one. 0: none. No lock. */
int64_t pw_node_silent_since_ns(const pw_node *node);
/* A look found nothing: it costs poll_ns, if what it looks for completes later in virtual time
 * (is_future) or the NI has an event ahead. When only the frame is not here yet, neither the look
 * nor the call that it is made in costs anything. */
void pw_node_failed_test(pw_node *node, bool is_future, int64_t poll_ns);
/* Time of the engine's next event. */
int64_t pw_node_next_ns(const pw_node *node);
/* Handles under way, the newest first; walk by next. */
const pw_handle *pw_node_under_way(const pw_node *node);

/* Messages over the node's own wire, for a host that has no other means. Frames have room for
 * envelope, payload and what the host writes behind it; the size is told once, before the first.
 * PW_ERR_INVALID: no burst holds one. */
int pw_node_set_frame_bytes(pw_node *node, uint32_t frame_bytes);
/* What a service above the node, which has messages of its own, does with one that is here; its
 * bytes are gone after the call. */
typedef struct {
    void *context;
    int (*message)(void *context, uint32_t source, const uint8_t *frame, uint32_t frame_bytes);
    /* At the end of every turn: 1: something happened, 0: nothing; or a code. NULL: nothing. */
    int (*turned)(void *context);
} pw_node_service;
/* From now on messages of kinds from PW_MESSAGE_OF_SERVICES on go there, and frames hold at least
 * frame_bytes; NULL: nobody takes them any more. PW_ERR_INVALID: the node has made frames that are
 * shorter; PW_ERR_FULL: there is a service. */
int pw_node_set_service(pw_node *node, const pw_node_service *service, uint32_t frame_bytes);
/* Bursts and frames that the wire has not sent yet, or that their receiver may still read here. */
uint32_t pw_node_num_leaving(const pw_node *node);
/* NULL: no memory. */
uint8_t *pw_node_take_frame(pw_node *node);
/* Send what was written to a frame taken, which goes back to the node; to the node itself too. */
int pw_node_send_frame(pw_node *node, uint32_t peer, uint8_t *frame, uint32_t frame_bytes);

#define PW_MESSAGE_EAGER 1 /* the payload stands behind the envelope */
#define PW_MESSAGE_RENDEZVOUS 2
#define PW_MESSAGE_OF_NODES 128    /* from here on: between nodes, no host sees them */
#define PW_MESSAGE_OF_SERVICES 192 /* from here on: of a service above the node */
/* A message through packetizer and mailbox, the CPU's cost included: frame has room for envelope
 * and payload. Returns the frame's bytes, 0 when there is no such peer or no frame is that long.
 * Read it by pw_ni_message_*. */
uint32_t pw_node_write_message(pw_node *node, uint32_t peer, uint8_t kind, uint64_t address,
                               uint64_t num_bytes, uint64_t key, uint8_t *frame);

/* cdef end */
/* A frame for the envelope of an exposed message, which the peer may read at once: with so many
 * bytes behind the envelope, that pw_node_take_promise wants, and room for some more. NULL: it is a
 * frame like any other. */
uint8_t *pw_node_promise(pw_node *node, const pw_handle *exposed, uint32_t bytes_behind,
                         uint32_t *promise_bytes);
/* How many these are for a message; 0: over this node's wire nothing is promised, or not of it. */
uint32_t pw_node_promise_bytes(const pw_node *node, uint64_t num_bytes);
/* The whole of the peer's message was asked for, by the last thing that was posted. If the answer
 * is known it is here. */
int pw_node_take_promise(pw_node *node, uint32_t peer, const uint8_t *promise);
/* cdef begin */

pw_call_counts *pw_node_calls(pw_node *node);
/* Nobody tells where the program's MPI calls begin and end: the report says that its times are
 * those between calls of the layer below. */
void pw_node_set_without_marks(pw_node *node);

/* What the memory strategy took and counted, and host facts, for the report. */
typedef struct {
    int64_t touch_ns, pin_ns, copy_ns;                 /* CPU time */
    uint64_t pinned_peak_bytes, pinned_mean_bytes;     /* means over virtual time */
    uint64_t resident_peak_bytes, resident_mean_bytes; /* pw_memory_resident */
    pw_strategy_counters strategy;
    uint64_t yields, sleeps;
    uint64_t bursts_short, bursts_in_place, bursts_copied, bursts_by_message; /* pw_wire_counts */
    int64_t started_wall_ns;
    uint64_t
        received_hash; /* of what was fetched, in any order; 0 without settings.hash_received */
    uint64_t without_marks; /* 1: see pw_node_set_without_marks */
} pw_node_counters;
void pw_node_read_counters(const pw_node *node, pw_node_counters *out);
/* cdef end */

/* A node's clock for the threads of its host: what clock.h has, with the node locked, but where
 * this thread has locked it already: a host's callback may ask for the time. */

/* cdef begin */
void pw_node_clock_enter(pw_node *node, int costs_call);
void pw_node_clock_leave(pw_node *node);
int64_t pw_node_clock_read(pw_node *node);
void pw_node_clock_declare(pw_node *node, int64_t duration_ns);
void pw_node_clock_sleep(pw_node *node, int64_t duration_ns);
void pw_node_clock_completed(pw_node *node, int64_t complete_ns);
/* It is at least that late. */
void pw_node_clock_reach(pw_node *node, int64_t time_ns);
/* The CPU works for so long, in a call. */
void pw_node_clock_pass(pw_node *node, int64_t duration_ns);
/* pw_node_failed_test. */
void pw_node_clock_failed_test(pw_node *node, int is_future, int64_t poll_ns);
/* cdef end */

#endif
