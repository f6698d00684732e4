/* A node's transfers. Virtual times are those of the same steps on the node in Python, which this
 * one replaced: a message of 1 MiB from node 0 to node 1, and from a node to itself. */
#include "tests/c/node/node_pair.h"

static void check_times(const joined *all, const message *sent, int64_t exposed_ns,
                        int64_t fetched_ns, int64_t source_now_ns, int64_t destination_now_ns)
{
    uint32_t last = all->num_nodes - 1;
    assert(sent->exposed->complete_ns == exposed_ns);
    assert(sent->fetched->complete_ns == fetched_ns);
    assert(pw_node_clock(all->nodes[0])->now_ns == source_now_ns);
    assert(pw_node_clock(all->nodes[last])->now_ns == destination_now_ns);
}

static void test_messages_take_the_times_of_the_python_node(void)
{
    joined all;
    begin(&all, 2);
    message resident = start_message(&all, 0, 1, MEGABYTE, true);
    assert(pw_node_under_way(all.nodes[0]) == resident.exposed);
    assert(pw_node_under_way(all.nodes[1]) == resident.fetched && resident.fetched->is_fetch);
    assert(resident.fetched->num_bytes == MEGABYTE && resident.fetched->peer == 0);
    finish_message(&all, &resident, 0, 1);
    check_times(&all, &resident, 581382, 580492, 581517, 580627);
    assert(pw_node_clock(all.nodes[0])->mpi_ns == 581517);
    assert(!pw_node_under_way(all.nodes[0]) && !pw_node_under_way(all.nodes[1]));
    forget_message(&all, &resident, 0, 1);
    end(&all);

    begin(&all, 2); /* without translations of the first one's pages */
    message absent = start_message(&all, 0, 1, MEGABYTE, false);
    finish_message(&all, &absent, 0, 1);
    check_times(&all, &absent, 6551654, 6550764, 6551789, 6550899);
    forget_message(&all, &absent, 0, 1);

    pw_node_counters counters;
    pw_node_read_counters(all.nodes[1], &counters);
    assert(counters.touch_ns == TOUCH_NS && counters.pin_ns == PIN_NS + UNPIN_NS);
    for (int i = 0; i < 2; i++) {
        assert(all.strategies[i].num_acquired == 1 && all.strategies[i].num_released == 1);
        assert(pw_ni_num_pending(pw_node_ni(all.nodes[i])) == 0);
    }
    end(&all);
}

static void test_a_node_sends_to_itself_without_the_wire(joined *all)
{
    message sent = start_message(all, 0, 0, MEGABYTE, true);
    finish_message(all, &sent, 0, 0);
    check_times(all, &sent, 564343, 563603, 564478, 564478); /* no line code */
}

static void test_a_read_that_the_region_does_not_admit_is_refused(joined *all)
{
    uint8_t *source = make_pattern(PW_PAGE_BYTES), *destination = make_pattern(PW_PAGE_BYTES);
    pw_handle *exposed, *fetched;
    assert(pw_node_expose(all->nodes[0], 1, address_of(source), PW_PAGE_BYTES, &exposed) == PW_OK);
    assert(pw_node_fetch(all->nodes[2], 0, address_of(source), exposed->key,
                         address_of(destination), PW_PAGE_BYTES, 0, NULL, &fetched) == PW_OK);
    finish(all, fetched);
    assert(fetched->error == PW_ERR_PROTECTION && !exposed->done);
}

static void test_what_cannot_be_posted_is_refused_with_a_reason(joined *all)
{
    pw_node *node = all->nodes[0];
    pw_handle *handle = NULL;
    assert(pw_node_expose(node, 2, PW_PAGE_BYTES, 1, &handle) == PW_ERR_INVALID);
    assert(all->strategies[0].num_acquired == 1 && all->strategies[0].num_released == 1);
    assert(pw_node_fetch(node, 1, UINT64_MAX, 1, PW_PAGE_BYTES, 16, 0, NULL, &handle) ==
           PW_ERR_ADDRESS);
    assert(strstr(pw_node_reason(node), "read of 16 bytes from node 1"));
    all->strategies[0].fails = PW_ERR_FULL;
    assert(pw_node_expose(node, 1, PW_PAGE_BYTES, 1, &handle) == PW_ERR_FULL);
    assert(strstr(pw_node_reason(node), "memory strategy counted"));
    assert(handle == NULL && !pw_node_under_way(node));
    uint8_t frame[PW_ENVELOPE_BYTES];
    assert(pw_node_write_message(node, 2, PW_MESSAGE_RENDEZVOUS, 0, 0, 0, frame) == 0);
    assert(pw_node_write_message(node, 1, PW_MESSAGE_EAGER, 0, UINT32_MAX, 0, frame) == 0);
}

static void test_nothing_is_acquired_for_nothing(joined *all)
{
    pw_handle *exposed, *fetched;
    assert(pw_node_expose(all->nodes[0], 1, 0, 0, &exposed) == PW_OK);
    assert(pw_node_clock(all->nodes[0])->now_ns == 0);
    assert(pw_node_fetch(all->nodes[1], 0, 0, exposed->key, 0, 0, 0, NULL, &fetched) == PW_OK);
    finish(all, fetched);
    finish(all, exposed);
    assert(fetched->error == PW_OK && exposed->error == PW_OK);
    assert(all->strategies[0].num_acquired == 0 && all->strategies[0].num_released == 0);
}

static void test_a_lease_that_comes_to_nothing_is_released_by_the_cpu(joined *all)
{
    pw_node *node = all->nodes[0];
    pw_lease lease;
    assert(pw_node_acquire(node, (pw_span){4096, 10}, PW_ACCESS_WRITE, &lease) == PW_OK);
    assert(lease.token == PW_ACCESS_WRITE + 1);
    assert(pw_node_clock(node)->now_ns == TOUCH_NS + PIN_NS);
    assert(pw_node_release(node, &lease) == PW_OK);
    assert(pw_node_clock(node)->now_ns == TOUCH_NS + PIN_NS + UNPIN_NS);
    all->strategies[0].release_cost.pin_ns = -1;
    assert(pw_node_release(node, &lease) == PW_ERR_INVALID);
    assert(pw_node_clock(node)->now_ns == TOUCH_NS + PIN_NS + UNPIN_NS);
}

static void test_a_failing_release_ends_the_turn_after_the_transfer(joined *all)
{
    message sent = start_message(all, 0, 1, PW_PAGE_BYTES, true);
    all->strategies[1].fails = PW_ERR_HOST;
    int code = 0;
    for (int turns = 0; code >= 0 && turns < 1000; turns++) code = turn_all(all);
    assert(code == PW_ERR_HOST && sent.fetched->done && sent.fetched->error == PW_OK);
    assert(strstr(pw_node_reason(all->nodes[1]), "release of 4096 bytes"));
    finish(all, sent.exposed); /* what the node had to send is not lost */
}

static void test_a_dropped_handle_is_used_again_when_it_is_done(joined *all)
{
    message sent = start_message(all, 0, 1, MEGABYTE, true);
    pw_handle *dropped = sent.exposed;
    pw_node_free_handle(all->nodes[0], dropped);
    assert(pw_node_under_way(all->nodes[0]) == dropped);
    finish(all, sent.fetched);
    while (pw_node_under_way(all->nodes[0])) assert(turn_all(all) >= 0);
    assert(all->strategies[0].num_released == 1);
    pw_handle *next;
    assert(pw_node_expose(all->nodes[0], 1, 4096, 1, &next) == PW_OK);
    assert(next == dropped && !next->is_dropped && !next->done);
}

static void test_a_write_that_the_host_posts_is_followed(joined *all)
{
    uint8_t *source = make_pattern(3 * PW_BLOCK_BYTES),
            *destination = make_buffer(3 * PW_BLOCK_BYTES);
    uint64_t id;
    pw_handle *handle;
    assert(pw_ni_write(pw_node_ni(all->nodes[0]), 1, 1, address_of(source), address_of(destination),
                       0, 3 * PW_BLOCK_BYTES, NULL, 0, &id) == PW_OK);
    assert(pw_node_started(all->nodes[0], id, 1, &handle) == PW_OK);
    finish(all, handle);
    assert(handle->error == PW_OK && handle->complete_ns > 0 && handle->peer == 1);
    assert(memcmp(source, destination, 3 * PW_BLOCK_BYTES) == 0);
}

static void test_unmapped_pages_and_forks_are_passed_on(joined *all)
{
    pw_node *node = all->nodes[0];
    uint64_t generation = pw_memory_generation(pw_node_memory(node));
    assert(pw_node_unmapped(node, 100, 7) == PW_OK);
    assert(pw_memory_generation(pw_node_memory(node)) == generation + 1);
    assert(all->strategies[0].first_page == 100 && all->strategies[0].num_pages == 7);
    assert(pw_node_turn(node, false) == 0);

    pw_node_forked(node);
    pw_node_forked(node);
    assert(all->strategies[0].num_invalidated ==
           1); /* it may have been called in a signal handler */
    assert(pw_node_turn(node, false) == 0 && pw_node_turn(node, false) == 0);
    assert(all->strategies[0].num_invalidated == 2);
    assert(all->strategies[0].first_page == 0 && all->strategies[0].num_pages == UINT64_C(1) << 52);
    assert(pw_memory_generation(pw_node_memory(node)) == generation + 2);
}

/* As the CPU has it: a look is charged when it is too early in virtual time, not when a frame has
 * not arrived physically. */
static void test_a_look_in_vain_costs_when_the_future_is_known(joined *all)
{
    pw_node *node = all->nodes[0];
    pw_clock *clock = pw_node_clock(node);
    pw_node_failed_test(node, false, 135);
    assert(clock->now_ns == 0 && pw_node_next_ns(node) == PW_NEVER);
    pw_node_failed_test(node, true, 135);
    assert(clock->now_ns == 135);
    pw_clock_enter(clock, true); /* as often as this host comes to it: no time passes */
    assert(clock->now_ns > 135);
    for (int i = 0; i < 2; i++) pw_node_failed_test(node, false, 135);
    pw_clock_leave(clock);
    assert(clock->now_ns == 135);
    pw_clock_enter(clock, true);
    pw_clock_enter(clock, true); /* within a call that goes on */
    int64_t called_ns = clock->now_ns;
    pw_node_failed_test(node, false, 135);
    assert(clock->now_ns == called_ns);
    pw_clock_leave(clock);
    pw_clock_leave(clock);

    message sent = start_message(all, 0, 1, MEGABYTE, true);
    int64_t before_ns = clock->now_ns;
    assert(pw_node_turn(all->nodes[1], true) >= 0); /* the request leaves */
    assert(pw_node_turn(node, false) == 1);         /* and is here, but later than the CPU */
    assert(pw_node_next_ns(node) > clock->now_ns && pw_node_next_ns(node) < PW_NEVER);
    assert(!sent.exposed->done && clock->now_ns == before_ns);
    pw_node_failed_test(node, false, 135);
    assert(clock->now_ns == before_ns + 135);
}

/* A wire that damages the last byte of the first long burst, between nodes that are near or not. */
static const pw_wire_ops *sound_ops;
static bool are_near;
static bool is_damaged;

static pw_promise_place *place_if_near(const pw_wire *wire, uint32_t node, uint32_t peer)
{
    static pw_promise_place places[2];
    (void)wire, (void)peer;
    return are_near ? &places[node] : NULL;
}

static int damage(pw_wire *wire, uint32_t peer, uint8_t *data, uint32_t num_bytes, bool *is_free)
{
    if (num_bytes > PW_PAGE_BYTES && !is_damaged) {
        is_damaged = true;
        data[num_bytes - 1] ^= 1;
    }
    return sound_ops->send(wire, peer, data, num_bytes, is_free);
}

/* Else every packet is checked, and the damaged one sent again. */
static void test_packets_within_a_host_have_no_crcs(void)
{
    for (int round = 0; round < 2; round++) {
        joined all;
        are_near = round == 1;
        is_damaged = false;
        begin(&all, 2);
        sound_ops = all.wires[0]->ops;
        pw_wire_ops damaging = *sound_ops;
        damaging.promises = place_if_near, damaging.send = damage;
        all.wires[0]->ops = all.wires[1]->ops = &damaging;
        message sent = start_message(&all, 0, 1, PW_BLOCK_BYTES, true);
        finish(&all, sent.fetched);
        const bool is_equal = !memcmp(sent.source, sent.destination, PW_BLOCK_BYTES);
        assert(is_damaged && is_equal != are_near);
        sent.destination[PW_BLOCK_BYTES - 1] = sent.source[PW_BLOCK_BYTES - 1];
        finish_message(&all, &sent, 0, 1);
        end(&all);
    }
}

int main(void)
{
    test_messages_take_the_times_of_the_python_node();
    run_joined(1, test_a_node_sends_to_itself_without_the_wire);
    run_joined(3, test_a_read_that_the_region_does_not_admit_is_refused);
    run_joined(2, test_what_cannot_be_posted_is_refused_with_a_reason);
    run_joined(2, test_nothing_is_acquired_for_nothing);
    run_joined(1, test_a_lease_that_comes_to_nothing_is_released_by_the_cpu);
    run_joined(2, test_a_failing_release_ends_the_turn_after_the_transfer);
    run_joined(2, test_a_dropped_handle_is_used_again_when_it_is_done);
    run_joined(2, test_a_write_that_the_host_posts_is_followed);
    run_joined(1, test_unmapped_pages_and_forks_are_passed_on);
    run_joined(2, test_a_look_in_vain_costs_when_the_future_is_known);
    test_packets_within_a_host_have_no_crcs();
    return 0;
}
