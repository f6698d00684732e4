#include "ni/regions.h"
#include "native/array.h"
#include "native/impairments.h"
#include <stdlib.h>

#define ROUNDS 4 /* of a Feistel network */

void pw_regions_init(pw_regions *regions)
{
    *regions = (pw_regions){.first_free = -1, .id_bits = 32};
}

void pw_regions_draw_keys(pw_regions *regions, uint32_t id_bits, uint64_t seed)
{
    regions->id_bits = id_bits;
    regions->is_random = true;
    regions->seed = pw_impairment_mix(seed + UINT64_C(0x9e3779b97f4a7c15));
}

void pw_regions_destroy(pw_regions *regions) { free(regions->list); }

/* A slot's generations in an order that nobody guesses who does not know the secret. Four rounds of
 * a Feistel network: whatever mix is, no two generations get the same. */
static uint32_t shuffle(uint64_t secret, uint32_t slot, uint32_t generation)
{
    uint16_t left = (uint16_t)(generation >> 16), right = (uint16_t)generation;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t drawn = pw_impairment_mix(
            secret + pw_impairment_mix((uint64_t)slot << 32 | round << 16 | right));
        uint16_t next = left ^ (uint16_t)(drawn >> 48);
        left = right;
        right = next;
    }
    return (uint32_t)left << 16 | right;
}

static uint32_t of_half(const pw_regions *regions, uint64_t round, uint32_t half)
{
    uint64_t drawn = pw_impairment_mix(regions->seed + (round << 32 | half));
    return (uint32_t)(pw_impairment_mix(regions->secret + drawn) >> 32);
}

/* The same network over a whole word, and the way back. */
static uint64_t cipher(const pw_regions *regions, uint64_t word)
{
    uint32_t left = (uint32_t)(word >> 32), right = (uint32_t)word;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint32_t next = left ^ of_half(regions, round, right);
        left = right;
        right = next;
    }
    return (uint64_t)left << 32 | right;
}

static uint64_t decipher(const pw_regions *regions, uint64_t word)
{
    uint32_t left = (uint32_t)(word >> 32), right = (uint32_t)word;
    for (uint64_t round = ROUNDS; round-- > 0;) {
        uint32_t last = right ^ of_half(regions, round, left);
        right = left;
        left = last;
    }
    return (uint64_t)left << 32 | right;
}

static uint64_t make_key(pw_regions *regions, uint32_t slot, uint32_t generation)
{
    uint64_t id = (uint64_t)slot + 1, key;
    if (!regions->is_random)
        return (uint64_t)shuffle(regions->secret, slot, generation) << regions->id_bits | id;
    do {
        uint64_t drawn = regions->seed ^ pw_impairment_mix(++regions->num_drawn);
        drawn = pw_impairment_mix(regions->secret + pw_impairment_mix(drawn));
        key = cipher(regions, drawn << regions->id_bits | id);
    } while (key == 0); /* says that there is none */
    return key;
}

static int grow(pw_regions *regions)
{
    const uint32_t num_before = regions->capacity;
    int code = PW_ARRAY_MAKE_ROOM(regions->list, num_before, regions->capacity, 8);
    for (uint32_t slot = regions->capacity; slot-- > num_before;) {
        regions->list[slot] = (pw_region){.next_free = regions->first_free};
        regions->first_free = (int32_t)slot;
    }
    return code;
}

pw_region *pw_regions_open(pw_regions *regions, uint32_t peer, uint64_t address, uint64_t num_bytes)
{
    if (regions->first_free < 0 && grow(regions) < 0) return NULL;
    int32_t slot = regions->first_free;
    pw_region *region = &regions->list[slot];
    regions->first_free = region->next_free;
    uint32_t generation = region->generation + 1;
    *region = (pw_region){.address = address,
                          .num_bytes = num_bytes,
                          .key = make_key(regions, (uint32_t)slot, generation),
                          .peer = peer,
                          .rights = PW_REMOTE_READ,
                          .generation = generation};
    regions->num_open++;
    return region;
}

uint64_t pw_regions_id(const pw_regions *regions, uint64_t key)
{
    uint64_t word = regions->is_random ? decipher(regions, key) : key;
    return word & ((UINT64_C(1) << regions->id_bits) - 1);
}

pw_region *pw_regions_find(const pw_regions *regions, uint64_t key)
{
    if (key == 0) return NULL;                       /* what free slots have */
    uint64_t slot = pw_regions_id(regions, key) - 1; /* of id 0: no slot */
    if (slot >= regions->capacity || regions->list[slot].key != key) return NULL;
    return &regions->list[slot];
}

void pw_regions_close(pw_regions *regions, pw_region *region)
{
    region->key = 0;
    region->next_free = regions->first_free;
    regions->first_free = (int32_t)(region - regions->list);
    regions->num_open--;
}

void pw_region_begin_read(pw_region *region, bool is_last)
{
    region->num_reads++;
    region->is_spent |= is_last;
}

bool pw_region_end_read(pw_region *region, int error)
{
    region->num_reads--;
    if (!region->error) region->error = error;
    if (error) region->is_spent = true;
    return !region->stays && region->is_spent && !region->num_reads;
}

bool pw_region_admits(const pw_region *region, uint8_t right, uint32_t peer, uint64_t address,
                      uint64_t num_bytes)
{
    if (!(region->rights & right)) return false;
    if (!region->stays && (region->peer != peer || region->is_spent)) return false;
    return address >= region->address && num_bytes <= region->num_bytes &&
           address - region->address <= region->num_bytes - num_bytes;
}
