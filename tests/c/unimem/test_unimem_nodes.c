/* Unimem on nodes of the C interface. */
#include "include/unimem.h"
#include "tests/c/node/two_nodes.h"
#include <unistd.h>

#define PAGE(node, number) ((uint64_t)(node) << 48 | (uint64_t)(number) << 12)

static void with_unimem(const pair *p, unimem *memory[2])
{
    for (int i = 0; i < 2; i++) assert(unimem_create(p->nodes[i], NULL, &memory[i]) == PAGEWIRE_OK);
}

static void without_unimem(pair *p, unimem *memory[2])
{
    for (int i = 0; i < 2; i++) unimem_destroy(memory[i]);
    end(p);
}

static uint64_t spawn(void *context, const unimem_fork_request *wanted)
{
    *(uint64_t *)context = wanted->argument;
    return strcmp(wanted->name, "a program with a long name") == 0 ? 0x1002 : 0;
}

static void operations_on_joined_nodes(void)
{
    pair p = joined(none);
    unimem *memory[2];
    uint64_t page, value, forked = 0;
    const unimem_options options = {
        .struct_size = sizeof options, .spawn = spawn, .context = &forked};
    for (int i = 0; i < 2; i++)
        assert(unimem_create(p.nodes[i], i ? &options : NULL, &memory[i]) == PAGEWIRE_OK);
    unimem *second;
    assert(unimem_create(p.nodes[0], NULL, &second) == PAGEWIRE_ERR_FULL);
    assert(unimem_num_nodes(memory[1]) == 2 && unimem_node(memory[1]) == 1);
    for (uint32_t owner = 0; owner < 2; owner++) {
        uint8_t bytes[UNIMEM_PAGE_BYTES], byte;
        uint32_t half;
        int64_t start_ns = pagewire_clock_ns(p.nodes[0]);
        assert(unimem_alloc(memory[0], owner, 2, 0, &page) == PAGEWIRE_OK &&
               page == PAGE(owner, 1));
        assert(unimem_write64(memory[0], page, UINT64_C(0x8877665544332211)) == PAGEWIRE_OK);
        assert(unimem_read8(memory[1], page + 7, &byte) == PAGEWIRE_OK && byte == 0x88);
        assert(unimem_read32(memory[1], page, &half) == PAGEWIRE_OK && half == 0x44332211);
        assert(unimem_write8(memory[1], page, 1) == PAGEWIRE_OK);
        assert(unimem_write32(memory[1], page + 8, 7) == PAGEWIRE_OK);
        assert(unimem_cas(memory[0], page + 8, 7, 8) == 1 &&
               unimem_cas(memory[0], page + 8, 7, 9) == 0);
        assert(unimem_faa(memory[0], page + 8, 5, &value) == PAGEWIRE_OK && value == 8);
        assert(unimem_swap(memory[1], page + 8, 1, &value) == PAGEWIRE_OK && value == 13);
        assert(unimem_write128(memory[1], page + 16, 2, 3) == PAGEWIRE_OK);
        assert(unimem_read4k(memory[1 - owner], page, bytes) == 4096);
        memcpy(&value, bytes + 24, sizeof value);
        assert(value == 3 && bytes[0] == 1 && bytes[8] == 1);
        assert(pagewire_clock_ns(p.nodes[0]) > start_ns + 5000);
        assert(unimem_free(memory[1], page) == PAGEWIRE_OK);
        value = 99;
        assert(unimem_read64(memory[0], page, &value) == PAGEWIRE_ERR_ADDRESS && value == 99);
        assert(strstr(pagewire_reason(p.nodes[0]), "no such page"));
    }
    assert(unimem_alloc(memory[0], 0, 1, UNIMEM_DENY_OTHERS_WRITE, &page) == PAGEWIRE_OK);
    assert(unimem_write64(memory[1], page, 1) == PAGEWIRE_ERR_PROTECTION);
    assert(unimem_read64(memory[1], page, &value) == PAGEWIRE_OK && value == 0);
    assert(unimem_alloc(memory[0], 0, 0, 0, &page) == PAGEWIRE_ERR_INVALID);
    assert(unimem_alloc(memory[0], 2, 1, 0, &page) == PAGEWIRE_ERR_INVALID);
    assert(unimem_alloc(memory[0], 1, 65535, 0, &page) == PAGEWIRE_ERR_FULL);
    assert(unimem_fork(memory[0], 1, "a program with a long name", 55, &value) == PAGEWIRE_OK);
    assert(value == 0x1002 && forked == 55);
    assert(unimem_fork(memory[0], 1, "another", 56, NULL) == PAGEWIRE_ERR_INVALID);
    assert(strstr(pagewire_reason(p.nodes[0]), "the node cannot start it") && forked == 56);
    assert(unimem_fork(memory[1], 0, "one", 57, NULL) == PAGEWIRE_ERR_ADDRESS);
    without_unimem(&p, memory);
}

static void rdma_and_unimem_share_a_node(void)
{
    pair p = joined(none);
    unimem *memory[2];
    uint64_t page, value;
    uint8_t *source = fresh_pages(65536), *destination = fresh_pages(65536);
    with_unimem(&p, memory);
    fill(source, 65536, 1);
    assert(put(&p, source, destination, 65536).error == PAGEWIRE_OK);
    assert(unimem_alloc(memory[0], 1, 1, 0, &page) == PAGEWIRE_OK);
    assert(unimem_faa(memory[0], page, 3, &value) == PAGEWIRE_OK && value == 0);
    assert(put(&p, source + 4096, destination, 4096).error == PAGEWIRE_OK);
    assert(memcmp(destination, source + 4096, 4096) == 0);
    without_unimem(&p, memory);
}

static void node_without_unimem_is_named(void)
{
    pair p = joined(none);
    unimem *memory;
    uint64_t page;
    assert(unimem_create(p.nodes[0], NULL, &memory) == PAGEWIRE_OK);
    assert(unimem_alloc(memory, 1, 1, 0, &page) < 0);
    unimem_destroy(memory);
    end(&p);
}

static void messages_reach_device_and_callback(void)
{
    pair p = joined(none);
    unimem *memory[2];
    uint64_t value;
    with_unimem(&p, memory);
    assert(unimem_act(memory[1], 'r', 4, 0) == PAGEWIRE_OK);
    assert(unimem_act(memory[1], 'r', 4, 0) == PAGEWIRE_ERR_FULL);
    int device = unimem_device(memory[1], 0);
    assert(device >= 0 && unimem_device(memory[1], 2) == PAGEWIRE_ERR_INVALID);
    const uint64_t sent = UINT64_C(4) << UNIMEM_OPCODE_SHIFT | 321;
    assert(unimem_send(memory[0], 1, sent) == PAGEWIRE_OK);
    assert(pagewire_progress(p.nodes[1], 0) >= 0);
    assert(read(device, &value, sizeof value) == 8 && value == sent);
    assert(unimem_send(memory[0], 2, sent) == PAGEWIRE_ERR_INVALID);
    without_unimem(&p, memory);
}

static void hardware_is_driven_by_the_program(void)
{
    pair p = joined(none);
    unimem *memory[2];
    unimem_word words[4], burst[2] = {{1, 2}, {3, 4}};
    with_unimem(&p, memory);
    int mine = unimem_open_interface(memory[0]), theirs = unimem_open_interface(memory[1]);
    assert(mine == 2 && theirs == 2); /* 1 is the library's */
    assert(unimem_read_fifo(memory[1], 2, words, 1) == 0 && words[0].low == UNIMEM_EMPTY);
    assert(unimem_write_fifo(memory[0], 2, 1, 2, burst, 2) == 1);
    assert(unimem_write_fifo(memory[0], 2, 1, 0, burst, 2) == 0); /* the service's */
    assert(unimem_write_fifo(memory[0], 2, 1, 1, burst, 2) == 0); /* of the library's thread */
    assert(unimem_write_fifo(memory[0], 2, 2, 2, burst, 2) == PAGEWIRE_ERR_INVALID);
    assert(unimem_write_fifo(memory[0], 1, 1, 2, burst, 2) == PAGEWIRE_ERR_INVALID);
    const unimem_word to = {unimem_destination(1, 2), 0}, payload = {UINT64_MAX, 7};
    assert(unimem_write_register(memory[0], 2, UNIMEM_DESTINATION, to) == PAGEWIRE_OK);
    assert(unimem_write_register(memory[0], 2, UNIMEM_PAYLOAD1, burst[0]) == PAGEWIRE_OK);
    assert(unimem_read_status(memory[0], 2) == 0);
    assert(unimem_write_register(memory[0], 2, UNIMEM_PAYLOAD0, payload) == PAGEWIRE_OK);
    assert(unimem_write_register(memory[0], 2, 0x200, payload) == PAGEWIRE_ERR_INVALID);
    assert(unimem_read_status(memory[0], 2) == UNIMEM_STATUS_PEND);
    while (unimem_read_status(memory[0], 2) & UNIMEM_STATUS_PEND) continue;
    assert(unimem_read_status(memory[0], 2) == UNIMEM_STATUS_ACK);
    const unimem_word librarys = {unimem_destination(1, 1), 0};
    assert(unimem_write_register(memory[0], 2, UNIMEM_PAYLOAD0, payload) == PAGEWIRE_OK);
    assert(unimem_write_register(memory[0], 2, UNIMEM_PAYLOAD1, payload) == PAGEWIRE_OK);
    assert(unimem_write_register(memory[0], 2, UNIMEM_DESTINATION, librarys) == PAGEWIRE_OK);
    while (unimem_read_status(memory[0], 2) & UNIMEM_STATUS_PEND) continue;
    assert(unimem_read_status(memory[0], 2) == UNIMEM_STATUS_NACK);
    assert(pagewire_clock_observe(p.nodes[1], pagewire_clock_ns(p.nodes[0])) == PAGEWIRE_OK);
    assert(unimem_read_fifo(memory[1], 2, words, 4) == 4);
    assert(words[0].low == 1 && words[1].high == 4);
    assert(words[2].low == (UINT64_C(0xffff) << 48 | 2) && words[2].high == 7);
    assert(words[3].low == 1 && words[3].high == 2);
    assert(unimem_close_interface(memory[0], 2) == PAGEWIRE_OK);
    assert(unimem_close_interface(memory[0], 2) == PAGEWIRE_ERR_INVALID);
    assert(unimem_read_status(memory[0], 2) == PAGEWIRE_ERR_INVALID);
    without_unimem(&p, memory);
}

int main(void)
{
    operations_on_joined_nodes();
    rdma_and_unimem_share_a_node();
    node_without_unimem_is_named();
    messages_reach_device_and_callback();
    hardware_is_driven_by_the_program();
    return 0;
}
