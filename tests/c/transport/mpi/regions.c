/* Regions marked by MPI_Pcontrol, by name and by number: on plain MPI they change nothing. */
#include "check.h"
#include <string.h>

enum { SMALL_BYTES = 64, LARGE_BYTES = 1 << 20, TAG = 3 };

static void pass_on(char *out, char *in, int size_bytes)
{
    const int next = (check_rank + 1) % check_size;
    const int previous = (check_rank + check_size - 1) % check_size;
    memset(in, 0, (size_t)size_bytes);
    check_fill(out, (size_t)size_bytes, (uint32_t)check_rank);
    MPI_Sendrecv(out, size_bytes, MPI_BYTE, next, TAG, in, size_bytes, MPI_BYTE, previous, TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_contents(in, (size_t)size_bytes, (uint32_t)previous, "message");
}

CHECK_PROGRAM(regions)
{
    char *out = check_map(LARGE_BYTES), *in = check_map(LARGE_BYTES);
    for (int turn = 0; turn < 3; turn++) {
        CHECK_INT(MPI_Pcontrol(1, "halo"), MPI_SUCCESS, "enter");
        pass_on(out, in, LARGE_BYTES);
        MPI_Pcontrol(1, "check");
        pass_on(out, in, SMALL_BYTES);
        MPI_Pcontrol(-1, "check");
        CHECK_INT(MPI_Pcontrol(-1, "halo"), MPI_SUCCESS, "leave");
    }
    MPI_Pcontrol(5);
    MPI_Pcontrol(1, "left with it");
    pass_on(out, in, SMALL_BYTES);
    MPI_Pcontrol(-5);
    MPI_Pcontrol(-1, "never entered");
    MPI_Pcontrol(0);
    MPI_Pcontrol(2);
    pass_on(out, in, SMALL_BYTES);
    check_unmap(out, LARGE_BYTES);
    check_unmap(in, LARGE_BYTES);
}
