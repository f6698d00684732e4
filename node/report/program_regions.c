#include "node/report/program_regions.h"
#include "node/node_state.h"
#include "node/record/recorder.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MORE_REGIONS (PW_REGIONS_MAX - 1)
#define NUM_SUMS (sizeof(pw_region_sums) / sizeof(uint64_t))

_Static_assert(sizeof(pw_region_sums) == NUM_SUMS * sizeof(uint64_t), "words of 64 bits alone");

static const char outside_path[] = "(no region)", more_path[] = "(more regions)";

/* ---- rows */

static bool make_row(pw_program_regions *regions, uint32_t idx, const char *path, size_t path_bytes)
{
    pw_region_row *row = calloc(1, sizeof *row);
    if (!row) return false;
    memcpy(row->path, path, path_bytes);
    row->path_bytes = (uint32_t)path_bytes;
    regions->rows[idx] = row;
    return true;
}

/* The row of the innermost region that is open. */
static uint32_t current(const pw_program_regions *regions)
{
    if (regions->depth == 0) return 0;
    if (regions->depth > PW_REGION_DEPTH_MAX) return MORE_REGIONS;
    return regions->open[regions->depth - 1].row;
}

/* Index of the row of a region entered now, made when it is new; PW_ERR_NOMEM. */
static int64_t find_row(pw_program_regions *regions, const char *name, size_t name_bytes)
{
    const pw_region_row *outer = regions->depth ? regions->rows[current(regions)] : NULL;
    const size_t begin = outer ? outer->path_bytes + 1 : 0, path_bytes = begin + name_bytes;
    const bool fits = path_bytes < PW_REGION_PATH_BYTES && regions->depth < PW_REGION_DEPTH_MAX &&
                      (!outer || outer != regions->rows[MORE_REGIONS]);
    char path[PW_REGION_PATH_BYTES];
    if (fits) {
        if (outer) memcpy(path, outer->path, begin - 1);
        if (outer) path[begin - 1] = '/';
        memcpy(path + begin, name, name_bytes);
    }
    for (uint32_t i = 1; fits && i < regions->num_rows; i++) {
        const pw_region_row *row = regions->rows[i];
        if (row->path_bytes == path_bytes && !memcmp(row->path, path, path_bytes)) return i;
    }
    if (!fits || regions->num_rows == MORE_REGIONS) {
        if (!regions->rows[MORE_REGIONS] &&
            !make_row(regions, MORE_REGIONS, more_path, sizeof more_path - 1))
            return PW_ERR_NOMEM;
        return MORE_REGIONS;
    }
    if (!make_row(regions, regions->num_rows, path, path_bytes)) return PW_ERR_NOMEM;
    return regions->num_rows++;
}

/* ---- marks */

void pw_node_read_sums(const pw_node *node, bool is_mark, pw_region_sums *out)
{
    const pw_clock *clock = &node->clock;
    pw_ni_read_counters(node->ni, &out->counters);
    out->strategy = node->context.counters;
    out->virtual_time_ns = clock->now_ns;
    out->compute_ns = clock->compute_ns;
    out->mpi_ns = clock->mpi_ns;
    if (is_mark) out->mpi_ns += clock->now_ns - clock->entered_ns;
    out->sleep_ns = clock->sleep_ns;
    out->touch_ns = node->strategy_cost.touch_ns;
    out->pin_ns = node->strategy_cost.pin_ns;
    out->copy_ns = node->strategy_cost.copy_ns;
    out->wall_ns = pw_clock_wall_ns() - node->started_wall_ns;
}

/* What was counted since the last mark belongs to the innermost region. Differences wrap, and so do
 * their sums: peaks and what the clock takes back come out right. */
static void settle(pw_node *node, bool is_mark)
{
    pw_program_regions *regions = node->regions;
    pw_region_sums now;
    pw_node_read_sums(node, is_mark, &now);
    uint64_t *sums = (uint64_t *)(void *)&regions->rows[current(regions)]->sums;
    uint64_t *last = (uint64_t *)(void *)&regions->last;
    const uint64_t *new = (const uint64_t *)(const void *)&now;
    for (size_t i = 0; i < NUM_SUMS; i++) {
        sums[i] += new[i] - last[i];
        last[i] = new[i];
    }
}

static bool is_name(const char *name, uint64_t num_bytes)
{
    if (num_bytes == 0 || num_bytes >= PW_REGION_NAME_BYTES) return false;
    for (uint64_t i = 0; i < num_bytes; i++)
        if ((uint8_t)name[i] < ' ' || name[i] == 0x7f) return false;
    return true;
}

static int no_memory(pw_node *node)
{
    return pw_node_fail(node, PW_ERR_NOMEM, "no memory for the figures of another region");
}

static pw_program_regions *make_regions(pw_node *node)
{
    if (!node->regions) node->regions = calloc(1, sizeof *node->regions);
    return node->regions;
}

static int64_t enter(pw_node *node, const char *name, uint64_t name_bytes)
{
    pw_program_regions *regions = make_regions(node);
    if (!regions) return no_memory(node);
    const uint64_t thread = (uint64_t)pthread_self();
    if (!is_name(name, name_bytes))
        return pw_node_fail(node, PW_ERR_INVALID,
                            "region of a name of %llu bytes: allowed are 1 to %d, without control "
                            "characters; take a shorter name",
                            (unsigned long long)name_bytes, PW_REGION_NAME_BYTES - 1);
    if (regions->depth && regions->thread != thread) {
        regions->faults.of_other_threads++;
        return 0;
    }
    if (!regions->num_rows) {
        if (!make_row(regions, 0, outside_path, sizeof outside_path - 1)) return no_memory(node);
        regions->num_rows = 1;
    }
    const int64_t row = find_row(regions, name, name_bytes);
    if (row < 0) return no_memory(node);
    pw_clock_enter(&node->clock, false); /* the compute before the mark belongs to before it */
    settle(node, true);
    if (node->clock.recorder) pw_recorder_region_entered(node->clock.recorder, name, name_bytes);
    regions->thread = thread;
    const int64_t number = ++regions->last_number;
    if (regions->depth < PW_REGION_DEPTH_MAX)
        regions->open[regions->depth] = (pw_open_region){number, node->clock.now_ns, (uint32_t)row};
    regions->depth++;
    regions->rows[row]->entries++;
    pw_clock_leave(&node->clock);
    return number;
}

static void trace_open(pw_node *node, uint32_t idx)
{
    const pw_open_region *open = &node->regions->open[idx];
    if (!node->trace.trace) return;
    pw_trace_detail(node->trace.trace, open->entered_ns, PW_TRACE_REGION, idx,
                    (uint64_t)(node->clock.now_ns - open->entered_ns), open->row);
}

/* From now on only the outer `depth` ones are open. */
static void close_to(pw_node *node, uint32_t depth)
{
    pw_program_regions *regions = node->regions;
    pw_clock_enter(&node->clock, false);
    settle(node, true);
    while (regions->depth > depth) {
        if (node->clock.recorder) pw_recorder_region_left(node->clock.recorder);
        if (--regions->depth < PW_REGION_DEPTH_MAX) trace_open(node, regions->depth);
    }
    pw_clock_leave(&node->clock);
}

static bool is_mine(const pw_program_regions *regions)
{
    return regions->depth && regions->thread == (uint64_t)pthread_self();
}

static void leave(pw_node *node, int64_t number)
{
    const pw_program_regions *regions = node->regions;
    if (!regions || number <= 0 || number > regions->last_number || !is_mine(regions)) return;
    uint32_t depth = regions->depth;
    if (depth > PW_REGION_DEPTH_MAX) {
        if (number > regions->open[PW_REGION_DEPTH_MAX - 1].number) {
            close_to(node, depth - 1); /* which of those without a place is not known */
            return;
        }
        depth = PW_REGION_DEPTH_MAX;
    }
    while (depth > 0 && regions->open[depth - 1].number > number) depth--;
    if (depth > 0 && regions->open[depth - 1].number == number) close_to(node, depth - 1);
}

static bool has_name(const pw_region_row *row, const char *name, size_t name_bytes)
{
    if (row->path_bytes < name_bytes) return false;
    const size_t begin = row->path_bytes - name_bytes;
    if (memcmp(row->path + begin, name, name_bytes) != 0) return false;
    return begin == 0 || row->path[begin - 1] == '/';
}

static bool leave_named(pw_node *node, const char *name, size_t name_bytes)
{
    pw_program_regions *regions = make_regions(node);
    if (!regions) return false;
    uint32_t depth = regions->depth;
    if (depth && !is_mine(regions)) {
        regions->faults.of_other_threads++;
        return false;
    }
    if (depth && (name_bytes == 0 || depth > PW_REGION_DEPTH_MAX)) {
        close_to(node, depth - 1);
        return true;
    }
    for (; depth > 0; depth--) {
        const uint32_t row = regions->open[depth - 1].row;
        if (row != MORE_REGIONS && !has_name(regions->rows[row], name, name_bytes)) continue;
        close_to(node, depth - 1);
        return true;
    }
    regions->faults.unmatched++;
    return false;
}

/* ---- for hosts */

int64_t pw_node_region_enter(pw_node *node, const char *name, uint64_t name_bytes)
{
    int64_t number;
    LOCKED(node, number = enter(node, name, name_bytes));
    return number;
}

void pw_node_region_leave(pw_node *node, int64_t number) { LOCKED(node, leave(node, number)); }

int pw_node_region_leave_named(pw_node *node, const char *name, uint64_t name_bytes)
{
    int is_left;
    LOCKED(node, is_left = leave_named(node, name, name_bytes));
    return is_left;
}

uint32_t pw_node_num_regions(const pw_node *node)
{
    const pw_program_regions *regions = node->regions;
    return regions ? regions->num_rows + (regions->rows[MORE_REGIONS] != NULL) : 0;
}

void pw_node_regions_settle(pw_node *node)
{
    if (pw_node_num_regions(node)) settle(node, false);
}

const char *pw_node_region_read(const pw_node *node, uint32_t idx, uint64_t *entries,
                                pw_region_sums *out)
{
    const pw_program_regions *regions = node->regions;
    if (idx >= pw_node_num_regions(node)) return NULL;
    const pw_region_row *row = regions->rows[idx < regions->num_rows ? idx : MORE_REGIONS];
    *entries = row->entries;
    *out = row->sums;
    return row->path;
}

pw_region_faults pw_node_region_faults(const pw_node *node)
{
    return node->regions ? node->regions->faults : (pw_region_faults){0};
}

void pw_node_regions_trace(pw_node *node)
{
    const pw_program_regions *regions = node->regions;
    pw_trace *trace = node->trace.trace;
    if (!regions) return;
    for (uint32_t i = regions->depth; i-- > 0;)
        if (i < PW_REGION_DEPTH_MAX) trace_open(node, i);
    for (uint32_t i = 1; i < PW_REGIONS_MAX; i++) {
        if (!regions->rows[i]) continue;
        for (uint32_t part = 0; part < PW_REGION_PATH_BYTES / 16; part++) {
            uint64_t text[2];
            memcpy(text, regions->rows[i]->path + part * sizeof text, sizeof text);
            if (!text[0] && !text[1]) break;
            pw_trace_detail(trace, part, PW_TRACE_REGION_NAME, i, text[0], text[1]);
        }
    }
}

void pw_node_regions_finish(pw_node *node)
{
    for (uint32_t i = 0; node->regions && i < PW_REGIONS_MAX; i++) free(node->regions->rows[i]);
    free(node->regions);
}
