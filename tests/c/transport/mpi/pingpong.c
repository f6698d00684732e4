/* Messages there and back, of all kinds of sizes and alignments, into pages that are not there. */
#include "check.h"

enum { MAX_BYTES = 16 << 20, MARGIN_BYTES = 16384, TAG = 7 };

static const int sizes[] = {
    0,     1,     2,     7,     8,     9,     15,     63,      64,           65,
    255,   1000,  1023,  1024,  1025,  4095,  4096,   4097,    8191,         16383,
    16384, 16385, 32768, 65535, 65536, 65537, 200000, 1 << 20, (1 << 20) + 3};
static const int offsets[] = {0, 1, 3, 8, 4093};

static void receive(char *buffer, int size_bytes, int offset_bytes, int partner, uint32_t seed,
                    MPI_Request request)
{
    MPI_Status status;
    int count;
    if (request == MPI_REQUEST_NULL)
        MPI_Recv(buffer + offset_bytes, size_bytes, MPI_BYTE, partner, TAG, MPI_COMM_WORLD,
                 &status);
    else MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_INT(count, size_bytes, "count");
    CHECK_INT(status.MPI_SOURCE, partner, "source");
    CHECK_INT(status.MPI_TAG, TAG, "tag");
    check_contents(buffer + offset_bytes, (size_t)size_bytes, seed, "message");
    check_bytes(buffer, (size_t)offset_bytes, 0, "what lies before the message");
    check_bytes(buffer + offset_bytes + size_bytes, 64, 0, "what lies behind the message");
}

static void exchange(char *out, char *in, int size_bytes, int offset_bytes)
{
    size_t mapped_bytes = (size_t)size_bytes + 2 * MARGIN_BYTES;
    int partner = check_partner();
    uint32_t seed = (uint32_t)(size_bytes + offset_bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    check_drop(out, mapped_bytes);
    check_drop(in, mapped_bytes);
    if (partner == check_rank)
        MPI_Irecv(in + offset_bytes, size_bytes, MPI_BYTE, partner, TAG, MPI_COMM_WORLD, &request);
    if (partner >= check_rank) {
        check_fill(out + offset_bytes, (size_t)size_bytes, seed);
        MPI_Send(out + offset_bytes, size_bytes, MPI_BYTE, partner, TAG, MPI_COMM_WORLD);
        receive(in, size_bytes, offset_bytes, partner, seed + (partner > check_rank), request);
    } else {
        receive(in, size_bytes, offset_bytes, partner, seed, request);
        check_fill(out + 2 * offset_bytes, (size_t)size_bytes, seed + 1);
        MPI_Send(out + 2 * offset_bytes, size_bytes, MPI_BYTE, partner, TAG, MPI_COMM_WORLD);
    }
}

CHECK_PROGRAM(pingpong)
{
    char *out = check_map(MAX_BYTES + 2 * MARGIN_BYTES);
    char *in = check_map(MAX_BYTES + 2 * MARGIN_BYTES);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof offsets / sizeof *offsets; j++)
            if (sizes[i] <= 65537 || j == 1) exchange(out, in, sizes[i], offsets[j]);
    check_unmap(out, MAX_BYTES + 2 * MARGIN_BYTES);
    check_unmap(in, MAX_BYTES + 2 * MARGIN_BYTES);
}

CHECK_PROGRAM(pingpong_large)
{
    char *out = check_map(MAX_BYTES + 2 * MARGIN_BYTES);
    char *in = check_map(MAX_BYTES + 2 * MARGIN_BYTES);
    exchange(out, in, 4 << 20, 1);
    exchange(out, in, 4 << 20, 4096);
    exchange(out, in, MAX_BYTES, 3);
    check_unmap(out, MAX_BYTES + 2 * MARGIN_BYTES);
    check_unmap(in, MAX_BYTES + 2 * MARGIN_BYTES);
}
