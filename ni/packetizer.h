/* Packetizer and mailbox of an NI, register by register [D3.6 5]. */
#ifndef PW_NI_PACKETIZER_H
#define PW_NI_PACKETIZER_H
#include "native/types.h"

/* A FIFO of the virtualised mailbox [D3.6 5.1]: a page with one register of 128 bits at offset 0.
 * Writing a beat enqueues a word, reading a beat takes one out; an empty FIFO is read as
 * PW_MAILBOX_EMPTY twice, a write that finds it full is answered negatively.
 *
 * Words stand in the order of their arrival in virtual time. Full is what the FIFO is at that time:
 * words that are read later count. Not modelled: the bus between switch and FIFO, which takes no
 * time of its own. One thread at a time. */

/* cdef begin */
#define PW_MAILBOX_FIFOS 64
#define PW_MAILBOX_REGISTER 0 /* offset in the page */

typedef struct {
    uint64_t low, high;
} pw_mailbox_word;

/* What happens to a burst of several beats that finds room for some of them. */
#define PW_BURSTS_HARDWARE                                                                      \
    0 /* what fits is kept, the rest is lost, the answer is positive: as the prototype behind a \
         switch */
#define PW_BURSTS_WHOLE 1 /* all of it or nothing: the answer tells which */

typedef struct pw_mailbox_fifo pw_mailbox_fifo;
/* depth_words >= 1. NULL: no memory. */
pw_mailbox_fifo *pw_mailbox_fifo_create(uint32_t depth_words, int64_t bursts);
void pw_mailbox_fifo_destroy(pw_mailbox_fifo *fifo);
/* A burst of num_words >= 1 beats arrives at at_ns: how many were kept. *is_acked: the answer. */
uint32_t pw_mailbox_fifo_write(pw_mailbox_fifo *fifo, const pw_mailbox_word *words,
                               uint32_t num_words, int64_t at_ns, bool *is_acked);
/* A burst of num_words beats read at at_ns: how many were there; the others are the pattern. */
uint32_t pw_mailbox_fifo_read(pw_mailbox_fifo *fifo, pw_mailbox_word *words, uint32_t num_words,
                              int64_t at_ns);
/* When the first word that has not been read arrives, INT64_MAX: there is none. */
int64_t pw_mailbox_fifo_next_ns(const pw_mailbox_fifo *fifo);
/* cdef end */

/* The deliverable spells it in three ways; this one is that of its section 5.1.1. */
#define PW_MAILBOX_EMPTY UINT64_C(0xCAFEFEBEDEADBEAF)

/* cdef begin */
#define PW_PIFS 64
/* Registers of an interface's page. */
#define PW_PIF_PAYLOAD0 0x00 /* valid: bits 127:48 */
#define PW_PIF_PAYLOAD1 0x10
#define PW_PIF_DESTINATION 0x20
#define PW_PIF_STATUS 0x30
/* Bits of the status. */
#define PW_PIF_PEND 1
#define PW_PIF_ILLEGAL 2 /* the destination is outside of BASE_DEST; nothing was sent */
#define PW_PIF_NACK 4    /* this and ACK: cleared by the next packet */
#define PW_PIF_ACK 8
#define PW_PIF_OVERWR_BUF 16
/* Registers of the trusted page. */
#define PW_TIF_IDS 0x000 /* + 8 i: id of interface i, 48 bits */
#define PW_TIF_BASE_DEST 0x200
#define PW_TIF_PID_CONF 0x208 /* one valid bit an interface */
#define PW_TIF_CLR_REQ 0x210  /* one bit an interface; reads as 0 */

/* Destination of a packet: a page of somebody's mailbox. Bits 17:12 are the FIFO, bits 33:18 the
 * mailbox's base, which BASE_DEST checks, the rest is the node: 6 bits of 40 in the prototype, as
 * many as node numbers have here. */
#define PW_DESTINATION_FIFO_SHIFT 12
#define PW_DESTINATION_BASE_SHIFT 18
#define PW_DESTINATION_NODE_SHIFT 34
#define PW_DESTINATION_NODE_MAX 4194303

typedef struct {
    pw_mailbox_word words[2]; /* the id in the first one's bits 47:0 */
    uint32_t node, fifo;
} pw_packet;

typedef struct pw_packetizer pw_packetizer;
/* NULL: no memory. */
pw_packetizer *pw_packetizer_create(void);
void pw_packetizer_destroy(pw_packetizer *packetizer);
/* The user writes 128 bits to his interface's page at at_ns. 1: *out goes to the network; 0: it
 * does not (yet); PW_ERR_INVALID: no register can be written there. */
int pw_packetizer_write(pw_packetizer *packetizer, uint32_t interface, uint32_t offset,
                        pw_mailbox_word value, int64_t at_ns, pw_packet *out);
/* He reads its status as it is at at_ns. */
uint64_t pw_packetizer_status(const pw_packetizer *packetizer, uint32_t interface, int64_t at_ns);
/* The network's answer to the packet comes back at at_ns. */
void pw_packetizer_answered(pw_packetizer *packetizer, uint32_t interface, bool is_acked,
                            int64_t at_ns);
/* When the answer to the last packet was there; only if it is. */
int64_t pw_packetizer_answer_ns(const pw_packetizer *packetizer, uint32_t interface);
/* The driver writes 64 bits to the trusted page. PW_ERR_INVALID: there is no such register. */
int pw_packetizer_write_trusted(pw_packetizer *packetizer, uint32_t offset, uint64_t value);
int pw_packetizer_read_trusted(const pw_packetizer *packetizer, uint32_t offset, uint64_t *out);
/* cdef end */

#define PW_SENDER_ID_MASK ((UINT64_C(1) << 48) - 1)

static inline uint64_t pw_packet_destination(uint32_t node, uint64_t base, uint32_t fifo)
{
    return (uint64_t)node << PW_DESTINATION_NODE_SHIFT | base << PW_DESTINATION_BASE_SHIFT |
           (uint64_t)fifo << PW_DESTINATION_FIFO_SHIFT;
}

#endif
