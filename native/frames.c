#include "native/frames.h"
#include "native/crc32c.h"

void pw_frame_seal(pw_frame_header *header, uint32_t covered_bytes)
{
    header->crc = 0;
    header->crc = pw_crc32c(0, header, covered_bytes);
}

bool pw_frame_is_sound(const pw_frame_header *header, uint32_t covered_bytes)
{
    pw_frame_header copy = *header;
    copy.crc = 0;
    uint32_t crc = pw_crc32c(0, &copy, sizeof copy);
    return pw_crc32c(crc, header + 1, covered_bytes - sizeof copy) == header->crc;
}
