/* What nodes tell each other about firehoses, and what the owner of the pages does then; beside it
 * pw_firehoses_offer of firehoses.h. PW_ERR_MALFORMED, with nothing said: no sound peer says that.
 */
#ifndef PW_NODE_FIREHOSES_OWNER_H
#define PW_NODE_FIREHOSES_OWNER_H
#include "transport/node/firehoses.h"

/* Pages: first in address, number in num_bytes. */
#define KIND_LET_GO PW_MESSAGE_OF_FIREHOSES
#define KIND_HOLD (PW_MESSAGE_OF_FIREHOSES + 1) /* key: the move; extra: runs that follow */
#define KIND_HELD (PW_MESSAGE_OF_FIREHOSES + 2) /* key: the move */
#define KIND_DONE                                                                       \
    (PW_MESSAGE_OF_FIREHOSES + 3)     /* key: of the message; extra: its error, negated \
                                       */
#define IN_CHUNKS (UINT64_C(1) << 62) /* in an address: no program has memory there */

/* The progress thread holds pages for the peer, or lets them go. */
int pw_firehoses_serve(pw_node *node, uint32_t source, const pw_envelope *envelope);
/* The peer has read all of a message that it wants. */
int pw_firehoses_done(pw_node *node, uint32_t source, const pw_envelope *envelope);
#endif
