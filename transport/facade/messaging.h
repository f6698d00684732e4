/* MPI messages over a node: an envelope (with the payload when that is short) goes as one MPI
 * message on a channel's communicator with the user's tag, so that MPI does the matching; longer
 * payloads stay where they are until the receiver's NI reads them. One a rank. Every function here
 * is called with the node locked; transport/facade/calls.h has those for the program's threads. */
#ifndef PW_FACADE_MESSAGING_H
#define PW_FACADE_MESSAGING_H
#include <stdatomic.h>

#include "transport/facade/mpi_library.h"
#include "transport/facade/scratch.h"
#include "transport/node/node.h"

/* cdef begin */
typedef struct pw_messaging pw_messaging;
typedef struct pw_channel pw_channel;

/* Kinds of operations. */
#define PW_OPERATION_SEND 1     /* rendezvous: complete when the receiver's NI has read it */
#define PW_OPERATION_RECEIVE 2  /* posted */
#define PW_OPERATION_ARRIVED 3  /* a message that a probe took from MPI; nobody received it yet */
#define PW_OPERATION_OUTGOING 4 /* an eager message that MPI has not taken yet */

/* MPI buffers messages up to here by itself: a blocking send of one returns without the receiver.
 */
#define PW_MESSAGE_BUFFERED_BYTES 4096

/* What is under way between two ranks. Its owner reads it, and frees it by pw_operation_free. */
typedef struct pw_operation {
    int64_t complete_ns; /* when done */
    int64_t posted_ns;
    uint64_t address, capacity_bytes; /* of the span; receives: where the message lands */
    uint64_t num_bytes;               /* of the message, at most capacity_bytes when received */
    int64_t arrival_ns;               /* ARRIVED: of its envelope */
    int32_t source, tag; /* receives: as asked, then as matched; ranks of the channel */
    uint32_t peer;       /* rank of COMM_WORLD at the other end */
    int32_t error;       /* PW_OK or PW_ERR_* */
    uint8_t kind;
    uint8_t done;
    uint8_t cancelled;
    uint8_t truncated;    /* the message was longer than the span */
    uint8_t is_unsized;   /* the message decides its length: memory of the operation's own */
    uint8_t is_announced; /* ARRIVED: a probe has told of it */
    uint8_t is_owned;     /* `inner` is completed here; else the user holds it as his request */
    uint8_t has_lease;
    uint8_t is_listed;     /* among those that every wait looks after */
    uint8_t is_dropped;    /* nobody asks for it any more: freed when it is done */
    uint8_t is_cancelling; /* MPI was asked to cancel it */
    uint8_t reserved;
    uint32_t frame_bytes; /* of the message in `frame` */
    pw_mpi_handle inner;  /* MPI's request of the envelope */
    pw_channel *channel;
    pw_handle *handle;
    pw_lease lease;
    struct pw_operation *companion; /* waited for after this one: the receive of an exchange */
    struct pw_operation *next, *previous; /* in the list that it is in */
    struct pw_operation *next_given_up;
    uint8_t *memory; /* of an unsized receive */
    uint8_t *frame;
} pw_operation;

/* What a wait for an operation calls now and then, with the node unlocked. A negative code ends the
 * wait's call with it. */
typedef int (*pw_call_pause)(void *context, const pw_operation *operation);
/* cdef end */

/* A private communicator that carries envelopes, seen from this rank. */
struct pw_channel {
    pw_mpi_handle comm;
    int32_t rank, size;
    pw_operation *arrived_head, *arrived_tail; /* in the order in which MPI gave them */
    uint32_t world_rank[];
};

typedef struct {
    pw_operation *head, *tail;
} pw_operation_list;

struct pw_messaging {
    pw_node *node;
    const pw_mpi_library *mpi;
    uint64_t eager_limit_bytes, frame_bytes;
    pw_operation *free_list;
    pw_operation_list posted; /* receives that are not done: matched whatever the rank waits for */
    pw_operation_list outgoing;       /* eager messages that MPI has not taken yet */
    _Atomic(pw_operation *) given_up; /* see pw_operation_give_up; dropped at the next occasion */
    pw_operation **slabs;
    uint32_t num_slabs;
    pw_call_pause pause;
    void *pause_context;
    pw_scratch *scratches; /* memory for calls */
    int32_t mpi_error;     /* of the MPI call for which PW_ERR_HOST was returned last */
    uint8_t *scratch;      /* frame of a message that MPI has taken when its send returns */
};

pw_operation *pw_operation_new(pw_messaging *messaging, uint8_t kind);
void pw_operation_recycle(pw_messaging *messaging, pw_operation *operation);
void pw_list_append(pw_operation_list *list, pw_operation *operation);
void pw_list_remove(pw_operation_list *list, pw_operation *operation);

/* Send eagerly when the message is short and is_synchronous false; *out NULL then. Else start a
 * rendezvous. Arguments must be valid. */
int pw_post_send(pw_messaging *messaging, pw_channel *channel, uint64_t address, uint64_t num_bytes,
                 int32_t dest, int32_t tag, bool is_synchronous, pw_operation **out);
/* Post a receive of at most capacity_bytes; is_unsized: of any length. */
int pw_post_receive(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                    uint64_t capacity_bytes, bool is_unsized, int32_t source, int32_t tag,
                    bool is_owned, pw_operation **out);
/* Receive a message that a probe took. It becomes the receive. */
int pw_receive_arrived(pw_messaging *messaging, pw_operation *arrived, uint64_t address,
                       uint64_t capacity_bytes, bool is_unsized);
/* 1: done, 0: not yet, negative: PW_ERR_*, the rank cannot go on. */
int pw_operation_poll(pw_messaging *messaging, pw_operation *operation);
/* Give an operation back; one that is not done goes on by itself. */
void pw_operation_drop(pw_messaging *messaging, pw_operation *operation);
/* The same at some later time, without the lock: a garbage collector calls it, anywhere. */
void pw_operation_give_up(pw_messaging *messaging, pw_operation *operation);
void pw_messaging_drop_given_up(pw_messaging *messaging);
/* Ask MPI to take a posted receive back; one that is matched goes through. */
void pw_operation_cancel(pw_messaging *messaging, pw_operation *operation);
/* One turn of the node, and the posted receives looked after. As pw_node_turn. */
int pw_messaging_turn(pw_messaging *messaging, bool waiting);
/* The same as part of a loop: others come in between. */
int pw_messaging_step(pw_messaging *messaging, bool waiting);
/* The message that a receive would get, after taking from MPI what is there: per source the first
 * that matches, among sources the one that a probe has told of, else the earliest in virtual time.
 * *out NULL: none. */
int pw_channel_look(pw_messaging *messaging, pw_channel *channel, int32_t source, int32_t tag,
                    pw_operation **out);
/* Take it out of the channel. */
void pw_channel_remove(pw_channel *channel, pw_operation *arrived);
pw_operation *pw_channel_find(const pw_messaging *messaging, const pw_channel *channel,
                              int32_t source, int32_t tag);
#endif
