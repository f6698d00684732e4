#include "mini/static_tables.h"

static pw_static_tables *of(pw_translation_unit *base) { return (pw_static_tables *)(void *)base; }

/* Register the rest of the buffer, from the page on, as far as its second-level table reaches. */
static int enter(pw_static_tables *tables, const pw_access *access)
{
    uint64_t leaf_end = (access->page | (PW_VMH_LEAF_PAGES - 1)) + 1;
    uint64_t end_page = access->end_page > access->page ? access->end_page : access->page + 1;
    if (end_page > leaf_end) end_page = leaf_end;
    for (uint64_t page = access->page; page < end_page; page++) {
        if (pw_vmh_table_is_pinned(&tables->table, access->pdid, page)) continue;
        bool is_full = tables->table.pinned.num_pages >= (uint64_t)tables->settings->static_pages;
        tables->counters->static_refused += is_full && page == access->page;
        int code = is_full ? PW_ERR_FULL : pw_vmh_table_pin(&tables->table, access->pdid, page, 1);
        if (code < 0)
            return page == access->page ? code : PW_OK; /* the others were not asked for */
        tables->counters->static_pages++;
    }
    return PW_OK;
}

static void access_page(pw_translation_unit *base, pw_residency *residency, const pw_access *access,
                        pw_access_result *result)
{
    pw_static_tables *tables = of(base);
    int state = pw_residency_state_now(residency, base->memory, access->page, access->end_page,
                                       access->is_further);
    *result =
        (pw_access_result){.outcome = PW_ACCESS_REFUSED,
                           .code = pw_mini_allows(state),
                           .delay_ns = access->is_translated ? 0 : tables->costs->vmh_lookup_ns,
                           .fault_until_ns = INT64_MIN};
    if (result->code < 0) return;
    tables->table.now_ns = access->at_ns;
    bool is_pinned = pw_vmh_table_is_pinned(&tables->table, access->pdid, access->page);
    if (is_pinned && state != PW_PAGE_PRESENT) { /* the OS changed the mapping */
        tables->counters->stale_translations++;
        pw_vmh_table_forget(&tables->table, access->pdid, access->page, 1);
        is_pinned = false;
    }
    if (!is_pinned) {
        result->code = enter(tables, access);
        if (result->code < 0) return;
        pw_residency_forget(residency);
        state =
            pw_residency_state_now(residency, base->memory, access->page, access->end_page, false);
        result->code = pw_mini_allows(state);
        if (result->code < 0) return;
    }
    result->outcome = PW_ACCESS_PRESENT;
}

static pw_time word(pw_translation_unit *base, uint16_t pdid, uint64_t page, pw_time at_ns)
{
    (void)pdid, (void)page, (void)at_ns;
    return of(base)->costs->vmh_lookup_ns;
}

static pw_time latency_ns(const pw_translation_unit *base, uint32_t how)
{
    (void)how;
    return ((const pw_static_tables *)(const void *)base)->costs->vmh_lookup_ns;
}

static int open_process(pw_translation_unit *base, uint16_t pdid)
{
    return pw_mini_processes_open(&of(base)->processes, pdid);
}

static bool is_open(pw_translation_unit *base, uint16_t pdid)
{
    return pw_mini_processes_has(&of(base)->processes, pdid);
}

static int open_buffer(pw_translation_unit *base, uint32_t num_open)
{
    return num_open < (uint64_t)of(base)->settings->static_buffers ? PW_OK : PW_ERR_FULL;
}

static pw_time find_buffer(pw_translation_unit *base, uint16_t pdid, uint64_t buffer, bool is_known,
                           pw_time at_ns)
{
    (void)pdid, (void)buffer;
    of(base)->counters->cbh_lookups++;
    of(base)->counters->cbh_invalid += !is_known;
    return at_ns + of(base)->costs->cbh_lookup_ns;
}

static void invalidate(pw_translation_unit *base, uint16_t pdid, uint64_t first_page,
                       uint64_t num_pages)
{
    of(base)->counters->shootdowns_address++;
    pw_vmh_table_forget(&of(base)->table, pdid, first_page, num_pages);
}

static void invalidate_context(pw_translation_unit *base, uint16_t pdid)
{
    of(base)->counters->shootdowns_context++;
    pw_vmh_table_forget_process(&of(base)->table, pdid);
}

static void invalidate_all(pw_translation_unit *base)
{
    of(base)->counters->shootdowns_all++;
    pw_vmh_table_forget_process(&of(base)->table, 0);
}

void pw_static_tables_init(pw_static_tables *tables, const pw_costs *costs,
                           const pw_settings *settings, pw_counters *counters, pw_memory *memory)
{
    static const pw_translation_ops ops = {
        .access = access_page,
        .word = word,
        .latency_ns = latency_ns,
        .open = open_process,
        .is_open = is_open,
        .open_buffer = open_buffer,
        .find_buffer = find_buffer,
        .invalidate = invalidate,
        .invalidate_context = invalidate_context,
        .invalidate_all = invalidate_all,
        .is_silent = true,
    };
    *tables = (pw_static_tables){.base = {.ops = &ops, .memory = memory},
                                 .costs = costs,
                                 .settings = settings,
                                 .counters = counters,
                                 .processes = {.max_open = (uint32_t)settings->mini_processes}};
    tables->base.pinned = &tables->table.pinned;
    pw_vmh_table_init(&tables->table, memory, counters, NULL, 0); /* nothing is evicted */
}

void pw_static_tables_destroy(pw_static_tables *tables) { pw_vmh_table_destroy(&tables->table); }
