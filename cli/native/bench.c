#include "cli/native/bench.h"

#include <search.h>
#include <stdlib.h>
#include <time.h>

#include "cli/checks/bench/programs/system_calls.h"
#include "native/tcache.h"
#include "native/trace.h"

#define NUM_ROUNDS 7
#define PATTERN_LENGTH \
    8192u /* longer than a branch predictor learns by heart, short enough for L2 */
#define L1_PAGES 128u
#define L2_PAGES 2048u
#define FIRST_PAGE 0x7F0000000u /* where mmap places things */
#define PDID 7
#define HASH_BITS 12 /* half full */
#define BLOCK_RECORDS 8192

struct translation {
    uint64_t page, frame;
};

struct bench {
    uint64_t *pattern; /* pages asked for, PATTERN_LENGTH of them, round and round */
    pw_tcache *l1, *l2;
    struct translation *hash; /* frame 0 = free */
    struct translation *leaves;
    void *tree;
};

typedef uint64_t lookups(struct bench *bench, uint64_t num_lookups);

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static uint64_t frame_of(uint64_t page) { return page ^ 0x5A5A5A; }

/* xorshift64: the same pattern in every run. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline uint64_t hash_home(uint64_t page)
{
    return page * 0x9E3779B97F4A7C15u >> (64 - HASH_BITS);
}

static int compare_pages(const void *a, const void *b)
{
    uint64_t x = ((const struct translation *)a)->page, y = ((const struct translation *)b)->page;
    return (x > y) - (x < y);
}

/* Each adds the frames up, so that no lookup can be left out. */

static uint64_t look_in_l1(struct bench *bench, uint64_t num_lookups)
{
    uint64_t sum = 0, frame = 0;
    for (uint64_t i = 0; i < num_lookups; i++)
        if (pw_tcache_lookup(bench->l1, PDID, bench->pattern[i & (PATTERN_LENGTH - 1)], &frame))
            sum += frame;
    return sum;
}

static uint64_t look_in_l1_then_l2(struct bench *bench, uint64_t num_lookups)
{
    uint64_t sum = 0, frame = 0;
    for (uint64_t i = 0; i < num_lookups; i++) {
        uint64_t page = bench->pattern[i & (PATTERN_LENGTH - 1)];
        if (pw_tcache_lookup(bench->l1, PDID, page, &frame) ||
            pw_tcache_lookup(bench->l2, PDID, page, &frame))
            sum += frame;
    }
    return sum;
}

static uint64_t look_in_hash(struct bench *bench, uint64_t num_lookups)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < num_lookups; i++) {
        uint64_t page = bench->pattern[i & (PATTERN_LENGTH - 1)];
        uint64_t bucket = hash_home(page);
        while (bench->hash[bucket].page != page && bench->hash[bucket].frame != 0)
            bucket = (bucket + 1) & ((1u << HASH_BITS) - 1);
        sum += bench->hash[bucket].frame;
    }
    return sum;
}

static uint64_t look_in_tree(struct bench *bench, uint64_t num_lookups)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < num_lookups; i++) {
        struct translation asked = {.page = bench->pattern[i & (PATTERN_LENGTH - 1)]};
        struct translation *const *found = tfind(&asked, &bench->tree, compare_pages);
        if (found) sum += (*found)->frame;
    }
    return sum;
}

static const struct {
    lookups *function;
    uint32_t num_pages; /* of the working set */
    bool hits;
} kinds[] = {
    [PW_BENCH_L1_HIT] = {look_in_l1, L1_PAGES, true},
    [PW_BENCH_L2_HIT] = {look_in_l1_then_l2, L2_PAGES, true},
    [PW_BENCH_MISS] = {look_in_l1_then_l2, L2_PAGES, false},
    [PW_BENCH_HASH] = {look_in_hash, L2_PAGES, true},
    [PW_BENCH_TREE] = {look_in_tree, L2_PAGES, true},
};

static int fill_l1(struct bench *bench, uint64_t first_page)
{
    int code = PW_OK;
    for (uint64_t page = first_page; page < first_page + L1_PAGES && code == PW_OK; page++)
        code = pw_tcache_fill(bench->l1, PDID, page, frame_of(page));
    return code;
}

static int fill(struct bench *bench, uint32_t which)
{
    /* Where the L1 must not help, it is full of other pages: misses of a full cache, not an empty
     * one. */
    int code = fill_l1(bench, which == PW_BENCH_L1_HIT ? FIRST_PAGE : FIRST_PAGE + 4 * L2_PAGES);
    if (code != PW_OK) return code;
    for (uint64_t i = 0; i < L2_PAGES; i++) {
        uint64_t page = FIRST_PAGE + i;
        code = pw_tcache_fill(bench->l2, PDID, page, frame_of(page));
        if (code != PW_OK) return code;
        uint64_t bucket = hash_home(page);
        while (bench->hash[bucket].frame != 0) bucket = (bucket + 1) & ((1u << HASH_BITS) - 1);
        bench->hash[bucket] = (struct translation){page, frame_of(page)};
    }
    /* Random order, as buffers are registered; also glibc's tree is balanced either way. */
    uint64_t random = 88172645463325252u;
    for (uint64_t i = 0; i < L2_PAGES; i++)
        bench->leaves[i] = (struct translation){FIRST_PAGE + i, frame_of(FIRST_PAGE + i)};
    for (uint64_t i = L2_PAGES - 1; i > 0; i--) {
        uint64_t j = next_random(&random) % (i + 1);
        struct translation moved = bench->leaves[i];
        bench->leaves[i] = bench->leaves[j];
        bench->leaves[j] = moved;
    }
    for (uint64_t i = 0; i < L2_PAGES; i++)
        if (!tsearch(&bench->leaves[i], &bench->tree, compare_pages)) return PW_ERR_NOMEM;
    uint64_t first_page = kinds[which].hits ? FIRST_PAGE : FIRST_PAGE + 2 * L2_PAGES;
    for (uint32_t i = 0; i < PATTERN_LENGTH; i++)
        bench->pattern[i] = first_page + next_random(&random) % kinds[which].num_pages;
    return PW_OK;
}

static void keep_leaf(void *leaf) { (void)leaf; }

static void bench_destroy(struct bench *bench)
{
    tdestroy(bench->tree, keep_leaf);
    free(bench->leaves);
    free(bench->hash);
    free(bench->pattern);
    pw_tcache_destroy(bench->l2);
    pw_tcache_destroy(bench->l1);
}

/* bench is zeroed; on failure the caller destroys it all the same. */
static int bench_create(struct bench *bench, uint32_t which)
{
    const pw_tcache_geometry l1 = {.num_sets = 1, .num_ways = L1_PAGES, .line_pages = 1};
    const pw_tcache_geometry l2 = {.num_sets = L2_PAGES / 4, .num_ways = 4, .line_pages = 1};
    int code = pw_tcache_create(&l1, &bench->l1);
    if (code == PW_OK) code = pw_tcache_create(&l2, &bench->l2);
    if (code != PW_OK) return code;
    bench->pattern = malloc(PATTERN_LENGTH * sizeof(*bench->pattern));
    bench->hash = calloc((size_t)1 << HASH_BITS, sizeof(*bench->hash));
    bench->leaves = malloc(L2_PAGES * sizeof(*bench->leaves));
    if (!bench->pattern || !bench->hash || !bench->leaves) return PW_ERR_NOMEM;
    return fill(bench, which);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double rounds[NUM_ROUNDS])
{
    qsort(rounds, NUM_ROUNDS, sizeof *rounds, compare_doubles);
    return rounds[NUM_ROUNDS / 2];
}

double pw_bench_lookup_ns(uint32_t which, uint64_t num_lookups)
{
    if (which >= sizeof(kinds) / sizeof(kinds[0]) || num_lookups == 0) return PW_ERR_INVALID;
    struct bench bench = {0};
    double rounds[NUM_ROUNDS];
    int code = bench_create(&bench, which);
    uint64_t sum = 0;
    if (code == PW_OK) {
        sum = kinds[which].function(&bench, PATTERN_LENGTH); /* warms the host's caches */
        if ((sum != 0) != kinds[which].hits) code = PW_ERR_UNRECOVERABLE;
    }
    for (size_t i = 0; i < NUM_ROUNDS && code == PW_OK; i++) {
        double start_ns = now_ns();
        sum = kinds[which].function(&bench, num_lookups);
        __asm__ volatile("" : : "r"(sum));
        rounds[i] = (now_ns() - start_ns) / (double)num_lookups;
    }
    bench_destroy(&bench);
    return code == PW_OK ? median(rounds) : code;
}

static void forget(pw_trace *trace) { trace->num_records = 0; }

double pw_bench_trace_ns(bool is_on, uint64_t num_records)
{
    if (num_records == 0) return PW_ERR_INVALID;
    pw_trace trace = {.capacity = BLOCK_RECORDS, .is_detailed = is_on, .full = forget};
    double rounds[NUM_ROUNDS];
    if (is_on) {
        trace.records = malloc(BLOCK_RECORDS * sizeof *trace.records);
        if (!trace.records) return PW_ERR_NOMEM;
    }
    for (size_t i = 0; i < NUM_ROUNDS; i++) {
        double start_ns = now_ns();
        for (uint64_t record = 0; record < num_records; record++) {
            pw_trace_add(&trace, (pw_time)record, PW_TRACE_ACK, record, i);
            __asm__ volatile("" : : "r"(&trace) : "memory"); /* it may be on by now */
        }
        rounds[i] = (now_ns() - start_ns) / (double)num_records;
    }
    free(trace.records);
    return median(rounds);
}

int pw_bench_begin_counting(void) { return begin_counting_system_calls() ? PW_ERR_HOST : PW_OK; }

uint64_t pw_bench_end_counting(void) { return end_counting_system_calls(); }
