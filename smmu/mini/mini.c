/* miNI: its misses, accesses and buffers; and its base system. */
#include "smmu/mini/mini.h"
#include "native/calendar.h"
#include "native/impairments.h"
#include <stdlib.h>
#include <string.h>

/* How long the host takes for a miss of the NIC: the delay until the kernel thread runs, and the
 * thread's work, pinning included. From component costs, or drawn from what the thesis measured
 * with an application [MINI tables 4.6, 4.7]: the bin by its share, the time evenly inside of the
 * bin; above 500 us up to 1000 us (assumed: the bin is open). */

#define DRAWS_SEED UINT64_C(1) /* of miss times: any will do, and two runs draw alike */
#define MISS_BINS 7            /* up to 10, 20, 50, 100, 200, 500 us, and above */

/* What the kernel thread did for a miss. */
typedef struct {
    bool is_pinned; /* pages were pinned, so many: */
    int64_t num_pages;
    uint64_t key; /* of the draw: equal misses of equal runs take the same */
} miss_work;

typedef struct {
    pw_time delay_ns, work_ns;
} miss_times;

#define LAST_BIN_END_NS 1000000

static const pw_time bin_begin_ns[MISS_BINS + 1] = {0,      10000,  20000,  50000,
                                                    100000, 200000, 500000, LAST_BIN_END_NS};

/* Shares in 1/10000 of the misses, by PW_MISS_TIMES_* and bin. */
static const uint16_t delays[][MISS_BINS] = {
    [PW_MISS_TIMES_WATER_NSQUARED] = {2143, 6429, 1250, 89, 0, 0, 89},
    [PW_MISS_TIMES_WATER_SPATIAL] = {4197, 5574, 98, 66, 33, 0, 33},
    [PW_MISS_TIMES_FFT] = {4543, 5207, 203, 5, 2, 8, 33},
    [PW_MISS_TIMES_RADIX] = {2340, 5975, 1489, 53, 0, 18, 124},
    [PW_MISS_TIMES_LU] = {2709, 5829, 1148, 49, 69, 98, 98},
    [PW_MISS_TIMES_OCEAN] = {2082, 5041, 2493, 274, 0, 27, 82},
    [PW_MISS_TIMES_VOLREND] = {2075, 5472, 1887, 189, 189, 189, 0},
    [PW_MISS_TIMES_RAYTRACE] = {3069, 6029, 542, 253, 36, 36, 36},
};
static const uint16_t processings[][MISS_BINS] = {
    [PW_MISS_TIMES_WATER_NSQUARED] = {0, 1522, 290, 1522, 652, 5435, 580},
    [PW_MISS_TIMES_WATER_SPATIAL] = {0, 127, 1587, 3905, 32, 3937, 413},
    [PW_MISS_TIMES_FFT] = {9, 6603, 563, 1979, 24, 816, 6},
    [PW_MISS_TIMES_RADIX] = {162, 4149, 630, 1674, 657, 2691, 36},
    [PW_MISS_TIMES_LU] = {54, 2259, 693, 4077, 153, 2583, 180},
    [PW_MISS_TIMES_OCEAN] = {78, 2583, 738, 2039, 544, 3903, 117},
    [PW_MISS_TIMES_VOLREND] = {235, 2824, 118, 706, 588, 4588, 941},
    [PW_MISS_TIMES_RAYTRACE] = {383, 5008, 1516, 613, 15, 2312, 153},
};

/* The shares of a row are rounded, so that their sum is what there is to draw from. */
static pw_time draw(const uint16_t shares[MISS_BINS], uint64_t random)
{
    uint32_t sum = 0, bin = 0;
    for (uint32_t i = 0; i < MISS_BINS; i++) sum += shares[i];
    uint32_t drawn = (uint32_t)((random >> 32) % sum);
    while (drawn >= shares[bin]) drawn -= shares[bin++];
    uint64_t width_ns = (uint64_t)(bin_begin_ns[bin + 1] - bin_begin_ns[bin]);
    return bin_begin_ns[bin] + (pw_time)((random & UINT32_MAX) * width_ns >> 32);
}

static miss_times miss_times_of(const pw_costs *costs, const pw_settings *settings,
                                const miss_work *work)
{
    if (settings->miss_times == PW_MISS_TIMES_PLATFORM)
        return (miss_times){
            .delay_ns = costs->miss_delay_ns,
            .work_ns = costs->miss_fill_ns +
                       (work->is_pinned
                            ? costs->miss_pin_fixed_ns + work->num_pages * costs->miss_pin_page_ns
                            : 0)};
    uint64_t seed = pw_impairment_mix(DRAWS_SEED ^ pw_impairment_mix(work->key));
    return (miss_times){.delay_ns = draw(delays[settings->miss_times], seed),
                        .work_ns =
                            draw(processings[settings->miss_times], pw_impairment_mix(seed))};
}

static uint32_t bin_of(pw_time duration_ns)
{
    uint32_t bin = 0;
    while (bin + 1 < MISS_BINS && duration_ns >= bin_begin_ns[bin + 1]) bin++;
    return bin;
}

/* Count a miss that took these times, by bin and in the sums. */
static void miss_times_count(pw_counters *counters, const miss_times *times)
{
    uint64_t *const by_delay[MISS_BINS] = {
        &counters->miss_delays_10us,  &counters->miss_delays_20us,  &counters->miss_delays_50us,
        &counters->miss_delays_100us, &counters->miss_delays_200us, &counters->miss_delays_500us,
        &counters->miss_delays_longer};
    uint64_t *const by_work[MISS_BINS] = {&counters->miss_works_10us,  &counters->miss_works_20us,
                                          &counters->miss_works_50us,  &counters->miss_works_100us,
                                          &counters->miss_works_200us, &counters->miss_works_500us,
                                          &counters->miss_works_longer};
    ++*by_delay[bin_of(times->delay_ns)];
    ++*by_work[bin_of(times->work_ns)];
    counters->miss_delay_ns += times->delay_ns;
    counters->miss_work_ns += times->work_ns;
}

/* miNI, and with `vmh.lines` NULL its base system. */
typedef struct {
    pw_translation_unit base;
    const pw_costs *costs;
    const pw_settings *settings;
    pw_counters *counters;
    uint16_t processes[PW_MINI_PROCESSES_MAX]; /* whose handles the NIC knows */
    int64_t num_processes;
    pw_time lookup_ns;   /* of a page */
    uint32_t line_shift; /* pages of a VMH line, as a power of two */
    pw_line_cache vmh, cbh;
    pw_vmh_table table;
    pw_calendar thread; /* the kernel thread works off one miss after the other */
    pw_time checked_ns; /* the table's water mark, last */
} pw_mini;

static pw_mini *of(pw_translation_unit *base) { return (pw_mini *)(void *)base; }

/* The look-up is a program on the NIC that compares way after way. */
static pw_time way_ns(const pw_costs *costs, int64_t num_ways)
{
    return (num_ways - 1) * costs->vmh_way_ns;
}

/* --- a miss at the host --- */

/* Interrupt, miss queue, kernel thread; when the slot is filled. */
static pw_time handle_miss(pw_mini *mini, pw_time at_ns, const miss_work *work)
{
    miss_times times = miss_times_of(mini->costs, mini->settings, work);
    pw_time start_ns = pw_calendar_book(&mini->thread, at_ns + times.delay_ns, times.work_ns);
    times.delay_ns = start_ns - at_ns; /* with the wait behind other misses */
    mini->counters->miss_interrupts++;
    miss_times_count(mini->counters, &times);
    return start_ns + times.work_ns;
}

/* Pin pages; at the limit of what can be pinned once more, behind an eviction. */
static int pin(pw_mini *mini, uint16_t pdid, uint64_t first_page, uint64_t num_pages)
{
    int num_new = pw_vmh_table_pin(&mini->table, pdid, first_page, num_pages);
    if (num_new != PW_ERR_FULL) return num_new;
    pw_vmh_table_evict(&mini->table, (uint64_t)mini->settings->vmh_low_pages);
    return pw_vmh_table_pin(&mini->table, pdid, first_page, num_pages);
}

/* Fill a line with those of its pages that the process has. How many had to be pinned, or why the
 * page that was asked for cannot be. */
static int fill(pw_mini *mini, pw_cache_line *line, const pw_access *access, bool for_write)
{
    uint64_t line_pages = UINT64_C(1) << mini->line_shift, first = line->line << mini->line_shift;
    uint8_t state[PW_LINE_PAGES_MAX];
    uint64_t singly_end = 0; /* before it page by page */
    int total = 0;
    int code = pw_memory_walk(mini->base.memory, first, line_pages, for_write, state);
    if (code < 0) return code;
    for (uint64_t i = 0, run; i < line_pages; i += run) {
        bool allowed = pw_residency_allows(state[i]) == PW_OK;
        for (run = 1; i + run < line_pages && i >= singly_end; run++)
            if ((pw_residency_allows(state[i + run]) == PW_OK) != allowed) break;
        if (!allowed) continue;
        int num_new = pin(mini, access->pdid, first + i, run);
        if (num_new < 0 && num_new != PW_ERR_FULL && run > 1) { /* one of them cannot be */
            singly_end = i + run;
            run = 0;
            continue;
        }
        if (num_new < 0 && access->page - first - i < run) {
            total = num_new;
            break;
        }
        if (num_new < 0) continue; /* nobody asked for these */
        total += num_new;
        for (uint64_t entry = i; entry < i + run; entry++)
            line->valid[entry / 64] |= UINT64_C(1) << (entry % 64);
    }
    pw_vmh_leaf *leaf = pw_vmh_table_leaf(&mini->table, access->pdid, first);
    if (!leaf) return PW_ERR_NOMEM;
    for (uint64_t page = first; page < first + line_pages; page++)
        if (pw_cache_line_has(line, (uint32_t)(page - first))) pw_vmh_leaf_set(leaf->seen, page);
    return total;
}

/* The table's thread looks at the water mark from time to time. */
static void check_water_mark(pw_mini *mini, pw_time at_ns)
{
    const pw_settings *settings = mini->settings;
    if (!settings->vmh_high_pages || at_ns < mini->checked_ns) return;
    mini->checked_ns = at_ns + settings->vmh_check_ns;
    mini->table.now_ns = at_ns;
    if (mini->table.pinned.num_pages > (uint64_t)settings->vmh_high_pages)
        pw_vmh_table_evict(&mini->table, (uint64_t)settings->vmh_low_pages);
}

/* --- access --- */

static void count_miss(pw_mini *mini, const pw_access *access, bool for_write)
{
    pw_counters *counters = mini->counters;
    const pw_vmh_leaf *leaf = pw_vmh_table_leaf(&mini->table, access->pdid, access->page);
    bool is_cold = leaf && !pw_vmh_leaf_bit(leaf->seen, access->page);
    uint64_t *misses = for_write ? &counters->vmh_misses_receive : &counters->vmh_misses_send;
    uint64_t *cold = for_write ? &counters->vmh_cold_receive : &counters->vmh_cold_send;
    ++*misses;
    *cold += is_cold;
}

/* A slot for the page's line: the line's own, or another's. Sending waits for one; NULL: a packet
 * that arrives finds none. *at_ns: when it has it. */
static pw_cache_line *take_slot(pw_mini *mini, const pw_access *access, bool for_write,
                                pw_time *at_ns)
{
    uint64_t number = access->page >> mini->line_shift;
    pw_time free_ns;
    bool evicted = false;
    pw_cache_line *line = pw_line_cache_find(&mini->vmh, access->pdid, number);
    if (line) memset(line->valid, 0, sizeof line->valid); /* some of its pages came later */
    else line = pw_line_cache_take(&mini->vmh, access->pdid, number, *at_ns, &free_ns, &evicted);
    mini->counters->vmh_lines_replaced += evicted;
    if (line) return line;
    mini->counters->vmh_set_full++;
    if (for_write) return NULL;
    *at_ns = free_ns;
    line = pw_line_cache_take(&mini->vmh, access->pdid, number, *at_ns, &free_ns, &evicted);
    mini->counters->vmh_lines_replaced += evicted;
    return line;
}

/* The miss path. PW_OK and *line with when it is ready, NULL when no slot is free; or why the page
 * cannot be used. */
static int miss(pw_mini *mini, const pw_access *access, bool for_write, pw_cache_line **line)
{
    pw_time at_ns = access->at_ns;
    count_miss(mini, access, for_write);
    *line = take_slot(mini, access, for_write, &at_ns);
    if (!*line) return PW_OK;
    int num_new = fill(mini, *line, access, for_write);
    if (num_new < 0) {
        (*line)->is_used = false;
        return num_new;
    }
    miss_work work = {.is_pinned = num_new > 0,
                      .num_pages = num_new,
                      .key = (uint64_t)at_ns * PW_NUM_LOCKS + for_write};
    (*line)->ready_ns = handle_miss(mini, at_ns, &work);
    check_water_mark(mini, (*line)->ready_ns);
    return PW_OK;
}

/* A translation of a page that the OS has taken away, or made read-only, is of no use. What went
 * along with it is found at once, so that the line is filled with pages that are pinned. */
static bool drop_if_stale(pw_mini *mini, const pw_access *access, pw_cache_line *line, int state)
{
    if (state == PW_PAGE_PRESENT) return false;
    mini->counters->stale_translations++;
    line->is_used = false;
    uint64_t first = line->line << mini->line_shift;
    for (uint32_t entry = 0; entry < UINT32_C(1) << mini->line_shift; entry++)
        if (first + entry == access->page ||
            (pw_cache_line_has(line, entry) &&
             pw_memory_is_pinned(mini->base.memory, first + entry, 1) == 0))
            pw_vmh_table_forget(&mini->table, access->pdid, first + entry, 1);
    return true;
}

/* The page's entry can be used at at_ns. */
static bool is_hit(const pw_mini *mini, const pw_cache_line *line, const pw_access *access)
{
    uint32_t entry = (uint32_t)(access->page & ((UINT64_C(1) << mini->line_shift) - 1));
    return line && line->ready_ns <= access->at_ns && pw_cache_line_has(line, entry);
}

static void count_lookup(pw_mini *mini, bool for_write)
{
    mini->counters->vmh_lookups_send += !for_write;
    mini->counters->vmh_lookups_receive += for_write;
}

static void access_page(pw_translation_unit *base, pw_residency *residency, const pw_access *access,
                        pw_access_result *result)
{
    pw_mini *mini = of(base);
    bool for_write = residency->for_write;
    int state = pw_translation_begin(base, residency, access, result);
    if (state < 0) return;
    pw_cache_line *line =
        pw_line_cache_find(&mini->vmh, access->pdid, access->page >> mini->line_shift);
    bool hit = is_hit(mini, line, access);
    if (access->is_translated) {
        result->outcome = hit && state == PW_PAGE_PRESENT ? PW_ACCESS_PRESENT : PW_ACCESS_DROPPED;
        return;
    }
    count_lookup(mini, for_write);
    mini->table.now_ns = access->at_ns;
    if (hit && drop_if_stale(mini, access, line, state)) hit = false, line = NULL;
    bool is_pending = line && line->ready_ns > access->at_ns;
    mini->counters->vmh_pending += is_pending;
    if (!hit && !is_pending) {
        result->code = miss(mini, access, for_write, &line);
        if (result->code < 0) return;
        pw_residency_forget(residency);
        if (pw_translation_begin(base, residency, access, result) < 0) return;
    }
    pw_time ready_ns = line ? pw_later(line->ready_ns, access->at_ns) : access->at_ns;
    result->delay_ns = ready_ns - access->at_ns + mini->lookup_ns;
    result->block_waits = true;
    result->outcome = for_write && !hit ? PW_ACCESS_DROPPED : PW_ACCESS_PRESENT;
    if (result->outcome == PW_ACCESS_PRESENT)
        pw_cache_line_lock(line, for_write ? PW_LOCK_RECEIVE : PW_LOCK_SEND, ready_ns,
                           ready_ns + mini->lookup_ns + access->use_ns);
}

static pw_time word(pw_translation_unit *base, uint16_t pdid, uint64_t page, pw_time at_ns)
{
    (void)pdid, (void)page, (void)at_ns; /* its line was found for the block that brings the word */
    return of(base)->lookup_ns;
}

static pw_time latency_ns(const pw_translation_unit *base, uint32_t how)
{
    (void)how;
    return ((const pw_mini *)(const void *)base)->lookup_ns;
}

/* --- buffers --- */

static int open_buffer(pw_translation_unit *base, uint32_t num_open)
{
    (void)base; /* the table is in host memory; ids have so many bits */
    return num_open < (UINT32_C(1) << PW_MINI_BUFFER_BITS) - 1 ? PW_OK : PW_ERR_FULL;
}

static pw_time find_buffer(pw_translation_unit *base, uint16_t pdid, uint64_t buffer, bool is_known,
                           pw_time at_ns)
{
    pw_mini *mini = of(base);
    pw_time free_ns;
    bool evicted;
    mini->counters->cbh_lookups++;
    pw_cache_line *line = pw_line_cache_find(&mini->cbh, pdid, buffer);
    /* an entry that was filled as invalid ends with the registration of its id */
    if (line && is_known && !pw_cache_line_has(line, 0)) line->is_used = false, line = NULL;
    if (!line) {
        mini->counters->cbh_misses++;
        line = pw_line_cache_take(&mini->cbh, pdid, buffer, at_ns, &free_ns, &evicted);
        if (!line) return free_ns; /* every slot of the set is reserved */
        miss_work work = {.key = (uint64_t)at_ns * PW_NUM_LOCKS + 1};
        line->valid[0] = is_known;
        line->ready_ns = handle_miss(mini, at_ns, &work);
    }
    line->used_ns = pw_later(line->used_ns, at_ns);
    mini->counters->cbh_invalid += !is_known && line->ready_ns <= at_ns;
    return line->ready_ns;
}

static void close_buffer(pw_translation_unit *base, uint64_t buffer)
{
    pw_line_cache_drop_line(&of(base)->cbh, buffer);
}

/* --- processes, shootdowns --- */

static int open_process(pw_translation_unit *base, uint16_t pdid)
{
    pw_mini *mini = of(base);
    if (mini->num_processes == mini->settings->mini_processes) return PW_ERR_CONTEXT;
    mini->processes[mini->num_processes++] = pdid;
    return PW_OK;
}

static bool is_open(pw_translation_unit *base, uint16_t pdid)
{
    for (int64_t i = 0; i < of(base)->num_processes; i++)
        if (of(base)->processes[i] == pdid) return true;
    return false;
}

static pw_time invalidate(pw_translation_unit *base, uint16_t pdid, uint64_t first_page,
                          uint64_t num_pages)
{
    pw_mini *mini = of(base);
    if (num_pages == 0) return 0;
    pw_shootdown_count(mini->counters, pdid, num_pages);
    uint64_t last_page = first_page + (num_pages - 1); /* of all pages the first is 0 */
    if (mini->vmh.lines)
        pw_line_cache_drop_range(&mini->vmh, pdid, first_page >> mini->line_shift,
                                 last_page >> mini->line_shift);
    pw_vmh_table_forget(&mini->table, pdid, first_page, num_pages);
    return mini->costs->tlb_invalidate_ns;
}

static void destroy(pw_translation_unit *base)
{
    pw_mini *mini = of(base);
    pw_vmh_table_destroy(&mini->table);
    pw_line_cache_destroy(&mini->vmh);
    pw_line_cache_destroy(&mini->cbh);
    pw_calendar_finish(&mini->thread);
    free(mini);
}

static pw_mini *create(const pw_unit_parts *parts, const pw_translation_ops *ops)
{
    pw_mini *mini = malloc(sizeof *mini);
    if (!mini) return NULL;
    *mini = (pw_mini){
        .base = {.ops = ops,
                 .memory = parts->memory,
                 .receiver = {.is_silent = true, .keeps_order = parts->settings->keeps_order},
                 .find_buffer_ns = parts->costs->cbh_lookup_ns,
                 .pinned = &mini->table.pinned},
        .costs = parts->costs,
        .settings = parts->settings,
        .counters = parts->counters,
        .lookup_ns = parts->costs->vmh_lookup_ns};
    pw_vmh_table_init(&mini->table, parts->memory, parts->counters, NULL, 0);
    return mini;
}

static int create_caches(pw_mini *mini)
{
    const pw_settings *settings = mini->settings;
    int64_t line_sets = settings->vmh_entries / settings->vmh_line_pages / settings->vmh_ways;
    int64_t buffer_sets = settings->cbh_entries / settings->cbh_ways;
    int code = pw_line_cache_init(&mini->vmh, (uint32_t)line_sets, (uint32_t)settings->vmh_ways);
    if (code < 0) return code;
    return pw_line_cache_init(&mini->cbh, (uint32_t)buffer_sets, (uint32_t)settings->cbh_ways);
}

int pw_mini_create(const pw_unit_parts *parts, pw_translation_unit **out)
{
    static const pw_translation_ops ops = {
        .access = access_page,
        .word = word,
        .latency_ns = latency_ns,
        .open = open_process,
        .is_open = is_open,
        .open_buffer = open_buffer,
        .find_buffer = find_buffer,
        .close_buffer = close_buffer,
        .invalidate = invalidate,
        .destroy = destroy,
    };
    pw_mini *mini = create(parts, &ops);
    if (!mini) return PW_ERR_NOMEM;
    mini->base.buffer_bits = PW_MINI_BUFFER_BITS;
    mini->lookup_ns += way_ns(parts->costs, parts->settings->vmh_ways);
    mini->base.find_buffer_ns += way_ns(parts->costs, parts->settings->cbh_ways);
    mini->line_shift = (uint32_t)__builtin_ctzll((uint64_t)parts->settings->vmh_line_pages);
    mini->checked_ns = INT64_MIN;
    mini->table.cache = &mini->vmh;
    mini->table.line_shift = mini->line_shift;
    int code = create_caches(mini);
    if (code < 0) destroy(&mini->base);
    else *out = &mini->base;
    return code;
}

/* --- base system --- */

/* The base system of miNI (VMMC): all tables on the NIC [MINI 1.2]. Pages of a buffer are pinned
 * and entered when it is used first, for good, and there is room for so many pages and buffers; one
 * more is refused. The thesis's programs register at their start, so a registration takes no
 * virtual time here. */

/* Register the rest of the buffer, from the page on, as far as its second-level table reaches. */
static int enter_buffer(pw_mini *tables, const pw_access *access)
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

static void static_access(pw_translation_unit *base, pw_residency *residency,
                          const pw_access *access, pw_access_result *result)
{
    pw_mini *tables = of(base);
    pw_time delay_ns = access->is_translated ? 0 : tables->lookup_ns;
    int state = pw_translation_begin(base, residency, access, result);
    result->delay_ns = delay_ns;
    if (state < 0) return;
    tables->table.now_ns = access->at_ns;
    bool is_pinned = pw_vmh_table_is_pinned(&tables->table, access->pdid, access->page);
    if (is_pinned && state != PW_PAGE_PRESENT) { /* the OS changed the mapping */
        tables->counters->stale_translations++;
        pw_vmh_table_forget(&tables->table, access->pdid, access->page, 1);
        is_pinned = false;
    }
    if (!is_pinned) {
        result->code = enter_buffer(tables, access);
        if (result->code < 0) return;
        pw_residency_forget(residency);
        state = pw_translation_begin(base, residency, access, result);
        result->delay_ns = delay_ns;
        if (state < 0) return;
    }
    result->outcome = PW_ACCESS_PRESENT;
}

static int static_open_buffer(pw_translation_unit *base, uint32_t num_open)
{
    return num_open < (uint64_t)of(base)->settings->static_buffers ? PW_OK : PW_ERR_FULL;
}

static pw_time static_find_buffer(pw_translation_unit *base, uint16_t pdid, uint64_t buffer,
                                  bool is_known, pw_time at_ns)
{
    (void)pdid, (void)buffer;
    of(base)->counters->cbh_lookups++;
    of(base)->counters->cbh_invalid += !is_known;
    return at_ns;
}

int pw_static_tables_create(const pw_unit_parts *parts, pw_translation_unit **out)
{
    static const pw_translation_ops ops = {
        .access = static_access,
        .word = word,
        .latency_ns = latency_ns,
        .open = open_process,
        .is_open = is_open,
        .open_buffer = static_open_buffer,
        .find_buffer = static_find_buffer,
        .invalidate = invalidate,
        .destroy = destroy,
    };
    pw_mini *tables = create(parts, &ops);
    if (!tables) return PW_ERR_NOMEM;
    *out = &tables->base;
    return PW_OK;
}
