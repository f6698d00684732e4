/* Leaves word for the launcher that a program uses MPI: a run whose ranks did so and that the
 * provider knows nothing of went around the NI. */
#ifndef PW_MARKS_USE_RECORD_H
#define PW_MARKS_USE_RECORD_H

/* name: of an MPI function that the program calls for the first time, of C or Fortran. Creates the
 * empty file RANK.mpi in PAGEWIRE_LAUNCH_DIR if it initializes MPI. Failure is silent: the launcher
 * then only knows less. */
void pw_marks_record_use(const char *name);

#endif
