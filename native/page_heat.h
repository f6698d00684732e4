/* Which pages were met how often: counts of groups of neighbouring pages, in a fixed number of
 * places. A group more than there are places for makes all groups twice as long and merges
 * neighbours, until there is room; no count is lost. Zeroed: empty. Not thread-safe. */
#ifndef PW_NATIVE_PAGE_HEAT_H
#define PW_NATIVE_PAGE_HEAT_H
#include "native/types.h"

#include <string.h>

/* cdef begin */
#define PW_HEAT_GROUPS 256

typedef struct {
    uint64_t group; /* pages [group << shift, (group + 1) << shift) */
    uint64_t count;
} pw_heat_group;

typedef struct {
    uint32_t shift; /* a group is 2^shift pages */
    uint32_t num_groups;
    pw_heat_group groups[PW_HEAT_GROUPS]; /* ascending */
} pw_page_heat;
/* cdef end */

static inline void pw_page_heat_merge(pw_page_heat *heat)
{
    uint32_t num_kept = 0;
    heat->shift++;
    for (uint32_t i = 0; i < heat->num_groups; i++) {
        pw_heat_group each = {heat->groups[i].group >> 1, heat->groups[i].count};
        if (num_kept && heat->groups[num_kept - 1].group == each.group)
            heat->groups[num_kept - 1].count += each.count;
        else heat->groups[num_kept++] = each;
    }
    heat->num_groups = num_kept;
}

/* The first place whose group is not below this one. */
static inline uint32_t pw_page_heat_place(const pw_page_heat *heat, uint64_t group)
{
    uint32_t low = 0, high = heat->num_groups;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (heat->groups[middle].group < group) low = middle + 1;
        else high = middle;
    }
    return low;
}

static inline void pw_page_heat_add(pw_page_heat *heat, uint64_t page)
{
    for (;; pw_page_heat_merge(heat)) {
        uint64_t group = page >> heat->shift;
        uint32_t place = pw_page_heat_place(heat, group);
        pw_heat_group *at = &heat->groups[place];
        if (place < heat->num_groups && at->group == group) {
            at->count++;
            return;
        }
        if (heat->num_groups == PW_HEAT_GROUPS) continue;
        memmove(at + 1, at, (heat->num_groups - place) * sizeof *at);
        *at = (pw_heat_group){group, 1};
        heat->num_groups++;
        return;
    }
}
#endif
