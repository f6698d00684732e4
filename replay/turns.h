/* Lets a node work exactly when the recorded host did: which bursts it took, and how far the NI
 * went on. Where flows contend virtual times depend on that, so that only so a replay can be
 * compared with its recording to the ns. One thread at a time. */
#ifndef PW_REPLAY_TURNS_H
#define PW_REPLAY_TURNS_H
#include "node/node.h"
#include "replay/reader.h"

typedef struct {
    pw_reader reader; /* zeroed, then as reader.h says: of PW_PWT_TURNS */
    pw_node *node;
    pw_wire *wire;        /* the node's, of pw_wire_join */
    bool is_read, is_end; /* the next turn; there is none */
    uint64_t record;      /* of OPS, before which it is */
    uint32_t *sources;    /* of the bursts that it takes */
    uint32_t num_sources, capacity;
    uint64_t num_turns; /* read so far */
    bool is_waiting;
    int64_t now_ns; /* of the CPU, which does not wait */
} pw_turns;

#define PW_TURNS_NONE 0   /* none comes before that record */
#define PW_TURNS_DONE 1   /* one was done */
#define PW_TURNS_BEHIND 2 /* one does, and its bursts are not here */
/* The next turn that was before record number num_records. PW_TURNS_*, or a negative PW_ERR_*. */
int pw_turns_follow(pw_turns *turns, uint64_t num_records);
/* From now on the node turns as ever. */
void pw_turns_end(pw_turns *turns);
void pw_turns_finish(pw_turns *turns);
#endif
