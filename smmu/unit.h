/* Address translation: what any unit answers to an access, the SMMU, the units of other NICs.
 *
 * One access of the NI to one page: can it be done, and when? Source, destination, notification and
 * stalled accesses all ask here. What stands behind it is a translation unit: the SMMU, with a UTLB
 * cache in place of its TLBs (utlb/), miNI's caches or the static tables of its base system
 * (mini/), the table of a NIC with on-demand paging, or NP-RDMA's (odp/). units.c has them all. Not
 * thread-safe. */
#ifndef PW_SMMU_UNIT_H
#define PW_SMMU_UNIT_H
#include "native/costs.h"
#include "native/counters.h"
#include "native/memory.h"
#include "native/pinned.h"
#include "native/receiver.h"
#include "native/settings.h"
#include "smmu/presence.h"
#include "smmu/residency.h"
#include "smmu/smmu.h"

typedef struct {
    uint64_t page;
    uint64_t end_page; /* behind the transfer: so far a walk may look ahead */
    pw_time at_ns;     /* PW_NEVER: ahead of time, books nothing */
    pw_time use_ns;    /* so long the engine's DMA uses the page from then on */
    uint16_t pdid;
    bool is_translated; /* the translation was paid for: a further packet, or the access retried */
    bool is_further;    /* another page of the same block was just asked for */
} pw_access;

enum pw_access_outcome {
    PW_ACCESS_PRESENT,
    PW_ACCESS_FAULT,   /* the page is not there, or not for this access; page-in may help */
    PW_ACCESS_BLOCKED, /* the page is there, an active fault of the bank stops the access */
    PW_ACCESS_DROPPED, /* the NI has no translation yet: a packet that arrives is dropped without
                          an answer */
    PW_ACCESS_REFUSED  /* the access can never be done */
};

typedef struct {
    enum pw_access_outcome outcome;
    int code;              /* REFUSED: PW_ERR_* */
    bool is_permission;    /* FAULT: the page's protection stops it, not its absence */
    bool block_waits;      /* the whole block waits for delay_ns, whichever of its pages this is */
    uint32_t how;          /* it was translated, for pw_translation_latency_ns */
    pw_time ready_ns;      /* DROPPED: the page can be used from then on, if the unit knows */
    pw_time delay_ns;      /* of the translation; 0 when it was paid for */
    uint32_t num_paged_in; /* the unit found the page absent, and brings so many in */
    pw_time page_in_ns, paged_in_ns; /* from then until then */
    pw_time fault_until_ns; /* a fault of the bank is active until then; INT64_MIN: none is */
} pw_access_result;

typedef struct pw_translation_unit pw_translation_unit;

typedef struct {
    void (*access)(pw_translation_unit *unit, pw_residency *residency, const pw_access *access,
                   pw_access_result *result);
    /* The same page again, for a word that is written beside the data: only what it takes. */
    pw_time (*word)(pw_translation_unit *unit, uint16_t pdid, uint64_t page, pw_time at_ns);
    /* What a translation takes that waits for nothing. */
    pw_time (*latency_ns)(const pw_translation_unit *unit, uint32_t how);
    /* Would a look-up of the page, now, be a hit? How, then; nothing changes by the question. NULL:
     * the unit does not tell. */
    bool (*would_hit)(const pw_translation_unit *unit, uint16_t pdid, uint64_t page, uint32_t *how);
    /* A process with this protection domain; PW_ERR_CONTEXT when there is no room for one more. */
    int (*open)(pw_translation_unit *unit, uint16_t pdid);
    bool (*is_open)(pw_translation_unit *unit, uint16_t pdid);
    /* These three are NULL in a unit that knows of no buffers. A buffer is registered; PW_ERR_FULL
     * when the unit has no room for one more. */
    int (*open_buffer)(pw_translation_unit *unit, uint32_t num_open);
    /* Look up the buffer that a request or packet names, by its id, which came at at_ns; is_known:
     * it is registered. Later than at_ns: it was dropped, and the unit has the entry from then on.
     */
    pw_time (*find_buffer)(pw_translation_unit *unit, uint16_t pdid, uint64_t buffer, bool is_known,
                           pw_time at_ns);
    void (*close_buffer)(pw_translation_unit *unit, uint64_t buffer);
    /* Shootdown: translations of a range, of a process (PW_ALL_PAGES), all (and pdid 0). How long
     * the OS waits for it, before it lets the page go. */
    pw_time (*invalidate)(pw_translation_unit *unit, uint16_t pdid, uint64_t first_page,
                          uint64_t num_pages);
    /* The driver is told at at_ns of what will be written; NULL: the unit has no use for it. */
    int (*advise)(pw_translation_unit *unit, uint16_t pdid, uint64_t first_page, uint64_t num_pages,
                  pw_time at_ns);
    void (*destroy)(pw_translation_unit *unit);
    bool is_certain; /* a page that is present stays so: answers can be foreseen */
} pw_translation_ops;

/* What a unit may use of its NI; all of it outlives the unit. */
typedef struct {
    const pw_costs *costs;
    const pw_settings *settings;
    pw_counters *counters;
    pw_memory *memory;
    pw_smmu *smmu;
    const pw_presence *presence;
} pw_unit_parts;

struct pw_translation_unit {
    const pw_translation_ops *ops;
    pw_memory *memory;
    pw_smmu *smmu;          /* contexts and TLBs; NULL: it has its own */
    pw_time find_buffer_ns; /* that a look-up of a buffer takes */
    pw_receiver_rules receiver;
    uint32_t buffer_bits;    /* of a buffer's id in a key that is drawn; 0: keys are not drawn */
    const pw_pinned *pinned; /* what the unit keeps pinned by itself; NULL: it never does */
};

/* The beginning of an access of a unit that goes by the OS's table: what that has of the page,
 * PW_PAGE_*, or a code, which is in *result then: refused. */
int pw_translation_begin(const pw_translation_unit *unit, pw_residency *residency,
                         const pw_access *access, pw_access_result *result);

/* The unit of parts->settings->translation. PW_ERR_NOMEM, or PW_ERR_INVALID for the settings. */
int pw_translation_create(const pw_unit_parts *parts, pw_translation_unit **out);

/* What goes with a unit. */
typedef struct {
    bool has_fault_registers; /* stall, hupcf and ideal are of these */
    bool takes_pairs;         /* blocks whose packets take turns */
    bool needs_timeout;       /* else what it drops never comes again */
} pw_unit_traits;
pw_unit_traits pw_translation_traits(int64_t translation);

/* cdef begin */
/* What the memory of the NIC holds, in bytes, for the unit and its settings: a table like the
 * thesis's 1.1 [MINI 1.2, 3]. */
typedef struct {
    int64_t code_bytes, buffer_bytes; /* program; data on its way */
    int64_t vmh_bytes, cbh_bytes, imported_bytes, process_bytes;
    int64_t total_bytes;
} pw_nic_memory;

void pw_nic_memory_of(const pw_settings *settings, pw_nic_memory *out);
/* cdef end */

static inline void pw_translation_destroy(pw_translation_unit *unit)
{
    if (unit) unit->ops->destroy(unit);
}

static inline void pw_translate(pw_translation_unit *unit, pw_residency *residency,
                                const pw_access *access, pw_access_result *result)
{
    unit->ops->access(unit, residency, access, result);
}

static inline pw_time pw_translation_latency_ns(const pw_translation_unit *unit, uint32_t how)
{
    return unit->ops->latency_ns(unit, how);
}

static inline bool pw_translation_is_open(pw_translation_unit *unit, uint16_t pdid)
{
    return unit->ops->is_open(unit, pdid);
}
#endif
