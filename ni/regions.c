#include "ni/regions.h"
#include <stdlib.h>

void pw_regions_init(pw_regions *regions) { *regions = (pw_regions){.first_free = -1}; }

void pw_regions_destroy(pw_regions *regions) { free(regions->list); }

static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

/* A slot's generations in an order that nobody guesses who does not know the secret. Four rounds of
 * a Feistel network: whatever mix is, no two generations get the same. */
static uint32_t shuffle(uint64_t secret, uint32_t slot, uint32_t generation)
{
    uint16_t left = (uint16_t)(generation >> 16), right = (uint16_t)generation;
    for (uint64_t round = 0; round < 4; round++) {
        uint64_t drawn = mix(secret + mix((uint64_t)slot << 32 | round << 16 | right));
        uint16_t next = left ^ (uint16_t)(drawn >> 48);
        left = right;
        right = next;
    }
    return (uint32_t)left << 16 | right;
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
                    .key = (uint64_t)shuffle(regions->secret, (uint32_t)slot, generation) << 32 |
                           (uint64_t)(slot + 1),
                    .peer = peer,
                    .generation = generation};
    regions->num_open++;
    return region;
}

pw_region *pw_regions_find(const pw_regions *regions, uint64_t key)
{
    uint64_t slot = (key & UINT32_MAX) - 1; /* of key 0: no slot */
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
