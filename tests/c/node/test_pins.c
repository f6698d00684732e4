/* Pins with counts on the host's real pages: who still needs a page keeps it locked. Then the
 * strategies' table without Python. */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "node/strategies/pin.h"
#include "node/strategies/strategy.h"

#define NUM_PAGES 8u

static char *new_pages(void)
{
    char *pages = mmap(NULL, NUM_PAGES * PW_PAGE_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(pages != MAP_FAILED);
    madvise(pages, NUM_PAGES * PW_PAGE_BYTES, MADV_NOHUGEPAGE);
    return pages;
}

/* The kernel takes no locked page away. */
static bool is_locked(pw_memory *memory, uint64_t page)
{
    int code = pw_memory_drop(memory, page, 1);
    assert(code == PW_OK || code == PW_ERR_PROTECTION);
    return code == PW_ERR_PROTECTION;
}

static void check_locked(pw_memory *memory, uint64_t first_page, const char *expected)
{
    for (uint64_t i = 0; i < NUM_PAGES; i++)
        assert(is_locked(memory, first_page + i) == (expected[i] == '#'));
}

static void test_overlapping_pins(pw_memory *memory)
{
    char *pages = new_pages();
    uint64_t at = pw_page_of((uintptr_t)pages), absent, first, second, third;
    pw_pins *pins;
    assert(pw_pins_create(memory, &pins) == PW_OK);
    assert(pw_pins_acquire(pins, at, 5, &absent, &first) == PW_OK && absent == 5);
    assert(pw_pins_acquire(pins, at + 4, 3, &absent, &second) == PW_OK && absent == 2);
    check_locked(memory, at, "#######.");
    assert(pw_pins_release(pins, at, 5, first) == PW_OK);
    check_locked(memory, at, "....###.");
    /* What fails changes nobody's pins: page 7 is unmapped. */
    munmap(pages + 7 * PW_PAGE_BYTES, PW_PAGE_BYTES);
    assert(pw_pins_acquire(pins, at + 5, 3, &absent, &third) == PW_ERR_ADDRESS);
    assert(pw_pins_acquire(pins, UINT64_MAX - 1, 3, &absent, &third) == PW_ERR_INVALID);
    assert(is_locked(memory, at + 5));
    pw_pins_destroy(pins);
    assert(!is_locked(memory, at + 4) && !is_locked(memory, at + 6));
    munmap(pages, NUM_PAGES * PW_PAGE_BYTES);
}

static void test_release_of_pages_with_a_hole_unpins_the_others(pw_memory *memory)
{
    char *pages = new_pages();
    uint64_t at = pw_page_of((uintptr_t)pages), absent, pin;
    pw_pins *pins;
    assert(pw_pins_create(memory, &pins) == PW_OK);
    assert(pw_pins_acquire(pins, at, 8, &absent, &pin) == PW_OK);
    munmap(pages + 3 * PW_PAGE_BYTES, PW_PAGE_BYTES);
    assert(is_locked(memory, at + 2) && is_locked(memory, at + 7));
    assert(pw_pins_release(pins, at, 8, pin) == PW_OK);
    assert(!is_locked(memory, at + 2) && !is_locked(memory, at + 7));
    pw_pins_destroy(pins);
    munmap(pages, NUM_PAGES * PW_PAGE_BYTES);
}

static pw_cost_tables cost_tables(void)
{
    pw_cost_tables tables = {0};
    for (int i = 0; i < PW_COST_TABLES; i++)
        tables.table[i] = (pw_cost_table){
            .num_points = 2, .num_bytes = {4096, 8192}, .cost_ns = {10 + i, 20 + 2 * i}};
    return tables;
}

static void test_strategies(pw_memory *memory)
{
    pw_cost_tables tables = cost_tables();
    const char *reason = NULL;
    assert(pw_cost_tables_check(&tables, &reason) == PW_OK && !reason);
    uint32_t num_strategies = 0;
    while (pw_strategy_at(num_strategies)) num_strategies++;
    assert(num_strategies == 14 && !pw_strategy_find("pim"));
    char *pages = new_pages();
    for (uint32_t i = 0; i < num_strategies; i++) {
        const pw_strategy_ops *ops = pw_strategy_at(i);
        assert(pw_strategy_find(ops->name) == ops && strlen(ops->summary) > 0);
        const pw_settings settings = {.locked_limit_bytes = -1,
                                      .strategy_checks_mappings = 1,
                                      .pin_cache_limit_bytes = -1,
                                      .pin_cache_limit_regions = 8,
                                      .piece_bytes = PW_PAGE_BYTES,
                                      .bounce_buffers = 2,
                                      .utlb_limit_bytes = -1};
        const pw_costs costs = {.lookup_ns = 5};
        pw_strategy_context context = {
            .memory = memory, .tables = &tables, .costs = &costs, .settings = &settings};
        if (strcmp(ops->name, "pin-all") == 0) continue; /* all of this process would come in */
        pw_span span = {(uintptr_t)pages + 4095, 2};
        pw_lease lease;
        pw_strategy_cost cost;
        void *self;
        assert(ops->create(&context, &self) == PW_OK);
        assert(ops->acquire(self, span, PW_ACCESS_WRITE, &lease) == PW_OK);
        assert(lease.span.address == span.address && lease.span.num_bytes == 2);
        assert(ops->release(self, &lease, &cost) == PW_OK);
        if (strcmp(ops->name, "pin") == 0) { /* pretouch has brought them in */
            assert(lease.cost.pin_ns == 26 && lease.cost.touch_ns == 0 && cost.pin_ns == 28);
            span.address = (uintptr_t)3 << 44;
            assert(ops->acquire(self, span, PW_ACCESS_READ, &lease) == PW_ERR_ADDRESS);
            assert(strstr(context.reason, "pin of 2 bytes at 0x300000000000: "));
        } else if (strncmp(ops->name, "pin", 3) != 0 && strcmp(ops->name, "bounce") != 0 &&
                   strcmp(ops->name, "utlb") != 0 && strcmp(ops->name, "firehose") != 0)
            assert(lease.cost.pin_ns == 0 && cost.pin_ns == 0 && cost.touch_ns == 0);
        if (strcmp(ops->name, "pretouch") == 0) assert(lease.cost.touch_ns == 22);
        assert(ops->invalidated(self, 0, UINT64_MAX) == PW_OK);
        ops->destroy(self);
        pw_page_counts_finish(&context.pinned_pages);
    }
    munmap(pages, NUM_PAGES * PW_PAGE_BYTES);
}

static void test_unsound_tables_are_refused(void)
{
    const char *reason = NULL;
    for (int i = 0; i < 4; i++) {
        pw_cost_tables tables = cost_tables();
        pw_cost_table *last = &tables.table[PW_COST_MUNMAP];
        if (i == 0) last->num_points = 0;
        if (i == 1) last->num_points = PW_COST_POINTS_MAX + 1;
        if (i == 2) last->num_bytes[1] = 4096;
        if (i == 3) last->cost_ns[1] = 0;
        assert(pw_cost_tables_check(&tables, &reason) == PW_ERR_INVALID && strstr(reason, "; "));
    }
}

int main(void)
{
    pw_memory *memory;
    assert(pw_memory_create(PW_MEMORY_HOST, NULL, &memory) == PW_OK);
    test_overlapping_pins(memory);
    test_release_of_pages_with_a_hole_unpins_the_others(memory);
    test_strategies(memory);
    test_unsound_tables_are_refused();
    pw_pins_destroy(NULL);
    pw_memory_destroy(memory);
    return 0;
}
