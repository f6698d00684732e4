/* miNI's cache of lines: who is replaced, who never is. */
#include <assert.h>

#include "smmu/mini/mini.h"

enum { PDID = 3, OTHER = 4 };

static pw_cache_line *take(pw_line_cache *cache, uint64_t line, pw_time at_ns)
{
    pw_time free_ns;
    bool evicted;
    pw_cache_line *taken = pw_line_cache_take(cache, PDID, line, at_ns, &free_ns, &evicted);
    if (taken) taken->ready_ns = at_ns;
    return taken;
}

/* Two ways, four sets: lines 0, 4, 8 share a set. */
static void least_recently_used_line_is_replaced(void)
{
    pw_line_cache cache;
    assert(pw_line_cache_init(&cache, 4, 2) == PW_OK);
    assert(take(&cache, 0, 10) && take(&cache, 4, 20));
    pw_cache_line_lock(pw_line_cache_find(&cache, PDID, 0), PW_LOCK_SEND, 30, 30);
    assert(take(&cache, 8, 40));
    assert(pw_line_cache_find(&cache, PDID, 0) && pw_line_cache_find(&cache, PDID, 8));
    assert(!pw_line_cache_find(&cache, PDID, 4));
    assert(take(&cache, 1, 40) && pw_line_cache_find(&cache, PDID, 0)); /* another set */
    pw_line_cache_destroy(&cache);
}

static void line_in_use_or_reserved_is_not_replaced(void)
{
    pw_line_cache cache;
    pw_time free_ns = 0;
    bool evicted;
    assert(pw_line_cache_init(&cache, 1, 2) == PW_OK);
    pw_cache_line_lock(take(&cache, 0, 10), PW_LOCK_SEND, 10, 100);
    pw_cache_line_lock(take(&cache, 1, 20), PW_LOCK_RECEIVE, 20, 70);
    assert(!pw_line_cache_take(&cache, PDID, 2, 60, &free_ns, &evicted) && free_ns == 70);
    pw_cache_line *third = pw_line_cache_take(&cache, PDID, 2, 70, &free_ns, &evicted);
    assert(third && evicted && !pw_line_cache_find(&cache, PDID, 1));
    third->ready_ns = 300; /* the driver fills it */
    assert(!pw_line_cache_take(&cache, PDID, 3, 90, &free_ns, &evicted) && free_ns == 100);
    assert(take(&cache, 3, 100) && pw_line_cache_find(&cache, PDID, 2));
    pw_line_cache_destroy(&cache);
}

static void lines_are_told_apart_by_process(void)
{
    pw_line_cache cache;
    assert(pw_line_cache_init(&cache, 1, 4) == PW_OK);
    assert(take(&cache, 7, 10) && !pw_line_cache_find(&cache, OTHER, 7));
    take(&cache, 8, 10)->pdid = OTHER;
    pw_line_cache_drop_range(&cache, PDID, 0, UINT64_MAX);
    assert(!pw_line_cache_find(&cache, PDID, 7) && pw_line_cache_find(&cache, OTHER, 8));
    pw_line_cache_drop_range(&cache, OTHER, 0, 7);
    assert(pw_line_cache_find(&cache, OTHER, 8));
    pw_line_cache_drop_range(&cache, OTHER, 8, 8);
    assert(!pw_line_cache_find(&cache, OTHER, 8));
    pw_line_cache_destroy(&cache);
}

int main(void)
{
    pw_line_cache cache;
    assert(pw_line_cache_init(&cache, 3, 2) == PW_ERR_INVALID);
    assert(pw_line_cache_init(&cache, 4, 1) == PW_ERR_INVALID);
    least_recently_used_line_is_replaced();
    line_in_use_or_reserved_is_not_replaced();
    lines_are_told_apart_by_process();
    return 0;
}
