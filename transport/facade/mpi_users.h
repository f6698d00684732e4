/* Libraries of this process that call MPI themselves, below mpi4py's methods: what extensions of
 * Python bring along. They are known by the symbols that they leave to be found elsewhere. */
#ifndef PW_FACADE_MPI_USERS_H
#define PW_FACADE_MPI_USERS_H
#include "native/types.h"

/* cdef begin */
/* Write the files' names (without folders) of the loaded libraries that call functions of MPI which
 * move data, each before a newline; those that do not fit are left out. own: the path of one that
 * does not count, mpi4py's. out: a string of at most num_bytes, at least 1. Any thread; takes the
 * loader's lock. */
void pw_mpi_users(const char *own, char *out, size_t num_bytes);
/* cdef end */
#endif
