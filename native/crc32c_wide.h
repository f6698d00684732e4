/* CRC-32C 64 bytes at a time, by carry-less multiplication in registers of 512 bits (x86 with
 * AVX-512 and VPCLMULQDQ): about twice as quick as the CRC instruction where data is in the cache.
 * Only crc32c.c calls this, and only where pw_crc32c_wide_is_supported. Stateless, thread-safe. */
#ifndef PW_NATIVE_CRC32C_WIDE_H
#define PW_NATIVE_CRC32C_WIDE_H
#include "native/types.h"

#define PW_CRC32C_WIDE_BYTES 64u

bool pw_crc32c_wide_is_supported(void);
/* The register behind num_bytes, a multiple of 64 and not 0; in and out not inverted. */
uint32_t pw_crc32c_wide_register(uint32_t crc, const uint8_t *bytes, size_t num_bytes);
/* CRC of each of num_packets whole packets of PW_PACKET_BYTES; copies them unless destination is
 * NULL. */
void pw_crc32c_wide_packets(uint8_t *destination, const uint8_t *source, size_t num_packets,
                            uint32_t *crcs);
#endif
