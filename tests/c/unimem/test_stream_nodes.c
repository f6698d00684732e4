/* Stream connections on joined nodes: real bytes by RDMA writes, with page faults and losses. */
#include "unimem/streams/stream_nodes.h"
#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS 4
#define PORT 80

typedef struct {
    pw_stream_nodes *all;
    pagewire_node *nodes[2];
    uint8_t *arenas[2];
    size_t arena_bytes;
    pw_node_streams *ends[2];
    uint32_t connection[2];
} joined_streams;

static void move_both(joined_streams *self)
{
    for (int i = 0; i < 2; i++) assert(pw_node_streams_move(self->ends[i]) >= 0);
}

static pw_streams *streams_of(joined_streams *self, int i)
{
    return pw_stream_nodes_streams(self->all, (uint32_t)i);
}

static joined_streams start(const char *const *settings, uint32_t ring_bytes)
{
    joined_streams made = {.arena_bytes = pw_streams_arena_bytes(SLOTS, ring_bytes)};
    const char *const *const both[2] = {settings, settings};
    const pw_stream_nodes_options options = {
        .num_nodes = 2, .num_slots = SLOTS, .ring_bytes = ring_bytes, .settings = both};
    char reason[512];
    assert(pw_stream_nodes_create(&options, reason, sizeof reason, &made.all) == PW_OK);
    for (uint32_t i = 0; i < 2; i++) {
        made.nodes[i] = pw_stream_nodes_door(made.all, i);
        made.ends[i] = pw_stream_nodes_on_node(made.all, i);
    }
    assert(pw_streams_listen(streams_of(&made, 1), PORT, 1) == PW_OK);
    assert(pw_streams_connect(streams_of(&made, 0), 1, PORT, 50000, &made.connection[0]) == PW_OK);
    while (!(made.connection[1] = pw_streams_accept(streams_of(&made, 1), PORT))) move_both(&made);
    pw_stream_facts facts;
    do {
        move_both(&made);
        assert(pw_streams_look(streams_of(&made, 0), made.connection[0], &facts) == PW_OK);
    } while (facts.state == PW_STREAM_CONNECTING);
    for (int i = 0; i < 2; i++) { /* the first slot's ring out is behind its ring in */
        assert(pw_streams_room(streams_of(&made, i), made.connection[i], &made.arenas[i]));
        made.arenas[i] -= ring_bytes;
    }
    return made;
}

static uint8_t byte_at(int side, uint64_t position)
{
    return (uint8_t)((position * 2654435761u + (unsigned)side * 97u) >> 9);
}

/* Both ways at once, in pieces of random size, each until its end. */
static void both_ways(const char *const *settings, uint32_t ring_bytes, uint64_t num_bytes,
                      const char *counter)
{
    joined_streams s = start(settings, ring_bytes);
    uint64_t out[2] = {0}, in[2] = {0}, num_counted = 0;
    uint32_t seed = ring_bytes;
    bool is_ended = false;
    while (!is_ended) {
        is_ended = true;
        for (int i = 0; i < 2; i++) {
            uint8_t *room;
            const uint8_t *data;
            pw_stream_facts facts;
            seed = seed * 1664525 + 1013904223;
            uint32_t most = 1 + (seed >> 8) % ring_bytes;
            uint32_t step = pw_streams_room(streams_of(&s, i), s.connection[i], &room);
            if (step > most) step = most;
            if (step > num_bytes - out[i]) step = (uint32_t)(num_bytes - out[i]);
            for (uint32_t k = 0; k < step; k++) room[k] = byte_at(i, out[i] + k);
            if (step) {
                assert(pw_streams_queue(streams_of(&s, i), s.connection[i], step) == PW_OK);
                out[i] += step;
                if (out[i] == num_bytes)
                    assert(pw_streams_end(streams_of(&s, i), s.connection[i]) == PW_OK);
            }
            step = pw_node_streams_here(s.ends[i], s.connection[i], &data);
            if (step > most) step = most;
            for (uint32_t k = 0; k < step; k++) assert(data[k] == byte_at(1 - i, in[i] + k));
            assert(pw_streams_consume(streams_of(&s, i), s.connection[i], step) == PW_OK);
            in[i] += step;
            assert(pw_streams_look(streams_of(&s, i), s.connection[i], &facts) == PW_OK);
            assert(facts.state != PW_STREAM_RESET);
            is_ended = is_ended && facts.is_ended && in[i] == num_bytes;
        }
        move_both(&s);
    }
    for (int i = 0; i < 2; i++) {
        pw_streams_counters counters;
        pw_streams_read_counters(streams_of(&s, i), &counters);
        assert(counters.bytes_out == num_bytes && counters.bytes_in == num_bytes);
        assert(counters.malformed == 0 && counters.writes >= num_bytes / ring_bytes);
        assert(pagewire_clock_ns(s.nodes[i]) > 0);
        if (counter) {
            uint64_t value;
            assert(pagewire_read_counter(s.nodes[i], counter, &value) == PAGEWIRE_OK);
            num_counted += value;
        }
        assert(pw_streams_close(streams_of(&s, i), s.connection[i]) == PW_OK);
    }
    while (pw_streams_num_open(streams_of(&s, 0)) || pw_streams_num_open(streams_of(&s, 1)))
        move_both(&s);
    assert(!counter || num_counted > 0);
    pw_stream_nodes_destroy(s.all);
}

/* Who sleeps while all is quiet misses nothing: then moving the nodes changes nothing, also where a
 * connection has both ends at one node and where messages go out after the receiver had its turn.
 */
static void nothing_happens_while_all_is_quiet(void)
{
    const char *const settings[] = {"run.compute=model", "run.memory=part", NULL};
    joined_streams s = start(settings, 4096);
    uint32_t own[2], seed = 1;
    uint64_t num_quiet = 0, num_in = 0;
    pw_stream_facts facts;
    assert(pw_streams_connect(streams_of(&s, 1), 1, PORT, 50001, &own[0]) == PW_OK);
    assert(!pw_stream_nodes_are_quiet(s.all)); /* the message is on its way */
    do move_both(&s);
    while (!pw_stream_nodes_are_quiet(s.all));
    own[1] = pw_streams_accept(streams_of(&s, 1), PORT);
    assert(own[1] != PW_STREAM_NONE);
    const struct {
        int node;
        uint32_t connection;
    } ends[4] = {{0, s.connection[0]}, {1, s.connection[1]}, {1, own[0]}, {1, own[1]}};
    for (uint32_t step = 0; num_quiet < 300; step++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t idx = seed >> 16 & 3;
        pw_streams *streams = streams_of(&s, ends[idx].node);
        const uint8_t *data;
        uint8_t *room;
        /* Its user does something, seldom: the last step is the nodes' own. */
        uint32_t most = pw_streams_room(streams, ends[idx].connection, &room);
        if (step % 5 == 0 && most) {
            memset(room, 1, most);
            assert(pw_streams_queue(streams, ends[idx].connection, most) == PW_OK);
        }
        uint32_t here = pw_node_streams_here(s.ends[ends[idx].node], ends[idx].connection, &data);
        assert(pw_streams_consume(streams, ends[idx].connection, here) == PW_OK);
        num_in += here;
        if (pw_stream_nodes_are_quiet(s.all)) {
            num_quiet++;
            for (int pass = 0; pass < 3; pass++)
                for (int i = 0; i < 2; i++) assert(pw_node_streams_move(s.ends[i]) == 0);
        } else move_both(&s);
    }
    assert(num_in > 100000);
    for (int i = 0; i < 4; i++) {
        assert(pw_streams_look(streams_of(&s, ends[i].node), ends[i].connection, &facts) == PW_OK);
        assert(facts.state == PW_STREAM_OPEN);
    }
    pw_stream_nodes_destroy(s.all);
}

/* The bytes of a write whose destination is gone never come: both users learn it. */
static void failed_write_resets_both_sides(void)
{
    const char *const settings[] = {"run.compute=model", NULL};
    joined_streams s = start(settings, 4096);
    pw_stream_facts facts = {.state = PW_STREAM_OPEN};
    uint8_t *room;
    assert(munmap(s.arenas[1], s.arena_bytes) == 0);
    assert(pw_streams_room(streams_of(&s, 0), s.connection[0], &room) > 0);
    room[0] = 1;
    assert(pw_streams_queue(streams_of(&s, 0), s.connection[0], 1) == PW_OK);
    for (int i = 0; i < 2; i++) {
        do {
            move_both(&s);
            assert(pw_streams_look(streams_of(&s, i), s.connection[i], &facts) == PW_OK);
        } while (facts.state != PW_STREAM_RESET);
    }
    pw_stream_nodes_destroy(s.all);
}

/* A ring is registered for as long as its connection lasts: pinned at set-up, then unpinned. */
static void rings_are_registered_memory(void)
{
    const char *const settings[] = {"run.compute=model", "run.memory=pin",
                                    "memory_backend.backend=model",
                                    "memory_backend.fault_fraction=1", NULL};
    const uint32_t ring_bytes = 8192;
    joined_streams s = start(settings, ring_bytes);
    for (int i = 0; i < 2; i++) {
        pw_memory *memory = pw_node_memory(pw_door_node(s.nodes[i]));
        uint64_t page = pw_page_of((uintptr_t)s.arenas[i]);
        assert(pw_memory_is_pinned(memory, page, 2) == 1);
        assert(pw_memory_is_pinned(memory, page + 2, 1) == 0);
        assert(pw_streams_close(streams_of(&s, i), s.connection[i]) == PW_OK);
    }
    while (pw_streams_num_open(streams_of(&s, 0)) || pw_streams_num_open(streams_of(&s, 1)))
        move_both(&s);
    for (int i = 0; i < 2; i++)
        assert(pw_memory_is_pinned(pw_node_memory(pw_door_node(s.nodes[i])),
                                   pw_page_of((uintptr_t)s.arenas[i]), 1) == 0);
    pw_stream_nodes_destroy(s.all);
}

/* What arrives is taken in the order of virtual time, and the clock goes along. */
static void events_are_taken_in_order(void)
{
    const char *const settings[] = {"run.compute=model", NULL};
    joined_streams s = start(settings, 4096);
    uint8_t *room;
    assert(pw_streams_room(streams_of(&s, 0), s.connection[0], &room) == 4096);
    memset(room, 1, 4096);
    for (int i = 0; i < 4; i++)
        assert(pw_streams_queue(streams_of(&s, 0), s.connection[0], 1024) == PW_OK);
    int64_t last_ns[2] = {0};
    int num_taken = 0;
    for (uint32_t node; pw_stream_nodes_step(s.all, &node) > 0; num_taken++) {
        assert(pagewire_clock_ns(s.nodes[node]) >= last_ns[node]);
        last_ns[node] = pagewire_clock_ns(s.nodes[node]);
    }
    assert(num_taken >= 4);
    pw_stream_nodes_destroy(s.all);
}

int main(void)
{
    const char *const part[] = {"run.compute=model", "run.memory=part",
                                "impairments.packet_loss=1:50:7", NULL};
    const char *const pinned[] = {"run.compute=model", "run.memory=pin-cache", NULL};
    both_ways(part, 65536, 1000000, "translation_faults_destination");
    both_ways(part, 4096, 50000, NULL);
    both_ways(pinned, 1024, 20000, NULL);
    failed_write_resets_both_sides();
    rings_are_registered_memory();
    events_are_taken_in_order();
    nothing_happens_while_all_is_quiet();
    return 0;
}
