/* Memory for calls is kept, fits, and belongs to one call at a time. */
#include "transport/facade/messaging.h"

#include <assert.h>
#include <string.h>

#include "native/types.h"

static void test_blocks_are_kept(void)
{
    pw_scratch *all = NULL;
    pw_scratch *first = pw_scratch_take(&all, 100), *second = pw_scratch_take(&all, 0);
    assert(first != second);
    assert((uintptr_t)first->bytes % PW_PAGE_BYTES == 0 && first->num_bytes == PW_PAGE_BYTES);
    pw_scratch_give(&all, second);
    pw_scratch_give(&all, first);
    assert(pw_scratch_take(&all, PW_PAGE_BYTES) == first); /* not the one given back last */
    assert(pw_scratch_take(&all, 1) == second);
    pw_scratch_give(&all, NULL);
    pw_scratch_free(&all);
    assert(!all);
}

static void test_the_smallest_that_fits_is_taken(void)
{
    pw_scratch *all = NULL;
    pw_scratch *large = pw_scratch_take(&all, 5 * PW_PAGE_BYTES);
    pw_scratch *small = pw_scratch_take(&all, 2 * PW_PAGE_BYTES);
    assert(large->num_bytes == 8 * PW_PAGE_BYTES && small->num_bytes == 2 * PW_PAGE_BYTES);
    memset(large->bytes, 1, large->num_bytes);
    pw_scratch_give(&all, large);
    pw_scratch_give(&all, small);
    assert(pw_scratch_take(&all, 10) == small);
    assert(pw_scratch_take(&all, 3 * PW_PAGE_BYTES) == large);
    pw_scratch_free(&all); /* also what is taken */
}

static void test_very_large_blocks_are_not_kept(void)
{
    pw_scratch *all = NULL;
    pw_scratch *kept = pw_scratch_take(&all, PW_SCRATCH_KEPT_BYTES);
    pw_scratch *other = pw_scratch_take(&all, PW_SCRATCH_KEPT_BYTES + 1);
    assert(other->num_bytes == 2 * PW_SCRATCH_KEPT_BYTES);
    pw_scratch_give(&all, other);
    assert(all == kept && !kept->next);
    assert(!pw_scratch_take(&all, UINT64_MAX));
    assert(!pw_scratch_take(&all, UINT64_C(1) << 55)); /* no such memory */
    pw_scratch_give(&all, kept);
    assert(all == kept);
    pw_scratch_free(&all);
}

int main(void)
{
    test_blocks_are_kept();
    test_the_smallest_that_fits_is_taken();
    test_very_large_blocks_are_not_kept();
    return 0;
}
