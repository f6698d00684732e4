/* Requests: when a synchronous send ends, and all ways of completing. */
#include "check.h"
#include <stdlib.h>

enum { NUM = 40 };

static void put_elements(int *values, int count, int first)
{
    for (int i = 0; i < count; i++) values[i] = first + i;
}

static void check_elements(const int *values, int count, int first, const char *what)
{
    for (int i = 0; i < count; i++) CHECK_INT(values[i], first + i, what);
}

static int *ints(size_t count)
{
    int *values = calloc(count, sizeof *values);
    CHECK(values, "no memory");
    return values;
}

/* A synchronous send does not end before its receive is there. */
CHECK_PROGRAM(synchronous)
{
    int partner = check_partner(), value = 4, got = 0, flag;
    MPI_Request sent;
    MPI_Issend(&value, 1, MPI_INT, partner, 70, MPI_COMM_WORLD, &sent);
    for (int i = 0; i < 100; i++) {
        MPI_Test(&sent, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag, "a synchronous send ended without its receive");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(&got, 1, MPI_INT, partner, 70, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    CHECK_INT(got, 4, "value");
}

/* Takes some of what is open, in one of six ways; loops around tests must end. How many. */
static int complete(int way, MPI_Request *requests, int *is_done)
{
    int index, indices[NUM], num = 0, flag = 0;
    if (way == 0) {
        MPI_Waitany(NUM, requests, &index, MPI_STATUS_IGNORE);
        indices[num++] = index;
    } else if (way == 1) {
        MPI_Waitsome(NUM, requests, &num, indices, MPI_STATUSES_IGNORE);
    } else if (way == 2) {
        while (!flag) MPI_Testany(NUM, requests, &index, &flag, MPI_STATUS_IGNORE);
        indices[num++] = index;
    } else if (way == 3) {
        while (!num) MPI_Testsome(NUM, requests, &num, indices, MPI_STATUSES_IGNORE);
    } else if (way == 4) {
        while (!flag) MPI_Testall(NUM, requests, &flag, MPI_STATUSES_IGNORE);
        for (int i = 0; i < NUM; i++) indices[num++] = i;
    } else {
        for (int i = 0; i < NUM; i++) {
            if (requests[i] == MPI_REQUEST_NULL) continue;
            while (!flag) MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
            MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            CHECK(flag, "a request that is done is not done for MPI_Test");
            indices[num++] = i;
            break;
        }
    }
    for (int i = 0; i < num; i++) {
        CHECK(indices[i] >= 0 && indices[i] < NUM, "index %d", indices[i]);
        CHECK(!is_done[indices[i]], "request %d completes twice", indices[i]);
        CHECK(requests[indices[i]] == MPI_REQUEST_NULL, "request %d is still open", indices[i]);
        is_done[indices[i]] = 1;
    }
    return num;
}

CHECK_PROGRAM(completion)
{
    enum { INTS = 20000 };
    int *out = ints(NUM / 2 * INTS), *in = ints(NUM / 2 * INTS), partner = check_partner();
    for (int way = 0; way < 6; way++) {
        MPI_Request requests[NUM];
        int is_done[NUM] = {0}, num_done = 0;
        for (int i = 0; i < NUM / 2; i++)
            MPI_Irecv(in + i * INTS, INTS, MPI_INT, partner, i, MPI_COMM_WORLD, &requests[i]);
        for (int i = NUM / 2 - 1; i >= 0; i--) {
            int count = i % 4 ? 5 : INTS;
            put_elements(out + i * INTS, count, way * 1000 + i);
            MPI_Isend(out + i * INTS, count, MPI_INT, partner, i, MPI_COMM_WORLD,
                      &requests[NUM / 2 + i]);
        }
        while (num_done < NUM) num_done += complete(way, requests, is_done);
        for (int i = 0; i < NUM / 2; i++)
            check_elements(in + i * INTS, i % 4 ? 5 : INTS, way * 1000 + i, "completed receive");
    }
    free(out);
    free(in);
}

/* The program that waits by tests is answered by one that computes first. */
CHECK_PROGRAM(testing)
{
    int partner = check_partner(), value = 1, got = 0, flag = 0;
    MPI_Request request;
    volatile double sum = 0;
    MPI_Irecv(&got, 1, MPI_INT, partner, 90, MPI_COMM_WORLD, &request);
    if (check_rank >= partner)
        for (int i = 0; i < 3000000; i++) sum = sum + i;
    if (check_rank >= partner) MPI_Send(&value, 1, MPI_INT, partner, 90, MPI_COMM_WORLD);
    while (!flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    if (check_rank < partner) MPI_Send(&value, 1, MPI_INT, partner, 90, MPI_COMM_WORLD);
    CHECK_INT(got, 1, "value");
}
