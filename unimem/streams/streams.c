/* See streams.h. */
#include "unimem/streams/streams.h"
#include <stdlib.h>

#define RING_MIN_BYTES 64u
#define RING_MAX_BYTES (1u << 26)
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

static void set_add(uint64_t *set, uint32_t slot) { set[slot / 64] |= UINT64_C(1) << slot % 64; }

static void set_remove(uint64_t *set, uint32_t slot)
{
    set[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

/* The lowest member, or -1. */
static int32_t set_first(const uint64_t *set)
{
    for (uint32_t i = 0; i < SET_WORDS; i++)
        if (set[i]) return (int32_t)(i * 64) + __builtin_ctzll(set[i]);
    return -1;
}

static uint32_t name_of(const pw_streams *self, const stream *one)
{
    return (uint32_t)one->generation << SLOT_BITS | (uint32_t)(one - self->slots);
}

/* NULL: nobody has this name. */
static stream *find(const pw_streams *self, uint32_t connection)
{
    uint32_t slot = connection & (PW_STREAM_SLOTS_MAX - 1);
    const stream *one = &self->slots[slot];
    bool is_it = one->is_used && connection >> SLOT_BITS == one->generation;
    return is_it ? (stream *)(uintptr_t)one : NULL;
}

/* The same for a user, who has not closed it. */
static stream *find_open(const pw_streams *self, uint32_t connection)
{
    stream *one = find(self, connection);
    return one && !one->is_closed && !one->is_queued ? one : NULL;
}

static uint8_t *ring_of(const pw_streams *self, const stream *one, bool is_out)
{
    uint64_t slot = (uint64_t)(one - self->slots);
    return self->options.arena + (slot * 2 + is_out) * self->options.ring_bytes;
}

static listener *find_listener(const pw_streams *self, uint16_t port)
{
    for (uint32_t i = 0; port && i < LISTENERS_MAX; i++)
        if (self->listeners[i].port == port) return (listener *)(uintptr_t)&self->listeners[i];
    return NULL;
}

int pw_streams_create(const pw_streams_options *options, const pw_streams_host *host,
                      pw_streams **out)
{
    uint32_t ring_bytes = options->ring_bytes;
    if (options->node >= options->num_nodes || !options->arena || !options->num_slots ||
        options->num_slots > PW_STREAM_SLOTS_MAX || ring_bytes < RING_MIN_BYTES ||
        ring_bytes > RING_MAX_BYTES || ring_bytes & (ring_bytes - 1))
        return PW_ERR_INVALID;
    pw_streams *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->options = *options;
    made->host = *host;
    made->next_port = PW_STREAM_FIRST_FREE_PORT;
    *out = made;
    return PW_OK;
}

void pw_streams_destroy(pw_streams *streams) { free(streams); }

/* ---- slots */

/* Slots go round, so that a generation comes again as late as can be. */
static int take_slot(pw_streams *self, uint32_t peer, uint16_t own_port, uint16_t peer_port,
                     stream **out)
{
    for (uint32_t i = 0; i < self->options.num_slots; i++) {
        uint32_t slot = (self->next_slot + i) % self->options.num_slots;
        stream *one = &self->slots[slot];
        if (one->is_used) continue;
        int code = self->host.open
                       ? self->host.open(self->host.context, slot, ring_of(self, one, false),
                                         self->options.ring_bytes)
                       : PW_OK;
        if (code < 0) return code;
        uint8_t generation = one->generation == GENERATION_MAX ? 1 : (uint8_t)(one->generation + 1);
        *one = (stream){.is_used = true,
                        .generation = generation,
                        .peer = peer,
                        .own_port = own_port,
                        .peer_port = peer_port};
        self->next_slot = slot + 1;
        self->num_open++;
        *out = one;
        return PW_OK;
    }
    return PW_ERR_FULL;
}

static void free_slot(pw_streams *self, stream *one)
{
    uint32_t slot = (uint32_t)(one - self->slots);
    one->is_used = false;
    self->num_open--;
    set_remove(self->changed, slot);
    set_remove(self->due, slot);
    if (self->host.close) self->host.close(self->host.context, slot);
}

static void reset(pw_streams *self, stream *one)
{
    if (one->state == PW_STREAM_RESET || one->state == PW_STREAM_REFUSED) return;
    one->state = PW_STREAM_RESET;
    self->counters.resets++;
    set_add(self->changed, (uint32_t)(one - self->slots));
}

/* ---- what is due to peers */

#define KIND_SHIFT 56
#define CONNECTION_SHIFT POSITION_BITS
#define CONNECTION_MASK ((UINT64_C(1) << (KIND_SHIFT - CONNECTION_SHIFT)) - 1)
#define OPCODE_SHIFT 60

/* The writer learns of free room when so much of the ring is: seldom, yet before it must wait. */
#define CREDIT_SHARE 4

static int send(pw_streams *self, uint32_t peer, message_kind kind, uint32_t connection,
                uint64_t value)
{
    self->counters.messages++;
    return self->host.send(self->host.context, peer,
                           (uint64_t)PW_STREAM_OPCODE << OPCODE_SHIFT |
                               (uint64_t)kind << KIND_SHIFT |
                               (uint64_t)connection << CONNECTION_SHIFT | (value & POSITION_MASK));
}

static int tell(pw_streams *self, const stream *one, message_kind kind, uint64_t value)
{
    return send(self, one->peer, kind, one->peer_connection, value);
}

/* The next write, up to the ring's end. */
static void start_write(pw_streams *self, stream *one)
{
    uint32_t ring_bytes = self->options.ring_bytes, slot = (uint32_t)(one - self->slots);
    uint64_t at = one->started & (ring_bytes - 1), num_bytes = one->queued - one->started;
    if (num_bytes > ring_bytes - at) num_bytes = ring_bytes - at;
    uint64_t peer_slot = one->peer_connection & (PW_STREAM_SLOTS_MAX - 1);
    /* Before the call, in which the host may say that it is over. */
    one->is_writing = true;
    one->started += num_bytes;
    int code = self->host.write(self->host.context, one->peer, name_of(self, one),
                                ring_of(self, one, true) + at, peer_slot * 2 * ring_bytes + at,
                                (uint32_t)num_bytes);
    if (code >= 0) {
        self->counters.writes++;
        return;
    }
    one->is_writing = false;
    one->started -= num_bytes;
    if (code == PW_ERR_FULL) set_add(self->due, slot);
    else reset(self, one);
}

static int move_open(pw_streams *self, stream *one)
{
    int code = PW_OK;
    if (one->is_closed && one->arrived != one->consumed) {
        if (one->has_end) one->consumed = one->arrived; /* nobody wants it, and no more will come */
        else reset(self, one);
    }
    if (one->state != PW_STREAM_OPEN) return code;
    if (!one->is_writing && one->started < one->queued) start_write(self, one);
    if (one->told < one->written) {
        one->told = one->written;
        if ((code = tell(self, one, MESSAGE_WRITTEN, one->told)) < 0) return code;
    }
    if (one->consumed - one->credit_told >= self->options.ring_bytes / CREDIT_SHARE &&
        !one->has_end) {
        one->credit_told = one->consumed;
        if ((code = tell(self, one, MESSAGE_CREDIT, one->consumed)) < 0) return code;
    }
    if (one->is_ending && !one->end_told && one->told == one->queued) {
        one->end_told = true;
        code = tell(self, one, MESSAGE_END, one->queued);
    }
    return code;
}

/* Neither side can write to the other's ring any more, and no user has the name. */
static bool is_over(const stream *one)
{
    if (!one->is_closed || one->is_writing || one->state == PW_STREAM_CONNECTING) return false;
    if (one->state == PW_STREAM_REFUSED) return true;
    return (one->end_told && one->has_end) ||
           (one->reset_told && (one->reset_heard || one->has_end));
}

static int move(pw_streams *self, stream *one)
{
    int code = PW_OK;
    if (one->is_answer_due) {
        one->is_answer_due = false;
        code = one->state == PW_STREAM_REFUSED
                   ? tell(self, one, MESSAGE_REFUSED, 0)
                   : tell(self, one, MESSAGE_ACCEPTED, name_of(self, one));
    }
    if (code >= 0 && one->state == PW_STREAM_OPEN) code = move_open(self, one);
    if (code < 0) return code;
    /* A reset connection that has no answer yet cannot say so: its peer has no name. */
    if (one->state == PW_STREAM_RESET && !one->is_writing && !one->reset_told &&
        one->peer_connection) {
        one->reset_told = true;
        if ((code = tell(self, one, MESSAGE_RESET, 0)) < 0) return code;
    }
    if (is_over(one)) free_slot(self, one);
    return PW_OK;
}

static void answer_callers(pw_streams *self, listener *entry)
{
    while (entry->next_unanswered && entry->num_answered < entry->backlog) {
        uint32_t slot = entry->next_unanswered - 1;
        stream *one = &self->slots[slot];
        entry->next_unanswered = one->next_queued;
        entry->num_answered++;
        entry->is_called = true;
        one->is_answer_due = true;
        set_add(self->due, slot);
        self->counters.connections_taken++;
    }
}

/* ---- what the users ask for */

int pw_streams_listen(pw_streams *streams, uint16_t port, uint32_t backlog)
{
    if (!port) return PW_ERR_INVALID;
    if (find_listener(streams, port)) return PW_ERR_FULL;
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        listener *entry = &streams->listeners[i];
        if (entry->port) continue;
        *entry = (listener){.port = port, .backlog = backlog ? backlog : 1};
        return PW_OK;
    }
    return PW_ERR_FULL;
}

bool pw_streams_is_listening(const pw_streams *streams, uint16_t port)
{
    return find_listener(streams, port) != NULL;
}

uint32_t pw_streams_accept(pw_streams *streams, uint16_t port)
{
    listener *entry = find_listener(streams, port);
    if (!entry || !entry->first) return PW_STREAM_NONE;
    stream *one = &streams->slots[entry->first - 1];
    entry->first = one->next_queued;
    if (!entry->first) entry->last = 0;
    one->is_queued = false;
    entry->num_answered--;
    answer_callers(streams, entry);
    return name_of(streams, one);
}

void pw_streams_unlisten(pw_streams *streams, uint16_t port)
{
    listener *entry = find_listener(streams, port);
    if (!entry) return;
    for (uint32_t next = entry->next_unanswered; next;) {
        stream *one = &streams->slots[next - 1];
        next = one->next_queued;
        one->state = PW_STREAM_REFUSED;
        one->is_queued = false;
        one->is_closed = one->is_answer_due = true;
        set_add(streams->due, (uint32_t)(one - streams->slots));
        streams->counters.refused++;
    }
    entry->next_unanswered = 0;
    for (uint32_t left = entry->num_answered; left-- > 0;) {
        uint32_t name = pw_streams_accept(streams, port);
        pw_streams_reset(streams, name);
        pw_streams_close(streams, name);
    }
    *entry = (listener){.port = 0};
}

static bool is_port_taken(const pw_streams *self, uint16_t port)
{
    if (find_listener(self, port)) return true;
    for (uint32_t slot = 0; slot < self->options.num_slots; slot++)
        if (self->slots[slot].is_used && self->slots[slot].own_port == port) return true;
    return false;
}

uint16_t pw_streams_free_port(pw_streams *streams)
{
    for (uint32_t i = PW_STREAM_FIRST_FREE_PORT; i <= UINT16_MAX; i++) {
        uint16_t port = streams->next_port;
        streams->next_port = port == UINT16_MAX ? PW_STREAM_FIRST_FREE_PORT : (uint16_t)(port + 1);
        if (!is_port_taken(streams, port)) return port;
    }
    return 0;
}

int pw_streams_connect(pw_streams *streams, uint32_t node, uint16_t port, uint16_t own_port,
                       uint32_t *connection)
{
    if (node >= streams->options.num_nodes || !port || !own_port) return PW_ERR_INVALID;
    stream *one;
    int code = take_slot(streams, node, own_port, port, &one);
    if (code < 0) return code;
    one->state = PW_STREAM_CONNECTING;
    uint32_t name = name_of(streams, one);
    code = send(streams, node, MESSAGE_CONNECT, name, (uint64_t)own_port << 16 | port);
    if (code < 0) {
        free_slot(streams, one);
        return code;
    }
    *connection = name;
    return PW_OK;
}

int pw_streams_look(const pw_streams *streams, uint32_t connection, pw_stream_facts *out)
{
    const stream *one = find_open(streams, connection);
    if (!one) return PW_ERR_INVALID;
    *out = (pw_stream_facts){.state = one->state,
                             .peer = one->peer,
                             .own_port = one->own_port,
                             .peer_port = one->peer_port,
                             .is_ended = one->has_end,
                             .is_delivered =
                                 one->told == one->queued && (!one->is_ending || one->end_told)};
    return PW_OK;
}

/* From a position to the ring's end at most. */
static uint32_t in_a_row(const pw_streams *self, uint64_t position, uint64_t num_bytes)
{
    uint64_t to_end = self->options.ring_bytes - (position & (self->options.ring_bytes - 1));
    return (uint32_t)(num_bytes < to_end ? num_bytes : to_end);
}

uint32_t pw_streams_room(const pw_streams *streams, uint32_t connection, uint8_t **data)
{
    const stream *one = find_open(streams, connection);
    if (!one || one->state != PW_STREAM_OPEN || one->is_ending) return 0;
    uint32_t ring_bytes = streams->options.ring_bytes;
    *data = ring_of(streams, one, true) + (one->queued & (ring_bytes - 1));
    return in_a_row(streams, one->queued, ring_bytes - (one->queued - one->credited));
}

int pw_streams_queue(pw_streams *streams, uint32_t connection, uint32_t num_bytes)
{
    uint8_t *data;
    if (num_bytes > pw_streams_room(streams, connection, &data)) return PW_ERR_INVALID;
    stream *one = find_open(streams, connection);
    if (!one) return PW_ERR_INVALID;
    one->queued += num_bytes;
    return move(streams, one);
}

uint32_t pw_streams_here(const pw_streams *streams, uint32_t connection, const uint8_t **data,
                         int64_t *time_ns)
{
    const stream *one = find_open(streams, connection);
    if (!one || one->state != PW_STREAM_OPEN) return 0;
    *data = ring_of(streams, one, false) + (one->consumed & (streams->options.ring_bytes - 1));
    *time_ns = one->time_ns;
    return in_a_row(streams, one->consumed, one->arrived - one->consumed);
}

int pw_streams_consume(pw_streams *streams, uint32_t connection, uint32_t num_bytes)
{
    stream *one = find_open(streams, connection);
    if (!one || num_bytes > one->arrived - one->consumed) return PW_ERR_INVALID;
    one->consumed += num_bytes;
    streams->counters.bytes_in += num_bytes;
    return move(streams, one);
}

int pw_streams_end(pw_streams *streams, uint32_t connection)
{
    stream *one = find_open(streams, connection);
    if (!one) return PW_ERR_INVALID;
    one->is_ending = true;
    return move(streams, one);
}

int pw_streams_close(pw_streams *streams, uint32_t connection)
{
    stream *one = find_open(streams, connection);
    if (!one) return PW_ERR_INVALID;
    one->is_closed = true;
    one->is_ending = true;
    return move(streams, one);
}

int pw_streams_reset(pw_streams *streams, uint32_t connection)
{
    stream *one = find_open(streams, connection);
    if (!one) return PW_ERR_INVALID;
    reset(streams, one);
    return move(streams, one);
}

uint32_t pw_streams_changed(pw_streams *streams)
{
    for (int32_t slot; (slot = set_first(streams->changed)) >= 0;) {
        const stream *one = &streams->slots[slot];
        set_remove(streams->changed, (uint32_t)slot);
        if (one->is_used && !one->is_closed && !one->is_queued) return name_of(streams, one);
    }
    return PW_STREAM_NONE;
}

uint16_t pw_streams_called(pw_streams *streams)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++)
        if (streams->listeners[i].is_called) {
            streams->listeners[i].is_called = false;
            return streams->listeners[i].port;
        }
    return 0;
}

bool pw_streams_is_due(const pw_streams *streams) { return set_first(streams->due) >= 0; }

uint32_t pw_streams_num_open(const pw_streams *streams) { return streams->num_open; }

uint64_t pw_streams_num_arrived(const pw_streams *streams) { return streams->num_arrived; }

void pw_streams_read_counters(const pw_streams *streams, pw_streams_counters *out)
{
    *out = streams->counters;
}

/* ---- what comes from peers */

int pw_streams_move(pw_streams *streams)
{
    uint64_t waiting[SET_WORDS];
    for (uint32_t i = 0; i < SET_WORDS; i++) {
        waiting[i] = streams->due[i];
        streams->due[i] = 0;
    }
    for (int32_t slot; (slot = set_first(waiting)) >= 0;) {
        set_remove(waiting, (uint32_t)slot);
        int code = move(streams, &streams->slots[slot]);
        if (code < 0) return code;
    }
    return PW_OK;
}

int pw_streams_written(pw_streams *streams, uint32_t connection, int error)
{
    stream *one = find(streams, connection);
    if (!one || !one->is_writing) return PW_ERR_INVALID;
    one->is_writing = false;
    if (error < 0) reset(streams, one);
    else {
        streams->counters.bytes_out += one->started - one->written;
        one->written = one->started;
    }
    set_add(streams->changed, (uint32_t)(one - streams->slots));
    return move(streams, one);
}

static int answer_connect(pw_streams *self, uint32_t source, uint32_t connection, uint64_t value,
                          int64_t time_ns)
{
    uint16_t port = (uint16_t)value;
    listener *entry = find_listener(self, port);
    stream *one = NULL;
    if (!entry || take_slot(self, source, port, (uint16_t)(value >> 16), &one) < 0) {
        self->counters.refused++;
        return send(self, source, MESSAGE_REFUSED, connection, 0);
    }
    uint32_t slot = (uint32_t)(one - self->slots);
    one->state = PW_STREAM_OPEN;
    one->peer_connection = connection;
    one->time_ns = time_ns;
    one->is_queued = true;
    if (entry->last) self->slots[entry->last - 1].next_queued = slot + 1;
    else entry->first = slot + 1;
    entry->last = slot + 1;
    if (!entry->next_unanswered) entry->next_unanswered = slot + 1;
    answer_callers(self, entry);
    return move(self, one);
}

/* How far a 36-bit position lies behind one of 64 bits. */
static uint64_t steps_from(uint64_t position, uint64_t value)
{
    return (value - position) & POSITION_MASK;
}

/* The stream in goes on to the position. false: it cannot; an older message changes nothing. */
static bool take_written(const pw_streams *self, stream *one, uint64_t value, int64_t time_ns)
{
    uint64_t num_bytes = steps_from(one->arrived, value);
    uint64_t room = self->options.ring_bytes - (one->arrived - one->consumed);
    if (steps_from(value, one->arrived) <= POSITION_MASK / 2) return true;
    if (num_bytes > room || one->has_end) return false;
    one->arrived += num_bytes;
    one->time_ns = pw_later(one->time_ns, time_ns);
    return true;
}

static bool take_credit(stream *one, uint64_t value)
{
    if (steps_from(value, one->credited) <= POSITION_MASK / 2) return true;
    uint64_t num_bytes = steps_from(one->credited, value);
    if (num_bytes > one->written - one->credited) return false;
    one->credited += num_bytes;
    return true;
}

static bool take_end(const pw_streams *self, stream *one, uint64_t value, int64_t time_ns)
{
    if (one->has_end) return steps_from(one->arrived, value) == 0;
    if (!take_written(self, one, value, time_ns) || steps_from(one->arrived, value) != 0)
        return false;
    one->time_ns = pw_later(one->time_ns, time_ns);
    one->has_end = true;
    return true;
}

static bool take(pw_streams *self, stream *one, message_kind kind, uint64_t value, int64_t time_ns)
{
    switch (kind) {
    case MESSAGE_ACCEPTED:
        if (one->peer_connection || value > CONNECTION_MASK || !(value >> SLOT_BITS) ||
            (value & (PW_STREAM_SLOTS_MAX - 1)) >= self->options.num_slots)
            return false;
        one->peer_connection = (uint32_t)value;
        one->time_ns = pw_later(one->time_ns, time_ns);
        if (one->state == PW_STREAM_CONNECTING) one->state = PW_STREAM_OPEN;
        self->counters.connections_made++;
        return true;
    case MESSAGE_REFUSED:
        if (one->peer_connection) return false;
        one->state = PW_STREAM_REFUSED;
        return true;
    case MESSAGE_WRITTEN: return take_written(self, one, value, time_ns);
    case MESSAGE_CREDIT: return take_credit(one, value);
    case MESSAGE_END: return take_end(self, one, value, time_ns);
    case MESSAGE_RESET:
        one->reset_heard = true;
        if (one->state == PW_STREAM_OPEN) reset(self, one);
        return true;
    default: return false;
    }
}

int pw_streams_arrived(pw_streams *streams, uint32_t source, uint64_t message, int64_t time_ns)
{
    message_kind kind = (message_kind)(message >> KIND_SHIFT & 15);
    uint32_t connection = (uint32_t)(message >> CONNECTION_SHIFT & CONNECTION_MASK);
    uint64_t value = message & POSITION_MASK;
    streams->num_arrived++;
    if (source >= streams->options.num_nodes || kind >= MESSAGE_KINDS ||
        (connection & (PW_STREAM_SLOTS_MAX - 1)) >= streams->options.num_slots) {
        streams->counters.malformed++;
        return PW_OK;
    }
    if (kind == MESSAGE_CONNECT) return answer_connect(streams, source, connection, value, time_ns);
    stream *one = find(streams, connection);
    if (!one) return PW_OK; /* a late word to a connection that is over */
    if (one->peer != source || !take(streams, one, kind, value, time_ns)) {
        streams->counters.malformed++;
        return PW_OK;
    }
    set_add(streams->changed, connection & (PW_STREAM_SLOTS_MAX - 1));
    return move(streams, one);
}
