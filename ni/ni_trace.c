#include "ni/state.h"
#include <stdlib.h>

int pw_ni_trace_start(pw_ni *ni, uint32_t capacity)
{
    free(ni->trace.records);
    ni->trace = (pw_trace){.node = ni->node};
    ni->driver.num_marks = 0;
    pw_library_thread_forget_records(&ni->driver.thread);
    if (capacity == 0) return PW_OK;
    ni->trace.records = malloc(capacity * sizeof *ni->trace.records);
    if (!ni->trace.records) return PW_ERR_NOMEM;
    ni->trace.capacity = capacity;
    return PW_OK;
}

pw_trace *pw_ni_trace(pw_ni *ni) { return &ni->trace; }

uint32_t pw_ni_trace_read(const pw_ni *ni, const pw_trace_record **records)
{
    *records = ni->trace.records;
    return ni->trace.num_records;
}

uint64_t pw_ni_trace_lost(const pw_ni *ni) { return ni->trace.lost; }

void pw_ni_trace_detail(pw_ni *ni) { ni->trace.is_detailed = true; }

void pw_ni_note_unit_fault(pw_ni *ni, enum pw_trace_kind kind, uint32_t source_node,
                           uint32_t transaction_id, const pw_access *access,
                           const pw_access_result *result)
{
    pw_tallies_fault(&ni->tallies, access->page, access->at_ns);
    pw_trace_add_of(&ni->trace, access->at_ns, (uint32_t)kind, source_node, access->page,
                    transaction_id);
    pw_trace_detail(&ni->trace, result->page_in_ns, PW_TRACE_UNIT_PAGE_IN, result->num_paged_in,
                    (uint64_t)(result->paged_in_ns - result->page_in_ns), access->page);
}
