/* What the C interface refuses, with which sentence; its clocks and names. */
#include "tests/c/node/two_nodes.h"

static void refused(pair *p, uint32_t peer, uint64_t num_bytes,
                    const pagewire_transfer_options *options, const char *word)
{
    static uint8_t byte[16];
    pagewire_operation *operation = NULL;
    int64_t before_ns = pagewire_clock_ns(p->nodes[0]);
    assert(pagewire_write(p->nodes[0], peer, byte, (uintptr_t)byte, num_bytes, options,
                          &operation) == PAGEWIRE_ERR_INVALID);
    assert(strstr(pagewire_reason(p->nodes[0]), word) && operation == NULL);
    assert(pagewire_clock_ns(p->nodes[0]) == before_ns);
}

static void arguments_are_checked(void)
{
    pair p = joined(none);
    pagewire_transfer_options options = {.struct_size = sizeof options};
    uint64_t key;
    assert(strcmp(pagewire_reason(p.nodes[0]), "no call of this node has failed") == 0);
    refused(&p, 0, 0, NULL, "transfer of 0 bytes: allowed is 1 to 4294967295");
    refused(&p, 0, (uint64_t)1 << 32, NULL, "cut it into several");
    refused(&p, 2, 1, NULL, "peer 2: there are nodes 0 to 1");
    options.hint = 4;
    refused(&p, 1, 1, &options, "hint = 4");
    options = (pagewire_transfer_options){.struct_size = sizeof options, .window_blocks = 65};
    refused(&p, 1, 1, &options, "window_blocks = 65: allowed is 0 to 64");
    options = (pagewire_transfer_options){.struct_size = sizeof options};
    options.notification_address = 8;
    refused(&p, 1, 1, &options, "notification_address = 0x8: allowed is a multiple of 16");
    struct {
        pagewire_transfer_options known;
        uint64_t unknown;
    } newer = {.known = {.struct_size = sizeof newer}, .unknown = 1};
    refused(&p, 1, 1, &newer.known, "struct_size");
    options = (pagewire_transfer_options){.struct_size = 0};
    refused(&p, 1, 1, &options, "struct_size = 0");
    assert(pagewire_register(p.nodes[0], &p, 0, &key) == PAGEWIRE_ERR_INVALID);
    assert(strstr(pagewire_reason(p.nodes[0]), "registration of 0 bytes"));
    assert(pagewire_progress(p.nodes[0], 4) == PAGEWIRE_ERR_INVALID);
    assert(pagewire_clock_advance(p.nodes[0], 5) == PAGEWIRE_ERR_INVALID);
    assert(strstr(pagewire_reason(p.nodes[0]), "run.compute=model"));
    assert(pagewire_read_counter(p.nodes[0], "none such", &key) == PAGEWIRE_ERR_INVALID);
    newer.unknown = 0; /* a newer host that asks for nothing new */
    uint8_t *pages = fresh_pages(4096);
    pagewire_operation *operation;
    assert(pagewire_write(p.nodes[0], 1, pages, (uintptr_t)pages + 64, 8, &newer.known,
                          &operation) == PAGEWIRE_OK);
    assert(finish(p.nodes[0], operation).error == PAGEWIRE_OK);
    end(&p);
}

static void create_refused(const pagewire_options *wanted, const char *word)
{
    char reason[512] = "";
    pagewire_options options = *wanted;
    pagewire_node *node = NULL;
    options.reason = reason;
    options.reason_bytes = sizeof reason;
    assert(pagewire_node_create(&options, &node) == PAGEWIRE_ERR_INVALID && node == NULL);
    assert(strstr(reason, word));
}

static void creation_says_why_not(void)
{
    static const char *const bad[] = {"run.policy=al", NULL};
    static const char *const clash[] = {"smmu.mode=stall", "driver.page_in=touch-a-page", NULL};
    static const char *const late[] = {"network.topology=ring", NULL};
    pagewire_options options;
    pagewire_network *network;
    pagewire_node *node;
    assert(pagewire_network_create(0, &network) == PAGEWIRE_ERR_INVALID);
    assert(pagewire_network_create(2, &network) == PAGEWIRE_OK);
    pagewire_options_default(&options);
    options.settings = bad;
    create_refused(&options, "run.policy = 'al': allowed is one of page, block, all");
    options.settings = clash;
    create_refused(&options, "touch-a-page");
    options.settings = NULL;
    options.num_nodes = 2;
    create_refused(&options, "a node needs a network or a wire");
    options.network = network;
    options.node = 2;
    create_refused(&options, "node 2 of 2");
    options.node = 1;
    options.protection_domain = 65536;
    create_refused(&options, "protection_domain = 65536");
    options.protection_domain = 0;
    options.settings = late;
    create_refused(&options, "topology 'ring'");
    options.settings = NULL; /* the place in the network is still there */
    assert(pagewire_node_create(&options, &node) == PAGEWIRE_OK);
    create_refused(&options, "has been made before");
    pagewire_network_destroy(network); /* goes with its last node */
    pagewire_node_destroy(node);
    pagewire_node_destroy(NULL);
}

static void clocks(void)
{
    static const char *const model[] = {"run.compute=model", "run.compute_scale=2", NULL};
    pair p = joined(model);
    pagewire_node *node = p.nodes[0];
    assert(pagewire_clock_ns(node) == 0);
    assert(pagewire_clock_advance(node, 1000) == PAGEWIRE_OK);
    assert(pagewire_clock_ns(node) == 2000 && counter(node, "compute_ns") == 2000);
    assert(pagewire_clock_sleep(node, 500) == PAGEWIRE_OK);
    assert(pagewire_clock_ns(node) == 2500 && counter(node, "sleep_ns") == 500);
    assert(pagewire_clock_read(node) > 2500);
    assert(pagewire_clock_advance(node, -1) == PAGEWIRE_ERR_INVALID);
    assert(pagewire_clock_sleep(node, INT64_MAX) == PAGEWIRE_ERR_INVALID);
    assert(strstr(pagewire_reason(node), "duration_ns"));
    assert(pagewire_clock_observe(node, 0) == PAGEWIRE_OK);
    end(&p);
}

static int broken_send(void *context, uint32_t peer, const void *data, uint32_t num_bytes)
{
    (void)context, (void)peer, (void)data, (void)num_bytes;
    return PAGEWIRE_ERR_HOST;
}

static int odd_poll(void *context, uint32_t *peer, const void **data, uint32_t *num_bytes)
{
    static uint64_t words[4];
    *peer = 1;
    *data = (const char *)words + 4;
    *num_bytes = 8;
    return *(int *)context;
}

static void a_broken_wire_is_an_error(void)
{
    pagewire_node *node;
    int result = 0;
    pagewire_wire wire = {
        .struct_size = sizeof wire, .context = &result, .send = broken_send, .poll = odd_poll};
    pagewire_options options;
    pagewire_options_default(&options);
    options.num_nodes = 2;
    options.wire = &wire;
    assert(pagewire_node_create(&options, &node) == PAGEWIRE_OK);
    uint8_t *pages = fresh_pages(4096);
    pagewire_operation *operation;
    pages[0] = 1;
    assert(pagewire_write(node, 1, pages, (uintptr_t)pages, 1, NULL, &operation) == PAGEWIRE_OK);
    assert(pagewire_wait(node, &operation, NULL, -1) == PAGEWIRE_ERR_HOST);
    assert(strstr(pagewire_reason(node), "the wire cannot send"));
    result = 1; /* a burst that no node could have sent */
    assert(pagewire_progress(node, 0) == PAGEWIRE_ERR_MALFORMED);
    pagewire_node_destroy(node);
    wire.poll = NULL;
    create_refused(&options, "needs both send and poll");
}

static void names(void)
{
    uint32_t num_counters = pagewire_num_counters();
    for (uint32_t i = 0; i < num_counters; i++) assert(pagewire_counter_name(i));
    assert(!pagewire_counter_name(num_counters) && num_counters > 90);
    assert(strcmp(pagewire_counter_name(0), "transfers") == 0);
    assert(strcmp(pagewire_setting_name(0), "run.memory") == 0);
    assert(!pagewire_setting_name(100000) && !pagewire_platform_name(4));
    assert(strcmp(pagewire_platform_name(1), "exanest-qfdb") == 0);
    assert(strstr(pagewire_error_text(PAGEWIRE_ERR_ADDRESS), "outside any mapping"));
    assert(strcmp(pagewire_error_text(-99), "no code of this library") == 0);
    assert(strcmp(pagewire_version(), PAGEWIRE_VERSION) == 0);
}

int main(void)
{
    arguments_are_checked();
    creation_says_why_not();
    clocks();
    a_broken_wire_is_an_error();
    names();
    return 0;
}
