/* SMMU: context banks with ARM's fault registers, L1 and L2 TLB, walk cache, prefetch buffer,
 * walkers [PART 4.3, PSI 3.2.1].
 *
 * Terminate (CFCFG = 0): a faulting access is not done. HUPCF = 1: a fault does not disturb later
 * accesses; HUPCF = 0: while it is active, until the handler writes FSR back, every access of the
 * bank is terminated. Stall (CFCFG = 1): a faulting access waits, and FSR stays non-zero (SS),
 * until software writes RESUME; all that waits is then retried in the order of arrival. HUPCF = 1:
 * accesses that find their page go on, one that faults meanwhile sets MULTI and waits too; HUPCF =
 * 0: every access of the bank waits.
 *
 * A fault sets MULTI alone while FSR is not zero, in the order of virtual time. Assumed: with HUPCF
 * = 1 a fault at the source is not hidden by one at the destination, nor the other way round.
 * Packets that fault at the destination keep FSR busy, so a source of the same bank would need a
 * timeout for each page; the thesis sees about one in all [PSI 4, Fig. 4.6].
 *
 * A bank shows its last fault, active from fault_ns until clear_ns, since frames arrive physically
 * out of order. The walk's answer comes from the caller's snapshot (walk.h); this decides what a
 * translation costs. Not thread-safe. */
#ifndef PW_SMMU_SMMU_H
#define PW_SMMU_SMMU_H
#include "native/calendar.h"
#include "native/costs.h"
#include "native/counters.h"
#include "native/settings.h"
#include "native/tcache.h"
#include "native/trace.h"

#define PW_CONTEXT_BANKS_MAX 128
#define PW_FAULTS_KEPT \
    32 /* times of a bank's latest faults: frames may be here before earlier ones */
#define PW_WALKERS_MAX 16
#define PW_OUTSTANDING_MAX PW_OCCUPANCY_KEPT
#define PW_WALK_ACCESSES_MAX 8

/* cdef begin */
#define PW_FSR_TF (1u << 1)  /* translation fault */
#define PW_FSR_PF (1u << 3)  /* permission fault */
#define PW_FSR_SS (1u << 30) /* an access is stalled: stays until RESUME */
#define PW_FSR_MULTI (1u << 31)
#define PW_FSYNR0_WNR (1u << 4) /* 1: write, the destination side */
#define PW_SCTLR_M (1u << 0)
#define PW_SCTLR_CFRE (1u << 5)
#define PW_SCTLR_CFIE (1u << 6)
#define PW_SCTLR_CFCFG (1u << 7) /* 0 terminate, 1 stall */
#define PW_SCTLR_HUPCF (1u << 8) /* 0: an active fault meets every access of the bank */
#define PW_RESUME_RETRY 0
#define PW_RESUME_TERMINATE 1

typedef struct {
    uint32_t pdid; /* 0: bank not in use */
    uint32_t sctlr, fsr, far, far_high, fsynr0;
    int64_t fault_ns; /* when FSR was set */
    int64_t clear_ns; /* when the handler writes FSR back, or the tasklet RESUME */
    uint32_t resume;  /* last written: PW_RESUME_* */
    uint32_t asid;    /* tags translations, where processes of several NIs have the SMMU; else 0 */
} pw_context_bank;
/* cdef end */

/* When FSR was not zero. */
typedef struct {
    pw_time fault_ns, clear_ns;
    bool is_write;
} pw_smmu_fault;

/* Of a bank. */
typedef struct {
    uint32_t num_faults;
    pw_time quiet_ns;                     /* none is active from then on; PW_NEVER: one is */
    pw_smmu_fault active[PW_FAULTS_KEPT]; /* ring */
} pw_bank_faults;

/* What translates for all banks. */
typedef struct {
    pw_tcache *l1, *l2;
    pw_tcache *walk_cache, *prefetch; /* NULL: none */
    pw_calendar walkers[PW_WALKERS_MAX];
    uint32_t num_asids; /* given to banks */
} pw_tlbs;

typedef struct {
    const pw_costs *costs;
    pw_counters *counters;
    pw_trace *trace; /* NULL: none */
    uint32_t num_banks;
    uint32_t sctlr; /* of every bank */
    pw_context_bank *banks;
    pw_bank_faults **faults; /* by bank; NULL: it is not bound */
    pw_tlbs own_tlbs, *tlbs; /* the latter of one SMMU of the node */
    bool is_shared;          /* with another one, whoever's they are */
    pw_time l1_hit_ns, l2_hit_ns;
    uint32_t num_walkers, max_outstanding;
    int64_t invalidate;       /* PW_INVALIDATE_* */
    pw_occupancy outstanding; /* stalled accesses */
} pw_smmu;

/* How a translation was found; what it takes follows from that. WALK + n: a walk of n memory
 * accesses. */
enum pw_translation { PW_TRANSLATION_L1, PW_TRANSLATION_L2, PW_TRANSLATION_WALK };
_Static_assert(PW_TRANSLATION_WALK + PW_WALK_ACCESSES_MAX < 16, "a grant frame keeps four bits");

/* costs and settings are within the NI's limits (ni/limits.c). */
int pw_smmu_init(pw_smmu *smmu, const pw_costs *costs, const pw_settings *settings,
                 pw_counters *counters);
void pw_smmu_destroy(pw_smmu *smmu);
/* Both are one SMMU of a node: its TLBs and walkers are those of `with`, which must live as long as
 * this one translates. Before the first translation. PW_ERR_FULL: no ASID is left. */
int pw_smmu_share(pw_smmu *smmu, pw_smmu *with);
/* Bind a bank to a protection domain: its index, PW_ERR_FULL or PW_ERR_NOMEM. */
int pw_smmu_bind(pw_smmu *smmu, uint16_t pdid);
/* The bank of a PDID, NULL when there is none (NACK 3). */
pw_context_bank *pw_smmu_bank(pw_smmu *smmu, uint16_t pdid);
/* What tells the domain from those of all NIs of the node: the PDID where there is one NI, else the
 * ASID; 0: it has no bank here. And the domain of the tag. */
uint16_t pw_smmu_tag(pw_smmu *smmu, uint16_t pdid);
uint16_t pw_smmu_of_tag(const pw_smmu *smmu, uint16_t tag);
/* Translate one page whose walk would find it present or not: what the translation takes, and how
 * it was found. A cached translation of an absent page is stale: dropped and counted. next_present:
 * the page behind may be prefetched. at_ns: of the access, or PW_NEVER when it is ahead of time and
 * books no walker. */
pw_time pw_smmu_translate(pw_smmu *smmu, uint16_t pdid, uint64_t page, bool present,
                          bool next_present, pw_time at_ns, uint32_t *how);
/* Would a TLB have it now? How, then. Nothing is looked up by this. */
bool pw_smmu_would_hit(pw_smmu *smmu, uint16_t pdid, uint64_t page, uint32_t *how);
/* What a translation takes that waits for nothing. */
pw_time pw_smmu_latency_ns(const pw_smmu *smmu, uint32_t how);
/* Record a translation or permission fault. True when FSR was clear at that time, so that an
 * interrupt is raised; else only MULTI is set. */
bool pw_smmu_record_fault(pw_smmu *smmu, pw_context_bank *bank, pw_time at_ns, uint64_t address,
                          bool is_write, bool is_permission);
/* The handler writes FSR back at at_ns: the fault recorded last is active until then. */
void pw_smmu_clear_fault(pw_smmu *smmu, pw_context_bank *bank, pw_time at_ns);
/* With HUPCF = 0 an access at at_ns is terminated, whatever its page, while a fault from before is
 * active. */
bool pw_smmu_is_blocked(const pw_smmu *smmu, const pw_context_bank *bank, pw_time at_ns);
/* A fault of the bank is active at at_ns, whatever HUPCF: until when, or INT64_MIN. */
pw_time pw_smmu_active_until(const pw_smmu *smmu, const pw_context_bank *bank, pw_time at_ns);
/* Stall: the driver writes RESUME at at_ns; the fault recorded last is active until then. */
void pw_smmu_resume(pw_smmu *smmu, pw_context_bank *bank, pw_time at_ns, uint32_t value);
/* When an access that comes at at_ns finds room among the outstanding ones, and that one waits. */
pw_time pw_smmu_admit(pw_smmu *smmu, pw_time at_ns);
void pw_smmu_hold(pw_smmu *smmu, pw_time since_ns, pw_time until_ns);
/* Shootdown after the OS changed a mapping: by address, by context (PW_ALL_PAGES), of everything
 * (all pages, pdid 0); of more than it asks for where smmu.invalidate says so. Each is counted, and
 * the translations that it dropped. A change that nobody announces is noticed when a walk
 * contradicts a cached translation, and counts as a shootdown by address then: the translation was
 * of no use to any access in between, so the virtual times are the same as if the OS had announced
 * it. */
void pw_smmu_invalidate(pw_smmu *smmu, uint16_t pdid, uint64_t first_page, uint64_t num_pages);
void pw_shootdown_count(pw_counters *counters, uint16_t pdid, uint64_t num_pages);
#endif
