/* The SMMU as translation unit: page walks of the process's own table, faults where a page is not
 * there. With a UTLB cache, that stands in place of TLBs and walks; a page that the library has not
 * prepared faults as ever (assumed). Not thread-safe. */
#ifndef PW_SMMU_UNIT_H
#define PW_SMMU_UNIT_H
#include "smmu/presence.h"
#include "smmu/smmu.h"
#include "translation/unit.h"
#include "translation/utlb_cache.h"

typedef struct {
    pw_translation_unit base;
    const pw_presence *presence;
    bool ideal; /* mapped pages never fault, and nothing is paged in */
    pw_smmu *smmu;
    pw_utlb_cache *utlb; /* NULL: none */
} pw_smmu_unit;

void pw_smmu_unit_init(pw_smmu_unit *unit, pw_smmu *smmu, pw_memory *memory,
                       const pw_presence *presence, bool ideal, pw_utlb_cache *utlb);
#endif
