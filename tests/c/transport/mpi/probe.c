/* Probe in its four kinds, and receives that are too short. */
#include "check.h"
#include <stdlib.h>
#include <string.h>

static const int lengths[] = {0, 1, 100, 4000, 30000, 300000};
enum { NUM_LENGTHS = sizeof lengths / sizeof *lengths };

static void send_lengths(int *buffer, int partner, MPI_Request *requests)
{
    for (int i = 0; i < NUM_LENGTHS; i++) {
        for (int j = 0; j < lengths[i]; j++) buffer[j] = j;
        MPI_Isend(buffer, lengths[i], MPI_INT, partner, 20 + i, MPI_COMM_WORLD, &requests[i]);
    }
}

static void check_status(const MPI_Status *status, int partner, int i)
{
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    CHECK_INT(count, lengths[i], "probed count");
    CHECK_INT(status->MPI_SOURCE, partner, "probed source");
    CHECK_INT(status->MPI_TAG, 20 + i, "probed tag");
}

static void check_elements(const int *buffer, int i)
{
    for (int j = 0; j < lengths[i]; j++) CHECK_INT(buffer[j], j, "element");
}

typedef void (*probe_function)(int *buffer, int partner, int i);

static void by_probe(int *buffer, int partner, int i)
{
    MPI_Status status;
    MPI_Probe(i % 2 ? partner : MPI_ANY_SOURCE, 20 + i, MPI_COMM_WORLD, &status);
    check_status(&status, partner, i);
    MPI_Recv(buffer, lengths[i], MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
             &status);
    check_status(&status, partner, i);
}

static void by_iprobe(int *buffer, int partner, int i)
{
    MPI_Status status;
    int flag = 0;
    while (!flag) MPI_Iprobe(partner, 20 + i, MPI_COMM_WORLD, &flag, &status);
    check_status(&status, partner, i);
    MPI_Recv(buffer, lengths[i], MPI_INT, partner, 20 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void by_mprobe(int *buffer, int partner, int i)
{
    MPI_Status status;
    MPI_Message message;
    MPI_Mprobe(partner, 20 + i, MPI_COMM_WORLD, &message, &status);
    check_status(&status, partner, i);
    MPI_Mrecv(buffer, lengths[i], MPI_INT, &message, &status);
    CHECK(message == MPI_MESSAGE_NULL, "the message is still there after Mrecv");
    check_status(&status, partner, i);
}

static void by_improbe(int *buffer, int partner, int i)
{
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    int flag = 0;
    while (!flag) MPI_Improbe(MPI_ANY_SOURCE, 20 + i, MPI_COMM_WORLD, &flag, &message, &status);
    check_status(&status, partner, i);
    MPI_Imrecv(buffer, lengths[i], MPI_INT, &message, &request);
    MPI_Wait(&request, &status);
    check_status(&status, partner, i);
}

CHECK_PROGRAM(probe)
{
    static const probe_function kinds[] = {by_probe, by_iprobe, by_mprobe, by_improbe};
    int partner = check_partner();
    int *out = malloc(300000 * sizeof *out), *in = malloc(300000 * sizeof *in);
    MPI_Request requests[NUM_LENGTHS];
    for (size_t kind = 0; kind < 4; kind++)
        for (int is_reversed = 0; is_reversed < 2; is_reversed++) {
            send_lengths(out, partner, requests);
            for (int i = 0; i < NUM_LENGTHS; i++) {
                int nth = is_reversed ? NUM_LENGTHS - 1 - i : i;
                memset(in, 0xff, (size_t)lengths[nth] * sizeof *in);
                kinds[kind](in, partner, nth);
                check_elements(in, nth);
            }
            MPI_Waitall(NUM_LENGTHS, requests, MPI_STATUSES_IGNORE);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    free(out);
    free(in);
}

/* A matched message is out of reach of other receives. */
CHECK_PROGRAM(matched)
{
    int partner = check_partner(), first = 1, second = 2, got = 0, flag;
    MPI_Request requests[2];
    MPI_Message message;
    MPI_Isend(&first, 1, MPI_INT, partner, 30, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&second, 1, MPI_INT, partner, 30, MPI_COMM_WORLD, &requests[1]);
    MPI_Mprobe(partner, 30, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Recv(&got, 1, MPI_INT, partner, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_INT(got, 2, "message that the receive takes");
    MPI_Iprobe(MPI_ANY_SOURCE, 30, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag, "the matched message is probed again");
    MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK_INT(got, 1, "matched message");
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* A receive that is too short says so, and what comes after it is well. */
CHECK_PROGRAM(truncation)
{
    int partner = check_partner(), class;
    MPI_Comm comm;
    MPI_Status status;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 2; i < NUM_LENGTHS; i++) {
        size_t size_bytes = (size_t)lengths[i] * sizeof(int);
        int *out = malloc(size_bytes), *in = malloc(size_bytes);
        for (int is_early = 0; is_early < 2; is_early++) {
            MPI_Request request, sent;
            memset(in, 0x77, size_bytes);
            memset(out, 0x11, size_bytes);
            if (is_early) MPI_Irecv(in, 4, MPI_INT, partner, 50, comm, &request);
            if (is_early) MPI_Barrier(comm);
            MPI_Isend(out, lengths[i], MPI_INT, partner, 50, comm, &sent);
            if (!is_early) MPI_Barrier(comm);
            int code = is_early ? MPI_Wait(&request, &status)
                                : MPI_Recv(in, 4, MPI_INT, partner, 50, comm, &status);
            CHECK(code != MPI_SUCCESS, "%d ints went into 4", lengths[i]);
            MPI_Error_class(code, &class);
            CHECK_INT(class, MPI_ERR_TRUNCATE, "error class");
            check_bytes(in + 4, size_bytes - 16, 0x77, "what lies behind a receive of 4 ints");
            MPI_Wait(&sent, MPI_STATUS_IGNORE);
            MPI_Sendrecv(out, lengths[i], MPI_INT, partner, 51, in, lengths[i], MPI_INT, partner,
                         51, comm, MPI_STATUS_IGNORE);
            check_bytes(in, size_bytes, 0x11, "message after one that was too long");
        }
        free(in);
        free(out);
    }
    MPI_Comm_free(&comm);
}
