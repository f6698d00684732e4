#include "fake_mpi.h"
#include <stdarg.h>
#include <stddef.h>

struct fake_mpi fake_mpi;

#define HANDLE(number) ((MPI_Handle)(intptr_t)(number))

/* The call is over: what it returns. */
static int keep(const char *function)
{
    fake_mpi.function = function;
    return FAKE_RESULT;
}

/* And the test may do something within it. */
static int happen(const char *function)
{
    keep(function);
    if (fake_mpi.during) fake_mpi.during();
    return FAKE_RESULT;
}

int MPI_Init(int *argc, char ***argv)
{
    fake_mpi.pointers[0] = argc;
    fake_mpi.pointers[1] = argv;
    return happen("Init");
}

int MPI_Finalize(void) { return happen("Finalize"); }

int MPI_Pcontrol(const int level, ...)
{
    va_list arguments;
    va_start(arguments, level);
    fake_mpi.numbers[0] = level;
    fake_mpi.pointers[0] = va_arg(arguments, const void *);
    va_end(arguments);
    return FAKE_RESULT;
}

/* As MPICH has it: the second argument is an error code, and no text. */
void mpi_pcontrol_(const int *level, const char *name, long name_length)
{
    (void)name_length;
    *(int *)(uintptr_t)name = MPI_Pcontrol(*level);
}

int MPI_Comm_rank(MPI_Handle comm, int *rank)
{
    fake_mpi.handles[0] = comm;
    *rank = 3;
    return keep("Comm_rank");
}

int MPI_Barrier(MPI_Handle comm)
{
    fake_mpi.handles[0] = comm;
    clock_gettime(CLOCK_MONOTONIC, &fake_mpi.clock);
    return happen("Barrier");
}

/* An MPI library that has the function under its profiling name alone: both are looked for. */
int PMPI_Send(const void *buf, int count, MPI_Handle type, int dest, int tag, MPI_Handle comm)
{
    fake_mpi.pointers[0] = buf;
    fake_mpi.numbers[0] = count;
    fake_mpi.numbers[1] = dest;
    fake_mpi.numbers[2] = tag;
    fake_mpi.handles[0] = type;
    fake_mpi.handles[1] = comm;
    return keep("Send");
}

int MPI_Send(const void *buf, int count, MPI_Handle type, int dest, int tag, MPI_Handle comm)
    __attribute__((weak, alias("PMPI_Send")));

int MPI_Send_c(const void *buf, long count, MPI_Handle type, int dest, int tag, MPI_Handle comm)
{
    int result = PMPI_Send(buf, 0, type, dest, tag, comm);
    fake_mpi.numbers[0] = count;
    return result;
}

int MPI_Recv(void *buf, int count, MPI_Handle type, int source, int tag, MPI_Handle comm,
             MPI_Status *status)
{
    PMPI_Send(buf, count, type, source, tag, comm);
    fake_mpi.pointers[1] = status;
    return happen("Recv");
}

int MPI_Isend(const void *buf, int count, MPI_Handle type, int dest, int tag, MPI_Handle comm,
              MPI_Handle *request)
{
    PMPI_Send(buf, count, type, dest, tag, comm);
    *request = HANDLE(0x1234567);
    return keep("Isend");
}

int MPI_Test(MPI_Handle *request, int *flag, MPI_Status *status)
{
    fake_mpi.handles[0] = *request;
    fake_mpi.pointers[0] = status;
    *flag = 1;
    return keep("Test");
}

int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Handle sendtype, int dest, int sendtag,
                 void *recvbuf, int recvcount, MPI_Handle recvtype, int source, int recvtag,
                 MPI_Handle comm, MPI_Status *status)
{
    PMPI_Send(sendbuf, sendcount, sendtype, dest, sendtag, comm);
    fake_mpi.numbers[3] = recvcount;
    fake_mpi.numbers[4] = source;
    fake_mpi.numbers[5] = recvtag;
    fake_mpi.pointers[1] = recvbuf;
    fake_mpi.pointers[2] = status;
    fake_mpi.handles[2] = recvtype;
    return keep("Sendrecv");
}

int MPI_Rget_accumulate(const void *origin, int origin_count, MPI_Handle origin_type, void *result,
                        int result_count, MPI_Handle result_type, int target, long target_disp,
                        int target_count, MPI_Handle target_type, MPI_Handle op, MPI_Handle win,
                        MPI_Handle *request)
{
    fake_mpi = (struct fake_mpi){
        .function = "Rget_accumulate",
        .pointers = {origin, result, request},
        .numbers = {origin_count, result_count, target, target_disp, target_count},
        .handles = {origin_type, result_type, target_type, win},
    };
    *request = op;
    return FAKE_RESULT;
}

/* Sends through the name that a wrapper may stand before, as MPI libraries do of themselves. */
int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Handle type, MPI_Handle op,
                  MPI_Handle comm)
{
    (void)op;
    MPI_Send(sendbuf, count, type, 1, 2, comm);
    MPI_Recv(recvbuf, count, type, 1, 2, comm, NULL);
    return keep("Allreduce");
}

double MPI_Wtime(void) { return FAKE_WTIME; }

double MPI_Wtick(void) { return FAKE_WTIME / 2; }

/* As in Open MPI. */
void ompi_send_f(const void *buf, const int *count, const int *type, const int *dest,
                 const int *tag, const int *comm, int *error)
{
    *error = PMPI_Send(buf, *count, HANDLE(*type), *dest, *tag, HANDLE(*comm));
}

void mpi_send_(const void *buf, const int *count, const int *type, const int *dest, const int *tag,
               const int *comm, int *error) __attribute__((weak, alias("ompi_send_f")));

void mpi_file_open_(const int *comm, const char *name, const int *mode, const int *info, int *file,
                    int *error, long name_length)
{
    fake_mpi.pointers[0] = name;
    fake_mpi.numbers[0] = *mode;
    fake_mpi.numbers[1] = name_length;
    fake_mpi.handles[0] = HANDLE(*comm);
    *file = *info;
    *error = FAKE_RESULT;
    keep("File_open");
}

/* As in MPICH: by the name that no wrapper stands before. */
void mpi_barrier_f08_(const int *comm, int *error)
{
    fake_mpi.handles[0] = HANDLE(*comm);
    happen("barrier_f08");
    if (error) *error = FAKE_RESULT;
}

double mpi_wtime_(void) { return FAKE_WTIME; }
