/* The memory strategies that come with pagewire, by name: see strategy.h. */
#include "transport/node/strategy.h"

#include <string.h>

/* A new one is a line here and a file that defines pw_strategy_<name>; its name for the user has a
 * dash for each underscore. */
#define BUILT_IN(strategy)                                                            \
    strategy(part) strategy(part_prefetch) strategy(pretouch) strategy(pretouch_once) \
        strategy(ideal) strategy(pin) strategy(pin_cache) strategy(pin_all)           \
            strategy(pin_rendezvous) strategy(bounce) strategy(odp) strategy(np_rdma) \
                strategy(utlb) strategy(firehose)

#define DECLARE(name) extern const pw_strategy_ops pw_strategy_##name;
#define ADDRESS(name) &pw_strategy_##name,

BUILT_IN(DECLARE)

static const pw_strategy_ops *const built_in[] = {BUILT_IN(ADDRESS)};

#define NUM_BUILT_IN (sizeof(built_in) / sizeof(built_in[0]))

const pw_strategy_ops *pw_strategy_at(uint32_t idx)
{
    return idx < NUM_BUILT_IN ? built_in[idx] : NULL;
}

void pw_strategy_choose_unit(const pw_strategy_ops *strategy, pw_settings *settings)
{
    if (strategy->unit) settings->translation = strategy->unit;
}

const pw_strategy_ops *pw_strategy_find(const char *name)
{
    for (uint32_t i = 0; i < NUM_BUILT_IN; i++)
        if (strcmp(built_in[i]->name, name) == 0) return built_in[i];
    return NULL;
}
