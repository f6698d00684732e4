/* Counts of page ranges: see page_counts.h. The tree is a treap: ordered by page, and a heap by
 * priorities that a hash of a counter gives, so that its depth is logarithmic whatever comes in.
 *
 * Neighbours with the same count and the same `since` are one interval, as far as no call cut them
 * apart: only at the two ends of a range can neighbours become equal, and there they are joined. */
#include "node/strategies/page_counts.h"
#include <stdlib.h>

#define INTERVALS_MAX (1u << 30)

void pw_page_counts_finish(pw_page_counts *counts)
{
    free(counts->intervals);
    *counts = (pw_page_counts){0};
}

/* Room for so many intervals more, so that nothing can fail once the tree is touched. */
static int reserve(pw_page_counts *counts, uint64_t num_more)
{
    uint64_t needed = counts->num_intervals + num_more + 1; /* index 0 is none */
    if (needed <= counts->capacity) return PW_OK;
    if (needed > INTERVALS_MAX) return PW_ERR_NOMEM;
    uint64_t capacity = needed > 2 * (uint64_t)counts->capacity ? needed : 2 * counts->capacity;
    if (capacity < 64) capacity = 64;
    pw_page_interval *intervals = realloc(counts->intervals, capacity * sizeof(*intervals));
    if (!intervals) return PW_ERR_NOMEM;
    counts->intervals = intervals;
    counts->capacity = (uint32_t)capacity;
    return PW_OK;
}

/* The finaliser of murmur3: every bit of the counter changes every bit of the priority. */
static uint32_t next_priority(pw_page_counts *counts)
{
    uint32_t value = ++counts->num_priorities;
    value = (value ^ value >> 16) * 0x85EBCA6Bu;
    value = (value ^ value >> 13) * 0xC2B2AE35u;
    return value ^ value >> 16;
}

/* The tree. */

static uint32_t find_from(const pw_page_counts *counts, uint64_t page)
{
    const pw_page_interval *all = counts->intervals;
    uint32_t found = 0;
    for (uint32_t i = counts->root; i;) {
        if (all[i].end_page > page) {
            found = i;
            i = all[i].left;
        } else i = all[i].right;
    }
    return found;
}

static void insert(pw_page_counts *counts, uint64_t first_page, uint64_t end_page, uint64_t since,
                   uint64_t num_holders)
{
    pw_page_interval *all = counts->intervals;
    uint32_t idx = counts->free;
    if (idx) counts->free = all[idx].left;
    else idx = ++counts->num_made;
    counts->num_intervals++;
    counts->num_held_pages += end_page - first_page;
    all[idx] = (pw_page_interval){.first_page = first_page,
                                  .end_page = end_page,
                                  .since = since,
                                  .num_holders = num_holders,
                                  .priority = next_priority(counts)};
    uint32_t *link = &counts->root;
    while (*link && all[*link].priority >= all[idx].priority)
        link = all[*link].first_page < first_page ? &all[*link].right : &all[*link].left;
    uint32_t rest = *link, *low = &all[idx].left, *high = &all[idx].right;
    *link = idx;
    while (rest) { /* what was here goes below, to either side */
        if (all[rest].first_page < first_page) {
            *low = rest;
            low = &all[rest].right;
            rest = *low;
        } else {
            *high = rest;
            high = &all[rest].left;
            rest = *high;
        }
    }
    *low = *high = 0;
}

static void remove_interval(pw_page_counts *counts, uint32_t idx)
{
    pw_page_interval *all = counts->intervals;
    uint32_t *link = &counts->root;
    while (*link != idx)
        link = all[*link].first_page < all[idx].first_page ? &all[*link].right : &all[*link].left;
    uint32_t low = all[idx].left, high = all[idx].right;
    while (low && high) {
        if (all[low].priority >= all[high].priority) {
            *link = low;
            link = &all[low].right;
            low = *link;
        } else {
            *link = high;
            link = &all[high].left;
            high = *link;
        }
    }
    *link = low ? low : high;
    all[idx].left = counts->free;
    all[idx].num_holders = 0;
    counts->free = idx;
    counts->num_intervals--;
    counts->num_held_pages -= all[idx].end_page - all[idx].first_page;
}

/* Ranges. */

/* No interval reaches over this page's start afterwards: at most one more. */
static void cut(pw_page_counts *counts, uint64_t page)
{
    uint32_t i = find_from(counts, page);
    if (!i || counts->intervals[i].first_page >= page) return;
    pw_page_interval *low = &counts->intervals[i];
    uint64_t end_page = low->end_page;
    low->end_page = page;
    counts->num_held_pages -= end_page - page;
    insert(counts, page, end_page, low->since, low->num_holders);
}

/* An interval takes the pages of the one behind it, which goes. */
static void swallow(pw_page_counts *counts, pw_page_interval *low, uint32_t next)
{
    const pw_page_interval *high = &counts->intervals[next];
    low->end_page = high->end_page;
    counts->num_held_pages += high->end_page - high->first_page;
    remove_interval(counts, next);
}

/* Two neighbours that meet at this page become one if they are equal. */
static void join(pw_page_counts *counts, uint64_t page)
{
    uint32_t i = page > 0 ? find_from(counts, page - 1) : 0, next = find_from(counts, page);
    if (!i || !next || i == next) return;
    pw_page_interval *low = &counts->intervals[i], *high = &counts->intervals[next];
    if (low->end_page != page || high->first_page != page || low->since != high->since ||
        low->num_holders != high->num_holders)
        return;
    swallow(counts, low, next);
}

static uint64_t end_of(uint64_t first_page, uint64_t num_pages)
{
    return num_pages > UINT64_MAX - first_page ? UINT64_MAX : first_page + num_pages;
}

int pw_page_counts_hold(pw_page_counts *counts, uint64_t first_page, uint64_t num_pages,
                        uint64_t *hold)
{
    uint64_t end_page = end_of(first_page, num_pages);
    /* Two cuts, a gap before, between and behind all that there are, and two for `drop`, so that a
     * hold can always be taken back. */
    int code = reserve(counts, (uint64_t)counts->num_intervals + 5);
    if (code != PW_OK) return code;
    *hold = ++counts->last_hold;
    cut(counts, first_page);
    cut(counts, end_page);
    for (uint64_t page = first_page; page < end_page;) {
        uint32_t i = find_from(counts, page);
        pw_page_interval *next = i ? &counts->intervals[i] : NULL;
        if (next && next->first_page == page) {
            next->num_holders++;
            page = next->end_page;
            continue;
        }
        uint64_t gap_end = next && next->first_page < end_page ? next->first_page : end_page;
        insert(counts, page, gap_end, *hold, 1);
        page = gap_end;
    }
    join(counts, first_page);
    join(counts, end_page);
    return PW_OK;
}

/* Pages in a row that nobody holds any more. */
struct run {
    uint64_t first_page, end_page;
    pw_page_run unheld;
    void *context;
    int code; /* the first that was not PW_OK */
};

static void report(struct run *run)
{
    if (run->end_page == run->first_page || !run->unheld) return;
    int code = run->unheld(run->context, run->first_page, run->end_page - run->first_page);
    if (run->code == PW_OK) run->code = code;
}

int pw_page_counts_drop(pw_page_counts *counts, uint64_t first_page, uint64_t num_pages,
                        uint64_t hold, pw_page_run unheld, void *context)
{
    uint64_t end_page = end_of(first_page, num_pages);
    struct run run = {.unheld = unheld, .context = context};
    int code = reserve(counts, 2);
    if (code != PW_OK) return code;
    cut(counts, first_page);
    cut(counts, end_page);
    for (uint64_t page = first_page; page < end_page;) {
        uint32_t i = find_from(counts, page);
        pw_page_interval *next = &counts->intervals[i];
        if (!i || next->first_page >= end_page) break;
        page = next->end_page;
        if (next->since > hold) continue; /* forgotten, and held anew */
        if (--next->num_holders > 0) continue;
        if (run.end_page != next->first_page) {
            report(&run);
            run.first_page = next->first_page;
        }
        run.end_page = next->end_page;
        remove_interval(counts, i);
    }
    report(&run);
    join(counts, first_page);
    join(counts, end_page);
    return run.code;
}

int pw_page_counts_forget(pw_page_counts *counts, uint64_t first_page, uint64_t num_pages)
{
    uint64_t end_page = end_of(first_page, num_pages);
    if (end_page == first_page) return PW_OK;
    int code = reserve(counts, 2);
    if (code != PW_OK) return code;
    cut(counts, first_page);
    cut(counts, end_page);
    for (uint32_t i = find_from(counts, first_page);
         i && counts->intervals[i].first_page < end_page; i = find_from(counts, first_page))
        remove_interval(counts, i);
    return PW_OK;
}

const pw_page_interval *pw_page_counts_from(const pw_page_counts *counts, uint64_t page)
{
    uint32_t i = find_from(counts, page);
    return i ? &counts->intervals[i] : NULL;
}

uint64_t pw_page_counts_next(const pw_page_counts *counts, uint64_t *page, uint64_t end_page)
{
    const pw_page_interval *met = pw_page_counts_from(counts, *page);
    if (!met || met->first_page >= end_page) return 0;
    if (met->first_page > *page) *page = met->first_page;
    return (met->end_page < end_page ? met->end_page : end_page) - *page;
}

void pw_page_counts_merge(pw_page_counts *counts, uint64_t first_page, uint64_t end_page)
{
    pw_page_interval *all = counts->intervals;
    pw_page_interval *whole = &all[find_from(counts, first_page ? first_page - 1 : 0)];
    while (whole->end_page <= end_page) {
        uint32_t next = find_from(counts, whole->end_page);
        if (!next || all[next].first_page != whole->end_page) break;
        swallow(counts, whole, next);
    }
    whole->since = ++counts->last_hold;
}

const pw_page_interval *pw_page_counts_oldest(const pw_page_counts *counts, pw_page_test suits,
                                              const void *context)
{
    const pw_page_interval *oldest = NULL;
    for (uint32_t i = 1; i <= counts->num_made; i++) {
        const pw_page_interval *each = &counts->intervals[i];
        if (!each->num_holders) continue; /* free */
        bool is_older = !oldest || each->since < oldest->since ||
                        (each->since == oldest->since && each->first_page < oldest->first_page);
        if (is_older && suits(context, each)) oldest = each;
    }
    return oldest;
}
