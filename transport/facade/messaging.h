/* Messages of an MPI program: node/messages/ with MPI's communicators, ranks and wildcards. One a
 * rank. Every function here is called with the node locked; transport/facade/calls.h has those for
 * the program's threads. */
#ifndef PW_FACADE_MESSAGING_H
#define PW_FACADE_MESSAGING_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "node/messages/messages.h"
#include "transport/facade/mpi_library.h"

/* ---- memory of the library's own for a call
 *
 * Blocks that are kept for the next one, so that a call
 * makes no system call, and whether its pages are present does not hang on what else the heap
 * holds. Page-aligned, so that virtual times repeat. One thread at a time: under the node's lock.
 */

/* Larger blocks are freed when they are given back: to move so much takes longer than to map it. */
#define PW_SCRATCH_KEPT_BYTES (UINT64_C(16) << 20)

typedef struct pw_scratch {
    struct pw_scratch *next;
    uint8_t *bytes;
    uint64_t num_bytes; /* a power of two */
    bool is_taken;
} pw_scratch;

/* A block of at least num_bytes, NULL: out of memory. *all: every block, NULL at first. */
pw_scratch *pw_scratch_take(pw_scratch **all, uint64_t num_bytes);
/* One that is never given back stays until the end: the NI may still use it. NULL: nothing. */
void pw_scratch_give(pw_scratch **all, pw_scratch *block);
void pw_scratch_free(pw_scratch **all);

/* ---- messages */

/* cdef begin */
typedef struct pw_messaging pw_messaging;
typedef struct pw_channel pw_channel;

/* What a wait for an operation calls now and then, with the node unlocked. A negative code ends the
 * wait's call with it. */
typedef int (*pw_call_pause)(void *context, const pw_operation *operation);
/* cdef end */

/* A communicator's point-to-point messages, or those of its collectives, seen from this rank. Their
 * operations have its number as their context, a rank as their source. */
struct pw_channel {
    uint64_t context;
    int32_t rank, size;
    uint32_t world_rank[];
};

/* What was the datatype's operation when MPI was last asked. Both are MPI's own and stay: types of
 * users have no such operations. */
typedef struct {
    pw_mpi_handle op, datatype;
} pw_tried_operation;

struct pw_messaging {
    pw_messages messages;
    pw_node *node;
    const pw_mpi_library *mpi;
    _Atomic(pw_operation *) given_up; /* see pw_call_drop; dropped at the next occasion */
    pw_call_pause pause;
    void *pause_context;
    pw_scratch *scratches; /* memory for calls */
    pw_tried_operation tried;
    int32_t mpi_error; /* of the MPI call for which PW_ERR_HOST was returned last */
};

/* Send eagerly when the message is short and is_synchronous false; *out NULL then. Else let the
 * receiver read it. Arguments must be valid. */
int pw_post_send(pw_messaging *messaging, pw_channel *channel, uint64_t address, uint64_t num_bytes,
                 int32_t dest, int32_t tag, bool is_synchronous, pw_operation **out);
/* Post a receive of at most capacity_bytes; is_unsized: of any length. */
int pw_post_receive(pw_messaging *messaging, const pw_channel *channel, uint64_t address,
                    uint64_t capacity_bytes, bool is_unsized, int32_t source, int32_t tag,
                    pw_operation **out);
/* Receive a message that a probe took. */
int pw_receive_arrived(pw_messaging *messaging, pw_operation *arrived, uint64_t address,
                       uint64_t capacity_bytes, bool is_unsized, pw_operation **out);
/* The message that a receive would get, NULL: it is not here. */
pw_operation *pw_channel_find(const pw_messaging *messaging, const pw_channel *channel,
                              int32_t source, int32_t tag);
/* Give an operation back; one that is not done goes on by itself. */
void pw_operation_drop(pw_messaging *messaging, pw_operation *operation);
/* Take a posted receive back; one that is matched goes through. */
int pw_operation_cancel(pw_messaging *messaging, pw_operation *operation);
/* As pw_node_turn. */
int pw_messaging_turn(pw_messaging *messaging, bool waiting);
/* The same as part of a loop: others come in between. */
int pw_messaging_step(pw_messaging *messaging, bool waiting);
#endif
