/* The platform files that come with pagewire, as numbers: src/cffi/build_platforms.py makes the
 * table of the TOML files when the core is built. Read-only. */
#ifndef PW_NODE_SETTINGS_PLATFORMS_H
#define PW_NODE_SETTINGS_PLATFORMS_H
#include "native/costs.h"
#include "node/settings/cost_table.h"

/* cdef begin */
typedef struct {
    const char *name, *description;
    pw_costs costs;
    pw_cost_tables tables;
} pw_platform;

/* The idx-th; NULL behind the last. */
const pw_platform *pw_platform_at(uint32_t idx);
/* cdef end */
#endif
