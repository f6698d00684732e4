/* Do the fields of a block frame make sense together? Its CRC says only that they are what the
 * source wrote. Stateless. */
#ifndef PW_NI_BLOCK_FIELDS_H
#define PW_NI_BLOCK_FIELDS_H
#include "native/frames.h"

/* block_max: the largest block here, which its source must have too. */
bool pw_block_is_sane(const pw_block_frame *block, uint64_t block_max);

#endif
