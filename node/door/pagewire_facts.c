/* Clock, counters, regions and names for a host in C. See pagewire.h. */
#include "native/status.h"
#include "native/fields.h"
#include "node/settings/platforms.h"
#include "node/settings/setting_rows.h"
#include "node/door/pagewire_state.h"
#include <string.h>

const char *pagewire_version(void) { return PAGEWIRE_VERSION; }

const char *pagewire_error_text(int code)
{
    const char *text = pw_status_text(code);
    return text ? text : "no code of this library";
}

const char *pagewire_setting_name(uint32_t idx)
{
    const pw_setting_row *row = pw_setting_row_at(idx);
    return row ? row->name : NULL;
}

const char *pagewire_platform_name(uint32_t idx)
{
    const pw_platform *platform = pw_platform_at(idx);
    return platform ? platform->name : NULL;
}

/* ---- virtual time */

int64_t pagewire_clock_ns(pagewire_node *node)
{
    pw_node_lock(node->node);
    int64_t now_ns = pw_node_clock(node->node)->now_ns;
    pw_node_unlock(node->node);
    return now_ns;
}

int64_t pagewire_clock_read(pagewire_node *node) { return pw_node_clock_read(node->node); }

#define LAST_NS (INT64_C(1) << 61)

/* May the clock go on by this? */
static int check_time(pagewire_node *node, const char *name, int64_t duration_ns)
{
    int64_t now_ns = pw_node_clock(node->node)->now_ns;
    if (duration_ns >= 0 && duration_ns <= LAST_NS && now_ns <= LAST_NS - duration_ns) return PW_OK;
    return pw_door_fail(node, PW_ERR_INVALID,
                        "%s = %lld at %lld ns: allowed is a time from 0, up to a clock of 2^61 ns",
                        name, (long long)duration_ns, (long long)now_ns);
}

static int check_compute(pagewire_node *node, int64_t compute_ns)
{
    if (pw_node_clock(node->node)->compute == PW_COMPUTE_MODEL)
        return check_time(node, "compute_ns", compute_ns);
    return pw_door_fail(node, PW_ERR_INVALID,
                        "compute_ns = %lld: the program declares its compute only with the "
                        "setting run.compute=model",
                        (long long)compute_ns);
}

int pagewire_clock_advance(pagewire_node *node, int64_t compute_ns)
{
    pw_clock *clock = pw_node_clock(node->node);
    pw_node_lock(node->node);
    int code = check_compute(node, compute_ns);
    if (code == PW_OK) {
        pw_clock_declare(clock, compute_ns);
        pw_clock_enter(clock, false);
        pw_clock_leave(clock);
    }
    pw_node_unlock(node->node);
    return code;
}

int pagewire_clock_sleep(pagewire_node *node, int64_t duration_ns)
{
    pw_door_enter(node);
    int code = check_time(node, "duration_ns", duration_ns);
    if (code == PW_OK) pw_clock_sleep(pw_node_clock(node->node), duration_ns);
    return pw_door_leave(node, code);
}

int pagewire_clock_observe(pagewire_node *node, int64_t time_ns)
{
    pw_clock *clock = pw_node_clock(node->node);
    pw_door_enter(node);
    int code = PW_OK;
    if (time_ns > clock->now_ns) code = check_time(node, "time_ns", time_ns - clock->now_ns);
    if (code == PW_OK) pw_clock_completed(clock, time_ns);
    return pw_door_leave(node, code);
}

/* ---- counters: the engine's, then those of the node */

#define NUM_OF_ENGINE (sizeof(pw_counters) / sizeof(uint64_t))

static const char *const of_node[] = {"virtual_time_ns", "compute_ns", "mpi_ns",
                                      "sleep_ns",        "touch_ns",   "pin_ns"};
#define NUM_OF_NODE (sizeof of_node / sizeof *of_node)
#define NUM_COUNTERS ((uint32_t)(NUM_OF_ENGINE + NUM_OF_NODE))

uint32_t pagewire_num_counters(void) { return NUM_COUNTERS; }

const char *pagewire_counter_name(uint32_t idx)
{
    if (idx < NUM_OF_ENGINE) return pw_counter_name_at(idx);
    return idx < NUM_COUNTERS ? of_node[idx - NUM_OF_ENGINE] : NULL;
}

/* The first num_values counters; how many were written. */
static uint32_t write_counters(const pw_region_sums *sums, uint64_t *values, uint32_t num_values)
{
    const int64_t own[NUM_OF_NODE] = {sums->virtual_time_ns, sums->compute_ns, sums->mpi_ns,
                                      sums->sleep_ns,        sums->touch_ns,   sums->pin_ns};
    uint64_t all[NUM_COUNTERS];
    const uint32_t count = num_values < NUM_COUNTERS ? num_values : NUM_COUNTERS;
    memcpy(all, &sums->counters, sizeof sums->counters);
    memcpy(all + NUM_OF_ENGINE, own, sizeof own);
    memcpy(values, all, count * sizeof *values);
    return count;
}

uint32_t pagewire_read_counters(pagewire_node *node, uint64_t *values, uint32_t num_values)
{
    pw_region_sums sums;
    pw_node_lock(node->node);
    pw_node_read_sums(node->node, false, &sums);
    pw_node_unlock(node->node);
    return write_counters(&sums, values, num_values);
}

int pagewire_read_counter(pagewire_node *node, const char *name, uint64_t *value)
{
    uint64_t all[NUM_COUNTERS];
    for (uint32_t i = 0; i < NUM_COUNTERS; i++) {
        if (strcmp(pagewire_counter_name(i), name) != 0) continue;
        (void)pagewire_read_counters(node, all, NUM_COUNTERS);
        *value = all[i];
        return PW_OK;
    }
    pw_node_lock(node->node);
    pw_door_fail(node, PW_ERR_INVALID,
                 "counter '%s': there is none of that name; pagewire_counter_name lists them",
                 name);
    pw_node_unlock(node->node);
    return PW_ERR_INVALID;
}

/* ---- regions */

int pagewire_region_enter(pagewire_node *node, const char *name)
{
    pw_node_lock(node->node);
    const int64_t number = pw_node_region_enter(node->node, name, strlen(name));
    const int code = number < 0 ? pw_door_fail_as_node(node, (int)number) : PW_OK;
    pw_node_unlock(node->node);
    return code;
}

int pagewire_region_leave(pagewire_node *node)
{
    int code = PW_OK;
    pw_node_lock(node->node);
    if (!pw_node_region_leave_named(node->node, "", 0))
        code = pw_door_fail(node, PW_ERR_INVALID,
                            "region: this thread has none open; enter one before it is left");
    pw_node_unlock(node->node);
    return code;
}

uint32_t pagewire_num_regions(pagewire_node *node)
{
    pw_node_lock(node->node);
    const uint32_t num_regions = pw_node_num_regions(node->node);
    pw_node_unlock(node->node);
    return num_regions;
}

const char *pagewire_region_read(pagewire_node *node, uint32_t idx, uint64_t *entries,
                                 uint64_t *values, uint32_t num_values)
{
    pw_region_sums sums;
    uint64_t num_entries;
    pw_node_lock(node->node);
    pw_node_regions_settle(node->node);
    const char *path = pw_node_region_read(node->node, idx, &num_entries, &sums);
    pw_node_unlock(node->node);
    if (!path) return NULL;
    if (entries) *entries = num_entries;
    if (values) write_counters(&sums, values, num_values);
    return path;
}
