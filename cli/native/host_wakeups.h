/* How long a thread that waits in the kernel takes to run again on this host, in wall time, for
 * `pagewire calibrate`. Stateless; makes a thread, which has ended at return. */
#ifndef PW_CLI_NATIVE_HOST_WAKEUPS_H
#define PW_CLI_NATIVE_HOST_WAKEUPS_H
#include "native/types.h"

/* cdef begin */
#define PW_HOST_WAKE_EVENTFD 0   /* write and read of an eventfd */
#define PW_HOST_WAKE_FUTEX 1     /* FUTEX_WAKE and FUTEX_WAIT */
#define PW_HOST_WAKE_NETLINK 2   /* a message between two Netlink sockets of this process */
#define PW_HOST_NETLINK_BYTES 32 /* of the machine's message [PSI 3.2.3] */

/* Samples in ns: sending, the call that wakes; waking, from its return until the waiting thread is
 * back from its own call (0: it was before). The threads run on the cores given, which may be one.
 * pause_ns before each sample lets the waiting thread fall asleep. Returns how many there are, as
 * many as fit in budget_ns but at least one; PW_ERR_HOST: errno tells which way. */
int pw_host_wakeup_samples(uint32_t which, int sending_core, int waiting_core, uint64_t pause_ns,
                           uint64_t budget_ns, uint32_t num_samples, double *sending_ns,
                           double *waking_ns);
/* cdef end */
#endif
