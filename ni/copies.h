/* The NI's own copies from and to the program's memory, which is mapped, and was present a moment
 * ago. Where a file is mapped the copy survives that the file has been truncated since. Stateless.
 */
#ifndef PW_NI_COPIES_H
#define PW_NI_COPIES_H
#include "translation/residency.h"

/* Read the packets of the mask and compute their CRCs; the others are zero. walk: of these bytes.
 * PW_ERR_ADDRESS when they cannot be read any more. */
int pw_copy_packets_in(const pw_residency *walk, uint8_t *payload, uint64_t address,
                       uint32_t num_bytes, uint64_t mask, uint32_t *crcs);
/* Write a block. PW_ERR_ADDRESS when its pages cannot be written any more: a part may stand there.
 */
int pw_copy_block_out(const pw_residency *walk, uint64_t address, const uint8_t *payload,
                      uint32_t num_bytes);

#endif
