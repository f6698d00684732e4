/* The calls of libfabric that ask for atomic operations. */
#ifndef PW_FABRIC_ATOMIC_CALLS_H
#define PW_FABRIC_ATOMIC_CALLS_H
#include "transport/fabric/objects.h"

extern struct fi_ops_atomic pw_fi_atomic_ops;

int pw_fi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op operation,
                       struct fi_atomic_attr *attr, uint64_t flags);
#endif
