/* Two groups of ranks, the even and the odd ones, and what goes between them. */
#include "check.h"
#include "forms.h"
#include <stdlib.h>

enum { COUNT = 5000 };

static int is_odd, rank, num_here, num_there;

static int element(int odd, int from, int index) { return odd * 10000000 + from * 100000 + index; }

static void check_elements(const int *values, int odd, int from, int count, const char *what)
{
    for (int i = 0; i < count; i++) CHECK_INT(values[i], element(odd, from, i), what);
}

static void messages(MPI_Comm between)
{
    int in = -1, out = element(is_odd, rank, 0);
    MPI_Status status;
    if (rank < num_there)
        MPI_Sendrecv(&out, 1, MPI_INT, rank, 5, &in, 1, MPI_INT, rank, 5, between, &status);
    if (rank < num_there) CHECK_INT(in, element(!is_odd, rank, 0), "value from the other group");
    if (rank < num_there) CHECK_INT(status.MPI_SOURCE, rank, "source in the other group");
}

static void rooted(MPI_Comm between, enum form form, int root_is_odd)
{
    int *values = malloc((size_t)(num_here + num_there) * COUNT * sizeof *values), sum = 0;
    int is_root_group = is_odd == root_is_odd, is_root = is_root_group && rank == 0;
    int root = !is_root_group ? 0 : is_root ? MPI_ROOT : MPI_PROC_NULL;
    for (int i = 0; i < COUNT; i++) values[i] = is_root ? element(is_odd, 0, i) : -1;
    COLLECTIVE(form, Bcast, Ibcast, values, COUNT, MPI_INT, root, between);
    if (is_root || !is_root_group)
        check_elements(values, root_is_odd, 0, COUNT, "Bcast between groups");
    for (int i = 0; i < COUNT; i++) values[i] = element(is_odd, rank, i);
    COLLECTIVE(form, Gather, Igather, values, COUNT, MPI_INT, values, COUNT, MPI_INT, root,
               between);
    for (int from = 0; from < num_there && is_root; from++)
        check_elements(values + from * COUNT, !is_odd, from, COUNT, "Gather between groups");
    COLLECTIVE(form, Scatter, Iscatter, values, COUNT, MPI_INT, values, COUNT, MPI_INT, root,
               between);
    if (!is_root_group) check_elements(values, is_odd, rank, COUNT, "Scatter between groups");
    int mine = rank + 1;
    COLLECTIVE(form, Reduce, Ireduce, &mine, &sum, 1, MPI_INT, MPI_SUM, root, between);
    if (is_root) CHECK_INT(sum, num_there * (num_there + 1) / 2, "Reduce between groups");
    free(values);
}

static void all(MPI_Comm between, enum form form)
{
    int *out = malloc((size_t)num_there * COUNT * sizeof *out);
    int *in = malloc((size_t)num_there * COUNT * sizeof *in);
    int mine = rank + 1, sum = 0;
    for (int i = 0; i < COUNT; i++) out[i] = element(is_odd, rank, i);
    COLLECTIVE(form, Allgather, Iallgather, out, COUNT, MPI_INT, in, COUNT, MPI_INT, between);
    for (int from = 0; from < num_there; from++)
        check_elements(in + from * COUNT, !is_odd, from, COUNT, "Allgather between groups");
    for (int to = 0; to < num_there; to++)
        for (int i = 0; i < COUNT; i++)
            out[to * COUNT + i] = element(is_odd, rank, i) + to * 1000000;
    COLLECTIVE(form, Alltoall, Ialltoall, out, COUNT, MPI_INT, in, COUNT, MPI_INT, between);
    for (int from = 0; from < num_there; from++)
        for (int i = 0; i < COUNT; i++)
            CHECK_INT(in[from * COUNT + i], element(!is_odd, from, i) + rank * 1000000,
                      "Alltoall between groups");
    COLLECTIVE(form, Allreduce, Iallreduce, &mine, &sum, 1, MPI_INT, MPI_SUM, between);
    CHECK_INT(sum, num_there * (num_there + 1) / 2, "Allreduce between groups");
    COLLECTIVE(form, Barrier, Ibarrier, between);
    free(out);
    free(in);
}

CHECK_PROGRAM(intercomm)
{
    MPI_Comm group, between, merged;
    int merged_rank, sum = 0;
    if (check_size < 2) return; /* no other group */
    is_odd = check_rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, is_odd, check_rank, &group);
    MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, is_odd ? 0 : 1, 77, &between);
    MPI_Comm_rank(between, &rank);
    MPI_Comm_size(between, &num_here);
    MPI_Comm_remote_size(between, &num_there);
    CHECK_INT(num_here + num_there, check_size, "ranks in both groups");
    messages(between);
    for (enum form form = BLOCKING; form < PERSISTENT; form++) {
        rooted(between, form, 0);
        rooted(between, form, 1);
        all(between, form);
    }
    MPI_Intercomm_merge(between, is_odd, &merged);
    MPI_Comm_rank(merged, &merged_rank);
    CHECK_INT(merged_rank, is_odd ? num_there + rank : rank, "rank in the merged groups");
    MPI_Allreduce(&merged_rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK_INT(sum, check_size * (check_size - 1) / 2, "sum over the merged groups");
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Comm_free(&group);
}
