#include "mini/vmh_table.h"
#include <stdlib.h>

void pw_vmh_table_init(pw_vmh_table *table, pw_memory *memory, pw_counters *counters,
                       const pw_line_cache *cache, uint32_t line_shift)
{
    *table = (pw_vmh_table){
        .memory = memory, .counters = counters, .cache = cache, .line_shift = line_shift};
}

static uint32_t bucket_of(uint16_t pdid, uint64_t leaf)
{
    return (uint32_t)((leaf ^ (uint64_t)pdid << 40) * UINT64_C(0x9e3779b97f4a7c15) >> 40) %
           PW_VMH_BUCKETS;
}

static pw_vmh_leaf *find(const pw_vmh_table *table, uint16_t pdid, uint64_t page)
{
    uint64_t leaf = page >> PW_VMH_LEAF_SHIFT;
    pw_vmh_leaf *each = table->buckets[bucket_of(pdid, leaf)];
    while (each && (each->leaf != leaf || each->pdid != pdid)) each = each->next_in_bucket;
    return each;
}

pw_vmh_leaf *pw_vmh_table_leaf(pw_vmh_table *table, uint16_t pdid, uint64_t page)
{
    pw_vmh_leaf *made = find(table, pdid, page);
    if (made || !(made = calloc(1, sizeof *made))) return made;
    made->leaf = page >> PW_VMH_LEAF_SHIFT;
    made->pdid = pdid;
    pw_vmh_leaf **bucket = &table->buckets[bucket_of(pdid, made->leaf)];
    made->next_in_bucket = *bucket;
    *bucket = made;
    if (table->last) table->last->next = made;
    else table->first = made;
    table->last = made;
    return made;
}

bool pw_vmh_table_is_pinned(const pw_vmh_table *table, uint16_t pdid, uint64_t page)
{
    const pw_vmh_leaf *leaf = find(table, pdid, page);
    return leaf && pw_vmh_leaf_bit(leaf->pinned, page);
}

/* Set or clear the pinned bits of a run inside of one second-level table. */
static void note(pw_vmh_table *table, pw_vmh_leaf *leaf, uint64_t first_page, uint64_t num_pages,
                 bool pinned)
{
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        uint64_t *word = &leaf->pinned[page % PW_VMH_LEAF_PAGES / 64];
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

static uint64_t first_page_of(const pw_vmh_leaf *leaf) { return leaf->leaf << PW_VMH_LEAF_SHIFT; }

void pw_vmh_table_destroy(pw_vmh_table *table)
{
    for (pw_vmh_leaf *leaf = table->first, *next; leaf; leaf = next) {
        next = leaf->next;
        unpin(table, leaf, first_page_of(leaf), first_page_of(leaf) + PW_VMH_LEAF_PAGES);
        free(leaf);
    }
    table->first = NULL;
}

/* One round of a second-level table, line by line. */
static void evict_leaf(pw_vmh_table *table, pw_vmh_leaf *leaf, uint64_t low_pages)
{
    uint64_t line_pages = UINT64_C(1) << table->line_shift, first = first_page_of(leaf);
    for (uint64_t page = first; page < first + PW_VMH_LEAF_PAGES; page += line_pages) {
        if (table->pinned.num_pages <= low_pages) return;
        if (pw_line_cache_find(table->cache, leaf->pdid, page >> table->line_shift)) continue;
        unpin(table, leaf, page, page + line_pages);
    }
}

void pw_vmh_table_evict(pw_vmh_table *table, uint64_t low_pages)
{
    pw_vmh_leaf *start = table->hand ? table->hand : table->first, *leaf = start;
    if (!leaf || table->pinned.num_pages <= low_pages) return;
    table->counters->vmh_evictions++;
    do {
        evict_leaf(table, leaf, low_pages);
        if (table->pinned.num_pages <= low_pages) break;
        leaf = leaf->next ? leaf->next : table->first;
    } while (leaf != start);
    table->hand = leaf;
}

void pw_vmh_table_forget(pw_vmh_table *table, uint16_t pdid, uint64_t first_page,
                         uint64_t num_pages)
{
    uint64_t end_page = first_page + num_pages;
    for (pw_vmh_leaf *leaf = table->first; leaf; leaf = leaf->next) {
        uint64_t first = first_page_of(leaf), end = first + PW_VMH_LEAF_PAGES;
        if (leaf->pdid != pdid || first >= end_page || end <= first_page) continue;
        unpin(table, leaf, first > first_page ? first : first_page,
              end < end_page ? end : end_page);
    }
}

void pw_vmh_table_forget_process(pw_vmh_table *table, uint16_t pdid)
{
    for (pw_vmh_leaf *leaf = table->first; leaf; leaf = leaf->next)
        if (pdid == 0 || leaf->pdid == pdid)
            unpin(table, leaf, first_page_of(leaf), first_page_of(leaf) + PW_VMH_LEAF_PAGES);
}
