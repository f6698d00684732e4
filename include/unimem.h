/* Unimem, services above a node, for C: memory that the nodes of a run share, with atomic
 * operations, 64-bit messages between them, and user-initiated DMA. The nodes are those of
 * pagewire.h; docs/unimem.md tells what is behind it.
 *
 * An address has 64 bits: the node that owns the page in the upper 16, 48 of its own below; 0 is
 * none. An operation is a request to the owner's atomic service and its response; the caller waits,
 * and the node's clock goes on to the response. The lower bits of an address that is not aligned
 * are lost, as on the machine: 12 for pages, 3 for words and for writes of 32 bits, 2 for reads of
 * 32 and writes of 8 bits.
 *
 * Results: 0 or more, or a negative PAGEWIRE_ERR_*; pagewire_reason of the node says why:
 * PAGEWIRE_ERR_ADDRESS no such page, _PROTECTION its rights forbid it, _FULL no memory left at the
 * owner, _INVALID an argument, _UNRECOVERABLE no answer in the wall time allowed. What a function
 * hands out it writes on success alone. Threads: as pagewire.h. */
#ifndef UNIMEM_H
#define UNIMEM_H

#include "pagewire.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct unimem unimem;

/* What a remote fork asks the node for. */
typedef struct {
    const char *name; /* gone after the call */
    uint64_t argument;
    uint64_t parent; /* unique id of the thread that asks */
    int64_t time_ns; /* virtual: from which the child can run */
} unimem_fork_request;

/* Instead of a child's id. */
#define UNIMEM_FORK_NO_FILE (UINT64_C(1) << 63 | 7)
#define UNIMEM_FORK_NOT_EXECUTABLE (UINT64_C(1) << 63 | 8)

typedef struct {
    size_t struct_size;
    /* Start what is named: the child's id, 0: it cannot be, or UNIMEM_FORK_*: why not. NULL: the
     * name is that of an executable file, which the library starts: see unimem_forked. */
    uint64_t (*spawn)(void *context, const unimem_fork_request *wanted);
    void *context;
    int64_t wall_limit_ns; /* for each answer; 0: none */
} unimem_options;

/* On every node of a run, before its first transfer. options: NULL for none. The node's CPU is one
 * thread, with one of the 63 interfaces. PAGEWIRE_ERR_FULL: the node has one. */
int unimem_create(pagewire_node *node, const unimem_options *options, unimem **out);
/* Before its node. What it shares is gone; programs of remote forks that run here are killed. */
void unimem_destroy(unimem *memory);
uint32_t unimem_num_nodes(const unimem *memory); /* getNumberBoards */
uint32_t unimem_node(const unimem *memory);      /* getBoardPid */
/* Of this thread, unique; hardware writes it into each request. */
uint64_t unimem_id(const unimem *memory);

/* Rights that others than the allocating thread do not have: threads of other nodes, and other
 * threads of its own node. */
#define UNIMEM_DENY_OTHERS_READ 1u
#define UNIMEM_DENY_OTHERS_WRITE 2u
#define UNIMEM_DENY_NODE_READ 4u
#define UNIMEM_DENY_NODE_WRITE 8u

#define UNIMEM_PAGE_BYTES 4096

/* So many zeroed pages in a row, at the node. denied: UNIMEM_DENY_*. */
int unimem_alloc(unimem *memory, uint32_t node, uint16_t num_pages, uint32_t denied,
                 uint64_t *address);
/* The allocation that begins in this page. */
int unimem_free(unimem *memory, uint64_t address);

int unimem_read8(unimem *memory, uint64_t address, uint8_t *value);
int unimem_read32(unimem *memory, uint64_t address, uint32_t *value);
int unimem_read64(unimem *memory, uint64_t address, uint64_t *value);
/* UNIMEM_PAGE_BYTES to buffer; how many. */
int unimem_read4k(unimem *memory, uint64_t address, void *buffer);
int unimem_write8(unimem *memory, uint64_t address, uint8_t value);
int unimem_write32(unimem *memory, uint64_t address, uint32_t value);
int unimem_write64(unimem *memory, uint64_t address, uint64_t value);
int unimem_write128(unimem *memory, uint64_t address, uint64_t low, uint64_t high);
/* 1: the word was `expected`, and is `wanted`; 0: it was not. */
int unimem_cas(unimem *memory, uint64_t address, uint64_t expected, uint64_t wanted);
/* Fetch and add, modulo 2^64; *old may be NULL. */
int unimem_faa(unimem *memory, uint64_t address, uint64_t value, uint64_t *old);
int unimem_swap(unimem *memory, uint64_t address, uint64_t value, uint64_t *old);
/* Start `name`, an executable file of the node's host, at the node, with an argument; *child: its
 * id, may be NULL. Its output goes to `exec-ID-stdout.log` in the folder of the node's process.
 * PAGEWIRE_ERR_ADDRESS: there is no such file; _PROTECTION: it may not be executed; _INVALID: the
 * node cannot start it, since no thread of its 63 is left, or its nodes are joined: those belong to
 * one thread, which could not serve a program too. */
int unimem_fork(unimem *memory, uint32_t node, const char *name, uint64_t argument,
                uint64_t *child);
/* Until what remote forks have started at this node has ended, and its clock is there.
 * PAGEWIRE_ERR_UNRECOVERABLE: one died; the reason is the first one's. */
int unimem_wait_forks(unimem *memory);
/* In a program that a remote fork has started: its thread at its node, with the operations of
 * shared memory alone, and its argument. What it computes takes no virtual time.
 * PAGEWIRE_ERR_INVALID: it is no such program. To be destroyed. */
int unimem_forked(unimem **out, uint64_t *argument);
/* Why the last call failed: pagewire_reason of the node, or of the program. */
const char *unimem_reason(const unimem *memory);

/* ---- messages of 64 bits, whose top 4 are the opcode ---------------------------------------- */

#define UNIMEM_OPCODES 16
#define UNIMEM_OPCODE_SHIFT 60

int unimem_send(unimem *memory, uint32_t node, uint64_t value);
/* The kernel's: called when a message of the opcode arrives, whose time is virtual; it must call
 * nothing of this library. PAGEWIRE_ERR_FULL: the opcode is taken. */
int unimem_register(unimem *memory, uint32_t opcode,
                    void (*callback)(void *context, uint32_t source, uint64_t value,
                                     int64_t time_ns),
                    void *context);
int unimem_unregister(unimem *memory, uint32_t opcode);
/* The process's action record: 'r' takes the opcode, 's' with a signal, 'e' with an eventfd that
 * tells of each message, 'u' takes it no longer. */
int unimem_act(unimem *memory, char action, uint32_t opcode, int number);
/* The device of a node: a descriptor from which 8 bytes are read, oldest message first, for select,
 * poll, epoll and O_NONBLOCK too, and to which 8 bytes are written. It is the library's, and moves
 * when the node does: pagewire_progress. */
int unimem_device(unimem *memory, uint32_t node);

/* ---- the hardware itself: a FIFO of the mailbox and a page of the packetizer --------------------
 */

#define UNIMEM_EMPTY                                                             \
    UINT64_C(0xCAFEFEBEDEADBEAF) /* both halves of what an empty FIFO is read as \
                                  */
#define UNIMEM_BURST_MAX_WORDS 16
/* Registers of a packetizer page: the third write of the three sends 256 bits, whose lowest 48 are
 * the id of the interface. */
#define UNIMEM_PAYLOAD0 0x00
#define UNIMEM_PAYLOAD1 0x10
#define UNIMEM_DESTINATION 0x20
#define UNIMEM_STATUS_PEND 1
#define UNIMEM_STATUS_ILLEGAL 2
#define UNIMEM_STATUS_NACK 4
#define UNIMEM_STATUS_ACK 8
#define UNIMEM_STATUS_OVERWR_BUF 16

typedef struct {
    uint64_t low, high;
} unimem_word;

/* An interface of the caller's own, for which the library does nothing: its number, 1 to 63, which
 * is that of its FIFO too. PAGEWIRE_ERR_FULL: all are taken. */
int unimem_open_interface(unimem *memory);
int unimem_close_interface(unimem *memory, uint32_t interface);
/* What goes to UNIMEM_DESTINATION for a FIFO of a node. */
uint64_t unimem_destination(uint32_t node, uint32_t fifo);
int unimem_write_register(unimem *memory, uint32_t interface, uint32_t offset, unimem_word value);
/* UNIMEM_STATUS_* of the packetizer page, which takes a register read. */
int unimem_read_status(unimem *memory, uint32_t interface);
/* A burst of at most UNIMEM_BURST_MAX_WORDS to a FIFO of a node, and its answer: 1 positive, 0
 * negative. As the hardware (unimem.bursts), 1 can mean that the last words were lost. */
int unimem_write_fifo(unimem *memory, uint32_t interface, uint32_t node, uint32_t fifo,
                      const unimem_word *words, uint32_t num_words);
/* A burst read of the interface's own FIFO: how many words were there; the others are
 * UNIMEM_EMPTY. */
int unimem_read_fifo(unimem *memory, uint32_t interface, unimem_word *words, uint32_t num_words);

/* ---- user-initiated DMA: buffers here and at other nodes, transfers between them ------------
 *
 * The names are those of ExaNoDe's library; each has the node's library before its own arguments,
 * since a process can have several nodes. A buffer belongs to its owner: the node where its memory
 * is. Its handle is a name, good until it is freed; a function that gets another one says so. NULL
 * or 0 as a result: pagewire_reason of the node says why. */

typedef struct unim_dma unim_dma;
typedef struct unim_buf unim_buf;

#define UNIM_DMA_PENDING 0 /* the submitter has not started it */
#define UNIM_DMA_STARTED 1
#define UNIM_DMA_COMPLETED 2
#define UNIM_DMA_FAILED 3
#define UNIM_DMA_TRANSFERS_MAX 4096 /* not over at a time; as many of the newest have a status */

/* Called once when the transfer is over, by a function below that is called then or later, in the
 * order in which they end; it may call functions below. status: UNIM_DMA_COMPLETED, _FAILED. */
typedef void (*unim_dma_callback)(uint64_t id, int status, void *arg);

/* The library of the node. PAGEWIRE_ERR_FULL: it is open. */
int unim_dma_init(unimem *memory, unim_dma **out);
/* Before its unimem. Buffers of this node go, also those that others have allocated.
 * PAGEWIRE_ERR_FULL: transfers are not over. NULL: nothing. */
int unim_dma_cleanup(unim_dma *dma);
uint32_t unim_dma_get_node(const unim_dma *dma); /* this one */

/* Zeroed, of this node (l), or of another one (r), whose kernel is asked. The setting
 * unimem.dma_buffer says how long one can be, unimem.dma_buffers how many an owner can have; what
 * run.memory does to a buffer (touch, pin) is done now and lasts until it is freed. */
unim_buf *unim_alloc_buf_l(unim_dma *dma, uint64_t size);
unim_buf *unim_alloc_buf_r(unim_dma *dma, uint64_t size, uint32_t node);
/* By any node that has a handle. PAGEWIRE_ERR_FULL: transfers of this node with it are not over;
 * those of other nodes fail. */
int unim_free_buf(unim_dma *dma, unim_buf *buffer);
/* A buffer by its id, which is unique in the run: its owner is asked when this node does not know
 * it. */
unim_buf *unim_get_buf(unim_dma *dma, uint64_t id);
uint64_t unim_get_buf_id(unim_dma *dma, const unim_buf *buffer);
uint64_t unim_buf_get_size(unim_dma *dma, const unim_buf *buffer);
/* To read and write it, which takes no virtual time. Of another process of this host: the owner's
 * kernel is asked once, and its memory mapped here, until the buffer is freed here; what one
 * process writes the other one reads. NULL: the owner is on another host. */
void *unim_buf_get_memory(unim_dma *dma, const unim_buf *buffer);

/* Ask for a transfer of size bytes, from 1 on: its id, from 1 on; 0: refused. callback: NULL: none.
 */
uint64_t unim_dma_submit_transfer(unim_dma *dma, unim_buf *src, unim_buf *dst, uint64_t src_off,
                                  uint64_t dst_off, uint64_t size, unim_dma_callback callback,
                                  void *arg);
/* From memory, copied before this returns. */
uint64_t unim_dma_submit_transfer_from_mem(unim_dma *dma, const void *src, unim_buf *dst,
                                           uint64_t dst_off, uint64_t size,
                                           unim_dma_callback callback, void *arg);
/* To memory, which must stay until it is over. */
uint64_t unim_dma_submit_transfer_to_mem(unim_dma *dma, unim_buf *src, void *dst, uint64_t src_off,
                                         uint64_t size, unim_dma_callback callback, void *arg);
/* UNIM_DMA_* at the node's virtual time, which looking moves. */
int unim_dma_status(unim_dma *dma, uint64_t id);
/* The same when it is over: the clock goes on to its end. When that is not known within
 * unimem_options.wall_limit_ns, it has failed. */
int unim_dma_wait(unim_dma *dma, uint64_t id);
/* PAGEWIRE_OK, or why it has failed: PAGEWIRE_ERR_ADDRESS or _PROTECTION a buffer that its owner
 * has freed, _UNRECOVERABLE no end in the wall time allowed. */
int unim_dma_error(unim_dma *dma, uint64_t id);

#ifdef __cplusplus
}
#endif
#endif
