#include "mini/line_cache.h"
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
    if (last - first < cache->num_sets) {
        for (uint64_t line = first; line <= last; line++) {
            pw_cache_line *found = pw_line_cache_find(cache, pdid, line);
            if (found) found->is_used = false;
        }
        return;
    }
    for (uint32_t i = 0; i < cache->num_sets * cache->num_ways; i++) {
        pw_cache_line *each = &cache->lines[i];
        if (each->pdid == pdid && each->line >= first && each->line <= last) each->is_used = false;
    }
}

void pw_line_cache_drop_process(pw_line_cache *cache, uint16_t pdid)
{
    for (uint32_t i = 0; i < cache->num_sets * cache->num_ways; i++)
        if (cache->lines[i].pdid == pdid) cache->lines[i].is_used = false;
}

void pw_line_cache_drop_all(pw_line_cache *cache)
{
    for (uint32_t i = 0; i < cache->num_sets * cache->num_ways; i++)
        cache->lines[i].is_used = false;
}
