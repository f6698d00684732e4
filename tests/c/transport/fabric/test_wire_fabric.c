/* Bursts between processes over libfabric, in every mode: order, contents, peers that come late or
 * are not known yet, segments that cannot be mapped, what is on its way at the end. */
#include <fcntl.h>

#include "wire_processes.h"

static pw_wire_mode mode;
static uint32_t num_bursts;

/* The counts of a process that has exchanged bursts with that many peers. */
static void check_ways(const pw_wire *wire, uint32_t num_shared, uint32_t num_messages)
{
    pw_wire_fabric_counters found;
    pw_wire_counts sent;
    pw_wire_fabric_read_counters(wire, &found);
    wire->ops->count(wire, &sent);
    assert(found.num_shared == num_shared && found.num_messages == num_messages);
    assert(!found.num_hellos_refused && !found.num_dropped && !found.num_lost);
    assert((sent.num_by_message > 0) == (num_messages > 0));
    assert((sent.num_in_place > 0) == (num_shared > 0));
}

/* Nobody closes before all have everything. */
static void part_all(const exchange *way, pw_wire *wire)
{
    for (uint32_t peer = 0; peer < wire->num_nodes; peer++)
        if (peer != wire->node) tell(way, peer, wire->node, NULL);
    for (uint32_t i = 1; i < wire->num_nodes; i++) poll_until_told(wire, way, wire->node);
    wire->ops->close(wire);
}

static void exchange_with(const exchange *way, pw_wire *wire)
{
    uint32_t peers[NODES_MAX], num_peers = 0;
    for (uint32_t peer = 0; peer < wire->num_nodes; peer++)
        if (peer != wire->node) peers[num_peers++] = peer;
    meet_all(way, wire);
    exchange_bursts(wire, peers, num_peers, num_bursts);
}

static void exchange_of_two(const exchange *way, uint32_t node)
{
    pw_wire *wire = open_wire(node, 2, mode);
    exchange_with(way, wire);
    check_ways(wire, mode == PW_WIRE_AUTO, mode != PW_WIRE_AUTO);
    part_all(way, wire);
}

static void exchange_of_three(const exchange *way, uint32_t node)
{
    pw_wire *wire = open_wire(node, 3, mode);
    exchange_with(way, wire);
    check_ways(wire, mode == PW_WIRE_AUTO ? 2 : 0, mode == PW_WIRE_AUTO ? 0 : 2);
    part_all(way, wire);
}

/* Some ranks of a run may have another setting: their bursts find a way all the same. */
static void exchange_of_mixed_modes(const exchange *way, uint32_t node)
{
    static const pw_wire_mode modes[] = {PW_WIRE_AUTO, PW_WIRE_SHM, PW_WIRE_TCP, PW_WIRE_AUTO};
    pw_wire *wire = open_wire(node, 4, modes[node]);
    exchange_with(way, wire);
    check_ways(wire, node % 3 == 0, node % 3 == 0 ? 2 : 3);
    part_all(way, wire);
}

static uint32_t first_unmapped;

/* Of the last processes nobody can map the segment: its file is another one's. */
static void exchange_unmapped(const exchange *way, uint32_t node)
{
    pw_wire_fabric_counters found;
    pw_wire *wire = open_wire(node, 2, PW_WIRE_AUTO);
    const int fd = pw_wire_fabric_address(wire)->segment.fd;
    const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (node >= first_unmapped) assert(dup2(other, fd) == fd);
    exchange_with(way, wire);
    check_ways(wire, 0, 1);
    pw_wire_fabric_read_counters(wire, &found);
    assert(found.num_near_unmapped == 1);
    part_all(way, wire);
}

/* Node 2 comes when 0 and 1 have exchanged bursts already. */
static void exchange_with_a_late_one(const exchange *way, uint32_t node)
{
    const uint32_t first_peers[] = {1 - node}, peers[] = {0, 1}, all[] = {1 - node, 2};
    if (node == 2) {
        assert(hear(way, 2).source == 0 && hear(way, 2).source == 0);
        pw_wire *wire = open_wire(2, 3, mode);
        for (uint32_t peer = 0; peer < 2; peer++) tell(way, peer, 2, pw_wire_fabric_address(wire));
        for (uint32_t peer = 0; peer < 2; peer++) {
            const record from = hear(way, 2);
            must_connect(wire, &from.address);
        }
        exchange_bursts(wire, peers, 2, num_bursts);
        part_all(way, wire);
        return;
    }
    pw_wire *wire = open_wire(node, 3, mode);
    tell(way, 1 - node, node, pw_wire_fabric_address(wire));
    const record first = hear(way, node);
    must_connect(wire, &first.address);
    exchange_bursts(wire, first_peers, 1, num_bursts);
    if (node == 0) tell(way, 2, 0, NULL), tell(way, 2, 0, NULL);
    const record late = hear(way, node);
    must_connect(wire, &late.address);
    tell(way, 2, node, pw_wire_fabric_address(wire));
    exchange_bursts(wire, all, 2, num_bursts);
    part_all(way, wire);
}

/* Node 1 knows node 0, which does not know it before its first burst is there. */
static void answer_to_a_stranger(const exchange *way, uint32_t node)
{
    pool own = {.num_free = 0};
    pw_wire *wire = open_wire(node, 2, mode);
    if (node == 0) {
        tell(way, 1, 0, pw_wire_fabric_address(wire));
        receive_one(wire, 1, 7);
        assert(send_one(&own, wire, 1, 8));
    } else {
        const record from = hear(way, 1);
        must_connect(wire, &from.address);
        assert(send_one(&own, wire, 0, 7));
        assert(wire->ops->num_pending(wire) > 0); /* it waits for the hello */
        receive_one(wire, 0, 8);
    }
    part_all(way, wire);
}

/* Closing sends what waits, more than any queue on the way holds. */
static void leave_at_once(const exchange *way, uint32_t node)
{
    pool own = {.num_free = 0};
    pw_wire *wire = open_wire(node, 2, mode);
    meet_all(way, wire);
    if (node == 0) {
        for (uint32_t idx = 0; idx < BUFFERS; idx++) receive_one(wire, 1, idx);
    } else {
        for (uint32_t idx = 0; idx < BUFFERS; idx++) assert(send_one(&own, wire, 0, idx));
        assert(wire->ops->num_pending(wire) > 0);
    }
    wire->ops->close(wire);
}

int main(void)
{
    static const pw_wire_mode modes[] = {PW_WIRE_AUTO, PW_WIRE_SHM, PW_WIRE_TCP};
    load_libfabric();
    for (uint32_t i = 0; i < 3; i++) {
        mode = modes[i];
        num_bursts = 10000;
        run_all(exchange_of_two, 2);
        num_bursts = 1000;
        run_all(exchange_of_three, 3);
        run_all(exchange_with_a_late_one, 3);
        run_all(answer_to_a_stranger, 2);
        run_all(leave_at_once, 2);
    }
    run_all(exchange_of_mixed_modes, 4);
    for (first_unmapped = 0; first_unmapped < 2; first_unmapped++) run_all(exchange_unmapped, 2);
    return 0;
}
