/* Atomic operations: a message to the owner of the memory, whose NI does them one after the other,
 * and its answer. They are atomic among themselves. The owner's pages are brought by its kernel as
 * for any access of a CPU: that costs no virtual time here. */
#ifndef PW_FABRIC_ATOMICS_H
#define PW_FABRIC_ATOMICS_H
#include "transport/fabric/messages.h"

extern struct fi_ops_atomic pw_fi_atomic_ops;

int pw_fi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op operation,
                       struct fi_atomic_attr *attr, uint64_t flags);

/* A request for memory of this process, and an answer to one of its own; both have been checked but
 * for their payload. PW_ERR_MALFORMED: it makes no sense. */
int pw_fi_serve_atomic(pw_fi_endpoint *endpoint, const pw_envelope *envelope,
                       const pw_fi_header *header, const uint8_t *frame);
int pw_fi_take_answer(pw_fi_process *process, const pw_envelope *envelope, const uint8_t *frame);
#endif
