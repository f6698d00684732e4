/* Pending-transaction table of the R5: 1024 entries, 14-bit ids from a circular ticket queue, and
 * the timeouts of the entries, in the order of their arming [R5 3.4]. The low 10 bits of an id
 * name the entry, the upper 4 count its reuse, so a late answer to an earlier holder is seen. Not
 * thread-safe. */
#ifndef PW_R5SCHED_TRANSACTIONS_H
#define PW_R5SCHED_TRANSACTIONS_H
#include "native/pool.h"
#include "r5sched/protocol.h"

#define PW_NO_TRANSACTION 0xffffu
#define PW_SEQUENCE_MASK 0xfffu
/* After so many attempts, twice as many as there are sequence numbers, a block will never get
 * through (assumed: the sources set no limit). A timeout far below the time of a page-in comes
 * here: the entries of its attempts keep the tasklet from ever coming to its end. */
#define PW_ATTEMPTS_MAX (2 * (PW_SEQUENCE_MASK + 1))

typedef struct {
    pw_link link;   /* free: in the table's list */
    uint16_t place; /* in the table's chunks */
    uint16_t id;
    uint16_t sequence;
    uint8_t state;          /* enum pw_transaction_state */
    bool last_block;        /* completion flag */
    bool timer_cancelled;   /* NTO: a NACK took the timer away */
    bool nack_seen;         /* a NACK for this attempt is in the event queue or was handled */
    bool timer_decided;     /* a timeout event for this attempt is in the event queue */
    uint16_t num_late_acks; /* of earlier attempts */
    bool spoiled;           /* damage or an impairment makes this attempt vain */
    uint16_t num_attempts;
    uint16_t num_spoiled; /* attempts of which that is so */
    bool predicted;       /* its ACK is in the event queue before it is physically here */
    bool confirmed;       /* and has come since */
    pw_time predicted_ns;
    uint32_t channel;
    uint32_t block_idx;
    uint32_t block_bytes;
    pw_time refused_ns;  /* its first NACK of a page fault since it was sent; 0: none */
    pw_time deadline_ns; /* PW_NEVER without a timeout */
    pw_time answer_ns;   /* latest answer to this attempt that is known, PW_NEVER: none will come */
    pw_time started_ns;  /* past limiter and pace: its round trip begins */
    pw_time sending_until_ns; /* retransmission bit: the block leaves this NI until then */
    uint16_t arm_number;      /* order of arming, for those that expire together */
    bool awaits_err;          /* an ERR follows, not before earliest_answer_ns */
    bool unanswered;          /* sent, and the peer's answer is not physically here */
    uint16_t before, after;   /* list of those */
    pw_time earliest_answer_ns;
} pw_transaction;

/* An attempt that a timeout overtook while its ERR is still to come: that will be stale, but the R5
 * has to read it all the same, so that nothing behind it is decided before it is here. */
typedef struct {
    uint64_t identity;
    pw_time earliest_answer_ns;
    uint32_t peer;
    uint16_t id, sequence;
} pw_overtaken;

#define PW_TRANSACTIONS_CHUNK 16u

typedef struct {
    /* Of PW_TRANSACTIONS, where each is that is pending, plus one; 0: free. Made at the first
     * claim. */
    uint16_t *places;
    uint16_t *tickets; /* as many ids; without the ticket queue: that of each entry's next holder */
    pw_transaction **chunks; /* of PW_TRANSACTIONS_CHUNK each: as many as ever were pending */
    uint32_t num_chunks, chunks_capacity;
    pw_link *free_list;
    bool ticket_queue; /* false: a free id is searched for from the start of the table */
    uint32_t next_ticket, num_free;
    uint32_t num_armed; /* with a deadline */
    uint16_t next_arm_number;
    uint16_t first_unanswered;
    pw_overtaken *overtaken;
    uint32_t num_overtaken, overtaken_capacity;
    pw_time earliest_answer_ns; /* of all unanswered and overtaken ones; PW_NEVER: there is none */
} pw_transactions;

void pw_transactions_init(pw_transactions *table, bool ticket_queue);
void pw_transactions_destroy(pw_transactions *table);
/* A free entry in state ISSUED with sequence 0, or NULL when all 1024 are pending, or without
 * memory. */
pw_transaction *pw_transactions_claim(pw_transactions *table);
/* The id that the next claim gives; one is free. */
uint16_t pw_transactions_next_id(const pw_transactions *table);
/* The pending entry in a slot below PW_TRANSACTIONS; NULL: it is free. */
static inline pw_transaction *pw_transactions_at(const pw_transactions *table, uint32_t slot)
{
    const uint32_t place = table->places ? table->places[slot] : 0;
    if (!place) return NULL;
    return &table->chunks[(place - 1) / PW_TRANSACTIONS_CHUNK][(place - 1) % PW_TRANSACTIONS_CHUNK];
}
/* Return the ticket; the timer stops. The entry's id is that of its next holder then. */
void pw_transactions_release(pw_transactions *table, pw_transaction *transaction);
/* The entry of an id, or NULL when that id is not pending (a late answer). */
pw_transaction *pw_transactions_find(pw_transactions *table, uint16_t id);
/* The timer runs from now on, behind all that do. */
void pw_transactions_arm(pw_transactions *table, pw_transaction *transaction, pw_time deadline_ns);
/* The block went out; its answer arrives at earliest_answer_ns or later. Nothing behind that time
 * may be decided before the answer is physically here: earliest_answer_ns of the table is that
 * bound. */
void pw_transactions_await(pw_transactions *table, pw_transaction *transaction,
                           pw_time earliest_answer_ns);
void pw_transactions_answered(pw_transactions *table, pw_transaction *transaction);
/* Keep it; where its numbers are known already, one ERR is for both. PW_ERR_NOMEM. */
int pw_transactions_note_overtaken(pw_transactions *table, const pw_overtaken *attempt);
/* The overtaken attempt, or NULL. */
pw_overtaken *pw_transactions_find_overtaken(pw_transactions *table, uint16_t id, uint16_t sequence,
                                             uint64_t identity);
/* Its ERR is here. */
void pw_transactions_overtaken_answered(pw_transactions *table, pw_overtaken *overtaken);
/* Its answer comes at earliest_answer_ns or later. */
void pw_transactions_overtaken_passed(pw_transactions *table, pw_overtaken *overtaken,
                                      pw_time earliest_answer_ns);
/* No ERR of the peer's for the stream comes before earliest_answer_ns. */
void pw_transactions_overtaken_of_stream(pw_transactions *table, uint32_t peer, uint32_t stream,
                                         pw_time earliest_answer_ns);
void pw_transactions_disarm(pw_transactions *table, pw_transaction *transaction);
#endif
