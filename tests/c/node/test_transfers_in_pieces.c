/* Messages that are longer than a transfer: they go in pieces, one after the other, and to the
 * program each is one message. Tests set how long a transfer can be, but for the last. */
#include "tests/c/node/message_nodes.h"

#define TRANSFER_BYTES (UINT64_C(4) * PW_BLOCK_BYTES)
#define LONG_BYTES (3 * TRANSFER_BYTES - 777)
#define EAGER_BYTES 64

static void begin_with(joined *all, const char *strategy)
{
    const char *const defaults[] = {"run.compute=none", NULL};
    pw_sentence reason;
    prepare(all, 2);
    all->opening.transfer_max_bytes = TRANSFER_BYTES;
    if (strategy) {
        assert(pw_node_config_of_texts(defaults, &all->config, &reason) == PW_OK);
        all->opening.strategy = pw_strategy_find(strategy);
    }
    create(all);
}

static pw_counters counters_of(const joined *all, uint32_t node)
{
    pw_counters counters;
    pw_ni_read_counters(pw_node_ni(all->nodes[node]), &counters);
    return counters;
}

/* ---- transfers */

/* Node 1 reads from node 0, without a lease, from at_ns on; when it is over. */
static int64_t read_at(joined *all, const uint8_t *source, const uint8_t *destination,
                       uint64_t num_bytes, int64_t at_ns)
{
    pw_handle *exposed, *fetched;
    assert(pw_node_expose(all->nodes[0], 1, address_of(source), num_bytes, &exposed) == PW_OK);
    assert(pw_node_fetch(all->nodes[1], 0, exposed->address, exposed->key, address_of(destination),
                         num_bytes, at_ns, NULL, &fetched) == PW_OK);
    finish(all, fetched);
    finish(all, exposed);
    assert(fetched->error == PW_OK && exposed->error == PW_OK);
    const int64_t complete_ns = fetched->complete_ns;
    pw_node_free_handle(all->nodes[1], fetched);
    pw_node_free_handle(all->nodes[0], exposed);
    return complete_ns;
}

/* As long as reads of the pieces, each posted when the one before was over. */
static void test_pieces_take_the_time_of_one_after_the_other(void)
{
    const uint64_t rest_bytes = LONG_BYTES - 2 * TRANSFER_BYTES;
    const uint8_t *source = make_pattern(LONG_BYTES), *destination = make_pattern(LONG_BYTES);
    joined all;
    begin_with(&all, NULL);
    const int64_t whole_ns = read_at(&all, source, destination, LONG_BYTES, 1000);
    assert(counters_of(&all, 0).transfers == 3);
    assert(counters_of(&all, 0).blocks == 12);
    end(&all);
    begin_with(&all, NULL);
    int64_t at_ns = 1000;
    for (uint64_t i = 0; i < 2; i++)
        at_ns = read_at(&all, source + i * TRANSFER_BYTES, destination + i * TRANSFER_BYTES,
                        TRANSFER_BYTES, at_ns);
    at_ns = read_at(&all, source + 2 * TRANSFER_BYTES, destination + 2 * TRANSFER_BYTES, rest_bytes,
                    at_ns);
    assert(whole_ns == at_ns);
    end(&all);
}

/* Where the destination begins within a block, the first piece ends with one: no block more. */
static void test_pieces_end_where_blocks_end(void)
{
    const uint64_t num_bytes = LONG_BYTES - 100;
    uint8_t *source = make_pattern(num_bytes), *destination = make_buffer(LONG_BYTES) + 100;
    for (uint64_t max_bytes = TRANSFER_BYTES; max_bytes <= 4 * TRANSFER_BYTES; max_bytes *= 4) {
        joined all;
        prepare(&all, 2);
        all.opening.transfer_max_bytes = max_bytes;
        create(&all);
        memset(destination, 0, num_bytes);
        read_at(&all, source, destination, num_bytes, 0);
        assert(memcmp(source, destination, num_bytes) == 0);
        assert(counters_of(&all, 0).transfers == (max_bytes == TRANSFER_BYTES ? 3 : 1));
        assert(counters_of(&all, 0).blocks == 12);
        end(&all);
    }
}

/* A region whose last read is under way admits no further one. */
static void test_only_the_last_read_ends_a_region(void)
{
    const uint8_t *source = make_pattern(3 * PW_PAGE_BYTES),
                  *destination = make_pattern(PW_PAGE_BYTES);
    uint64_t ids[3];
    pw_handle *exposed, *fetched[3];
    joined all;
    begin_with(&all, NULL);
    assert(pw_node_expose(all.nodes[0], 1, address_of(source), 3 * PW_PAGE_BYTES, &exposed) ==
           PW_OK);
    for (uint32_t i = 0; i < 3; i++) {
        assert(pw_ni_fetch_piece(pw_node_ni(all.nodes[1]), 1, 0,
                                 address_of(source) + i * PW_PAGE_BYTES, exposed->key,
                                 address_of(destination), PW_PAGE_BYTES, i == 1, 0,
                                 &ids[i]) == PW_OK);
        assert(pw_node_started(all.nodes[1], ids[i], 0, &fetched[i]) == PW_OK);
    }
    for (int i = 0; i < 3; i++) finish(&all, fetched[i]);
    finish(&all, exposed);
    assert(fetched[0]->error == PW_OK && fetched[1]->error == PW_OK && exposed->error == PW_OK);
    assert(fetched[2]->error == PW_ERR_PROTECTION);
    end(&all);
}

/* ---- messages */

typedef struct {
    joined all;
    pw_messages messages[2];
    pw_operation *sent, *receive;
} fixture;

static fixture *open_fixture(const char *strategy)
{
    fixture *self = calloc(1, sizeof *self);
    assert(self);
    begin_with(&self->all, strategy);
    for (int i = 0; i < 2; i++) open_messages(&self->messages[i], self->all.nodes[i], EAGER_BYTES);
    return self;
}

static void close_fixture(fixture *self)
{
    while (turn_all(&self->all) > 0) {} /* ends that the other one is told of */
    if (self->sent) pw_operation_free(&self->messages[0], self->sent);
    if (self->receive) pw_operation_free(&self->messages[1], self->receive);
    for (int i = 0; i < 2; i++) {
        assert(!self->messages[i].sends.head && !pw_node_under_way(self->all.nodes[i]));
        assert(pw_ni_num_pending(pw_node_ni(self->all.nodes[i])) == 0);
        pw_messages_close(&self->messages[i]);
    }
    end(&self->all);
    free(self);
}

static void send_and_receive(fixture *self, const uint8_t *data, uint64_t num_bytes, uint8_t *room,
                             uint64_t capacity_bytes)
{
    const pw_message_header header = {.tag = 7};
    pw_operation *sent = pw_operation_new(&self->messages[0], PW_OPERATION_SEND);
    sent->peer = 1;
    sent->address = address_of(data);
    sent->num_bytes = sent->capacity_bytes = num_bytes;
    assert(pw_messages_send_exposed(&self->messages[0], sent, &header) == PW_OK);
    pw_operation *receive = pw_operation_new(&self->messages[1], PW_OPERATION_RECEIVE);
    receive->tag = 7;
    receive->peer = PW_ANY_NODE;
    receive->address = address_of(room);
    receive->capacity_bytes = capacity_bytes;
    assert(pw_operation_acquire(&self->messages[1], receive) == PW_OK);
    assert(pw_messages_post(&self->messages[1], receive) == PW_OK);
    for (int turns = 0; !sent->done || !receive->done; turns++)
        assert(turn_all(&self->all) >= 0 && turns < 100000);
    self->sent = sent;
    self->receive = receive;
}

/* pin-all locks all of the process, which a sanitizer's shadow memory makes too large. */
static void test_every_strategy_moves_a_message_in_pieces(void)
{
    const uint8_t *data = make_pattern(LONG_BYTES);
    const pw_strategy_ops *strategy;
    for (uint32_t i = 0; (strategy = pw_strategy_at(i)); i++) {
        if (!strcmp(strategy->name, "pin-all")) continue;
        fixture *self = open_fixture(strategy->name);
        uint8_t *room = make_buffer(LONG_BYTES);
        send_and_receive(self, data, LONG_BYTES, room, LONG_BYTES);
        assert(!self->sent->error && !self->receive->error);
        assert(self->receive->num_bytes == LONG_BYTES);
        assert(memcmp(data, room, LONG_BYTES) == 0);
        assert(counters_of(&self->all, 0).transfers >= 3);
        close_fixture(self);
    }
}

/* The buffer is leased once for all of them. */
static void test_a_message_has_one_lease_at_each_end(void)
{
    fixture *self = open_fixture(NULL);
    send_and_receive(self, make_pattern(LONG_BYTES), LONG_BYTES, make_buffer(LONG_BYTES),
                     LONG_BYTES);
    for (int i = 0; i < 2; i++) {
        const counted *strategy = &self->all.strategies[i];
        assert(strategy->num_acquired == 1 && strategy->num_released == 1);
    }
    assert(counters_of(&self->all, 0).rdma_messages == 1);
    assert(counters_of(&self->all, 0).rdma_bytes == LONG_BYTES);
    close_fixture(self);
}

static void test_a_receive_that_is_too_short_takes_what_it_holds(void)
{
    const uint64_t capacities[] = {0, 1000, TRANSFER_BYTES, 2 * TRANSFER_BYTES};
    const uint64_t num_transfers[] = {1, 1, 1, 2};
    const uint8_t *data = make_pattern(LONG_BYTES);
    for (int i = 0; i < 4; i++) {
        fixture *self = open_fixture(NULL);
        uint8_t *room = make_buffer(LONG_BYTES);
        send_and_receive(self, data, LONG_BYTES, room, capacities[i]);
        assert(!self->sent->error && !self->receive->error);
        assert(pw_operation_is_truncated(self->receive));
        assert(self->receive->num_bytes == capacities[i]);
        assert(self->receive->message_bytes == LONG_BYTES);
        assert(memcmp(data, room, capacities[i]) == 0 && room[capacities[i]] == 0);
        assert(counters_of(&self->all, 0).transfers == num_transfers[i]);
        close_fixture(self);
    }
}

static void test_a_piece_that_fails_ends_the_message(void)
{
    fixture *self = open_fixture(NULL);
    uint8_t *room = make_buffer(LONG_BYTES);
    assert(munmap(room + TRANSFER_BYTES + PW_BLOCK_BYTES, PW_BLOCK_BYTES) == 0);
    send_and_receive(self, make_pattern(LONG_BYTES), LONG_BYTES, room, LONG_BYTES);
    assert(self->receive->error == PW_ERR_ADDRESS && self->sent->error == PW_ERR_ADDRESS);
    assert(counters_of(&self->all, 0).transfers == 2);
    assert(self->all.strategies[0].num_released == 1 && self->all.strategies[1].num_released == 1);
    close_fixture(self);
}

/* ---- one-sided */

/* Between memory of node 1 and memory of node 0 that peers may use, as the kind says. */
static pw_operation *start_one_sided(fixture *self, uint8_t kind, const uint8_t *here,
                                     const uint8_t *there, uint64_t key)
{
    pw_operation *made = pw_operation_new(&self->messages[1], kind);
    made->peer = 0;
    made->address = address_of(here);
    made->num_bytes = LONG_BYTES;
    made->remote_address = address_of(there);
    made->remote_key = key;
    assert(pw_messages_transfer(&self->messages[1], made) == PW_OK);
    return made;
}

static void end_one_sided(fixture *self, pw_operation *started, int error)
{
    for (int turns = 0; !started->done; turns++)
        assert(turn_all(&self->all) >= 0 && turns < 100000);
    assert(started->error == error && !started->has_lease);
    pw_operation_free(&self->messages[1], started);
}

static uint64_t show(fixture *self, const uint8_t *memory)
{
    uint64_t key;
    assert(pw_ni_register(pw_node_ni(self->all.nodes[0]), address_of(memory), LONG_BYTES,
                          PW_REMOTE_READ | PW_REMOTE_WRITE, &key) == PW_OK);
    return key;
}

static void test_reads_and_writes_of_a_peers_memory_go_in_pieces(void)
{
    fixture *self = open_fixture(NULL);
    const uint8_t *data = make_pattern(LONG_BYTES);
    uint8_t *written = make_buffer(LONG_BYTES), *read = make_buffer(LONG_BYTES);
    const uint64_t key = show(self, written);
    end_one_sided(self, start_one_sided(self, PW_OPERATION_WRITE, data, written, key), PW_OK);
    assert(memcmp(data, written, LONG_BYTES) == 0 && counters_of(&self->all, 1).transfers == 3);
    end_one_sided(self, start_one_sided(self, PW_OPERATION_READ, read, written, key), PW_OK);
    assert(memcmp(data, read, LONG_BYTES) == 0 && counters_of(&self->all, 0).transfers == 3);
    const counted *strategy = &self->all.strategies[1];
    assert(strategy->num_acquired == 2 && strategy->num_released == 2);
    assert(pw_ni_unexpose(pw_node_ni(self->all.nodes[0]), key) == PW_OK);
    close_fixture(self);
}

/* More than there are channels: those that go on wait for one like those that begin. */
static void test_many_writes_in_pieces_share_the_channels(void)
{
    fixture *self = open_fixture(NULL);
    const uint8_t *data = make_pattern(LONG_BYTES);
    uint8_t *written = make_buffer(LONG_BYTES);
    const uint64_t key = show(self, written);
    pw_operation *started[2 * PW_WRITE_CHANNELS];
    for (uint32_t i = 0; i < 2 * PW_WRITE_CHANNELS; i++)
        started[i] = start_one_sided(self, PW_OPERATION_WRITE, data, written, key);
    for (uint32_t i = 0; i < 2 * PW_WRITE_CHANNELS; i++) end_one_sided(self, started[i], PW_OK);
    assert(counters_of(&self->all, 1).transfers == 3 * 2 * PW_WRITE_CHANNELS);
    assert(memcmp(data, written, LONG_BYTES) == 0);
    assert(pw_ni_unexpose(pw_node_ni(self->all.nodes[0]), key) == PW_OK);
    close_fixture(self);
}

static void test_a_piece_of_a_write_that_fails_ends_it(void)
{
    fixture *self = open_fixture(NULL);
    uint8_t *written = make_buffer(LONG_BYTES);
    const uint64_t key = show(self, written);
    assert(munmap(written + TRANSFER_BYTES, PW_BLOCK_BYTES) == 0);
    end_one_sided(self,
                  start_one_sided(self, PW_OPERATION_WRITE, make_pattern(LONG_BYTES), written, key),
                  PW_ERR_ADDRESS);
    assert(counters_of(&self->all, 1).transfers == 2);
    assert(self->all.strategies[1].num_released == 1);
    assert(pw_ni_unexpose(pw_node_ni(self->all.nodes[0]), key) == PW_OK);
    close_fixture(self);
}

/* Of nodes without bytes, at the machine's own limit. */
static void test_a_message_above_4_gib_goes_in_two_transfers(void)
{
    const uint64_t num_bytes = PW_TRANSFER_MAX_BYTES + 12345;
    const uint8_t *source = (const uint8_t *)(UINT64_C(1) << 40), *destination = source + num_bytes;
    joined all;
    prepare(&all, 2);
    all.config.settings.memory_backend = PW_MEMORY_MODEL;
    all.config.settings.model_fault_millionths = 0;
    all.opening.has_no_bytes = true;
    create(&all);
    const int64_t end_ns = read_at(&all, source, destination, num_bytes, 0);
    const int64_t link_ns = (int64_t)num_bytes * 8000 / platform_costs.link_mbps; /* bytes alone */
    assert(end_ns > link_ns);
    assert(counters_of(&all, 0).transfers == 2);
    end(&all);
}

int main(void)
{
    test_pieces_take_the_time_of_one_after_the_other();
    test_pieces_end_where_blocks_end();
    test_only_the_last_read_ends_a_region();
    test_every_strategy_moves_a_message_in_pieces();
    test_a_message_has_one_lease_at_each_end();
    test_a_receive_that_is_too_short_takes_what_it_holds();
    test_a_piece_that_fails_ends_the_message();
    test_reads_and_writes_of_a_peers_memory_go_in_pieces();
    test_many_writes_in_pieces_share_the_channels();
    test_a_piece_of_a_write_that_fails_ends_it();
    test_a_message_above_4_gib_goes_in_two_transfers();
    return 0;
}
