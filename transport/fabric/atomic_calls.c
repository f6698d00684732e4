#include "transport/fabric/atomic_calls.h"

#include "native/atomics.h"
#include "transport/fabric/atomics.h"
#include "transport/fabric/process.h"

static uint64_t flags_of(struct fid_ep *fid) { return pw_fi_endpoint_of(fid)->transmit_flags; }

static pw_fi_atomic_call from_message(const struct fi_msg_atomic *message, uint64_t flags)
{
    return (pw_fi_atomic_call){
        .operands = message->msg_iov,
        .num_operands = message->iov_count,
        .peer = message->addr,
        .address = message->rma_iov_count ? message->rma_iov[0].addr : 0,
        .key = message->rma_iov_count ? message->rma_iov[0].key : 0,
        .remote_count = message->rma_iov_count ? message->rma_iov[0].count : 0,
        .type = message->datatype,
        .operation = message->op,
        .context = message->context,
        .flags = flags,
    };
}

static ssize_t compare_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **descriptors,
                              size_t count, const struct fi_ioc *compares,
                              void **compare_descriptors, size_t num_compares,
                              struct fi_ioc *results, void **result_descriptors, size_t num_results,
                              fi_addr_t peer, uint64_t address, uint64_t key, enum fi_datatype type,
                              enum fi_op operation, void *context)
{
    (void)descriptors, (void)compare_descriptors, (void)result_descriptors;
    return pw_fi_do_atomic(fid, &(pw_fi_atomic_call){.operands = iov,
                                                     .num_operands = count,
                                                     .compares = compares,
                                                     .num_compares = num_compares,
                                                     .results = results,
                                                     .num_results = num_results,
                                                     .peer = peer,
                                                     .address = address,
                                                     .key = key,
                                                     .type = type,
                                                     .operation = operation,
                                                     .context = context,
                                                     .flags = flags_of(fid),
                                                     .wants_old = results != NULL});
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
    const pw_fi_atomic_call wanted = from_message(message, flags);
    return message->rma_iov_count == 1 ? pw_fi_do_atomic(fid, &wanted) : -FI_EINVAL;
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buffer, size_t count, fi_addr_t peer,
                             uint64_t address, uint64_t key, enum fi_datatype type,
                             enum fi_op operation)
{
    const struct fi_ioc iov = {(void *)(uintptr_t)buffer, count};
    return pw_fi_do_atomic(fid, &(pw_fi_atomic_call){.operands = &iov,
                                                     .num_operands = 1,
                                                     .peer = peer,
                                                     .address = address,
                                                     .key = key,
                                                     .type = type,
                                                     .operation = operation,
                                                     .is_silent = true});
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

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *message,
                                   struct fi_ioc *results, void **result_descriptors,
                                   size_t num_results, uint64_t flags)
{
    (void)result_descriptors;
    pw_fi_atomic_call wanted = from_message(message, flags);
    wanted.results = results;
    wanted.num_results = num_results;
    wanted.wants_old = true;
    return message->rma_iov_count == 1 ? pw_fi_do_atomic(fid, &wanted) : -FI_EINVAL;
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

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *message,
                                   const struct fi_ioc *compares, void **compare_descriptors,
                                   size_t num_compares, struct fi_ioc *results,
                                   void **result_descriptors, size_t num_results, uint64_t flags)
{
    (void)compare_descriptors, (void)result_descriptors;
    pw_fi_atomic_call wanted = from_message(message, flags);
    wanted.compares = compares;
    wanted.num_compares = num_compares;
    wanted.results = results;
    wanted.num_results = num_results;
    wanted.wants_old = true;
    return message->rma_iov_count == 1 ? pw_fi_do_atomic(fid, &wanted) : -FI_EINVAL;
}

enum form { PLAIN, FETCHING, COMPARING };

static int query(enum fi_datatype type, enum fi_op operation, size_t *count, enum form form)
{
    const bool fits = form == COMPARING ? pw_atomic_compares(operation)
                      : form == PLAIN
                          ? operation != FI_ATOMIC_READ && !pw_atomic_compares(operation)
                          : !pw_atomic_compares(operation);
    if (!fits || !pw_atomic_is_valid(type, operation)) return -FI_EOPNOTSUPP;
    *count = PW_FI_ATOMIC_MAX_BYTES / pw_atomic_type_bytes(type);
    return 0;
}

static int write_valid(struct fid_ep *fid, enum fi_datatype type, enum fi_op operation,
                       size_t *count)
{
    (void)fid;
    return query(type, operation, count, PLAIN);
}

static int readwrite_valid(struct fid_ep *fid, enum fi_datatype type, enum fi_op operation,
                           size_t *count)
{
    (void)fid;
    return query(type, operation, count, FETCHING);
}

static int compwrite_valid(struct fid_ep *fid, enum fi_datatype type, enum fi_op operation,
                           size_t *count)
{
    (void)fid;
    return query(type, operation, count, COMPARING);
}

int pw_fi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op operation,
                       struct fi_atomic_attr *attr, uint64_t flags)
{
    (void)domain;
    const enum form form = flags & FI_COMPARE_ATOMIC ? COMPARING
                           : flags & FI_FETCH_ATOMIC ? FETCHING
                                                     : PLAIN;
    size_t count;
    const int error = query(type, operation, &count, form);
    if (error) return error;
    attr->count = count;
    attr->size = pw_atomic_type_bytes(type);
    return 0;
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
