/* Translation cache: see tcache.h. The way of finding a line and of keeping the LRU order depends
 * on the number of ways; both are exact.
 *
 * Up to 16 ways, as an L2 TLB: all keys of the set are compared without a branch, and the order of
 * the ways is a permutation of nibbles in one word. More ways, as a fully associative L1 TLB: a
 * hash index finds the line, and the order is a doubly linked ring. In both, empty lines are at
 * the least recently used end, so they are taken first.
 *
 * Narrow sets are made in groups, when the first line of a group is filled: a large L2 TLB of which
 * a node uses little takes little. */
#include "native/tcache.h"

#include <stdlib.h>
#include <string.h>

#define NARROW_WAYS 16u
#define PAGE_BITS 47
#define NO_LINE UINT32_MAX
#define GROUP_SETS 16u /* that are made together */
#define EMPTY 0u       /* a key: none is 0, because the line number is kept plus one */

struct link {
    uint32_t newer, older;
};

struct pw_tcache {
    uint64_t set_mask;
    uint32_t num_sets, num_ways, num_lines;
    uint32_t line_pages, line_shift, valid_words;
    uint64_t last_key; /* of the line touched last, which is the newest of its set */
    uint32_t last_line;
    bool narrow;
    uint64_t *keys;     /* wide, [line]: see key_of; line = set * num_ways + way */
    uint64_t **groups;  /* narrow, [set / GROUP_SETS], NULL: all of its lines are empty; of each set
                           its order, ways as nibbles, the newest lowest; then each set's keys */
    uint64_t *frames;   /* [line][page in line]; NULL: each is the page itself */
    uint64_t *valid;    /* [line][valid_words]: a bit a translation, where a line has several */
    struct link *links; /* wide, [line], then one sentinel a set: its older = the newest line */
    uint32_t *index;    /* wide: lines plus one by their keys, open addressing, linear probing */
    uint64_t index_mask;
    uint32_t index_shift;
};

/* The line number (page above the line offset) plus one, and the PDID. */
static inline uint64_t key_of(const pw_tcache *cache, uint16_t pdid, uint64_t page)
{
    return ((page >> cache->line_shift) + 1) << 16 | pdid;
}

static inline bool has_tables(const pw_tcache *cache) { return cache->keys || cache->groups; }

/* Narrow: of a set in a group that is made. */
static inline uint64_t *order_at(const pw_tcache *cache, uint32_t set)
{
    return &cache->groups[set / GROUP_SETS][set % GROUP_SETS];
}

/* NULL: the set is not made. */
static inline uint64_t *keys_of_set(const pw_tcache *cache, uint32_t set)
{
    uint64_t *group = cache->groups[set / GROUP_SETS];
    return group ? group + GROUP_SETS + (size_t)(set % GROUP_SETS) * cache->num_ways : NULL;
}

/* NULL: the line is not made. */
static inline uint64_t *key_at(const pw_tcache *cache, uint32_t line)
{
    if (!cache->narrow) return &cache->keys[line];
    uint64_t *keys = keys_of_set(cache, line / cache->num_ways);
    return keys ? keys + line % cache->num_ways : NULL;
}

static inline bool is_empty(const pw_tcache *cache, uint32_t line)
{
    const uint64_t *key = key_at(cache, line);
    return !key || *key == EMPTY;
}

static inline uint64_t line_number(uint64_t key) { return (key >> 16) - 1; }

static inline uint32_t set_of(const pw_tcache *cache, uint64_t key)
{
    return (uint32_t)(line_number(key) & cache->set_mask);
}

/* Order of a narrow set. */

static inline uint64_t nibbles_below(uint32_t position)
{
    return ((uint64_t)1 << 4 * position) - 1;
}

/* Take the way out of the order; the 16 nibbles are always a permutation, so it is there once. */
static inline uint64_t order_without(uint64_t order, uint32_t way)
{
    const uint64_t ones = 0x1111111111111111u;
    uint64_t differs = order ^ ones * way;
    uint32_t bit = (uint32_t)__builtin_ctzll((differs - ones) & ~differs & ones << 3);
    uint32_t position = bit / 4;
    return (order & nibbles_below(position)) | order >> 4 * position >> 4 << 4 * position;
}

static inline uint64_t order_newest(uint64_t order, uint32_t way)
{
    return order_without(order, way) << 4 | way;
}

static inline uint64_t order_oldest(uint64_t order, uint32_t way, uint32_t num_ways)
{
    uint64_t rest = order_without(order, way);
    uint32_t at = num_ways - 1;
    return (rest & nibbles_below(at)) | (uint64_t)way << 4 * at | rest >> 4 * at << 4 * at << 4;
}

/* Order of a wide set. */

static inline void link_between(struct link *links, uint32_t line, uint32_t newer, uint32_t older)
{
    links[line].newer = newer;
    links[line].older = older;
    links[newer].older = line;
    links[older].newer = line;
}

static inline void unlink_line(struct link *links, uint32_t line)
{
    links[links[line].newer].older = links[line].older;
    links[links[line].older].newer = links[line].newer;
}

/* Index of wide sets. */

static inline uint64_t home_bucket(const pw_tcache *cache, uint64_t key)
{
    return key * 0x9E3779B97F4A7C15u >>
           cache->index_shift; /* Fibonacci hashing: 2^64 / golden ratio */
}

static inline uint32_t index_find(const pw_tcache *cache, uint64_t key)
{
    for (uint64_t i = home_bucket(cache, key); cache->index[i]; i = (i + 1) & cache->index_mask)
        if (cache->keys[cache->index[i] - 1] == key) return cache->index[i] - 1;
    return NO_LINE;
}

static void index_add(pw_tcache *cache, uint64_t key, uint32_t line)
{
    uint64_t i = home_bucket(cache, key);
    while (cache->index[i]) i = (i + 1) & cache->index_mask;
    cache->index[i] = line + 1;
}

/* Later entries of the run move up, so that no tombstones are needed. The line may have lost its
 * key already. */
static void index_remove(pw_tcache *cache, uint64_t key, uint32_t line)
{
    uint64_t mask = cache->index_mask, hole = home_bucket(cache, key);
    while (cache->index[hole] != line + 1) hole = (hole + 1) & mask;
    for (uint64_t i = (hole + 1) & mask; cache->index[i]; i = (i + 1) & mask) {
        uint64_t home = home_bucket(cache, cache->keys[cache->index[i] - 1]);
        if (((i - home) & mask) < ((i - hole) & mask)) continue;
        cache->index[hole] = cache->index[i];
        hole = i;
    }
    cache->index[hole] = 0;
}

/* Lines. */

/* Compare all ways, then choose: which way hits is not predictable, the number of ways is. */
static inline __attribute__((always_inline)) uint32_t compare_ways(const uint64_t *keys,
                                                                   uint32_t num_ways, uint64_t key)
{
    uint32_t matches = 0;
    for (uint32_t way = 0; way < num_ways; way++) matches |= (uint32_t)(keys[way] == key) << way;
    return matches;
}

static inline uint32_t find_line(const pw_tcache *cache, uint64_t key)
{
    if (!cache->narrow) return index_find(cache, key);
    const uint32_t set = set_of(cache, key), first = set * cache->num_ways;
    const uint64_t *keys = keys_of_set(cache, set);
    if (!keys) return NO_LINE;
    uint32_t matches = cache->num_ways == 4 ? compare_ways(keys, 4, key)
                                            : compare_ways(keys, cache->num_ways, key);
    return matches ? first + (uint32_t)__builtin_ctz(matches) : NO_LINE;
}

static inline void make_newest(pw_tcache *cache, uint64_t key, uint32_t line)
{
    uint32_t set = set_of(cache, key);
    if (cache->narrow) {
        uint64_t *order = order_at(cache, set);
        *order = order_newest(*order, line - set * cache->num_ways);
    } else {
        uint32_t sentinel = cache->num_lines + set;
        unlink_line(cache->links, line);
        link_between(cache->links, line, sentinel, cache->links[sentinel].older);
    }
    cache->last_key = key;
    cache->last_line = line;
}

static inline uint64_t page_in_line(const pw_tcache *cache, uint64_t page)
{
    return page & (cache->line_pages - 1);
}

static inline bool is_valid(const pw_tcache *cache, uint32_t line, uint64_t page)
{
    if (cache->line_pages == 1) return true; /* the line is there, so its one translation is */
    uint64_t i = page_in_line(cache, page);
    return cache->valid[(size_t)line * cache->valid_words + (i >> 6)] >> (i & 63) & 1;
}

static inline uint64_t *frame_of(const pw_tcache *cache, uint32_t line, uint64_t page)
{
    return &cache->frames[(size_t)line * cache->line_pages + page_in_line(cache, page)];
}

/* Empty a line and let it be the next to be taken in its set. */
static void release_line(pw_tcache *cache, uint32_t line)
{
    uint64_t key = *key_at(cache, line);
    uint32_t set = set_of(cache, key);
    *key_at(cache, line) = EMPTY;
    if (cache->narrow) {
        uint64_t *order = order_at(cache, set);
        *order = order_oldest(*order, line - set * cache->num_ways, cache->num_ways);
    } else {
        uint32_t sentinel = cache->num_lines + set;
        index_remove(cache, key, line);
        unlink_line(cache->links, line);
        link_between(cache->links, line, cache->links[sentinel].newer, sentinel);
    }
    if (cache->last_key == key) cache->last_key = EMPTY;
}

/* The least recently used line of the set, empty ones first. */
static uint32_t find_victim(const pw_tcache *cache, uint32_t set)
{
    if (!cache->narrow) return cache->links[cache->num_lines + set].newer;
    uint32_t oldest = 4 * (cache->num_ways - 1);
    return set * cache->num_ways + (uint32_t)(*order_at(cache, set) >> oldest & 15);
}

/* Drop the translations [first, last] (page in line); an empty line is released. */
static uint64_t drop_translations(pw_tcache *cache, uint32_t line, uint32_t first, uint32_t last)
{
    uint64_t dropped = cache->valid_words == 0, left = 0; /* the one translation of the line */
    for (uint32_t word = 0; word < cache->valid_words; word++) {
        uint64_t *valid = &cache->valid[(size_t)line * cache->valid_words + word];
        uint32_t low = first > word * 64 ? first - word * 64 : 0;
        uint32_t high = last < word * 64 + 63 ? last - word * 64 : 63;
        if (last >= word * 64 && low <= 63) {
            uint64_t mask = UINT64_MAX << low & UINT64_MAX >> (63 - high);
            dropped += (uint64_t)__builtin_popcountll(*valid & mask);
            *valid &= ~mask;
        }
        left |= *valid;
    }
    if (!left) release_line(cache, line);
    return dropped;
}

/* A line gets another key, and with it the newest place: its old one need not be given up first. */
static void evict(pw_tcache *cache, uint32_t line)
{
    uint64_t key = *key_at(cache, line);
    memset(&cache->valid[(size_t)line * cache->valid_words], 0,
           cache->valid_words * sizeof(*cache->valid));
    if (!cache->narrow) index_remove(cache, key, line);
    if (cache->last_key == key) cache->last_key = EMPTY;
}

/* Object. */

static bool is_power_of_two(uint32_t value) { return value > 0 && (value & (value - 1)) == 0; }

static uint32_t num_groups(const pw_tcache *cache)
{
    return (cache->num_sets + GROUP_SETS - 1) / GROUP_SETS;
}

/* The group that the set is in. */
static int create_group(pw_tcache *cache, uint32_t set)
{
    uint64_t **group = &cache->groups[set / GROUP_SETS];
    *group = calloc((size_t)GROUP_SETS * (1 + cache->num_ways), sizeof **group);
    for (uint32_t i = 0; *group && i < GROUP_SETS; i++) (*group)[i] = 0xFEDCBA9876543210u;
    return *group ? PW_OK : PW_ERR_NOMEM;
}

static int create_order(pw_tcache *cache)
{
    /* A small index may be sparse: most lookups then end at the first bucket. */
    uint64_t num_buckets_min = (uint64_t)cache->num_lines * (cache->num_lines <= 4096 ? 4 : 2);
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(num_buckets_min - 1);
    cache->index_shift = 64 - bits;
    cache->index_mask = ((uint64_t)1 << bits) - 1;
    cache->index = calloc((size_t)1 << bits, sizeof(*cache->index));
    cache->links = malloc(((size_t)cache->num_lines + cache->num_sets) * sizeof(*cache->links));
    if (!cache->index || !cache->links) return PW_ERR_NOMEM; /* the caller frees them */
    for (uint32_t set = 0; set < cache->num_sets; set++) {
        uint32_t sentinel = cache->num_lines + set;
        cache->links[sentinel] = (struct link){.newer = sentinel, .older = sentinel};
        for (uint32_t way = 0; way < cache->num_ways; way++)
            link_between(cache->links, set * cache->num_ways + way, cache->links[sentinel].newer,
                         sentinel);
    }
    return PW_OK;
}

int pw_tcache_create(const pw_tcache_geometry *geometry, pw_tcache **out)
{
    if (!is_power_of_two(geometry->num_sets) || geometry->num_sets > PW_TCACHE_SETS_MAX ||
        geometry->num_ways < 1 || geometry->num_ways > PW_TCACHE_WAYS_MAX ||
        !is_power_of_two(geometry->line_pages) || geometry->line_pages > PW_TCACHE_LINE_PAGES_MAX)
        return PW_ERR_INVALID;
    uint64_t num_lines = (uint64_t)geometry->num_sets * geometry->num_ways;
    if (num_lines * geometry->line_pages > PW_TCACHE_TRANSLATIONS_MAX) return PW_ERR_INVALID;
    pw_tcache *cache = calloc(1, sizeof(*cache));
    if (!cache) return PW_ERR_NOMEM;
    cache->num_sets = geometry->num_sets;
    cache->num_ways = geometry->num_ways;
    cache->num_lines = (uint32_t)num_lines;
    cache->set_mask = geometry->num_sets - 1;
    cache->line_pages = geometry->line_pages;
    cache->line_shift = (uint32_t)__builtin_ctz(geometry->line_pages);
    cache->valid_words = geometry->line_pages > 1 ? (geometry->line_pages + 63) / 64 : 0;
    cache->narrow = geometry->num_ways <= NARROW_WAYS;
    *out = cache;
    return PW_OK;
}

static void free_tables(pw_tcache *cache)
{
    for (uint32_t i = 0; cache->groups && i < num_groups(cache); i++) free(cache->groups[i]);
    free(cache->groups);
    free(cache->links);
    free(cache->index);
    free(cache->valid);
    free(cache->frames);
    free(cache->keys);
    cache->links = NULL;
    cache->index = NULL;
    cache->groups = NULL;
    cache->valid = cache->frames = cache->keys = NULL;
}

/* At the first fill: there are none without memory. */
static int create_tables(pw_tcache *cache)
{
    const size_t num_lines = cache->num_lines;
    if (cache->narrow) cache->groups = calloc(num_groups(cache), sizeof(*cache->groups));
    else cache->keys = calloc(num_lines, sizeof(*cache->keys));
    cache->valid = calloc(num_lines * cache->valid_words + 1, sizeof(*cache->valid));
    const bool is_made = has_tables(cache) && cache->valid;
    if (is_made && (cache->narrow || create_order(cache) == PW_OK)) return PW_OK;
    free_tables(cache);
    return PW_ERR_NOMEM;
}

/* A frame is not its page: from now on they are kept. */
static int create_frames(pw_tcache *cache)
{
    const size_t line_pages = cache->line_pages;
    cache->frames = calloc((size_t)cache->num_lines * line_pages, sizeof(*cache->frames));
    if (!cache->frames) return PW_ERR_NOMEM;
    for (size_t line = 0; line < cache->num_lines; line++)
        for (size_t i = 0; !is_empty(cache, (uint32_t)line) && i < line_pages; i++)
            cache->frames[line * line_pages + i] =
                (line_number(*key_at(cache, (uint32_t)line)) << cache->line_shift) + i;
    return PW_OK;
}

void pw_tcache_destroy(pw_tcache *cache)
{
    if (cache) free_tables(cache);
    free(cache);
}

int pw_tcache_lookup(pw_tcache *cache, uint16_t pdid, uint64_t page, uint64_t *frame)
{
    uint64_t key = key_of(cache, pdid, page);
    if (page >> PAGE_BITS || !has_tables(cache)) return 0;
    bool is_newest = key == cache->last_key;
    uint32_t line = is_newest ? cache->last_line : find_line(cache, key);
    if (line == NO_LINE || !is_valid(cache, line, page)) return 0;
    if (!is_newest) make_newest(cache, key, line);
    *frame = cache->frames ? *frame_of(cache, line, page) : page;
    return 1;
}

int pw_tcache_has(const pw_tcache *cache, uint16_t pdid, uint64_t page)
{
    const uint64_t key = key_of(cache, pdid, page);
    if (page >> PAGE_BITS || !has_tables(cache)) return 0;
    const uint32_t line = key == cache->last_key ? cache->last_line : find_line(cache, key);
    return line != NO_LINE && is_valid(cache, line, page);
}

int pw_tcache_fill(pw_tcache *cache, uint16_t pdid, uint64_t page, uint64_t frame)
{
    if (page >> PAGE_BITS) return PW_ERR_INVALID;
    if (!has_tables(cache) && create_tables(cache) < 0) return PW_ERR_NOMEM;
    if (!cache->frames && frame != page && create_frames(cache) < 0) return PW_ERR_NOMEM;
    uint64_t key = key_of(cache, pdid, page);
    const uint32_t set = set_of(cache, key);
    if (cache->narrow && !keys_of_set(cache, set) && create_group(cache, set) < 0)
        return PW_ERR_NOMEM;
    uint32_t line = find_line(cache, key);
    if (line == NO_LINE) {
        line = find_victim(cache, set);
        if (!is_empty(cache, line)) evict(cache, line);
        *key_at(cache, line) = key;
        if (!cache->narrow) index_add(cache, key, line);
    }
    uint64_t i = page_in_line(cache, page);
    if (cache->valid_words)
        cache->valid[(size_t)line * cache->valid_words + (i >> 6)] |= (uint64_t)1 << (i & 63);
    if (cache->frames) *frame_of(cache, line, page) = frame;
    make_newest(cache, key, line);
    return PW_OK;
}

/* The part of a line that lies in pages [first, last]; 0 when it lies outside. */
static uint64_t drop_overlap(pw_tcache *cache, uint32_t line, uint64_t first_page,
                             uint64_t last_page)
{
    uint64_t line_first = line_number(*key_at(cache, line)) << cache->line_shift;
    uint64_t line_last = line_first + cache->line_pages - 1;
    if (line_last < first_page || line_first > last_page) return 0;
    uint64_t first = first_page > line_first ? first_page - line_first : 0;
    uint64_t last = (last_page < line_last ? last_page : line_last) - line_first;
    return drop_translations(cache, line, (uint32_t)first, (uint32_t)last);
}

uint64_t pw_tcache_invalidate_range(pw_tcache *cache, uint16_t pdid, uint64_t first_page,
                                    uint64_t num_pages)
{
    if (num_pages == 0 || first_page >> PAGE_BITS || !has_tables(cache)) return 0;
    uint64_t last_page = ((uint64_t)1 << PAGE_BITS) - 1;
    if (num_pages - 1 < last_page - first_page) last_page = first_page + (num_pages - 1);
    uint64_t dropped = 0;
    uint64_t num_probes = (last_page >> cache->line_shift) - (first_page >> cache->line_shift) + 1;
    if (num_probes > cache->num_lines) {
        for (uint32_t line = 0; line < cache->num_lines; line++)
            if (!is_empty(cache, line) && (*key_at(cache, line) & 0xFFFF) == pdid)
                dropped += drop_overlap(cache, line, first_page, last_page);
    } else {
        uint64_t key = key_of(cache, pdid, first_page);
        for (uint64_t i = 0; i < num_probes; i++, key += (uint64_t)1 << 16) {
            uint32_t line = find_line(cache, key);
            if (line != NO_LINE) dropped += drop_overlap(cache, line, first_page, last_page);
        }
    }
    return dropped;
}

uint64_t pw_tcache_invalidate_all(pw_tcache *cache)
{
    uint64_t dropped = 0;
    for (uint32_t line = 0; has_tables(cache) && line < cache->num_lines; line++)
        if (!is_empty(cache, line))
            dropped += drop_translations(cache, line, 0, cache->line_pages - 1);
    return dropped;
}
