#include "operations.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* Two ranks: a message there and back, and a window of messages with a short answer. */

struct pair {
    unsigned char *buffer;
    int num_bytes;
    int rank;
};

static void ping_pong(void *context, long num_times)
{
    struct pair *pair = context;
    int peer = 1 - pair->rank;
    for (long i = 0; i < num_times; i++) {
        if (pair->rank == 0)
            MPI_Send(pair->buffer, pair->num_bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        MPI_Recv(pair->buffer, pair->num_bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        if (pair->rank == 1)
            MPI_Send(pair->buffer, pair->num_bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    }
}

/* The answer keeps the sender from running more than a window ahead. */
static void windows(void *context, long num_times)
{
    struct pair *pair = context;
    MPI_Request requests[PW_BENCH_WINDOW];
    unsigned char answer = 0;
    for (long i = 0; i < num_times; i++) {
        for (int k = 0; k < PW_BENCH_WINDOW; k++) {
            unsigned char *part = pair->buffer + (size_t)k * (size_t)pair->num_bytes;
            if (pair->rank == 0)
                MPI_Isend(part, pair->num_bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[k]);
            else MPI_Irecv(part, pair->num_bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[k]);
        }
        MPI_Waitall(PW_BENCH_WINDOW, requests, MPI_STATUSES_IGNORE);
        if (pair->rank == 0)
            MPI_Recv(&answer, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else MPI_Send(&answer, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
}

static struct pw_times measure(const struct pw_rounds *rounds, pw_work *work, int num_bytes,
                               size_t num_parts)
{
    struct pair pair = {.num_bytes = num_bytes};
    size_t all_bytes = num_parts * (size_t)num_bytes;
    int num_ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &pair.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
    pw_rounds_require(num_ranks == 2, "a pair is 2 ranks");
    pair.buffer = malloc(all_bytes);
    pw_rounds_require(pair.buffer != NULL, "no memory for the buffer");
    memset(pair.buffer, 1 + pair.rank, all_bytes);
    struct pw_times times = pw_rounds_measure(rounds, work, &pair);

    /* Rank 0's bytes have gone over rank 1's, so both end up with them. */
    for (size_t i = 0; i < all_bytes; i++) pw_rounds_require(pair.buffer[i] == 1, "wrong data");
    free(pair.buffer);
    return times;
}

struct pw_times pw_bench_ping_pong(const struct pw_rounds *rounds, int num_bytes)
{
    struct pw_times times = measure(rounds, ping_pong, num_bytes, 1);
    times.wall_s /= 2; /* there and back */
    times.virtual_s /= 2;
    return times;
}

struct pw_times pw_bench_rate(const struct pw_rounds *rounds, int num_bytes)
{
    struct pw_times times = measure(rounds, windows, num_bytes, PW_BENCH_WINDOW);
    times.wall_s /= PW_BENCH_WINDOW;
    times.virtual_s /= PW_BENCH_WINDOW;
    return times;
}
