/* The compute of a rank between its MPI calls, as a file: what run.compute_record leaves and
 * run.compute_replay reads, one int64 of ns in the host's byte order for each outermost call, in
 * FILE.RANK. Stateless, thread-safe. */
#ifndef PW_NODE_DURATIONS_H
#define PW_NODE_DURATIONS_H
#include "transport/node/config_file.h"

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
