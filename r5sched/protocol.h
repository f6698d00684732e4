/* Life of a block at its source as a table: in which state which event leads where, and what the
 * firmware does. answers.c takes every step from it; protocol.py reads it, draws the documentation
 * from it and checks it. An event is of the present attempt: an answer whose transaction id, block
 * or sequence number is another one is stale, and makes no step. */
#ifndef PW_R5SCHED_PROTOCOL_H
#define PW_R5SCHED_PROTOCOL_H
#include "native/types.h"

/* cdef begin */
enum pw_transaction_state { /* [R5 3.4] */
                            PW_TRANSACTION_FREE = 0,
                            PW_TRANSACTION_ISSUED = 1,
                            PW_TRANSACTION_ACKED = 2,
                            PW_TRANSACTION_NACKED = 3,
                            PW_TRANSACTION_RETRANSMITTED = 4,
                            PW_TRANSACTION_STATES
};

enum pw_block_event {
    PW_BLOCK_START,
    PW_BLOCK_ACK,
    PW_BLOCK_FORESEEN_ACK,
    PW_BLOCK_CONFIRMED,
    PW_BLOCK_REFUTED,
    PW_BLOCK_NACK_PAGE_FAULT,
    PW_BLOCK_NACK_RETRY,
    PW_BLOCK_NACK_FATAL,
    PW_BLOCK_NACK_NOT_READY,
    PW_BLOCK_NACK_SEQUENCE,
    PW_BLOCK_ERR,
    PW_BLOCK_TIMEOUT,
    PW_BLOCK_ERR_WHILE_SENT,
    PW_BLOCK_TIMEOUT_WHILE_SENT,
    PW_BLOCK_GO_BACK,
    PW_BLOCK_HOPELESS,
    PW_BLOCK_ABANDONED,
    PW_BLOCK_EVENTS
};

enum pw_block_reaction {
    PW_REACT_NONE = 0, /* not in the table: cannot happen, and nothing is done */
    PW_REACT_SEND,
    PW_REACT_COMPLETE,
    PW_REACT_HOLD,
    PW_REACT_RELEASE,
    PW_REACT_REOPEN,
    PW_REACT_WAIT,
    PW_REACT_RETRANSMIT,
    PW_REACT_REARM,
    PW_REACT_DEFER,
    PW_REACT_PAUSE,
    PW_REACT_GO_BACK,
    PW_REACT_FAIL,
    PW_BLOCK_REACTIONS
};

typedef struct {
    uint8_t next;     /* enum pw_transaction_state; FREE when the entry is given back */
    uint8_t reaction; /* enum pw_block_reaction */
} pw_block_transition;

const pw_block_transition *pw_block_transition_of(uint32_t state, uint32_t event);
/* cdef end */
#endif
