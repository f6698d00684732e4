#include "transport/node/defaults.h"
#include <string.h>

const pw_platform *pw_platform_find(const char *name)
{
    const pw_platform *platform;
    for (uint32_t i = 0; (platform = pw_platform_at(i)); i++)
        if (strcmp(platform->name, name) == 0) return platform;
    return NULL;
}
