/* What a process that holds a part of a replay's nodes has to tell another one that holds others.
 * Both are of one build: what is told has the form that it has in memory. */
#ifndef PW_REPLAY_OUTBOX_H
#define PW_REPLAY_OUTBOX_H
#include "native/types.h"

#define PW_LETTER_BURST 0        /* for the node, of the source: its bytes */
#define PW_LETTER_MEETING 1      /* the node has come: a pw_letter_meeting */
#define PW_LETTER_REGISTERED 2   /* by the node: a pw_registration */
#define PW_LETTER_DEREGISTERED 3 /* the same */

/* Before what is told, which is filled up to 8 bytes. */
typedef struct {
    uint32_t kind, node, source, num_bytes;
    int64_t sent_ns; /* a burst */
} pw_letter;

typedef struct {
    uint64_t group, num_members;
    int64_t now_ns;
} pw_letter_meeting;

/* Zero is an empty one. */
typedef struct {
    uint8_t *bytes;
    uint64_t num_bytes, capacity;
} pw_outbox;

void pw_outbox_finish(pw_outbox *outbox);
/* PW_ERR_NOMEM: nothing has changed. */
int pw_outbox_put(pw_outbox *outbox, const pw_letter *letter, const void *what);
/* The next one of num_bytes at bytes, which go on behind it: 1; 0: they are over; PW_ERR_MALFORMED.
 */
int pw_letter_next(const uint8_t **bytes, uint64_t *num_bytes, pw_letter *letter,
                   const void **what);
#endif
