/* A FIFO of the virtualised mailbox [D3.6 5.1]: a page with one register of 128 bits at offset 0.
 * Writing a beat enqueues a word, reading a beat takes one out; an empty FIFO is read as
 * PW_MAILBOX_EMPTY twice, a write that finds it full is answered negatively.
 *
 * Words stand in the order of their arrival in virtual time. Full is what the FIFO is at that time:
 * words that are read later count. Not modelled: the bus between switch and FIFO, which takes no
 * time of its own. One thread at a time. */
#ifndef PW_NI_MAILBOX_FIFO_H
#define PW_NI_MAILBOX_FIFO_H
#include "native/types.h"

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
/* The first word without reading it, as it will be read at its arrival. */
pw_mailbox_word pw_mailbox_fifo_peek(const pw_mailbox_fifo *fifo);
uint32_t pw_mailbox_fifo_num_words(const pw_mailbox_fifo *fifo);
/* cdef end */

/* The deliverable spells it in three ways; this one is that of its section 5.1.1. */
#define PW_MAILBOX_EMPTY UINT64_C(0xCAFEFEBEDEADBEAF)
#endif
