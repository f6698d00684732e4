/* What a program keeps of its trace: its operations, the turns of the recorded host, the pages that
 * it touches, and the memory that its peers may use. One thread at a time. */
#ifndef PW_REPLAY_PROGRAM_TABLES_H
#define PW_REPLAY_PROGRAM_TABLES_H
#include "native/types.h"
#include "node/messages/messages.h"
#include "node/node.h"
#include "replay/reader.h"

/* ---- operations of a rank by their numbers, as a trace names them */

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

/* ---- turns */

/* Lets a node work exactly when the recorded host did: which bursts it took, and how far the NI
 * went on. Where flows contend virtual times depend on that, so that only so a replay can be
 * compared with its recording to the ns. */

typedef struct {
    pw_reader reader; /* zeroed, then as reader.h says: of PW_PWT_TURNS */
    pw_node *node;
    pw_wire *wire;        /* the node's, of pw_wire_join */
    bool is_read, is_end; /* the next turn; there is none */
    uint64_t record;      /* of OPS, before which it is */
    uint32_t *sources;    /* of the bursts that it takes */
    uint32_t num_sources, capacity;
    uint64_t num_turns; /* read so far */
    bool is_waiting;
    int64_t now_ns; /* of the CPU, which does not wait */
} pw_turns;

#define PW_TURNS_NONE 0   /* none comes before that record */
#define PW_TURNS_DONE 1   /* one was done */
#define PW_TURNS_BEHIND 2 /* one does, and its bursts are not here */
/* The next turn that was before record number num_records. PW_TURNS_*, or a negative PW_ERR_*. */
int pw_turns_follow(pw_turns *turns, uint64_t num_records);
/* From now on the node turns as ever. */
void pw_turns_end(pw_turns *turns);
void pw_turns_finish(pw_turns *turns);

/* ---- touches */

/* When a program touched pages in a compute interval, which no trace tells: PAGES stand where the
 * pages are used next. Reads a rank's records ahead, up to the next interval, and says at what time
 * of this one each page is to be there. */

/* cdef begin */
#define PW_TOUCH_AT_USE 0 /* where PAGES stand */
#define PW_TOUCH_START 1  /* of the interval */
#define PW_TOUCH_SPREAD 2 /* evenly, page by page */
#define PW_TOUCH_END 3
#define PW_READS_AHEAD 0x100 /* in the kind of a stream: a second reader of it */
/* cdef end */

/* Zeroed, then the first two members set. */
typedef struct {
    pw_reader reader; /* of OPS */
    uint32_t when;    /* PW_TOUCH_* */
    bool is_under_way;
    int64_t duration_ns, passed_ns; /* of the interval */
    pw_record *found;               /* PAGES */
    uint32_t num_found, capacity;
    uint64_t num_pages; /* of them */
    uint32_t next;      /* of `found`, and how many pages of it and of all are there */
    uint64_t num_done, num_there;
} pw_touches;

void pw_touches_finish(pw_touches *touches);
/* An interval begins; its record was the num_records-th. 1: pages were touched, and it is under
 * way; 0: none were; or a code of the reader's, PW_ERR_NOMEM. */
int pw_touches_begin(pw_touches *touches, uint64_t num_records, int64_t duration_ns);
/* The pages that are touched next, and at what time of the interval; false: there are no more. */
bool pw_touches_next(const pw_touches *touches, pw_record *pages, int64_t *at_ns);
/* They are there. */
void pw_touches_done(pw_touches *touches, const pw_record *pages);

/* ---- memory of a rank that its peers may use: which key has what an operation wants? */

typedef struct {
    uint64_t number, address, num_bytes, key;
    uint64_t recorded_key; /* 0: the trace does not say */
    uint32_t rights;       /* PW_REMOTE_* */
} pw_registration;

/* Zero: there is none. */
typedef struct {
    pw_registration *all; /* in the order of registering */
    uint32_t count, capacity;
} pw_registered;

/* Memory of a peer's that an operation wants. */
typedef struct {
    uint64_t key; /* that it had in the recorded run; 0: the trace does not say */
    uint64_t address, num_bytes;
    uint32_t right; /* PW_REMOTE_* */
} pw_program_wish;

void pw_registered_finish(pw_registered *registered);
/* PW_ERR_NOMEM. */
int pw_registered_add(pw_registered *registered, const pw_registration *made);
/* That of the number goes, as *out says; false: there is none. */
bool pw_registered_remove(pw_registered *registered, uint64_t number, pw_registration *out);
/* The key of what had the wish's key; where that is not known, of what was registered last of all
 * that hold it and give the right. 0: none. */
uint64_t pw_registered_key(const pw_registered *registered, const pw_program_wish *wish);
#endif
