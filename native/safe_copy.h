/* Copies to and from memory of the program that may vanish although it is mapped: pages of a file
 * that somebody truncates. The kernel does the copy, so what is not there is an error and no
 * SIGBUS. Costs a system call: for mappings of files alone (pw_memory_may_vanish). Stateless,
 * thread-safe. */
#ifndef PW_NATIVE_SAFE_COPY_H
#define PW_NATIVE_SAFE_COPY_H
#include "native/types.h"

/* cdef begin */
/* PW_ERR_ADDRESS when a part of the program's memory cannot be accessed; what stands before it may
 * have been copied. Where the host forbids such copies (seccomp) it is a plain one. */
int pw_safe_copy_out(void *program, const void *own, size_t num_bytes);
int pw_safe_copy_in(void *own, const void *program, size_t num_bytes);
/* cdef end */

#endif
