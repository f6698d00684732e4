/* Collectives of contiguous memory by textbook patterns of messages; who has other memory packs
 * it. All messages of a channel's collectives have one tag: every rank calls them in the same
 * order, and messages between two ranks keep theirs. Each function locks the node and is a call as
 * those of calls.h are, with their results. Arguments must be valid. Where a message lands in a
 * span that is not const, the span's num_bytes become the message's. */
#ifndef PW_FACADE_COLLECTIVES_H
#define PW_FACADE_COLLECTIVES_H
#include "transport/facade/calls.h"

/* cdef begin */
#define PW_COLLECTIVE_TAG 1
/* Blocks longer than this are not copied from node to node of a tree, vectors not sent whole. */
#define PW_COLLECTIVE_LONG_BYTES 16384

/* Dissemination among `members`, ranks that the caller is one of; NULL: all num_members. */
int64_t pw_collective_barrier(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                              pw_channel *channel, const int32_t *members, int32_t num_members,
                              int32_t tag);
/* Binomial tree. *num_received: bytes that came; at the root it stays as it is. NULL: not wanted.
 */
int64_t pw_collective_broadcast(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                pw_channel *channel, uint64_t address, uint64_t num_bytes,
                                int32_t root, uint64_t *num_received);
/* Binomial tree, for short blocks of one length. address: of the blocks of the rank's subtree,
 * ranks counted on from the root, the rank's own first. */
int64_t pw_collective_gather(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                             pw_channel *channel, uint64_t address, uint64_t block_bytes,
                             int32_t root);
/* *num_received: of the rank's own block; at the root it stays as it is. */
int64_t pw_collective_scatter(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                              pw_channel *channel, uint64_t address, uint64_t block_bytes,
                              int32_t root, uint64_t *num_received);
/* A message with each rank, of any length. blocks: at the root by rank, of which its own is not
 * used; elsewhere the rank's only. */
int64_t pw_collective_gather_each(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                  pw_channel *channel, pw_span *blocks, int32_t root);
int64_t pw_collective_scatter_each(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                   pw_channel *channel, pw_span *blocks, int32_t root);
/* Recursive doubling for a power of two of blocks that are adjacent and short; else a ring. The
 * caller's own is in place. blocks: by rank; NULL: they lie one after the other at `address`. */
int64_t pw_collective_allgather(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                pw_channel *channel, uint64_t address, uint64_t block_bytes,
                                pw_span *blocks);
/* Pairwise exchange of blocks by rank. NULL: they lie one after the other at the address, and the
 * rank's own is copied as well. */
int64_t pw_collective_alltoall(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                               pw_channel *channel, uint64_t send_address, uint64_t receive_address,
                               uint64_t block_bytes, const pw_span *outgoing, pw_span *incoming);

#define PW_OP_ORDERED 1 /* does not commute */
#define PW_OP_OF_HOST 2 /* may call back into the host */

/* What a reduction combines, by MPI_Reduce_local in rank order, the lower on the left: `count`
 * elements, which travel as they lie in memory, holes included. Both addresses may be the same. */
typedef struct {
    uint64_t send_address, receive_address;
    uint64_t count, element_bytes;
    pw_mpi_handle datatype, op;
    uint32_t op_traits;
} pw_vectors;

/* Recursive doubling; neighbours first join in pairs until a power of two is left. Of a long vector
 * (from four ranks on) partners exchange halves instead, combine them, and exchange the results. */
int64_t pw_collective_allreduce(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                pw_channel *channel, pw_vectors vectors);
/* Binomial tree, ranks counted on from the root; from rank 0 when the operation does not commute,
 * which then sends the result to the root. receive_address: of the root alone. */
int64_t pw_collective_reduce(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                             pw_channel *channel, pw_vectors vectors, int32_t root);
/* Pairwise exchange of the ranks' parts; then each rank combines those it got. counts: of elements,
 * by rank; the vectors' count is their sum. */
int64_t pw_collective_reduce_scatter(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                     pw_channel *channel, pw_vectors vectors,
                                     const uint64_t *counts);
/* Recursive doubling. Exclusive: nothing is received at rank 0. */
int64_t pw_collective_scan(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                           pw_channel *channel, pw_vectors vectors, int is_inclusive);

/* The rank's place in the binomial tree from `root`. */
typedef struct {
    int32_t parent; /* -1: none */
    int32_t num_children;
    int32_t child[32]; /* largest subtree first */
} pw_tree;

pw_tree pw_tree_of(const pw_channel *channel, int32_t root);
/* cdef end */
#endif
