/* The blocking steps that calls and collectives are made of: post, wait, give back. A wait lets the
 * other threads of the rank in between its turns, and the host look after other things every
 * PW_CALL_PAUSE_NS (pw_messaging_set_pause). Every function is called with the node locked.
 *
 * Results: 0: well; > 0: an operation that is over, the caller's: with an error in it, or asked for
 * (PW_CALL_KEEP); negative: PW_ERR_*: receives are taken back that nothing has come for, what is
 * matched goes through by itself, so the buffers must stay. */
#ifndef PW_FACADE_BLOCKING_H
#define PW_FACADE_BLOCKING_H
#include "transport/facade/calls.h"

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
