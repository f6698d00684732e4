/* One-sided transfers: reads and writes by the NI, without the target's CPU. */
#ifndef PW_FABRIC_RMA_H
#define PW_FABRIC_RMA_H
#include "transport/fabric/objects.h"

extern struct fi_ops_rma pw_fi_rma_ops;

/* Writes that waited for a channel are tried again: one has become free. PW_ERR_*. */
int pw_fi_resume_writes(pw_fi_process *process);
/* A read or write is over. */
int pw_fi_end_rma(pw_fi_process *process, pw_fi_operation *operation);
#endif
