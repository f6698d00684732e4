/* Memory that is about to be used comes into the CPU's caches beside other work. A hint: what it
 * changes is how fast this host is. Stateless. */
#ifndef PW_NATIVE_WARM_H
#define PW_NATIVE_WARM_H
#include <stddef.h>

#define PW_CACHE_LINE_BYTES 64u

static inline void pw_warm(const void *begin, size_t num_bytes)
{
    const char *line = begin;
    for (size_t i = 0; i < num_bytes; i += PW_CACHE_LINE_BYTES) __builtin_prefetch(line + i, 1);
}

/* The fields of an object from one on, up to another. */
#define PW_WARM_FIELDS(object, first, end)                                   \
    pw_warm((const char *)(object) + offsetof(__typeof__(*(object)), first), \
            offsetof(__typeof__(*(object)), end) - offsetof(__typeof__(*(object)), first))

#endif
