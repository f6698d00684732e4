/* Windows of messages in flight, in one direction and in both, then all ranks to all. */
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 32, MAX_BYTES = 1 << 20 };

static const int sizes[] = {0, 8, 1024, 16384, 65536, 262144};

static void one_window(char *out, char *in, int size_bytes, int both)
{
    MPI_Request requests[2 * WINDOW];
    int num_requests = 0, partner = check_partner(), answer = 0;
    int does_send = both || partner >= check_rank, does_receive = both || partner <= check_rank;
    for (int i = 0; i < WINDOW && does_receive; i++)
        MPI_Irecv(in + (size_t)i * MAX_BYTES / 4, size_bytes, MPI_BYTE, partner, i, MPI_COMM_WORLD,
                  &requests[num_requests++]);
    for (int i = 0; i < WINDOW && does_send; i++) {
        check_fill(out + (size_t)i * MAX_BYTES / 4, (size_t)size_bytes, (uint32_t)i);
        MPI_Isend(out + (size_t)i * MAX_BYTES / 4, size_bytes, MPI_BYTE, partner, i, MPI_COMM_WORLD,
                  &requests[num_requests++]);
    }
    MPI_Waitall(num_requests, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < WINDOW && does_receive; i++)
        check_contents(in + (size_t)i * MAX_BYTES / 4, (size_t)size_bytes, (uint32_t)i, "window");
    MPI_Sendrecv(&size_bytes, 1, MPI_INT, partner, WINDOW, &answer, 1, MPI_INT, partner, WINDOW,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_INT(answer, size_bytes, "answer");
}

CHECK_PROGRAM(bandwidth)
{
    size_t mapped_bytes = (size_t)WINDOW * MAX_BYTES / 4;
    char *out = check_map(mapped_bytes), *in = check_map(mapped_bytes);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int both = 0; both < 2; both++) {
            /* Many large messages at once into absent pages overflow the NI FIFO, and every block
             * then waits for its timeout, again and again: a storm, and no test of windows. */
            if (sizes[i] <= 16384) check_drop(in, mapped_bytes);
            else memset(in, 0, mapped_bytes);
            check_drop(out, mapped_bytes);
            one_window(out, in, sizes[i], both);
        }
    }
    check_unmap(out, mapped_bytes);
    check_unmap(in, mapped_bytes);
}

/* Every rank to every rank, itself too, without a collective; receives posted in another order than
 * the messages are sent in. */
CHECK_PROGRAM(all_to_all_by_hand)
{
    enum { COUNT = 3000, TAGS = 5 };
    size_t num_messages = (size_t)check_size * TAGS;
    int *out = malloc(num_messages * COUNT * sizeof *out);
    int *in = malloc(num_messages * COUNT * sizeof *in);
    MPI_Request *requests = malloc(2 * num_messages * sizeof(MPI_Request));
    size_t num_requests = 0;
    for (int peer = check_size - 1; peer >= 0; peer--)
        for (int tag = 0; tag < TAGS; tag++)
            MPI_Irecv(in + ((size_t)peer * TAGS + (size_t)tag) * COUNT, COUNT, MPI_INT, peer, tag,
                      MPI_COMM_WORLD, &requests[num_requests++]);
    for (int tag = TAGS - 1; tag >= 0; tag--)
        for (int peer = 0; peer < check_size; peer++) {
            int *message = out + ((size_t)peer * TAGS + (size_t)tag) * COUNT;
            int count = COUNT / (1 + tag * tag);
            for (int i = 0; i < count; i++) message[i] = check_rank * 1000000 + tag * 10000 + i;
            MPI_Isend(message, count, MPI_INT, peer, tag, MPI_COMM_WORLD,
                      &requests[num_requests++]);
        }
    MPI_Waitall((int)num_requests, requests, MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < check_size; peer++)
        for (int tag = 0; tag < TAGS; tag++)
            for (int i = 0; i < COUNT / (1 + tag * tag); i++)
                CHECK_INT(in[((size_t)peer * TAGS + (size_t)tag) * COUNT + (size_t)i],
                          peer * 1000000 + tag * 10000 + i, "element");
    free(out);
    free(in);
    free(requests);
}
