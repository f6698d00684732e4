#include "run/timeline/record_names.h"
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES 16

int pw_record_names_add(pw_record_names *names, const pw_trace_record *record, uint32_t max_names)
{
    uint32_t idx = record->peer;
    if (idx >= max_names || record->time_ns < 0 ||
        record->time_ns >= PW_TRACE_PATH_BYTES / PIECE_BYTES)
        return PW_ERR_INVALID;
    if (idx >= names->num_names) {
        pw_record_name *more = realloc(names->names, (idx + 1) * sizeof *more);
        if (!more) return PW_ERR_NOMEM;
        memset(more + names->num_names, 0, (idx + 1 - names->num_names) * sizeof *more);
        names->names = more;
        names->num_names = idx + 1;
    }
    const uint64_t text[] = {record->a, record->b};
    memcpy(names->names[idx].text + record->time_ns * PIECE_BYTES, text, sizeof text);
    return PW_OK;
}

const char *pw_record_names_of(const pw_record_names *names, uint64_t idx)
{
    return idx < names->num_names ? names->names[idx].text : "";
}

void pw_record_names_destroy(pw_record_names *names)
{
    free(names->names);
    *names = (pw_record_names){0};
}
