/* The records that a rank leaves for the launcher in PAGEWIRE_LAUNCH_DIR: RANK.mpi when it starts
 * MPI, by which the launcher can tell a program without MPI from one whose messages went around the
 * NI; and RANK.note when it aborts, as MPI's own way to the process manager may lose the code. */
#ifndef PW_MARKS_RECORD_H
#define PW_MARKS_RECORD_H
#include "transport/marks/marks.h"

/* Once for each process, in the call that starts MPI; does nothing where nobody launched it. */
void pw_marks_record_start(const pagewire_marked_call *call);

/* Before MPI_Abort is called with this code. Why a rank fails may be on record already: that stays.
 */
void pw_marks_record_abort(int code);
#endif
