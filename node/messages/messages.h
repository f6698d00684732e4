/* Messages between nodes, for hosts that have sends and receives: what goes eagerly and what is
 * exposed, which message a receive takes, and where it lands. An envelope travels as a frame of the
 * node's wire, a header behind it, with the payload when that is short; longer payloads stay where
 * they are until the receiver's NI reads them. One a node; every function is called with the node
 * locked.
 *
 * Messages from one source that suit a receive are taken in the order of sending; a receive from
 * any source takes the one that a probe has told of, else the earliest in virtual time of those
 * that came before it was posted, else the first that comes. */
#ifndef PW_NODE_MESSAGES_MESSAGES_H
#define PW_NODE_MESSAGES_MESSAGES_H
#include "native/pool.h"
#include "node/node.h"
#include "node/wires/frame_pool.h"

/* cdef begin */
typedef struct pw_messages pw_messages;
typedef struct pw_operation pw_operation;

/* Kinds of operations. */
#define PW_OPERATION_SEND 1    /* exposed: over when the receiver's NI has read it */
#define PW_OPERATION_RECEIVE 2 /* posted, or matched */
#define PW_OPERATION_ARRIVED 3 /* a message that came before its receive */
#define PW_OPERATION_READ 4    /* one-sided: over when the peer's bytes are here */
#define PW_OPERATION_WRITE 5   /* the same: when the peer has them */
#define PW_OPERATION_ATOMIC 6  /* waits for its peer's answer */
#define PW_OPERATION_OF_HOST 7 /* from here on: the host's own, of the same pool */

#define PW_ANY_NODE UINT32_MAX
/* Longest payload that rides along: a message is one burst. */
#define PW_MESSAGE_EAGER_MAX_BYTES 131072

typedef struct {
    pw_operation *head, *tail;
} pw_operation_list;

/* What is under way. From a pool, zeroed; a host may have members of its own behind it. */
struct pw_operation {
    pw_operation *next, *previous;
    pw_operation_list *list;             /* that it is in, NULL: none */
    int64_t posted_ns;                   /* from when on the CPU wanted a message */
    int64_t complete_ns;                 /* when done */
    int64_t arrival_ns;                  /* ARRIVED, or a matched receive: of its envelope */
    uint64_t address;                    /* of the buffer */
    uint64_t remote_address, remote_key; /* one-sided: the peer's memory; key 0: none */
    uint64_t capacity_bytes;             /* of the buffer */
    uint64_t num_bytes;                  /* that move: at most what the buffer holds */
    uint64_t begun_bytes;                /* one-sided: of the pieces that have begun */
    uint64_t message_bytes;              /* of the message that was matched */
    uint64_t context, tag, data;         /* as in the header; receives: as asked, then as matched */
    uint64_t ignore;                     /* bits of the tag that a receive does not look at */
    uint32_t peer;                       /* node; of a receive PW_ANY_NODE: from whom ever */
    uint32_t source;                     /* as in the header */
    int32_t error;                       /* PW_OK or PW_ERR_* */
    uint32_t frame_bytes;                /* of the message in `frame` */
    uint8_t kind;                        /* PW_OPERATION_* */
    uint8_t done;                        /* set last: another thread may read the rest then */
    uint8_t cancelled;
    uint8_t has_data;   /* the message brought `data` */
    uint8_t is_multi;   /* a receive that takes several messages */
    uint8_t is_unsized; /* a receive into memory of its own, of the message's length; without bytes
                         * its address is the host's to say */
    uint8_t is_announced; /* ARRIVED: a probe has told of it; else: the CPU knows of it */
    uint8_t is_dropped;   /* nobody asks for it any more: freed when it is over */
    uint8_t has_lease;
    uint8_t is_in_order; /* the host's: messages of one source are to end in the order of sending */
    pw_handle *handle;   /* of the transfer, NULL: none is under way */
    pw_lease lease;
    uint8_t *memory;             /* malloc'd, freed with the operation */
    uint8_t *frame;              /* ARRIVED: a copy of what came */
    pw_operation *companion;     /* the host's: waited for after this one */
    pw_operation *next_given_up; /* the host's */
    uint32_t recorded; /* its number in the recording, from 1 on; 0: none, or the CPU knows of it */
    uint32_t match;    /* the same, of a receive from any source that is not matched */
    uint32_t room;     /* the same, of one that is_unsized and has no memory yet */
};
/* cdef end */

/* Kinds of messages besides the node's (node.h): an atomic operation, and its answer. */
#define PW_MESSAGE_ATOMIC 16
#define PW_MESSAGE_ANSWER 17

/* Stands behind envelope and payload, and counts as part of the envelope's packet. */
typedef struct {
    uint64_t context; /* whom it is for: an endpoint, a communicator; is never ignored */
    uint64_t tag;
    uint64_t data;
    uint32_t source; /* who sends it, of those with this context on its node */
    uint32_t has_data;
} pw_message_header;
_Static_assert(sizeof(pw_message_header) == 32, "header of a message");

#define PW_MESSAGE_FRAME_BYTES(payload_bytes) \
    ((uint32_t)(PW_ENVELOPE_BYTES + sizeof(pw_message_header) + (payload_bytes)))

/* A sound frame, read. */
typedef struct {
    pw_envelope envelope;
    pw_message_header header;
    const uint8_t *frame;
    uint32_t frame_bytes;
    uint32_t promise_bytes; /* behind the envelope, of pw_node_promise */
} pw_arrival;

/* Any may be NULL; a negative code ends the node's call with it. */
typedef struct {
    void *context;
    /* A receive, which is not posted any more unless it is_multi, gets a message of so many bytes:
     * the operation that it lands in, the receive itself or a part of it. NULL: no memory. */
    pw_operation *(*matched)(void *context, pw_operation *receive, uint64_t message_bytes);
    /* A send, receive, read or write is over, and the host's to free. */
    int (*over)(void *context, pw_operation *operation);
} pw_messages_host;

struct pw_messages {
    pw_node *node;
    pw_ni *ni;
    pw_clock *clock;
    pw_messages_host host;
    uint64_t eager_limit_bytes;
    pw_operation_list posted;      /* receives, in the order of posting */
    pw_operation_list unexpected;  /* messages, in the order in which they came */
    pw_operation_list sends;       /* exposed ones */
    pw_operation_list writes;      /* one-sided ones that wait for a channel of the NI's */
    pw_operation_list atomics;     /* that wait for their answer */
    pw_frame_pool frames;          /* of messages that came early, */
    pw_frame_pool promised_frames; /* and of those that hold a promise */
    size_t operation_bytes;
    pw_pool operations;
};

/* operation_bytes: of the host's operations, which begin with a pw_operation. payload_bytes: of the
 * longest frame, which may be another kind of message's. To be called once before a node sends its
 * first frame. PW_ERR_INVALID: no burst holds such a frame; to be closed also after an error. */
int pw_messages_open(pw_messages *messages, pw_node *node, const pw_messages_host *host,
                     uint64_t eager_limit_bytes, uint64_t payload_bytes, size_t operation_bytes);
/* Operations end with it. */
void pw_messages_close(pw_messages *messages);

/* NULL: no memory. */
pw_operation *pw_operation_new(pw_messages *messages, uint8_t kind);
/* Back to the pool; in no list. */
void pw_operation_free(pw_messages *messages, pw_operation *operation);
void pw_operation_append(pw_operation_list *list, pw_operation *operation);
void pw_operation_unlink(pw_operation *operation);
/* `part` takes the place of a message of so many bytes from a receive of several, which has the
 * rest.
 */
void pw_operation_cut(pw_operation *whole, pw_operation *part, uint64_t message_bytes);
/* Of receives in the list, which are to end in the order of sending: the first of this context and
 * source, when it is over: out of the list, and not over before *last_ns, when the one before it
 * was. NULL: it is not over, or there is none. */
pw_operation *pw_operation_next_in_order(const pw_operation_list *list, uint64_t context,
                                         uint32_t peer, uint32_t source, int64_t *last_ns);
/* The memory strategy's part of posting a buffer that the NI may write, and its end. */
int pw_operation_acquire(pw_messages *messages, pw_operation *receive);
int pw_operation_release(pw_messages *messages, pw_operation *operation);

/* Send num_bytes that ride along; over when this returns. */
int pw_messages_send_eager(pw_messages *messages, uint32_t peer, uint64_t address,
                           uint64_t num_bytes, const pw_message_header *header);
/* Let the peer read `num_bytes` at `address`. With PW_ERR_* the operation may still be under way:
 * it ends as one that is_dropped, and with it what it holds. */
int pw_messages_send_exposed(pw_messages *messages, pw_operation *send,
                             const pw_message_header *header);
/* A frame of another kind, whose payload stands in it: off it goes with its header. */
int pw_messages_send_frame(pw_messages *messages, uint32_t peer, uint8_t *frame,
                           uint32_t payload_bytes, const pw_message_header *header);

/* The same, written by the NI at at_ns: its payload stands at `address`. The CPU takes no part. */
int pw_messages_send_plain(pw_messages *messages, uint32_t peer, uint8_t kind, uint64_t address,
                           uint32_t payload_bytes, int64_t at_ns, const pw_message_header *header);

/* One-sided: read num_bytes (> 0) from the peer's remote_address to `address`, or write them the
 * other way, as the operation's kind says; the peer's CPU takes no part. Writes begin in their
 * order, as far as the NI has channels. What is longer than a transfer goes in pieces, one
 * after the other. What is refused, an address that wraps, say, is over at
 * once with an error. */
int pw_messages_transfer(pw_messages *messages, pw_operation *transfer);
/* An atomic operation, whose request goes off now; over by pw_messages_answered. The peer's NI does
 * it when the request has landed, and answers then. */
int pw_messages_ask(pw_messages *messages, pw_operation *atomic, uint64_t address,
                    uint32_t request_bytes, uint32_t answer_bytes, const pw_message_header *header);
/* An answer lands at `address`: its operation is over then. */
void pw_messages_answered(pw_messages *messages, pw_operation *atomic, const pw_arrival *arrival,
                          uint64_t address, uint32_t capacity_bytes);

/* Post a receive, all of which stands in it but `posted_ns`: it takes what is here already. */
int pw_messages_post(pw_messages *messages, pw_operation *receive);
/* The message, of those that came early, that a receive takes; NULL: it is not here. */
pw_operation *pw_messages_find(const pw_messages *messages, const pw_operation *receive);
/* It goes to the receive, out of the list that it is in; it is freed. */
int pw_messages_take(pw_messages *messages, pw_operation *receive, pw_operation *arrived);
/* Take back a receive that is posted: it is over, now. */
int pw_messages_withdraw(pw_messages *messages, pw_operation *receive);

/* The program is told of a message that came early, and takes it or not; waited: the CPU's next
 * look is for it. */
void pw_messages_announce(pw_messages *messages, pw_operation *arrived, bool waited, bool taken);
/* The CPU learns of an operation that is over, which may lie ahead, by a look; whole: the receive
 * of several messages that it is a part of, NULL: none. */
void pw_messages_completed(pw_messages *messages, pw_operation *operation,
                           const pw_operation *whole);
/* The same look told of this one, too. */
void pw_messages_told(pw_messages *messages, pw_operation *operation, const pw_operation *whole);
/* This node's NI did an atomic operation of a peer with these bytes, as the kernel would. */
void pw_messages_served(pw_messages *messages, pw_span span);
/* What the node's `message` gives: PW_ERR_MALFORMED, counted, when it is none. */
int pw_messages_read(pw_messages *messages, uint32_t source, const uint8_t *frame,
                     uint32_t frame_bytes, pw_arrival *out);
/* It is for the first receive that it suits, or kept. */
int pw_messages_match(pw_messages *messages, const pw_arrival *arrival);
/* What the node's `finished` gives, of all but the host's own. */
int pw_messages_finish(pw_messages *messages, pw_handle *handle);

/* Of a receive that is over: the message was longer than the buffer. */
static inline bool pw_operation_is_truncated(const pw_operation *operation)
{
    return operation->message_bytes > operation->capacity_bytes;
}

static inline bool pw_is_of_same_source(const pw_operation *a, const pw_operation *b)
{
    return a->peer == b->peer && a->source == b->source;
}
#endif
