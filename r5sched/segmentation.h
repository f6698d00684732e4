/* Segmentation: a transfer is cut into blocks at destination addresses that are multiples of the
 * largest block, block_max: 16 KB [R5 3.2.2], or a smaller power of two. */
#ifndef PW_R5SCHED_SEGMENTATION_H
#define PW_R5SCHED_SEGMENTATION_H
#include "native/types.h"

static inline uint32_t pw_first_block_bytes(uint64_t block_max, uint64_t destination_address,
                                            uint64_t num_bytes)
{
    uint64_t room = block_max - destination_address % block_max;
    return (uint32_t)(num_bytes < room ? num_bytes : room);
}

static inline uint32_t pw_num_blocks(uint64_t block_max, uint64_t destination_address,
                                     uint64_t num_bytes)
{
    if (num_bytes == 0) return 0;
    uint64_t rest = num_bytes - pw_first_block_bytes(block_max, destination_address, num_bytes);
    return (uint32_t)(1 + (rest + block_max - 1) / block_max);
}

/* Offset of block n in the transfer: first + (n - 1) * block_max. */
static inline uint64_t pw_block_offset(uint64_t block_max, uint32_t first_block_bytes,
                                       uint32_t block_idx)
{
    return block_idx == 0 ? 0 : first_block_bytes + (block_idx - 1) * block_max;
}

static inline uint32_t pw_block_bytes(uint64_t block_max, uint64_t num_bytes,
                                      uint32_t first_block_bytes, uint32_t block_idx)
{
    if (block_idx == 0) return first_block_bytes;
    uint64_t rest = num_bytes - pw_block_offset(block_max, first_block_bytes, block_idx);
    return (uint32_t)(rest < block_max ? rest : block_max);
}
#endif
