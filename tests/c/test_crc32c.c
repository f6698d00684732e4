/* Smoke test of CRC-32C without Python: the check value, and packets against whole calls. */
#include <assert.h>
#include <string.h>

#include "native/crc32c.h"

int main(void)
{
    assert(pw_crc32c(0, "123456789", 9) == 0xE3069283u);
    assert(pw_crc32c_tables(0, "123456789", 9) == 0xE3069283u);
    uint8_t source[3000], destination[3000];
    uint32_t crcs[12];
    for (size_t i = 0; i < sizeof(source); i++) source[i] = (uint8_t)(i * 31);
    pw_crc32c_copy_packets(destination, source, sizeof(source), PW_PACKET_BYTES, crcs);
    assert(memcmp(destination, source, sizeof(source)) == 0);
    for (size_t i = 0; i < 12; i++)
        assert(crcs[i] == pw_crc32c(0, source + i * 256, i < 11 ? 256 : 3000 - 11 * 256));
    for (size_t length = 0; length <= sizeof(source); length++) /* each way of going wide */
        assert(pw_crc32c(0x1234567u, source, length) ==
               pw_crc32c_tables(0x1234567u, source, length));
    return 0;
}
