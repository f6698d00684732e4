/* Files that a run leaves: a regular file, or one that is not there yet, appears whole or not at
 * all, since it is written under a second name and renamed; a symbolic link is followed and stays;
 * a device, a pipe and what lies in /dev or /proc is written to. Stateless, thread-safe. */
#ifndef PW_NODE_REPORT_OUTPUT_FILE_H
#define PW_NODE_REPORT_OUTPUT_FILE_H
#include "native/types.h"
#include "node/settings/config.h"

#define PW_OUTPUT_PATH_BYTES 4096

/* cdef begin */
/* PW_ERR_HOST (errno), and what stood there before still does; PW_ERR_INVALID: path too long. */
int pw_output_write(const char *path, const void *data, size_t num_bytes);
/* cdef end */
/* All of it to a file that is open: 0, or the errno of what failed. */
int pw_output_put(int descriptor, const void *data, size_t num_bytes);
/* `PATH.RANK` or the like must fit: PW_ERR_INVALID. */
int pw_output_path(char out[PW_OUTPUT_PATH_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The compute of a rank between its MPI calls, as a file: what run.compute_record leaves and
 * run.compute_replay reads, one int64 of ns in the host's byte order for each outermost call, in
 * FILE.RANK. Stateless, thread-safe. */

/* cdef begin */
/* *out is the caller's, for pw_durations_free. PW_ERR_HOST (errno), PW_ERR_INVALID, PW_ERR_NOMEM:
 * reason is a sentence, and *out is untouched. */
int pw_durations_read(const char *file, uint32_t rank, int64_t **out, uint64_t *num_durations,
                      char reason[PW_CONFIG_REASON_BYTES]);
void pw_durations_free(int64_t *durations_ns);
/* PW_ERR_HOST (errno), PW_ERR_INVALID: reason is a sentence. */
int pw_durations_write(const char *file, uint32_t rank, const int64_t *durations_ns,
                       uint64_t num_durations, char reason[PW_CONFIG_REASON_BYTES]);
/* cdef end */

#endif
