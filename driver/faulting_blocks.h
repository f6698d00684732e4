/* What an entry of the NI FIFO does not carry: bounds of the block and of its transfer, for page-in
 * policies, and who is asked to send it again. Kept from a block's first faulting packet until its
 * entries are read and its ERR is sent, by (source node, PDID, transaction, sequence number).
 * Chained hash with records from a pool that grows by doubling. Not thread-safe. */
#ifndef PW_DRIVER_FAULTING_BLOCKS_H
#define PW_DRIVER_FAULTING_BLOCKS_H
#include "native/types.h"

/* A block that met a page fault, at the end at which it did. */
typedef struct {
    uint64_t
        identity; /* stream << 32 | block: for impairments and ERRs, the driver does not know it */
    uint32_t source_node;
    uint16_t transaction_id, sequence, pdid;
    bool at_destination;
    bool is_permission; /* the page is there, the access is not allowed (yet) */
    uint64_t block_first_page, block_end_page; /* end: first page behind the block */
    uint64_t transfer_first_page, transfer_end_page;
    const pw_time
        *bound_ns; /* no further block of its transfer arrives before; NULL: none ever does */
} pw_fault;

typedef struct pw_faulting_block {
    struct pw_faulting_block *next; /* hash chain, or free list */
    pw_fault fault;
    uint32_t num_entries;         /* in the FIFO, not read yet */
    uint32_t message_span;        /* the tasklet run that last sent a message about it */
    struct pw_wakeup *err_wakeup; /* of the library thread, in which the ERR is sent */
    uint32_t err_message;         /* the message of that wake-up which orders it */
    bool err_ordered;             /* it has its ERR, sent or not yet */
    bool err_pending;             /* ordered, and not sent yet */
    bool err_drawn;               /* whether an impairment takes it has been drawn */
    bool err_lost;                /* and one does */
} pw_faulting_block;

#define PW_FAULTING_BUCKETS 1024

typedef struct {
    pw_faulting_block *buckets[PW_FAULTING_BUCKETS];
    pw_faulting_block *free_blocks;
    struct pw_faulting_chunk *chunks;
    uint32_t chunk_blocks;
} pw_faulting_blocks;

void pw_faulting_blocks_init(pw_faulting_blocks *table);
void pw_faulting_blocks_destroy(pw_faulting_blocks *table);
/* The block that an entry's numbers name. Ids are reused: of two with the same numbers the older
 * has the entries that are read first. */
pw_faulting_block *pw_faulting_blocks_of_entry(const pw_faulting_blocks *table,
                                               uint32_t source_node, uint16_t pdid,
                                               uint16_t transaction_id, uint16_t sequence);
/* The record of the fault's block and attempt; NULL: none. */
pw_faulting_block *pw_faulting_blocks_find(const pw_faulting_blocks *table, const pw_fault *fault);
/* The block's record, a new one when it has none; NULL when the host has no memory. */
pw_faulting_block *pw_faulting_blocks_note(pw_faulting_blocks *table, const pw_fault *fault);
/* Forget the block when none of its entries waits and no ERR is to be sent. */
void pw_faulting_blocks_release(pw_faulting_blocks *table, pw_faulting_block *block);
#endif
