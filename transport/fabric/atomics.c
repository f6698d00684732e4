#include "transport/fabric/provider.h"

#include <string.h>

#include "native/atomics.h"
#include "native/safe_copy.h"

_Static_assert((int)PW_TYPE_INT8 == (int)FI_INT8 && (int)PW_TYPE_UINT64 == (int)FI_UINT64 &&
                   (int)PW_TYPE_DOUBLE == (int)FI_DOUBLE &&
                   (int)PW_TYPE_LONG_DOUBLE == (int)FI_LONG_DOUBLE &&
                   (int)PW_TYPE_LONG_DOUBLE_COMPLEX == (int)FI_LONG_DOUBLE_COMPLEX &&
                   (int)PW_ATOMIC_MIN == (int)FI_MIN && (int)PW_ATOMIC_LXOR == (int)FI_LXOR &&
                   (int)PW_ATOMIC_WRITE == (int)FI_ATOMIC_WRITE &&
                   (int)PW_ATOMIC_CSWAP == (int)FI_CSWAP && (int)PW_ATOMIC_MSWAP == (int)FI_MSWAP,
               "types and operations have libfabric's numbers");

#define REQUEST_MAX_BYTES (sizeof(pw_fi_atomic_request) + 2 * PW_FI_ATOMIC_MAX_BYTES)

/* What a call asks for; the count of the remote range may be 0: that of the operands. */
typedef struct {
    struct fi_msg_atomic operands;
    struct fi_msg_compare compares; /* none: empty */
    struct fi_msg_fetch results;    /* where the old values go */
    uint64_t flags;
    bool wants_old;
} atomic_call;

/* SIZE_MAX: more than any operation has. */
static size_t num_elements(const struct fi_ioc *parts, size_t num_parts)
{
    size_t count = 0;
    for (size_t i = 0; i < num_parts; i++) {
        if (parts[i].count > PW_FI_ATOMIC_MAX_BYTES) return SIZE_MAX;
        count += parts[i].count;
    }
    return count;
}

static char *gather(char *to, const struct fi_ioc *parts, size_t num_parts, size_t type_bytes)
{
    for (size_t i = 0; i < num_parts; i++) {
        const size_t part_bytes = parts[i].count * type_bytes;
        if (part_bytes && parts[i].addr) memcpy(to, parts[i].addr, part_bytes);
        to += part_bytes;
    }
    return to;
}

/* Of the remote range. */
static size_t num_values(const atomic_call *wanted)
{
    const struct fi_msg_atomic *operands = &wanted->operands;
    return operands->op == FI_ATOMIC_READ && !operands->iov_count
               ? num_elements(wanted->results.msg_iov, wanted->results.iov_count)
               : num_elements(operands->msg_iov, operands->iov_count);
}

static bool is_valid(const atomic_call *wanted)
{
    const struct fi_msg_atomic *operands = &wanted->operands;
    const struct fi_msg_compare *compares = &wanted->compares;
    const struct fi_msg_fetch *results = &wanted->results;
    if (!pw_atomic_is_valid(operands->datatype, operands->op) || operands->rma_iov_count != 1)
        return false;
    const size_t count = num_values(wanted), remote_count = operands->rma_iov[0].count;
    return count > 0 &&
           count <= PW_FI_ATOMIC_MAX_BYTES / pw_atomic_type_bytes(operands->datatype) &&
           operands->iov_count <= PW_FI_IOV_MAX && compares->iov_count <= PW_FI_IOV_MAX &&
           results->iov_count <= PW_FI_IOV_MAX && (!remote_count || remote_count == count) &&
           (compares->iov_count > 0) == pw_atomic_compares(operands->op) &&
           (!compares->iov_count ||
            num_elements(compares->msg_iov, compares->iov_count) == count) &&
           (!wanted->wants_old || num_elements(results->msg_iov, results->iov_count) == count) &&
           (wanted->wants_old || operands->op != FI_ATOMIC_READ);
}

static int post(pw_fi_endpoint *endpoint, const pw_fi_peer *peer, const atomic_call *wanted)
{
    pw_fi_process *process = endpoint->process;
    const struct fi_msg_atomic *operands = &wanted->operands;
    const struct fi_msg_fetch *results = &wanted->results;
    const size_t type_bytes = pw_atomic_type_bytes(operands->datatype);
    const bool is_read = operands->op == FI_ATOMIC_READ;
    const size_t count = num_values(wanted);
    pw_fi_operation *operation = pw_fi_new(endpoint, PW_OPERATION_ATOMIC,
                                           wanted->wants_old ? &endpoint->read : &endpoint->write,
                                           wanted->flags, operands->context);
    if (!operation) return PW_ERR_NOMEM;
    operation->flags = FI_ATOMIC | (wanted->wants_old ? FI_READ : FI_WRITE);
    operation->base.peer = peer->node;
    operation->base.source = peer->endpoint;
    operation->id = ++process->num_atomics;
    operation->base.num_bytes = count * type_bytes;
    operation->num_parts = (uint32_t)results->iov_count;
    for (size_t i = 0; i < results->iov_count; i++)
        operation->iov[i] =
            (struct iovec){results->msg_iov[i].addr, results->msg_iov[i].count * type_bytes};
    const pw_fi_atomic_request head = {.id = operation->id,
                                       .address = operands->rma_iov[0].addr,
                                       .key = operands->rma_iov[0].key,
                                       .count = (uint32_t)count,
                                       .type = (uint16_t)operands->datatype,
                                       .operation = (uint16_t)operands->op,
                                       .wants_old = wanted->wants_old};
    char payload[REQUEST_MAX_BYTES];
    memcpy(payload, &head, sizeof head);
    char *end = payload + sizeof head;
    if (!is_read) end = gather(end, operands->msg_iov, operands->iov_count, type_bytes);
    end = gather(end, wanted->compares.msg_iov, wanted->compares.iov_count, type_bytes);
    operation->base.remote_address = head.address;
    pw_fi_count_bytes(process, is_read ? 0 : count * type_bytes);
    const uint64_t old_bytes = wanted->wants_old ? count * type_bytes : 0;
    const pw_message_header header = {.context = pw_fi_context(peer->endpoint, false),
                                      .source = endpoint->number};
    return pw_messages_ask(&process->messages, &operation->base, (uintptr_t)payload,
                           (uint32_t)(end - payload),
                           (uint32_t)(sizeof(pw_fi_atomic_answer) + old_bytes), &header);
}

/* As libfabric's calls: 0 or a negative FI_E*. */
static ssize_t do_atomic(struct fid_ep *fid, const atomic_call *wanted)
{
    pw_fi_endpoint *endpoint = pw_fi_endpoint_of(fid);
    pw_fi_process *process = endpoint->process;
    if (!endpoint->is_enabled) return -FI_EOPBADSTATE;
    if (!is_valid(wanted)) return -FI_EINVAL;
    pw_fi_enter(process);
    const pw_fi_peer *peer = pw_fi_av_at(endpoint->av, wanted->operands.addr);
    ssize_t result = process->has_failed ? -FI_EIO : -FI_EINVAL;
    if (peer && !process->has_failed) {
        const int code = post(endpoint, peer, wanted);
        if (code < 0)
            pw_fi_process_fail(process, "an atomic operation cannot be sent: %s",
                               pw_node_reason(process->node));
        result = code < 0 ? -pw_fi_error_of(code) : 0;
    }
    pw_fi_leave(process);
    return result;
}

/* ---- libfabric's calls */

static ssize_t compare_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **descriptors,
                              size_t count, const struct fi_ioc *compares,
                              void **compare_descriptors, size_t num_compares,
                              struct fi_ioc *results, void **result_descriptors, size_t num_results,
                              fi_addr_t peer, uint64_t address, uint64_t key, enum fi_datatype type,
                              enum fi_op operation, void *context)
{
    const struct fi_rma_ioc remote = {address, 0, key};
    const atomic_call wanted = {
        {iov, descriptors, count, peer, &remote, 1, type, operation, context, 0},
        {compares, compare_descriptors, num_compares},
        {results, result_descriptors, num_results},
        pw_fi_transmit_flags(fid),
        results != NULL};
    return do_atomic(fid, &wanted);
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **descriptors,
                             size_t count, fi_addr_t peer, uint64_t address, uint64_t key,
                             enum fi_datatype type, enum fi_op operation, void *context)
{
    return compare_writev(fid, iov, descriptors, count, NULL, NULL, 0, NULL, NULL, 0, peer, address,
                          key, type, operation, context);
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buffer, size_t count, void *descriptor,
                            fi_addr_t peer, uint64_t address, uint64_t key, enum fi_datatype type,
                            enum fi_op operation, void *context)
{
    const struct fi_ioc iov = {(void *)(uintptr_t)buffer, count};
    return atomic_writev(fid, &iov, &descriptor, 1, peer, address, key, type, operation, context);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *message,
                               uint64_t flags)
{
    return do_atomic(fid, &(atomic_call){.operands = *message, .flags = flags});
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buffer, size_t count, fi_addr_t peer,
                             uint64_t address, uint64_t key, enum fi_datatype type,
                             enum fi_op operation)
{
    const struct fi_ioc iov = {(void *)(uintptr_t)buffer, count};
    const struct fi_rma_ioc remote = {address, 0, key};
    const struct fi_msg_atomic message = {&iov, NULL, 1,         peer, &remote,
                                          1,    type, operation, NULL, 0};
    return atomic_writemsg(fid, &message, PW_FI_INJECT);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **descriptors,
                                 size_t count, struct fi_ioc *results, void **result_descriptors,
                                 size_t num_results, fi_addr_t peer, uint64_t address, uint64_t key,
                                 enum fi_datatype type, enum fi_op operation, void *context)
{
    return compare_writev(fid, iov, descriptors, count, NULL, NULL, 0, results, result_descriptors,
                          num_results, peer, address, key, type, operation, context);
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buffer, size_t count,
                                void *descriptor, void *result, void *result_descriptor,
                                fi_addr_t peer, uint64_t address, uint64_t key,
                                enum fi_datatype type, enum fi_op operation, void *context)
{
    const struct fi_ioc iov = {(void *)(uintptr_t)buffer, count};
    struct fi_ioc results = {result, count};
    return atomic_readwritev(fid, &iov, &descriptor, 1, &results, &result_descriptor, 1, peer,
                             address, key, type, operation, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *message,
                                   const struct fi_ioc *compares, void **compare_descriptors,
                                   size_t num_compares, struct fi_ioc *results,
                                   void **result_descriptors, size_t num_results, uint64_t flags)
{
    return do_atomic(fid, &(atomic_call){*message,
                                         {compares, compare_descriptors, num_compares},
                                         {results, result_descriptors, num_results},
                                         flags,
                                         true});
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *message,
                                   struct fi_ioc *results, void **result_descriptors,
                                   size_t num_results, uint64_t flags)
{
    return atomic_compwritemsg(fid, message, NULL, NULL, 0, results, result_descriptors,
                               num_results, flags);
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buffer, size_t count,
                                void *descriptor, const void *compare, void *compare_descriptor,
                                void *result, void *result_descriptor, fi_addr_t peer,
                                uint64_t address, uint64_t key, enum fi_datatype type,
                                enum fi_op operation, void *context)
{
    const struct fi_ioc iov = {(void *)(uintptr_t)buffer, count};
    const struct fi_ioc compares = {(void *)(uintptr_t)compare, count};
    struct fi_ioc results = {result, count};
    return compare_writev(fid, &iov, &descriptor, 1, &compares, &compare_descriptor, 1, &results,
                          &result_descriptor, 1, peer, address, key, type, operation, context);
}

/* flags: what the call takes besides operands, FI_FETCH_ATOMIC or FI_COMPARE_ATOMIC. */
static int query(enum fi_datatype type, enum fi_op operation, uint64_t flags, size_t *count)
{
    if (pw_atomic_compares(operation) != ((flags & FI_COMPARE_ATOMIC) != 0) ||
        (operation == FI_ATOMIC_READ && !(flags & FI_FETCH_ATOMIC)) ||
        !pw_atomic_is_valid(type, operation))
        return -FI_EOPNOTSUPP;
    *count = PW_FI_ATOMIC_MAX_BYTES / pw_atomic_type_bytes(type);
    return 0;
}

static int write_valid(struct fid_ep *fid, enum fi_datatype type, enum fi_op operation,
                       size_t *count)
{
    return query(type, operation, 0, count);
}

static int readwrite_valid(struct fid_ep *fid, enum fi_datatype type, enum fi_op operation,
                           size_t *count)
{
    return query(type, operation, FI_FETCH_ATOMIC, count);
}

static int compwrite_valid(struct fid_ep *fid, enum fi_datatype type, enum fi_op operation,
                           size_t *count)
{
    return query(type, operation, FI_COMPARE_ATOMIC, count);
}

int pw_fi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op operation,
                       struct fi_atomic_attr *attr, uint64_t flags)
{
    const int error = query(type, operation, flags, &attr->count);
    if (!error) attr->size = pw_atomic_type_bytes(type);
    return error;
}

struct fi_ops_atomic pw_fi_atomic_ops = {
    .size = sizeof(struct fi_ops_atomic),
    .write = atomic_write,
    .writev = atomic_writev,
    .writemsg = atomic_writemsg,
    .inject = atomic_inject,
    .readwrite = atomic_readwrite,
    .readwritev = atomic_readwritev,
    .readwritemsg = atomic_readwritemsg,
    .compwrite = atomic_compwrite,
    .compwritev = compare_writev,
    .compwritemsg = atomic_compwritemsg,
    .writevalid = write_valid,
    .readwritevalid = readwrite_valid,
    .compwritevalid = compwrite_valid,
};

/* ---- at the owner */

static bool is_sound(const pw_fi_atomic_request *head, uint32_t payload_bytes)
{
    if (!pw_atomic_is_valid((enum fi_datatype)head->type, (enum fi_op)head->operation))
        return false;
    const size_t type_bytes = pw_atomic_type_bytes((enum fi_datatype)head->type);
    const uint64_t value_bytes = (uint64_t)head->count * type_bytes;
    if (head->count == 0 || value_bytes > PW_FI_ATOMIC_MAX_BYTES) return false;
    const uint64_t num_operands = head->operation == FI_ATOMIC_READ                 ? 0
                                  : pw_atomic_compares((enum fi_op)head->operation) ? 2
                                                                                    : 1;
    return payload_bytes == sizeof *head + num_operands * value_bytes;
}

/* FI_E*, and the old values. */
static int execute(pw_fi_process *process, const pw_fi_atomic_request *head, const char *operands,
                   char *old)
{
    const enum fi_op operation = (enum fi_op)head->operation;
    const enum fi_datatype type = (enum fi_datatype)head->type;
    const size_t num_bytes = head->count * pw_atomic_type_bytes(type);
    const uint64_t access = operation == FI_ATOMIC_READ ? FI_REMOTE_READ : FI_REMOTE_WRITE;
    char values[PW_FI_ATOMIC_MAX_BYTES];
    void *place = (void *)(uintptr_t)head->address;
    if (!pw_fi_region_find(process, head->key, head->address, num_bytes, access)) return FI_EACCES;
    if (pw_safe_copy_in(old, place, num_bytes) < 0) return FI_EFAULT;
    pw_messages_served(&process->messages, (pw_span){head->address, num_bytes});
    if (operation == FI_ATOMIC_READ) return 0;
    memcpy(values, old, num_bytes);
    const char *compares = pw_atomic_compares(operation) ? operands + num_bytes : NULL;
    pw_atomic_apply(type, operation, values, operands, compares, head->count);
    return pw_safe_copy_out(place, values, num_bytes) < 0 ? FI_EFAULT : 0;
}

int pw_fi_serve_atomic(pw_fi_process *process, const pw_arrival *arrival)
{
    const pw_envelope *envelope = &arrival->envelope;
    const uint16_t number = pw_fi_endpoint_number(arrival->header.context);
    const uint8_t *frame = arrival->frame;
    const bool is_open = process->endpoints[number] != NULL;
    char payload[REQUEST_MAX_BYTES], reply[sizeof(pw_fi_atomic_answer) + PW_FI_ATOMIC_MAX_BYTES];
    pw_fi_atomic_request head;
    if (envelope->payload_bytes < sizeof head || envelope->payload_bytes > sizeof payload)
        return PW_ERR_MALFORMED;
    memcpy(&head, frame + PW_ENVELOPE_BYTES, sizeof head);
    if (!is_sound(&head, envelope->payload_bytes)) return PW_ERR_MALFORMED;
    const int64_t read_ns = pw_ni_message_land(process->ni, frame, (uintptr_t)payload,
                                               sizeof payload, envelope->arrival_ns);
    const int error = is_open ? execute(process, &head, payload + sizeof head,
                                        reply + sizeof(pw_fi_atomic_answer))
                              : FI_ECONNREFUSED;
    const uint32_t old_bytes =
        error || !head.wants_old
            ? 0
            : head.count * (uint32_t)pw_atomic_type_bytes((enum fi_datatype)head.type);
    const pw_fi_atomic_answer said = {head.id, error, old_bytes};
    memcpy(reply, &said, sizeof said);
    return pw_fi_send_plain(process, number, envelope->source_node, arrival->header.source,
                            PW_MESSAGE_ANSWER, reply, (uint32_t)sizeof said + old_bytes, read_ns,
                            0);
}

int pw_fi_take_answer(pw_fi_process *process, const pw_arrival *arrival)
{
    const pw_envelope *envelope = &arrival->envelope;
    char payload[sizeof(pw_fi_atomic_answer) + PW_FI_ATOMIC_MAX_BYTES];
    pw_fi_atomic_answer said;
    if (envelope->payload_bytes < sizeof said || envelope->payload_bytes > sizeof payload)
        return PW_ERR_MALFORMED;
    memcpy(&said, arrival->frame + PW_ENVELOPE_BYTES, sizeof said);
    pw_fi_operation *operation = pw_fi_operation_of(process->messages.atomics.head);
    while (operation && operation->id != said.id)
        operation = pw_fi_operation_of(operation->base.next);
    if (!operation || operation->base.peer != envelope->source_node || said.error < 0 ||
        said.num_bytes != envelope->payload_bytes - sizeof said)
        return PW_ERR_MALFORMED;
    const bool wants_old = operation->flags & FI_READ;
    if (!said.error && said.num_bytes != (wants_old ? operation->base.num_bytes : 0))
        return PW_ERR_MALFORMED;
    pw_messages_answered(&process->messages, &operation->base, arrival, (uintptr_t)payload,
                         sizeof payload);
    operation->error = said.error;
    if (!said.error)
        pw_fi_scatter(operation->iov, operation->num_parts, payload + sizeof said, said.num_bytes);
    return pw_fi_end(process, operation);
}
