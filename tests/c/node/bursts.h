/* Bursts of a wire that tell from their bytes whose they are and which, for tests of wires. */
#ifndef PW_TESTS_BURSTS_H
#define PW_TESTS_BURSTS_H
#include <assert.h>
#include <string.h>

#include "node/clock.h"
#include "node/wires/wire.h"

static inline void fill_burst(uint8_t *data, uint32_t node, uint32_t idx, uint32_t num_bytes)
{
    for (uint32_t at = 0; at < num_bytes; at += 8) {
        const uint64_t word = (uint64_t)node << 56 | (uint64_t)idx << 24 | at;
        memcpy(data + at, &word, 8);
    }
}

static inline void check_burst(const pw_wire_burst *burst, uint32_t idx, uint32_t num_bytes)
{
    assert(burst->num_bytes == num_bytes);
    for (uint32_t at = 0; at < burst->num_bytes; at += 8) {
        const uint64_t word = (uint64_t)burst->source << 56 | (uint64_t)idx << 24 | at;
        assert(memcmp(burst->data + at, &word, 8) == 0);
    }
}
#endif
