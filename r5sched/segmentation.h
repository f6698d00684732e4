/* Segmentation: a transfer is cut into blocks at 16 KB-aligned destination addresses [R5 3.2.2]. */
#ifndef PW_R5SCHED_SEGMENTATION_H
#define PW_R5SCHED_SEGMENTATION_H
#include "native/types.h"

static inline uint32_t pw_first_block_bytes(uint64_t destination_address, uint64_t num_bytes)
{
    uint64_t room = PW_BLOCK_BYTES - destination_address % PW_BLOCK_BYTES;
    return (uint32_t)(num_bytes < room ? num_bytes : room);
}

static inline uint32_t pw_num_blocks(uint64_t destination_address, uint64_t num_bytes)
{
    if (num_bytes == 0) return 0;
    uint64_t rest = num_bytes - pw_first_block_bytes(destination_address, num_bytes);
    return (uint32_t)(1 + (rest + PW_BLOCK_BYTES - 1) / PW_BLOCK_BYTES);
}

/* Offset of block n in the transfer: first + (n-1)*16384. */
static inline uint64_t pw_block_offset(uint32_t first_block_bytes, uint32_t block_idx)
{
    return block_idx == 0 ? 0 : first_block_bytes + (uint64_t)(block_idx - 1) * PW_BLOCK_BYTES;
}

static inline uint32_t pw_block_bytes(uint64_t num_bytes, uint32_t first_block_bytes,
                                      uint32_t block_idx)
{
    if (block_idx == 0) return first_block_bytes;
    uint64_t rest = num_bytes - pw_block_offset(first_block_bytes, block_idx);
    return (uint32_t)(rest < PW_BLOCK_BYTES ? rest : PW_BLOCK_BYTES);
}
#endif
