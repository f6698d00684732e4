/* What every wrapper does around the MPI library's own function: it keeps the calling thread's
 * place, inside of MPI or outside, and tells the host of the outermost call. A wrapper takes and
 * passes machine words, for which one library serves every MPI:
 *
 * In the calling conventions of Linux on LP64 machines (x86-64 System V, AAPCS64, RISC-V, POWER)
 * integers and pointers take the same registers in order, and beyond them one 8-byte slot each of
 * the stack, so an argument's place depends on its number alone: an MPICH handle (int) lies where
 * an Open MPI handle (pointer) lies. The word is passed on whole, so that what its upper half holds
 * is what it would be without a wrapper. Floating point, structs by value and variable arguments
 * would be elsewhere: src/marks/read_headers.py refuses a marked function that has one (MPI_Status
 * is always by pointer). Darwin's AArch64 packs the stack and has to be refused here. */
#ifndef PW_MARKS_MARKED_H
#define PW_MARKS_MARKED_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/marks/marks.h"

#if !defined(__linux__) || !defined(__LP64__)
#error "the wrappers' calling convention holds on 64-bit Linux only"
#endif

/* The file is compiled with hidden symbols; these are what a program calls. */
#define PW_MARKS_EXPORTED __attribute__((visibility("default")))

typedef uintptr_t pw_word;

/* A thread's place. The outermost call is known by its frame: the stack grows downwards, so a call
 * whose frame is not below comes from outside, and the one on record was left by longjmp or by a
 * C++ exception (from an error handler). */
typedef struct {
    uintptr_t outermost;              /* frame of the outermost call; 0 outside of MPI */
    const pagewire_marked_call *call; /* that one */
    uint32_t attachment;              /* of the host that is to be told of its end; 0: of none */
    bool uses_mpi;                    /* has called MPI at least once */
} pw_marks_thread;

/* The library is there from the process's start, so its thread data has a fixed place. */
extern __thread pw_marks_thread pw_marks_this_thread __attribute__((tls_model("initial-exec")));
extern _Atomic(const pagewire_marks_host *) pw_marks_host; /* NULL: none */

/* The MPI library's own function of the first of these names (each ends with NUL, the list with
 * another) that is there, kept in *found; ends the process with a sentence where none is. */
void *pw_marks_resolve(_Atomic(void *) *found, const char *names);
/* The next function after this library of the first of these names that is there, or NULL. Each
 * name ends with NUL, the list with another. */
void *pw_marks_find(const char *names);

static inline uintptr_t pw_marks_frame(void) __attribute__((always_inline));
static inline uintptr_t pw_marks_frame(void) { return (uintptr_t)__builtin_frame_address(0); }

/* Whether the caller, with this frame, runs inside of an MPI call. */
static inline bool pw_marks_is_inside(const pw_marks_thread *thread, uintptr_t frame)
{
    return frame < thread->outermost;
}

static inline void *pw_marks_own(_Atomic(void *) *found, const char *names)
{
    void *own = atomic_load_explicit(found, memory_order_relaxed);
    return __builtin_expect(own != NULL, 1) ? own : pw_marks_resolve(found, names);
}

/* Around the own function of a wrapper with this frame; the first returns it. They are no inline
 * functions because there are 1400 wrappers. */
void *pw_marks_enter(_Atomic(void *) *found, const char *names, const pagewire_marked_call *call,
                     uintptr_t frame);
void pw_marks_leave(uintptr_t frame);

/* ---- the program's clocks (clocks.c) */

/* Of pagewire_marks_attach: before the host is seen, and after it is not. */
void pw_clocks_start(const pagewire_marks_host *host);
void pw_clocks_stop(const pagewire_marks_host *host);

/* ---- record.c
 *
 * The records that a rank leaves for the launcher in PAGEWIRE_LAUNCH_DIR: RANK.mpi when it starts
 * MPI, by which the launcher can tell a program without MPI from one whose messages went around the
 * NI; and RANK.note when it aborts, as MPI's own way to the process manager may lose the code. */

/* Once for each process, in the call that starts MPI; does nothing where nobody launched it. */
void pw_marks_record_start(const pagewire_marked_call *call);

/* Before MPI_Abort is called with this code. Why a rank fails may be on record already: that stays.
 */
void pw_marks_record_abort(int code);

/* When a call is over and no host has come: if that call was MPI_Init, or made a session's
 * communicator, and the process has settings of a run, the MPI has not taken the provider and never
 * will. Notes it for the launcher, which ends the run; without one says so and ends the process. */
void pw_marks_check_provider(const pagewire_marked_call *call);

#endif
