/* miNI's caches on the NIC, and the driver's table of pinned pages. */
#include "smmu/mini/mini.h"
#include <stdlib.h>
#include <string.h>

int pw_line_cache_init(pw_line_cache *cache, uint32_t num_sets, uint32_t num_ways)
{
    bool is_power_of_two = num_sets && !(num_sets & (num_sets - 1));
    *cache = (pw_line_cache){.num_sets = num_sets, .num_ways = num_ways};
    if (!is_power_of_two || num_ways < 2) return PW_ERR_INVALID;
    cache->lines = calloc((size_t)num_sets * num_ways, sizeof *cache->lines);
    return cache->lines ? PW_OK : PW_ERR_NOMEM;
}

void pw_line_cache_destroy(pw_line_cache *cache)
{
    free(cache->lines);
    cache->lines = NULL;
}

static pw_cache_line *set_of(const pw_line_cache *cache, uint64_t line)
{
    return &cache->lines[(line & (cache->num_sets - 1)) * cache->num_ways];
}

pw_cache_line *pw_line_cache_find(const pw_line_cache *cache, uint16_t pdid, uint64_t line)
{
    pw_cache_line *set = set_of(cache, line);
    for (uint32_t way = 0; way < cache->num_ways; way++)
        if (set[way].is_used && set[way].line == line && set[way].pdid == pdid) return &set[way];
    return NULL;
}

/* From when on the line can be replaced. */
static pw_time held_until_ns(const pw_cache_line *line)
{
    pw_time until_ns = line->ready_ns;
    for (int lock = 0; lock < PW_NUM_LOCKS; lock++)
        until_ns = pw_later(until_ns, line->locked_until_ns[lock]);
    return until_ns;
}

pw_cache_line *pw_line_cache_take(pw_line_cache *cache, uint16_t pdid, uint64_t line, pw_time at_ns,
                                  pw_time *free_ns, bool *evicted)
{
    pw_cache_line *set = set_of(cache, line), *victim = NULL;
    pw_time first_free_ns = PW_NEVER;
    for (uint32_t way = 0; way < cache->num_ways; way++) {
        pw_cache_line *each = &set[way];
        if (!each->is_used) {
            victim = each;
            break;
        }
        pw_time until_ns = held_until_ns(each);
        if (until_ns < first_free_ns) first_free_ns = until_ns;
        if (until_ns <= at_ns && (!victim || each->used_ns < victim->used_ns)) victim = each;
    }
    if (!victim) {
        *free_ns = first_free_ns;
        return NULL;
    }
    *evicted = victim->is_used;
    *victim = (pw_cache_line){.line = line, .pdid = pdid, .is_used = true, .used_ns = at_ns};
    for (int lock = 0; lock < PW_NUM_LOCKS; lock++) victim->locked_until_ns[lock] = INT64_MIN;
    return victim;
}

void pw_cache_line_lock(pw_cache_line *line, enum pw_lock lock, pw_time at_ns, pw_time until_ns)
{
    line->used_ns = pw_later(line->used_ns, at_ns);
    line->locked_until_ns[lock] = pw_later(line->locked_until_ns[lock], until_ns);
}

void pw_line_cache_drop_line(pw_line_cache *cache, uint64_t line)
{
    pw_cache_line *set = set_of(cache, line);
    for (uint32_t way = 0; way < cache->num_ways; way++)
        if (set[way].line == line) set[way].is_used = false;
}

void pw_line_cache_drop_range(pw_line_cache *cache, uint16_t pdid, uint64_t first, uint64_t last)
{
    if (pdid && last - first < cache->num_sets) {
        for (uint64_t line = first; line <= last; line++) {
            pw_cache_line *found = pw_line_cache_find(cache, pdid, line);
            if (found) found->is_used = false;
        }
        return;
    }
    for (uint32_t i = 0; i < cache->num_sets * cache->num_ways; i++) {
        pw_cache_line *each = &cache->lines[i];
        bool is_of_it = pdid == 0 || each->pdid == pdid;
        if (is_of_it && each->line >= first && each->line <= last) each->is_used = false;
    }
}

void pw_vmh_table_init(pw_vmh_table *table, pw_memory *memory, pw_counters *counters,
                       const pw_line_cache *cache, uint32_t line_shift)
{
    *table = (pw_vmh_table){
        .memory = memory, .counters = counters, .cache = cache, .line_shift = line_shift};
}

static pw_vmh_leaf *of_leaf(pw_leaf *leaf) { return (pw_vmh_leaf *)(void *)leaf; }

pw_vmh_leaf *pw_vmh_table_leaf(pw_vmh_table *table, uint16_t pdid, uint64_t page)
{
    return of_leaf(pw_page_leaves_make(&table->leaves, pdid, page, sizeof(pw_vmh_leaf)));
}

bool pw_vmh_table_is_pinned(const pw_vmh_table *table, uint16_t pdid, uint64_t page)
{
    const pw_vmh_leaf *leaf = of_leaf(pw_page_leaves_find(&table->leaves, pdid, page));
    return leaf && pw_vmh_leaf_bit(leaf->pinned, page);
}

/* Set or clear the pinned bits of a run inside of one second-level table. */
static void note(pw_vmh_table *table, pw_vmh_leaf *leaf, uint64_t first_page, uint64_t num_pages,
                 bool pinned)
{
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        uint64_t *word = &leaf->pinned[page % PW_LEAF_PAGES / 64];
        uint64_t bit = UINT64_C(1) << (page % 64);
        *word = pinned ? *word | bit : *word & ~bit;
    }
    uint64_t num_pinned = table->pinned.num_pages;
    pw_pinned_set(&table->pinned, pinned ? num_pinned + num_pages : num_pinned - num_pages,
                  table->now_ns);
    if (pinned) table->counters->vmh_pages_pinned += num_pages;
    else table->counters->vmh_pages_unpinned += num_pages;
    table->counters->vmh_pinned_peak = table->pinned.peak_pages;
}

/* Length of the run of equal bits from page on. */
static uint64_t run_of(const uint64_t *bits, uint64_t page, uint64_t end_page)
{
    uint64_t next = page + 1;
    while (next < end_page && pw_vmh_leaf_bit(bits, next) == pw_vmh_leaf_bit(bits, page)) next++;
    return next - page;
}

int pw_vmh_table_pin(pw_vmh_table *table, uint16_t pdid, uint64_t first_page, uint64_t num_pages)
{
    uint64_t end_page = first_page + num_pages, run;
    int num_new = 0;
    pw_vmh_leaf *leaf = pw_vmh_table_leaf(table, pdid, first_page);
    if (!leaf) return PW_ERR_NOMEM;
    for (uint64_t page = first_page; page < end_page; page += run) {
        run = run_of(leaf->pinned, page, end_page);
        if (pw_vmh_leaf_bit(leaf->pinned, page)) continue;
        int code = pw_memory_pin(table->memory, page, run, NULL);
        if (code < 0) return code;
        note(table, leaf, page, run, true);
        num_new += (int)run;
    }
    return num_new;
}

/* Unpin what is pinned of the range, inside of one second-level table. A page whose mapping has
 * gone is not pinned any more: that its unpin fails is no news. */
static void unpin(pw_vmh_table *table, pw_vmh_leaf *leaf, uint64_t first_page, uint64_t end_page)
{
    uint64_t run;
    for (uint64_t page = first_page; page < end_page; page += run) {
        run = run_of(leaf->pinned, page, end_page);
        if (!pw_vmh_leaf_bit(leaf->pinned, page)) continue;
        pw_memory_unpin(table->memory, page, run);
        note(table, leaf, page, run, false);
    }
}

void pw_vmh_table_destroy(pw_vmh_table *table)
{
    pw_vmh_table_forget(table, 0, 0, PW_ALL_PAGES);
    pw_page_leaves_clear(&table->leaves);
}

/* One round of a second-level table, line by line. */
static void evict_leaf(pw_vmh_table *table, pw_leaf *leaf, uint64_t low_pages)
{
    uint64_t line_pages = UINT64_C(1) << table->line_shift, first = pw_leaf_first_page(leaf);
    for (uint64_t page = first; page < first + PW_LEAF_PAGES; page += line_pages) {
        if (table->pinned.num_pages <= low_pages) return;
        if (pw_line_cache_find(table->cache, leaf->pdid, page >> table->line_shift)) continue;
        unpin(table, of_leaf(leaf), page, page + line_pages);
    }
}

void pw_vmh_table_evict(pw_vmh_table *table, uint64_t low_pages)
{
    pw_leaf *start = table->hand ? table->hand : table->leaves.first, *leaf = start;
    if (!leaf || table->pinned.num_pages <= low_pages) return;
    table->counters->vmh_evictions++;
    do {
        evict_leaf(table, leaf, low_pages);
        if (table->pinned.num_pages <= low_pages) break;
        leaf = leaf->next ? leaf->next : table->leaves.first;
    } while (leaf != start);
    table->hand = leaf;
}

void pw_vmh_table_forget(pw_vmh_table *table, uint16_t pdid, uint64_t first_page,
                         uint64_t num_pages)
{
    uint64_t end_page = num_pages > UINT64_MAX - first_page ? UINT64_MAX : first_page + num_pages;
    for (pw_leaf *leaf = table->leaves.first; leaf; leaf = leaf->next) {
        uint64_t first = pw_leaf_first_page(leaf), end = first + PW_LEAF_PAGES;
        bool is_outside = first >= end_page || end <= first_page;
        if (is_outside || (pdid && leaf->pdid != pdid)) continue;
        unpin(table, of_leaf(leaf), first > first_page ? first : first_page,
              end < end_page ? end : end_page);
    }
}
