/* User-initiated DMA of one node [D3.6 3.1, 3.4]: buffers here and at other nodes, transfers
 * between them and memory, and a submitter that starts these in the order of their requests. It
 * carries them by the RDMA engine. docs/unimem.md; what programs call is in include/unimem.h.
 *
 * Each node's kernel serves what others ask of it (allocate, free, look up a buffer) when it is in
 * a turn, whether its own program has opened the library or not. The submitter moves in
 * pw_dma_move, at the end of each turn too. Called with the node locked, like the node. */
#ifndef PW_UNIMEM_DMA_H
#define PW_UNIMEM_DMA_H
#include "include/unimem.h"
#include "node/node.h"

/* Of every node with Unimem. The reason of a failure is the node's. */
int pw_dma_create(pagewire_node *door, unim_dma **out);
/* Before its node. */
void pw_dma_destroy(unim_dma *dma);
/* Start what is due, and note what has ended. 1: something happened, 0: nothing; or a code. */
int pw_dma_move(unim_dma *dma);
/* A message between kernels: kinds from PW_MESSAGE_OF_DMA on. */
#define PW_MESSAGE_OF_DMA 224
int pw_dma_receive(unim_dma *dma, uint32_t source, const uint8_t *frame, uint32_t frame_bytes);
#endif
