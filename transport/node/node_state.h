/* What a node is made of, for its own files: node.c makes it, progress.c moves it, transfers.c
 * posts to it. */
#ifndef PW_NODE_NODE_STATE_H
#define PW_NODE_NODE_STATE_H
#include "transport/node/frame_pool.h"
#include "transport/node/handles.h"
#include "transport/node/node.h"
#include "transport/node/idleness.h"
#include "transport/node/node_trace.h"
#include "transport/node/pieces_state.h"
#include "native/calendar.h"
#include "transport/node/firehoses_state.h"
#include "transport/node/program_regions.h"

#define PW_NODE_REASON_BYTES 384 /* a strategy's, and what it was asked */

struct pw_node {
    pw_ni *ni;
    pw_memory *memory;
    pw_wire *wire;
    const pw_strategy_ops *strategy;
    void *strategy_self;
    pw_clock clock;
    pw_handles handles;
    pw_idleness idleness;
    pw_ticket_lock lock;
    int64_t next_ns;       /* of the engine, as the last run left it */
    uint64_t decision;     /* id of the one that the host was asked for last */
    atomic_uint num_forks; /* not acted on yet */
    uint16_t pdid;
    bool owns_strategy;
    bool has_policy; /* of the host: PW_POLICY_HOST */
    bool lacks_marks;
    bool advises;   /* the engine, of a message's destination when it is matched */
    bool is_posted; /* something was posted since the last run, or that ended with an error */
    pw_node_host host;
    pw_node_service service;        /* message NULL: none */
    pw_strategy_cost strategy_cost; /* all of it so far */
    int64_t started_wall_ns;
    uint64_t received_hash;
    pw_costs costs;
    pw_settings settings;
    pw_cost_tables tables;
    pw_strategy_context context;
    char reason[PW_NODE_REASON_BYTES];
    pw_call_counts calls;
    pw_node_trace trace;
    pw_frame_pool frames;
    pw_calendar library; /* what its progress thread does: see library.h */
    pw_pieces pieces;
    pw_firehoses firehoses;
    pw_program_regions regions;
};

/* Note what a negative code is about, in words; the code. */
int pw_node_fail(pw_node *node, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
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
/* A message or transfer is over, but for its lease: the host is told. */
int pw_node_complete(pw_node *node, pw_handle *handle, int64_t time_ns, int error);
/* A transfer's event: it is over. */
int pw_node_finish(pw_node *node, const pw_host_event *event);
/* Act on a fork. */
int pw_node_share_pages(pw_node *node);
/* Give back the bursts and frames that have left. */
void pw_node_reclaim(pw_node *node);
#endif
