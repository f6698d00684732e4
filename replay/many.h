/* Many nodes in one process, each with the program of its rank, in one order of virtual time
 * (node/order.h): a program that runs has its turn at its clock. A replay that verifies follows the
 * recorded turns instead. What comes out depends on the programs and the settings alone. A step
 * costs O(log nodes). One thread. Several processes can share the nodes of a replay: each has a
 * part of them, and goes on by windows within which no part can feel another one. */
#ifndef PW_REPLAY_MANY_H
#define PW_REPLAY_MANY_H
#include "node/settings/config.h"
#include "replay/program.h"

/* cdef begin */
typedef struct pw_many pw_many;

#define PW_REPLAY_FREELY 1   /* receives from any source take what is there */
#define PW_REPLAY_VERIFIES 2 /* every recorded time must come out */
#define PW_REPLAY_TOUCH 4 /* times PW_TOUCH_*: when pages are touched within a compute interval */

typedef struct {
    uint64_t steps;   /* of the heap */
    uint64_t records; /* of programs */
    uint64_t events;  /* of NIs: see pw_ni_num_events */
    uint32_t ended;   /* programs */
    uint32_t failed;  /* rank of what pw_many_run failed with */
} pw_many_counts;

/* PW_ERR_INVALID: no nodes, or more than PW_NODES_MAX. */
int pw_many_create(uint32_t num_nodes, pw_many **out);
void pw_many_destroy(pw_many *many);
/* Before nodes are made: they are divided over so many processes, and this one makes those of part
 * `own`. ends: of each part, the node behind its last one. PW_ERR_NOMEM. */
int pw_many_divide(pw_many *many, uint32_t num_parts, uint32_t own, const uint32_t *ends);
/* Make one of the nodes and the program of its rank, in any order, each once. The opening's host
 * has what Python is asked; its context is not used. flags: PW_REPLAY_*. A code with the reason;
 * the rest of the nodes may then only be destroyed. */
int pw_many_open(pw_many *many, uint32_t node, const pw_node_config *config,
                 const pw_node_opening *opening, const pw_chunk_source *source, uint32_t flags,
                 pw_sentence *reason);
/* All are open: go on for so many steps. 1: there are more; 0: nothing can go on, and all programs
 * have ended unless counts.ended says else; or a code with a reason. */
int pw_many_run(pw_many *many, uint64_t max_steps);
/* The part's own of a replay in parts. */
typedef struct {
    int64_t next_ns;  /* nothing is left before it, here or in what is told; PW_NEVER: nor ever */
    int64_t reach_ns; /* nothing that a node does is felt by another one before so long */
    uint32_t num_meeting; /* groups whose ranks have come in part: others may end them at once */
} pw_many_window;

void pw_many_window_read(const pw_many *many, pw_many_window *out);
/* Go on to the end of a window, if not less far; PW_OK, or a code with a reason. */
int pw_many_run_window(pw_many *many, int64_t end_ns);
/* What other parts must hear before the next window: the bytes for one of them, until
 * pw_many_has_told. */
const uint8_t *pw_many_tells(const pw_many *many, uint32_t part, uint64_t *num_bytes);
void pw_many_has_told(pw_many *many);
/* What another part tells: PW_OK, or a code with a reason. */
int pw_many_hear(pw_many *many, const uint8_t *bytes, uint64_t num_bytes);
const char *pw_many_reason(const pw_many *many);
void pw_many_read_counts(const pw_many *many, pw_many_counts *out);
/* The links that all nodes share; NULL: network.model = private. */
const pw_links *pw_many_links(const pw_many *many);
/* Of a rank: see program.h. */
pw_node *pw_many_node(const pw_many *many, uint32_t node);
void pw_many_place(const pw_many *many, uint32_t node, pw_program_place *out);
void pw_many_difference(const pw_many *many, uint32_t node, pw_program_difference *out);
uint32_t pw_many_unmatched(const pw_many *many, uint32_t node, pw_program_unmatched *out,
                           uint32_t capacity);
/* cdef end */
#endif
