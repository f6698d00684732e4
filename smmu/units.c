/* The translation units by PW_TRANSLATION_*: how each is made, what goes with it, and what stands
 * in the NIC's memory for it. Sizes of entries are the thesis's [MINI 1.2, 3], but where it says
 * otherwise. */
#include "smmu/ats/ats.h"
#include "smmu/mini/mini.h"
#include "smmu/odp/odp.h"
#include "smmu/smmu_unit.h"
#include "smmu/utlb/utlb.h"

enum {
    CODE_BYTES = 131072, /* assumed: the thesis's figure is an outcome of its own program */
    CHUNK_BYTES = 4096,
    NUM_CHUNKS = 64, /* assumed: 32 each for send and receive keep three DMA engines busy */
    POST_QUEUE_BYTES = 16384, /* the largest of the thesis's 4 to 16 KB */
    VMH_ENTRY_BYTES = 4,
    VMH_TAG_BYTES = 8, /* assumed: tag, process, lock bits and age of a line, two words */
    KEY_BYTES = 8,
    CBH_STATIC_BYTES = 28 + KEY_BYTES, /* 36 and 26 are the thesis's; which of its two sizes of a */
    CBH_CACHED_BYTES = 18 + KEY_BYTES, /* key they hold it leaves open: assumed are 64 bits */
    IMPORTED_BYTES = 16,
    IMPORTED_ENTRIES = 4096,    /* a process */
    TRANSLATION_BYTES = 8,      /* of a TLB: a descriptor of ARM's page table */
    TRANSACTION_BYTES = 32,     /* assumed: the R5 thesis gives no size of an entry */
    FIFO_ENTRY_BYTES = 16,      /* two words [PSI 3.2.3] */
    CHANNEL_PAGE_BYTES = 4096,  /* [R5 2.3.3] */
    UTLB_DIRECTORY_BYTES = 4096 /* assumed: first level of a process's table, 512 entries */
};

static void of_smmu(const pw_settings *settings, pw_nic_memory *out)
{
    int64_t l1 = settings->l1_sets * settings->l1_ways, l2 = settings->l2_sets * settings->l2_ways;
    out->code_bytes = 0; /* in the R5's own memory, of which the sources give no figure */
    out->buffer_bytes =
        PW_TRANSACTIONS * TRANSACTION_BYTES + settings->ni_fifo_depth * FIFO_ENTRY_BYTES;
    out->vmh_bytes = (l1 + l2) * settings->tlb_line_pages * TRANSLATION_BYTES;
    out->process_bytes = settings->num_context_banks * CHANNEL_PAGE_BYTES;
}

static void of_utlb(const pw_settings *settings, pw_nic_memory *out)
{
    of_smmu(settings, out);
    out->vmh_bytes = settings->utlb_cache_entries * (TRANSLATION_BYTES + VMH_TAG_BYTES);
    out->process_bytes += settings->num_context_banks * UTLB_DIRECTORY_BYTES;
}

/* Caches as the SMMU's; table and backup ring are in host memory, and there is no NI FIFO. */
static void of_odp(const pw_settings *settings, pw_nic_memory *out)
{
    of_smmu(settings, out);
    out->buffer_bytes -= settings->ni_fifo_depth * FIFO_ENTRY_BYTES;
}

/* The device's cache, and the buffer of blocks that wait. */
static void of_ats(const pw_settings *settings, pw_nic_memory *out)
{
    of_odp(settings, out);
    out->vmh_bytes = settings->ats_cache_entries * (TRANSLATION_BYTES + VMH_TAG_BYTES);
    if (settings->ats_while_pending == PW_PENDING_BUFFER)
        out->buffer_bytes += settings->ats_buffer_blocks * settings->block_bytes;
}

static void of_mini(const pw_settings *settings, pw_nic_memory *out)
{
    out->vmh_bytes = settings->vmh_entries * VMH_ENTRY_BYTES +
                     settings->vmh_entries / settings->vmh_line_pages * VMH_TAG_BYTES;
    out->cbh_bytes = settings->cbh_entries * CBH_CACHED_BYTES;
}

static void of_static(const pw_settings *settings, pw_nic_memory *out)
{
    out->vmh_bytes = settings->static_pages * VMH_ENTRY_BYTES;
    out->cbh_bytes = settings->static_buffers * CBH_STATIC_BYTES;
    out->imported_bytes = settings->mini_processes * IMPORTED_ENTRIES * IMPORTED_BYTES;
}

static const struct {
    int (*create)(const pw_unit_parts *parts, pw_translation_unit **out);
    void (*nic_memory)(const pw_settings *settings, pw_nic_memory *out);
    pw_unit_traits traits;
} units[] = {
    [PW_TRANSLATION_SMMU] = {pw_smmu_unit_create,
                             of_smmu,
                             {.has_fault_registers = true, .takes_pairs = true}},
    [PW_TRANSLATION_MINI] = {pw_mini_create, of_mini, {.takes_pairs = true, .needs_timeout = true}},
    [PW_TRANSLATION_STATIC] = {pw_static_tables_create, of_static, {.takes_pairs = true}},
    [PW_TRANSLATION_UTLB] = {pw_utlb_create,
                             of_utlb,
                             {.has_fault_registers = true, .takes_pairs = true}},
    [PW_TRANSLATION_ODP] = {pw_odp_create, of_odp, {0}},
    [PW_TRANSLATION_NP] = {pw_np_create, of_odp, {0}},
    [PW_TRANSLATION_ATS] = {pw_ats_create, of_ats, {.needs_timeout = true}},
    [PW_TRANSLATION_BACKUP_RING] = {pw_backup_ring_create, of_odp, {.needs_timeout = true}},
};

int pw_translation_begin(const pw_translation_unit *unit, pw_residency *residency,
                         const pw_access *access, pw_access_result *result)
{
    pw_memory_at(unit->memory, access->at_ns);
    int state = pw_residency_state_now(residency, unit->memory, access->page, access->end_page,
                                       access->is_further);
    *result = (pw_access_result){.outcome = PW_ACCESS_REFUSED,
                                 .code = pw_residency_allows(state),
                                 .fault_until_ns = INT64_MIN};
    return result->code < 0 ? result->code : state;
}

int pw_translation_create(const pw_unit_parts *parts, pw_translation_unit **out)
{
    return units[parts->settings->translation].create(parts, out);
}

pw_unit_traits pw_translation_traits(int64_t translation) { return units[translation].traits; }

void pw_nic_memory_of(const pw_settings *settings, pw_nic_memory *out)
{
    *out = (pw_nic_memory){.code_bytes = CODE_BYTES,
                           .buffer_bytes = NUM_CHUNKS * CHUNK_BYTES,
                           .process_bytes = settings->mini_processes * POST_QUEUE_BYTES};
    units[settings->translation].nic_memory(settings, out);
    out->total_bytes = out->code_bytes + out->buffer_bytes + out->vmh_bytes + out->cbh_bytes +
                       out->imported_bytes + out->process_bytes;
}
