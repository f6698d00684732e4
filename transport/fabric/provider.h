/* What stands behind libfabric's handles here, and the operations under way. For the provider's own
 * files. Everything is guarded by the node's lock. */
#ifndef PW_FABRIC_PROVIDER_H
#define PW_FABRIC_PROVIDER_H
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>

#include "native/event_queue.h"
#include "node/messages/messages.h"
#include "node/settings/config.h"
#include "transport/fabric/library.h"
#include "transport/fabric/wire_address.h"
#include "transport/fabric/wire_fabric.h"

/* The functions in libfabric's tables have parameters that this provider does not need. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define PW_FI_NAME "pagewire"
#define PW_FI_PDID 1 /* the same for all nodes of a run */
#define PW_FI_ENDPOINTS_MAX 64
#define PW_FI_ATOMIC_MAX_BYTES 2048
#define PW_FI_IOV_MAX 8
#define PW_FI_MESSAGE_MAX_BYTES (UINT64_C(1) << PW_USER_BITS) /* of all there is to address */

typedef struct pw_fi_process pw_fi_process;
typedef struct pw_fi_operation pw_fi_operation;

typedef struct {
    struct fid_domain fid;
    pw_fi_process *process;
    uint32_t num_users;
} pw_fi_domain;

/* An endpoint of a process of the run. */
typedef struct {
    uint32_t node;
    uint16_t endpoint;
    bool is_there; /* false: removed */
} pw_fi_peer;

typedef struct {
    struct fid_av fid;
    pw_fi_domain *domain;
    pw_fi_peer *peers;   /* by fi_addr_t */
    pw_wire_name *names; /* as inserted, for lookup */
    uint32_t num_peers, peers_capacity, names_capacity;
    fi_addr_t *first_of_node; /* one of its endpoints; FI_ADDR_NOTAVAIL: none */
    uint32_t num_users;
} pw_fi_av;

/* An entry that waits in a queue to be read. */
typedef struct {
    struct fi_cq_err_entry entry; /* err 0: a completion */
    fi_addr_t source;
} pw_fi_entry;

typedef struct {
    struct fid_cq fid;
    pw_fi_domain *domain;
    enum fi_cq_format format;
    pw_fi_entry *entries; /* a ring; capacity: a power of two */
    uint64_t head, tail, capacity;
    uint32_t num_users;
    bool was_signalled;
} pw_fi_cq;

typedef struct {
    struct fid_cntr fid;
    pw_fi_domain *domain;
    uint64_t value, errors;
    uint32_t num_users;
} pw_fi_counter;

typedef struct pw_fi_region {
    struct fid_mr fid;
    pw_fi_domain *domain;
    uint64_t address, num_bytes, access;
    uint32_t recorded;         /* its number in the recording; 0: none */
    struct pw_fi_region *next; /* of the process's */
} pw_fi_region;

/* What a completed operation of one kind tells. */
typedef struct {
    pw_fi_cq *cq;
    pw_fi_counter *counter;
    bool is_selective; /* entries only where the call asked for one */
} pw_fi_sink;

typedef struct {
    struct fid_ep fid;
    pw_fi_domain *domain;
    pw_fi_process *process;
    pw_fi_av *av;
    uint16_t number;
    bool is_enabled;
    uint64_t caps, transmit_flags, receive_flags;
    size_t min_multi_receive_bytes;
    pw_fi_sink send, receive, read, write;
    pw_operation_list in_order; /* receives without a tag whose messages are on their way, as
                                   matched */
    int64_t *in_order_ns;       /* of each node: when the last one from it ended */
} pw_fi_endpoint;

struct pw_fi_operation {
    pw_operation base; /* first; its source is an endpoint's number */
    pw_fi_endpoint *endpoint;
    const pw_fi_sink *sink; /* NULL: nobody is told */
    void *context;
    uint64_t flags;      /* of the entry */
    uint64_t id;         /* of an atomic */
    uint8_t wants_entry; /* also without an error */
    uint8_t has_remote_data;
    uint8_t is_uncounted;    /* a look, a write's data: no message received */
    int32_t error;           /* FI_E*, positive */
    uint32_t num_users;      /* of a multi-receive buffer: messages that are not all there */
    uint32_t num_parts;      /* of iov; 0: one buffer; several: base has one for them */
    pw_fi_operation *parent; /* the multi-receive buffer that it lands in */
    struct iovec iov[PW_FI_IOV_MAX];
};

/* Operations that are over at some virtual time, in the order of that time, until the CPU may know:
 * then an entry goes to the completion queue, and a counter counts. Zeroed: empty. */
typedef struct {
    pw_event_queue *over; /* subject: the operation; NULL: there was none yet */
} pw_fi_timeline;

/* The node of a process that loaded the provider: made with the first domain out of the node file
 * that the launcher wrote, alive until the process ends. Endpoints share it. */
struct pw_fi_process {
    pw_node *node;
    pw_ni *ni;
    pw_clock *clock;
    pw_wire *wire;
    int card; /* of wire_address.h */
    const pw_fabric_library *library;
    pw_node_config config;
    pw_messages messages;
    uint8_t *scratch; /* of the eager limit's length: parts of a message, gathered */
    pw_fi_endpoint *endpoints[PW_FI_ENDPOINTS_MAX];
    uint32_t num_endpoints;
    pw_fi_timeline timeline;
    pw_fi_region *regions;
    pw_operation_list claimed; /* messages that a look has kept */
    uint64_t num_atomics;
    int32_t *call_idx; /* of the marked calls' counts, by number */
    bool has_marks, has_failed;
    bool has_future; /* a look found what is not here yet in virtual time */
};

static inline pw_fi_operation *pw_fi_operation_of(pw_operation *base)
{
    return (pw_fi_operation *)(void *)base;
}

static inline pw_fi_endpoint *pw_fi_endpoint_of(struct fid_ep *fid)
{
    return (pw_fi_endpoint *)(void *)fid;
}

/* Flags of fi_inject and its like, which have none: no entry, though counted. */
#define PW_FI_SILENT (UINT64_C(1) << 63) /* a provider's own */
#define PW_FI_INJECT (FI_INJECT | PW_FI_SILENT)

/* Of a call that has no flags of its own. */
static inline uint64_t pw_fi_transmit_flags(struct fid_ep *fid)
{
    return pw_fi_endpoint_of(fid)->transmit_flags;
}

/* ---- the process (process.c) */

/* What the launcher left, read once: false: nothing, this is no run of pagewire's. */
bool pw_fi_is_configured(void);
/* Longest message that fi_inject takes: what rides in the packetizer's message, so that a buffer of
 * ours, which never faults, does not stand in for the program's. */
uint64_t pw_fi_inject_bytes(void);
/* The process's, made at the first call. FI_E*: a sentence has been printed. */
int pw_fi_process_get(pw_fi_process **out);
/* The library that loaded the provider; before the first _get. */
void pw_fi_process_set_library(const pw_fabric_library *library);
/* The last endpoint is about to close: what is under way ends, the report is left. */
void pw_fi_process_rest(pw_fi_process *process);
/* Turn the node until that is so, or in vain for so many turns or 2 s. */
typedef bool pw_fi_is_over(const pw_fi_process *process, const pw_fi_endpoint *endpoint);
void pw_fi_turn_until(pw_fi_process *process, pw_fi_is_over *is_over,
                      const pw_fi_endpoint *endpoint, uint32_t vain_turns);
/* The run cannot go on: the sentence is printed once and noted for the launcher. */
void pw_fi_process_fail(pw_fi_process *process, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A sentence of the provider's on standard error. */
void pw_fi_say(const char *sentence);
/* The same, and a record for the launcher of why this rank fails; the error. */
int pw_fi_refuse(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* FI_E* (positive) of a PW_ERR_*. */
int pw_fi_error_of(int code);

/* NULL: no memory. */
static inline pw_fi_operation *pw_fi_take(pw_fi_process *process, uint8_t kind)
{
    return pw_fi_operation_of(pw_operation_new(&process->messages, kind));
}

/* Back to the pool, its memory freed; not in a list. */
static inline void pw_fi_give(pw_fi_process *process, pw_fi_operation *operation)
{
    pw_operation_free(&process->messages, &operation->base);
}

/* ---- calls.c
 *
 * The calls of libfabric's and of the MPI library's: they lock the node, and the virtual clock
 * counts what lies between them as compute. With marks the outermost is the MPI call, whose kind
 * says whether the program waits; without, each call of libfabric's is one by itself. */

void pw_fi_enter(pw_fi_process *process);
void pw_fi_leave(pw_fi_process *process);

/* Does the program wait for something in the call that this thread is in? Without marks: always. */
bool pw_fi_is_waiting(void);
/* A turn of the node in the call of this thread; a negative FI_E* when the run is over. *moved:
 * something happened. */
int pw_fi_turn(pw_fi_process *process, bool *moved);
/* The call that this thread is in has looked for completions; delivered: and got some. */
void pw_fi_note_look(bool delivered);
/* It sends these bytes. */
void pw_fi_count_bytes(pw_fi_process *process, uint64_t num_bytes);

/* Have the preloaded library tell of MPI's calls, where it is; the node was just made, in one. */
int pw_fi_attach_marks(pw_fi_process *process);
/* It tells no more: this library is about to go. */
void pw_fi_detach_marks(void);

/* ---- what libfabric calls (provider.c) */

/* As fi_getinfo: 0, -FI_ENODATA when a hint cannot be met, -FI_ENOMEM. */
int pw_fi_info(const pw_fabric_library *library, uint32_t api_version, uint32_t provider_version,
               const struct fi_info *hints, struct fi_info **out);

/* A function that libfabric's interface asks for and this provider has not: libfabric's inline
 * functions call through the table without a look, so that an empty place in it would be a jump to
 * nowhere. */
#define PW_FI_ABSENT(type, name, ...) \
    type name(__VA_ARGS__) { return -FI_ENOSYS; }

/* Absent of every object, or of most. */
int pw_fi_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int pw_fi_no_control(struct fid *fid, int command, void *argument);
int pw_fi_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* Of an object that can only be closed. */
#define PW_FI_ONLY_CLOSE(CLOSE)        \
    {                                  \
        .size = sizeof(struct fi_ops), \
        .close = (CLOSE),              \
        .bind = pw_fi_no_bind,         \
        .control = pw_fi_no_control,   \
        .ops_open = pw_fi_no_ops,      \
    }

/* ---- what is opened in a domain (domain.c, av.c, endpoint.c, completions.c) */

int pw_fi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out,
                      void *context);

int pw_fi_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out,
                        void *context);

int pw_fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out,
                  void *context);
/* The address of an endpoint, FI_ADDR_NOTAVAIL: it was not inserted. */
fi_addr_t pw_fi_av_find(const pw_fi_av *av, uint32_t node, uint32_t endpoint);
/* NULL: no such address. */
static inline const pw_fi_peer *pw_fi_av_at(const pw_fi_av *av, fi_addr_t address)
{
    return address < av->num_peers && av->peers[address].is_there ? &av->peers[address] : NULL;
}

int pw_fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                  void *context);

int pw_fi_counter_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out,
                       void *context);

/* Memory regions: the NI translates virtual addresses, so that a registration pins and touches
 * nothing; it gives the key with which peers read and write, as far as its access allows. Atomic
 * operations are checked against the region.
 *
 * The region of that key which holds the range and allows the access, NULL: none does. */
const pw_fi_region *pw_fi_region_find(const pw_fi_process *process, uint64_t key, uint64_t address,
                                      uint64_t num_bytes, uint64_t access);

/* ---- operations that are over (completions.c) */

/* Does a call with these flags want an entry? */
static inline bool pw_fi_wants_entry(const pw_fi_sink *sink, uint64_t flags)
{
    return !(flags & PW_FI_SILENT) && (!sink->is_selective || flags & FI_COMPLETION);
}

/* An operation of the endpoint's, with what its end tells to whom; flags: the call's. NULL: no
 * memory. */
static inline pw_fi_operation *pw_fi_new(pw_fi_endpoint *endpoint, uint8_t kind,
                                         const pw_fi_sink *sink, uint64_t flags, void *context)
{
    pw_fi_operation *operation = pw_fi_take(endpoint->process, kind);
    if (!operation) return NULL;
    operation->endpoint = endpoint;
    operation->sink = sink;
    operation->wants_entry = pw_fi_wants_entry(sink, flags);
    operation->context = context;
    return operation;
}

/* The earliest one; NULL: none. */
pw_fi_operation *pw_fi_timeline_first(const pw_fi_timeline *timeline);
pw_fi_operation *pw_fi_timeline_take(pw_fi_timeline *timeline);
/* Without those of this endpoint, which go to `out`. */
void pw_fi_timeline_drop(pw_fi_timeline *timeline, const pw_fi_endpoint *endpoint,
                         pw_operation_list *out);

/* Ends an operation at its complete_ns: on the timeline, or at once back to the pool when nobody
 * wants to know. */
int pw_fi_end(pw_fi_process *process, pw_fi_operation *operation);
/* Tell of everything that is over by the CPU's clock; and of the earliest that is over later, for
 * which the clock jumps, when nothing else was there and is_waiting. Whether anything was told. */
bool pw_fi_deliver(pw_fi_process *process, bool is_waiting);
/* A message that landed in a multi-receive buffer has been told of, or the buffer takes no more:
 * when that was the last, the application has it back. */
void pw_fi_release(pw_fi_process *process, pw_fi_operation *buffer);

/* ---- messages (messages.c) */

/* A kind of envelopes besides PW_MESSAGE_*. */
#define PW_FI_MESSAGE_DATA 18 /* remote completion data of a write that has arrived */

/* What a message's header has as its context: messages and receives of an endpoint, with a tag or
 * without. Its source is the number of the sender's endpoint. */
static inline uint64_t pw_fi_context(uint32_t endpoint, bool is_tagged)
{
    return (uint64_t)endpoint << 1 | is_tagged;
}

static inline uint16_t pw_fi_endpoint_number(uint64_t context) { return (uint16_t)(context >> 1); }

extern struct fi_ops_msg pw_fi_message_ops;
extern struct fi_ops_tagged pw_fi_tagged_ops;

/* A message of the host's own kind, from the endpoint with a number: envelope, payload, header.
 * PW_ERR_*. */
int pw_fi_send_plain(pw_fi_process *process, uint16_t endpoint, uint32_t node,
                     uint32_t peer_endpoint, uint8_t kind, const void *payload,
                     uint32_t payload_bytes, int64_t at_ns, uint64_t data);

/* Total of the parts; gather and scatter between them and one buffer of so many bytes. */
uint64_t pw_fi_total_bytes(const struct iovec *iov, size_t num_parts);
void pw_fi_gather(void *buffer, const struct iovec *iov, size_t num_parts);
void pw_fi_scatter(const struct iovec *iov, size_t num_parts, const void *buffer,
                   uint64_t num_bytes);
/* Memory of the operation's own in place of several parts, of num_bytes in all. PW_ERR_NOMEM. */
int pw_fi_own_buffer(pw_fi_operation *operation, const struct iovec *iov, size_t num_parts,
                     uint64_t num_bytes);

/* Take back the receive with this context: 0, -FI_ENOENT when it is not there any more. */
int pw_fi_cancel_receive(pw_fi_endpoint *endpoint, const void *context);

/* ---- what peers send: checked, then given to whom it is for (arrivals.c) */

/* The node's `message` and `finished`: context is the process. */
int pw_fi_message_arrived(void *context, uint32_t source, const uint8_t *frame,
                          uint32_t frame_bytes);
int pw_fi_handle_finished(void *context, pw_handle *handle);
/* The message layer's `matched` and `over`. */
pw_operation *pw_fi_matched(void *context, pw_operation *base, uint64_t message_bytes);
int pw_fi_over(void *context, pw_operation *base);

/* ---- one-sided transfers: reads and writes by the NI, without the target's CPU (rma.c) */

extern struct fi_ops_rma pw_fi_rma_ops;

/* A read or write is over. */
int pw_fi_end_rma(pw_fi_process *process, pw_fi_operation *operation);

/* ---- atomics.c
 *
 * Atomic operations: a message to the owner of the memory, whose NI does them one after the other,
 * and its answer. They are atomic among themselves. The owner's pages are brought by its kernel as
 * for any access of a CPU: that costs no virtual time here. */

extern struct fi_ops_atomic pw_fi_atomic_ops;

int pw_fi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op operation,
                       struct fi_atomic_attr *attr, uint64_t flags);

/* Begins the payload of a request; operands and, where the operation compares, compares follow. */
typedef struct {
    uint64_t id, address, key;
    uint32_t count;
    uint16_t type, operation;
    uint8_t wants_old;
    uint8_t reserved[7];
} pw_fi_atomic_request;
_Static_assert(sizeof(pw_fi_atomic_request) == 40, "request of an atomic operation");

/* Begins the payload of an answer; the old values follow where they were wanted. */
typedef struct {
    uint64_t id;
    int32_t error; /* FI_E* */
    uint32_t num_bytes;
} pw_fi_atomic_answer;
_Static_assert(sizeof(pw_fi_atomic_answer) == 16, "answer to an atomic operation");

/* A request for memory of this process, and an answer to one of its own; both have been checked but
 * for their payload. A request for an endpoint that is not open is answered with FI_ECONNREFUSED:
 * its sender waits. PW_ERR_MALFORMED: it makes no sense. */
int pw_fi_serve_atomic(pw_fi_process *process, const pw_arrival *arrival);
int pw_fi_take_answer(pw_fi_process *process, const pw_arrival *arrival);
#endif
