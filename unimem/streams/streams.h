/* Stream connections over RDMA, the protocol of one node: set-up by 64-bit messages of the kernel
 * mailbox, data by RDMA writes into a ring at the receiver, credits, half-close, reset. Sans I/O.
 *
 * A connection has two rings of the same size in its node's arena: the peer writes into one, the
 * other one holds what goes out. A byte of the stream has the same place in the sender's ring and
 * in the receiver's; both are free when the receiver has consumed it. One write a connection is
 * under way at a time; what is queued meanwhile goes with the next one.
 *
 * A message is one word: opcode 4 bits, kind 4, connection 20, value 36. Its positions are counted
 * from the stream's beginning, modulo 2^36: messages may overtake each other, and coming twice does
 * no harm. A connection's name is its slot and a generation, so that a late message meets nobody
 * else. A slot is used again when neither side can write any more: both have ended their stream, or
 * reset it and said so.
 *
 * Not modelled: lost messages (the mailbox loses none of a registered opcode), urgent data. One
 * thread at a time. */
#ifndef PW_UNIMEM_STREAMS_STREAMS_H
#define PW_UNIMEM_STREAMS_STREAMS_H
#include "native/types.h"

#define PW_STREAM_OPCODE 6 /* of the kernel mailbox's 16 */
#define PW_STREAM_SLOTS_MAX 4096
/* cdef begin */
#define PW_STREAM_NONE 0 /* the name of no connection */
/* cdef end */
#define PW_STREAM_FIRST_FREE_PORT 49152

/* cdef begin */
typedef struct pw_streams pw_streams;
/* cdef end */

typedef struct {
    void *context;
    /* Write num_bytes at source to an offset of the peer's arena; the bytes stay until
     * pw_streams_written is called. PW_ERR_FULL: not now; another code ends the connection. */
    int (*write)(void *context, uint32_t peer, uint32_t connection, const uint8_t *source,
                 uint64_t offset, uint32_t num_bytes);
    /* Takes a message for the peer, in any case; a code ends the call with it. */
    int (*send)(void *context, uint32_t peer, uint64_t message);
    /* A connection is made, whose peer will write to num_bytes at `ring`; a code refuses it. And
     * nobody writes there any more. Both may be NULL. */
    int (*open)(void *context, uint32_t slot, uint8_t *ring, uint32_t num_bytes);
    void (*close)(void *context, uint32_t slot);
} pw_streams_host;

typedef struct {
    uint32_t node, num_nodes;
    uint32_t num_slots;  /* connections at a time; the same at all nodes */
    uint32_t ring_bytes; /* a power of two; the same at all nodes */
    uint8_t *arena;      /* pw_streams_arena_bytes of zeroed memory, the caller's */
} pw_streams_options;

/* cdef begin */
typedef enum {
    PW_STREAM_CONNECTING,
    PW_STREAM_REFUSED, /* nobody listens there, or that node has no slot left */
    PW_STREAM_OPEN,
    PW_STREAM_RESET, /* by the peer, or because a write failed */
} pw_stream_state;

typedef struct {
    pw_stream_state state;
    uint32_t peer;
    uint16_t own_port, peer_port;
    bool is_ended;     /* the peer sends no more than what is here */
    bool is_delivered; /* all that was queued is in the peer's ring, and the end, if any, is told */
} pw_stream_facts;
/* cdef end */

typedef struct {
    uint64_t connections_made, connections_taken; /* by connect, by accept queues */
    uint64_t refused, resets;                     /* here */
    uint64_t writes, messages;                    /* that went out */
    uint64_t bytes_out, bytes_in;                 /* written to peers, consumed here */
    uint64_t malformed;                           /* messages that could not be right: dropped */
} pw_streams_counters;

static inline uint64_t pw_streams_arena_bytes(uint32_t num_slots, uint32_t ring_bytes)
{
    return (uint64_t)num_slots * ring_bytes * 2;
}
/* PW_ERR_INVALID: an option is out of its range. */
int pw_streams_create(const pw_streams_options *options, const pw_streams_host *host,
                      pw_streams **out);
void pw_streams_destroy(pw_streams *streams);

/* cdef begin */
/* Queue connections to the port. So many are answered before they are accepted; those behind them
 * wait, and who connects with them. PW_ERR_FULL: the port is taken, or there are 256. */
int pw_streams_listen(pw_streams *streams, uint16_t port, uint32_t backlog);
/* Those in its queue are reset, those not answered refused. */
void pw_streams_unlisten(pw_streams *streams, uint16_t port);
bool pw_streams_is_listening(const pw_streams *streams, uint16_t port);
/* The oldest in the port's queue, or PW_STREAM_NONE. */
uint32_t pw_streams_accept(pw_streams *streams, uint16_t port);
/* A port that no connection and no listener has; 0: there is none. */
uint16_t pw_streams_free_port(pw_streams *streams);
/* A connection that is being made; it changes when the answer is here. PW_ERR_FULL: no slot; or
 * what host.open says. */
int pw_streams_connect(pw_streams *streams, uint32_t node, uint16_t port, uint16_t own_port,
                       uint32_t *connection);

/* PW_ERR_INVALID: there is no such connection. */
int pw_streams_look(const pw_streams *streams, uint32_t connection, pw_stream_facts *out);
/* cdef end */
/* Where bytes to send can be put: *data and how many in a row; then say how many stand there. */
uint32_t pw_streams_room(const pw_streams *streams, uint32_t connection, uint8_t **data);
int pw_streams_queue(pw_streams *streams, uint32_t connection, uint32_t num_bytes);
/* Bytes that are here, in a row, and from when on; then say how many are done with. */
uint32_t pw_streams_here(const pw_streams *streams, uint32_t connection, const uint8_t **data,
                         int64_t *time_ns);
int pw_streams_consume(pw_streams *streams, uint32_t connection, uint32_t num_bytes);
/* cdef begin */
/* No bytes will be queued any more: the peer learns it behind the last one. */
int pw_streams_end(pw_streams *streams, uint32_t connection);
/* The name is void from now on. What is queued still goes out, unless the peer sends more. */
int pw_streams_close(pw_streams *streams, uint32_t connection);
/* What is queued is dropped, here and there. The name stays until it is closed. */
int pw_streams_reset(pw_streams *streams, uint32_t connection);
/* cdef end */

/* A message of a peer is here. */
int pw_streams_arrived(pw_streams *streams, uint32_t source, uint64_t message, int64_t time_ns);
/* The connection's write is over; error: PW_OK or why it failed. */
int pw_streams_written(pw_streams *streams, uint32_t connection, int error);
/* Start what host.write has refused before, send answers that are due. */
int pw_streams_move(pw_streams *streams);
bool pw_streams_is_due(const pw_streams *streams); /* pw_streams_move has something to do */
/* Messages of peers, whatever they were. */
uint64_t pw_streams_num_arrived(const pw_streams *streams);

/* cdef begin */
/* A connection that has changed since it was last named here, or PW_STREAM_NONE. */
uint32_t pw_streams_changed(pw_streams *streams);
/* A port whose queue has got a connection; 0: none. */
uint16_t pw_streams_called(pw_streams *streams);
/* cdef end */
uint32_t pw_streams_num_open(const pw_streams *streams);
void pw_streams_read_counters(const pw_streams *streams, pw_streams_counters *out);
#endif
