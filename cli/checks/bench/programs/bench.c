/*
 * A rank of `pagewire bench --transport fabric`:
 *     FILE NUM_ROUNDS ROUND_S OPERATION NUM_BYTES [OPERATION NUM_BYTES]...
 * Rank 0 writes a line to FILE for each operation: name, bytes, wall time and virtual time in s,
 * context switches and system calls of all ranks (-1: this host does not tell).
 *
 * An operation's buffers are touched before, so that no transfer faults, and its data are checked.
 * num_bytes is what a rank gives: in Alltoall what goes to each single rank.
 *
 * The quickest of some rounds counts, since noise only adds, and a round takes as long as its
 * slowest rank. A first trial, which warms everything up, is not one of them. Wall time is
 * clock_gettime's, because MPI_Wtime is virtual over the provider; over plain MPI they are the
 * same.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "system_calls.h"

enum {
    WINDOW = 64, /* messages of the rate that are under way together */
    TRIAL_TIMES = 2,
    MOST_TIMES = 20000
};

/* Rounds end early past so many times what they should take: with more ranks than cores a single
   Allreduce of plain MPICH may take as long as all of them. */
static const double most_overrun = 4;

struct place {
    int rank, num_ranks;
    int num_bytes, num_doubles; /* that a rank gives, in Alltoall to each rank */
    size_t all_bytes;
    unsigned char *mine, *result; /* of all_bytes */
    int turn;
};

struct times { /* of one repetition, in s */
    double wall_s, virtual_s;
    double switches, calls; /* of the kernel, all ranks; calls: -1, not known */
};

static void require(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "bench: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1); /* figures of wrong data would mean nothing */
}

static void ping_pong(const struct place *at)
{
    int peer = 1 - at->rank;
    if (at->rank == 0) MPI_Send(at->mine, at->num_bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    MPI_Recv(at->mine, at->num_bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (at->rank == 1) MPI_Send(at->mine, at->num_bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
}

/* The answer keeps the sender from running more than a window ahead. */
static void window(const struct place *at)
{
    MPI_Request requests[WINDOW];
    unsigned char answer = 0;
    for (int k = 0; k < WINDOW; k++) {
        unsigned char *part = at->mine + (size_t)k * (size_t)at->num_bytes;
        if (at->rank == 0)
            MPI_Isend(part, at->num_bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[k]);
        else MPI_Irecv(part, at->num_bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[k]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    if (at->rank == 0) MPI_Recv(&answer, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Send(&answer, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

static void allreduce(const struct place *at)
{
    MPI_Allreduce(at->mine, at->result, at->num_doubles, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Its root goes round, so that no rank runs ahead of the others. */
static void bcast(const struct place *at)
{
    int root = at->turn % at->num_ranks;
    MPI_Bcast(at->mine, at->num_doubles, MPI_DOUBLE, root, MPI_COMM_WORLD);
}

static void alltoall(const struct place *at)
{
    MPI_Alltoall(at->mine, at->num_doubles, MPI_DOUBLE, at->result, at->num_doubles, MPI_DOUBLE,
                 MPI_COMM_WORLD);
}

/* The double that belongs at idx. */
static double sum(const struct place *at, size_t idx)
{
    return (void)idx, at->num_ranks * (at->num_ranks + 1) / 2.0;
}
static double of_first_root(const struct place *at, size_t idx)
{
    return (void)at, (void)idx, 1.0; /* from then on everybody's */
}
static double of_sender(const struct place *at, size_t idx)
{
    return (double)(idx / (size_t)at->num_doubles) + 1;
}

static const struct operation {
    const char *name;
    void (*once)(const struct place *at);
    int num_messages;                                  /* of each time, one behind the other */
    double (*due)(const struct place *at, size_t idx); /* NULL: of a pair of ranks, in bytes */
} operations[] = {
    {"ping-pong", ping_pong, 2, NULL},    {"rate", window, WINDOW, NULL},
    {"Allreduce", allreduce, 1, sum},     {"Bcast", bcast, 1, of_first_root},
    {"Alltoall", alltoall, 1, of_sender},
};

static const struct operation *find(const char *name)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0) return &operations[i];
    return NULL;
}

static struct place make_place(const struct operation *operation, int num_bytes)
{
    struct place at = {.num_bytes = num_bytes, .num_doubles = num_bytes / (int)sizeof(double)};
    MPI_Comm_rank(MPI_COMM_WORLD, &at.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &at.num_ranks);
    require(at.num_ranks == 2 || operation->due != NULL, "a pair is 2 ranks");
    int num_parts = operation->once == alltoall ? at.num_ranks : 1;
    if (operation->once == window) num_parts = WINDOW;
    at.all_bytes = (size_t)num_parts * (size_t)num_bytes;
    at.mine = malloc(at.all_bytes);
    at.result = malloc(at.all_bytes);
    require(at.mine != NULL && at.result != NULL, "no memory for the buffers");
    memset(at.mine, 1 + at.rank, at.all_bytes);
    memset(at.result, 0, at.all_bytes);
    for (size_t i = 0; operation->due != NULL && i < at.all_bytes / sizeof(double); i++)
        ((double *)at.mine)[i] = at.rank + 1.0;
    return at;
}

static void check(const struct operation *operation, const struct place *at)
{
    const double *doubles = (double *)(operation->once == bcast ? at->mine : at->result);
    if (operation->due != NULL)
        for (size_t i = 0; i < at->all_bytes / sizeof(double); i++)
            require(doubles[i] == operation->due(at, i), "wrong data");
    else /* rank 0's bytes have gone over rank 1's, so both end up with them */
        for (size_t i = 0; i < at->all_bytes; i++) require(at->mine[i] == 1, "wrong data");
}

static double wall_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static long switches_so_far(void)
{
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nvcsw + used.ru_nivcsw;
}

static struct times one_round(const struct operation *operation, struct place *at, int num_times)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double switches = -(double)switches_so_far();
    double wall_start_s = wall_s(), virtual_start_s = MPI_Wtime();
    for (at->turn = 0; at->turn < num_times; at->turn++) operation->once(at);
    double virtual_end_s = MPI_Wtime(), wall_end_s = wall_s();
    switches += (double)switches_so_far();

    double passed_s[2] = {wall_end_s - wall_start_s, virtual_end_s - virtual_start_s};
    MPI_Allreduce(MPI_IN_PLACE, passed_s, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &switches, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return (struct times){passed_s[0] / num_times, passed_s[1] / num_times, switches / num_times,
                          -1};
}

/* In a round that is not timed, as counting takes time. */
static double calls_of_one(const struct operation *operation, struct place *at, int num_times)
{
    MPI_Barrier(MPI_COMM_WORLD);
    int is_counted = !begin_counting_system_calls();
    for (at->turn = 0; at->turn < num_times; at->turn++) operation->once(at);
    double num_calls = is_counted ? (double)end_counting_system_calls() : 0;
    MPI_Allreduce(MPI_IN_PLACE, &is_counted, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &num_calls, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return is_counted ? num_calls / num_times : -1;
}

/* Collective; the same times on every rank, of one message or collective. */
static struct times measure(const struct operation *operation, int num_bytes, int num_rounds,
                            double round_s)
{
    struct place at = make_place(operation, num_bytes);
    one_round(operation, &at, 1); /* the first one may fault */
    struct times best = one_round(operation, &at, TRIAL_TIMES);
    double spent_s = 0;
    int num_times = 1;
    for (int i = 0; i < num_rounds && spent_s < most_overrun * num_rounds * round_s; i++) {
        /* Of the quickest round so far: a trial that the scheduler has stretched would else leave
           all rounds as short as itself. */
        double wanted = round_s / best.wall_s;
        num_times = wanted > MOST_TIMES ? MOST_TIMES : wanted < 1 ? 1 : (int)wanted;
        struct times times = one_round(operation, &at, num_times);
        if (i == 0 || times.switches < best.switches) best.switches = times.switches;
        if (i == 0 || times.wall_s < best.wall_s) best.wall_s = times.wall_s;
        if (i == 0 || times.virtual_s < best.virtual_s) best.virtual_s = times.virtual_s;
        spent_s += times.wall_s * num_times;
    }
    best.calls = calls_of_one(operation, &at, num_times);
    check(operation, &at);
    free(at.mine);
    free(at.result);
    const double num = operation->num_messages;
    return (struct times){best.wall_s / num, best.virtual_s / num, best.switches / num,
                          best.calls < 0 ? -1 : best.calls / num};
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    require(argc >= 6 && argc % 2 == 0, "FILE NUM_ROUNDS ROUND_S OPERATION NUM_BYTES...");
    FILE *file = rank == 0 ? fopen(argv[1], "w") : NULL;
    require(rank != 0 || file != NULL, "FILE cannot be written");

    for (int i = 4; i < argc; i += 2) {
        const struct operation *chosen = find(argv[i]);
        int num_bytes = atoi(argv[i + 1]);
        require(chosen != NULL && num_bytes > 0, "unknown OPERATION, or no NUM_BYTES");
        struct times times = measure(chosen, num_bytes, atoi(argv[2]), atof(argv[3]));
        if (rank == 0)
            fprintf(file, "%s %d %.9e %.9e %.9e %.9e\n", argv[i], num_bytes, times.wall_s,
                    times.virtual_s, times.switches, times.calls);
    }
    if (file != NULL) require(fclose(file) == 0, "FILE cannot be written");
    MPI_Finalize();
    return 0;
}
