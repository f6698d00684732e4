/* The SMMU as translation unit: page walks of the process's own table, faults where a page is not
 * there. What other units with contexts and TLBs of the SMMU take from it. Not thread-safe. */
#ifndef PW_SMMU_SMMU_UNIT_H
#define PW_SMMU_SMMU_UNIT_H
#include "smmu/unit.h"

typedef struct {
    pw_translation_unit base;
    const pw_presence *presence;
    bool ideal; /* mapped pages never fault, and nothing is paged in */
} pw_smmu_unit;

int pw_smmu_unit_create(const pw_unit_parts *parts, pw_translation_unit **out);
void pw_smmu_unit_init(pw_smmu_unit *unit, const pw_unit_parts *parts,
                       const pw_translation_ops *ops);

/* What the walk finds of a page. */
typedef struct {
    int state; /* PW_PAGE_* or negative */
    bool is_present;
} pw_walked_page;

/* An access in two steps, between which the translation is paid for: is the page there; and what
 * comes of it, with the bank's fault registers. Both write to *result. */
pw_walked_page pw_smmu_unit_walk(const pw_smmu_unit *unit, pw_residency *residency,
                                 const pw_access *access, pw_access_result *result);
void pw_smmu_unit_judge(const pw_smmu_unit *unit, const pw_access *access,
                        const pw_walked_page *walked, pw_access_result *result);

/* pw_translation_ops of the same names, for units with the SMMU's TLBs or contexts. */
pw_time pw_smmu_unit_word(pw_translation_unit *unit, uint16_t pdid, uint64_t page, pw_time at_ns);
pw_time pw_smmu_unit_latency_ns(const pw_translation_unit *unit, uint32_t how);
int pw_smmu_unit_open(pw_translation_unit *unit, uint16_t pdid);
bool pw_smmu_unit_is_open(pw_translation_unit *unit, uint16_t pdid);
#endif
