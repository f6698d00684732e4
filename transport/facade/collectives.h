/* Collectives of contiguous memory, each in one call, by textbook patterns of messages: those that
 * collectives.py and reductions.py make of spans of other kinds, message for message. All messages
 * of a channel's collectives have one tag: every rank calls them in the same order, and messages
 * between two ranks keep theirs. Arguments must be valid; results are those of calls.h. */
#ifndef PW_FACADE_COLLECTIVES_H
#define PW_FACADE_COLLECTIVES_H
#include "transport/facade/calls.h"

/* cdef begin */
#define PW_COLLECTIVE_TAG 1
/* Blocks longer than this are not copied from node to node of a tree. */
#define PW_COLLECTIVE_LONG_BYTES 16384

/* Dissemination. */
int64_t pw_call_barrier(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                        pw_channel *channel, uint32_t flags);
/* Binomial tree. */
int64_t pw_call_broadcast(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                          pw_channel *channel, uint64_t address, uint64_t num_bytes, int32_t root,
                          uint32_t flags);
/* Recursive doubling, or a ring. address: of the blocks of all ranks, the caller's own in place. */
int64_t pw_call_allgather(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                          pw_channel *channel, uint64_t address, uint64_t block_bytes,
                          uint32_t flags);
/* Pairwise exchange. The rank's own block is not copied. */
int64_t pw_call_alltoall(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                         pw_channel *channel, uint64_t send_address, uint64_t receive_address,
                         uint64_t block_bytes, uint32_t flags);

/* Vectors of `count` elements without holes, combined by MPI_Reduce_local in rank order, the lower
 * on the left. The operation must not call back into the host: a predefined one. The addresses may
 * be the same.
 *
 * Recursive doubling; neighbours first join in pairs until a power of two is left. */
int64_t pw_call_allreduce(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                          pw_channel *channel, uint64_t send_address, uint64_t receive_address,
                          uint64_t count, uint64_t element_bytes, pw_mpi_handle datatype,
                          pw_mpi_handle op, uint32_t flags);
/* Binomial tree, ranks counted on from the root: the operation must commute. receive_address: of
 * the root alone. */
int64_t pw_call_reduce(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                       pw_channel *channel, uint64_t send_address, uint64_t receive_address,
                       uint64_t count, uint64_t element_bytes, pw_mpi_handle datatype,
                       pw_mpi_handle op, int32_t root, uint32_t flags);
/* The rank's place in the binomial tree from `root`. */
typedef struct {
    int32_t parent; /* -1: none */
    int32_t num_children;
    int32_t child[32]; /* largest subtree first */
} pw_tree;

pw_tree pw_tree_of(const pw_channel *channel, int32_t root);
/* cdef end */
#endif
