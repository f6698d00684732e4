/* CRC-32C by folding: see crc32c_wide.h.
 *
 * A CRC is the remainder of the data as a polynomial, times x^32. 16 bytes that stand D bits before
 * the end may be replaced by (their first 8 bytes) * (x^(D+64) mod P) + (the others) * (x^D mod P),
 * which are 16 bytes at the end with the same remainder. So all 16-byte lanes of a packet are moved
 * onto its last one without waiting for each other, and the CRC instruction does what is left.
 *
 * In the reflected order of CRC-32C bit i of a word is x^(63-i), and the product of two words comes
 * out one place short: hence the constants are x^(D+63) and x^(D-1) mod P, in a word's upper half
 * [V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction",
 * Intel, 2009]. */
#include "native/crc32c_wide.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")))
#define WIDE_INLINE WIDE static inline __attribute__((always_inline))
#define LANES_A_REGISTER 4

_Static_assert(PW_PACKET_BYTES == 4 * PW_CRC32C_WIDE_BYTES, "a packet is four registers");

/* For the 16 lanes of a packet, D = 128 * (15 - lane): the pair above. */
static const uint32_t powers[2 * 16] = {
    0xce937661u, 0x048dc5ccu, 0x0d62d3a3u, 0xad327462u, 0xe6040d5au, 0x57060022u, 0x7ccbbbf2u,
    0x31c94608u, 0xacecf924u, 0xc54608cdu, 0x3207b4feu, 0x3fc16b86u, 0xcf23ab10u, 0xcf519517u,
    0x6577b245u, 0x7417153fu, 0x169472b6u, 0x963e61cdu, 0xc92f998du, 0x3365346au, 0x1c42da43u,
    0x6d883e38u, 0x1c19243bu, 0x75bba45bu, 0xa46ef4aau, 0x6051243fu, 0x33ccbbbcu, 0xa2158b34u,
    0x3743f7bdu, 0x3171d430u, 0xdd45aab8u, 0x05ec76f1u,
};
#define LANE_BEFORE_64 11 /* D = 512: moves a register onto the next one */

bool pw_crc32c_wide_is_supported(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("sse4.2");
}

/* The constants of four lanes. */
WIDE_INLINE __m512i powers_of(int first_lane)
{
    __m256i halves = _mm256_loadu_si256((const void *)&powers[2 * first_lane]);
    return _mm512_slli_epi64(_mm512_cvtepu32_epi64(halves), 32);
}

WIDE_INLINE __m512i load(const uint8_t *bytes) { return _mm512_loadu_si512(bytes); }

/* sum + each lane times its constants. */
WIDE_INLINE __m512i add_folded(__m512i sum, __m512i data, __m512i constants)
{
    return _mm512_ternarylogic_epi64(sum, _mm512_clmulepi64_epi128(data, constants, 0x00),
                                     _mm512_clmulepi64_epi128(data, constants, 0x11), 0x96);
}

WIDE_INLINE __m512i folded(__m512i data, __m512i constants)
{
    return _mm512_xor_si512(_mm512_clmulepi64_epi128(data, constants, 0x00),
                            _mm512_clmulepi64_epi128(data, constants, 0x11));
}

/* The register behind what the four lanes add up to. */
WIDE_INLINE uint32_t remainder_of(__m512i lanes)
{
    __m256i two =
        _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
    __m128i one = _mm_xor_si128(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
    uint64_t crc = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(one));
    return (uint32_t)_mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(one, 1));
}

WIDE_INLINE __m512i at_start(uint32_t crc)
{
    return _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc));
}

WIDE uint32_t pw_crc32c_wide_register(uint32_t crc, const uint8_t *bytes, size_t num_bytes)
{
    __m512i onto_next = _mm512_broadcast_i32x4(_mm512_castsi512_si128(powers_of(LANE_BEFORE_64)));
    __m512i lanes = _mm512_xor_si512(load(bytes), at_start(crc));
    for (size_t i = PW_CRC32C_WIDE_BYTES; i < num_bytes; i += PW_CRC32C_WIDE_BYTES)
        lanes = add_folded(load(bytes + i), lanes, onto_next);
    return remainder_of(folded(lanes, powers_of(3 * LANES_A_REGISTER)));
}

/* `copies` is a constant in each caller, so the test is gone after inlining. */
WIDE_INLINE void packets(uint8_t *destination, const uint8_t *source, size_t num_packets,
                         uint32_t *crcs, bool copies)
{
    const __m512i powers0 = powers_of(0), powers1 = powers_of(LANES_A_REGISTER),
                  powers2 = powers_of(2 * LANES_A_REGISTER),
                  powers3 = powers_of(3 * LANES_A_REGISTER), start = at_start(~0u);
    for (size_t packet = 0; packet < num_packets; packet++, source += PW_PACKET_BYTES) {
        __m512i data0 = load(source), data1 = load(source + 64), data2 = load(source + 128),
                data3 = load(source + 192);
        if (copies) {
            uint8_t *d = destination + packet * PW_PACKET_BYTES;
            _mm512_storeu_si512(d, data0);
            _mm512_storeu_si512(d + 64, data1);
            _mm512_storeu_si512(d + 128, data2);
            _mm512_storeu_si512(d + 192, data3);
        }
        __m512i even = add_folded(folded(_mm512_xor_si512(data0, start), powers0), data2, powers2);
        __m512i odd = add_folded(folded(data1, powers1), data3, powers3);
        crcs[packet] = ~remainder_of(_mm512_xor_si512(even, odd));
    }
}

WIDE void pw_crc32c_wide_packets(uint8_t *destination, const uint8_t *source, size_t num_packets,
                                 uint32_t *crcs)
{
    if (destination) packets(destination, source, num_packets, crcs, true);
    else packets(NULL, source, num_packets, crcs, false);
}
#else
bool pw_crc32c_wide_is_supported(void) { return false; }
#endif
