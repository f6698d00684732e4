/* The record that a rank leaves for the launcher when it starts MPI: RANK.mpi in
 * PAGEWIRE_LAUNCH_DIR. With it the launcher can tell a program without MPI from one whose messages
 * went around the NI. */
#ifndef PW_MARKS_RECORD_H
#define PW_MARKS_RECORD_H
#include "transport/marks/marks.h"

/* Once for each process, in the call that starts MPI; does nothing where nobody launched it. */
void pw_marks_record_start(const pagewire_marked_call *call);
#endif
