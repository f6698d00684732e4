#ifndef PW_CLI_CHECKS_BENCH_FABRIC_PROGRAMS_OPERATIONS_H
#define PW_CLI_CHECKS_BENCH_FABRIC_PROGRAMS_OPERATIONS_H

#include "rounds.h"

/*
 * What the bench measures of a C program: each function makes its buffers, touches them, so that no
 * transfer faults, measures, and checks the data. num_bytes is what a rank gives: in Alltoall what
 * goes to each single rank. Collective over MPI_COMM_WORLD.
 */

enum { PW_BENCH_WINDOW = 64 /* messages under way in pw_bench_rate */ };

struct pw_times pw_bench_ping_pong(const struct pw_rounds *rounds, int num_bytes); /* one way */
struct pw_times pw_bench_rate(const struct pw_rounds *rounds, int num_bytes); /* of one message */

struct pw_times pw_bench_allreduce(const struct pw_rounds *rounds, int num_bytes);
struct pw_times pw_bench_bcast(const struct pw_rounds *rounds, int num_bytes);
struct pw_times pw_bench_alltoall(const struct pw_rounds *rounds, int num_bytes);

#endif
