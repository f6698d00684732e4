/* Every collective that moves data, blocking, non-blocking and persistent, against what each rank
 * computes that its buffer must hold. Element `index` that rank `from` has for rank `to` is
 * element(from, to, index). */
#include "check.h"
#include "forms.h"
#include <stdlib.h>

static int rank, size; /* in the communicator of the moment */

static int element(int from, int to, int index) { return from * 1000003 + to * 10007 + index; }

static int *ints(size_t count)
{
    int *values = malloc((count + 1) * sizeof *values);
    for (size_t i = 0; i < count; i++) values[i] = -1;
    return values;
}

static void check_elements(const int *values, int from, int to, int count, const char *what)
{
    for (int i = 0; i < count; i++) CHECK_INT(values[i], element(from, to, i), what);
}

static void put_elements(int *values, int from, int to, int count)
{
    for (int i = 0; i < count; i++) values[i] = element(from, to, i);
}

static void broadcast(MPI_Comm comm, enum form form, int count)
{
    for (int root = 0; root < size; root++) {
        int *values = ints((size_t)count);
        if (rank == root) put_elements(values, root, 0, count);
        COLLECTIVE(form, Bcast, Ibcast, values, count, MPI_INT, root, comm);
        check_elements(values, root, 0, count, "Bcast");
        free(values);
    }
}

static void gather_scatter(MPI_Comm comm, enum form form, int count)
{
    for (int root = 0; root < size; root++) {
        int *all = ints((size_t)(size * count)), *mine = ints((size_t)count);
        put_elements(mine, rank, root, count);
        if (rank == root) put_elements(all + rank * count, rank, root, count);
        COLLECTIVE(form, Gather, Igather, rank == root ? MPI_IN_PLACE : mine, count, MPI_INT, all,
                   count, MPI_INT, root, comm);
        for (int from = 0; from < size && rank == root; from++)
            check_elements(all + from * count, from, root, count, "Gather");
        for (int to = 0; to < size; to++) put_elements(all + to * count, root, to, count);
        COLLECTIVE(form, Scatter, Iscatter, all, count, MPI_INT, mine, count, MPI_INT, root, comm);
        check_elements(mine, root, rank, count, "Scatter");
        COLLECTIVE(form, Gather, Igather, mine, count, MPI_INT, all, count, MPI_INT, root, comm);
        for (int from = 0; from < size && rank == root; from++)
            check_elements(all + from * count, root, from, count, "Gather of the scattered");
        COLLECTIVE(form, Scatter, Iscatter, all, count, MPI_INT, rank == root ? MPI_IN_PLACE : mine,
                   count, MPI_INT, root, comm);
        check_elements(mine, root, rank, count, "Scatter in place");
        free(all);
        free(mine);
    }
}

static void allgather_alltoall(MPI_Comm comm, enum form form, int count)
{
    int *all = ints((size_t)(size * count)), *out = ints((size_t)(size * count));
    put_elements(out, rank, 9, count);
    COLLECTIVE(form, Allgather, Iallgather, out, count, MPI_INT, all, count, MPI_INT, comm);
    for (int from = 0; from < size; from++)
        check_elements(all + from * count, from, 9, count, "Allgather");
    for (int i = 0; i < size * count; i++) all[i] = -1;
    put_elements(all + rank * count, rank, 8, count);
    COLLECTIVE(form, Allgather, Iallgather, MPI_IN_PLACE, 0, MPI_INT, all, count, MPI_INT, comm);
    for (int from = 0; from < size; from++)
        check_elements(all + from * count, from, 8, count, "Allgather in place");
    for (int to = 0; to < size; to++) put_elements(out + to * count, rank, to, count);
    COLLECTIVE(form, Alltoall, Ialltoall, out, count, MPI_INT, all, count, MPI_INT, comm);
    for (int from = 0; from < size; from++)
        check_elements(all + from * count, from, rank, count, "Alltoall");
    COLLECTIVE(form, Alltoall, Ialltoall, MPI_IN_PLACE, 0, MPI_INT, out, count, MPI_INT, comm);
    for (int from = 0; from < size; from++)
        check_elements(out + from * count, from, rank, count, "Alltoall in place");
    free(all);
    free(out);
}

/* Counts that differ by rank, some of them 0, and gaps between the pieces. */
static int count_of(int from, int to, int count) { return ((from * 3 + to * 5) % 4) * count; }

static void vectors(MPI_Comm comm, enum form form, int count)
{
    int stride = 3 * count + 2;
    int *all = ints((size_t)(size * stride)), *out = ints((size_t)(size * stride));
    int *in_counts = ints((size_t)size), *out_counts = ints((size_t)size);
    int *places = ints((size_t)size), *byte_places = ints((size_t)size);
    MPI_Datatype *types = malloc((size_t)size * sizeof(MPI_Datatype));
    for (int peer = 0; peer < size; peer++) {
        places[peer] = peer * stride + 1;
        byte_places[peer] = places[peer] * (int)sizeof(int);
        types[peer] = MPI_INT;
    }
    for (int root = 0; root < size; root++) {
        for (int peer = 0; peer < size; peer++) in_counts[peer] = count_of(peer, root, count);
        put_elements(out, rank, root, in_counts[rank]);
        COLLECTIVE(form, Gatherv, Igatherv, out, in_counts[rank], MPI_INT, all, in_counts, places,
                   MPI_INT, root, comm);
        for (int from = 0; from < size && rank == root; from++) {
            check_elements(all + places[from], from, root, in_counts[from], "Gatherv");
            CHECK_INT(all[places[from] - 1], -1, "gap before a piece of Gatherv");
            CHECK_INT(all[places[from] + in_counts[from]], -1, "gap behind a piece of Gatherv");
        }
        COLLECTIVE(form, Scatterv, Iscatterv, all, in_counts, places, MPI_INT, out, in_counts[rank],
                   MPI_INT, root, comm);
        check_elements(out, rank, root, in_counts[rank], "Scatterv");
        for (int i = 0; i < size * stride; i++) all[i] = -1;
        put_elements(out, rank, root, in_counts[rank]);
        COLLECTIVE(form, Allgatherv, Iallgatherv, out, in_counts[rank], MPI_INT, all, in_counts,
                   places, MPI_INT, comm);
        for (int from = 0; from < size; from++)
            check_elements(all + places[from], from, root, in_counts[from], "Allgatherv");
        for (int i = 0; i < size * stride; i++) all[i] = -1;
    }
    for (int peer = 0; peer < size; peer++) {
        in_counts[peer] = count_of(peer, rank, count);
        out_counts[peer] = count_of(rank, peer, count);
        put_elements(out + places[peer], rank, peer, out_counts[peer]);
    }
    COLLECTIVE(form, Alltoallv, Ialltoallv, out, out_counts, places, MPI_INT, all, in_counts,
               places, MPI_INT, comm);
    for (int from = 0; from < size; from++)
        check_elements(all + places[from], from, rank, in_counts[from], "Alltoallv");
    for (int i = 0; i < size * stride; i++) all[i] = -1;
    COLLECTIVE(form, Alltoallw, Ialltoallw, out, out_counts, byte_places, types, all, in_counts,
               byte_places, types, comm);
    for (int from = 0; from < size; from++)
        check_elements(all + places[from], from, rank, in_counts[from], "Alltoallw");
    free(all);
    free(out);
    free(in_counts);
    free(out_counts);
    free(places);
    free(byte_places);
    free(types);
}

static void all_forms(MPI_Comm comm, enum form form)
{
    static const int counts[] = {1, 5, 700, 9000};
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        broadcast(comm, form, counts[i]);
        gather_scatter(comm, form, counts[i]);
        allgather_alltoall(comm, form, counts[i]);
        vectors(comm, form, counts[i]);
    }
    COLLECTIVE(form, Barrier, Ibarrier, comm);
}

CHECK_PROGRAM(collectives) { all_forms(MPI_COMM_WORLD, BLOCKING); }
CHECK_PROGRAM(collectives_nonblocking) { all_forms(MPI_COMM_WORLD, NONBLOCKING); }
CHECK_PROGRAM(collectives_persistent) { all_forms(MPI_COMM_WORLD, PERSISTENT); }

/* Ranks in reverse, and only the even ones beside the odd ones. */
CHECK_PROGRAM(collectives_split)
{
    MPI_Comm reversed, half;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &reversed);
    MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &half);
    all_forms(reversed, BLOCKING);
    all_forms(half, NONBLOCKING);
    MPI_Comm_free(&reversed);
    MPI_Comm_free(&half);
}

/* Many collectives in flight at once, ended in another order. */
CHECK_PROGRAM(collectives_in_flight)
{
    enum { NUM = 24, COUNT = 800 };
    int *values = ints((size_t)(NUM * COUNT)), *sums = ints((size_t)(NUM * COUNT)), index;
    MPI_Request requests[NUM];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < NUM; i++) {
        int *value = values + i * COUNT, *sum = sums + i * COUNT, root = i % size;
        put_elements(value, i % 3 == 0 ? root : rank, i, COUNT);
        if (i % 3 == 0 && rank != root)
            for (int j = 0; j < COUNT; j++) value[j] = -1;
        if (i % 3 == 0) MPI_Ibcast(value, COUNT, MPI_INT, root, MPI_COMM_WORLD, &requests[i]);
        else if (i % 3 == 1)
            MPI_Iallreduce(value, sum, COUNT, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[i]);
        else MPI_Ibarrier(MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < NUM; i++) {
        MPI_Waitany(NUM, requests, &index, MPI_STATUS_IGNORE);
        CHECK(index >= 0 && index < NUM, "Waitany gave index %d", index);
        if (index % 3 == 0)
            check_elements(values + index * COUNT, index % size, index, COUNT, "Ibcast in flight");
        if (index % 3 == 1)
            check_elements(sums + index * COUNT, size - 1, index, COUNT, "Iallreduce in flight");
    }
    free(values);
    free(sums);
}
