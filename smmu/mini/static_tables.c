/* The base system of miNI (VMMC): all tables on the NIC [MINI 1.2]. Pages of a buffer are pinned
 * and entered when it is used first, for good, and there is room for so many pages and buffers; one
 * more is refused. The thesis's programs register at their start, so a registration takes no
 * virtual time here. One NI, one thread at a time. */
#include "smmu/mini/mini.h"
#include <stdlib.h>

typedef struct {
    pw_translation_unit base;
    const pw_costs *costs;
    const pw_settings *settings;
    pw_counters *counters;
    pw_mini_processes processes;
    pw_vmh_table table;
} pw_static_tables;

static pw_static_tables *of(pw_translation_unit *base) { return (pw_static_tables *)(void *)base; }

/* Register the rest of the buffer, from the page on, as far as its second-level table reaches. */
static int enter(pw_static_tables *tables, const pw_access *access)
{
    uint64_t leaf_end = (access->page | (PW_LEAF_PAGES - 1)) + 1;
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
                           .code = pw_residency_allows(state),
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
        result->code = pw_residency_allows(state);
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

static void destroy(pw_translation_unit *base)
{
    pw_vmh_table_destroy(&of(base)->table);
    free(of(base));
}

int pw_static_tables_create(const pw_unit_parts *parts, pw_translation_unit **out)
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
        .destroy = destroy,
    };
    pw_static_tables *tables = malloc(sizeof *tables);
    if (!tables) return PW_ERR_NOMEM;
    *tables =
        (pw_static_tables){.base = {.ops = &ops,
                                    .memory = parts->memory,
                                    .receiver = {.is_silent = true},
                                    .pinned = &tables->table.pinned},
                           .costs = parts->costs,
                           .settings = parts->settings,
                           .counters = parts->counters,
                           .processes = {.max_open = (uint32_t)parts->settings->mini_processes}};
    pw_vmh_table_init(&tables->table, parts->memory, parts->counters, NULL,
                      0); /* nothing is evicted */
    *out = &tables->base;
    return PW_OK;
}
