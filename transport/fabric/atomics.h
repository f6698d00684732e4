/* Atomic operations: a message to the owner of the memory, whose NI does them one after the other,
 * and its answer. They are atomic among themselves. The owner's pages are brought by its kernel as
 * for any access of a CPU: that costs no virtual time here. */
#ifndef PW_FABRIC_ATOMICS_H
#define PW_FABRIC_ATOMICS_H
#include "transport/fabric/messages.h"

/* What a call asks for: parts of operands, of compares (count 0: none), and for the old values. */
typedef struct {
    const struct fi_ioc *operands, *compares;
    struct fi_ioc *results;
    size_t num_operands, num_compares, num_results;
    fi_addr_t peer;
    uint64_t address, key;
    size_t remote_count; /* 0: that of the operands */
    enum fi_datatype type;
    enum fi_op operation;
    void *context;
    uint64_t flags;
    bool wants_old, is_silent;
} pw_fi_atomic_call;

/* As libfabric's calls: 0 or a negative FI_E*. */
ssize_t pw_fi_do_atomic(struct fid_ep *fid, const pw_fi_atomic_call *wanted);

/* A request for memory of this process, and an answer to one of its own; both have been checked but
 * for their payload. A request for an endpoint that is not open is answered with FI_ECONNREFUSED:
 * its sender waits. PW_ERR_MALFORMED: it makes no sense. */
int pw_fi_serve_atomic(pw_fi_process *process, const pw_envelope *envelope,
                       const pw_fi_header *header, const uint8_t *frame);
int pw_fi_take_answer(pw_fi_process *process, const pw_envelope *envelope, const uint8_t *frame);
#endif
