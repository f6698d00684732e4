/* Mailbox of 64-bit messages [D3.6 3.2]: the opcode is the top 4 bits. In the kernel a callback can
 * be registered for an opcode; it is called in interrupt context. To the user there is a device a
 * node, whose file descriptor is a real one: a read of 8 bytes takes the oldest message of that
 * node, or waits, or fails with EAGAIN (O_NONBLOCK), as select, poll and epoll know; a write of 8
 * bytes sends to it. An action record says which opcodes the process takes, and whether a signal or
 * an eventfd tells it. A message of an opcode that nobody has registered is dropped.
 *
 * The descriptor is a socket whose messages are records {value, time}: who reads 8 bytes gets the
 * value alone. One thread at a time, but for the user's end. */
#ifndef PW_UNIMEM_KERNEL_MAILBOX_H
#define PW_UNIMEM_KERNEL_MAILBOX_H
#include "include/unimem.h"
#include "native/types.h"

/* cdef begin */
/* What arrives at a device; a read of 8 bytes takes the value alone. */
typedef struct {
    uint64_t value;
    int64_t time_ns; /* from which the process can have it */
} pw_kernel_message;

/* In interrupt context: must not send. */
typedef void (*pw_kernel_callback)(void *context, uint32_t source, uint64_t value, int64_t time_ns);

typedef struct pw_kernel_mailbox pw_kernel_mailbox;
/* NULL: no memory. */
pw_kernel_mailbox *pw_kernel_mailbox_create(uint32_t num_nodes);
void pw_kernel_mailbox_destroy(pw_kernel_mailbox *mailbox);
/* PW_ERR_INVALID: no such opcode; PW_ERR_FULL: it has somebody already. */
int pw_kernel_mailbox_register(pw_kernel_mailbox *mailbox, uint32_t opcode,
                               pw_kernel_callback callback, void *context);
/* PW_ERR_INVALID: nobody was registered. */
int pw_kernel_mailbox_unregister(pw_kernel_mailbox *mailbox, uint32_t opcode);
/* The user's action record. action: 'r' plainly, 's' with signal `number`, 'e' with eventfd
 * `number`, 'u' takes it back. */
int pw_kernel_mailbox_act(pw_kernel_mailbox *mailbox, char action, uint32_t opcode, int number);
/* Descriptor of the device of a node, the mailbox's own; opened at the first call. PW_ERR_HOST: see
 * errno. */
int pw_kernel_mailbox_device(pw_kernel_mailbox *mailbox, uint32_t node);
/* A message is here. 1: somebody has it, 0: it was dropped; or a code. */
int pw_kernel_mailbox_arrived(pw_kernel_mailbox *mailbox, uint32_t source, uint64_t value,
                              int64_t time_ns);
/* What the user has written to a device. 1 and *node, *value: send it; 0: nothing more. Brings what
 * found a device's socket full a step further. */
int pw_kernel_mailbox_written(pw_kernel_mailbox *mailbox, uint32_t *node, uint64_t *value);
/* cdef end */
#endif
