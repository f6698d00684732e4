#include "ni/copies.h"
#include "native/crc32c.h"
#include "native/safe_copy.h"
#include <string.h>

static int copy_run(const pw_residency *walk, uint8_t *payload, const uint8_t *source,
                    uint32_t num_bytes, uint32_t *crcs)
{
    if (!walk->may_vanish) {
        pw_crc32c_copy_packets(payload, source, num_bytes, PW_PACKET_BYTES, crcs);
        return PW_OK;
    }
    int code = pw_safe_copy_in(payload, source, num_bytes);
    if (code == PW_OK) pw_crc32c_packets(payload, num_bytes, PW_PACKET_BYTES, crcs);
    return code;
}

int pw_copy_packets_in(const pw_residency *walk, uint8_t *payload, uint64_t address,
                       uint32_t num_bytes, uint64_t mask, uint32_t *crcs)
{
    const uint8_t *source = (const uint8_t *)(uintptr_t)address;
    uint32_t num_packets = (num_bytes + PW_PACKET_BYTES - 1) / PW_PACKET_BYTES;
    if (mask == ~UINT64_C(0) >> (PW_BLOCK_PACKETS - num_packets))
        return copy_run(walk, payload, source, num_bytes, crcs);
    int code = PW_OK;
    for (uint32_t packet = 0; packet < num_packets && code == PW_OK; packet++) {
        uint32_t from = packet * PW_PACKET_BYTES;
        uint32_t part = num_bytes - from < PW_PACKET_BYTES ? num_bytes - from : PW_PACKET_BYTES;
        if (mask >> packet & 1)
            code = copy_run(walk, payload + from, source + from, part, &crcs[packet]);
        else {
            memset(payload + from, 0, part);
            crcs[packet] = 0;
        }
    }
    return code;
}

int pw_copy_block_out(const pw_residency *walk, uint64_t address, const uint8_t *payload,
                      uint32_t num_bytes)
{
    void *destination = (void *)(uintptr_t)address;
    if (walk->may_vanish) return pw_safe_copy_out(destination, payload, num_bytes);
    memcpy(destination, payload, num_bytes);
    return PW_OK;
}
