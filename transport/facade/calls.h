/* The program's MPI calls for contiguous buffers, each in one piece: clock, count, post, wait. They
 * lock the node; a wait lets the other threads of the rank in between its turns, and lets the host
 * look after signals every PW_CALL_PAUSE_NS.
 *
 * `call` is an index of pw_call_index, `began_ns` the wall clock (CLOCK_MONOTONIC) when the program
 * called: the arguments' parsing is the library's time; 0: this is part of a call that has begun,
 * and `call` is not used. Results, where nothing else is said:
 *   0          over, and well
 *   > 0        the address of a pw_operation, which is over: with an error in it, or it was asked
 *              for (PW_CALL_KEEP), or of a call that only posts
 *   negative   PW_ERR_*: a blocking call's receives are cancelled where nothing has come; what is
 *              matched goes through by itself, so the buffers must stay; else nothing was posted */
#ifndef PW_FACADE_CALLS_H
#define PW_FACADE_CALLS_H
#include "node/door/door.h"
#include "transport/facade/messaging.h"

/* cdef begin */
#define PW_CALL_PAUSE_NS 20000000
#define PW_CALL_SYNCHRONOUS 1 /* send: complete when it is received */
#define PW_CALL_UNSIZED 2     /* receive: the message decides its length */
#define PW_CALL_KEEP 4        /* receive: the operation is the result, also when all is well */
#define PW_CALL_REACH 8       /* wait: the CPU does not learn of the completion yet */

/* eager_limit_bytes: longest message that rides in its envelope. mpi stays the caller's. */
int pw_messaging_create(pw_node *node, const pw_mpi_library *mpi, uint64_t eager_limit_bytes,
                        pw_messaging **out);
/* Before MPI is finalized and before the node is destroyed. */
void pw_messaging_destroy(pw_messaging *messaging);
/* What waits call every PW_CALL_PAUSE_NS; NULL: nothing. */
void pw_messaging_set_pause(pw_messaging *messaging, pw_call_pause pause, void *context);
/* context: agreed by its members, and no other channel's of any of them. world_ranks: theirs. */
int pw_channel_create(uint64_t context, int32_t rank, int32_t size, const uint32_t *world_ranks,
                      pw_channel **out);
/* Messages that nobody received are lost. */
void pw_channel_destroy(pw_messaging *messaging, pw_channel *channel);

int64_t pw_call_send(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_channel *channel,
                     uint64_t address, uint64_t num_bytes, int32_t dest, int32_t tag,
                     uint32_t flags);
/* status: an MPI_Status to fill, NULL: none. */
int64_t pw_call_receive(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                        pw_channel *channel, uint64_t address, uint64_t capacity_bytes,
                        int32_t source, int32_t tag, uint32_t flags, void *status);
/* Post the receive, send, wait for both. */
int64_t pw_call_exchange(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                         pw_channel *channel, uint64_t send_address, uint64_t send_bytes,
                         int32_t dest, int32_t send_tag, uint64_t receive_address,
                         uint64_t capacity_bytes, int32_t source, int32_t receive_tag,
                         uint32_t flags, void *status);
/* Post only. A send: 0 when it is complete already; a receive: always an operation. */
int64_t pw_call_isend(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_channel *channel,
                      uint64_t address, uint64_t num_bytes, int32_t dest, int32_t tag,
                      uint32_t flags);
int64_t pw_call_ireceive(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                         pw_channel *channel, uint64_t address, uint64_t capacity_bytes,
                         int32_t source, int32_t tag, uint32_t flags);
/* Wait for an operation; it stays the caller's. 1: over, or PW_ERR_*. */
int pw_call_wait(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_operation *operation,
                 uint32_t flags);
/* Wait for several, which stay the caller's; the CPU learns of them in the order in which they end,
 * which is theirs from now on. 1: all are well; 0: over, and some have an error; or PW_ERR_*. */
int pw_call_wait_all(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                     pw_operation **operations, uint32_t num_operations);
/* 1: over at the CPU's time. */
int pw_call_test(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_operation *operation);
int pw_call_cancel(pw_messaging *messaging, pw_operation *operation);
/* Give an operation back, at some later time: without the lock, as a garbage collector calls it
 * anywhere. */
void pw_call_drop(pw_messaging *messaging, pw_operation *operation);
/* One turn of a loop that waits for something else. 1: something happened, 0: nothing; the core was
 * yielded then. waiting: the CPU waits. */
int pw_call_turn(pw_messaging *messaging, int waiting);
/* 1 when every message has been taken, and every send is over. */
int pw_call_drained(pw_messaging *messaging);
/* Bracket a call that is not in one piece. costs_call: an MPI call, not one of the RDMA library. */
void pw_call_enter(pw_messaging *messaging, uint32_t call, int costs_call);
void pw_call_leave(pw_messaging *messaging);
/* What MPI answered to the call for which PW_ERR_HOST was returned last, 0: it was not MPI. */
int32_t pw_call_mpi_error(pw_messaging *messaging);
/* cdef end */

/* ---- probes: looks for a message that a receive would get, and receives of what was taken by one
 *
 * Each locks the node, so that of two threads that probe one takes the message. */

/* cdef begin */
/* What a probe found. */
typedef struct {
    uint64_t num_bytes;
    int32_t source, tag;
    pw_operation *taken; /* PW_PROBE_TAKE: for pw_call_receive_found */
} pw_found;

#define PW_PROBE_TAKE 1 /* nobody else gets it */
#define PW_PROBE_WAIT 2 /* one look of a wait: the clock goes on to the arrival */
/* Look for the message that a receive would get. 1: it is told in *out, 0: none is here, and unless
 * this is a wait, the look costs what a failed test costs. */
int pw_call_probe(pw_messaging *messaging, pw_channel *channel, int32_t source, int32_t tag,
                  uint32_t flags, pw_found *out);
/* Receive what was taken: the operation of that, or PW_ERR_*. */
int64_t pw_call_receive_found(pw_messaging *messaging, pw_operation *arrived, uint64_t address,
                              uint64_t capacity_bytes, uint32_t flags);
/* cdef end */

/* ---- the rank's node as a node of pagewire.h: for services above the node */

/* cdef begin */
/* As long as the messaging. */
int pw_call_open_door(pw_messaging *messaging, pagewire_node **out);
/* cdef end */

/* ---- the blocking steps that calls and collectives are made of: post, wait, give back
 *
 * A wait lets the
 * other threads of the rank in between its turns, and the host look after other things every
 * PW_CALL_PAUSE_NS (pw_messaging_set_pause). Every function is called with the node locked.
 *
 * Results: 0: well; > 0: an operation that is over, the caller's: with an error in it, or asked for
 * (PW_CALL_KEEP); negative: PW_ERR_*: receives are taken back that nothing has come for, what is
 * matched goes through by itself, so the buffers must stay. */

/* Begin and end a call, which has the node locked in between. */
void pw_block_begin(pw_messaging *messaging, uint32_t call, int64_t began_ns);
void pw_block_end(pw_messaging *messaging, int64_t began_ns);

/* 1: over; it stays the caller's in any case. */
int pw_block_until_done(pw_messaging *messaging, pw_operation *operation);
/* Wait for operations by the order of `companion`, and give them back. status: of a receive. */
int64_t pw_block_on(pw_messaging *messaging, pw_operation *operation, uint32_t flags, void *status);
/* Give operations back that nobody waits for any more, by the order of `companion`. */
void pw_block_abandon(pw_messaging *messaging, pw_operation *operation);

int64_t pw_block_send(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                      uint64_t num_bytes, int32_t dest, int32_t tag, uint32_t flags);
int64_t pw_block_receive(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                         uint64_t capacity_bytes, int32_t source, int32_t tag, uint32_t flags,
                         void *status);

typedef struct {
    uint64_t address, num_bytes;
    int32_t rank, tag;
} pw_block_message;

/* Post the receive, send, wait for the send and then for the receive. */
int64_t pw_block_exchange(pw_messaging *messaging, pw_channel *channel,
                          const pw_block_message *outgoing, const pw_block_message *incoming,
                          uint32_t flags, void *status);
#endif
