/* Files that a node leaves, as native/output.py writes them: a regular file, or one that is not
 * there yet, appears whole or not at all; a symbolic link is followed and stays; a device, a pipe
 * and what lies in /dev or /proc is written to. Stateless, thread-safe. */
#ifndef PW_NODE_OUTPUT_FILE_H
#define PW_NODE_OUTPUT_FILE_H
#include "native/types.h"

#define PW_OUTPUT_PATH_BYTES 4096

/* cdef begin */
/* PW_ERR_HOST (errno), and what stood there before still does; PW_ERR_INVALID: path too long. */
int pw_output_write(const char *path, const void *data, size_t num_bytes);
/* cdef end */
/* `PATH.RANK` or the like must fit: PW_ERR_INVALID. */
int pw_output_path(char out[PW_OUTPUT_PATH_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#endif
