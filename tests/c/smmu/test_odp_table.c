/* The page table of a NIC with on-demand paging: finds what was entered, drops ranges. */
#include <assert.h>

#include "smmu/odp/odp.h"

enum { PDID = 3, FIRST = (1 << 20) + 500 }; /* the range goes on into a second table */

static void enter(pw_odp_table *table, uint16_t pdid, uint64_t page, pw_time ready_ns)
{
    assert(pw_odp_table_enter(table, pdid, page,
                              (pw_odp_entry){.ready_ns = ready_ns, .is_writable = page % 2}) ==
           PW_OK);
}

int main(void)
{
    pw_odp_table table = {0};
    assert(!pw_odp_table_find(&table, PDID, FIRST));
    assert(pw_odp_table_drop(&table, PDID, 0, UINT64_MAX) == 0);
    for (uint64_t page = FIRST; page < FIRST + 40; page++) enter(&table, PDID, page, (pw_time)page);
    enter(&table, PDID + 1, FIRST, 7);
    enter(&table, PDID, FIRST, 9); /* in place of the one before */
    assert(table.num_entries == 41 && table.peak_entries == 41);
    assert(pw_odp_table_find(&table, PDID, FIRST)->ready_ns == 9);
    assert(pw_odp_table_find(&table, PDID + 1, FIRST)->ready_ns == 7);
    assert(pw_odp_table_find(&table, PDID, FIRST + 39)->ready_ns == FIRST + 39);
    assert(pw_odp_table_find(&table, PDID, FIRST + 39)->is_writable);
    assert(!pw_odp_table_find(&table, PDID, FIRST + 40));

    assert(pw_odp_table_drop(&table, PDID, FIRST + 10, 5) == 5);
    assert(pw_odp_table_drop(&table, PDID, FIRST + 9, 5) == 1);
    assert(!pw_odp_table_find(&table, PDID, FIRST + 9));
    assert(pw_odp_table_find(&table, PDID, FIRST + 8));
    assert(pw_odp_table_find(&table, PDID, FIRST + 15));
    assert(pw_odp_table_drop(&table, PDID, FIRST + 30, UINT64_MAX) == 10);
    assert(table.num_entries == 25 && table.peak_entries == 41);
    assert(pw_odp_table_drop(&table, PDID, 0, PW_ALL_PAGES) == 24);
    assert(pw_odp_table_find(&table, PDID + 1, FIRST));
    assert(pw_odp_table_drop(&table, 0, 0, PW_ALL_PAGES) == 1 && table.num_entries == 0);
    enter(&table, PDID, FIRST, 1);
    assert(table.num_entries == 1);
    pw_odp_table_destroy(&table);
    return 0;
}
