/* Messages between two ranks do not overtake each other, whatever their sizes and however they are
 * received; wildcards; messages that come before their receive is posted. */
#include "check.h"
#include <stdlib.h>

enum { NUM_MESSAGES = 60, MAX_INTS = 40000 };

/* From 1 int to what any NI sends by rendezvous, in no order. */
static int length_of(int message)
{
    static const int lengths[] = {1, 20000, 3, 300, 40000, 2, 5000, 17, 2000, 9000};
    return lengths[message % 10];
}

static void send_all(int partner, int *buffer, int is_nonblocking)
{
    for (int i = 0; i < NUM_MESSAGES; i++) {
        int *message = buffer + (size_t)(i % 10) * MAX_INTS;
        MPI_Request request;
        message[0] = i;
        message[length_of(i) - 1] = i;
        if (!is_nonblocking) {
            MPI_Send(message, length_of(i), MPI_INT, partner, 5, MPI_COMM_WORLD);
        } else {
            MPI_Isend(message, length_of(i), MPI_INT, partner, 5, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
}

static void receive_all(int partner, int *buffer, int source, int tag)
{
    for (int i = 0; i < NUM_MESSAGES; i++) {
        MPI_Status status;
        int count;
        MPI_Recv(buffer, MAX_INTS, MPI_INT, source, tag, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK_INT(status.MPI_SOURCE, partner, "source");
        CHECK_INT(status.MPI_TAG, 5, "tag");
        CHECK_INT(count, length_of(i), "count");
        CHECK_INT(buffer[0], i, "first element");
        CHECK_INT(buffer[count - 1], i, "last element");
    }
}

CHECK_PROGRAM(order)
{
    int partner = check_partner();
    if (partner != check_rank) {
        int *buffer = malloc((size_t)10 * MAX_INTS * sizeof *buffer);
        for (int round = 0; round < 4; round++) {
            int is_any = round % 2;
            if (partner > check_rank) send_all(partner, buffer, round / 2);
            else
                receive_all(partner, buffer, is_any ? MPI_ANY_SOURCE : partner,
                            is_any ? MPI_ANY_TAG : 5);
            MPI_Sendrecv_replace(&is_any, 1, MPI_INT, partner, 6, partner, 6, MPI_COMM_WORLD,
                                 MPI_STATUS_IGNORE);
        }
        free(buffer);
    }
}

/* All messages have come before the first receive is posted, and are taken by tag from the last to
 * the first, then by order within each tag. */
CHECK_PROGRAM(unexpected)
{
    enum { TAGS = 20, EACH = 10, INTS = 5000 };
    int partner = check_partner(), *out = malloc(TAGS * EACH * INTS * sizeof *out), in[INTS];
    MPI_Request *requests = malloc(TAGS * EACH * sizeof *requests);
    for (int i = 0; i < TAGS * EACH; i++) {
        int tag = i % TAGS, count = i % 3 ? 2 : INTS;
        for (int j = 0; j < count; j++) out[i * INTS + j] = i + j;
        MPI_Isend(out + i * INTS, count, MPI_INT, partner, tag, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int tag = TAGS - 1; tag >= 0; tag--)
        for (int nth = 0; nth < EACH; nth++) {
            int i = nth * TAGS + tag, count;
            MPI_Status status;
            MPI_Recv(in, INTS, MPI_INT, nth % 2 ? partner : MPI_ANY_SOURCE, tag, MPI_COMM_WORLD,
                     &status);
            MPI_Get_count(&status, MPI_INT, &count);
            CHECK_INT(count, i % 3 ? 2 : INTS, "count");
            CHECK_INT(in[0], i, "first element");
            CHECK_INT(in[count - 1], i + count - 1, "last element");
        }
    MPI_Waitall(TAGS * EACH, requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(out);
}

/* A receive from anyone takes the earliest that matches, one that names a source leaves others'. */
CHECK_PROGRAM(wildcards)
{
    int num_expected = 10 * (check_size - 1), value;
    if (check_rank > 0) {
        for (int i = 0; i < 10; i++) {
            value = check_rank * 100 + i;
            MPI_Send(&value, 1, MPI_INT, 0, i % 2 ? 11 : 12, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        return;
    }
    int *next = calloc((size_t)check_size, sizeof *next);
    MPI_Status status;
    for (int i = 0; i < num_expected / 2; i++) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &status);
        int source = status.MPI_SOURCE;
        CHECK_INT(value, source * 100 + 2 * next[source] + 1, "value with tag 11");
        next[source]++;
    }
    for (int source = check_size - 1; source > 0; source--)
        for (int i = 0; i < 5; i++) {
            MPI_Recv(&value, 1, MPI_INT, source, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            CHECK_INT(status.MPI_TAG, 12, "tag");
            CHECK_INT(value, source * 100 + 2 * i, "value with tag 12");
        }
    free(next);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* MPI_PROC_NULL, and messages of no bytes. */
CHECK_PROGRAM(nothing)
{
    int partner = check_partner(), count = -1, flag = 0;
    MPI_Status status;
    MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
    CHECK_INT(status.MPI_SOURCE, MPI_PROC_NULL, "source");
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_INT(count, 0, "count of nothing");
    MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &status);
    CHECK(flag, "nothing from nobody must be there");
    MPI_Sendrecv(NULL, 0, MPI_INT, partner, 3, NULL, 0, MPI_INT, partner, 3, MPI_COMM_WORLD,
                 &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_INT(count, 0, "count of an empty message");
    CHECK_INT(status.MPI_SOURCE, partner, "source of an empty message");
}
