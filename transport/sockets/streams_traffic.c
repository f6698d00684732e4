/* Messages and writes of connections: what comes from peers and what is due to them. See streams.h.
 */
#include "transport/sockets/streams.h"
#include "transport/sockets/streams_state.h"

#define KIND_SHIFT 56
#define CONNECTION_SHIFT POSITION_BITS
#define CONNECTION_MASK ((UINT64_C(1) << (KIND_SHIFT - CONNECTION_SHIFT)) - 1)
#define OPCODE_SHIFT 60

/* The writer learns of free room when so much of the ring is: seldom, yet before it must wait. */
#define CREDIT_SHARE 4

int stream_send(pw_streams *self, uint32_t peer, message_kind kind, uint32_t connection,
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
    return stream_send(self, one->peer, kind, one->peer_connection, value);
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
    else stream_reset(self, one);
}

static int move_open(pw_streams *self, stream *one)
{
    int code = PW_OK;
    if (one->is_closed && one->arrived != one->consumed) {
        if (one->has_end) one->consumed = one->arrived; /* nobody wants it, and no more will come */
        else stream_reset(self, one);
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

int stream_move(pw_streams *self, stream *one)
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
    if (is_over(one)) stream_free(self, one);
    return PW_OK;
}

int pw_streams_move(pw_streams *streams)
{
    uint64_t waiting[SET_WORDS];
    for (uint32_t i = 0; i < SET_WORDS; i++) {
        waiting[i] = streams->due[i];
        streams->due[i] = 0;
    }
    for (int32_t slot; (slot = set_first(waiting)) >= 0;) {
        set_remove(waiting, (uint32_t)slot);
        int code = stream_move(streams, &streams->slots[slot]);
        if (code < 0) return code;
    }
    return PW_OK;
}

int pw_streams_written(pw_streams *streams, uint32_t connection, int error)
{
    stream *one = find(streams, connection);
    if (!one || !one->is_writing) return PW_ERR_INVALID;
    one->is_writing = false;
    if (error < 0) stream_reset(streams, one);
    else {
        streams->counters.bytes_out += one->started - one->written;
        one->written = one->started;
    }
    set_add(streams->changed, (uint32_t)(one - streams->slots));
    return stream_move(streams, one);
}

static int answer_connect(pw_streams *self, uint32_t source, uint32_t connection, uint64_t value,
                          int64_t time_ns)
{
    uint16_t port = (uint16_t)value;
    listener *entry = find_listener(self, port);
    stream *one = NULL;
    if (!entry || stream_open(self, source, port, (uint16_t)(value >> 16), &one) < 0) {
        self->counters.refused++;
        return stream_send(self, source, MESSAGE_REFUSED, connection, 0);
    }
    uint32_t slot = (uint32_t)(one - self->slots);
    one->state = PW_STREAM_OPEN;
    one->peer_connection = connection;
    one->time_ns = time_ns;
    one->is_queued = one->is_unanswered = true;
    if (entry->last) self->slots[entry->last - 1].next_queued = slot + 1;
    else entry->first = slot + 1;
    entry->last = slot + 1;
    if (!entry->next_unanswered) entry->next_unanswered = slot + 1;
    stream_answer(self, entry);
    return stream_move(self, one);
}

void stream_answer(pw_streams *self, listener *entry)
{
    while (entry->next_unanswered && entry->num_answered < entry->backlog) {
        uint32_t slot = entry->next_unanswered - 1;
        stream *one = &self->slots[slot];
        entry->next_unanswered = one->next_queued;
        entry->num_answered++;
        entry->is_called = true;
        one->is_unanswered = false;
        one->is_answer_due = true;
        set_add(self->due, slot);
        self->counters.connections_taken++;
    }
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
    if (time_ns > one->time_ns) one->time_ns = time_ns;
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
    if (time_ns > one->time_ns) one->time_ns = time_ns;
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
        one->time_ns = time_ns > one->time_ns ? time_ns : one->time_ns;
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
        if (one->state == PW_STREAM_OPEN) stream_reset(self, one);
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
    return stream_move(streams, one);
}

int pw_streams_lost(pw_streams *streams, uint32_t node)
{
    for (uint32_t slot = 0; slot < streams->options.num_slots; slot++) {
        stream *one = &streams->slots[slot];
        if (!one->is_used || one->peer != node) continue;
        set_add(streams->changed, slot);
        if (one->state == PW_STREAM_CONNECTING) one->state = PW_STREAM_REFUSED;
        stream_reset(streams, one);
        one->reset_told = one->reset_heard = true;
        int code = stream_move(streams, one);
        if (code < 0) return code;
    }
    return PW_OK;
}
