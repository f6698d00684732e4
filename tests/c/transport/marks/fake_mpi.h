/* An MPI of the tests: it keeps what it was called with. Handles are integers as in MPICH, or with
 * FAKE_MPI_POINTERS pointers as in Open MPI. */
#ifndef PW_FAKE_MPI_H
#define PW_FAKE_MPI_H
#include <stdint.h>
#include <time.h>

#ifdef FAKE_MPI_POINTERS
typedef struct fake_object *MPI_Handle;
#else
typedef int MPI_Handle;
#endif
typedef struct {
    int source, tag, error;
    long bytes;
} MPI_Status;

/* What the last call was given, as wide as it came. */
extern struct fake_mpi {
    const char *function;
    const void *pointers[4];
    long numbers[8];
    MPI_Handle handles[4];
    struct timespec clock; /* of the last Barrier */
    void (*during)(void);  /* called by Init, Finalize, Barrier and Recv */
} fake_mpi;

#define FAKE_WTIME 123.5
#define FAKE_RESULT 17 /* what each call returns */

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Comm_rank(MPI_Handle comm, int *rank);
int MPI_Barrier(MPI_Handle comm);
int MPI_Send(const void *buf, int count, MPI_Handle type, int dest, int tag, MPI_Handle comm);
int PMPI_Send(const void *buf, int count, MPI_Handle type, int dest, int tag, MPI_Handle comm);
int MPI_Send_c(const void *buf, long count, MPI_Handle type, int dest, int tag, MPI_Handle comm);
int MPI_Recv(void *buf, int count, MPI_Handle type, int source, int tag, MPI_Handle comm,
             MPI_Status *status);
int MPI_Isend(const void *buf, int count, MPI_Handle type, int dest, int tag, MPI_Handle comm,
              MPI_Handle *request);
int MPI_Test(MPI_Handle *request, int *flag, MPI_Status *status);
int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Handle sendtype, int dest, int sendtag,
                 void *recvbuf, int recvcount, MPI_Handle recvtype, int source, int recvtag,
                 MPI_Handle comm, MPI_Status *status);
int MPI_Rget_accumulate(const void *origin, int origin_count, MPI_Handle origin_type, void *result,
                        int result_count, MPI_Handle result_type, int target, long target_disp,
                        int target_count, MPI_Handle target_type, MPI_Handle op, MPI_Handle win,
                        MPI_Handle *request);
int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Handle type, MPI_Handle op,
                  MPI_Handle comm);
int MPI_Pcontrol(const int level, ...);
double MPI_Wtime(void);
double MPI_Wtick(void);

/* As a Fortran compiler calls them: all by address, the lengths of texts behind. */
void mpi_send_(const void *buf, const int *count, const int *type, const int *dest, const int *tag,
               const int *comm, int *error);
void mpi_file_open_(const int *comm, const char *name, const int *mode, const int *info, int *file,
                    int *error, long name_length);
void mpi_barrier_f08_(const int *comm, int *error);
double mpi_wtime_(void);
void mpi_pcontrol_(const int *level, const char *name, long name_length);

#endif
