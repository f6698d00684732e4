/* The wire of an MPI program: shared memory to the nodes of the same host, MPI messages to the
 * others. Which way a peer is reached is settled when the wire is made, for both directions, so
 * that the order of bursts between two nodes is that of one way. */
#ifndef PW_FACADE_WIRE_MPI_H
#define PW_FACADE_WIRE_MPI_H
#include "transport/facade/mpi_library.h"
#include "node/wires/shared_bursts.h"
#include "node/wires/wire.h"

/* cdef begin */
/* comm: the wire's alone; the caller frees it after close. shared: agreed upon by all nodes, NULL:
 * all go by MPI; the wire takes it, also when it fails. PW_ERR_NOMEM; PW_ERR_HOST: MPI failed, why
 * is written to reason. Bursts that wait at close are lost: let all nodes be done before. */
int pw_wire_mpi_create(const pw_mpi_library *mpi, pw_mpi_handle comm, uint32_t node,
                       uint32_t num_nodes, pw_shared_bursts *shared, char *reason,
                       size_t reason_bytes, pw_wire **out);
/* cdef end */
#endif
