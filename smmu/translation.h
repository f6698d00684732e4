/* One access of the NI to one page: is it there, how long does the translation take, and if not,
 * why? Source, destination, notification and stalled accesses all ask here. What stands behind it
 * can be replaced (pw_translation_ops): the SMMU of this folder is one translation unit. Not
 * thread-safe. */
#ifndef PW_SMMU_TRANSLATION_H
#define PW_SMMU_TRANSLATION_H
#include "native/memory.h"
#include "smmu/presence.h"
#include "smmu/residency.h"
#include "smmu/smmu.h"

typedef struct {
    uint64_t page;
    uint64_t end_page; /* behind the transfer: so far a walk may look ahead */
    pw_time at_ns;     /* PW_NEVER: ahead of time, books nothing */
    uint16_t pdid;
    bool is_translated; /* the translation was paid for: a further packet, or the access retried */
    bool is_further;    /* another page of the same block was just asked for */
} pw_access;

enum pw_access_outcome {
    PW_ACCESS_PRESENT,
    PW_ACCESS_FAULT,   /* the page is not there, or not for this access; page-in may help */
    PW_ACCESS_BLOCKED, /* the page is there, an active fault of the bank stops the access */
    PW_ACCESS_REFUSED  /* the access can never be done */
};

typedef struct {
    enum pw_access_outcome outcome;
    int code;               /* REFUSED: PW_ERR_* */
    bool is_permission;     /* FAULT: the page's protection stops it, not its absence */
    uint32_t how;           /* it was translated, for pw_smmu_latency_ns */
    pw_time delay_ns;       /* of the translation; 0 when it was paid for */
    pw_time fault_until_ns; /* a fault of the bank is active until then; INT64_MIN: none is */
} pw_access_result;

typedef struct pw_translation_unit pw_translation_unit;

typedef struct {
    void (*access)(pw_translation_unit *unit, pw_residency *residency, const pw_access *access,
                   pw_access_result *result);
} pw_translation_ops;

struct pw_translation_unit {
    const pw_translation_ops *ops;
    pw_memory *memory;
    const pw_presence *presence;
    bool ideal; /* mapped pages never fault, and nothing is paged in */
    pw_smmu *smmu;
};

/* The SMMU as translation unit. */
void pw_translation_init(pw_translation_unit *unit, pw_smmu *smmu, pw_memory *memory,
                         const pw_presence *presence, bool ideal);

static inline void pw_translate(pw_translation_unit *unit, pw_residency *residency,
                                const pw_access *access, pw_access_result *result)
{
    unit->ops->access(unit, residency, access, result);
}
#endif
