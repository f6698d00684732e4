/* The MPI library that this process has loaded already, called from C without its mpi.h: entry
 * points, constants and status layout. One build serves MPICH, whose handles are ints, and Open
 * MPI, whose are pointers: a handle is 8 bytes, of which MPICH uses the low 4. Python finds out
 * what C cannot (mpi_library.py). Read-only once loaded; any thread may call that MPI allows to. */
#ifndef PW_FACADE_MPI_LIBRARY_H
#define PW_FACADE_MPI_LIBRARY_H
#include <string.h>

#include "native/types.h"

/* cdef begin */
/* By value as it is; by pointer only to all of its 8 bytes, which begin as 0. */
typedef uint64_t pw_mpi_handle;

typedef struct {
    uint64_t bytes[8];
} pw_mpi_status;

/* What Python knows of the library. */
typedef struct {
    pw_mpi_handle byte; /* MPI_BYTE */
    int32_t any_source, any_tag;
    uint32_t source_offset, tag_offset; /* in bytes of a status */
} pw_mpi_facts;

/* Functions answer 0 or an MPI error class's code, as their communicator's error handler lets them.
 * Counts are ints: cut what is larger. */
typedef struct {
    int (*isend)(const void *buffer, int count, pw_mpi_handle type, int peer, int tag,
                 pw_mpi_handle comm, pw_mpi_handle *request);
    int (*recv_init)(void *buffer, int count, pw_mpi_handle type, int peer, int tag,
                     pw_mpi_handle comm, pw_mpi_handle *request);
    int (*start)(pw_mpi_handle *request);
    int (*test)(pw_mpi_handle *request, int *flag, pw_mpi_status *status);
    int (*wait)(pw_mpi_handle *request, pw_mpi_status *status);
    int (*cancel)(pw_mpi_handle *request);
    int (*request_free)(pw_mpi_handle *request);
    int (*iprobe)(int peer, int tag, pw_mpi_handle comm, int *flag, pw_mpi_status *status);
    int (*get_count)(const pw_mpi_status *status, pw_mpi_handle type, int *count);
    int (*status_set_elements_x)(void *status, pw_mpi_handle type, int64_t count);
    int (*status_set_cancelled)(void *status, int flag);
    int (*reduce_local)(const void *lower, void *higher, int count, pw_mpi_handle type,
                        pw_mpi_handle op);
    int (*error_string)(int code, char *text, int *num_chars); /* text: PW_MPI_ERROR_CHARS */
    pw_mpi_handle byte;
    int32_t any_source, any_tag;
    uint32_t source_offset, tag_offset;
    char reason[256]; /* why load failed */
} pw_mpi_library;

#define PW_MPI_ERROR_CHARS 4096 /* more than any library's MPI_MAX_ERROR_STRING */

/* Find every function; PW_ERR_INVALID with out->reason when the process does not have the module
 * (the path of mpi4py's MPI), one is missing, or handles are passed in another way here. */
int pw_mpi_library_load(const char *module_path, const pw_mpi_facts *facts, pw_mpi_library *out);
/* cdef end */

static inline int32_t pw_mpi_source(const pw_mpi_library *mpi, const pw_mpi_status *status)
{
    int32_t source;
    memcpy(&source, (const uint8_t *)status + mpi->source_offset, sizeof source);
    return source;
}

/* Of a status of the user's. */
static inline void pw_mpi_status_set(const pw_mpi_library *mpi, void *status, int32_t source,
                                     int32_t tag)
{
    memcpy((uint8_t *)status + mpi->source_offset, &source, sizeof source);
    memcpy((uint8_t *)status + mpi->tag_offset, &tag, sizeof tag);
}

/* ---- libraries of this process that call MPI themselves
 *
 * They do so below mpi4py's methods, as what extensions of Python bring along. They are known by
 * the symbols that they leave to be found elsewhere. */

/* cdef begin */
/* Write the files' names (without folders) of the loaded libraries that call functions of MPI which
 * move data, each before a newline; those that do not fit are left out. own: the path of one that
 * does not count, mpi4py's. out: a string of at most num_bytes, at least 1. Any thread; takes the
 * loader's lock. */
void pw_mpi_users(const char *own, char *out, size_t num_bytes);
/* cdef end */
#endif
