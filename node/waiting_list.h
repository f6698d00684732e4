/* Bursts in order that a wire could not send yet, or whose buffers the node has not taken back yet:
 * lists of entries out of one pool, which allocates only when more wait than ever before. */
#ifndef PW_NODE_WAITING_LIST_H
#define PW_NODE_WAITING_LIST_H
#include "native/types.h"

typedef struct pw_waiting {
    struct pw_waiting *next;
    uint8_t *data;
    uint32_t num_bytes;
} pw_waiting;

typedef struct {
    pw_waiting *first, *last;
} pw_waiting_list;

typedef struct pw_waiting_chunk pw_waiting_chunk;

/* Zeroed: empty. */
typedef struct {
    pw_waiting *free_list;
    pw_waiting_chunk *chunks;
} pw_waiting_pool;

/* PW_ERR_NOMEM. */
int pw_waiting_append(pw_waiting_pool *pool, pw_waiting_list *list, uint8_t *data,
                      uint32_t num_bytes);
/* The first entry of a list, which is not empty, goes to the end of the other one. */
void pw_waiting_move(pw_waiting_list *from, pw_waiting_list *to);
/* Drop the first entry, NULL when there is none; its buffer. */
uint8_t *pw_waiting_take(pw_waiting_pool *pool, pw_waiting_list *list);
void pw_waiting_finish(pw_waiting_pool *pool);
#endif
