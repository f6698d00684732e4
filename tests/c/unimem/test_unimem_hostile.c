/* Whatever a peer sends as messages of Unimem: it is dropped, or does what a sound one does, and
 * nothing is read or written outside of what was allocated. */
#include "tests/c/node/node_pair.h"
#include "unimem/door.h"

#define FRAMES 40000
#define ASKS 4000

static uint64_t seed = 7;

static uint64_t draw(uint64_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % limit;
}

static uint64_t word(void)
{
    switch (draw(4)) {
    case 0: return draw(4);
    case 1: return draw(2) << 48 | draw(8) << 12 | draw(4096); /* an address */
    case 2: return draw(20) << 56 | draw(3) << 8 | draw(70);   /* an operation of a thread */
    default: return draw(UINT32_MAX) << 32 | draw(UINT32_MAX);
    }
}

static void send_frame(joined *all, int64_t at_ns)
{
    static const uint32_t sizes[] = {0, 0, 0, 15, 16, 32, 256, 272, 4080, 4096};
    static uint8_t payload[4096];
    pw_node *source = all->nodes[0];
    uint64_t words[4] = {word(), word(), word(), word()};
    uint32_t destination = (uint32_t)(draw(66) | draw(66) << 8);
    if (draw(2)) { /* as a packetizer would: interface and id are one */
        words[0] = draw(20) << 56 | draw(20) % 2 << 8 | draw(66);
        destination = (uint32_t)((words[0] & 0xff) << 8 | (draw(4) ? 0 : draw(66)));
    }
    uint32_t num_bytes = sizes[draw(sizeof sizes / sizeof *sizes)];
    uint8_t *frame = pw_node_take_frame(source);
    for (int i = 0; i < 64; i++) payload[draw(sizeof payload)] = (uint8_t)draw(256);
    pw_ni_packet_write(pw_node_ni(source), 1, (uint8_t)(PW_MESSAGE_OF_SERVICES + draw(6)),
                       destination, words, payload, num_bytes, at_ns + (int64_t)draw(10000), frame);
    if (draw(50) == 0) frame[draw(PW_ENVELOPE_BYTES - 3) + 3] ^= 1;
    assert(pw_node_send_frame(source, 1, frame, PW_ENVELOPE_BYTES + num_bytes) == PW_OK);
}

/* What kernels ask each other about DMA buffers: number, what, value, refusal, limit, buffer. */
static void send_ask(joined *all, int64_t at_ns)
{
    static const uint32_t sizes[] = {72, 72, 72, 72, 64, 80};
    static const uint64_t none[4] = {0};
    uint64_t payload[10];
    for (int i = 0; i < 10; i++) payload[i] = draw(8) ? draw(4) : word();
    if (draw(2)) payload[2] = UINT64_C(1) << 48 | draw(12); /* a buffer that there may be */
    uint8_t *frame = pw_node_take_frame(all->nodes[0]);
    uint32_t num_bytes = sizes[draw(sizeof sizes / sizeof *sizes)];
    pw_ni_packet_write(pw_node_ni(all->nodes[0]), 1, (uint8_t)(PW_MESSAGE_OF_DMA + draw(3)), 0,
                       none, payload, num_bytes, at_ns, frame);
    assert(pw_node_send_frame(all->nodes[0], 1, frame, PW_ENVELOPE_BYTES + num_bytes) == PW_OK);
}

static void turn_both(joined *all, int *num_refused)
{
    for (int node = 1; node >= 0; node--) {
        int code = pw_node_turn(all->nodes[node], true);
        assert(code >= 0 || code == PW_ERR_MALFORMED);
        *num_refused += code < 0;
    }
}

static int turn(void *node, bool is_waiting) { return pw_node_turn(node, is_waiting); }

int main(void)
{
    joined all;
    pagewire_node *doors[2];
    unimem *memory[2];
    pw_unimem_counters counters;
    int num_refused = 0;
    begin(&all, 2);
    for (int i = 0; i < 2; i++) {
        const pw_door_host host = {.context = all.nodes[i], .turn = turn};
        assert(pw_door_wrap(all.nodes[i], &host, &doors[i]) == PW_OK);
        assert(unimem_create(doors[i], NULL, &memory[i]) == PW_OK); /* with interface 1 */
    }
    pw_unimem *target = pw_thread_unimem(memory[1]);
    assert(pw_unimem_open(target, true) == 2);
    assert(pw_kernel_mailbox_act(pw_unimem_kernel_mailbox(target), 'r', 0, 0) == PW_OK);
    for (int i = 0; i < FRAMES; i++) {
        send_frame(&all, 2000 * i);
        turn_both(&all, &num_refused);
    }
    pw_unimem_read_counters(target, &counters);
    assert(num_refused > 100 && counters.requests > 100 && counters.refused > 100);
    assert(counters.dropped > 100 && counters.refused < counters.requests);
    num_refused = 0;
    for (int i = 0; i < ASKS; i++) {
        send_ask(&all, 2000 * (FRAMES + i));
        turn_both(&all, &num_refused);
    }
    assert(num_refused > 100 && num_refused < ASKS);
    assert(all.strategies[1].num_acquired > 5 && all.strategies[1].num_released > 5);
    assert(all.strategies[1].num_acquired <= all.strategies[1].num_released + 1); /* dma_buffers */
    for (int i = 0; i < 2; i++) {
        unimem_destroy(memory[i]);
        pagewire_node_destroy(doors[i]);
    }
    end(&all);
    return 0;
}
