/* MPI_THREAD_MULTIPLE: threads of both ranks of a pair send, receive, wait and reduce at once. */
#include "check.h"
#include <pthread.h>
#include <stdlib.h>

enum { NUM_THREADS = 4, ROUNDS = 60, LAST = ROUNDS * 10, MAX_INTS = 30000 };

typedef struct {
    int number;
    MPI_Comm comm;
} worker;

static void *exchange(void *context)
{
    const worker *self = context;
    int *out = malloc(MAX_INTS * sizeof *out), *in = malloc(MAX_INTS * sizeof *in);
    int partner = check_partner();
    for (int round = 0; round < ROUNDS; round++) {
        int count = round % 10 == 0 ? MAX_INTS : 1 + round * self->number, flag = 0;
        MPI_Request requests[2];
        for (int i = 0; i < count; i++) out[i] = self->number * 1000000 + round * 1000 + i;
        MPI_Irecv(in, count, MPI_INT, partner, self->number, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, count, MPI_INT, partner, self->number, MPI_COMM_WORLD, &requests[1]);
        if ((round + self->number) % 3) MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        else
            while (!flag) MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; i++)
            CHECK_INT(in[i], self->number * 1000000 + round * 1000 + i, "element");
    }
    free(out);
    free(in);
    return NULL;
}

static void *reduce(void *context)
{
    const worker *self = context;
    for (int round = 0; round < ROUNDS; round++) {
        int mine = self->number + round, sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, self->comm);
        CHECK_INT(sum, check_size * mine, "sum of a thread");
    }
    return NULL;
}

/* One thread only receives, with wildcards, what the others send: blocked while they work. */
static void *serve(void *context)
{
    const worker *self = context;
    int value, num_ended = 0;
    MPI_Status status;
    while (num_ended < check_size * (NUM_THREADS - 1)) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 500, self->comm, &status);
        num_ended += value >= LAST;
        value++;
        MPI_Send(&value, 1, MPI_INT, status.MPI_SOURCE, 600 + value % 10, self->comm);
    }
    return NULL;
}

static void *ask(void *context)
{
    const worker *self = context;
    for (int round = 0; round <= ROUNDS; round++)
        for (int to = 0; to < check_size; to++) {
            /* The last digit tells the threads' answers apart. */
            int value = round * 10 + self->number, got;
            int tag = 600 + (value + 1) % 10;
            MPI_Send(&value, 1, MPI_INT, to, 500, self->comm);
            MPI_Recv(&got, 1, MPI_INT, to, tag, self->comm, MPI_STATUS_IGNORE);
            CHECK_INT(got, value + 1, "answer");
        }
    return NULL;
}

static void work_at_once(void *(*first)(void *), void *(*others)(void *), const worker *workers)
{
    pthread_t threads[NUM_THREADS];
    for (int i = 0; i < NUM_THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, i ? others : first, (void *)&workers[i]),
              "no thread");
    for (int i = 0; i < NUM_THREADS; i++) pthread_join(threads[i], NULL);
}

CHECK_PROGRAM(threads)
{
    worker workers[NUM_THREADS];
    CHECK_INT(check_thread_level, MPI_THREAD_MULTIPLE, "thread level (start with --threads)");
    for (int i = 0; i < NUM_THREADS; i++) {
        workers[i].number = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    work_at_once(exchange, exchange, workers);
    MPI_Barrier(MPI_COMM_WORLD);
    work_at_once(reduce, reduce, workers);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i < NUM_THREADS; i++) MPI_Comm_free(&workers[i].comm);
    for (int i = 1; i < NUM_THREADS; i++) workers[i].comm = workers[0].comm;
    work_at_once(serve, ask, workers);
    MPI_Comm_free(&workers[0].comm);
}
