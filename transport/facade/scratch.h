/* Memory of the library's own for a call: blocks that are kept for the next one, so that a call
 * makes no system call, and whether its pages are present does not hang on what else the heap
 * holds. Page-aligned, so that virtual times repeat. One thread at a time: under the node's lock.
 */
#ifndef PW_FACADE_SCRATCH_H
#define PW_FACADE_SCRATCH_H
#include <stdbool.h>
#include <stdint.h>

/* Larger blocks are freed when they are given back: to move so much takes longer than to map it. */
#define PW_SCRATCH_KEPT_BYTES (UINT64_C(16) << 20)

typedef struct pw_scratch {
    struct pw_scratch *next;
    uint8_t *bytes;
    uint64_t num_bytes; /* a power of two */
    bool is_taken;
} pw_scratch;

/* A block of at least num_bytes, NULL: out of memory. *all: every block, NULL at first. */
pw_scratch *pw_scratch_take(pw_scratch **all, uint64_t num_bytes);
/* One that is never given back stays until the end: the NI may still use it. NULL: nothing. */
void pw_scratch_give(pw_scratch **all, pw_scratch *block);
void pw_scratch_free(pw_scratch **all);
#endif
