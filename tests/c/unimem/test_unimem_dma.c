/* The DMA library on nodes of the C interface: buffers, transfers, order, callbacks, what is
 * refused, what fails, losses and faults. */
#include "include/unimem.h"
#include "tests/c/node/two_nodes.h"
#include <stdbool.h>
#include <stdio.h>

#define NUM_BYTES 100000

typedef struct {
    pair p;
    unimem *memory[2];
    unim_dma *dma[2];
} machine;

static machine made(const char *const *settings)
{
    static const unimem_options options = {.struct_size = sizeof options,
                                           .wall_limit_ns = 3000000000};
    machine m = {.p = joined(settings)};
    for (int i = 0; i < 2; i++) {
        assert(unimem_create(m.p.nodes[i], &options, &m.memory[i]) == PAGEWIRE_OK);
        assert(unim_dma_init(m.memory[i], &m.dma[i]) == PAGEWIRE_OK);
    }
    return m;
}

static void finish_machine(machine *m)
{
    for (int i = 0; i < 2; i++) {
        assert(unim_dma_cleanup(m->dma[i]) == PAGEWIRE_OK);
        unimem_destroy(m->memory[i]);
    }
    end(&m->p);
}

static void says(const machine *m, int node, const char *text)
{
    if (strstr(pagewire_reason(m->p.nodes[node]), text)) return;
    fprintf(stderr, "'%s' is not in: %s\n", text, pagewire_reason(m->p.nodes[node]));
    abort();
}

static void done(const machine *m, uint64_t id)
{
    if (id == 0) fprintf(stderr, "refused: %s\n", pagewire_reason(m->p.nodes[0]));
    assert(id && unim_dma_wait(m->dma[0], id) == UNIM_DMA_COMPLETED);
    assert(unim_dma_error(m->dma[0], id) == PAGEWIRE_OK);
}

/* Every way from end to end, with offsets, bytes compared; meanwhile the node has counted. */
static void bytes_arrive(const char *const *settings, const char *counted, bool is_counted)
{
    machine m = made(settings);
    unim_dma *dma = m.dma[0];
    unim_buf *local[2], *remote[2];
    uint8_t *bytes = fresh_pages(NUM_BYTES), *back = fresh_pages(NUM_BYTES);
    fill(bytes, NUM_BYTES, 3);
    for (int i = 0; i < 2; i++) {
        local[i] = unim_alloc_buf_l(dma, NUM_BYTES + 64);
        remote[i] = unim_alloc_buf_r(dma, NUM_BYTES + 64, 1);
        assert(local[i] && remote[i] && unim_buf_get_size(dma, remote[i]) == NUM_BYTES + 64);
    }
    assert(unim_dma_get_node(dma) == 0);
    /* memory, local, remote, remote, local, memory */
    done(&m, unim_dma_submit_transfer_from_mem(dma, bytes, local[0], 7, NUM_BYTES, NULL, NULL));
    assert(memcmp((uint8_t *)unim_buf_get_memory(dma, local[0]) + 7, bytes, NUM_BYTES) == 0);
    done(&m, unim_dma_submit_transfer(dma, local[0], remote[0], 7, 64, NUM_BYTES, NULL, NULL));
    assert(memcmp((uint8_t *)unim_buf_get_memory(dma, remote[0]) + 64, bytes, NUM_BYTES) == 0);
    done(&m, unim_dma_submit_transfer(dma, remote[0], remote[1], 64, 1, NUM_BYTES, NULL, NULL));
    done(&m, unim_dma_submit_transfer(dma, remote[1], local[1], 1, 33, NUM_BYTES, NULL, NULL));
    done(&m, unim_dma_submit_transfer(dma, local[1], local[0], 33, 0, NUM_BYTES, NULL, NULL));
    done(&m, unim_dma_submit_transfer_to_mem(dma, local[0], back, 0, NUM_BYTES, NULL, NULL));
    assert(memcmp(bytes, back, NUM_BYTES) == 0);
    /* memory to a remote buffer and back; the source may change at once */
    uint8_t first = bytes[0];
    uint64_t sent =
        unim_dma_submit_transfer_from_mem(dma, bytes, remote[0], 0, NUM_BYTES, NULL, NULL);
    bytes[0] = (uint8_t)~first;
    done(&m, sent);
    bytes[0] = first;
    memset(back, 0, NUM_BYTES);
    done(&m, unim_dma_submit_transfer_to_mem(dma, remote[0], back, 0, NUM_BYTES, NULL, NULL));
    assert(memcmp(bytes, back, NUM_BYTES) == 0);
    assert(memcmp(unim_buf_get_memory(dma, local[1]), "\0\0\0", 3) == 0); /* zeroed */
    /* by its id, at its owner, and at a node that did not allocate it */
    uint64_t id = unim_get_buf_id(dma, remote[0]);
    unim_buf *there = unim_get_buf(m.dma[1], id);
    assert(there && unim_buf_get_memory(m.dma[1], there) == unim_buf_get_memory(dma, remote[0]));
    assert(unim_get_buf(m.dma[1], unim_get_buf_id(dma, local[0])) == local[0]);
    assert((counter(m.p.nodes[0], counted) > 0) == is_counted);
    finish_machine(&m);
}

typedef struct {
    unim_dma *dma;
    uint64_t ids[64];
    int statuses[64], count, wanted; /* wanted: more to submit from the callback */
    unim_buf *buffers[2];
} log_of_ends;

static void note(uint64_t id, int status, void *arg)
{
    log_of_ends *ends = arg;
    ends->ids[ends->count] = id;
    ends->statuses[ends->count++] = status;
    if (ends->wanted-- > 0)
        assert(unim_dma_submit_transfer(ends->dma, ends->buffers[0], ends->buffers[1], 0, 0, 64,
                                        note, ends));
}

static void transfers_start_in_order_of_requests(void)
{
    static const char *const settings[] = {"run.compute=none", "run.memory=pin", NULL};
    machine m = made(settings);
    log_of_ends ends = {.dma = m.dma[0], .wanted = 2};
    uint64_t ids[48];
    ends.buffers[0] = unim_alloc_buf_l(m.dma[0], 1 << 20);
    ends.buffers[1] = unim_alloc_buf_r(m.dma[0], 1 << 20, 1);
    for (int i = 0; i < 48; i++) {
        ids[i] = unim_dma_submit_transfer(m.dma[0], ends.buffers[0], ends.buffers[1], 0, 0,
                                          i ? 20000 : 1 << 20, note, &ends);
        assert(ids[i] == (i ? ids[i - 1] + 1 : 1));
    }
    /* 32 write channels: the last ones wait, and a read, which needs none, does not overtake them
     */
    uint64_t read =
        unim_dma_submit_transfer(m.dma[0], ends.buffers[1], ends.buffers[0], 0, 0, 64, NULL, NULL);
    assert(unim_dma_wait(m.dma[0], ids[5]) == UNIM_DMA_COMPLETED);
    assert(unim_dma_status(m.dma[0], ids[47]) == UNIM_DMA_PENDING);
    assert(read == 49 && unim_dma_status(m.dma[0], read) == UNIM_DMA_PENDING);
    assert(unim_dma_wait(m.dma[0], ids[40]) == UNIM_DMA_COMPLETED);
    int64_t before_ns = pagewire_clock_ns(m.p.nodes[0]);
    assert(unim_free_buf(m.dma[0], ends.buffers[0]) == PAGEWIRE_ERR_FULL);
    says(&m, 0, "transfers with it are not over");
    assert(unim_dma_cleanup(m.dma[0]) == PAGEWIRE_ERR_FULL);
    for (int i = 47; i >= 0; i--) assert(unim_dma_wait(m.dma[0], ids[i]) == UNIM_DMA_COMPLETED);
    assert(pagewire_clock_ns(m.p.nodes[0]) > before_ns);
    for (uint64_t id = read; id <= 51; id++)
        assert(unim_dma_wait(m.dma[0], id) == UNIM_DMA_COMPLETED);
    assert(ends.count == 50 && ends.ids[49] == 1); /* each once, as they ended: the long one last */
    uint64_t next =
        2; /* equal ones end as they started; the callback's, which are short, between */
    for (int i = 0; i < 49; i++)
        if (ends.ids[i] < read) assert(ends.ids[i] == next++);
    assert(next == read);
    for (int i = 0; i < 50; i++) assert(ends.statuses[i] == UNIM_DMA_COMPLETED);
    /* a status goes from pending over started to completed as time passes */
    uint64_t id = unim_dma_submit_transfer(m.dma[0], ends.buffers[0], ends.buffers[1], 0, 0, 1000,
                                           NULL, NULL);
    int seen = unim_dma_status(m.dma[0], id), later, changes = 0;
    assert(seen == UNIM_DMA_PENDING); /* its thread wakes up */
    while (seen != UNIM_DMA_COMPLETED) {
        later = unim_dma_status(m.dma[0], id);
        assert(later >= seen && later != UNIM_DMA_FAILED);
        changes += later != seen;
        seen = later;
    }
    assert(changes == 2);
    finish_machine(&m);
}

/* Two legs, and more than there are channels: the submitter needs no call of its library. */
static void submitter_goes_on_in_calls_of_the_node(void)
{
    static const char *const settings[] = {"run.compute=none", "unimem.dma_buffers=2", NULL};
    machine m = made(settings);
    uint64_t ids[40];
    unim_buf *there[2], *here = unim_alloc_buf_l(m.dma[0], 4096);
    for (int i = 0; i < 2; i++) there[i] = unim_alloc_buf_r(m.dma[0], 4096, 1);
    for (int i = 0; i < 40; i++)
        ids[i] = unim_dma_submit_transfer(m.dma[0], here, there[0], 0, 0, 4096, NULL, NULL);
    uint64_t legs = unim_dma_submit_transfer(m.dma[0], there[0], there[1], 0, 0, 4096, NULL, NULL);
    assert(unim_dma_status(m.dma[0], ids[39]) == UNIM_DMA_PENDING);
    for (int i = 0; i < 2000; i++) assert(pagewire_progress(m.p.nodes[0], PAGEWIRE_CPU_WAITS) >= 0);
    assert(pagewire_clock_observe(m.p.nodes[0], INT64_C(1000000000)) == PAGEWIRE_OK);
    assert(unim_dma_status(m.dma[0], legs) == UNIM_DMA_COMPLETED);
    finish_machine(&m);
}

static void refused(const machine *m, uint64_t id, const char *text)
{
    assert(id == 0);
    says(m, 0, text);
}

static void what_is_wrong_is_refused(void)
{
    machine m = made(none);
    unim_dma *dma = m.dma[0], *second;
    uint8_t bytes[64] = {0};
    assert(unim_dma_init(m.memory[0], &second) == PAGEWIRE_ERR_FULL);
    assert(!unim_alloc_buf_l(dma, 0));
    says(&m, 0, "of 0 bytes at node 0: allowed is 1 to 268435456");
    assert(!unim_alloc_buf_r(dma, 268435457, 1));
    says(&m, 0,
         "of 268435457 bytes at node 1: allowed is 1 to 268435456; raise that node's "
         "unimem.dma_buffer");
    assert(!unim_alloc_buf_r(dma, 64, 2));
    says(&m, 0, "there are nodes 0 to 1");
    unim_buf *local = unim_alloc_buf_l(dma, 64), *remote = unim_alloc_buf_r(dma, 64, 1);
    assert(local && remote && !unim_alloc_buf_l(dma, 64));
    says(&m, 0, "it has 1, the most allowed; free one, or raise that node's unimem.dma_buffers");
    assert(!unim_alloc_buf_r(dma, 64, 1) && !unim_alloc_buf_l(m.dma[1], 64));
    refused(&m, unim_dma_submit_transfer(dma, local, remote, 0, 0, 0, NULL, NULL), "of 0 bytes");
    refused(&m, unim_dma_submit_transfer(dma, local, remote, 1, 0, 64, NULL, NULL),
            "64 bytes at offset 1 of the source");
    refused(&m, unim_dma_submit_transfer(dma, local, remote, 0, UINT64_MAX, 2, NULL, NULL),
            "of the destination");
    refused(&m, unim_dma_submit_transfer(dma, local, remote, 0, 0, UINT64_C(1) << 32, NULL, NULL),
            "allowed is 1 to 4294967295");
    refused(&m, unim_dma_submit_transfer_from_mem(dma, bytes, NULL, 0, 64, NULL, NULL),
            "one end must be a buffer");
    refused(
        &m,
        unim_dma_submit_transfer_to_mem(dma, (unim_buf *)(uintptr_t)77, bytes, 0, 64, NULL, NULL),
        "the source 0x4d is no buffer that this node knows");
    assert(unim_dma_status(dma, 1) == PAGEWIRE_ERR_INVALID);
    says(&m, 0, "DMA transfer 1: there is none of that id");
    assert(unim_dma_wait(dma, 0) == PAGEWIRE_ERR_INVALID);
    assert(unim_dma_error(dma, 9) == PAGEWIRE_ERR_INVALID);
    assert(!unim_get_buf(dma, 5) && !unim_get_buf(dma, UINT64_C(9) << 48 | 1));
    assert(!unim_get_buf(dma, UINT64_C(1) << 48 | 77));
    says(&m, 0, "node 1 has none of that id");
    /* a freed one is gone, and its number is not given again */
    uint64_t old = unim_get_buf_id(dma, remote);
    assert(unim_free_buf(dma, remote) == PAGEWIRE_OK);
    assert(unim_free_buf(dma, remote) == PAGEWIRE_ERR_INVALID);
    assert(!unim_get_buf_id(dma, remote) && !unim_buf_get_memory(dma, remote));
    says(&m, 0, "or it was freed");
    refused(&m, unim_dma_submit_transfer(dma, local, remote, 0, 0, 64, NULL, NULL), "was freed");
    unim_buf *next = unim_alloc_buf_r(dma, 64, 1);
    assert(next && unim_get_buf_id(dma, next) != old && !unim_get_buf(dma, old));
    finish_machine(&m);
}

static void transfer_with_a_buffer_freed_by_its_owner_fails(const char *const *settings)
{
    machine m = made(settings);
    log_of_ends ends = {.dma = m.dma[0]};
    uint8_t bytes[64] = {0};
    unim_buf *local = unim_alloc_buf_l(m.dma[0], NUM_BYTES);
    unim_buf *remote = unim_alloc_buf_r(m.dma[0], NUM_BYTES, 1);
    assert(unim_free_buf(m.dma[1], unim_get_buf(m.dma[1], unim_get_buf_id(m.dma[0], remote))) ==
           PAGEWIRE_OK);
    uint64_t ids[3] = {
        unim_dma_submit_transfer(m.dma[0], local, remote, 0, 0, NUM_BYTES, note, &ends),
        unim_dma_submit_transfer(m.dma[0], remote, local, 0, 0, NUM_BYTES, note, &ends),
        unim_dma_submit_transfer_to_mem(m.dma[0], remote, bytes, 0, 64, note, &ends)};
    for (int i = 0; i < 3; i++) {
        assert(unim_dma_wait(m.dma[0], ids[i]) == UNIM_DMA_FAILED);
        int error = unim_dma_error(m.dma[0], ids[i]);
        assert(error == PAGEWIRE_ERR_ADDRESS || error == PAGEWIRE_ERR_PROTECTION);
        says(&m, 0, "DMA transfer");
        assert(ends.statuses[i] == UNIM_DMA_FAILED);
    }
    assert(ends.count == 3);
    finish_machine(&m);
}

/* What transfers do then: tests/mpi/test_dma.py. */
static void silent_node_is_given_up(void)
{
    host_network network = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    host_end wire = {.network = &network, .node = 0};
    const unimem_options options = {.struct_size = sizeof options, .wall_limit_ns = 30000000};
    unimem *memory;
    unim_dma *dma;
    uint64_t page;
    pagewire_node *node = hosted(&wire, none);
    assert(unimem_create(node, &options, &memory) == PAGEWIRE_OK);
    assert(unimem_alloc(memory, 1, 1, 0, &page) == PAGEWIRE_ERR_UNRECOVERABLE);
    assert(strstr(pagewire_reason(node), "node 1 has not answered"));
    assert(unimem_alloc(memory, 0, 1, 0, &page) == PAGEWIRE_OK);
    assert(unim_dma_init(memory, &dma) == PAGEWIRE_OK);
    assert(!unim_alloc_buf_r(dma, 64, 1));
    assert(strstr(pagewire_reason(node), "node 1 has not answered within 30 ms"));
    assert(unim_dma_cleanup(dma) == PAGEWIRE_OK);
    unimem_destroy(memory);
    pagewire_node_destroy(node);
    end_network(&network);
}

typedef struct {
    int64_t allocation_ns, transfer_ns;
} durations;

static durations measured(const char *wakeup, const char *handler)
{
    const char *const settings[] = {"run.compute=none", wakeup, handler, NULL};
    machine m = made(settings);
    durations took;
    unim_buf *local = unim_alloc_buf_l(m.dma[0], 64);
    int64_t start_ns = pagewire_clock_ns(m.p.nodes[0]);
    unim_buf *remote = unim_alloc_buf_r(m.dma[0], 64, 1);
    took.allocation_ns = pagewire_clock_ns(m.p.nodes[0]) - start_ns;
    /* resident on both sides: the second one meets no fault, whose driver takes time too */
    for (int i = 0; i < 2; i++) {
        start_ns = pagewire_clock_ns(m.p.nodes[0]);
        done(&m, unim_dma_submit_transfer(m.dma[0], local, remote, 0, 0, 64, NULL, NULL));
    }
    took.transfer_ns = pagewire_clock_ns(m.p.nodes[0]) - start_ns;
    finish_machine(&m);
    return took;
}

static void times_are_the_platforms(void)
{
    const durations usual = measured("costs.user_wakeup_ns=3000", "costs.handler_ns=500");
    const durations slow = measured("costs.user_wakeup_ns=4000", "costs.handler_ns=500");
    const durations interrupted = measured("costs.user_wakeup_ns=3000", "costs.handler_ns=700");
    assert(usual.transfer_ns > 3000 && usual.allocation_ns > 2 * 500);
    assert(slow.transfer_ns == usual.transfer_ns + 1000);
    assert(slow.allocation_ns == usual.allocation_ns);
    assert(interrupted.allocation_ns == usual.allocation_ns + 2 * 200); /* there and here */
    assert(interrupted.transfer_ns == usual.transfer_ns);
}

int main(void)
{
    static const char *const lossy[] = {"run.compute=none", "unimem.dma_buffers=none",
                                        "impairments.packet_loss=1:20:7",
                                        "impairments.packet_corruption=1:30:7", NULL};
    static const char *const pinned[] = {"run.compute=none", "unimem.dma_buffers=4",
                                         "run.memory=pin", NULL};
    static const char *const faulting[] = {"run.compute=none", "unimem.dma_buffers=none",
                                           "run.memory=part", NULL};
    bytes_arrive(pinned, "pin_ns", true);
    bytes_arrive(pinned, "pages_paged_in", false);
    bytes_arrive(faulting, "pages_paged_in", true);
    bytes_arrive(lossy, "retransmitted_blocks", true);
    transfers_start_in_order_of_requests();
    submitter_goes_on_in_calls_of_the_node();
    what_is_wrong_is_refused();
    times_are_the_platforms();
    transfer_with_a_buffer_freed_by_its_owner_fails(none);
    transfer_with_a_buffer_freed_by_its_owner_fails(pinned);
    silent_node_is_given_up();
    return 0;
}
