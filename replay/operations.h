/* Operations of a rank by their numbers, as a trace names them. One thread at a time. */
#ifndef PW_REPLAY_OPERATIONS_H
#define PW_REPLAY_OPERATIONS_H
#include "node/messages/messages.h"

typedef struct pw_numbered pw_numbered;

/* An operation of the message layer, with what a replay needs to know of it. */
struct pw_numbered {
    pw_operation base; /* first: see pw_messages_open */
    uint64_t number;
    pw_numbered *chain;   /* of those in one bucket */
    pw_numbered *parts;   /* of a receive of several messages: those that nobody asked for yet */
    pw_numbered *sibling; /* the next part */
    /* For a critical path: the buffer, the transfer, its number among those that were told of */
    uint64_t region;
    int64_t offset;
    uint64_t stream, told;
};

/* Zeroed: empty. */
typedef struct {
    pw_numbered **buckets;
    uint64_t num_buckets; /* a power of two */
    uint64_t num_operations;
} pw_numbers;

void pw_numbers_finish(pw_numbers *numbers);
/* PW_ERR_NOMEM: it is not found. */
int pw_numbers_add(pw_numbers *numbers, pw_numbered *operation, uint64_t number);
/* NULL: nothing has this number (any more). */
pw_numbered *pw_numbers_find(const pw_numbers *numbers, uint64_t number);
/* The one found is not found any more. */
void pw_numbers_remove(pw_numbers *numbers, pw_numbered *operation);
#endif
