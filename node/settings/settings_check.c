/* Which settings do not go together. Each sentence names the settings, their values, why, and what
 * to take instead; Python asks here too (run/settings/config.py). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/settings/config.h"
#include "native/fields.h"
#include "node/settings/setting_rows.h"
#include "node/strategies/strategy.h"
#include "smmu/unit.h"

#define REFUSE(...) return pw_sentence_refuse(reason, PW_ERR_INVALID, __VA_ARGS__)
#define SITE_BYTES 96

/* The name of a choice's number. */
static const char *name_of(const char *setting, int64_t number)
{
    const pw_setting_row *row = pw_setting_row_find(setting, strlen(setting));
    for (const pw_setting_choice *each = row->choices; each->text; each++)
        if (each->number == number) return each->text;
    return "";
}

static int check_transport(const pw_node_run *run, pw_sentence *reason)
{
    const bool on_fabric = run->transport == PW_TRANSPORT_FABRIC;
    const bool has_wire =
        run->wire == PW_CARRIER_AUTO || (run->wire != PW_CARRIER_MPI) == on_fabric;
    const bool is_virtual = run->clocks == PW_CLOCKS_VIRTUAL;
    if (!has_wire)
        REFUSE("run.wire = '%s' with run.transport = '%s': allowed is one of %s",
               name_of("run.wire", run->wire), name_of("run.transport", run->transport),
               on_fabric ? "auto, shm, tcp" : "auto, mpi");
    if (!on_fabric && is_virtual)
        REFUSE("run.clocks = 'virtual' with run.transport = 'facade': there a program's sleeps "
               "follow run.wtime; take run.transport = 'fabric'");
    if (is_virtual && run->wtime == PW_WTIME_WALL)
        REFUSE("run.clocks = 'virtual' with run.wtime = 'wall': MPI_Wtime would be the only clock "
               "of this host; take run.wtime = 'virtual'");
    if (on_fabric && run->compute == PW_COMPUTE_MODEL)
        REFUSE("run.compute = 'model' with run.transport = 'fabric': no program below the MPI "
               "library declares its work; take measured, replay or none");
    return PW_OK;
}

static int check_run(const pw_node_config *config, pw_sentence *reason)
{
    const pw_node_run *run = &config->run;
    if (run->compute == PW_COMPUTE_REPLAY && !run->compute_replay[0])
        REFUSE("run.compute = 'replay' has nothing to replay: set run.compute_replay to the file "
               "of an earlier run.compute_record");
    if (config->settings.nack_cancels_timer && !config->settings.err_enabled)
        REFUSE("run.nack_cancels_timer = true with run.err = false: a NACK would stop the timer "
               "and nothing would send the block again; allow ERRs");
    return check_transport(run, reason);
}

static int check_sizes(const pw_settings *s, pw_sentence *reason)
{
    if (s->vmh_line_pages * s->vmh_ways > s->vmh_entries)
        REFUSE("mini.vmh_entries = %" PRId64 " with lines of %" PRId64 " pages and %" PRId64
               " ways: one set has %" PRId64
               " entries; take a larger cache, shorter lines or fewer ways",
               s->vmh_entries, s->vmh_line_pages, s->vmh_ways, s->vmh_line_pages * s->vmh_ways);
    if (s->cbh_ways > s->cbh_entries)
        REFUSE("mini.cbh_ways = %" PRId64 " with mini.cbh_entries = %" PRId64
               ": at most as many ways as entries",
               s->cbh_ways, s->cbh_entries);
    if (s->vmh_low_pages > s->vmh_high_pages)
        REFUSE("mini.low_water_pages = %" PRId64 " with mini.high_water_pages = %" PRId64
               ": the low mark is at most the high one",
               s->vmh_low_pages, s->vmh_high_pages);
    if (s->network_quantum_bytes % PW_PACKET_BYTES)
        REFUSE("network.quantum = %" PRId64 ": whole packets move; take a multiple of %d",
               s->network_quantum_bytes, PW_PACKET_BYTES);
    if (s->medium_limit_bytes < s->high_limit_bytes)
        REFUSE("firmware.medium_limit = %" PRId64 " bytes is below firmware.high_limit = %" PRId64
               " bytes: classes go from small to large",
               s->medium_limit_bytes, s->high_limit_bytes);
    return PW_OK;
}

static const char *site_text(const pw_impairment_site *site, char text[SITE_BYTES])
{
    const int used = snprintf(text, SITE_BYTES, "%" PRIu64 ":%" PRIu64 ":%" PRIu64, site->num,
                              site->denom, site->seed);
    if (site->limit) snprintf(text + used, SITE_BYTES - (size_t)used, ":%" PRIu64, site->limit);
    return text;
}

static int check_impairments(const pw_node_config *config, pw_sentence *reason)
{
    const pw_settings *s = &config->settings;
    const pw_impairment_site *of_links = &config->impairments[PW_IMPAIRMENT_LINK_LOSS];
    char text[SITE_BYTES];
    if (of_links->num && !config->run.lossy[0])
        REFUSE("impairments.link_loss = '%s' with network.lossy = '': no link loses packets; name "
               "some in network.lossy",
               site_text(of_links, text));
    for (uint32_t i = 0; i < PW_IMPAIRMENT_SITES; i++) {
        const pw_impairment_site *site = &config->impairments[i];
        const char *name = pw_impairment_names[i], *because = pw_impairment_hopeless(i, site);
        if (because) REFUSE("impairments.%s = '%s': %s", name, site_text(site, text), because);
    }
    for (uint32_t i = 0; i < PW_IMPAIRMENT_SITES; i++) {
        const pw_impairment_site *site = &config->impairments[i];
        const char *name = pw_impairment_names[i];
        const bool is_of_err = i == PW_IMPAIRMENT_LOST_ERR || i == PW_IMPAIRMENT_FIFO_FULL;
        /* miNI and its base system say nothing of a damaged block either. */
        const bool is_silent =
            i == PW_IMPAIRMENT_PACKET_CORRUPTION &&
            (s->translation == PW_TRANSLATION_MINI || s->translation == PW_TRANSLATION_STATIC);
        const bool needs_timeout = is_of_err || is_silent || i == PW_IMPAIRMENT_PACKET_LOSS ||
                                   i == PW_IMPAIRMENT_LINK_LOSS || i == PW_IMPAIRMENT_LOST_ACK ||
                                   i == PW_IMPAIRMENT_LOST_NACK;
        const bool is_late = i == PW_IMPAIRMENT_DELAY || i == PW_IMPAIRMENT_DUPLICATION;
        if (!site->num) continue;
        if (is_late && s->network_model == PW_NETWORK_PACKETS)
            REFUSE("impairments.%s = '%s' with network.model = 'packets': when such a block comes "
                   "is not known as it leaves; take links or private",
                   name, site_text(site, text));
        if (needs_timeout && s->timeout_ns < 0)
            REFUSE("impairments.%s = '%s' with run.timeout = none: only a timeout sends such a "
                   "block again; set run.timeout",
                   name, site_text(site, text));
        if (is_of_err && s->nack_cancels_timer)
            REFUSE("impairments.%s = '%s' with run.nack_cancels_timer = true: the NACK stops the "
                   "timer, and no ERR comes; leave the timer on",
                   name, site_text(site, text));
    }
    return PW_OK;
}

/* Accesses that wait in the SMMU. */
static int check_stalls(const pw_node_config *config, pw_sentence *reason)
{
    const pw_settings *s = &config->settings;
    const bool asks_python = pw_asks_host(s);
    const bool has_policy = s->policy == PW_POLICY_HOST;
    const char *asked = has_policy ? "run.policy" : "driver.err_by";
    const char *named = has_policy ? config->run.policy : config->run.err_by;
    const char *own = has_policy ? "page, block, all" : "library, kernel";
    if (s->stall && s->page_in == PW_PAGE_IN_TOUCH_A_PAGE)
        REFUSE("smmu.mode = 'stall' with driver.page_in = 'touch-a-page': the user-space thread "
               "cannot write RESUME, so the access would wait for ever; take driver.page_in = "
               "'touch-ahead'");
    if (s->stall && asks_python)
        REFUSE("%s = '%s' with smmu.mode = 'stall': a stalled access cannot wait for a policy in "
               "Python; take one of %s, or smmu.mode = 'terminate'",
               asked, named, own);
    if (s->interleave == PW_INTERLEAVE_NONE) return PW_OK;
    if (s->stall)
        REFUSE("ni.interleave = '%s' with smmu.mode = 'stall': a packet that waits for RESUME "
               "would hold up the other block's; take ni.interleave = 'none' or smmu.mode = "
               "'terminate'",
               name_of("ni.interleave", s->interleave));
    if (asks_python)
        REFUSE("ni.interleave = '%s' with %s = '%s': two blocks at once cannot wait for a policy "
               "in Python; take ni.interleave = 'none' or one of %s",
               name_of("ni.interleave", s->interleave), asked, named, own);
    return PW_OK;
}

/* ERRs otherwise than by the library, when it has seen all messages. */
static int check_errs(const pw_node_config *config, pw_sentence *reason)
{
    const pw_settings *s = &config->settings;
    const bool is_default = s->err_by == PW_ERRS_BY_LIBRARY && s->err_after == PW_ERRS_AFTER_RUN;
    if (!is_default && s->page_in == PW_PAGE_IN_TOUCH_A_PAGE)
        REFUSE("driver.err_by = '%s', driver.err_after = '%s' with driver.page_in = "
               "'touch-a-page': the library's thread touches the pages, so that it alone knows "
               "when they are in; take driver.page_in = 'touch-ahead'",
               config->run.err_by, name_of("driver.err_after", s->err_after));
    if (s->err_by == PW_ERRS_BY_KERNEL && s->library_core == PW_LIBRARY_CORE_OTHER)
        REFUSE("driver.err_by = 'kernel' with driver.library_core = 'other': no thread of the "
               "library runs; take driver.library_core = 'same'");
    return PW_OK;
}

/* ZDMA: what stands and falls with sending again. */
static int check_engine(const pw_node_config *config, pw_sentence *reason)
{
    const pw_settings *s = &config->settings;
    const pw_strategy_ops *strategy = pw_strategy_find(config->run.memory);
    const int64_t unit = strategy && strategy->unit ? strategy->unit : s->translation;
    if (s->engine == PW_ENGINE_FRDMA) return PW_OK;
    if (!pw_translation_traits(unit).has_fault_registers)
        REFUSE("ni.engine = 'zdma' with run.translation = '%s', run.memory = '%s': that NIC has an "
               "engine of its own, which waits or sends again; take run.translation = 'smmu' and "
               "another memory strategy",
               name_of("run.translation", s->translation), config->run.memory);
    if (s->interleave != PW_INTERLEAVE_NONE)
        REFUSE("ni.engine = 'zdma' with ni.interleave = '%s': a transfer of ZDMA has no two blocks "
               "on their way; take ni.interleave = 'none'",
               name_of("ni.interleave", s->interleave));
    return PW_OK;
}

/* NICs that meet absent pages by themselves, which the memory strategy chooses. */
static int check_own_faults(const pw_node_config *config, pw_sentence *reason)
{
    const pw_settings *s = &config->settings;
    const char *memory = config->run.memory;
    const pw_strategy_ops *strategy = pw_strategy_find(memory);
    if (!strategy) return PW_OK;
    const pw_unit_traits traits = pw_translation_traits(strategy->unit);
    if (traits.has_fault_registers) return PW_OK;
    if (s->stall || !s->hupcf)
        REFUSE("smmu.mode = '%s', smmu.hupcf = %" PRId64 " with run.memory = '%s': that NIC has no "
               "SMMU with fault registers; take smmu.mode = 'terminate' and smmu.hupcf = 1",
               name_of("smmu.mode", s->stall), s->hupcf, memory);
    if (s->interleave != PW_INTERLEAVE_NONE)
        REFUSE("ni.interleave = '%s' with run.memory = '%s': only PART is told of packets of two "
               "blocks in turn; take ni.interleave = 'none'",
               name_of("ni.interleave", s->interleave), memory);
    if (s->timeout_ns < 0 && traits.needs_timeout)
        REFUSE("run.timeout = none with run.memory = '%s': a block that finds no room is dropped, "
               "and only a timeout brings it again; set run.timeout",
               memory);
    return PW_OK;
}

static int check_translation(const pw_node_config *config, pw_sentence *reason)
{
    const pw_settings *s = &config->settings;
    const char *unit = name_of("run.translation", s->translation);
    pw_nic_memory needed;
    if (s->translation == PW_TRANSLATION_SMMU) return check_own_faults(config, reason);
    if (strcmp(config->run.memory, "part") != 0)
        REFUSE("run.memory = '%s' with run.translation = '%s': the unit itself keeps pages pinned; "
               "take run.memory = 'part'",
               config->run.memory, unit);
    if (s->stall || !s->hupcf)
        REFUSE("smmu.mode = '%s', smmu.hupcf = %" PRId64 " with run.translation = '%s': only the "
               "SMMU has fault registers; take smmu.mode = 'terminate' and smmu.hupcf = 1",
               name_of("smmu.mode", s->stall), s->hupcf, unit);
    if (s->translation == PW_TRANSLATION_MINI && s->timeout_ns < 0)
        REFUSE("run.timeout = none with run.translation = 'mini': a packet that misses is dropped, "
               "and only a timeout brings it again; set run.timeout");
    pw_nic_memory_of(s, &needed);
    if (needed.total_bytes > s->nic_memory_bytes)
        REFUSE("mini.memory = %" PRId64 " B with run.translation = '%s': what stands on the NIC "
               "takes %" PRId64
               " B; take smaller tables or caches, fewer processes, or more memory",
               s->nic_memory_bytes, unit, needed.total_bytes);
    return PW_OK;
}

int pw_node_settings_check(const pw_node_config *config, pw_sentence *reason)
{
    const pw_settings *s = &config->settings;
    int code = check_run(config, reason);
    if (code == PW_OK) code = check_sizes(s, reason);
    if (code == PW_OK) code = check_impairments(config, reason);
    if (code == PW_OK) code = check_stalls(config, reason);
    if (code == PW_OK) code = check_errs(config, reason);
    if (code == PW_OK) code = check_engine(config, reason);
    if (code == PW_OK) code = check_translation(config, reason);
    if (code == PW_OK && !s->err_enabled && s->timeout_ns < 0 && !s->stall &&
        strcmp(config->run.memory, "part") == 0)
        REFUSE("run.err = false and run.timeout = none with run.memory = 'part': nothing would "
               "send a faulted block again; allow ERRs, set a timeout, take smmu.mode = 'stall' or "
               "another memory strategy");
    return code;
}
