/* Connections of a node: their slots, ports, and what their users ask for. See streams.h. */
#include "transport/sockets/streams.h"
#include "transport/sockets/streams_state.h"
#include <stdlib.h>

#define RING_MIN_BYTES 64u
#define RING_MAX_BYTES (1u << 26)

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

/* Slots go round, so that a generation comes again as late as can be. */
int stream_open(pw_streams *self, uint32_t peer, uint16_t own_port, uint16_t peer_port,
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

void stream_free(pw_streams *self, stream *one)
{
    uint32_t slot = (uint32_t)(one - self->slots);
    one->is_used = false;
    self->num_open--;
    set_remove(self->changed, slot);
    set_remove(self->due, slot);
    if (self->host.close) self->host.close(self->host.context, slot);
}

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
    stream_answer(streams, entry);
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
        one->is_queued = one->is_unanswered = false;
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
    int code = stream_open(streams, node, own_port, port, &one);
    if (code < 0) return code;
    one->state = PW_STREAM_CONNECTING;
    uint32_t name = name_of(streams, one);
    code = stream_send(streams, node, MESSAGE_CONNECT, name, (uint64_t)own_port << 16 | port);
    if (code < 0) {
        stream_free(streams, one);
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
    return stream_move(streams, one);
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
    return stream_move(streams, one);
}

int pw_streams_end(pw_streams *streams, uint32_t connection)
{
    stream *one = find_open(streams, connection);
    if (!one) return PW_ERR_INVALID;
    one->is_ending = true;
    return stream_move(streams, one);
}

int pw_streams_close(pw_streams *streams, uint32_t connection)
{
    stream *one = find_open(streams, connection);
    if (!one) return PW_ERR_INVALID;
    one->is_closed = true;
    one->is_ending = true;
    return stream_move(streams, one);
}

void stream_reset(pw_streams *self, stream *one)
{
    if (one->state == PW_STREAM_RESET || one->state == PW_STREAM_REFUSED) return;
    one->state = PW_STREAM_RESET;
    self->counters.resets++;
    set_add(self->changed, (uint32_t)(one - self->slots));
}

int pw_streams_reset(pw_streams *streams, uint32_t connection)
{
    stream *one = find_open(streams, connection);
    if (!one) return PW_ERR_INVALID;
    stream_reset(streams, one);
    return stream_move(streams, one);
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
