#include "ni/regions.h"
#include "native/impairments.h"
#include <stdlib.h>

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
    for (uint64_t round = 0; round < 4; round++) {
        uint64_t drawn = pw_impairment_mix(
            secret + pw_impairment_mix((uint64_t)slot << 32 | round << 16 | right));
        uint16_t next = left ^ (uint16_t)(drawn >> 48);
        left = right;
        right = next;
    }
    return (uint32_t)left << 16 | right;
}

static uint64_t upper_bits(pw_regions *regions, uint32_t slot, uint32_t generation)
{
    if (!regions->is_random) return shuffle(regions->secret, slot, generation);
    uint64_t drawn = regions->seed ^ pw_impairment_mix(++regions->num_drawn);
    return pw_impairment_mix(regions->secret + pw_impairment_mix(drawn));
}

static int grow(pw_regions *regions)
{
    uint32_t capacity = regions->capacity ? 2 * regions->capacity : 64;
    pw_region *list = realloc(regions->list, capacity * sizeof *list);
    if (!list) return PW_ERR_NOMEM;
    regions->list = list;
    for (uint32_t slot = capacity; slot-- > regions->capacity;) {
        list[slot] = (pw_region){.next_free = regions->first_free};
        regions->first_free = (int32_t)slot;
    }
    regions->capacity = capacity;
    return PW_OK;
}

pw_region *pw_regions_open(pw_regions *regions, uint32_t peer, uint64_t address, uint64_t num_bytes)
{
    if (regions->first_free < 0 && grow(regions) < 0) return NULL;
    int32_t slot = regions->first_free;
    pw_region *region = &regions->list[slot];
    regions->first_free = region->next_free;
    uint32_t generation = region->generation + 1;
    *region =
        (pw_region){.address = address,
                    .num_bytes = num_bytes,
                    .key = upper_bits(regions, (uint32_t)slot, generation) << regions->id_bits |
                           (uint64_t)(slot + 1),
                    .peer = peer,
                    .generation = generation};
    regions->num_open++;
    return region;
}

pw_region *pw_regions_find(const pw_regions *regions, uint64_t key)
{
    uint64_t id = key & ((UINT64_C(1) << regions->id_bits) - 1), slot = id - 1; /* 0: no slot */
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

bool pw_region_admits(const pw_region *region, uint32_t peer, uint64_t address, uint64_t num_bytes)
{
    if (!region->stays && (region->peer != peer || region->reading)) return false;
    return address >= region->address && num_bytes <= region->num_bytes &&
           address - region->address <= region->num_bytes - num_bytes;
}
