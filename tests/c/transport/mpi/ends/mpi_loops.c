/* A program whose ranks say who they are and then do one thing for ever: `mpi_loops HOW [FILE]`.
 * Rounds last until FILE is there, and take it away. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUM_VALUES = 200000, NUM_ROUNDS = 60 };

static int rank, size;
static double data[NUM_VALUES], total[NUM_VALUES];

static void say_ready(void)
{
    printf("ready %d %ld\n", rank, (long)getpid());
    fflush(stdout);
}

static void exchange_forever(void)
{
    for (;;) {
        if (rank == 1) MPI_Send(data, NUM_VALUES, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
        else MPI_Recv(data, NUM_VALUES, MPI_DOUBLE, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void reduce(void)
{
    MPI_Allreduce(data, total, NUM_VALUES, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Ends well, and says what came out. */
static void run_rounds(const char *file)
{
    double sum = 0;
    int is_told = file == NULL;
    for (int turn = 0; turn < NUM_ROUNDS || !is_told; turn++) {
        reduce();
        for (int i = 0; i < NUM_VALUES; i++)
            data[i] = total[i] / size + (turn < NUM_ROUNDS ? turn : 0);
        if (!rank && !is_told) is_told = unlink(file) == 0;
        MPI_Bcast(&is_told, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (int i = 0; i < NUM_VALUES; i++) sum += data[i];
    printf("result %.1f\n", sum);
}

int main(int num_arguments, char **arguments)
{
    const char *how = num_arguments > 1 ? arguments[1] : "";
    if (!strcmp(how, "start")) {
        const char *text = getenv("PMI_RANK");
        rank = text ? atoi(text) : 0;
        say_ready();
        pause();
    }
    MPI_Init(&num_arguments, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int is_last = rank == size - 1;
    for (int i = 0; i < NUM_VALUES; i++) data[i] = rank;
    MPI_Barrier(MPI_COMM_WORLD);
    say_ready();
    if (!strcmp(how, "send")) exchange_forever();
    while (!strcmp(how, "collective")) reduce();
    if (!strcmp(how, "blocked"))
        MPI_Recv(data, 1, MPI_DOUBLE, (rank + 1) % size, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(how, "computing")) {
        if (is_last) pause();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (!strcmp(how, "finalize") && is_last) pause();
    if (!strcmp(how, "rounds")) run_rounds(num_arguments > 2 ? arguments[2] : NULL);
    MPI_Finalize();
    return 0;
}
