/* User-initiated DMA of one node [D3.6 3.1, 3.4]: buffers here and at other nodes, transfers
 * between them and memory, and a submitter that starts these in the order of their requests. It
 * carries them by the RDMA engine. docs/unimem.md.
 *
 * Each node's kernel serves what others ask of it (allocate, free, look up a buffer) when it is in
 * a turn, whether its own program has opened the library or not. The submitter moves in
 * pw_dma_move, at the end of each turn too. Called with the node locked, like the node. */
#ifndef PW_UNIMEM_DMA_H
#define PW_UNIMEM_DMA_H
#include "node/node.h"

typedef struct pw_dma pw_dma;

#define PW_DMA_PENDING 0
#define PW_DMA_STARTED 1
#define PW_DMA_COMPLETED 2
#define PW_DMA_FAILED 3

#define PW_DMA_TRANSFERS 4096 /* whose states are known: those not over, and the newest */
#define PW_DMA_BUFFER_MAX_BYTES 4294967295 /* of a descriptor's size field */

/* A buffer as any node knows it. */
typedef struct {
    uint64_t id; /* the owner in the upper 16 bits; never given again */
    uint64_t address, num_bytes;
    uint64_t key; /* what reads of it need */
    uint32_t node;
    uint32_t reserved;
} pw_dma_buffer;

/* One end of a transfer: a buffer and an offset in it, or memory of the program's (buffer 0). */
typedef struct {
    uint64_t buffer, offset;
    void *memory;
} pw_dma_end;

/* The library of this node's program. PW_ERR_FULL: it is open. */
int pw_dma_open(pw_dma *dma);
/* Buffers of this node go, whoever has allocated them. PW_ERR_FULL: transfers are not over. */
int pw_dma_close(pw_dma *dma);

/* What an owner's kernel does, asked from the CPU's clock on: allocate a zeroed buffer, as its
 * memory strategy has it; free one; look one up that another node has allocated. Number of the
 * request, 0 when it needs none (the buffer is known, or this node's own: *id), or a code. */
int pw_dma_ask_allocate(pw_dma *dma, uint32_t node, uint64_t num_bytes, uint64_t *id);
int pw_dma_ask_free(pw_dma *dma, uint64_t id);
int pw_dma_ask_known(pw_dma *dma, uint64_t id);
/* 1: it is answered, and the CPU's clock is there: *id of the buffer; 0: it is not; or a code. */
int pw_dma_answered(pw_dma *dma, int request, uint64_t *id);
/* Nobody waits for it any more: a buffer that it brings is lost until its node closes. */
void pw_dma_forget(pw_dma *dma, int request);
/* A buffer that this node's program knows; NULL: none. Good until the next buffer. */
const pw_dma_buffer *pw_dma_find(const pw_dma *dma, uint64_t id);

/* Submit num_bytes from one end to the other; one of the two at least is a buffer. Copied at once
 * when the source is memory. *id, from 1 on; tells: pw_dma_take_ended gives it. */
int pw_dma_submit(pw_dma *dma, const pw_dma_end *source, const pw_dma_end *destination,
                  uint64_t num_bytes, bool tells, uint64_t *id);
/* Start what is due, and note what has ended. 1: something happened, 0: nothing; or a code. */
int pw_dma_move(pw_dma *dma);
/* PW_DMA_* at the CPU's clock, or PW_ERR_INVALID. */
int pw_dma_state(pw_dma *dma, uint64_t id);
/* When it was, or will be, over: INT64_MAX when that is not known. */
int64_t pw_dma_complete_ns(const pw_dma *dma, uint64_t id);
/* PW_OK, or why it failed; PW_ERR_INVALID: no such transfer. */
int pw_dma_error(pw_dma *dma, uint64_t id);
/* The host waits for it no longer: it has failed, although its bytes may still arrive. */
void pw_dma_give_up(pw_dma *dma, uint64_t id);
/* The first transfer that is over at the CPU's clock, that tells, and was not taken yet; 0: none.
 */
uint64_t pw_dma_take_ended(pw_dma *dma);

/* Of every node with Unimem. The reason of a failure is the node's. */
int pw_dma_create(pw_node *node, pw_dma **out);
/* Before its node. */
void pw_dma_destroy(pw_dma *dma);
/* A message between kernels: kinds from PW_MESSAGE_OF_DMA on. */
#define PW_MESSAGE_OF_DMA 224
int pw_dma_receive(pw_dma *dma, uint32_t source, const uint8_t *frame, uint32_t frame_bytes);
#endif
