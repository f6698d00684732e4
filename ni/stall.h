/* Accesses that wait (SCTLR.CFCFG = 1). One NI, one thread at a time. */
#ifndef PW_NI_STALL_H
#define PW_NI_STALL_H
#include "driver/faulting_blocks.h"
#include "ni/ni.h"
#include "translation/residency.h"

/* An access to the page, translated at at_ns: returns when it is done, or can never be, with
 * *code < 0. */
pw_time pw_stall_access(pw_ni *ni, pw_residency *walk, const pw_fault *fault, uint64_t page,
                        pw_time at_ns, int *code);

#endif
