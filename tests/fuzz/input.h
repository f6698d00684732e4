/* What a fuzzer gave, read piece by piece: behind its end everything is 0, so that any bytes are an
 * input and one byte more or less changes one decision. */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const uint8_t *at, *end;
} input;

/* libFuzzer's; sanitizers see no difference to a crash. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t num_bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* An oracle, whether NDEBUG is set or not. */
#define MUST(condition)                                                                \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                   \
        }                                                                              \
    } while (0)

static inline bool is_over(const input *in) { return in->at >= in->end; }

static inline uint64_t take(input *in, size_t num_bytes)
{
    uint64_t value = 0;
    const size_t left = (size_t)(in->end - in->at);
    if (num_bytes > left) num_bytes = left;
    if (num_bytes) memcpy(&value, in->at, num_bytes);
    in->at += num_bytes;
    return value;
}

static inline uint8_t take_byte(input *in) { return (uint8_t)take(in, 1); }
static inline uint32_t take_below(input *in, uint32_t limit)
{
    return (uint32_t)take(in, limit > 256 ? 4 : 1) % limit;
}

/* A number of any magnitude, those where things change more often. */
static inline uint64_t take_number(input *in)
{
    static const uint64_t borders[] = {0,
                                       1,
                                       63,
                                       64,
                                       65,
                                       255,
                                       256,
                                       4095,
                                       4096,
                                       16383,
                                       16384,
                                       16385,
                                       65535,
                                       INT32_MAX,
                                       UINT32_MAX,
                                       (UINT64_C(1) << 61) + 1,
                                       UINT64_C(1) << 61,
                                       INT64_MAX,
                                       UINT64_C(1) << 63,
                                       UINT64_MAX};
    const uint8_t how = take_byte(in);
    if (how < 0x80) return how;
    if (how < 0xc0) return borders[how % (sizeof borders / sizeof *borders)];
    return take(in, how % 8 + 1u);
}
#endif
