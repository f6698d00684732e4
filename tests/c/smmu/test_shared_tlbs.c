/* SMMUs of one node that share TLBs: ASIDs tell apart what their processes have there. */
#include <assert.h>

#include "smmu/smmu.h"

enum { PDID = 7, PAGE = 100 };

static const pw_costs costs = {.walk_accesses = 3, .walk_ns = 300};

typedef struct {
    pw_counters counters;
    pw_smmu smmu;
} unit;

static void begin(unit *self)
{
    static const pw_settings settings = {.num_context_banks = 2,
                                         .l1_sets = 1,
                                         .l1_ways = 8,
                                         .l2_sets = 1,
                                         .l2_ways = 8,
                                         .tlb_line_pages = 1,
                                         .parallel_walks = 1,
                                         .outstanding_accesses = 4};
    *self = (unit){0};
    assert(pw_smmu_init(&self->smmu, &costs, &settings, &self->counters) == PW_OK);
    assert(pw_smmu_bind(&self->smmu, PDID) == 0);
}

/* How the page is found: enum pw_translation. */
static uint32_t found(unit *self)
{
    uint32_t how;
    pw_smmu_translate(&self->smmu, PDID, PAGE, true, false, 0, &how);
    return how < PW_TRANSLATION_WALK ? how : PW_TRANSLATION_WALK;
}

int main(void)
{
    unit first, second;
    begin(&first);
    begin(&second);
    assert(pw_smmu_share(&second.smmu, &first.smmu) == PW_OK);

    /* the same domain's number and page, in two processes */
    assert(found(&first) == PW_TRANSLATION_WALK && found(&first) == PW_TRANSLATION_L1);
    assert(found(&second) == PW_TRANSLATION_WALK && found(&second) == PW_TRANSLATION_L1);

    /* by address and by context: the process's own; all: everybody's */
    pw_smmu_invalidate(&first.smmu, PDID, PAGE, 1);
    assert(found(&second) == PW_TRANSLATION_L1 && found(&first) == PW_TRANSLATION_WALK);
    pw_smmu_invalidate(&second.smmu, PDID, 0, PW_ALL_PAGES);
    assert(found(&first) == PW_TRANSLATION_L1 && found(&second) == PW_TRANSLATION_WALK);
    pw_smmu_invalidate(&second.smmu, PDID + 1, 0, PW_ALL_PAGES); /* which has no bank */
    assert(found(&first) == PW_TRANSLATION_L1);
    pw_smmu_invalidate(&second.smmu, 0, 0, PW_ALL_PAGES);
    assert(found(&first) == PW_TRANSLATION_WALK);

    /* a domain that comes later has an ASID too, as long as there are some */
    assert(pw_smmu_bind(&second.smmu, PDID + 1) == 1 && first.smmu.tlbs->num_asids == 3);
    first.smmu.tlbs->num_asids = UINT16_MAX;
    assert(pw_smmu_bind(&first.smmu, PDID + 1) == PW_ERR_FULL);
    assert(!pw_smmu_bank(&first.smmu, PDID + 1));
    pw_smmu_destroy(&second.smmu);
    pw_smmu_destroy(&first.smmu);
    return 0;
}
