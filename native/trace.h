/* Trace of the engine: a ring of timed events for tests, teaching and plots. Costs one branch when
 * it is off. Not thread-safe. */
#ifndef PW_NATIVE_TRACE_H
#define PW_NATIVE_TRACE_H
#include "native/types.h"

/* cdef begin */
enum pw_trace_kind {
    PW_TRACE_TRANSFER_NOTICED = 1, /* channel */
    PW_TRACE_READ_REQUEST,         /* peer, stream */
    PW_TRACE_BLOCK_STARTED,        /* transaction, sequence */
    PW_TRACE_BLOCK_FIRST_PACKET,   /* destination: transaction, sequence */
    PW_TRACE_BLOCK_LAST_PACKET,
    PW_TRACE_FAULT_SOURCE, /* page, transaction */
    PW_TRACE_FAULT_DESTINATION,
    PW_TRACE_HANDLER,        /* page in FAR, 0 */
    PW_TRACE_TASKLET_ENTRY,  /* page, pages asked for (0: a known duplicate) */
    PW_TRACE_PAGE_IN_DONE,   /* page, pages that were absent */
    PW_TRACE_NETLINK_SENT,   /* page, transaction */
    PW_TRACE_PAGE_TOUCHED,   /* user-space thread: page, 1 when it was absent */
    PW_TRACE_TOUCH_SEGFAULT, /* user-space thread: page, transaction */
    PW_TRACE_ERR_SENT,       /* transaction, sequence */
    PW_TRACE_ACK_SENT,       /* transaction, sequence */
    PW_TRACE_NACK_SENT,      /* transaction, code */
    PW_TRACE_ACK,            /* at the source's R5: transaction, sequence */
    PW_TRACE_NACK,           /* transaction, code */
    PW_TRACE_ERR,            /* transaction, sequence */
    PW_TRACE_TIMEOUT,        /* transaction, sequence */
    PW_TRACE_NOTIFIED,       /* destination: stream, bytes */
    PW_TRACE_TRANSFER_DONE,  /* source: stream, bytes */
    PW_TRACE_RESUME,         /* stall: page, PW_RESUME_* */
    PW_TRACE_INJECTED,       /* enum pw_impairment_id, transaction */
    PW_TRACE_TRANSITION /* transaction | sequence << 16, state | enum pw_block_event << 8 | next
                           state << 16 */
};

typedef struct {
    int64_t time_ns;
    uint32_t kind;
    uint32_t node;
    uint64_t a, b;
} pw_trace_record;
/* cdef end */

typedef struct {
    pw_trace_record *records;       /* NULL: off */
    uint32_t capacity, num_records; /* the ring keeps the first ones and counts what it lost */
    uint32_t node;
    uint64_t lost;
} pw_trace;

static inline void pw_trace_add(pw_trace *trace, pw_time time_ns, enum pw_trace_kind kind,
                                uint64_t a, uint64_t b)
{
    if (!trace->records) return;
    if (trace->num_records == trace->capacity) {
        trace->lost++;
        return;
    }
    trace->records[trace->num_records++] = (pw_trace_record){
        .time_ns = time_ns, .kind = (uint32_t)kind, .node = trace->node, .a = a, .b = b};
}
#endif
