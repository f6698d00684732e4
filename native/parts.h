/* Memory for short-lived things of a few sizes, which all nodes of a process share: what one has
 * given back last, and so is in the CPU's caches, the next one takes. Allocates only when more is
 * out than ever before. Zero is an empty one. One thread at a time. */
#ifndef PW_NATIVE_PARTS_H
#define PW_NATIVE_PARTS_H
#include "native/pool.h"

#define PW_PARTS_SMALLEST_BITS 8
#define PW_PARTS_SIZES 11 /* 256 B to 256 KB, each twice the one before */

typedef struct pw_parts {
    pw_link *free_lists[PW_PARTS_SIZES];
    pw_link *chunks;
    uint32_t num_parts; /* there are, in use or not */
} pw_parts;

/* The least size that so many bytes fit in. */
static inline size_t pw_parts_size(size_t num_bytes)
{
    size_t size = (size_t)1 << PW_PARTS_SMALLEST_BITS;
    while (size < num_bytes) size *= 2;
    return size;
}

/* size: of pw_parts_size. NULL: longer than the largest, or no memory. */
void *pw_parts_take(pw_parts *parts, size_t size);
void pw_parts_give(pw_parts *parts, void *part, size_t size);
/* All of them end, given back or not. */
void pw_parts_finish(pw_parts *parts);
#endif
