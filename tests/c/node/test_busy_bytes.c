/* What a node of a replay takes of the host's memory while it is busy: 27 nodes, each of which has
 * sent a block to all others and received one from each in many steps, with and without page
 * faults. A bound on what is allocated, which the program and the settings alone decide. */
#include "tests/c/node/message_nodes.h"
#include <malloc.h>

#define NODES 27
#define PEERS (NODES - 1)
#define STEPS 40
#define BYTES PW_BLOCK_BYTES
#define SENT (UINT64_C(1) << 40)
#define RECEIVED (UINT64_C(2) << 40)
/* The pages that each step receives into are new ones where it faults. */
#define BYTES_MAX (176u << 10)
#define BYTES_FAULTING_MAX (384u << 10)

typedef struct {
    pw_wire *wires[NODES];
    pw_node *nodes[NODES];
    pw_messages messages[NODES];
    pw_operation *started[NODES][2 * PEERS];
} machine;

static uint64_t allocated_bytes(void)
{
    const struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
}

static void open_machine(machine *self, const char *memory)
{
    const char *const texts[] = {"run.compute=model", memory, NULL};
    static pw_node_config config;
    pw_sentence reason;
    assert(pw_wire_join(NODES, self->wires) == PW_OK);
    assert(pw_node_config_of_texts(texts, &config, &reason) == PW_OK);
    for (int i = 0; i < NODES; i++) {
        const pw_node_opening opening = {
            .pdid = 1, .has_no_bytes = 1, .like = i ? self->nodes[0] : NULL};
        assert(pw_node_open(&config, &opening, self->wires[i], &self->nodes[i], &reason) == PW_OK);
        open_messages(&self->messages[i], self->nodes[i],
                      (uint64_t)config.settings.eager_limit_bytes);
        assert(pw_memory_set(pw_node_memory(self->nodes[i]), pw_page_of(SENT),
                             pw_page_of(PEERS * BYTES), PW_PAGE_PRESENT) == PW_OK);
    }
}

static void start(machine *self, uint32_t node, int step, bool is_fresh)
{
    pw_messages *messages = &self->messages[node];
    for (uint32_t i = 0; i < PEERS; i++) {
        pw_operation *receive = pw_operation_new(messages, PW_OPERATION_RECEIVE);
        const uint64_t place = i + (is_fresh ? (uint64_t)step * PEERS : 0);
        receive->peer = receive->source = (node + 1 + i) % NODES;
        receive->address = RECEIVED + place * BYTES;
        receive->capacity_bytes = BYTES;
        assert(pw_operation_acquire(messages, receive) == PW_OK);
        assert(pw_messages_post(messages, receive) == PW_OK);
        self->started[node][i] = receive;
    }
    for (uint32_t i = 0; i < PEERS; i++) {
        pw_operation *send = pw_operation_new(messages, PW_OPERATION_SEND);
        const pw_message_header header = {.source = node};
        send->peer = (node + 1 + i) % NODES;
        send->address = SENT + i * BYTES;
        send->num_bytes = send->capacity_bytes = BYTES;
        assert(pw_messages_send_exposed(messages, send, &header) == PW_OK);
        self->started[node][PEERS + i] = send;
    }
}

static void finish_step(machine *self, uint32_t node)
{
    for (uint32_t i = 0; i < 2 * PEERS; i++) {
        pw_operation *each = self->started[node][i];
        for (int turns = 0; !each->done; turns++) {
            assert(turns < 1000000);
            for (int other = 0; other < NODES; other++)
                assert(pw_node_turn(self->nodes[other], true) >= 0);
        }
        assert(each->error == PW_OK);
        pw_clock_completed(pw_node_clock(self->nodes[node]), each->complete_ns);
        pw_operation_free(&self->messages[node], each);
    }
}

static uint64_t busy_bytes(const char *memory, bool is_fresh)
{
    static machine self;
    const uint64_t before = allocated_bytes();
    open_machine(&self, memory);
    for (int step = 0; step < STEPS; step++) {
        for (uint32_t node = 0; node < NODES; node++) start(&self, node, step, is_fresh);
        for (uint32_t node = 0; node < NODES; node++) finish_step(&self, node);
    }
    const uint64_t taken = (allocated_bytes() - before) / NODES;
    pw_counters counters;
    pw_ni_read_counters(pw_node_ni(self.nodes[0]), &counters);
    assert((counters.translation_faults_destination > 0) == is_fresh);
    for (int i = 0; i < NODES; i++) {
        pw_messages_close(&self.messages[i]);
        pw_node_destroy(self.nodes[i]);
    }
    return taken;
}

int main(void)
{
    const uint64_t resident = busy_bytes("run.memory=pretouch", false),
                   faulting = busy_bytes("run.memory=part", true);
    printf("busy node: %llu bytes, %llu where every receive faults\n", (unsigned long long)resident,
           (unsigned long long)faulting);
    assert(resident <= BYTES_MAX && faulting <= BYTES_FAULTING_MAX);
    return 0;
}
