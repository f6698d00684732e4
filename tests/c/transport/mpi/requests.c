/* Requests of all kinds: modes of sending, persistent and partitioned ones, ways of completing. */
#include "check.h"
#include <stdlib.h>
#include <string.h>

static const int lengths[] = {0, 1, 200, 5000, 60000};
enum { NUM_LENGTHS = sizeof lengths / sizeof *lengths, MAX_INTS = 60000, NUM = 40 };

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

CHECK_PROGRAM(send_modes)
{
    int *out = ints(MAX_INTS), *in = ints(MAX_INTS), partner = check_partner(), space_bytes;
    MPI_Request request, sent;
    MPI_Pack_size(MAX_INTS, MPI_INT, MPI_COMM_WORLD, &space_bytes);
    space_bytes = 2 * (space_bytes + MPI_BSEND_OVERHEAD);
    void *space = malloc((size_t)space_bytes), *detached;
    MPI_Buffer_attach(space, space_bytes);
    for (int i = 0; i < NUM_LENGTHS; i++)
        for (int mode = 0; mode < 7; mode++) {
            int count = lengths[i], first = 1000 * i + mode;
            put_elements(out, count, first);
            if (mode == 2 || mode == 5) /* a ready send needs its receive */
                MPI_Irecv(in, count, MPI_INT, partner, mode, MPI_COMM_WORLD, &request);
            if (mode == 2 || mode == 5) MPI_Barrier(MPI_COMM_WORLD);
            if (mode == 1) MPI_Irecv(in, count, MPI_INT, partner, 1, MPI_COMM_WORLD, &request);
            if (mode == 0) MPI_Bsend(out, count, MPI_INT, partner, mode, MPI_COMM_WORLD);
            if (mode == 0) memset(out, 0, MAX_INTS * sizeof *out); /* the buffered is apart */
            if (mode == 1) MPI_Ssend(out, count, MPI_INT, partner, mode, MPI_COMM_WORLD);
            if (mode == 2) MPI_Rsend(out, count, MPI_INT, partner, mode, MPI_COMM_WORLD);
            if (mode == 3) MPI_Ibsend(out, count, MPI_INT, partner, 3, MPI_COMM_WORLD, &sent);
            if (mode == 4) MPI_Issend(out, count, MPI_INT, partner, 4, MPI_COMM_WORLD, &sent);
            if (mode == 5) MPI_Irsend(out, count, MPI_INT, partner, 5, MPI_COMM_WORLD, &sent);
            if (mode == 6) MPI_Isend(out, count, MPI_INT, partner, 6, MPI_COMM_WORLD, &sent);
            if (mode == 1 || mode == 2 || mode == 5) MPI_Wait(&request, MPI_STATUS_IGNORE);
            else MPI_Recv(in, count, MPI_INT, partner, mode, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (mode > 2) MPI_Wait(&sent, MPI_STATUS_IGNORE);
            check_elements(in, count, first, "message");
        }
    MPI_Buffer_detach(&detached, &space_bytes);
    CHECK(detached == space, "another buffer than was attached");
    free(space);
    free(out);
    free(in);
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

CHECK_PROGRAM(persistent)
{
    int *out = ints(NUM_LENGTHS * MAX_INTS), *in = ints(NUM_LENGTHS * MAX_INTS);
    int partner = check_partner();
    MPI_Request requests[2 * NUM_LENGTHS];
    for (int i = 0; i < NUM_LENGTHS; i++) {
        MPI_Recv_init(in + i * MAX_INTS, lengths[i], MPI_INT, partner, i, MPI_COMM_WORLD,
                      &requests[i]);
        if (i % 2)
            MPI_Ssend_init(out + i * MAX_INTS, lengths[i], MPI_INT, partner, i, MPI_COMM_WORLD,
                           &requests[NUM_LENGTHS + i]);
        else
            MPI_Send_init(out + i * MAX_INTS, lengths[i], MPI_INT, partner, i, MPI_COMM_WORLD,
                          &requests[NUM_LENGTHS + i]);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < NUM_LENGTHS; i++)
            put_elements(out + i * MAX_INTS, lengths[i], round * 7 + i);
        MPI_Startall(2 * NUM_LENGTHS, requests);
        MPI_Waitall(2 * NUM_LENGTHS, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < NUM_LENGTHS; i++)
            check_elements(in + i * MAX_INTS, lengths[i], round * 7 + i, "persistent receive");
    }
    for (int i = 0; i < 2 * NUM_LENGTHS; i++) MPI_Request_free(&requests[i]);
    free(out);
    free(in);
}

CHECK_PROGRAM(partitioned)
{
    enum { PARTS = 8, EACH = 3000 };
    int *out = ints(PARTS * EACH), *in = ints(PARTS * EACH), partner = check_partner();
    MPI_Request send, receive;
    MPI_Psend_init(out, PARTS, EACH, MPI_INT, partner, 80, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Precv_init(in, PARTS, EACH, MPI_INT, partner, 80, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
    for (int round = 0; round < 4; round++) {
        MPI_Start(&receive);
        MPI_Start(&send);
        for (int i = 0; i < PARTS; i++) {
            int part = i * 3 % PARTS; /* in no order */
            put_elements(out + part * EACH, EACH, round * 100000 + part * EACH);
            MPI_Pready(part, send);
        }
        for (int part = 0; part < PARTS; part++) {
            int flag = 0;
            while (!flag) MPI_Parrived(receive, part, &flag);
            check_elements(in + part * EACH, EACH, round * 100000 + part * EACH, "part");
        }
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
    free(out);
    free(in);
}

CHECK_PROGRAM(sendrecv)
{
    int *values = ints(MAX_INTS), *in = ints(MAX_INTS);
    int above = (check_rank + 1) % check_size, below = (check_rank + check_size - 1) % check_size;
    MPI_Request request;
    for (int i = 0; i < NUM_LENGTHS; i++) {
        put_elements(values, lengths[i], check_rank);
        MPI_Sendrecv(values, lengths[i], MPI_INT, above, 1, in, MAX_INTS, MPI_INT, below, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check_elements(in, lengths[i], below, "Sendrecv");
        MPI_Sendrecv_replace(values, lengths[i], MPI_INT, above, 2, below, 2, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        check_elements(values, lengths[i], below, "Sendrecv_replace");
        MPI_Isendrecv(values, lengths[i], MPI_INT, below, 3, in, lengths[i], MPI_INT, above, 3,
                      MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check_elements(in, lengths[i], check_rank, "Isendrecv");
        MPI_Isendrecv_replace(values, lengths[i], MPI_INT, below, 4, above, 4, MPI_COMM_WORLD,
                              &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check_elements(values, lengths[i], check_rank, "Isendrecv_replace");
    }
    free(values);
    free(in);
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
