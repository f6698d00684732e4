/* What stands behind libfabric's handles here, and the operations under way. For the provider's own
 * files. Everything is guarded by the node's lock. */
#ifndef PW_FABRIC_OBJECTS_H
#define PW_FABRIC_OBJECTS_H
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "transport/fabric/wire_name.h"
#include "transport/node/node.h"

#define PW_FI_IOV_MAX 8
#define PW_FI_MESSAGE_MAX_BYTES UINT32_MAX /* a transfer's length has 32 bits */
#define PW_FI_SMALL_BYTES \
    192 /* a frame that came early and is not longer is kept in the operation */
#define PW_FI_ANY UINT32_MAX /* of a receive: from any node */

typedef struct pw_fi_process pw_fi_process;
typedef struct pw_fi_operation pw_fi_operation;

typedef struct {
    struct fid_fabric fid;
    pw_fi_process *process; /* NULL until the first domain */
} pw_fi_fabric;

typedef struct {
    struct fid_domain fid;
    pw_fi_process *process;
    pw_fi_fabric *fabric;
    uint32_t num_users;
    int mr_mode;
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
    pw_fi_peer *peers; /* by fi_addr_t */
    uint64_t num_peers, capacity;
    pw_wire_name *names;      /* as inserted, for lookup */
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
    struct pw_fi_region *next; /* of the process's */
} pw_fi_region;

typedef struct {
    pw_fi_operation *head, *tail;
} pw_fi_list;

/* Messages of one kind, tagged or not: receives posted and messages that came before one. */
typedef struct {
    pw_fi_list posted, unexpected;
} pw_fi_matching;

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
    pw_fi_matching tagged, plain;
    pw_fi_list in_order;  /* receives without a tag whose messages are on their way, as matched */
    int64_t *in_order_ns; /* of each node: when the last one from it ended */
} pw_fi_endpoint;

enum pw_fi_kind {
    PW_FI_SEND = 1,
    PW_FI_RECEIVE,
    PW_FI_ARRIVED, /* an unexpected message */
    PW_FI_READ,
    PW_FI_WRITE,
    PW_FI_ATOMIC, /* waits for the owner's answer */
};

/* From a pool; zeroed when taken. */
struct pw_fi_operation {
    pw_fi_operation *next, *previous;
    pw_fi_list *list; /* that it is in, or NULL */
    pw_fi_endpoint *endpoint;
    const pw_fi_sink *sink; /* NULL: nobody is told */
    void *context;
    uint64_t flags; /* of the entry */
    uint64_t tag, ignore, data;
    uint64_t address, capacity_bytes; /* the buffer: of a receive with several parts the bounce */
    uint64_t num_bytes;               /* moved, of the message in the entry */
    uint64_t message_bytes;
    uint64_t remote_address, remote_key; /* of a read or write */
    int64_t posted_ns, complete_ns;
    uint64_t sequence; /* of equal times, the earlier one first */
    uint64_t id;       /* of an atomic */
    uint32_t node;     /* the peer; of a posted receive PW_FI_ANY: any */
    uint16_t peer_endpoint;
    uint8_t kind;        /* enum pw_fi_kind */
    uint8_t wants_entry; /* also when the sink is selective */
    uint8_t is_multi, is_silent, is_over, has_lease, has_data, has_remote_data;
    uint8_t is_uncounted;    /* a look, a write's data: no message received */
    int32_t error;           /* FI_E*, positive */
    uint32_t num_users;      /* of a multi-receive buffer: messages that are not all there */
    uint32_t num_parts;      /* of iov; 0: one buffer */
    pw_fi_operation *parent; /* the multi-receive buffer that it lands in */
    pw_handle *handle;
    pw_lease lease;
    struct iovec iov[PW_FI_IOV_MAX];
    uint8_t *memory;      /* malloc'd: bounce buffer, a long message that came early */
    const uint8_t *frame; /* of a message that came early: in `small` or `memory` */
    uint32_t frame_bytes;
    int64_t arrival_ns;
    uint8_t small[PW_FI_SMALL_BYTES]; /* behind what is zeroed */
};

static inline pw_fi_endpoint *pw_fi_endpoint_of(struct fid_ep *fid)
{
    return (pw_fi_endpoint *)(void *)fid;
}

static inline void pw_fi_append(pw_fi_list *list, pw_fi_operation *operation)
{
    operation->list = list;
    operation->next = NULL;
    operation->previous = list->tail;
    if (list->tail) list->tail->next = operation;
    else list->head = operation;
    list->tail = operation;
}

static inline void pw_fi_unlink(pw_fi_operation *operation)
{
    pw_fi_list *list = operation->list;
    if (!list) return;
    if (operation->previous) operation->previous->next = operation->next;
    else list->head = operation->next;
    if (operation->next) operation->next->previous = operation->previous;
    else list->tail = operation->previous;
    operation->next = operation->previous = NULL;
    operation->list = NULL;
}

#endif
