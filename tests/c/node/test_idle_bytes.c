/* What an idle node takes of the host's memory: a bound, whatever the number of nodes. */
#include "tests/c/node/message_nodes.h"
#include <malloc.h>

#define MANY 1024
#define BYTES_MAX 22528 /* without its pages */

static uint64_t allocated_bytes(void)
{
    const struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
}

/* Of each of some nodes among num_nodes. */
static uint64_t idle_bytes(uint32_t num_nodes, bool has_no_bytes)
{
    pw_wire *wires[MANY];
    pw_node *nodes[2];
    pw_messages messages[2];
    const char *const texts[] = {"run.compute=none", "memory_backend.backend=model", NULL};
    static pw_node_config config;
    pw_sentence reason;
    assert(pw_wire_join(num_nodes, wires) == PW_OK);
    assert(pw_node_config_of_texts(texts, &config, &reason) == PW_OK);
    const pw_node_opening opening = {.pdid = 1, .has_no_bytes = has_no_bytes};
    const uint64_t before = allocated_bytes();
    for (int i = 0; i < 2; i++) {
        assert(pw_node_open(&config, &opening, wires[i], &nodes[i], &reason) == PW_OK);
        open_messages(&messages[i], nodes[i], (uint64_t)config.settings.eager_limit_bytes);
    }
    const uint64_t taken = (allocated_bytes() - before) / 2;
    for (int i = 0; i < 2; i++) {
        pw_messages_close(&messages[i]);
        pw_node_destroy(nodes[i]);
    }
    for (uint32_t i = 2; i < num_nodes; i++) wires[i]->ops->close(wires[i]);
    return taken;
}

int main(void)
{
    for (int has_no_bytes = 0; has_no_bytes < 2; has_no_bytes++) {
        const uint64_t among_two = idle_bytes(2, has_no_bytes);
        const uint64_t among_many = idle_bytes(MANY, has_no_bytes);
        printf("idle node: %llu bytes among 2, %llu among %d\n", (unsigned long long)among_two,
               (unsigned long long)among_many, MANY);
        assert(among_two <= BYTES_MAX && among_many <= BYTES_MAX);
    }
    return 0;
}
