/* What all rooms stand on: C structures, memory backends, machine facts, binding to Python.
 *
 * Constants of the protocol, status codes and virtual time, shared by every module of the engine.
 */
#ifndef PW_NATIVE_TYPES_H
#define PW_NATIVE_TYPES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cdef begin */
/* Virtual time in ns since the start of the run. PW_NEVER compares later than every other time. */
typedef int64_t pw_time;

#define PW_PAGE_BYTES 4096 /* [PART 4.2] */
#define PW_PAGE_SHIFT 12
#define PW_BLOCK_BYTES 16384 /* a block (transaction) at most [R5 3.2.2] */
#define PW_PACKET_BYTES 256  /* payload of a packet [PART 4.2] */
#define PW_BLOCK_PACKETS 64
#define PW_BLOCK_PAGES 5     /* pages that an unaligned block can touch */
#define PW_USER_BITS 48      /* what x86-64 and arm64 hosts hand out: carried whole in our frames */
#define PW_TRANSACTIONS 1024 /* pending-transaction table [R5 3.2] */
#define PW_NI_FIFO_DEPTH 512 /* [PSI 3.2.3] */
#define PW_CHANNEL_PAGES 16  /* scratchpad pages, one a protection domain [R5 2.3.3] */
#define PW_CHANNELS_PER_PAGE 64
#define PW_WRITE_CHANNELS 32 /* channels 0..31 of a page write, 32..63 read */
#define PW_TRANSFER_MAX_BYTES 4294967296
#define PW_NOTIFICATION_BYTES 16 /* two words, written at once: 16-byte aligned */

/* Status codes: 0 or a negative PW_ERR_*. */
#define PW_OK 0
#define PW_ERR_NOMEM (-1)         /* the host has no memory for a table */
#define PW_ERR_INVALID (-2)       /* an argument is out of its range */
#define PW_ERR_FULL (-3)          /* a hardware table is full; try again later */
#define PW_ERR_MALFORMED (-4)     /* a frame failed its checks and was dropped */
#define PW_ERR_ADDRESS (-5)       /* address outside any mapping (NACK 2) */
#define PW_ERR_CONTEXT (-6)       /* no context bank for the PDID (NACK 3) */
#define PW_ERR_PROTECTION (-7)    /* wrong PDID, key or bounds (NACK 5) */
#define PW_ERR_HOST (-8)          /* a system call of the host failed; errno tells why */
#define PW_ERR_UNRECOVERABLE (-9) /* nothing configured can bring the block through */
#define PW_ERR_DEADLOCK \
    (-10) /* a read request keeps the acknowledgements behind it from being read */
#define PW_ERR_FRAMES \
    (-11) /* the model's frames do not hold what a transfer needs at once: pages go in and out */
#define PW_ERR_RESIDENCY (-12) /* residency.check: pages are not as the events told */
/* cdef end */

#define PW_NEVER INT64_MAX
#define PW_ALL_PAGES UINT64_MAX /* a number of pages: of a process */

/* Completion notification of a transfer: the words that appear at the destination. */
typedef struct {
    uint64_t address; /* 0: none */
    uint64_t data[2];
} pw_notification;

static inline pw_time pw_later(pw_time a, pw_time b) { return a > b ? a : b; }
static inline pw_time pw_earlier(pw_time a, pw_time b) { return a < b ? a : b; }
/* Does a range reach the end of the address space, or go on behind it? */
static inline bool pw_range_wraps(uint64_t address, uint64_t num_bytes)
{
    return num_bytes > 0 && address > UINT64_MAX - num_bytes;
}
static inline uint64_t pw_page_of(uint64_t address) { return address >> PW_PAGE_SHIFT; }

#endif
