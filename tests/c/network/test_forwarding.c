/* Packets take turns on a link, in the order in which they come; by arithmetic. */
#include "network/forwarding.h"

#include <assert.h>
#include <string.h>

#include "../platform.h"
#include "native/status.h"

#define PACKETS 64u
#define WIRE_BYTES (PACKETS * 288u)

typedef struct {
    pw_topology *topology;
    pw_links *links;
    pw_forwarding *forwarding;
} network;

static network made(const char *text, uint32_t num_nodes)
{
    char reason[PW_TOPOLOGY_REASON_BYTES];
    network out;
    int code = pw_topology_create(text, "packed", num_nodes, 4, &out.topology, reason);
    assert(code == PW_OK);
    code = pw_links_create(out.topology, &platform_costs, 0, &out.links);
    assert(code == PW_OK);
    code = pw_forwarding_create(out.links, &out.forwarding);
    assert(code == PW_OK);
    return out;
}

static void finish(network *of)
{
    pw_forwarding_destroy(of->forwarding);
    pw_links_destroy(of->links);
    pw_topology_destroy(of->topology);
}

/* On a link between boards, in ps; 1000 x: 8 bits at 9.7 Gb/s. */
static int64_t bytes_ns(uint64_t wire_bytes)
{
    return (int64_t)((wire_bytes * UINT64_C(824742) / 1000 + 999) / 1000);
}

/* The token is the sender. */
static pw_passing send_spaced(network *on, uint32_t from, uint32_t to, uint32_t num_packets,
                              int64_t at_ns, int64_t interval_ps)
{
    pw_passing told;
    const pw_forwarding_block block = {.from = from,
                                       .to = to,
                                       .quantum_bytes = num_packets * 288,
                                       .wire_bytes = WIRE_BYTES,
                                       .at_ns = at_ns,
                                       .interval_ps = interval_ps};
    uint64_t *token = pw_forwarding_send(on->forwarding, &block, &told);
    assert(token);
    *token = from + 1;
    return told;
}

/* As fast as a link takes them. */
static pw_passing send(network *on, uint32_t from, uint32_t to, uint32_t num_packets, int64_t at_ns)
{
    return send_spaced(on, from, to, num_packets, at_ns,
                       (int64_t)num_packets * 288 * 824742 / 1000);
}

static pw_forwarding_out next(network *on)
{
    pw_forwarding_out out;
    const int code = pw_forwarding_run(on->forwarding, PW_NEVER, &out);
    assert(code == 1 && out.token == out.from + 1);
    return out;
}

static void test_a_block_alone_passes_as_it_was_told_and_as_a_whole(void)
{
    for (uint32_t num_packets = 1; num_packets <= PACKETS; num_packets *= 4) {
        network on = made("mesh:4", 4);
        pw_passing whole;
        pw_links *links;
        assert(pw_links_create(on.topology, &platform_costs, 0, &links) == PW_OK);
        pw_links_pass(links, 0, 3, 0, 0, WIRE_BYTES, 100, &whole);
        const pw_passing told = send(&on, 0, 3, num_packets, 100);
        const pw_forwarding_out out = next(&on);
        assert(!memcmp(&told, &whole, sizeof whole) && out.head_late_ns == 0);
        assert(!memcmp(&out.passing, &whole, sizeof whole) && out.tail_late_ns == 0);
        assert(out.passing.tail_ns == 100 + 3 * 150 + bytes_ns(WIRE_BYTES));
        pw_links_destroy(links);
        finish(&on);
    }
}

/* 0 to 2 and 1 to 3 share the link 1 to 2, where both are from 150 ns on: each has half of it. */
static void test_two_blocks_take_turns_and_end_within_a_packet(void)
{
    network on = made("mesh:4", 4);
    send(&on, 0, 2, 1, 0);
    send(&on, 1, 3, 1, 150);
    int64_t off_ns[2]; /* the shared link */
    for (int i = 0; i < 2; i++) {
        const pw_forwarding_out out = next(&on);
        off_ns[out.from] = out.passing.tail_ns - (out.from ? 300 : 150);
        assert(out.head_late_ns <= bytes_ns(288));
    }
    const int64_t end_ns = 150 + bytes_ns(2 * WIRE_BYTES);
    const int64_t first_ns = off_ns[0] < off_ns[1] ? off_ns[0] : off_ns[1];
    const int64_t last_ns = off_ns[0] + off_ns[1] - first_ns;
    assert(last_ns == end_ns || last_ns == end_ns + 1); /* a block ends at a whole ns */
    assert(first_ns < last_ns && last_ns - first_ns <= bytes_ns(288));
    finish(&on);
}

/* A quantum of a whole block is served at once: the first block is not held up, as with links. */
static void test_what_moves_as_one_is_not_divided(void)
{
    network on = made("mesh:4", 4);
    send(&on, 0, 2, PACKETS, 0);
    send(&on, 1, 3, PACKETS, 151);
    const pw_forwarding_out first = next(&on), second = next(&on);
    assert(first.from == 0 && first.tail_late_ns == 0);
    assert(second.tail_late_ns == bytes_ns(WIRE_BYTES) - 1);
    finish(&on);
}

/* Three blocks of one node, whose packets are all there at once. */
static void test_first_come_is_first_served(void)
{
    network on = made("torus:8", 8);
    for (int i = 0; i < 3; i++) send_spaced(&on, 2, 4, 1, i, 0);
    for (int i = 0; i < 3; i++) {
        const pw_forwarding_out out = next(&on);
        assert(out.passing.leaves_ns == i * bytes_ns(WIRE_BYTES) && out.head_late_ns == 0);
        assert(out.passing.tail_ns == (i + 1) * bytes_ns(WIRE_BYTES) + 300);
    }
    pw_forwarding_out none;
    assert(pw_forwarding_run(on.forwarding, PW_NEVER, &none) == 0);
    assert(pw_forwarding_next_ns(on.forwarding) == PW_NEVER);
    finish(&on);
}

static void test_links_count_what_passes(void)
{
    network on = made("mesh:4", 4);
    pw_link_use use, sum = {0};
    send(&on, 0, 2, 1, 0);
    send(&on, 1, 3, 1, 150);
    next(&on);
    next(&on);
    for (uint32_t i = 0; i < pw_topology_num_links(on.topology); i++) {
        pw_links_read(on.links, i, &use);
        const int64_t busy_ns = (int64_t)use.num_blocks * bytes_ns(WIRE_BYTES);
        assert(use.busy_ns <= busy_ns && use.busy_ns >= busy_ns - (int64_t)PACKETS); /* whole ns */
        sum.num_blocks += use.num_blocks;
        sum.num_bytes += use.num_bytes;
        sum.num_long_waits += use.num_long_waits;
    }
    assert(sum.num_blocks == 4 && sum.num_bytes == 4 * WIRE_BYTES && sum.num_long_waits == 2);
    finish(&on);
}

/* Nothing happens behind the time that was asked for. */
static void test_it_goes_on_as_far_as_it_is_told(void)
{
    network on = made("full", 4);
    pw_forwarding_out out;
    send(&on, 0, 1, 1, 1000);
    assert(pw_forwarding_next_ns(on.forwarding) == 1000);
    assert(pw_forwarding_run(on.forwarding, 999, &out) == 0);
    assert(pw_forwarding_run(on.forwarding, 2000, &out) == 0);
    assert(pw_forwarding_next_ns(on.forwarding) > 2000);
    assert(next(&on).tail_late_ns == 0);
    finish(&on);
}

int main(void)
{
    test_a_block_alone_passes_as_it_was_told_and_as_a_whole();
    test_two_blocks_take_turns_and_end_within_a_packet();
    test_what_moves_as_one_is_not_divided();
    test_first_come_is_first_served();
    test_links_count_what_passes();
    test_it_goes_on_as_far_as_it_is_told();
    return 0;
}
