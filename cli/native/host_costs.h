/* What memory costs on this host, in wall time, for `pagewire calibrate`. Like the benchmarks it
 * reads a clock. Stateless. */
#ifndef PW_CLI_NATIVE_HOST_COSTS_H
#define PW_CLI_NATIVE_HOST_COSTS_H
#include "native/types.h"

/* cdef begin */
/* One operation on a private anonymous range. Absent pages are taken away before each sample. */
#define PW_HOST_CLOCK 0           /* reading the clock; no range */
#define PW_HOST_TOUCH_RESIDENT 1  /* first byte of each page read and written */
#define PW_HOST_TOUCH_ABSENT 2    /* the same */
#define PW_HOST_TOUCH_HUGE 3      /* the same, absent huge pages; the range in whole ones */
#define PW_HOST_PIN_RESIDENT 4    /* mlock */
#define PW_HOST_PIN_ABSENT 5      /* mlock */
#define PW_HOST_UNPIN 6           /* munlock, of resident pages */
#define PW_HOST_MMAP 7            /* of a new range */
#define PW_HOST_MUNMAP 8          /* of a resident range */
#define PW_HOST_PAGE_IN 9         /* MADV_POPULATE_WRITE of absent pages: get_user_pages */
#define PW_HOST_COPY_WARM 10      /* memcpy, both ranges in the cache as far as they fit */
#define PW_HOST_COPY_COLD 11      /* memcpy, of ranges that were not used for 128 MiB */
#define PW_HOST_TOUCH_FILE 12     /* a page of a file that is in the page cache, not in the table */
#define PW_HOST_TOUCH_FILE_OUT 13 /* a page of a file that must be read from its disk */
#define PW_HOST_HUGE_BYTES 2097152
#define PW_HOST_SAMPLES_MIN 3

/* Samples in ns of one operation, in the order taken, each without the cost of the clock. Ends when
 * num_samples are there, or budget_ns are over and PW_HOST_SAMPLES_MIN are. file: descriptor of a
 * file of num_bytes, for TOUCH_FILE alone, of which each sample takes another page. Returns how
 * many there are; PW_ERR_HOST: a call failed, errno tells which way; PW_ERR_FULL: the host does not
 * do what is to be measured (no huge page came, the file's pages stayed), however often it is
 * asked. */
int pw_host_cost_samples(uint32_t which, size_t num_bytes, int file, uint64_t budget_ns,
                         uint32_t num_samples, double *samples_ns);
/* cdef end */

/* How long a thread that waits in the kernel takes to run again on this host, in wall time, for
 * `pagewire calibrate`. Stateless; makes a thread, which has ended at return. */

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
