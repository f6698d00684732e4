/* One rank of a recorded program, run again: takes its records one after the other and does with a
 * node what they say the program has done. The node's times come out of the node. One thread at a
 * time. */
#ifndef PW_REPLAY_PROGRAM_H
#define PW_REPLAY_PROGRAM_H
#include "node/messages/messages.h"
#include "replay/program_tables.h"
#include "replay/reader.h"

/* cdef begin */
/* Why a program does not go on. */
#define PW_PROGRAM_RUNS 0 /* it does */
#define PW_PROGRAM_WAITS_OPERATION 1
#define PW_PROGRAM_WAITS_MESSAGE 2 /* that a probe tells of, or a part of a receive of several */
#define PW_PROGRAM_WAITS_GROUP 3   /* the other members' clocks */
#define PW_PROGRAM_WAITS_EXPOSED 4 /* at a call's end: for a send that was eager when recorded */
#define PW_PROGRAM_DRAINS 5        /* at its end; sends are under way */
#define PW_PROGRAM_ENDED 6
#define PW_PROGRAM_WAITS_TURN 7 /* for the bursts of the recorded host's next turn */

/* Where a program is, for people. What it does not wait for is 0. */
typedef struct {
    uint32_t waits;                             /* PW_PROGRAM_* */
    uint32_t kind;                              /* PW_OPERATION_* of the operation */
    uint32_t peer;                              /* PW_ANY_NODE: any */
    uint32_t is_cut;                            /* ended without an END: its recording was killed */
    uint64_t operation, tag, ignore, num_bytes; /* of the message; operation by its number */
    uint64_t group, members;                    /* of the meeting */
    uint64_t num_records, num_calls;            /* so far */
    uint64_t num_verified;                      /* recorded times that came out */
    uint64_t num_lost;                          /* things that could not be recorded */
    char call[PW_CALL_NAME_BYTES];              /* the MPI call; empty: none has a name yet */
    char lost[PW_CALL_NAME_BYTES];              /* the first that is lost */
} pw_program_place;

/* A recorded time that the replay does not have. */
typedef struct {
    uint64_t call; /* number of calls before it; that of all at the program's end */
    int64_t recorded_ns, replayed_ns;
    uint32_t is_there, is_end;
    char name[PW_CALL_NAME_BYTES];
} pw_program_difference;

/* A message that has no other side. */
typedef struct {
    uint32_t kind; /* PW_OPERATION_SEND, _RECEIVE; _ARRIVED: eager, and nobody took it */
    uint32_t peer;
    uint64_t tag, ignore, num_bytes;
} pw_program_unmatched;
/* cdef end */

typedef struct pw_program pw_program;

typedef struct {
    pw_node *node; /* the caller's; its host's callbacks are the program's from now on */
    pw_chunk_source source;
    uint64_t eager_limit_bytes;
    bool matches_freely; /* receives from any source take what is there, not what they took */
    uint32_t touch;      /* PW_TOUCH_*; verifying: at use */
    bool verifies; /* against the recorded times, turn by turn as the recorded host had them */
    pw_wire *wire; /* the node's, of pw_wire_join */
    /* pw_program_key of a peer's program. */
    uint64_t (*key_of)(void *context, uint32_t peer, const pw_program_wish *wish);
    /* Peers may use this from now on, or no more: PW_OK, or a code. NULL: nobody asks. */
    int (*registered)(void *context, uint32_t node, const pw_registration *made, bool is_gone);
    void *context;
} pw_program_options;

/* PW_ERR_*, with the reason; *out is then NULL. */
int pw_program_create(const pw_program_options *options, pw_program **out, pw_sentence *reason);
/* Before its node. */
void pw_program_destroy(pw_program *program);
/* Go on while the clock is not later than until_ns, as far as that goes without the peers. PW_OK,
 * or a code with a reason; PW_ERR_UNRECOVERABLE: a recorded time differs, or an operation has
 * failed. */
int pw_program_go(pw_program *program, int64_t until_ns);
/* The CPU is busy: a turn of its node. A negative code with a reason. */
int pw_program_serve(pw_program *program);
/* The CPU waits, or has ended: a turn of its node. 1: it can go on now, 0: not yet; or a code. */
int pw_program_turn(pw_program *program);
/* The group has met (PW_PROGRAM_WAITS_GROUP): it goes on, not before time_ns. */
void pw_program_meet(pw_program *program, int64_t time_ns);
/* pw_registered_key of what is registered here. */
uint64_t pw_program_key(const pw_program *program, const pw_program_wish *wish);
/* PW_PROGRAM_*. */
uint32_t pw_program_waits(const pw_program *program);
/* It can go on, but those that do so at the same time come first. */
bool pw_program_yields(const pw_program *program);
/* What its next step uses comes into the caches. */
void pw_program_warm(const pw_program *program);
/* Of a meeting that it waits for. */
uint64_t pw_program_group(const pw_program *program, uint64_t *members);
const char *pw_program_reason(const pw_program *program);

uint64_t pw_program_num_records(const pw_program *program);
void pw_program_read_place(const pw_program *program, pw_program_place *out);
void pw_program_read_difference(const pw_program *program, pw_program_difference *out);
/* The first `capacity` messages that are posted, sent or kept; how many there are. */
uint32_t pw_program_read_unmatched(const pw_program *program, pw_program_unmatched *out,
                                   uint32_t capacity);
#endif
