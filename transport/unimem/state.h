/* What a node's Unimem is made of, for its own files: unimem.c composes, arrivals.c takes frames,
 * library.c asks services. */
#ifndef PW_UNIMEM_STATE_H
#define PW_UNIMEM_STATE_H
#include "transport/unimem/sender.h"
#include "transport/unimem/unimem.h"

#define MAILBOX_BASE UINT64_C(0x0040) /* bits 33:18 of every node's mailbox (assumed) */

enum { KIND_PACKET = PW_MESSAGE_OF_SERVICES, KIND_WORDS, KIND_ANSWER, KIND_PAGE, KIND_VALUE };
/* Of an envelope: the FIFO there, and the interface here that the answer is for. */
#define DESTINATION(fifo, interface) ((uint32_t)(fifo) | (uint32_t)(interface) << 8)

typedef struct {
    bool is_open, is_raw, is_waiting;
    uint32_t owner;
    pw_atomic_request request;
    uint8_t *page; /* made when the first one comes */
    pw_time page_ns;
    bool is_lost;    /* somebody may still answer what it asked: never used again */
    bool is_writing; /* a burst to a mailbox, whose answer is not known */
    int write_answer;
    pw_time write_answer_ns;
} pw_unimem_interface;

struct pw_unimem {
    pw_ni *ni;
    const pw_costs *costs;
    uint32_t node, num_nodes;
    pw_unimem_host host;
    pw_mailbox_fifo *fifos[PW_MAILBOX_FIFOS];
    pw_packetizer *packetizer;
    pw_atomic_service service;
    pw_kernel_mailbox *kernel;
    pw_unimem_interface interfaces[PW_PIFS];
    pw_unimem_counters counters;
};

/* Give the NI four words and a payload for a peer at at_ns. */
int pw_unimem_send(pw_unimem *unimem, uint32_t peer, uint8_t kind, uint32_t destination,
                   const uint64_t words[4], const void *payload, uint32_t payload_bytes,
                   pw_time at_ns);
/* Post a packet by the three writes of an interface, the first at now_ns. */
int64_t pw_unimem_send_packet(pw_unimem *unimem, uint32_t interface, uint32_t node, uint32_t fifo,
                              const pw_mailbox_word words[2], pw_time now_ns);
/* Is it an interface that is open, raw or not? */
bool pw_unimem_is_open(const pw_unimem *unimem, uint32_t interface, bool is_raw);
#endif
