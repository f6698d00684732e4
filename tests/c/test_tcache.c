/* Smoke test of the translation cache without Python: both ways of keeping order, locks,
 * invalidation. */
#include <assert.h>

#include "native/tcache.h"

static void fill_and_evict(uint32_t num_ways)
{
    pw_tcache *cache;
    uint64_t frame;
    const pw_tcache_geometry geometry = {.num_sets = 1, .num_ways = num_ways, .line_pages = 1};
    assert(pw_tcache_create(&geometry, &cache) == PW_OK);
    for (uint64_t page = 0; page < num_ways; page++)
        assert(pw_tcache_fill(cache, 3, page, page * 2) == PW_OK);
    assert(pw_tcache_lookup(cache, 3, 0, &frame) == 1 && frame == 0);
    assert(pw_tcache_lock(cache, 3, 1, PW_TCACHE_LOCK_SEND) == 1);
    assert(pw_tcache_fill(cache, 3, num_ways, 1) ==
           PW_OK); /* takes page 2: 0 is new, 1 is locked */
    assert(pw_tcache_lookup(cache, 3, 2, &frame) == 0);
    assert(pw_tcache_lookup(cache, 4, 1, &frame) == 0);
    assert(pw_tcache_invalidate_range(cache, 3, 0, 2) == 2);
    assert(pw_tcache_invalidate_all(cache) == num_ways - 2);
    pw_tcache_destroy(cache);
}

int main(void)
{
    fill_and_evict(4);
    fill_and_evict(16);
    fill_and_evict(128);
    pw_tcache_destroy(NULL);
    return 0;
}
