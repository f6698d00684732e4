/* The trace of a node as a file, or given to who asks for it: what the engine, the clock and the
 * memory strategy record goes there block by block, in the order in which it was recorded, until
 * the trace is finished. The launcher makes a timeline of files (run/timeline). In between no
 * memory is taken, and no record costs a system call but the one that fills a block. One thread at
 * a time. */
#ifndef PW_NODE_NODE_TRACE_H
#define PW_NODE_NODE_TRACE_H
#include "native/trace.h"
#include "node/node.h"

#define PW_TRACE_BLOCK_RECORDS 8192 /* 256 KiB */

/* cdef begin */
/* Who takes records; `take` gives 0, or an errno: no more of them. */
typedef struct {
    void *context;
    int (*take)(void *context, uint32_t node, const pw_trace_record *records, uint32_t num_records);
} pw_trace_taker;
/* cdef end */

/* Of a node. Zeroed: none. */
typedef struct {
    pw_trace *trace; /* NULL: off */
    pw_trace_taker taker;
    int descriptor;
    int failed; /* errno of the first write that failed: what came behind is lost */
    char *path; /* NULL: the taker has the records */
    uint64_t pinned_pages, resident_pages; /* as recorded last */
} pw_node_trace;

/* cdef begin */
/* Record from now on into a new file. PW_ERR_HOST (errno), PW_ERR_NOMEM. */
int pw_node_trace_start(pw_node *node, const char *path);
/* The same for a taker, which stays the caller's: so many records at a time. PW_ERR_NOMEM. */
int pw_node_trace_give(pw_node *node, const pw_trace_taker *taker, uint32_t num_records);
/* Write what is left and end the trace: PW_ERR_HOST (errno) when records are lost, and then there
 * is no file, which would look like a whole one. PW_OK without a trace. */
int pw_node_trace_finish(pw_node *node);
/* cdef end */
/* End it without a word. */
void pw_node_trace_drop(pw_node *node);
/* The memory strategy takes so long from the context's now_ns on. */
void pw_node_trace_strategy(pw_node *node, const pw_strategy_cost *cost);
#endif
