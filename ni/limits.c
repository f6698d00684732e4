/* What numbers an NI can be made with. */
#include "ni/ni.h"
#include "ni/packetizer.h"
#include "native/fields.h"
#include "native/tcache.h"
#include "smmu/ats/ats.h"
#include "smmu/mini/mini.h"
#include "smmu/odp/odp.h"
#include "smmu/utlb/utlb.h"
#include "smmu/smmu.h"
#include <inttypes.h>
#include <stdio.h>

typedef struct {
    size_t offset; /* of an int64_t */
    int64_t min, max;
    const char *name;
    bool power_of_two;
} limit;

typedef struct {
    const char *name;
    int64_t value;
    limit limit;         /* that the value is outside of, when there is no */
    const char *because; /* the value does not go with others */
} refusal;

#define SETTING(field, min, max) {offsetof(pw_settings, field), min, max, #field, false}
#define POWER_OF_TWO(field, max) {offsetof(pw_settings, field), 1, max, #field, true}
#define COST(field, min, max) {offsetof(pw_costs, field), min, max, #field, false}
/* Longer than any part of a machine takes; sums and products of a run stay in range. */
#define TIME_MAX_NS INT64_C(1000000000)

static const limit of_settings[] = {
    SETTING(window_blocks, 1, PW_WINDOW_MAX),
    {offsetof(pw_settings, block_bytes), PW_PAGE_BYTES, PW_BLOCK_BYTES, "block_bytes", true},
    SETTING(tick_ns, 1, INT64_MAX),
    SETTING(mailbox_entries, 1, UINT32_MAX),
    SETTING(policy, PW_POLICY_PAGE, PW_POLICY_HOST),
    SETTING(err_by, PW_ERRS_BY_LIBRARY, PW_ERRS_BY_HOST),
    SETTING(err_after, PW_ERRS_AFTER_RUN, PW_ERRS_AFTER_PAGE),
    SETTING(engine, PW_ENGINE_FRDMA, PW_ENGINE_ZDMA),
    SETTING(network_model, PW_NETWORK_PRIVATE, PW_NETWORK_PACKETS),
    SETTING(network_wait_limit_ns, 0, TIME_MAX_NS * 3600),
    SETTING(network_quantum_bytes, PW_PACKET_BYTES, PW_BLOCK_BYTES),
    SETTING(multipath, 1, 64),
    SETTING(rate_limit_mbps, 0, 1000000),
    SETTING(timeout_from, PW_TIMEOUT_FIXED, PW_TIMEOUT_MEASURED),
    SETTING(congestion, PW_CONGESTION_NONE, PW_CONGESTION_DELAY),
    SETTING(interleave, PW_INTERLEAVE_NONE, PW_INTERLEAVE_PACKET),
    SETTING(num_context_banks, 1, PW_CONTEXT_BANKS_MAX),
    SETTING(parallel_walks, 1, PW_WALKERS_MAX),
    SETTING(outstanding_accesses, 1, PW_OUTSTANDING_MAX),
    SETTING(ni_fifo_depth, 1, PW_NI_FIFO_DEPTH),
    SETTING(ni_fifo_remembers, 1, 2),
    SETTING(tasklet_entries, 1, UINT32_MAX),
    SETTING(touch_ahead_pages, 1, PW_TOUCH_AHEAD_PAGES_MAX),
    POWER_OF_TWO(l1_sets, PW_TCACHE_SETS_MAX),
    SETTING(l1_ways, 0, PW_TCACHE_WAYS_MAX), /* 0: none */
    POWER_OF_TWO(l2_sets, PW_TCACHE_SETS_MAX),
    SETTING(l2_ways, 0, PW_TCACHE_WAYS_MAX),
    POWER_OF_TWO(tlb_line_pages, PW_TCACHE_LINE_PAGES_MAX),
    SETTING(walk_cache_entries, 0, PW_TCACHE_WAYS_MAX),
    SETTING(prefetch_entries, 0, PW_TCACHE_WAYS_MAX),
    SETTING(translation, PW_TRANSLATION_SMMU, PW_TRANSLATION_BACKUP_RING),
    SETTING(mini_processes, 1, PW_MINI_PROCESSES_MAX),
    POWER_OF_TWO(vmh_entries, PW_VMH_ENTRIES_MAX),
    POWER_OF_TWO(vmh_line_pages, PW_LINE_PAGES_MAX),
    POWER_OF_TWO(vmh_ways, PW_TCACHE_WAYS_MAX),
    POWER_OF_TWO(cbh_entries, PW_VMH_ENTRIES_MAX),
    POWER_OF_TWO(cbh_ways, PW_TCACHE_WAYS_MAX),
    SETTING(vmh_high_pages, 0, INT64_MAX),
    SETTING(vmh_low_pages, 0, INT64_MAX),
    SETTING(vmh_check_ns, 1, INT64_MAX),
    SETTING(miss_times, PW_MISS_TIMES_PLATFORM, PW_MISS_TIMES_RAYTRACE),
    SETTING(static_pages, 1, INT64_C(1) << 40),
    SETTING(static_buffers, 1, 1 << 20),
    SETTING(nic_memory_bytes, 1, INT64_MAX),
    SETTING(odp_rnr_ns, 1, TIME_MAX_NS * 3600),
    SETTING(odp_fault_pages, 1, PW_ODP_FAULT_PAGES_MAX),
    SETTING(odp_backup_blocks, 0, PW_OCCUPANCY_KEPT),
    POWER_OF_TWO(ats_cache_entries, PW_ATS_CACHE_ENTRIES_MAX),
    SETTING(ats_group_pages, 1, PW_ATS_GROUP_PAGES_MAX),
    SETTING(ats_outstanding, 1, PW_OCCUPANCY_KEPT),
    SETTING(ats_queue_entries, 1, PW_ATS_QUEUE_ENTRIES_MAX),
    SETTING(ats_handlers, 1, PW_ATS_HANDLERS_MAX),
    SETTING(ats_while_pending, PW_PENDING_BUFFER, PW_PENDING_DROP),
    SETTING(ats_buffer_blocks, 0, PW_OCCUPANCY_KEPT),
    POWER_OF_TWO(utlb_cache_entries, PW_UTLB_ENTRIES_MAX),
    SETTING(utlb_fetch_entries, 1, PW_UTLB_FETCH_MAX),
    SETTING(mailbox_fifo_words, 1, 65536),
    SETTING(mailbox_bursts, PW_BURSTS_HARDWARE, PW_BURSTS_WHOLE),
    SETTING(shared_memory_bytes, PW_PAGE_BYTES, INT64_C(1) << 40),
};

/* All others are times. */
static const limit of_costs[] = {
    COST(nodes_per_qfdb, 1, INT32_MAX),           COST(link_mbps, 1, INT32_MAX),
    COST(link_between_mbps, 1, INT32_MAX),        COST(link_coding_permille, 1, 1000),
    COST(receive_engine_mbps, 1, INT32_MAX),      COST(packetizer_payload_bytes, 1, INT32_MAX),
    COST(walk_accesses, 1, PW_WALK_ACCESSES_MAX), COST(packetizer_writes, 0, 1000),
    COST(packet_header_bytes, 0, 1000000),        COST(smmu_clock_ps, 0, 1000000000),
    COST(tlb_l1_hit_clocks, 0, 1000000),          COST(tlb_l2_hit_clocks, 0, 1000000),
    COST(zdma_channels, 1, PW_WRITE_CHANNELS),    COST(zdma_packet_bytes, 1, PW_PACKET_BYTES),
    COST(zdma_outstanding, 1, PW_BLOCK_PACKETS),
};

static bool is_refused(const limit *limit, int64_t value)
{
    return value < limit->min || value > limit->max ||
           (limit->power_of_two && (value & (value - 1)) != 0);
}

static bool is_outside(const void *values, const limit *limit, refusal *out)
{
    int64_t value = *(const int64_t *)(const void *)((const char *)values + limit->offset);
    if (!is_refused(limit, value)) return false;
    *out = (refusal){limit->name, value, *limit, NULL};
    return true;
}

static bool first_setting_outside(const pw_settings *settings, refusal *out)
{
    for (size_t i = 0; i < sizeof of_settings / sizeof *of_settings; i++)
        if (is_outside(settings, &of_settings[i], out)) return true;
    return false;
}

static bool first_cost_outside(const pw_costs *costs, refusal *out)
{
    const size_t num_own = sizeof of_costs / sizeof *of_costs;
    for (uint32_t i = 0; i < pw_fields_costs.num_fields; i++) {
        const pw_field *field = &pw_fields_costs.fields[i];
        limit found = {field->offset, 0, TIME_MAX_NS, field->name, false};
        for (size_t own = 0; own < num_own; own++)
            if (of_costs[own].offset == field->offset) found = of_costs[own];
        if (is_outside(costs, &found, out)) return true;
    }
    return false;
}

static bool is_above_nic_memory(const pw_settings *settings)
{
    pw_nic_memory memory;
    pw_nic_memory_of(settings, &memory);
    return memory.total_bytes > settings->nic_memory_bytes;
}

/* What miNI and its base system do not go with, and what their caches are made of. */
static void first_clash_of_units(const pw_settings *settings, const char **name, int64_t *value,
                                 const char **because)
{
    const pw_unit_traits traits = pw_translation_traits(settings->translation);
    *name = "translation", *value = settings->translation;
    if (settings->vmh_ways < 2 ||
        settings->vmh_line_pages * settings->vmh_ways > settings->vmh_entries) {
        *name = "vmh_ways", *value = settings->vmh_ways;
        *because = "a set has at least two ways, since a line in use cannot be replaced, and "
                   "pages of a line x ways are at most the entries; take fewer ways, shorter "
                   "lines or a larger cache";
    } else if (settings->cbh_ways < 2 || settings->cbh_ways > settings->cbh_entries) {
        *name = "cbh_ways", *value = settings->cbh_ways;
        *because = "a set has at least two ways, and at most as many as there are entries; take "
                   "another number";
    } else if (settings->vmh_low_pages > settings->vmh_high_pages) {
        *name = "vmh_low_pages", *value = settings->vmh_low_pages;
        *because = "the low water mark is above the high one (vmh_high_pages); take a lower one";
    } else if (traits.has_fault_registers) {
        *name = NULL;
    } else if (is_above_nic_memory(settings)) {
        *name = "nic_memory_bytes", *value = settings->nic_memory_bytes;
        *because = "what stands on the NIC does not fit; take smaller tables or caches, fewer "
                   "processes, or more memory";
    } else if (settings->stall || !settings->hupcf || settings->ideal) {
        *because = "only the SMMU has fault registers, and pages that are not pinned; take "
                   "translation = 0, or stall = 0, hupcf = 1 and ideal = 0";
    } else if (!traits.takes_pairs && settings->interleave != PW_INTERLEAVE_NONE) {
        *because = "only PART is told of packets of two blocks in turn; take interleave = 0";
    } else if (traits.needs_timeout && settings->timeout_ns < 0) {
        *because = "a packet that misses is dropped, and only a timeout brings it again; set "
                   "timeout_ns";
    } else *name = NULL;
}

/* Settings that are fine alone, and not together. */
static bool first_clash(const pw_settings *settings, refusal *out)
{
    bool asks_host = pw_asks_host(settings);
    const char *name = NULL, *because = NULL;
    int64_t value = 0;
    if (asks_host && settings->stall) {
        bool by_policy = settings->policy == PW_POLICY_HOST;
        name = by_policy ? "policy" : "err_by";
        value = by_policy ? settings->policy : settings->err_by;
        because = "an access that waits for RESUME (stall) cannot wait for a policy of the host "
                  "too; take a policy of the engine, or stall = 0";
    } else if (settings->interleave != PW_INTERLEAVE_NONE && (settings->stall || asks_host)) {
        name = "interleave", value = settings->interleave;
        because = "two blocks under way at once cannot wait, one inside the other, for RESUME "
                  "(stall) or a policy of the host; take interleave = 0";
    } else if (settings->stall && settings->page_in == PW_PAGE_IN_TOUCH_A_PAGE) {
        name = "page_in", value = settings->page_in;
        because = "the user-space thread cannot write RESUME, for which a stalled access waits; "
                  "take page_in = 0 (Touch-Ahead) or stall = 0";
    } else if (settings->page_in == PW_PAGE_IN_TOUCH_A_PAGE &&
               (settings->err_by != PW_ERRS_BY_LIBRARY || settings->err_after)) {
        name = settings->err_by ? "err_by" : "err_after";
        value = settings->err_by ? settings->err_by : settings->err_after;
        because = "the user-space thread touches the pages, so that it alone knows when they are "
                  "in; take page_in = 0 (Touch-Ahead), or err_by = 0 and err_after = 0";
    } else if (settings->l1_sets * settings->l1_ways * settings->tlb_line_pages >
               PW_TCACHE_TRANSLATIONS_MAX) {
        name = "l1_sets", value = settings->l1_sets;
        because = "sets x ways x pages of a line are above 2^24; take smaller ones";
    } else if (settings->l2_sets * settings->l2_ways * settings->tlb_line_pages >
               PW_TCACHE_TRANSLATIONS_MAX) {
        name = "l2_sets", value = settings->l2_sets;
        because = "sets x ways x pages of a line are above 2^24; take smaller ones";
    } else if (settings->engine == PW_ENGINE_ZDMA &&
               (!pw_translation_traits(settings->translation).has_fault_registers ||
                settings->interleave != PW_INTERLEAVE_NONE)) {
        name = "engine", value = settings->engine;
        because = "ZDMA sends nothing again, for which that unit would wait, and no two blocks in "
                  "turn; take engine = 0, or the SMMU and interleave = 0";
    } else first_clash_of_units(settings, &name, &value, &because);
    *out = (refusal){.name = name, .value = value, .because = because};
    return name != NULL;
}

static bool find(const pw_costs *costs, const pw_settings *settings, refusal *out)
{
    return first_setting_outside(settings, out) || first_cost_outside(costs, out) ||
           first_clash(settings, out);
}

const char *pw_ni_refused(const pw_costs *costs, const pw_settings *settings)
{
    refusal found;
    return find(costs, settings, &found) ? found.name : NULL;
}

bool pw_ni_explain_refusal(const pw_costs *costs, const pw_settings *settings, char *text,
                           size_t num_bytes)
{
    refusal found;
    if (!find(costs, settings, &found)) return false;
    if (found.because)
        snprintf(text, num_bytes, "%s = %" PRId64 ": %s", found.name, found.value, found.because);
    else
        snprintf(text, num_bytes, "%s = %" PRId64 ": allowed is %s from %" PRId64 " to %" PRId64,
                 found.name, found.value,
                 found.limit.power_of_two ? "a power of two" : "a whole number", found.limit.min,
                 found.limit.max);
    return true;
}
