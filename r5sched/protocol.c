#include "r5sched/protocol.h"

#define FREE PW_TRANSACTION_FREE
#define ISSUED PW_TRANSACTION_ISSUED
#define ACKED PW_TRANSACTION_ACKED
#define NACKED PW_TRANSACTION_NACKED
#define RETRANSMITTED PW_TRANSACTION_RETRANSMITTED

/* What a pending block does is the same in each of its states: whatever comes first decides. An ERR
 * can overtake its NACK or replace a lost one; a copy that the network makes can bring a second
 * NACK, or an ACK after one. */
#define PENDING(state)                                            \
    [PW_BLOCK_ACK] = {FREE, PW_REACT_COMPLETE},                   \
    [PW_BLOCK_NACK_PAGE_FAULT] = {NACKED, PW_REACT_WAIT},         \
    [PW_BLOCK_NACK_RETRY] = {RETRANSMITTED, PW_REACT_RETRANSMIT}, \
    [PW_BLOCK_NACK_FATAL] = {NACKED, PW_REACT_FAIL},              \
    [PW_BLOCK_NACK_NOT_READY] = {NACKED, PW_REACT_PAUSE},         \
    [PW_BLOCK_NACK_SEQUENCE] = {NACKED, PW_REACT_GO_BACK},        \
    [PW_BLOCK_GO_BACK] = {RETRANSMITTED, PW_REACT_RETRANSMIT},    \
    [PW_BLOCK_ERR] = {RETRANSMITTED, PW_REACT_RETRANSMIT},        \
    [PW_BLOCK_TIMEOUT] = {RETRANSMITTED, PW_REACT_RETRANSMIT},    \
    [PW_BLOCK_ERR_WHILE_SENT] = {state, PW_REACT_DEFER},          \
    [PW_BLOCK_TIMEOUT_WHILE_SENT] = {state, PW_REACT_REARM},      \
    [PW_BLOCK_HOPELESS] = {NACKED, PW_REACT_FAIL}, [PW_BLOCK_ABANDONED] = {FREE, PW_REACT_RELEASE}

static const pw_block_transition transitions[PW_TRANSACTION_STATES][PW_BLOCK_EVENTS] = {
    [FREE] = {[PW_BLOCK_START] = {ISSUED, PW_REACT_SEND}},
    [ISSUED] = {PENDING(ISSUED), [PW_BLOCK_FORESEEN_ACK] = {ACKED, PW_REACT_HOLD}},
    [ACKED] =
        {
            [PW_BLOCK_CONFIRMED] = {FREE, PW_REACT_RELEASE},
            [PW_BLOCK_REFUTED] = {ISSUED, PW_REACT_REOPEN},
            [PW_BLOCK_ABANDONED] = {FREE, PW_REACT_RELEASE},
        },
    [NACKED] = {PENDING(NACKED)},
    [RETRANSMITTED] = {PENDING(RETRANSMITTED)},
};

const pw_block_transition *pw_block_transition_of(uint32_t state, uint32_t event)
{
    static const pw_block_transition none = {0, PW_REACT_NONE};
    return state < PW_TRANSACTION_STATES && event < PW_BLOCK_EVENTS ? &transitions[state][event]
                                                                    : &none;
}
