/* Programs of MPI that end badly, or use no MPI: `mpi_ends HOW [FILE]`. The last rank does it, the
 * others wait for a message that never comes. FILE appears when it goes wrong. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 4 << 20 };

static int rank, size;

static char *map(void)
{
    void *address = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) exit(99);
    return address;
}

/* A message both ways, so that the run is under way before it goes wrong. */
static void exchange(void)
{
    int value = rank, sum = 0;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size - 1) / 2) exit(98);
}

static void wait_forever(void)
{
    int value;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The buffer of a message under way goes away at one side; the bytes are needed after that. */
static void unmap(int is_receiver)
{
    char *buffer = map();
    MPI_Request request;
    int partner = rank ^ 1, go = 1;
    memset(buffer, 1, BYTES);
    if (rank % 2 == 0) {
        MPI_Isend(buffer, BYTES, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &request);
        if (!is_receiver) munmap(buffer, BYTES);
        MPI_Send(&go, 1, MPI_INT, partner, 2, MPI_COMM_WORLD);
    } else if (is_receiver) {
        MPI_Irecv(buffer, BYTES, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &request);
        munmap(buffer, BYTES);
        MPI_Recv(&go, 1, MPI_INT, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&go, 1, MPI_INT, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(buffer, BYTES, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A message that nobody receives: MPICH's MPI_Finalize fails, and the program does not look. */
static void leave_unreceived(void)
{
    int value = 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int tag = 4; rank == 0 && tag <= 5; tag++)
        MPI_Send(&value, 1, MPI_INT, size - 1, tag, MPI_COMM_WORLD);
    if (rank == size - 1) MPI_Recv(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}

static void go_wrong(const char *how)
{
    if (!strcmp(how, "killed")) raise(SIGKILL);
    if (!strcmp(how, "segfault")) raise(SIGSEGV);
    if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 7);
    if (!strcmp(how, "abort_0")) MPI_Abort(MPI_COMM_WORLD, 0);
    if (!strcmp(how, "abort_512")) MPI_Abort(MPI_COMM_WORLD, 512); /* 0 to whoever waits for it */
    if (!strcmp(how, "abort_minus")) MPI_Abort(MPI_COMM_WORLD, -1);
    if (!strcmp(how, "code")) exit(5);
    if (!strcmp(how, "exit")) exit(0); /* without MPI_Finalize */
    if (!strcmp(how, "_exit")) _exit(0);
    if (!strcmp(how, "truncated")) { /* fatal, as errors are unless a program wants them */
        int values[2] = {0};
        MPI_Request request;
        MPI_Isend(values, 2, MPI_INT, rank, 3, MPI_COMM_WORLD, &request);
        MPI_Recv(values, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    exit(97);
}

static MPI_Comm comm_of_session(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "pagewire.ends", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    return comm;
}

int main(int num_arguments, char **arguments)
{
    const char *how = num_arguments > 1 ? arguments[1] : "";
    if (!strcmp(how, "no_mpi")) return 0;
    if (!strncmp(how, "around", 6)) setenv("FI_PROVIDER", "tcp", 1);
    MPI_Comm comm = MPI_COMM_WORLD;
    if (!strcmp(how, "around_in_session")) comm = comm_of_session();
    else MPI_Init(&num_arguments, &arguments);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (!strcmp(how, "silent")) {
        MPI_Finalize();
        return 0;
    }
    if (strncmp(how, "around", 6)) exchange();
    if (!strcmp(how, "well")) {
        MPI_Finalize();
        puts("well");
        return 0;
    }
    if (!strcmp(how, "unreceived")) {
        leave_unreceived();
        return 0;
    }
    if (rank == size - 1 && num_arguments > 2) fclose(fopen(arguments[2], "w"));
    if (!strncmp(how, "unmapped_", 9)) unmap(!strcmp(how, "unmapped_receive"));
    if (rank == size - 1) go_wrong(how);
    wait_forever();
    return 96;
}
