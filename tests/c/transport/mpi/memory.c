/* What programs do with their memory and their processes while the NI knows its pages. */
#include "check.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, SMALL_BYTES = 3000 };

/* A buffer at the address of one that is gone: what was known of the old pages is wrong. */
CHECK_PROGRAM(remapped)
{
    int partner = check_partner();
    char *out = check_map(BYTES), *in = check_map(BYTES);
    for (uint32_t round = 0; round < 8; round++) {
        int size_bytes = round % 2 ? BYTES : SMALL_BYTES;
        check_fill(out, (size_t)size_bytes, round);
        MPI_Sendrecv(out, size_bytes, MPI_BYTE, partner, 1, in, size_bytes, MPI_BYTE, partner, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check_contents(in, (size_t)size_bytes, round, "message in a mapping anew");
        check_unmap(out, BYTES);
        check_unmap(in, BYTES);
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        CHECK(mmap(out, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0) == out, "mmap at an address");
        CHECK(mmap(in, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0) == in, "mmap at an address");
    }
    check_unmap(out, BYTES);
    check_unmap(in, BYTES);
}

/* Pages that move by mremap, and ones that are only readable at the sender. */
CHECK_PROGRAM(moved)
{
    int partner = check_partner();
    char *out = check_map(BYTES), *in = check_map(BYTES);
    for (uint32_t round = 0; round < 4; round++) {
        char *elsewhere = check_map(BYTES);
        check_fill(out, BYTES, round);
        CHECK(!mprotect(out, BYTES, PROT_READ), "mprotect");
        MPI_Sendrecv(out, BYTES, MPI_BYTE, partner, 2, in, BYTES, MPI_BYTE, partner, 2,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check_contents(in, BYTES, round, "message in moved pages");
        CHECK(!mprotect(out, BYTES, PROT_READ | PROT_WRITE), "mprotect");
        in = mremap(in, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
        CHECK(in == elsewhere, "mremap");
        check_contents(in, BYTES, round, "pages after the move");
    }
    check_unmap(out, BYTES);
    check_unmap(in, BYTES);
}

static void wait_for(pid_t child, int wanted_code)
{
    int status;
    CHECK(child > 0, "no child process");
    while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR, "waitpid");
    CHECK(WIFEXITED(status), "the child ended by a signal");
    CHECK_INT(WEXITSTATUS(status), wanted_code, "the child's code");
}

/* A child shares its parent's pages until one of them writes: what the NI then writes and reads
 * must be the parent's. Children that run another program, end at once, or write to the buffers. */
CHECK_PROGRAM(children)
{
    int partner = check_partner();
    char *out = check_map(BYTES), *in = check_map(BYTES), *shell[] = {"sh", "-c", "exit 7", NULL};
    for (uint32_t round = 0; round < 6; round++) {
        MPI_Request requests[2];
        MPI_Irecv(in, BYTES, MPI_BYTE, partner, 3, MPI_COMM_WORLD, &requests[0]);
        check_fill(out, BYTES, round);
        if (round % 3 == 2) /* with the message under way */
            MPI_Isend(out, BYTES, MPI_BYTE, partner, 3, MPI_COMM_WORLD, &requests[1]);
        pid_t child = fork();
        if (child == 0) {
            if (round % 3 == 0) execv("/bin/sh", shell);
            memset(in, 0x33, BYTES);
            memset(out, 0x44, BYTES);
            _exit(9);
        }
        if (round % 3 != 2)
            MPI_Isend(out, BYTES, MPI_BYTE, partner, 3, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        check_contents(in, BYTES, round, "message beside a child process");
        check_contents(out, BYTES, round, "buffer that a child process wrote its copy of");
        wait_for(child, round % 3 ? 9 : 7);
    }
    CHECK(system("exit 0") == 0, "a shell by system()");
    check_unmap(out, BYTES);
    check_unmap(in, BYTES);
}

/* One buffer for many sends, also while it is being sent. */
CHECK_PROGRAM(shared_buffer)
{
    enum { NUM = 16 };
    int partner = check_partner();
    char *out = check_map(BYTES), *in = check_map((size_t)NUM * BYTES / 4);
    MPI_Request requests[2 * NUM];
    check_fill(out, BYTES, 5);
    for (int i = 0; i < NUM; i++) {
        MPI_Irecv(in + i * (BYTES / 4), BYTES / 4, MPI_BYTE, partner, i, MPI_COMM_WORLD,
                  &requests[i]);
        MPI_Isend(out, BYTES / 4, MPI_BYTE, partner, i, MPI_COMM_WORLD, &requests[NUM + i]);
    }
    MPI_Waitall(2 * NUM, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < NUM; i++)
        check_contents(in + i * (BYTES / 4), BYTES / 4, 5, "one of many copies");
    check_unmap(out, BYTES);
    check_unmap(in, (size_t)NUM * BYTES / 4);
}

#if MPI_VERSION >= 4
/* More bytes in one message than an int counts: MPI_PROGRAMS_LARGE=1, 5 GB of memory for two ranks.
 */
CHECK_PROGRAM(large)
{
    MPI_Count size_bytes = ((MPI_Count)1 << 31) + 12345, got;
    int partner = check_partner();
    MPI_Status status;
    if (!getenv("MPI_PROGRAMS_LARGE") || partner == check_rank) return;
    char *buffer = check_map((size_t)size_bytes);
    if (check_rank < partner) {
        check_fill(buffer, (size_t)size_bytes, 8);
        MPI_Send_c(buffer, size_bytes, MPI_BYTE, partner, 4, MPI_COMM_WORLD);
    } else {
        MPI_Recv_c(buffer, size_bytes, MPI_BYTE, partner, 4, MPI_COMM_WORLD, &status);
        MPI_Get_count_c(&status, MPI_BYTE, &got);
        CHECK_INT(got, size_bytes, "count");
        check_contents(buffer, (size_t)size_bytes, 8, "large message");
    }
    check_unmap(buffer, (size_t)size_bytes);
}
#endif
