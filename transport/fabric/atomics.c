#include "transport/fabric/atomics.h"
#include <string.h>

#include "native/atomics.h"
#include "native/safe_copy.h"
#include "transport/fabric/atomic_frames.h"
#include "transport/fabric/av.h"
#include "transport/fabric/process.h"
#include "transport/fabric/region.h"

_Static_assert((int)PW_TYPE_INT8 == (int)FI_INT8 && (int)PW_TYPE_UINT64 == (int)FI_UINT64 &&
                   (int)PW_TYPE_DOUBLE == (int)FI_DOUBLE &&
                   (int)PW_TYPE_LONG_DOUBLE == (int)FI_LONG_DOUBLE &&
                   (int)PW_TYPE_LONG_DOUBLE_COMPLEX == (int)FI_LONG_DOUBLE_COMPLEX &&
                   (int)PW_ATOMIC_MIN == (int)FI_MIN && (int)PW_ATOMIC_LXOR == (int)FI_LXOR &&
                   (int)PW_ATOMIC_WRITE == (int)FI_ATOMIC_WRITE &&
                   (int)PW_ATOMIC_CSWAP == (int)FI_CSWAP && (int)PW_ATOMIC_MSWAP == (int)FI_MSWAP,
               "types and operations have libfabric's numbers");

#define REQUEST_MAX_BYTES (sizeof(pw_fi_atomic_request) + 2 * PW_FI_ATOMIC_MAX_BYTES)

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

static bool is_valid(const pw_fi_atomic_call *wanted)
{
    const size_t type_bytes = pw_atomic_type_bytes(wanted->type);
    if (!pw_atomic_is_valid(wanted->type, wanted->operation)) return false;
    const size_t count = wanted->operation == FI_ATOMIC_READ && !wanted->num_operands
                             ? num_elements(wanted->results, wanted->num_results)
                             : num_elements(wanted->operands, wanted->num_operands);
    return count > 0 && count <= PW_FI_ATOMIC_MAX_BYTES / type_bytes &&
           wanted->num_operands <= PW_FI_IOV_MAX && wanted->num_compares <= PW_FI_IOV_MAX &&
           wanted->num_results <= PW_FI_IOV_MAX &&
           (!wanted->remote_count || wanted->remote_count == count) &&
           (wanted->num_compares > 0) == pw_atomic_compares(wanted->operation) &&
           (!wanted->num_compares ||
            num_elements(wanted->compares, wanted->num_compares) == count) &&
           (!wanted->wants_old || num_elements(wanted->results, wanted->num_results) == count) &&
           (wanted->wants_old || wanted->operation != FI_ATOMIC_READ);
}

static int post(pw_fi_endpoint *endpoint, const pw_fi_peer *peer, const pw_fi_atomic_call *wanted)
{
    pw_fi_process *process = endpoint->process;
    const size_t type_bytes = pw_atomic_type_bytes(wanted->type);
    const bool is_read = wanted->operation == FI_ATOMIC_READ;
    const size_t count = is_read ? num_elements(wanted->results, wanted->num_results)
                                 : num_elements(wanted->operands, wanted->num_operands);
    const pw_fi_sink *sink = wanted->wants_old ? &endpoint->read : &endpoint->write;
    pw_fi_operation *operation = pw_fi_take(process);
    if (!operation) return PW_ERR_NOMEM;
    operation->kind = PW_FI_ATOMIC;
    operation->endpoint = endpoint;
    operation->sink = sink;
    operation->is_silent = wanted->is_silent;
    operation->wants_entry = pw_fi_wants_entry(sink, wanted->flags);
    operation->context = wanted->context;
    operation->flags = FI_ATOMIC | (wanted->wants_old ? FI_READ : FI_WRITE);
    operation->node = peer->node;
    operation->peer_endpoint = peer->endpoint;
    operation->id = ++process->num_atomics;
    operation->num_bytes = count * type_bytes;
    operation->num_parts = (uint32_t)wanted->num_results;
    for (size_t i = 0; i < wanted->num_results; i++)
        operation->iov[i] =
            (struct iovec){wanted->results[i].addr, wanted->results[i].count * type_bytes};
    const pw_fi_atomic_request head = {.id = operation->id,
                                       .address = wanted->address,
                                       .key = wanted->key,
                                       .count = (uint32_t)count,
                                       .type = (uint16_t)wanted->type,
                                       .operation = (uint16_t)wanted->operation,
                                       .wants_old = wanted->wants_old};
    char payload[REQUEST_MAX_BYTES];
    memcpy(payload, &head, sizeof head);
    char *end = payload + sizeof head;
    if (!is_read) end = gather(end, wanted->operands, wanted->num_operands, type_bytes);
    end = gather(end, wanted->compares, wanted->num_compares, type_bytes);
    pw_fi_append(&process->atomics, operation);
    pw_fi_count_bytes(process, is_read ? 0 : count * type_bytes);
    return pw_fi_send_plain(process, endpoint->number, peer->node, peer->endpoint,
                            PW_FI_MESSAGE_ATOMIC, payload, (uint32_t)(end - payload),
                            process->clock->now_ns, 0);
}

ssize_t pw_fi_do_atomic(struct fid_ep *fid, const pw_fi_atomic_call *wanted)
{
    pw_fi_endpoint *endpoint = pw_fi_endpoint_of(fid);
    pw_fi_process *process = endpoint->process;
    if (!endpoint->is_enabled) return -FI_EOPBADSTATE;
    if (!is_valid(wanted)) return -FI_EINVAL;
    pw_fi_enter(process);
    const pw_fi_peer *peer = pw_fi_av_at(endpoint->av, wanted->peer);
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
static int execute(const pw_fi_process *process, const pw_fi_atomic_request *head,
                   const char *operands, char *old)
{
    const enum fi_op operation = (enum fi_op)head->operation;
    const enum fi_datatype type = (enum fi_datatype)head->type;
    const size_t num_bytes = head->count * pw_atomic_type_bytes(type);
    const uint64_t access = operation == FI_ATOMIC_READ ? FI_REMOTE_READ : FI_REMOTE_WRITE;
    char values[PW_FI_ATOMIC_MAX_BYTES];
    void *place = (void *)(uintptr_t)head->address;
    if (!pw_fi_region_find(process, head->key, head->address, num_bytes, access)) return FI_EACCES;
    if (pw_safe_copy_in(old, place, num_bytes) < 0) return FI_EFAULT;
    if (operation == FI_ATOMIC_READ) return 0;
    memcpy(values, old, num_bytes);
    const char *compares = pw_atomic_compares(operation) ? operands + num_bytes : NULL;
    pw_atomic_apply(type, operation, values, operands, compares, head->count);
    return pw_safe_copy_out(place, values, num_bytes) < 0 ? FI_EFAULT : 0;
}

int pw_fi_serve_atomic(pw_fi_process *process, const pw_envelope *envelope,
                       const pw_fi_header *header, const uint8_t *frame)
{
    const bool is_open = process->endpoints[header->destination_endpoint] != NULL;
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
    return pw_fi_send_plain(process, header->destination_endpoint, envelope->source_node,
                            header->source_endpoint, PW_FI_MESSAGE_ANSWER, reply,
                            (uint32_t)sizeof said + old_bytes, read_ns, 0);
}

int pw_fi_take_answer(pw_fi_process *process, const pw_envelope *envelope, const uint8_t *frame)
{
    char payload[sizeof(pw_fi_atomic_answer) + PW_FI_ATOMIC_MAX_BYTES];
    pw_fi_atomic_answer said;
    if (envelope->payload_bytes < sizeof said || envelope->payload_bytes > sizeof payload)
        return PW_ERR_MALFORMED;
    memcpy(&said, frame + PW_ENVELOPE_BYTES, sizeof said);
    pw_fi_operation *operation = process->atomics.head;
    while (operation && operation->id != said.id) operation = operation->next;
    if (!operation || operation->node != envelope->source_node || said.error < 0 ||
        said.num_bytes != envelope->payload_bytes - sizeof said)
        return PW_ERR_MALFORMED;
    const bool wants_old = operation->flags & FI_READ;
    if (!said.error && said.num_bytes != (wants_old ? operation->num_bytes : 0))
        return PW_ERR_MALFORMED;
    operation->complete_ns = pw_ni_message_land(process->ni, frame, (uintptr_t)payload,
                                                sizeof payload, envelope->arrival_ns);
    pw_fi_unlink(operation);
    operation->error = said.error;
    if (!said.error)
        pw_fi_scatter(operation->iov, operation->num_parts, payload + sizeof said, said.num_bytes);
    return pw_fi_end(process, operation);
}
