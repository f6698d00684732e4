#include "transport/node/call_counts.h"
#include <string.h>

int pw_call_index(pw_call_counts *counts, const char *name)
{
    size_t num_bytes = name ? strnlen(name, PW_CALL_NAME_BYTES) : 0;
    if (num_bytes == 0 || num_bytes == PW_CALL_NAME_BYTES) return PW_ERR_INVALID;
    for (uint32_t idx = 0; idx < counts->num_calls; idx++)
        if (strcmp(counts->call[idx].name, name) == 0) return (int)idx;
    if (counts->num_calls == PW_CALLS_MAX) return PW_ERR_FULL;
    pw_call_count *count = &counts->call[counts->num_calls];
    *count = (pw_call_count){0};
    memcpy(count->name, name, num_bytes);
    return (int)counts->num_calls++;
}

void pw_call_begin(pw_call_counts *counts, uint32_t idx)
{
    counts->call[idx].calls++;
    counts->current = idx;
}
