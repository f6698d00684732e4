#include "operations.h"

#include <mpi.h>
#include <stdlib.h>

/* Allreduce (sum) and Alltoall of doubles, and Bcast, whose root goes round so that no rank runs
   ahead of the others. */

struct group {
    double *mine;
    double *result;
    int num_doubles; /* that a rank gives, in Alltoall to each rank */
    int rank;
    int num_ranks;
};

static struct group make_group(int num_bytes, int all_to_all)
{
    struct group group = {.num_doubles = num_bytes / (int)sizeof(double)};
    MPI_Comm_rank(MPI_COMM_WORLD, &group.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &group.num_ranks);
    size_t num_each = (size_t)group.num_doubles * (size_t)(all_to_all ? group.num_ranks : 1);
    group.mine = malloc(num_each * sizeof(double));
    group.result = malloc(num_each * sizeof(double));
    pw_rounds_require(group.mine != NULL && group.result != NULL, "no memory for the buffers");
    for (size_t i = 0; i < num_each; i++) {
        group.mine[i] = group.rank + 1.0;
        group.result[i] = 0.0;
    }
    return group;
}

static void free_group(struct group *group)
{
    free(group->mine);
    free(group->result);
}

static void allreduce(void *context, long num_times)
{
    struct group *group = context;
    for (long i = 0; i < num_times; i++)
        MPI_Allreduce(group->mine, group->result, group->num_doubles, MPI_DOUBLE, MPI_SUM,
                      MPI_COMM_WORLD);
}

static void bcast(void *context, long num_times)
{
    struct group *group = context;
    for (long i = 0; i < num_times; i++)
        MPI_Bcast(group->mine, group->num_doubles, MPI_DOUBLE, (int)(i % group->num_ranks),
                  MPI_COMM_WORLD);
}

static void alltoall(void *context, long num_times)
{
    struct group *group = context;
    for (long i = 0; i < num_times; i++)
        MPI_Alltoall(group->mine, group->num_doubles, MPI_DOUBLE, group->result, group->num_doubles,
                     MPI_DOUBLE, MPI_COMM_WORLD);
}

struct pw_times pw_bench_allreduce(const struct pw_rounds *rounds, int num_bytes)
{
    struct group group = make_group(num_bytes, 0);
    struct pw_times times = pw_rounds_measure(rounds, allreduce, &group);
    double sum = group.num_ranks * (group.num_ranks + 1) / 2.0;
    for (int i = 0; i < group.num_doubles; i++)
        pw_rounds_require(group.result[i] == sum, "wrong data after Allreduce");
    free_group(&group);
    return times;
}

struct pw_times pw_bench_bcast(const struct pw_rounds *rounds, int num_bytes)
{
    struct group group = make_group(num_bytes, 0);
    struct pw_times times = pw_rounds_measure(rounds, bcast, &group);
    for (int i = 0; i < group.num_doubles; i++) /* the first root's, from then on everybody's */
        pw_rounds_require(group.mine[i] == 1.0, "wrong data after Bcast");
    free_group(&group);
    return times;
}

struct pw_times pw_bench_alltoall(const struct pw_rounds *rounds, int num_bytes)
{
    struct group group = make_group(num_bytes, 1);
    struct pw_times times = pw_rounds_measure(rounds, alltoall, &group);
    for (int i = 0; i < group.num_doubles * group.num_ranks; i++) {
        double sender = i / group.num_doubles + 1.0;
        pw_rounds_require(group.result[i] == sender, "wrong data after Alltoall");
    }
    free_group(&group);
    return times;
}
