/* SMMU: context banks with ARM's fault registers, L1 and L2 TLB, page walk [PART 4.3, PSI 3.2.1].
 * Terminate with HUPCF = 1 (a fault does not disturb later accesses) or 0 (while it is active every later
 * access of the bank is terminated). A bank shows its last fault, active from fault_ns until clear_ns, since
 * frames arrive physically out of order. Not here yet: stall, walk cache, prefetch buffer, permission faults, limit of outstanding translations. The walk's answer
 * comes from the caller's snapshot (walk.h); the TLBs decide what a translation costs. Not thread-safe. */
#ifndef PW_SMMU_SMMU_H
#define PW_SMMU_SMMU_H
#include "native/config.h"
#include "native/tcache.h"

#define PW_CONTEXT_BANKS_MAX 128
#define PW_FAULTS_KEPT 32       /* times of a bank's latest faults: frames may be here before earlier ones */

/* cdef begin */
#define PW_FSR_TF (1u << 1)         /* translation fault */
#define PW_FSR_PF (1u << 3)         /* permission fault */
#define PW_FSR_MULTI (1u << 31)
#define PW_FSYNR0_WNR (1u << 4)     /* 1: write, the destination side */
#define PW_SCTLR_M (1u << 0)
#define PW_SCTLR_CFRE (1u << 5)
#define PW_SCTLR_CFIE (1u << 6)
#define PW_SCTLR_CFCFG (1u << 7)    /* 0 terminate, 1 stall */
#define PW_SCTLR_HUPCF (1u << 8)     /* 0: while a fault is active every access of the bank fails */

typedef struct {
    uint32_t pdid;              /* 0: bank not in use */
    uint32_t sctlr, fsr, far, far_high, fsynr0;
    int64_t fault_ns;           /* when FSR was set */
    int64_t clear_ns;           /* when the handler writes FSR back */
} pw_context_bank;
/* cdef end */

typedef struct {
    const pw_costs *costs;
    pw_counters *counters;
    uint32_t num_banks;
    uint32_t sctlr;             /* of every bank */
    pw_context_bank banks[PW_CONTEXT_BANKS_MAX];
    struct { pw_time fault_ns, clear_ns; } active[PW_CONTEXT_BANKS_MAX][PW_FAULTS_KEPT];    /* ring a bank */
    uint32_t num_faults[PW_CONTEXT_BANKS_MAX];
    pw_tcache *l1, *l2;
    pw_time l1_hit_ns, l2_hit_ns;
} pw_smmu;

int pw_smmu_init(pw_smmu *smmu, const pw_costs *costs, const pw_settings *settings, pw_counters *counters);
void pw_smmu_destroy(pw_smmu *smmu);
/* Bind a bank to a protection domain: its index or PW_ERR_FULL. */
int pw_smmu_bind(pw_smmu *smmu, uint16_t pdid);
/* The bank of a PDID, NULL when there is none (NACK 3). */
pw_context_bank *pw_smmu_bank(pw_smmu *smmu, uint16_t pdid);
/* Translate one page whose walk would find it present or not: what the translation takes. A cached
 * translation of an absent page is stale: dropped and counted. */
pw_time pw_smmu_translate(pw_smmu *smmu, uint16_t pdid, uint64_t page, bool present);
/* Record a translation fault. True when FSR was clear at that time, so that an interrupt is raised;
 * else only MULTI is set. */
bool pw_smmu_record_fault(pw_smmu *smmu, pw_context_bank *bank, pw_time at_ns, uint64_t address, bool is_write);
/* The handler writes FSR back at at_ns: the fault recorded last is active until then. */
void pw_smmu_clear_fault(pw_smmu *smmu, pw_context_bank *bank, pw_time at_ns);
/* With HUPCF = 0 an access at at_ns is terminated, whatever its page, while a fault from before is active:
 * until when, or INT64_MIN when it is not. */
pw_time pw_smmu_blocked_until(const pw_smmu *smmu, const pw_context_bank *bank, pw_time at_ns);
static inline bool pw_smmu_is_blocked(const pw_smmu *smmu, const pw_context_bank *bank, pw_time at_ns)
{
    return pw_smmu_blocked_until(smmu, bank, at_ns) != INT64_MIN;
}
/* Shootdown after the OS changed a mapping. */
void pw_smmu_invalidate(pw_smmu *smmu, uint16_t pdid, uint64_t first_page, uint64_t num_pages);
#endif
