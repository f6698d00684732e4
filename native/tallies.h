/* What the engine counts beside its counters, for pictures of a run: how large its messages were
 * and to whom, when and where pages faulted, how long blocks waited for them. Of a fixed size but
 * for the peers. Not thread-safe. */
#ifndef PW_NATIVE_TALLIES_H
#define PW_NATIVE_TALLIES_H
#include "native/array.h"
#include "native/peers.h"
#include <stdlib.h>
#include <string.h>

/* How many values there were of each order of magnitude. */

/* cdef begin */
#define PW_LOG_BINS 65

typedef struct {
    uint64_t bins[PW_LOG_BINS]; /* bins[0] counts zeros, bins[i] values in [2^(i-1), 2^i) */
} pw_log_histogram;
/* cdef end */

static inline void pw_log_histogram_add(pw_log_histogram *histogram, uint64_t value)
{
    histogram->bins[value ? 64 - __builtin_clzll(value) : 0]++;
}

/* When things happened: counts over virtual time in a fixed number of bins. A time behind the last
 * bin merges neighbours, which makes all bins twice as wide. */

/* cdef begin */
#define PW_HISTOGRAM_BINS 256

typedef struct {
    int64_t bin_ns; /* bins[i] counts times in [i * bin_ns, (i + 1) * bin_ns) */
    uint64_t bins[PW_HISTOGRAM_BINS];
} pw_time_histogram;
/* cdef end */

#define PW_HISTOGRAM_FIRST_BIN_NS 1024

static inline void pw_time_histogram_init(pw_time_histogram *histogram)
{
    *histogram = (pw_time_histogram){.bin_ns = PW_HISTOGRAM_FIRST_BIN_NS};
}

/* So many at a time; 0: only the bins reach as far. */
static inline void pw_time_histogram_add_many(pw_time_histogram *histogram, pw_time time_ns,
                                              uint64_t count)
{
    if (time_ns < 0) time_ns = 0;
    while (time_ns / histogram->bin_ns >= PW_HISTOGRAM_BINS) {
        for (int i = 0; i < PW_HISTOGRAM_BINS / 2; i++)
            histogram->bins[i] = histogram->bins[2 * i] + histogram->bins[2 * i + 1];
        for (int i = PW_HISTOGRAM_BINS / 2; i < PW_HISTOGRAM_BINS; i++) histogram->bins[i] = 0;
        histogram->bin_ns *= 2;
    }
    histogram->bins[time_ns / histogram->bin_ns] += count;
}

static inline void pw_time_histogram_add(pw_time_histogram *histogram, pw_time time_ns)
{
    pw_time_histogram_add_many(histogram, time_ns, 1);
}

/* As pw_time_histogram_add, of one that is made at its first time; without memory none is counted.
 */
static inline void pw_time_histogram_note(pw_time_histogram **histogram, pw_time time_ns)
{
    if (!*histogram && (*histogram = malloc(sizeof **histogram)))
        pw_time_histogram_init(*histogram);
    if (*histogram) pw_time_histogram_add(*histogram, time_ns);
}

/* Which pages were met how often: counts of groups of neighbouring pages, in a fixed number of
 * places. A group more than there are places for makes all groups twice as long and merges
 * neighbours, until there is room; no count is lost. Zeroed: empty; places are made as groups come,
 * and without memory for one a page is not counted. */

/* cdef begin */
#define PW_HEAT_GROUPS 256

typedef struct {
    uint64_t group; /* pages [group << shift, (group + 1) << shift) */
    uint64_t count;
} pw_heat_group;

typedef struct {
    uint32_t shift; /* a group is 2^shift pages */
    uint32_t num_groups, capacity;
    pw_heat_group *groups; /* ascending; NULL: none yet */
} pw_page_heat;
/* cdef end */

static inline void pw_page_heat_merge(pw_page_heat *heat)
{
    uint32_t num_kept = 0;
    heat->shift++;
    for (uint32_t i = 0; i < heat->num_groups; i++) {
        pw_heat_group each = {heat->groups[i].group >> 1, heat->groups[i].count};
        if (num_kept && heat->groups[num_kept - 1].group == each.group)
            heat->groups[num_kept - 1].count += each.count;
        else heat->groups[num_kept++] = each;
    }
    heat->num_groups = num_kept;
}

/* The first place whose group is not below this one. */
static inline uint32_t pw_page_heat_place(const pw_page_heat *heat, uint64_t group)
{
    uint32_t low = 0, high = heat->num_groups;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (heat->groups[middle].group < group) low = middle + 1;
        else high = middle;
    }
    return low;
}

static inline void pw_page_heat_finish(pw_page_heat *heat)
{
    free(heat->groups);
    *heat = (pw_page_heat){0};
}

static inline void pw_page_heat_add(pw_page_heat *heat, uint64_t page)
{
    for (;; pw_page_heat_merge(heat)) {
        uint64_t group = page >> heat->shift;
        uint32_t place = pw_page_heat_place(heat, group);
        if (place < heat->num_groups && heat->groups[place].group == group) {
            heat->groups[place].count++;
            return;
        }
        if (heat->num_groups == PW_HEAT_GROUPS) continue;
        if (PW_ARRAY_MAKE_ROOM(heat->groups, heat->num_groups, heat->capacity, 8) < 0) return;
        pw_heat_group *at = &heat->groups[place];
        memmove(at + 1, at, (heat->num_groups - place) * sizeof *at);
        *at = (pw_heat_group){group, 1};
        heat->num_groups++;
        return;
    }
}

/* cdef begin */
/* What left for a peer: eager messages and transfers. */
typedef struct {
    pw_peer peer;
    uint64_t messages, bytes;
} pw_peer_traffic;

typedef struct {
    pw_log_histogram message_sizes; /* bytes of each */
    pw_log_histogram fault_waits;   /* ns from the NACK of a page fault, as the R5 handled it, until
                                       the block was sent again */
    pw_time_histogram *fault_times; /* NULL: nothing has faulted */
    pw_page_heat fault_pages;
    pw_peers peers; /* of pw_peer_traffic: those to whom something left */
} pw_tallies;
/* cdef end */

static inline void pw_tallies_message(pw_tallies *tallies, uint32_t peer, uint64_t num_bytes)
{
    pw_log_histogram_add(&tallies->message_sizes, num_bytes);
    pw_peer_traffic *traffic = pw_peers_find(&tallies->peers, peer);
    if (!traffic) traffic = pw_peers_make(&tallies->peers, peer, sizeof *traffic);
    if (!traffic) return; /* no memory: it is missing from the report */
    traffic->messages++;
    traffic->bytes += num_bytes;
}

static inline void pw_tallies_fault(pw_tallies *tallies, uint64_t page, pw_time at_ns)
{
    pw_time_histogram_note(&tallies->fault_times, at_ns);
    pw_page_heat_add(&tallies->fault_pages, page);
}

#endif
