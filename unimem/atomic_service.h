/* The atomic service of a node [D3.6 2]: decodes a request, checks opcode, address and rights,
 * executes it, says what to answer and when.
 *
 * It runs on a core of its own, the calendar `core`, one request after the other; each costs what
 * the platform says of its parts. It polls its mailbox; when that has been empty for
 * costs.atomic_poll it sleeps, and the next request wakes it up [2.2.4]. Values are exchanged in
 * the order in which requests are served; the time at which one takes effect is never before that
 * of an earlier one on the same page, nor, where pages come and go, before the last that came or
 * went. So histories in virtual time are linearizable also where processes of a host make requests
 * known in another order than the one of their virtual times. One thread at a time. */
#ifndef PW_UNIMEM_ATOMIC_SERVICE_H
#define PW_UNIMEM_ATOMIC_SERVICE_H
#include "include/unimem.h"
#include "native/calendar.h"
#include "native/costs.h"
#include "ni/packetizer.h"
#include "unimem/software_mmu.h"

/* cdef begin */
/* Operations; the deliverable gives no numbers (assumed: in its order). */
#define PW_UNIMEM_ALLOC 1 /* argument 1: pages, 1 to 65535; argument 2: UNIMEM_DENY_* */
#define PW_UNIMEM_FREE 2
#define PW_UNIMEM_FORK 3 /* argument 1: page with the description */
#define PW_UNIMEM_READ8 4
#define PW_UNIMEM_READ32 5
#define PW_UNIMEM_READ64 6
#define PW_UNIMEM_READ4K 7
#define PW_UNIMEM_WRITE8 8
#define PW_UNIMEM_WRITE32 9
#define PW_UNIMEM_WRITE64 10
#define PW_UNIMEM_WRITE128 11
#define PW_UNIMEM_CAS 12 /* arguments: expected, wanted; result: 1 or 0 */
#define PW_UNIMEM_FAD 13 /* fetch and add; result: the old value */
#define PW_UNIMEM_SWAP 14
#define PW_UNIMEM_OPCODES 15

/* Errors of a response. */
#define PW_UNIMEM_BAD_OPCODE 1
#define PW_UNIMEM_NO_PAGE 2
#define PW_UNIMEM_DENIED 3
#define PW_UNIMEM_NO_MEMORY 4
#define PW_UNIMEM_BAD_ARGUMENT 5
#define PW_UNIMEM_NO_FORK 6
#define PW_UNIMEM_NO_FILE 7
#define PW_UNIMEM_NOT_EXECUTABLE 8
#define PW_UNIMEM_ERRORS 9

#define PW_UNIMEM_NODE_SHIFT 48 /* of a global address */
#define PW_UNIMEM_NODES_MAX 65536
/* Where a fork's description stands in its page: the argument, then the name with its final 0. */
#define PW_FORK_NAME_OFFSET 8

/* Address bits that an operation ignores. */
uint64_t pw_atomic_ignored_bits(uint8_t opcode);

/* cdef end */

typedef struct {
    uint64_t sender, address, argument[2];
    uint8_t opcode;
} pw_atomic_request;

typedef struct {
    uint64_t error, result;
    pw_time at_ns;       /* it has taken effect, and the answer can be sent */
    const uint8_t *page; /* of a read of 4 KB: goes before the answer; else NULL */
} pw_atomic_answer;

typedef struct {
    const pw_costs *costs;
    uint32_t node;
    pw_software_mmu mmu;
    pw_calendar core;
    uint64_t num_wakeups; /* by requests that found it asleep */
    void *context;
    /* Id of the child; 0 or UNIMEM_FORK_*: it cannot be started. NULL: no fork here. */
    uint64_t (*spawn)(void *context, const unimem_fork_request *wanted);
} pw_atomic_service;

/* As they stand in two mailbox words. */
pw_atomic_request pw_atomic_request_of(const pw_mailbox_word words[2]);
void pw_atomic_request_to(const pw_atomic_request *request, pw_mailbox_word words[2]);
/* When the service can read a request that arrives at arrival_ns, awake. */
pw_time pw_atomic_service_reads_ns(const pw_atomic_service *service, pw_time arrival_ns);
/* Serve a request that it has begun to read at at_ns. */
void pw_atomic_service_execute(pw_atomic_service *service, const pw_atomic_request *request,
                               pw_time at_ns, pw_atomic_answer *out);
#endif
