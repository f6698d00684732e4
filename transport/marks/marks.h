/* Between the preloaded library that marks where a program enters and leaves MPI
 * (libpagewire-mpi.so) and whoever keeps the rank's virtual clock, the libfabric provider. The host
 * finds pagewire_marks_attach with dlsym(RTLD_DEFAULT, ...); without it there are no marks. Plain
 * C, no MPI header: the wrappers pass arguments on as they came, so one library serves every MPI.
 */
#ifndef PW_MARKS_MARKS_H
#define PW_MARKS_MARKS_H
#include <stddef.h>
#include <stdint.h>

#define PAGEWIRE_MARKS_VERSION 2

/* What an MPI function does to the CPU that calls it. Functions that only look at or change the
 * process's own objects (Comm_rank, Type_commit, Pack, Reduce_local) are not marked: what they do
 * is the program's own time, as under the facade. */
enum pagewire_call_kind {
    PAGEWIRE_CALL_POSTS = 0, /* returns at once: Isend, Irecv, Put, Start */
    PAGEWIRE_CALL_WAITS = 1, /* until something is there: Recv, Send, Wait, Barrier, Win_fence */
    PAGEWIRE_CALL_TESTS = 2, /* looks whether it is: Test, Testall, Iprobe, Request_get_status */
};

typedef struct {
    const char *name; /* without MPI_: Allreduce, for Allreduce_c too and from Fortran */
    uint32_t number;  /* from 0, below pagewire_marks_num_calls */
    uint32_t kind;    /* enum pagewire_call_kind */
} pagewire_marked_call;

/* Functions of the host; any thread may call. Only the outermost call of a thread is told: what MPI
 * calls of itself is not. A host that comes within a call (Init) is told the leave alone, if it was
 * this thread that attached it; one that goes within a call (Finalize) the enter alone. A call that
 * was left by longjmp is left when the thread enters its next one. Within these functions a thread
 * sees real clocks; they must not call MPI. */
typedef struct {
    size_t struct_size;
    uint32_t version;
    uint32_t has_virtual_wtime;  /* MPI_Wtime is clock_read; else the MPI library's own */
    uint32_t has_virtual_clocks; /* clock_gettime, gettimeofday, time, sleeps are virtual too */
    uint32_t reserved;
    void (*enter)(const pagewire_marked_call *call);
    void (*leave)(const pagewire_marked_call *call);
    /* The rank's virtual time in ns, from MPI_Init on; the reading costs what the platform says. */
    int64_t (*clock_read)(void);
    /* The program lets so much virtual time pass. */
    void (*sleep)(int64_t duration_ns);
    /* The program enters a region of that name, of num_bytes without a 0; or leaves the innermost
     * one of it, the innermost of all with num_bytes 0. Outside of MPI calls, but for what MPI
     * calls back. */
    void (*region_enter)(const char *name, size_t num_bytes);
    void (*region_leave)(const char *name, size_t num_bytes);
} pagewire_marks_host;

/* Of the preloaded library; one thread at a time. 0, or -1: another version. NULL takes the host
 * away; with has_virtual_clocks its clock is read a last time within, so that the program's clocks
 * run on from there. The host stays the caller's and must live until it is taken away, and until
 * each thread has left the call that it then was in. A forked child has no host. */
int pagewire_marks_attach(const pagewire_marks_host *host);
uint32_t pagewire_marks_num_calls(void);

#endif
