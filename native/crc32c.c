/* CRC-32C: see crc32c.h. Polynomial 0x1EDC6F41, here reflected [RFC 3720, 12.1], register
 * inverted before and after. Data is loaded through memcpy, so any alignment will do.
 *
 * The instruction takes 8 bytes a cycle but answers after 3 cycles, hence four packets at a time.
 */
#include "native/crc32c.h"

#include <string.h>

#define POLYNOMIAL 0x82F63B78u
#define FOUR_BYTES ((size_t)4 * PW_PACKET_BYTES)
/* Below, moving the lanes together takes as long as the instruction. */
#define WIDE_FROM_BYTES 192

/* The register behind some bytes, from what it was before them; neither is inverted. */
typedef uint32_t crc_register(uint32_t crc, const uint8_t *bytes, size_t num_bytes);

/* tables[k][i]: CRC of byte i followed by k zero bytes. Filled while the library loads. */
static uint32_t tables[8][256];

static void fill_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        tables[0][i] = i;
        for (int bit = 0; bit < 8; bit++)
            tables[0][i] = tables[0][i] >> 1 ^ (tables[0][i] & 1 ? POLYNOMIAL : 0);
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 255];
}

static inline uint64_t load_le64(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static uint32_t tables_register(uint32_t crc, const uint8_t *bytes, size_t num_bytes)
{
    for (; num_bytes >= 8; bytes += 8, num_bytes -= 8) {
        uint64_t word = load_le64(bytes) ^ crc;
        crc = tables[7][word & 255] ^ tables[6][word >> 8 & 255] ^ tables[5][word >> 16 & 255] ^
              tables[4][word >> 24 & 255] ^ tables[3][word >> 32 & 255] ^
              tables[2][word >> 40 & 255] ^ tables[1][word >> 48 & 255] ^ tables[0][word >> 56];
    }
    for (; num_bytes > 0; bytes++, num_bytes--) crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 255];
    return crc;
}

uint32_t pw_crc32c_tables(uint32_t seed, const void *data, size_t num_bytes)
{
    return ~tables_register(~seed, data, num_bytes);
}

/* One packet after the other. destination may be NULL: no copy. `pass` is a constant in each
 * caller, so the call is gone after inlining. */
static inline __attribute__((always_inline)) void packets_by(crc_register *pass,
                                                             uint8_t *destination,
                                                             const uint8_t *source,
                                                             size_t num_bytes, uint32_t *crcs)
{
    while (num_bytes > 0) {
        size_t length = num_bytes < PW_PACKET_BYTES ? num_bytes : PW_PACKET_BYTES;
        *crcs++ = ~pass(~0u, source, length);
        if (destination) {
            memcpy(destination, source, length); /* the source is in the L1 cache now */
            destination += length;
        }
        source += length;
        num_bytes -= length;
    }
}

static void tables_packets(uint8_t *destination, const uint8_t *source, size_t num_bytes,
                           uint32_t *crcs)
{
    packets_by(tables_register, destination, source, num_bytes, crcs);
}

#if defined(__x86_64__)
#include <nmmintrin.h>
#define HARDWARE __attribute__((target("sse4.2")))
#define crc_of_8(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define crc_of_1(crc, byte) _mm_crc32_u8((crc), (byte))
static bool has_hardware(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <sys/auxv.h>
#ifdef __ARM_FEATURE_CRC32
#define HARDWARE
#else
#define HARDWARE __attribute__((target("+crc")))
#endif
#define HWCAP_BIT_CRC32 (1ul << 7) /* AT_HWCAP of arm64 Linux */
#define crc_of_8(crc, word) __crc32cd((crc), (word))
#define crc_of_1(crc, byte) __crc32cb((crc), (byte))
static bool has_hardware(void) { return (getauxval(AT_HWCAP) & HWCAP_BIT_CRC32) != 0; }
#endif

#ifdef HARDWARE
HARDWARE static uint32_t hardware_register(uint32_t crc, const uint8_t *bytes, size_t num_bytes)
{
    for (; num_bytes >= 8; bytes += 8, num_bytes -= 8) crc = crc_of_8(crc, load_le64(bytes));
    for (; num_bytes > 0; bytes++, num_bytes--) crc = crc_of_1(crc, *bytes);
    return crc;
}

/* Four whole packets; `copies` is a constant in each caller, so the test is gone after inlining. */
HARDWARE static inline __attribute__((always_inline)) void four_packets(
    uint8_t *restrict destination, const uint8_t *restrict source, uint32_t *crcs, bool copies)
{
    const uint8_t *s0 = source, *s1 = s0 + PW_PACKET_BYTES, *s2 = s1 + PW_PACKET_BYTES,
                  *s3 = s2 + PW_PACKET_BYTES;
    uint32_t c0 = ~0u, c1 = ~0u, c2 = ~0u, c3 = ~0u;
    for (size_t i = 0; i < PW_PACKET_BYTES; i += 8) {
        uint64_t w0, w1, w2, w3;
        memcpy(&w0, s0 + i, 8);
        memcpy(&w1, s1 + i, 8);
        memcpy(&w2, s2 + i, 8);
        memcpy(&w3, s3 + i, 8);
        c0 = crc_of_8(c0, w0);
        c1 = crc_of_8(c1, w1);
        c2 = crc_of_8(c2, w2);
        c3 = crc_of_8(c3, w3);
        if (copies) {
            uint8_t *d = destination + i;
            memcpy(d, &w0, 8);
            memcpy(d + PW_PACKET_BYTES, &w1, 8);
            memcpy(d + 2 * PW_PACKET_BYTES, &w2, 8);
            memcpy(d + 3 * PW_PACKET_BYTES, &w3, 8);
        }
    }
    crcs[0] = ~c0;
    crcs[1] = ~c1;
    crcs[2] = ~c2;
    crcs[3] = ~c3;
}

HARDWARE static void hardware_packets(uint8_t *destination, const uint8_t *source, size_t num_bytes,
                                      uint32_t *crcs)
{
    for (; num_bytes >= FOUR_BYTES; num_bytes -= FOUR_BYTES) {
        if (destination) four_packets(destination, source, crcs, true);
        else four_packets(NULL, source, crcs, false);
        if (destination) destination += FOUR_BYTES;
        source += FOUR_BYTES;
        crcs += 4;
    }
    packets_by(hardware_register, destination, source, num_bytes, crcs);
}
#endif

#if defined(__x86_64__)
/* CRC-32C 64 bytes at a time, by carry-less multiplication in registers of 512 bits (x86 with
 * AVX-512 and VPCLMULQDQ): about twice as quick as the CRC instruction where data is in the cache.
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
#include <immintrin.h>

#define WIDE_BYTES 64u
#define WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")))
#define WIDE_INLINE WIDE static inline __attribute__((always_inline))
#define LANES_A_REGISTER 4

_Static_assert(PW_PACKET_BYTES == 4 * WIDE_BYTES, "a packet is four registers");

/* For the 16 lanes of a packet, D = 128 * (15 - lane): the pair above. */
static const uint32_t powers[2 * 16] = {
    0xce937661u, 0x048dc5ccu, 0x0d62d3a3u, 0xad327462u, 0xe6040d5au, 0x57060022u, 0x7ccbbbf2u,
    0x31c94608u, 0xacecf924u, 0xc54608cdu, 0x3207b4feu, 0x3fc16b86u, 0xcf23ab10u, 0xcf519517u,
    0x6577b245u, 0x7417153fu, 0x169472b6u, 0x963e61cdu, 0xc92f998du, 0x3365346au, 0x1c42da43u,
    0x6d883e38u, 0x1c19243bu, 0x75bba45bu, 0xa46ef4aau, 0x6051243fu, 0x33ccbbbcu, 0xa2158b34u,
    0x3743f7bdu, 0x3171d430u, 0xdd45aab8u, 0x05ec76f1u,
};
#define LANE_BEFORE_64 11 /* D = 512: moves a register onto the next one */

static bool has_wide(void)
{
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

/* The register behind num_bytes, a multiple of 64 and not 0; in and out not inverted. */
WIDE static uint32_t whole_registers(uint32_t crc, const uint8_t *bytes, size_t num_bytes)
{
    __m512i onto_next = _mm512_broadcast_i32x4(_mm512_castsi512_si128(powers_of(LANE_BEFORE_64)));
    __m512i lanes = _mm512_xor_si512(load(bytes), at_start(crc));
    for (size_t i = WIDE_BYTES; i < num_bytes; i += WIDE_BYTES)
        lanes = add_folded(load(bytes + i), lanes, onto_next);
    return remainder_of(folded(lanes, powers_of(3 * LANES_A_REGISTER)));
}

/* `copies` is a constant in each caller, so the test is gone after inlining. */
WIDE_INLINE void whole_packets(uint8_t *destination, const uint8_t *source, size_t num_packets,
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

WIDE static void copy_whole_packets(uint8_t *destination, const uint8_t *source, size_t num_packets,
                                    uint32_t *crcs)
{
    if (destination) whole_packets(destination, source, num_packets, crcs, true);
    else whole_packets(NULL, source, num_packets, crcs, false);
}

static uint32_t wide_register(uint32_t crc, const uint8_t *bytes, size_t num_bytes)
{
    size_t wide_bytes = num_bytes < WIDE_FROM_BYTES ? 0 : num_bytes & ~(size_t)(WIDE_BYTES - 1);
    if (wide_bytes) crc = whole_registers(crc, bytes, wide_bytes);
    return hardware_register(crc, bytes + wide_bytes, num_bytes - wide_bytes);
}

static void wide_packets(uint8_t *destination, const uint8_t *source, size_t num_bytes,
                         uint32_t *crcs)
{
    size_t num_whole = num_bytes / PW_PACKET_BYTES;
    size_t whole_bytes = num_whole * PW_PACKET_BYTES;
    copy_whole_packets(destination, source, num_whole, crcs);
    if (destination) destination += whole_bytes;
    hardware_packets(destination, source + whole_bytes, num_bytes - whole_bytes, crcs + num_whole);
}
#endif

struct implementation {
    crc_register *pass;
    void (*packets)(uint8_t *destination, const uint8_t *source, size_t num_bytes, uint32_t *crcs);
};

static const struct implementation with_tables = {tables_register, tables_packets};
#ifdef HARDWARE
static const struct implementation with_hardware = {hardware_register, hardware_packets};
#endif
#if defined(__x86_64__)
static const struct implementation with_wide = {wide_register, wide_packets};
#endif

/* Set once while the library loads, constant from then on. */
static const struct implementation *chosen = &with_tables;

__attribute__((constructor)) static void choose(void)
{
    fill_tables();
#ifdef HARDWARE
    if (has_hardware()) chosen = &with_hardware;
#endif
#if defined(__x86_64__)
    if (has_wide()) chosen = &with_wide; /* has_hardware has asked the CPU */
#endif
}

uint32_t pw_crc32c(uint32_t seed, const void *data, size_t num_bytes)
{
    return ~chosen->pass(~seed, data, num_bytes);
}

void pw_crc32c_packets(void *destination, const void *source, size_t num_bytes, uint32_t *crcs)
{
    chosen->packets(destination, source, num_bytes, crcs);
}
