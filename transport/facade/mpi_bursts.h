/* Bursts between nodes by MPI messages on a private communicator: several receives posted ahead,
 * several sends under way. One thread at a time; MPI must allow calls from it. */
#ifndef PW_FACADE_MPI_BURSTS_H
#define PW_FACADE_MPI_BURSTS_H
#include "native/frames.h"
#include "transport/facade/mpi_library.h"
#include "node/wires/wire.h"

typedef struct pw_mpi_bursts pw_mpi_bursts;

/* PW_ERR_NOMEM; PW_ERR_HOST: an MPI call failed, see pw_mpi_bursts_reason. has_peers: else nothing
 * is received, only MPI's own progress made. The library and the communicator live longer. */
int pw_mpi_bursts_create(const pw_mpi_library *mpi, pw_mpi_handle comm, bool has_peers,
                         pw_mpi_bursts **out);
/* Takes posted receives back. Sends that nobody receives within a second are given up: no peer may
 * need them any more. */
void pw_mpi_bursts_destroy(pw_mpi_bursts *bursts);

/* As the functions of pw_wire_ops. */
int pw_mpi_bursts_send(pw_mpi_bursts *bursts, uint32_t peer, uint8_t *data, uint32_t num_bytes,
                       bool *is_free);
uint8_t *pw_mpi_bursts_sent(pw_mpi_bursts *bursts);
int pw_mpi_bursts_poll(pw_mpi_bursts *bursts, pw_wire_burst *out);
/* PW_ERR_HOST as above. */
int pw_mpi_bursts_taken(pw_mpi_bursts *bursts, const pw_wire_burst *burst);
uint32_t pw_mpi_bursts_num_pending(const pw_mpi_bursts *bursts);
/* Which MPI call failed, and what MPI says of it; empty when none did. */
const char *pw_mpi_bursts_reason(const pw_mpi_bursts *bursts);
#endif
