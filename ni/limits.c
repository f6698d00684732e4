#include "ni/limits.h"

typedef struct {
    size_t offset; /* of an int64_t */
    int64_t min, max;
    const char *name;
} limit;

#define SETTING(field, min, max) {offsetof(pw_settings, field), min, max, #field}
#define COST(field, min, max) {offsetof(pw_costs, field), min, max, #field}

static const limit of_settings[] = {
    SETTING(window_blocks, 1, PW_WINDOW_MAX),
    SETTING(tick_ns, 1, INT64_MAX),
    SETTING(mailbox_entries, 1, UINT32_MAX),
    SETTING(policy, PW_POLICY_PAGE, PW_POLICY_HOST),
    SETTING(interleave, PW_INTERLEAVE_NONE, PW_INTERLEAVE_PACKET),
};

static const limit of_costs[] = {
    COST(nodes_per_qfdb, 1, INT32_MAX),      COST(link_mbps, 1, INT32_MAX),
    COST(link_between_mbps, 1, INT32_MAX),   COST(link_coding_permille, 1, 1000),
    COST(receive_engine_mbps, 1, INT32_MAX), COST(packetizer_payload_bytes, 1, INT32_MAX),
};

static const char *first_refused(const void *values, const limit *limits, size_t num_limits)
{
    for (size_t i = 0; i < num_limits; i++) {
        int64_t value = *(const int64_t *)(const void *)((const char *)values + limits[i].offset);
        if (value < limits[i].min || value > limits[i].max) return limits[i].name;
    }
    return NULL;
}

const char *pw_ni_refused(const pw_costs *costs, const pw_settings *settings)
{
    const char *name =
        first_refused(settings, of_settings, sizeof of_settings / sizeof *of_settings);
    if (!name) name = first_refused(costs, of_costs, sizeof of_costs / sizeof *of_costs);
    if (!name && settings->policy == PW_POLICY_HOST && settings->stall)
        name = "policy"; /* an access that waits for RESUME cannot wait for the host too */
    bool waits = settings->stall || settings->policy == PW_POLICY_HOST;
    if (!name && settings->interleave != PW_INTERLEAVE_NONE && waits)
        name = "interleave"; /* two blocks under way at once cannot wait, one inside the other */
    return name;
}
