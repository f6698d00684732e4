/* What a node is made of, for its own files: node.c makes it, progress.c moves it, transfers.c
 * posts to it. */
#ifndef PW_NODE_NODE_STATE_H
#define PW_NODE_NODE_STATE_H
#include "node/node.h"
#include "node/wires/frame_pool.h"
#include "node/wires/bell.h"
#include "node/node_trace.h"
#include "native/calendar.h"
#include "native/pool.h"
#include "node/strategies/message_way.h"
#include "node/report/program_regions.h"

/* The handles of a node's transfers: a pool of them, found by the id of the engine's event while
 * they are under way, and listed. No allocation in steady state. */
typedef struct {
    pw_handle **slots; /* open addressing, by id; num_slots: a power of two */
    uint32_t num_slots, num_under_way;
    pw_handle *under_way; /* the newest first */
    pw_pool pool;
} pw_handles;

int pw_handles_init(pw_handles *handles);
void pw_handles_destroy(pw_handles *handles);
/* A blank handle and a place for its id, NULL: no memory. */
pw_handle *pw_handles_take(pw_handles *handles);
/* It is under way: an id that no other one under way has. */
void pw_handles_begin(pw_handles *handles, pw_handle *handle, uint64_t id);
/* The one under way with this id, which no longer is; NULL: none. */
pw_handle *pw_handles_end(pw_handles *handles, uint64_t id);
/* Back to the pool; it is not under way. */
void pw_handles_give(pw_handles *handles, pw_handle *handle);

/* How a node's loop waits: after some turns in vain it gives the core away, and it knows for how
 * long nothing has happened. Where peers ring a bell (node/wires/bell.h) it rests there; else
 * it yields the core, and sleeps for short times after very many turns. Wall time. */
typedef struct {
    uint32_t idle_turns;     /* since a turn moved something */
    uint32_t vain_turns;     /* the same, but the program has not run meanwhile either */
    int64_t silent_since_ns; /* 0: not silent */
    uint64_t yields, sleeps;
    int64_t look_until_ns;   /* without a yield */
    bool is_waiting;         /* the CPU was, in the latest turn; else the program tests */
    uint32_t waits_to_yield; /* so many do so at once: somebody else wants the core */
    uint32_t *bell;          /* at which a rest was announced last */
    uint32_t announced;      /* for what, since the last rest; 0: none is */
    uint32_t num_resting;    /* threads */
    uint32_t num_cores;      /* that this process may use; 0: not asked yet */
    uintptr_t thread;        /* that had the lock last; 0: none yet */
    bool has_threads;        /* it was not always the same */
} pw_idleness;

/* This thread has taken the lock. */
static inline void pw_idleness_note_thread(pw_idleness *idleness)
{
    const uintptr_t thread = (uintptr_t)pthread_self();
    if (idleness->thread == thread) return;
    idleness->has_threads = idleness->thread != 0;
    idleness->thread = thread;
}

/* Something happened. */
void pw_idleness_end(pw_idleness *idleness);
/* The program ran, and begins to wait anew. */
void pw_idleness_renew(pw_idleness *idleness);
/* What this thread's turn moved may be what another one rests for. */
void pw_idleness_tell_resting(pw_idleness *idleness);

/* Reads of this node's that their readers may foresee (pw_ni_promise). Only while the CPU waits:
 * else it may ask the NI for something that is to be earlier in virtual time. */
typedef struct {
    pw_peers asks;           /* of pw_peer_asks */
    pw_promise_place *place; /* of the promise that was given; NULL: none */
    uint64_t number;         /* its number */
    uint32_t reader;         /* whom it was given */
    bool stands;             /* it can be taken */
    uint32_t num_vain;       /* promises in a row that nobody took */
    uint32_t num_left_out;   /* since the last one */
} pw_node_promises;

typedef struct {
    pw_peer peer;
    uint32_t num_sent, num_received; /* bursts that ask the other one's NI for something */
    bool is_near;                    /* both see the memory that bursts stand in */
} pw_peer_asks;

#define PW_NODE_REASON_BYTES 384 /* a strategy's, and what it was asked */

/* What nodes with the same configuration share: see pw_node_opening. */
typedef struct {
    uint32_t num_users;
    pw_costs costs;
    pw_settings settings; /* with the unit that the strategy needs */
    pw_cost_tables tables;
} pw_node_shared;

struct pw_node {
    pw_ni *ni;
    pw_memory *memory;
    pw_wire *wire;
    const pw_strategy_ops *strategy;
    void *strategy_self;
    pw_clock clock;
    pw_handles handles;
    pw_idleness idleness;
    pw_node_promises promises;
    pw_ticket_lock lock;
    pw_topology *topology;       /* its own; NULL: the host's, or the NI's */
    int64_t horizon_ns;          /* see pw_node_set_horizon */
    int64_t next_ns;             /* of the engine, as the last run left it */
    uint64_t decision;           /* id of the one that the host was asked for last */
    atomic_uint num_forks;       /* not acted on yet */
    uint64_t transfer_max_bytes; /* see pw_node_opening */
    uint16_t pdid;
    bool owns_strategy;
    bool has_policy; /* of the host: pw_asks_host */
    bool lacks_marks;
    bool has_no_bytes; /* see pw_node_opening */
    bool has_sent;     /* a frame, since this was cleared */
    bool is_posted;    /* something was posted since the last run, or that ended with an error */
    pw_node_host host;
    pw_node_service service;        /* message NULL: none */
    pw_strategy_cost strategy_cost; /* all of it so far */
    int64_t started_wall_ns;
    uint64_t received_hash;
    pw_node_shared *shared;
    pw_strategy_context context;
    char reason[PW_NODE_REASON_BYTES];
    pw_call_counts calls;
    pw_node_trace trace;
    pw_frame_pool frames;
    pw_calendar library;         /* what its progress thread does: see message_way.h */
    void *way_state;             /* of strategy->way; NULL: not made */
    pw_program_regions *regions; /* NULL: none was entered */
};

/* Does something with the node locked, also for a thread that has locked it already. */
#define LOCKED(node, ...)                            \
    do {                                             \
        const bool is_ours = !pw_node_is_mine(node); \
        if (is_ours) pw_node_lock(node);             \
        __VA_ARGS__;                                 \
        if (is_ours) pw_node_unlock(node);           \
    } while (0)

/* What the memory strategy took passes on the CPU's clock; `call` names it in an error. */
int pw_node_pass(pw_node *node, const pw_strategy_cost *cost, const char *call);
/* The sum of a cost, which is counted; or a code. */
int64_t pw_node_count_cost(pw_node *node, const pw_strategy_cost *cost, const char *call);
/* What comes back from swap while a hook of the strategy runs takes a major fault each, beyond what
 * the hook says: call the first before it and the second behind it, with its cost. */
uint64_t pw_node_count_swapped(const pw_node *node);
void pw_node_add_swapped(pw_node *node, uint64_t count_before, pw_strategy_cost *cost);
/* What a hook of the strategy, `call`, failed at; its own reason stands last. The code. */
int pw_node_fail_span(pw_node *node, int code, const char *call, pw_span span);
/* The peer may read the handle's bytes once, at the address; under way when PW_OK. */
int pw_node_post_exposed(pw_node *node, pw_handle *handle, uint64_t address, int64_t at_ns);
/* A message or transfer is over, but for its lease: the host is told. */
int pw_node_complete(pw_node *node, pw_handle *handle, int64_t time_ns, int error);
/* A transfer's event: it is over. */
int pw_node_finish(pw_node *node, const pw_host_event *event);
/* The promise that was given stands from now on, if the CPU waits, else it does not. */
void pw_node_stand_by(pw_node *node, bool is_waiting);
/* What the NI's keeper does. */
void pw_node_keep_promise(void *node);
/* Bursts with the peer; NULL: nobody counts them. */
pw_peer_asks *pw_node_asks(pw_node *node, uint32_t peer);
/* A burst is here. */
int pw_node_receive_burst(pw_node *node, uint32_t source, const uint8_t *data, uint32_t num_bytes);
/* Act on a fork. */
int pw_node_share_pages(pw_node *node);
/* Give back the bursts and frames that have left. */
void pw_node_reclaim(pw_node *node);

#endif
