/* What a node keeps of the pages that it holds at its peers: see firehoses.h. */
#ifndef PW_NODE_FIREHOSES_STATE_H
#define PW_NODE_FIREHOSES_STATE_H
#include "transport/node/kept_pages.h"
#include "transport/node/node.h"

/* A message that is being read, in chunks of as many pages as there are firehoses. */
typedef struct pw_firehose_read {
    pw_handle *handle;
    uint64_t source_address, key, address, num_bytes; /* what is left; the chunk comes first */
    uint64_t chunk_bytes;
    uint64_t awaits; /* the move by which the chunk's last pages come */
    int64_t at_ns;
    bool in_chunks, has_waited;
    struct pw_firehose_read *next, *next_made;
} pw_firehose_read;

typedef struct {
    pw_firehose_read *first, *last;
} pw_firehose_reads;

typedef struct {
    pw_kept_pages pages;       /* that this node holds there */
    uint64_t num_moves;        /* asked for; answers come in their order */
    pw_firehose_reads moving;  /* wait for an answer */
    pw_firehose_reads waiting; /* for firehoses that are in use */
    int64_t held_ns;           /* as owner: through with what the peer asked for last */
} pw_firehose_peer;

typedef struct {
    pw_firehose_peer *peers; /* by node; NULL: the strategy has none */
    uint32_t num_nodes;
    uint64_t max_pages;            /* of each peer */
    pw_firehose_read *made, *free; /* all, by next_made; those of no message, by next */
} pw_firehoses;
#endif
