/* Programs that remote forks have started on a node whose host is in C: each has a thread of the
 * node, and a thread of the host that serves its link. One thread at a time. */
#ifndef PW_UNIMEM_FORKS_H
#define PW_UNIMEM_FORKS_H
#include "unimem/door.h"

/* What `spawn` of unimem_options says, for an executable file; with the node locked. */
uint64_t pw_forks_start(unimem *cpu, const unimem_fork_request *wanted);
/* Kill those that run, and forget all; with the node unlocked. */
void pw_forks_stop(unimem *cpu);
#endif
