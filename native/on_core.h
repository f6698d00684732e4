/* Has a thread been on its core all the time? Asked without a system call: the kernel clears a word
 * of the thread's restartable sequences (rseq, GNU C library 2.35) when it switches the thread
 * away, moves it or delivers a signal. Any thread, of itself. */
#ifndef PW_NATIVE_ON_CORE_H
#define PW_NATIVE_ON_CORE_H
#include "native/types.h"

/* cdef begin */
/* The calling thread's stint on a core: when two calls give the same, it has not left the core in
 * between, and wall time was its CPU time but for interrupts and what a hypervisor took. The other
 * way round nothing follows: a signal or a library that uses the word begins a stint too. 0: this
 * host does not tell. */
uint64_t pw_on_core_stint(void);
/* cdef end */

/* Cores that this process may use; UINT32_MAX: not known. */
uint32_t pw_num_cores(void);

#endif
