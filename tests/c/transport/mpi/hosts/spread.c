/* What a program of several hosts does first: a large and a small reduction, a put to the next
 * rank. Checks itself. With the argument FILE it goes on reducing, and says by that file that it
 * does. Of MPI-3, for any MPI. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 100000

static double mine[COUNT], sum[COUNT];

static void check(int is_right, const char *what)
{
    if (is_right) return;
    fprintf(stderr, "spread: wrong %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void reduce(int count, double rank, double expected)
{
    for (int i = 0; i < count; i++) mine[i] = rank;
    MPI_Allreduce(mine, sum, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) check(sum[i] == expected, "sum");
}

static void put_to_next(int rank, int size)
{
    int *there, sent = rank;
    MPI_Win window;
    MPI_Win_allocate(sizeof *there, sizeof *there, MPI_INFO_NULL, MPI_COMM_WORLD, &there, &window);
    MPI_Win_fence(0, window);
    MPI_Put(&sent, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    check(*there == (rank + size - 1) % size, "put");
    MPI_Win_free(&window);
}

int main(int num_words, char **words)
{
    int rank, size;
    MPI_Init(&num_words, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const double expected = size * (size - 1) / 2.0;
    reduce(COUNT, rank, expected);
    reduce(1, rank, expected);
    put_to_next(rank, size);
    printf("well %d of %d\n", rank, size);
    fflush(stdout);
    if (num_words > 1) {
        FILE *sign = rank ? NULL : fopen(words[1], "w");
        if (sign) fclose(sign);
        for (;;) reduce(1000, rank, expected);
    }
    MPI_Finalize();
    return 0;
}
