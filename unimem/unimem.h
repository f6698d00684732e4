/* Unimem on one node: mailbox, packetizer, atomic service and kernel mailbox, composed. Sans I/O:
 * the host carries its frames and gives it time. docs/unimem.md.
 *
 * How a request travels: three register writes of the thread's core fill its packetizer interface;
 * the packet takes the NI's path like any other; it arrives in FIFO 0 of the owner, whose NI
 * answers the packetizer (ACK, NACK); the atomic service reads it, serves it, and writes the
 * response to the FIFO of the issuer with one register write; the issuer reads it there.
 *
 * An interface belongs either to the library, and its FIFO takes words of atomic services alone, or
 * to a user who sends packets and words himself. FIFO 0 takes packets alone, whose id no user
 * writes. A packet whose id is none of the node that it comes from is dropped and counted.
 *
 * Not modelled: who shares the links (packets slip in between others, as MPI's short control
 * messages do). One thread at a time. */
#ifndef PW_UNIMEM_UNIMEM_H
#define PW_UNIMEM_UNIMEM_H
#include "ni/ni.h"
#include "ni/packetizer.h"
#include "node/node.h"
#include "unimem/atomic_service.h"
#include "unimem/kernel_mailbox.h"

/* cdef begin */
typedef struct pw_unimem pw_unimem;

#define PW_UNIMEM_FRAME_MAX_BYTES 4160 /* an envelope, and a page behind it */
#define PW_UNIMEM_SERVICE 0            /* interface and FIFO of the atomic service */

typedef struct {
    void *context;
    /* Send frame_bytes at frame, which is the caller's again after the call, to another node or to
     * this one: pw_unimem_receive there. A negative code ends the call with it. */
    int (*send)(void *context, uint32_t peer, const uint8_t *frame, uint32_t frame_bytes);
    void *spawn_context;
    /* As pw_atomic_service.spawn. */
    uint64_t (*spawn)(void *context, const unimem_fork_request *wanted);
} pw_unimem_host;

/* A thread's operation that is over. */
typedef struct {
    int64_t complete_ns;
    uint64_t error, result; /* error: PW_UNIMEM_* of the response */
} pw_unimem_answer;

typedef struct {
    uint64_t requests, refused;   /* served; answered with an error */
    uint64_t wakeups;             /* of the service, by requests that found it asleep */
    uint64_t dropped;             /* forged, or not to be answered */
    uint64_t torn;                /* half a request: its other word was lost */
    uint64_t packets, nacks;      /* sent by the packetizer; of them refused */
    uint64_t resent;              /* by the library, after a NACK */
    uint64_t words, words_lost;   /* enqueued here; lost by bursts with a positive answer */
    uint64_t values, values_lost; /* of the kernel mailbox, sent; dropped here: not registered */
} pw_unimem_counters;

/* What ni, costs and settings point to must outlive it. PW_ERR_INVALID: more than 65536 nodes. */
int pw_unimem_create(pw_ni *ni, const pw_costs *costs, const pw_settings *settings, uint32_t node,
                     uint32_t num_nodes, const pw_unimem_host *host, pw_unimem **out);
void pw_unimem_destroy(pw_unimem *unimem);
/* A frame of a peer is here. PW_ERR_MALFORMED: it was dropped. */
int pw_unimem_receive(pw_unimem *unimem, uint32_t source, const uint8_t *frame,
                      uint32_t frame_bytes);
/* The same as pw_unimem_host.send of nodes in one process: context is an array of all of them, by
 * number. NULL: a node that is dead, which takes and answers nothing. A frame is handed over at
 * once; its virtual times stand in it. */
int pw_unimem_hand_over(void *context, uint32_t peer, const uint8_t *frame, uint32_t frame_bytes);
/* When the first of their services reads its next request, and of which node; INT64_MAX: none does.
 * Who serves it then, and lets no thread run whose clock is later, has the order of virtual time.
 */
int64_t pw_unimem_first_ns(pw_unimem *const *nodes, uint32_t num_nodes, uint32_t *node);
/* When the atomic service reads its next request; INT64_MAX: it has none. */
int64_t pw_unimem_next_ns(const pw_unimem *unimem);
/* It reads its next request, if there is one. 1: it did, 0: there is none; or a code. */
int pw_unimem_serve(pw_unimem *unimem);

/* A thread gets an interface: FIFO and packetizer with a valid id; PW_ERR_FULL: all 63 are taken.
 * is_raw: the user's own, else the library's. */
int pw_unimem_open(pw_unimem *unimem, bool is_raw);
/* One whose request is unanswered is never used again, since the answer may come. */
int pw_unimem_close(pw_unimem *unimem, uint32_t interface);
uint64_t pw_unimem_id(const pw_unimem *unimem, uint32_t interface);

/* The library: a thread, at now_ns, asks the owner's service for an operation; one at a time. When
 * its core has posted it; negative: PW_ERR_*. */
int64_t pw_unimem_post(pw_unimem *unimem, uint32_t interface, uint32_t owner, uint8_t opcode,
                       uint64_t address, uint64_t argument1, uint64_t argument2, int64_t now_ns);
/* 1 and *out: the response is here. 2: the request met a full FIFO; the thread knows it at
 * out->complete_ns and posts it again. 0: neither. */
int pw_unimem_test(pw_unimem *unimem, uint32_t interface, pw_unimem_answer *out);
int64_t pw_unimem_post_again(pw_unimem *unimem, uint32_t interface, int64_t now_ns);
/* What the last read of 4 KB has brought, of the interface. */
const uint8_t *pw_unimem_page(const pw_unimem *unimem, uint32_t interface);

/* Is it an interface that is open, raw or not? */
bool pw_unimem_is_open(const pw_unimem *unimem, uint32_t interface, bool is_raw);
/* What goes to the packetizer's register of the destination for a FIFO of a node. */
uint64_t pw_unimem_destination(uint32_t node, uint32_t fifo);
/* Raw interfaces. A write to the packetizer's page: when the core has posted it, or a code. */
int64_t pw_unimem_write_packetizer(pw_unimem *unimem, uint32_t interface, uint32_t offset,
                                   const pw_mailbox_word *value, int64_t now_ns);
uint64_t pw_unimem_status(const pw_unimem *unimem, uint32_t interface, int64_t now_ns);
/* Write a burst of words to a FIFO of a node: when the core has posted it, or a code. FIFO 0 is not
 * mapped for users (assumed): refused there. */
int64_t pw_unimem_write_mailbox(pw_unimem *unimem, uint32_t interface, uint32_t node, uint32_t fifo,
                                const pw_mailbox_word *words, uint32_t num_words, int64_t now_ns);
/* Its answer. 1: positive, 0: negative, PW_ERR_FULL: not here at now_ns. */
int pw_unimem_write_answer(const pw_unimem *unimem, uint32_t interface, int64_t now_ns);
/* Read a burst of the interface's own FIFO: how many words were there; the others are the pattern.
 */
uint32_t pw_unimem_read_mailbox(pw_unimem *unimem, uint32_t interface, pw_mailbox_word *words,
                                uint32_t num_words, int64_t now_ns);

/* A 64-bit message of the kernel mailbox: when it is posted, or a code. */
int64_t pw_unimem_send_value(pw_unimem *unimem, uint32_t node, uint64_t value, int64_t now_ns);
/* What processes have written to their devices goes out. */
int pw_unimem_send_written(pw_unimem *unimem, int64_t now_ns);
pw_kernel_mailbox *pw_unimem_kernel_mailbox(pw_unimem *unimem);

/* Shared memory of this node, for who wants to look at many bytes: NULL: not a page of an
 * allocation here that the thread may read; *num_bytes: up to the allocation's end. Good as long as
 * the node. */
const uint8_t *pw_unimem_view(const pw_unimem *unimem, uint64_t id, uint64_t address,
                              uint64_t *num_bytes);
void pw_unimem_read_counters(const pw_unimem *unimem, pw_unimem_counters *out);
/* cdef end */
#endif
