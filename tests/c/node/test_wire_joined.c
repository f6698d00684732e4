/* The wire that joins nodes of one process: order, who has a buffer, and what a close leaves. */
#include "node/wires/wire.h"
#include <assert.h>

static void send_one(pw_wire *wire, uint32_t peer, uint8_t *data, uint32_t num_bytes)
{
    bool is_free = true;
    assert(wire->ops->send(wire, peer, data, num_bytes, &is_free) == PW_OK && !is_free);
}

static pw_wire_burst receive_one(pw_wire *wire, uint32_t source, const uint8_t *data)
{
    pw_wire_burst burst;
    assert(wire->ops->poll(wire, &burst) == 1);
    assert(burst.source == source && burst.data == data);
    return burst;
}

static void test_bursts_keep_their_order_and_go_back_when_taken(void)
{
    pw_wire *wires[3];
    uint8_t data[4];
    pw_wire_burst burst;
    assert(pw_wire_join(3, wires) == PW_OK);
    assert(wires[2]->node == 2 && wires[2]->num_nodes == 3);
    send_one(wires[0], 2, &data[0], 1);
    send_one(wires[1], 2, &data[1], 2);
    send_one(wires[0], 2, &data[2], 3);
    assert(wires[0]->ops->num_pending(wires[0]) == 2 && !wires[0]->ops->sent(wires[0]));
    const pw_wire_burst first = receive_one(wires[2], 0, &data[0]);
    assert(first.num_bytes == 1);
    burst = receive_one(wires[2], 1, &data[1]);
    wires[2]->ops->taken(wires[2], &burst);
    assert(wires[1]->ops->sent(wires[1]) == &data[1] && !wires[1]->ops->sent(wires[1]));
    burst = receive_one(wires[2], 0, &data[2]);
    assert(wires[2]->ops->poll(wires[2], &burst) == 0);
    assert(!wires[0]->ops->sent(wires[0])); /* both are still read */
    wires[2]->ops->taken(wires[2], &first);
    assert(wires[0]->ops->sent(wires[0]) == &data[0]);
    assert(wires[0]->ops->num_pending(wires[0]) == 1);
    wires[2]->ops->taken(wires[2], &burst);
    for (int i = 0; i < 3; i++) wires[i]->ops->close(wires[i]);
}

static void test_a_close_leaves_nobody_with_a_buffer_of_its_node(void)
{
    pw_wire *wires[3];
    uint8_t data[3];
    pw_wire_burst burst;
    bool is_free;
    assert(pw_wire_join(3, wires) == PW_OK);
    send_one(wires[0], 1, &data[0], 1);
    send_one(wires[2], 1, &data[1], 1);
    send_one(wires[1], 0, &data[2], 1);
    wires[0]->ops->close(wires[0]);
    assert(wires[1]->ops->sent(wires[1]) == &data[2]); /* nobody will read it */
    assert(wires[1]->ops->num_pending(wires[1]) == 0);
    burst = receive_one(wires[1], 2, &data[1]);
    wires[1]->ops->taken(wires[1], &burst);
    assert(wires[1]->ops->poll(wires[1], &burst) == 0);
    assert(wires[1]->ops->send(wires[1], 0, data, 1, &is_free) == PW_ERR_INVALID);
    assert(wires[1]->ops->send(wires[1], 3, data, 1, &is_free) == PW_ERR_INVALID);
    wires[1]->ops->close(wires[1]);
    wires[2]->ops->close(wires[2]);
    assert(pw_wire_join(0, wires) == PW_ERR_INVALID);
}

static bool note(void *context, uint32_t node, const pw_wire_burst *burst)
{
    uint32_t *told = context;
    told[node]++;
    return burst->num_bytes == 1;
}

static void test_who_watches_is_told_of_each_burst(void)
{
    pw_wire *wires[2];
    uint8_t data[2];
    uint32_t told[2] = {0, 0};
    assert(pw_wire_join(2, wires) == PW_OK);
    pw_wire_watch(wires[0], note, NULL, told);
    send_one(wires[0], 1, &data[0], 1);
    send_one(wires[1], 0, &data[1], 1);
    send_one(wires[1], 0, &data[1], 1);
    assert(told[0] == 2 && told[1] == 1);
    for (int i = 0; i < 2; i++) wires[i]->ops->close(wires[i]);
}

static uint32_t one_byte(const uint8_t *data, uint32_t num_bytes)
{
    (void)data;
    (void)num_bytes;
    return 1;
}

static void test_a_burst_in_pieces_goes_back_behind_the_last_of_them(void)
{
    pw_wire *wires[2];
    pw_wire_burst burst[2];
    uint8_t data[2] = {7, 8};
    uint32_t told[2] = {0, 0};
    bool is_free;
    assert(pw_wire_join(2, wires) == PW_OK);
    pw_wire_watch(wires[0], note, one_byte, told);
    assert(wires[0]->ops->send(wires[0], 1, data, 2, &is_free) == PW_OK && !is_free);
    assert(told[1] == 2 && wires[0]->ops->num_pending(wires[0]) == 1);
    for (int i = 0; i < 2; i++) {
        assert(wires[1]->ops->poll(wires[1], &burst[i]) == 1);
        assert(burst[i].num_bytes == 1 && burst[i].data == data + i);
    }
    wires[1]->ops->taken(wires[1], &burst[1]);
    assert(!wires[0]->ops->sent(wires[0]) && wires[0]->ops->num_pending(wires[0]) == 1);
    wires[1]->ops->taken(wires[1], &burst[0]);
    assert(wires[0]->ops->sent(wires[0]) == data && !wires[0]->ops->num_pending(wires[0]));
    for (int i = 0; i < 2; i++) wires[i]->ops->close(wires[i]);
}

static int carry(void *context, uint32_t node, const pw_wire_burst *burst)
{
    pw_wire_burst *carried = context;
    assert(node == 1);
    *carried = *burst;
    return PW_OK;
}

static void test_bursts_of_and_for_a_node_that_is_away_are_copied(void)
{
    pw_wire *wires[2];
    pw_wire_burst carried = {.num_bytes = 0}, burst;
    uint8_t data[2] = {7, 8}, answer[2] = {9, 10};
    bool is_free;
    assert(pw_wire_join(2, wires) == PW_OK);
    pw_wire_set_away(wires[1], carry, &carried);
    assert(wires[0]->ops->send(wires[0], 1, data, 2, &is_free) == PW_OK && is_free);
    assert(carried.source == 0 && carried.num_bytes == 2 && carried.data == data);
    const pw_wire_burst brought = {.source = 1, .num_bytes = 2, .data = answer};
    assert(pw_wire_bring(wires[0], &brought) == PW_OK);
    answer[0] = 0;
    assert(wires[0]->ops->poll(wires[0], &burst) == 1);
    assert(burst.source == 1 && burst.num_bytes == 2 && burst.data[0] == 9);
    wires[0]->ops->taken(wires[0], &burst);
    const pw_wire_burst of_nobody = {.source = 0, .num_bytes = 2, .data = answer};
    assert(pw_wire_bring(wires[0], &of_nobody) == PW_ERR_INVALID);
    for (int i = 0; i < 2; i++) wires[i]->ops->close(wires[i]);
}

int main(void)
{
    test_bursts_keep_their_order_and_go_back_when_taken();
    test_a_close_leaves_nobody_with_a_buffer_of_its_node();
    test_who_watches_is_told_of_each_burst();
    test_a_burst_in_pieces_goes_back_behind_the_last_of_them();
    test_bursts_of_and_for_a_node_that_is_away_are_copied();
    return 0;
}
