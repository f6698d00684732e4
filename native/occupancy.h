/* How many places of something bounded are taken at a time: stalled accesses of the SMMU, page
 * requests of a device, entries of the IOMMU's queue, blocks in a NIC's buffer. Keeps the latest
 * bookings; older ones are over, or forgotten. Zero is an empty one; the first booking allocates,
 * and without memory none is kept. Not thread-safe. */
#ifndef PW_NATIVE_OCCUPANCY_H
#define PW_NATIVE_OCCUPANCY_H
#include "native/types.h"

#define PW_OCCUPANCY_KEPT 256

typedef struct {
    pw_time since_ns, until_ns;
    uint32_t num_places;
} pw_taken_places;

typedef struct {
    pw_taken_places *taken; /* ring of PW_OCCUPANCY_KEPT; NULL: none yet */
    uint32_t next;
    pw_time last_ns; /* everything is free from then on */
} pw_occupancy;

void pw_occupancy_finish(pw_occupancy *places);
void pw_occupancy_take(pw_occupancy *places, uint32_t num_places, pw_time since_ns,
                       pw_time until_ns);
/* Places taken at at_ns; *next_ns: when the next of them is free again, PW_NEVER when none is. */
uint32_t pw_occupancy_count(const pw_occupancy *places, pw_time at_ns, pw_time *next_ns);
/* When num_places of max are free, at_ns or later. num_places is at most max. */
pw_time pw_occupancy_admit(const pw_occupancy *places, uint32_t num_places, uint32_t max,
                           pw_time at_ns);
#endif
