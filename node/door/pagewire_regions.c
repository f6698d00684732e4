/* Regions of a host in C. See pagewire.h. */
#include "native/status.h"
#include "node/door/pagewire_state.h"
#include "node/report/program_regions.h"
#include <string.h>

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
    if (values) pw_door_write_counters(&sums, values, num_values);
    return path;
}
