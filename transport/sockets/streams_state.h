/* What a node knows of its connections; for streams*.c alone. See streams.h. */
#ifndef PW_SOCKETS_STREAMS_STATE_H
#define PW_SOCKETS_STREAMS_STATE_H
#include "transport/sockets/streams.h"

#define SLOT_BITS 12
#define GENERATION_MAX 255 /* 8 bits; from 1, so that no name is 0 */
#define POSITION_BITS 36
#define POSITION_MASK ((UINT64_C(1) << POSITION_BITS) - 1)
#define LISTENERS_MAX 256
#define SET_WORDS (PW_STREAM_SLOTS_MAX / 64)
_Static_assert(1 << SLOT_BITS == PW_STREAM_SLOTS_MAX, "a name holds the slot");

typedef enum {
    MESSAGE_CONNECT,  /* connection: the sender's; value: its port, the wanted port */
    MESSAGE_ACCEPTED, /* connection: the receiver's, as in all others; value: the sender's */
    MESSAGE_REFUSED,
    MESSAGE_WRITTEN, /* value: up to where the stream is in the receiver's ring */
    MESSAGE_CREDIT,  /* value: up to where the stream is consumed */
    MESSAGE_END,     /* value: where the stream ends; all of it is in the ring */
    MESSAGE_RESET,   /* the sender writes no more */
    MESSAGE_KINDS,
} message_kind;

typedef struct {
    bool is_used;
    uint8_t generation;
    pw_stream_state state;
    uint32_t peer, peer_connection;
    uint16_t own_port, peer_port;
    /* Positions of the stream out, each at most the one before; queued - credited <= ring. */
    uint64_t queued, started, written, told, credited;
    /* Of the stream in; arrived - consumed <= ring. */
    uint64_t arrived, consumed, credit_told;
    int64_t time_ns; /* when the last bytes were here */
    bool is_writing;
    bool is_ending, end_told; /* the stream out */
    bool has_end;             /* the stream in ends at `arrived` */
    bool reset_told, reset_heard;
    bool is_closed;       /* by its user */
    bool is_queued;       /* waits for accept */
    bool is_unanswered;   /* in the queue, which has no room for it */
    bool is_answer_due;   /* to its connect */
    uint32_t next_queued; /* slot + 1; 0: none */
} stream;

typedef struct {
    uint16_t port;                         /* 0: free */
    uint32_t backlog, num_answered;        /* of those in the queue, the first ones */
    uint32_t first, last, next_unanswered; /* slot + 1; 0: none */
    bool is_called;
} listener;

struct pw_streams {
    pw_streams_options options;
    pw_streams_host host;
    pw_streams_counters counters;
    uint64_t num_arrived; /* messages */
    uint32_t num_open, next_slot;
    uint16_t next_port;
    /* Sets of slots; due: host.write has refused, or an answer is due. */
    uint64_t changed[SET_WORDS], due[SET_WORDS];
    listener listeners[LISTENERS_MAX];
    stream slots[PW_STREAM_SLOTS_MAX];
};

static inline void set_add(uint64_t *set, uint32_t slot)
{
    set[slot / 64] |= UINT64_C(1) << slot % 64;
}

static inline void set_remove(uint64_t *set, uint32_t slot)
{
    set[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

/* The lowest member, or -1. */
static inline int32_t set_first(const uint64_t *set)
{
    for (uint32_t i = 0; i < SET_WORDS; i++)
        if (set[i]) return (int32_t)(i * 64) + __builtin_ctzll(set[i]);
    return -1;
}

static inline uint32_t name_of(const pw_streams *self, const stream *one)
{
    return (uint32_t)one->generation << SLOT_BITS | (uint32_t)(one - self->slots);
}

/* NULL: nobody has this name. */
static inline stream *find(const pw_streams *self, uint32_t connection)
{
    uint32_t slot = connection & (PW_STREAM_SLOTS_MAX - 1);
    const stream *one = &self->slots[slot];
    bool is_it = one->is_used && connection >> SLOT_BITS == one->generation;
    return is_it ? (stream *)(uintptr_t)one : NULL;
}

/* The same for a user, who has not closed it. */
static inline stream *find_open(const pw_streams *self, uint32_t connection)
{
    stream *one = find(self, connection);
    return one && !one->is_closed && !one->is_queued ? one : NULL;
}

static inline uint8_t *ring_of(const pw_streams *self, const stream *one, bool is_out)
{
    uint64_t slot = (uint64_t)(one - self->slots);
    return self->options.arena + (slot * 2 + is_out) * self->options.ring_bytes;
}

static inline listener *find_listener(const pw_streams *self, uint16_t port)
{
    for (uint32_t i = 0; port && i < LISTENERS_MAX; i++)
        if (self->listeners[i].port == port) return (listener *)(uintptr_t)&self->listeners[i];
    return NULL;
}

/* A slot for a connection with the peer. PW_ERR_FULL: none is free; or what host.open says. */
int stream_open(pw_streams *self, uint32_t peer, uint16_t own_port, uint16_t peer_port,
                stream **out);
/* The slot is free again. */
void stream_free(pw_streams *self, stream *one);
/* Send and write what is due, and free the slot when nobody needs it. */
int stream_move(pw_streams *self, stream *one);
/* Those who call, as many as the backlog allows: their answers are due. */
void stream_answer(pw_streams *self, listener *entry);
int stream_send(pw_streams *self, uint32_t peer, message_kind kind, uint32_t connection,
                uint64_t value);
void stream_reset(pw_streams *self, stream *one);
#endif
