#include "transport/node/page_regions.h"

#include <stdlib.h>
#include <string.h>

#define REGIONS_MAX (1u << 24)

void pw_page_regions_finish(pw_page_regions *all)
{
    free(all->regions);
    *all = (pw_page_regions){0};
}

static int reserve_one(pw_page_regions *all)
{
    if (all->num_regions < all->capacity) return PW_OK;
    uint32_t capacity = all->capacity ? 2 * all->capacity : 64;
    if (capacity > REGIONS_MAX) return PW_ERR_NOMEM;
    pw_page_region *grown = realloc(all->regions, capacity * sizeof *grown);
    if (!grown) return PW_ERR_NOMEM;
    all->regions = grown;
    all->capacity = capacity;
    return PW_OK;
}

uint32_t pw_page_regions_from(const pw_page_regions *all, uint64_t page)
{
    uint32_t low = 0, high = all->num_regions;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (all->regions[middle].end_page > page) high = middle;
        else low = middle + 1;
    }
    return low;
}

pw_page_region *pw_page_regions_holding(pw_page_regions *all, uint64_t first_page,
                                        uint64_t end_page)
{
    uint32_t idx = pw_page_regions_from(all, first_page);
    if (idx == all->num_regions) return NULL;
    pw_page_region *region = &all->regions[idx];
    return region->first_page <= first_page && region->end_page >= end_page ? region : NULL;
}

void pw_page_regions_use(pw_page_regions *all, pw_page_region *region)
{
    region->last_use = ++all->num_uses;
}

/* The regions from idx on move, so many places down (up when negative). */
static void move(pw_page_regions *all, uint32_t idx, int32_t num_places)
{
    pw_page_region *from = &all->regions[idx];
    memmove(from + num_places, from, (all->num_regions - idx) * sizeof *from);
    all->num_regions = (uint32_t)((int64_t)all->num_regions + num_places);
}

int pw_page_regions_add(pw_page_regions *all, uint64_t first_page, uint64_t end_page)
{
    int code = reserve_one(all);
    if (code != PW_OK) return code;
    uint32_t idx = pw_page_regions_from(all, first_page ? first_page - 1 : 0), end = idx;
    for (; end < all->num_regions && all->regions[end].first_page <= end_page; end++) {
        const pw_page_region *met = &all->regions[end];
        if (met->first_page < first_page) first_page = met->first_page;
        if (met->end_page > end_page) end_page = met->end_page;
    }
    move(all, end, 1 - (int32_t)(end - idx));
    all->regions[idx] = (pw_page_region){first_page, end_page, ++all->num_uses};
    return PW_OK;
}

int pw_page_regions_remove(pw_page_regions *all, uint64_t first_page, uint64_t end_page)
{
    int code = reserve_one(all);
    if (code != PW_OK) return code;
    uint32_t idx = pw_page_regions_from(all, first_page);
    if (idx < all->num_regions && all->regions[idx].first_page < first_page) {
        pw_page_region low = all->regions[idx];
        low.end_page = first_page;
        if (all->regions[idx].end_page > end_page) { /* out of its middle */
            move(all, idx, 1);
            all->regions[idx + 1].first_page = end_page;
        }
        all->regions[idx++] = low;
    }
    uint32_t end = idx;
    while (end < all->num_regions && all->regions[end].end_page <= end_page) end++;
    if (end > idx) move(all, end, -(int32_t)(end - idx));
    if (idx < all->num_regions && all->regions[idx].first_page < end_page)
        all->regions[idx].first_page = end_page;
    return PW_OK;
}
