/* Trace of a node: timed events for tests, teaching, plots and timelines. Costs one branch when it
 * is off. Whoever starts it says what becomes of a full block of records: they are given away
 * (`full`), or the first ones are kept. Not thread-safe. */
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

/* Of a timeline alone: only where the trace is_detailed. Spans: a is their length in ns. */
enum pw_trace_detail {
    PW_TRACE_MOVED = 64,     /* the time of the record with number a is now this one */
    PW_TRACE_R5,             /* span */
    PW_TRACE_SEND_ENGINE,    /* span; b: PW_TRACE_BLOCK of what it reads */
    PW_TRACE_LINK,           /* span; b: PW_TRACE_BLOCK of what leaves */
    PW_TRACE_RECEIVE_ENGINE, /* span; b: PW_TRACE_BLOCK, the peer is its source */
    PW_TRACE_WALK,           /* span; page */
    PW_TRACE_MESSAGE_SENT,   /* arrival in ns, bytes; the peer is the receiver */
    PW_TRACE_CALL,           /* span of a call of the library; index of the MPI call, or none */
    PW_TRACE_CALL_NAME,      /* 16 bytes of a name; the peer is the call's index, time the part */
    PW_TRACE_TOUCH,          /* span of the memory strategy */
    PW_TRACE_PIN,            /* the same; unpinning too */
    PW_TRACE_COPY,           /* the same */
    PW_TRACE_UNIT_PAGE_IN,   /* span of a translation unit that pages in; page; the peer is how many
                              */
    PW_TRACE_PINNED,         /* bytes that are pinned from now on */
    PW_TRACE_REGION,         /* span of a region of the program's, row; the peer is its depth */
    PW_TRACE_REGION_NAME,    /* 16 bytes of its path; the peer is the row, time the part */
    PW_TRACE_RESIDENT,       /* bytes that are known to be in memory from now on */
    PW_TRACE_BLOCK_OF,       /* PW_TRACE_BLOCK that starts, stream; the peer is the destination */
    PW_TRACE_MESSAGE_LINK,   /* span from when the link takes a message to its arrival; posted */
    PW_TRACE_HELD,           /* span of a walk that was foreseen, and has no WALK; transaction */
    /* Of a replay's program: an operation is three records, OPERATION, STREAM and BUFFER, told when
     * it is over. */
    PW_TRACE_WAITED,    /* span in which the CPU waits; number of the operation, PW_OPERATION_* */
    PW_TRACE_MET,       /* the same in a meeting; group */
    PW_TRACE_OPERATION, /* posted; when it is over, when its message arrived; the peer's node */
    PW_TRACE_STREAM,    /* of its transfer, number; the peer is PW_OPERATION_* */
    PW_TRACE_BUFFER     /* offset, bytes; the peer is the region. Alone: what is used from now on */
};

typedef struct {
    int64_t time_ns;
    uint32_t kind;
    uint32_t peer; /* the node that it is about; where nothing is said this one */
    uint64_t a, b;
} pw_trace_record;

#define PW_TRACE_NAME_BYTES 48  /* of an MPI call's, at most */
#define PW_TRACE_PATH_BYTES 256 /* of a region's */
/* cdef end */

/* A block's numbers and how many of its packets, in one word. */
#define PW_TRACE_BLOCK(id, sequence, num_packets) \
    ((uint64_t)(id) | (uint64_t)(sequence) << 16 | (uint64_t)(num_packets) << 32)

typedef struct pw_trace pw_trace;
struct pw_trace {
    pw_trace_record *records; /* NULL: off */
    uint32_t capacity, num_records;
    uint32_t node;
    bool is_detailed;
    uint64_t num_given; /* records before these */
    uint64_t lost;
    void (*full)(pw_trace *trace); /* makes room, or does not; NULL: the first ones are kept */
    void *taker;                   /* whose `full` is */
};

/* The number of the record that comes next: what moves its time later goes by it. */
static inline uint64_t pw_trace_next(const pw_trace *trace)
{
    return trace->num_given + trace->num_records;
}

static inline void pw_trace_add_of(pw_trace *trace, pw_time time_ns, uint32_t kind, uint32_t peer,
                                   uint64_t a, uint64_t b)
{
    if (!trace->records) return;
    if (trace->num_records == trace->capacity) {
        if (trace->full) trace->full(trace);
        if (trace->num_records == trace->capacity) {
            trace->lost++;
            return;
        }
    }
    trace->records[trace->num_records++] =
        (pw_trace_record){.time_ns = time_ns, .kind = kind, .peer = peer, .a = a, .b = b};
}

static inline void pw_trace_add(pw_trace *trace, pw_time time_ns, enum pw_trace_kind kind,
                                uint64_t a, uint64_t b)
{
    pw_trace_add_of(trace, time_ns, (uint32_t)kind, trace->node, a, b);
}

static inline void pw_trace_detail(pw_trace *trace, pw_time time_ns, enum pw_trace_detail kind,
                                   uint32_t peer, uint64_t a, uint64_t b)
{
    if (trace->is_detailed) pw_trace_add_of(trace, time_ns, (uint32_t)kind, peer, a, b);
}

/* A record's time has moved from *known_ns. One that was given away gets another that says so. */
static inline void pw_trace_move(pw_trace *trace, uint64_t number, pw_time *known_ns,
                                 pw_time time_ns)
{
    if (*known_ns == time_ns) return;
    *known_ns = time_ns;
    if (number >= trace->num_given) trace->records[number - trace->num_given].time_ns = time_ns;
    else pw_trace_detail(trace, time_ns, PW_TRACE_MOVED, trace->node, number, 0);
}
#endif
