#include "native/occupancy.h"
#include <stdlib.h>

void pw_occupancy_finish(pw_occupancy *places)
{
    free(places->taken);
    *places = (pw_occupancy){0};
}

void pw_occupancy_take(pw_occupancy *places, uint32_t num_places, pw_time since_ns,
                       pw_time until_ns)
{
    if (!places->taken) places->taken = calloc(PW_OCCUPANCY_KEPT, sizeof *places->taken);
    if (!places->taken) return;
    places->taken[places->next] = (pw_taken_places){since_ns, until_ns, num_places};
    places->next = (places->next + 1) % PW_OCCUPANCY_KEPT;
    places->last_ns = pw_later(places->last_ns, until_ns);
}

uint32_t pw_occupancy_count(const pw_occupancy *places, pw_time at_ns, pw_time *next_ns)
{
    uint32_t num_taken = 0;
    *next_ns = PW_NEVER;
    if (!places->taken || at_ns >= places->last_ns) return 0;
    for (uint32_t i = 0; i < PW_OCCUPANCY_KEPT; i++) {
        if (places->taken[i].since_ns > at_ns || places->taken[i].until_ns <= at_ns) continue;
        num_taken += places->taken[i].num_places;
        if (places->taken[i].until_ns < *next_ns) *next_ns = places->taken[i].until_ns;
    }
    return num_taken;
}

pw_time pw_occupancy_admit(const pw_occupancy *places, uint32_t num_places, uint32_t max,
                           pw_time at_ns)
{
    pw_time next_ns;
    while (pw_occupancy_count(places, at_ns, &next_ns) + num_places > max) at_ns = next_ns;
    return at_ns;
}
