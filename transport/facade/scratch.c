#include "transport/facade/scratch.h"

#include <stdlib.h>

#include "native/types.h"

static pw_scratch *create(uint64_t num_bytes)
{
    pw_scratch *block = calloc(1, sizeof *block);
    if (!block) return NULL;
    block->num_bytes = PW_PAGE_BYTES;
    while (block->num_bytes < num_bytes) block->num_bytes *= 2;
    block->bytes = aligned_alloc(PW_PAGE_BYTES, block->num_bytes);
    if (block->bytes) return block;
    free(block);
    return NULL;
}

/* The smallest that fits, the longest kept of equal ones: a program's calls get the same ones in
 * every run. */
pw_scratch *pw_scratch_take(pw_scratch **all, uint64_t num_bytes)
{
    if (num_bytes > SIZE_MAX / 4) return NULL;
    pw_scratch *best = NULL, **end = all;
    for (; *end; end = &(*end)->next) {
        pw_scratch *block = *end;
        if (block->is_taken || block->num_bytes < num_bytes) continue;
        if (!best || block->num_bytes < best->num_bytes) best = block;
    }
    if (!best) best = *end = create(num_bytes);
    if (best) best->is_taken = true;
    return best;
}

void pw_scratch_give(pw_scratch **all, pw_scratch *block)
{
    if (!block) return;
    block->is_taken = false;
    if (block->num_bytes <= PW_SCRATCH_KEPT_BYTES) return;
    while (*all != block) all = &(*all)->next;
    *all = block->next;
    free(block->bytes);
    free(block);
}

void pw_scratch_free(pw_scratch **all)
{
    for (pw_scratch *next, *block = *all; block; block = next) {
        next = block->next;
        free(block->bytes);
        free(block);
    }
    *all = NULL;
}
