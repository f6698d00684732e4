/* Stream connections between nodes whose messages overtake each other and whose writes end late,
 * are refused or fail: every byte is checked. */
#include "unimem/streams/streams.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NODES 3
#define SLOTS 8
#define RING 256
#define FLIGHTS 4096
#define PORT 80
#define PAIRS 6

typedef struct {
    bool is_write;
    uint32_t source, peer, connection, num_bytes;
    uint64_t message, offset;
    const uint8_t *data;
} flight;

typedef struct {
    uint32_t node;
    pw_streams *streams;
    uint8_t arena[SLOTS * RING * 2];
} end;

static end nodes[NODES];
static flight flights[FLIGHTS];
static uint32_t num_flights, seed, refuse_in_8, fail_in_1024;
static uint32_t random_below(uint32_t limit)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(seed >> 4) * limit >> 28);
}

static int write_to(void *context, uint32_t peer, uint32_t connection, const uint8_t *source,
                    uint64_t offset, uint32_t num_bytes)
{
    const end *from = context;
    assert(peer < NODES && num_bytes > 0 && offset + num_bytes <= sizeof from->arena);
    if (random_below(8) < refuse_in_8) return PW_ERR_FULL;
    assert(num_flights < FLIGHTS);
    flights[num_flights++] = (flight){.is_write = true,
                                      .source = from->node,
                                      .peer = peer,
                                      .connection = connection,
                                      .num_bytes = num_bytes,
                                      .offset = offset,
                                      .data = source};
    return PW_OK;
}

static int send_to(void *context, uint32_t peer, uint64_t message)
{
    assert(num_flights < FLIGHTS && message >> 60 == PW_STREAM_OPCODE);
    flights[num_flights++] =
        (flight){.source = ((const end *)context)->node, .peer = peer, .message = message};
    return PW_OK;
}

/* One of what is under way arrives: any of them. */
static bool step(void)
{
    for (uint32_t i = 0; i < NODES; i++) assert(pw_streams_move(nodes[i].streams) == PW_OK);
    if (!num_flights) return false;
    uint32_t idx = random_below(num_flights);
    flight one = flights[idx];
    flights[idx] = flights[--num_flights];
    if (!one.is_write) {
        assert(pw_streams_arrived(nodes[one.peer].streams, one.source, one.message, 1) == PW_OK);
        return true;
    }
    bool has_failed = random_below(1024) < fail_in_1024;
    if (!has_failed) memcpy(nodes[one.peer].arena + one.offset, one.data, one.num_bytes);
    assert(pw_streams_written(nodes[one.source].streams, one.connection,
                              has_failed ? PW_ERR_UNRECOVERABLE : PW_OK) == PW_OK);
    return true;
}

static void settle(void)
{
    while (step()) {}
}

static void start(uint32_t new_seed)
{
    seed = new_seed;
    num_flights = refuse_in_8 = fail_in_1024 = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        nodes[i].node = i;
        memset(nodes[i].arena, 0xEE, sizeof nodes[i].arena);
        const pw_streams_options options = {i, NODES, SLOTS, RING, nodes[i].arena};
        const pw_streams_host host = {.context = &nodes[i], .write = write_to, .send = send_to};
        assert(pw_streams_create(&options, &host, &nodes[i].streams) == PW_OK);
    }
}

static void stop(void)
{
    for (uint32_t i = 0; i < NODES; i++) pw_streams_destroy(nodes[i].streams);
}

static pw_stream_facts facts_of(uint32_t node, uint32_t connection)
{
    pw_stream_facts facts;
    assert(pw_streams_look(nodes[node].streams, connection, &facts) == PW_OK);
    return facts;
}

static void connect_pair(uint32_t client, uint32_t server, uint32_t *near, uint32_t *far)
{
    uint16_t own_port = pw_streams_free_port(nodes[client].streams);
    assert(pw_streams_connect(nodes[client].streams, server, PORT, own_port, near) == PW_OK);
    settle();
    *far = pw_streams_accept(nodes[server].streams, PORT);
    assert(*far != PW_STREAM_NONE && facts_of(client, *near).state == PW_STREAM_OPEN);
    assert(facts_of(server, *far).peer_port == own_port && facts_of(server, *far).peer == client);
}

static uint8_t byte_at(uint32_t key, uint64_t position)
{
    return (uint8_t)((position * 2654435761u + key * 97u) >> 7);
}

static uint32_t put(uint32_t node, uint32_t connection, uint32_t key, uint64_t *position,
                    uint32_t most)
{
    uint8_t *data;
    uint32_t num_bytes = pw_streams_room(nodes[node].streams, connection, &data);
    if (num_bytes > most) num_bytes = most;
    if (!num_bytes) return 0;
    for (uint32_t i = 0; i < num_bytes; i++) data[i] = byte_at(key, *position + i);
    assert(pw_streams_queue(nodes[node].streams, connection, num_bytes) == PW_OK);
    *position += num_bytes;
    return num_bytes;
}

static uint32_t get(uint32_t node, uint32_t connection, uint32_t key, uint64_t *position,
                    uint32_t most)
{
    const uint8_t *data;
    int64_t time_ns;
    uint32_t num_bytes = pw_streams_here(nodes[node].streams, connection, &data, &time_ns);
    if (num_bytes > most) num_bytes = most;
    for (uint32_t i = 0; i < num_bytes; i++) assert(data[i] == byte_at(key, *position + i));
    if (num_bytes) assert(pw_streams_consume(nodes[node].streams, connection, num_bytes) == PW_OK);
    *position += num_bytes;
    return num_bytes;
}

static void full_queue_lets_wait_until_one_is_accepted(void)
{
    uint32_t near[5];
    start(2);
    assert(pw_streams_listen(nodes[1].streams, PORT, 2) == PW_OK);
    assert(pw_streams_listen(nodes[1].streams, PORT, 2) == PW_ERR_FULL);
    for (uint16_t i = 0; i < 5; i++) {
        assert(pw_streams_connect(nodes[0].streams, 1, PORT, (uint16_t)(5000 + i), &near[i]) ==
               PW_OK);
        settle();
        assert(facts_of(0, near[i]).state == (i < 2 ? PW_STREAM_OPEN : PW_STREAM_CONNECTING));
    }
    assert(pw_streams_called(nodes[1].streams) == PORT && !pw_streams_called(nodes[1].streams));
    uint32_t first = pw_streams_accept(nodes[1].streams, PORT);
    assert(facts_of(1, first).peer_port == 5000);
    assert(pw_streams_is_due(nodes[1].streams)); /* the third one's answer */
    settle();
    assert(!pw_streams_is_due(nodes[1].streams));
    assert(facts_of(0, near[2]).state == PW_STREAM_OPEN);
    assert(facts_of(0, near[3]).state == PW_STREAM_CONNECTING);
    assert(pw_streams_close(nodes[0].streams, near[3]) == PW_OK); /* it waits no longer */
    pw_streams_unlisten(nodes[1].streams, PORT);
    settle();
    assert(facts_of(0, near[0]).state == PW_STREAM_OPEN);
    assert(facts_of(0, near[1]).state == PW_STREAM_RESET);
    assert(facts_of(0, near[2]).state == PW_STREAM_RESET);
    assert(facts_of(0, near[4]).state == PW_STREAM_REFUSED);
    assert(pw_streams_close(nodes[0].streams, near[4]) == PW_OK);
    assert(pw_streams_close(nodes[0].streams, near[1]) == PW_OK);
    assert(pw_streams_close(nodes[0].streams, near[2]) == PW_OK);
    settle();
    assert(pw_streams_num_open(nodes[0].streams) == 1);
    assert(pw_streams_num_open(nodes[1].streams) == 1);
    stop();
}

static void sender_stops_at_a_full_ring_and_goes_on_after_credit(void)
{
    uint32_t near, far;
    uint64_t out = 0, in = 0;
    start(3);
    assert(pw_streams_listen(nodes[1].streams, PORT, 1) == PW_OK);
    connect_pair(0, 1, &near, &far);
    while (put(0, near, 1, &out, RING)) settle();
    assert(out == RING);
    assert(get(1, far, 1, &in, RING / 4 - 1) == RING / 4 - 1);
    settle();
    assert(!put(0, near, 1, &out, RING)); /* too little to tell of */
    assert(get(1, far, 1, &in, 1) == 1);
    settle();
    assert(put(0, near, 1, &out, RING) == RING / 4);
    stop();
}

static void data_for_who_has_closed_resets_the_writer(void)
{
    uint32_t near, far;
    uint64_t out = 0;
    start(5);
    assert(pw_streams_listen(nodes[1].streams, PORT, 1) == PW_OK);
    connect_pair(0, 1, &near, &far);
    assert(pw_streams_close(nodes[1].streams, far) == PW_OK);
    settle();
    assert(facts_of(0, near).is_ended && pw_streams_num_open(nodes[1].streams) == 1);
    assert(put(0, near, 1, &out, 10) == 10);
    settle();
    assert(facts_of(0, near).state == PW_STREAM_RESET);
    assert(pw_streams_close(nodes[0].streams, near) == PW_OK);
    settle();
    assert(!pw_streams_num_open(nodes[0].streams) && !pw_streams_num_open(nodes[1].streams));
    stop();
}

/* Else the late write would land in the ring of the slot's next connection. */
static void slot_of_a_reset_connection_is_free_after_the_last_write(void)
{
    uint32_t near, far;
    uint64_t out = 0;
    start(8);
    assert(pw_streams_listen(nodes[1].streams, PORT, 1) == PW_OK);
    connect_pair(0, 1, &near, &far);
    assert(put(0, near, 1, &out, 10) == 10 && num_flights == 1 && flights[0].is_write);
    const flight late = flights[0];
    num_flights = 0;
    assert(pw_streams_reset(nodes[1].streams, far) == PW_OK);
    assert(pw_streams_close(nodes[1].streams, far) == PW_OK);
    settle();
    assert(facts_of(0, near).state == PW_STREAM_RESET);
    assert(pw_streams_num_open(nodes[1].streams) == 1);
    flights[num_flights++] = late;
    settle();
    assert(pw_streams_num_open(nodes[1].streams) == 0);
    stop();
}

typedef struct {
    uint32_t node, connection, key_out, key_in;
    uint64_t out, in;
    uint64_t wanted; /* bytes to send */
    bool is_ended;
} user;

/* false: the connection was reset. */
static bool use(user *self, const user *peer)
{
    pw_streams *streams = nodes[self->node].streams;
    pw_stream_facts facts = facts_of(self->node, self->connection);
    if (facts.state == PW_STREAM_RESET) return false;
    if (random_below(2) && self->out < self->wanted) {
        uint64_t left = self->wanted - self->out;
        uint32_t most = 1 + random_below(RING);
        put(self->node, self->connection, self->key_out, &self->out,
            left < most ? (uint32_t)left : most);
    }
    if (self->out == self->wanted && !self->is_ended && random_below(4) == 0) {
        self->is_ended = true;
        assert(pw_streams_end(streams, self->connection) == PW_OK);
    }
    if (random_below(2))
        get(self->node, self->connection, self->key_in, &self->in, 1 + random_below(RING));
    assert(self->in <= peer->out);
    return true;
}

static void stress(uint32_t new_seed, uint32_t fail)
{
    user users[PAIRS][2];
    uint32_t num_resets = 0, rounds = 12;
    start(new_seed);
    refuse_in_8 = 3;
    fail_in_1024 = fail;
    for (uint32_t i = 0; i < NODES; i++)
        assert(pw_streams_listen(nodes[i].streams, PORT, SLOTS) == PW_OK);
    /* Slots are used again and again: names of earlier rounds must meet nobody. */
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < PAIRS; i++) {
            uint32_t client = i % NODES, server = (i + 1 + i / NODES) % NODES;
            users[i][0] = (user){.node = client, .key_out = i * 2 + 1, .key_in = i * 2 + 2};
            users[i][1] = (user){.node = server, .key_out = i * 2 + 2, .key_in = i * 2 + 1};
            users[i][0].wanted = random_below(3000);
            users[i][1].wanted = random_below(3000);
            connect_pair(client, server, &users[i][0].connection, &users[i][1].connection);
        }
        uint32_t num_active = PAIRS;
        bool is_over[PAIRS] = {false};
        for (uint64_t turn = 0; num_active; turn++) {
            assert(turn < 4000000); /* else they wait for each other */
            uint32_t i = random_below(PAIRS);
            if (is_over[i]) {
                step();
                continue;
            }
            bool is_whole = use(&users[i][0], &users[i][1]) && use(&users[i][1], &users[i][0]);
            step();
            if (is_whole &&
                !(users[i][0].is_ended && users[i][1].is_ended &&
                  users[i][0].in == users[i][1].out && users[i][1].in == users[i][0].out))
                continue;
            num_resets += !is_whole;
            is_over[i] = true;
            num_active--;
            for (uint32_t side = 0; side < 2; side++)
                assert(pw_streams_close(nodes[users[i][side].node].streams,
                                        users[i][side].connection) == PW_OK);
        }
        settle();
        for (uint32_t i = 0; i < NODES; i++) assert(pw_streams_num_open(nodes[i].streams) == 0);
    }
    assert((num_resets > 0) == (fail > 0));
    for (uint32_t i = 0; i < NODES; i++) {
        pw_streams_counters counters;
        pw_streams_read_counters(nodes[i].streams, &counters);
        assert(counters.malformed == 0 && counters.connections_made == rounds * PAIRS / NODES);
    }
    stop();
}

/* Words that no peer would send change no byte and break nothing. */
static void any_message_is_taken(void)
{
    uint32_t near, far;
    uint64_t out = 0, in = 0;
    start(7);
    assert(pw_streams_listen(nodes[1].streams, PORT, 4) == PW_OK);
    connect_pair(0, 1, &near, &far);
    for (uint32_t i = 0; i < 200000; i++) {
        uint64_t value = (uint64_t)random_below(1 << 20) << 16 | random_below(1 << 16);
        uint64_t word = (uint64_t)PW_STREAM_OPCODE << 60 | (uint64_t)random_below(16) << 56 |
                        (uint64_t)(random_below(2) ? far : random_below(1 << 20)) << 36 | value;
        /* From the third node: it is not the peer of this connection. */
        assert(pw_streams_arrived(nodes[1].streams, 2, word, 1) == PW_OK);
        num_flights = 0; /* what is answered */
    }
    assert(facts_of(1, far).state == PW_STREAM_OPEN);
    assert(put(0, near, 1, &out, 64) == 64);
    settle();
    assert(get(1, far, 1, &in, RING) == 64);
    for (uint32_t i = 0; i < 200000; i++) {
        uint64_t word = (uint64_t)PW_STREAM_OPCODE << 60 | (uint64_t)(1 + random_below(15)) << 56 |
                        (uint64_t)far << 36 | (uint64_t)random_below(1 << 20) << 16 |
                        random_below(1 << 16);
        const uint8_t *data;
        int64_t time_ns;
        assert(pw_streams_arrived(nodes[1].streams, 0, word, 1) == PW_OK);
        assert(pw_streams_here(nodes[1].streams, far, &data, &time_ns) <= RING);
        num_flights = 0;
    }
    stop();
}

int main(void)
{
    full_queue_lets_wait_until_one_is_accepted();
    sender_stops_at_a_full_ring_and_goes_on_after_credit();
    data_for_who_has_closed_resets_the_writer();
    slot_of_a_reset_connection_is_free_after_the_last_write();
    any_message_is_taken();
    for (uint32_t i = 0; i < 20; i++) {
        stress(100 + i, 0);
        stress(200 + i, 10);
    }
    return 0;
}
