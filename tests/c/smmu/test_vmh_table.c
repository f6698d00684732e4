/* The driver's table of pinned pages: pins once, evicts to the low mark, spares the NIC's cache. */
#include <assert.h>

#include "smmu/mini/mini.h"

enum { PDID = 3, FIRST = 1 << 20 };

int main(void)
{
    const pw_memory_model_options options = {.seed = 1, .detached = 1};
    pw_counters counters = {0};
    pw_memory *memory;
    pw_memory_counters of_memory;
    pw_line_cache cache;
    pw_vmh_table table;
    pw_time free_ns;
    bool evicted;
    assert(pw_memory_create(PW_MEMORY_MODEL, &options, &memory) == PW_OK);
    assert(pw_line_cache_init(&cache, 4, 2) == PW_OK);
    pw_vmh_table_init(&table, memory, &counters, &cache, 2);

    assert(pw_vmh_table_pin(&table, PDID, FIRST, 4) == 4);
    assert(pw_vmh_table_pin(&table, PDID, FIRST + 2, 6) == 4);
    assert(pw_vmh_table_pin(&table, PDID, FIRST, 8) == 0);
    table.now_ns = 100;
    assert(pw_vmh_table_pin(&table, PDID, FIRST + PW_LEAF_PAGES, 8) == 8);
    pw_memory_read_counters(memory, &of_memory);
    assert(of_memory.pinned_pages == 16 && table.pinned.num_pages == 16);
    assert(pw_vmh_table_is_pinned(&table, PDID, FIRST + 7));
    assert(!pw_vmh_table_is_pinned(&table, PDID, FIRST + 8));
    assert(!pw_vmh_table_is_pinned(&table, PDID + 1, FIRST));

    assert(pw_line_cache_take(&cache, PDID, FIRST >> 2, 0, &free_ns, &evicted));
    pw_vmh_table_evict(&table, 8); /* lines 1, 2, of which the cache holds none */
    assert(table.pinned.num_pages == 8 && pw_vmh_table_is_pinned(&table, PDID, FIRST));
    assert(!pw_vmh_table_is_pinned(&table, PDID, FIRST + 4));
    pw_vmh_table_evict(&table, 0);
    assert(table.pinned.num_pages == 4 && pw_vmh_table_is_pinned(&table, PDID, FIRST + 3));
    assert(counters.vmh_pinned_peak == 16 && counters.vmh_pages_unpinned == 12);

    table.now_ns = 300;
    pw_vmh_table_forget(&table, PDID, FIRST + 1, 2);
    assert(table.pinned.num_pages == 2 && !pw_vmh_table_is_pinned(&table, PDID, FIRST + 1));
    assert(table.pinned.peak_pages == 16); /* 8 for 100 ns, 4 for 200, 2 for 100 */
    assert(pw_pinned_mean_bytes(&table.pinned, 400) == (800 + 800 + 200) * PW_PAGE_BYTES / 400);
    pw_vmh_table_destroy(&table);
    pw_memory_read_counters(memory, &of_memory);
    assert(of_memory.unpinned_pages == 16);
    pw_line_cache_destroy(&cache);
    pw_memory_destroy(memory);
    return 0;
}
