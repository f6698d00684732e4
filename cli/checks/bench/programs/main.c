#include "operations.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A rank of `pagewire bench --transport fabric`:
 *     FILE NUM_ROUNDS ROUND_S OPERATION NUM_BYTES [OPERATION NUM_BYTES]...
 * Rank 0 writes a line to FILE for each operation: name, bytes, wall time and virtual time in s.
 */

typedef struct pw_times measure(const struct pw_rounds *rounds, int num_bytes);

static const struct operation {
    const char *name;
    measure *measure;
} operations[] = {
    {"ping-pong", pw_bench_ping_pong}, {"rate", pw_bench_rate},
    {"Allreduce", pw_bench_allreduce}, {"Bcast", pw_bench_bcast},
    {"Alltoall", pw_bench_alltoall},
};

static measure *find(const char *name)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0) return operations[i].measure;
    return NULL;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pw_rounds_require(argc >= 6 && argc % 2 == 0, "FILE NUM_ROUNDS ROUND_S OPERATION NUM_BYTES...");
    struct pw_rounds rounds = {atoi(argv[2]), atof(argv[3])};
    FILE *file = rank == 0 ? fopen(argv[1], "w") : NULL;
    pw_rounds_require(rank != 0 || file != NULL, "FILE cannot be written");

    for (int i = 4; i < argc; i += 2) {
        measure *chosen = find(argv[i]);
        int num_bytes = atoi(argv[i + 1]);
        pw_rounds_require(chosen != NULL && num_bytes > 0, "unknown OPERATION, or no NUM_BYTES");
        struct pw_times times = chosen(&rounds, num_bytes);
        if (rank == 0)
            fprintf(file, "%s %d %.9e %.9e\n", argv[i], num_bytes, times.wall_s, times.virtual_s);
    }
    if (file != NULL) pw_rounds_require(fclose(file) == 0, "FILE cannot be written");
    MPI_Finalize();
    return 0;
}
