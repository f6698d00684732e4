#include "node/strategies/kept_pins.h"
#include "node/strategies/strategy_pages.h"
#include <stdlib.h>

typedef struct {
    pw_leaf leaf;
    pw_kept_page pages[PW_LEAF_PAGES];
} kept_leaf;

void pw_kept_pages_finish(pw_kept_pages *kept)
{
    pw_page_leaves_clear(&kept->leaves);
    *kept = (pw_kept_pages){0};
}

int pw_kept_pages_prepare(pw_kept_pages *kept, uint64_t first_page, uint64_t num_pages)
{
    uint64_t end_page = first_page + num_pages;
    for (uint64_t page = first_page; page < end_page; page = (page | (PW_LEAF_PAGES - 1)) + 1)
        if (!pw_page_leaves_make(&kept->leaves, 0, page, sizeof(kept_leaf))) return PW_ERR_NOMEM;
    return PW_OK;
}

static pw_kept_page *place_of(const pw_kept_pages *kept, uint64_t page)
{
    kept_leaf *leaf = (kept_leaf *)(void *)pw_page_leaves_find(&kept->leaves, 0, page);
    return leaf ? &leaf->pages[page % PW_LEAF_PAGES] : NULL;
}

pw_kept_page *pw_kept_pages_find(const pw_kept_pages *kept, uint64_t page)
{
    pw_kept_page *found = place_of(kept, page);
    return found && found->is_kept ? found : NULL;
}

static void leave_queue(pw_kept_pages *kept, pw_kept_page *page)
{
    if (page->before) page->before->behind = page->behind;
    else kept->head = page->behind;
    if (page->behind) page->behind->before = page->before;
    else kept->tail = page->before;
    page->before = page->behind = NULL;
    kept->num_idle--;
}

pw_kept_page *pw_kept_pages_use(pw_kept_pages *kept, uint64_t page)
{
    pw_kept_page *used = place_of(kept, page);
    if (!used->is_kept) {
        *used = (pw_kept_page){.page = page, .is_kept = true};
        kept->num_pages++;
    } else if (used->num_users == 0) leave_queue(kept, used);
    used->num_users++;
    return used;
}

void pw_kept_pages_let_go(pw_kept_pages *kept, pw_kept_page *page)
{
    if (--page->num_users) return;
    page->before = kept->tail;
    page->behind = NULL;
    if (kept->tail) kept->tail->behind = page;
    else kept->head = page;
    kept->tail = page;
    kept->num_idle++;
}

void pw_kept_pages_remove(pw_kept_pages *kept, pw_kept_page *page)
{
    if (page->num_users == 0) leave_queue(kept, page);
    page->is_kept = false;
    kept->num_pages--;
}

uint64_t pw_kept_pages_run(const pw_kept_pages *kept, uint64_t max_pages)
{
    uint64_t num_pages = 0;
    for (const pw_kept_page *each = kept->head; each && num_pages < max_pages;
         each = each->behind, num_pages++)
        if (each->page != kept->head->page + num_pages) break;
    return num_pages;
}

static int unpin(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages,
                 pw_strategy_cost *cost)
{
    pw_strategy_context *context = pins->context;
    cost->pin_ns += pw_cost_ns(context->tables, PW_COST_UNPIN, num_pages);
    if (context->unpinned) context->unpinned(context->owner, first_page, num_pages);
    return pw_strategy_unpin_pages(context, first_page, num_pages);
}

/* Give up what has been in the queue for longest, at most num_pages of it. 1; 0 when it is empty.
 */
static int evict(pw_kept_pins *pins, uint64_t num_pages, pw_strategy_cost *cost)
{
    uint64_t run = pw_kept_pages_run(&pins->pages, num_pages);
    if (!run) return 0;
    uint64_t first_page = pins->pages.head->page;
    for (uint64_t i = 0; i < run; i++) pw_kept_pages_remove(&pins->pages, pins->pages.head);
    pins->context->counters.strategy_evictions++;
    int code = unpin(pins, first_page, run, cost);
    return code == PW_OK ? 1 : code;
}

static uint64_t above(uint64_t value, uint64_t limit) { return value > limit ? value - limit : 0; }

/* Down to the limits, as far as anything can go. */
static int trim(pw_kept_pins *pins, pw_strategy_cost *cost)
{
    for (int evicted = 1; evicted > 0;) {
        uint64_t excess = above(pins->pages.num_pages, pins->max_pages);
        uint64_t idle_excess = above(pins->pages.num_idle, pins->max_idle_pages);
        if (idle_excess > excess) excess = idle_excess;
        evicted = excess ? evict(pins, excess, cost) : 0;
        if (evicted < 0) return evicted;
    }
    return PW_OK;
}

int pw_kept_pins_create(pw_strategy_context *context, uint64_t max_pages, uint64_t max_idle_pages,
                        void **self)
{
    int code = pw_strategy_object(context, sizeof(pw_kept_pins), self);
    if (code != PW_OK) return code;
    pw_kept_pins *made = *self;
    made->max_pages = max_pages;
    made->max_idle_pages = max_idle_pages;
    return PW_OK;
}

void pw_kept_pins_destroy(void *self)
{
    pw_kept_pins *pins = self;
    pw_strategy_unpin_all(pins->context);
    pw_kept_pages_finish(&pins->pages);
    free(pins);
}

/* From *page on: the next run of kept pages that are good, or not; its length, 0 behind the last.
 */
static uint64_t next_run(const pw_kept_pins *pins, uint64_t *page, uint64_t end_page, bool is_good)
{
    for (; *page < end_page; ++*page) {
        uint64_t run = 0;
        const pw_kept_page *each;
        while (*page + run < end_page && (each = pw_kept_pages_find(&pins->pages, *page + run)) &&
               each->is_good == is_good)
            run++;
        if (run) return run;
    }
    return 0;
}

static void mark(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages, bool is_good)
{
    for (uint64_t page = first_page; page < first_page + num_pages; page++)
        pw_kept_pages_find(&pins->pages, page)->is_good = is_good;
}

/* What the OS has unpinned of the range is no good any more. */
static int find_gone(pw_kept_pins *pins, uint64_t first_page, uint64_t end_page,
                     pw_strategy_cost *cost)
{
    for (uint64_t page = first_page, run; (run = next_run(pins, &page, end_page, true)) > 0;
         page += run) {
        int code = pw_memory_is_pinned(pins->context->memory, page, run);
        if (code == 1) continue;
        if (code < 0)
            return pw_strategy_failed(pins->context, code, "look-up", pw_span_of_pages(page, run));
        pins->context->counters.strategy_invalidations++;
        mark(pins, page, run, false);
        code = unpin(pins, page, run, cost);
        if (code < 0) return code;
    }
    return PW_OK;
}

/* At the limit of locked memory what nobody uses goes. */
static int pin_run(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages,
                   pw_strategy_cost *cost)
{
    pw_strategy_context *context = pins->context;
    uint64_t num_absent;
    int code, evicted = 1;
    while ((code = pw_strategy_pin_pages(context, first_page, num_pages, &num_absent)) ==
               PW_ERR_FULL &&
           evicted > 0) {
        evicted = evict(pins, num_pages, cost);
        if (evicted < 0) return evicted;
    }
    if (code != PW_OK) return code;
    mark(pins, first_page, num_pages, true);
    cost->pin_ns += pw_strategy_pin_ns(context, num_pages, num_absent);
    return PW_OK;
}

static int pin_missing(pw_kept_pins *pins, uint64_t first_page, uint64_t end_page,
                       pw_strategy_cost *cost, uint64_t *num_new)
{
    *num_new = 0;
    for (uint64_t page = first_page, run; (run = next_run(pins, &page, end_page, false)) > 0;
         page += run) {
        int code = pin_run(pins, page, run, cost);
        if (code < 0) return code;
        *num_new += run;
    }
    return PW_OK;
}

/* Pages that are no good stay only as long as somebody uses them. */
static void let_go(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages)
{
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        pw_kept_page *each = pw_kept_pages_find(&pins->pages, page);
        if (!each || !each->num_users) continue; /* a peer's word */
        pw_kept_pages_let_go(&pins->pages, each);
        if (!each->is_good && each->num_users == 0) pw_kept_pages_remove(&pins->pages, each);
    }
}

int pw_kept_pins_hold(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages, bool checks,
                      pw_strategy_cost *cost, uint64_t *num_new)
{
    uint64_t end_page = first_page + num_pages;
    int code = pw_range_wraps(first_page, num_pages) ? PW_ERR_INVALID : PW_OK;
    if (code == PW_OK) code = pw_kept_pages_prepare(&pins->pages, first_page, num_pages);
    if (code < 0)
        return pw_strategy_failed(pins->context, code, "pin",
                                  pw_span_of_pages(first_page, num_pages));
    for (uint64_t page = first_page; page < end_page; page++) pw_kept_pages_use(&pins->pages, page);
    code = checks ? find_gone(pins, first_page, end_page, cost) : PW_OK;
    if (code == PW_OK) code = trim(pins, cost);
    if (code == PW_OK) code = pin_missing(pins, first_page, end_page, cost, num_new);
    if (code < 0) let_go(pins, first_page, num_pages);
    return code;
}

int pw_kept_pins_drop(void *self, uint64_t first_page, uint64_t num_pages, pw_strategy_cost *cost)
{
    let_go(self, first_page, num_pages);
    return trim(self, cost);
}

int pw_kept_pins_release(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    pw_strategy_cost passed = {0};
    pw_strategy_end_astray(lease);
    int code = pw_kept_pins_drop(self, pw_span_first_page(lease->span),
                                 pw_span_num_pages(lease->span), &passed);
    if (code == PW_OK) *cost = passed;
    return code;
}

int pw_kept_pins_renew(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages,
                       pw_strategy_cost *cost)
{
    uint64_t num_new;
    int code = find_gone(pins, first_page, first_page + num_pages, cost);
    return code < 0 ? code : pin_missing(pins, first_page, first_page + num_pages, cost, &num_new);
}

int pw_kept_pins_invalidated(void *self, uint64_t first_page, uint64_t num_pages)
{
    pw_kept_pins *pins = self;
    const pw_page_counts *pinned = &pins->context->pinned_pages;
    uint64_t end_page = first_page + num_pages;
    pw_strategy_cost in_the_os = {0}; /* munmap's and fork's own */
    for (uint64_t run; (run = pw_page_counts_next(pinned, &first_page, end_page)) > 0;
         first_page += run) {
        pins->context->counters.strategy_invalidations++;
        for (uint64_t page = first_page; page < first_page + run; page++) {
            pw_kept_page *each = pw_kept_pages_find(&pins->pages, page);
            each->is_good = false;
            if (each->num_users == 0) pw_kept_pages_remove(&pins->pages, each);
        }
        int code = unpin(pins, first_page, run, &in_the_os);
        if (code < 0) return code;
    }
    return PW_OK;
}
