/* CRC-32C (Castagnoli), by wide multiplication (x86 AVX-512) or the CRC instruction (x86 SSE4.2,
 * arm64 CRC) where the CPU has them, tables elsewhere; chosen once at load. The NI carries one CRC
 * per packet. Stateless, thread-safe. */
#ifndef PW_NATIVE_CRC32C_H
#define PW_NATIVE_CRC32C_H
#include "native/types.h"

/* cdef begin */
/* CRC of num_bytes; seed 0 to start, a previous result to go on. */
uint32_t pw_crc32c(uint32_t seed, const void *data, size_t num_bytes);
/* The same by tables, whatever the CPU has: the reference that tests compare with. */
uint32_t pw_crc32c_tables(uint32_t seed, const void *data, size_t num_bytes);
/* The CRC of each packet of PW_PACKET_BYTES (the last may be shorter), crcs[i] for packet i, while
 * num_bytes are copied to destination; NULL: no copy. Several packets are in flight at once to hide
 * the instruction's latency. The two ranges must not overlap. */
void pw_crc32c_packets(void *destination, const void *source, size_t num_bytes, uint32_t *crcs);
/* cdef end */
#endif
