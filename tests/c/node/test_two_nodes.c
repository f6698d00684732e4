/* A host in C, through pagewire.h alone: what two nodes do to each other's memory, and when. */
#include "tests/c/node/two_nodes.h"
#include <stdatomic.h>

#define NUM_BYTES 65536
/* From cli/experiments/rig.py with the same settings: the write's and the read's ends of 64 KiB
 * each to absent pages, the read posted when the write was seen; tests/node/test_c_api.py asks
 * the rig again. */
#define WRITE_NS 413987
#define READ_NS 827306
#define WRITE_POLICY_ALL_NS 251816

static void bytes_arrive_and_absent_pages_are_paged_in(void)
{
    pair p = joined(none);
    uint8_t *source = fresh_pages(NUM_BYTES), *there = fresh_pages(NUM_BYTES),
            *back = fresh_pages(NUM_BYTES);
    uint64_t key;
    fill(source, NUM_BYTES, 1);
    assert(pagewire_register(p.nodes[1], there, NUM_BYTES, &key) == PAGEWIRE_OK);

    pagewire_completion end_of_write = put(&p, source, there, NUM_BYTES);
    assert(end_of_write.error == PAGEWIRE_OK && end_of_write.complete_ns == WRITE_NS &&
           end_of_write.num_bytes == NUM_BYTES && end_of_write.peer == 1);
    assert(memcmp(source, there, NUM_BYTES) == 0);
    assert(counter(p.nodes[1], "translation_faults_destination") > 0 &&
           counter(p.nodes[1], "pages_paged_in") == NUM_BYTES / 4096);
    assert(counter(p.nodes[0], "translation_faults_source") == 0 &&
           counter(p.nodes[0], "retransmitted_blocks") > 0);

    pagewire_completion end_of_read = get(&p, there, key, back, NUM_BYTES);
    assert(end_of_read.error == PAGEWIRE_OK && end_of_read.complete_ns == READ_NS);
    assert(memcmp(source, back, NUM_BYTES) == 0);
    assert(counter(p.nodes[0], "pages_paged_in") == NUM_BYTES / 4096);
    assert(pagewire_clock_ns(p.nodes[0]) > READ_NS && pagewire_clock_ns(p.nodes[1]) == 0);

    uint64_t before = counter(p.nodes[1], "pages_paged_in");
    put(&p, source, there, NUM_BYTES); /* they are there now */
    assert(counter(p.nodes[1], "pages_paged_in") == before);
    assert(pagewire_num_pending(p.nodes[0]) == 0 && pagewire_num_pending(p.nodes[1]) == 1);
    end(&p);
}

static void lengths_and_offsets(void)
{
    static const size_t lengths[] = {1, 2, 255, 257, 4096, 16385, 300001};
    pair p = joined(none);
    uint8_t *source = fresh_pages(400000), *there = fresh_pages(400000),
            *back = fresh_pages(400000);
    uint64_t key;
    assert(pagewire_register(p.nodes[1], there, 400000, &key) == PAGEWIRE_OK);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t length = lengths[i], offset = 7 * i + 1;
        fill(source + offset, length, (unsigned)i);
        assert(put(&p, source + offset, there + 3 * offset, length).error == PAGEWIRE_OK);
        assert(get(&p, there + 3 * offset, key, back + offset, length).error == PAGEWIRE_OK);
        assert(memcmp(source + offset, back + offset, length) == 0);
        assert(back[offset + length] == 0);
    }
    end(&p);
}

static void a_policy_changes_the_faults(void)
{
    static const char *const all[] = {"run.compute=none", "run.policy=all", NULL};
    uint64_t faults[2];
    for (int i = 0; i < 2; i++) {
        pair p = joined(i ? all : none);
        uint8_t *source = fresh_pages(NUM_BYTES), *there = fresh_pages(NUM_BYTES);
        fill(source, NUM_BYTES, 3);
        assert(put(&p, source, there, NUM_BYTES).complete_ns ==
               (i ? WRITE_POLICY_ALL_NS : WRITE_NS));
        faults[i] = counter(p.nodes[1], "fault_interrupts");
        assert(counter(p.nodes[1], "pages_paged_in") == NUM_BYTES / 4096);
        assert(memcmp(source, there, NUM_BYTES) == 0);
        end(&p);
    }
    assert(faults[0] > faults[1] && faults[1] > 0);
}

/* Each is an error of its own, and the next transfer is as if nothing had been. */
static void errors_leave_both_going(void)
{
    pair p = joined(none);
    uint8_t *source = fresh_pages(NUM_BYTES), *there = fresh_pages(NUM_BYTES),
            *back = fresh_pages(NUM_BYTES);
    uint8_t *gone = fresh_pages(NUM_BYTES);
    uint64_t key, other_key;
    fill(source, NUM_BYTES, 4);
    assert(pagewire_register(p.nodes[1], there, NUM_BYTES, &key) == PAGEWIRE_OK);
    assert(pagewire_register(p.nodes[1], source, 4096, &other_key) == PAGEWIRE_OK);
    assert(put(&p, source, there, NUM_BYTES).error == PAGEWIRE_OK);

    assert(get(&p, there, key + 12345, back, 4096).error == PAGEWIRE_ERR_PROTECTION);
    assert(get(&p, there, other_key, back, 4096).error == PAGEWIRE_ERR_PROTECTION);
    assert(get(&p, back, key, back, 4096).error == PAGEWIRE_ERR_PROTECTION); /* not registered */
    assert(get(&p, there + 1, key, back, NUM_BYTES).error == PAGEWIRE_ERR_PROTECTION); /* long */
    assert(back[0] == 0);
    assert(munmap(gone, NUM_BYTES) == 0);
    assert(put(&p, source, gone, 4096).error == PAGEWIRE_ERR_ADDRESS);
    assert(pagewire_unmapped(p.nodes[1], gone, NUM_BYTES) == PAGEWIRE_OK);

    assert(pagewire_deregister(p.nodes[1], other_key) == PAGEWIRE_OK);
    assert(pagewire_deregister(p.nodes[1], other_key) == PAGEWIRE_ERR_INVALID);
    assert(strstr(pagewire_reason(p.nodes[1]), "is not registered here"));
    assert(get(&p, source, other_key, back, 16).error == PAGEWIRE_ERR_PROTECTION);

    assert(get(&p, there, key, back, NUM_BYTES).error == PAGEWIRE_OK);
    assert(memcmp(source, back, NUM_BYTES) == 0);
    assert(put(&p, back, there, NUM_BYTES).error == PAGEWIRE_OK);
    assert(counter(p.nodes[1], "reads_refused") == 5);
    end(&p);
}

static void channels_run_out_and_come_back(void)
{
    enum { CHANNELS = 32 };
    pair p = joined(none);
    uint8_t *source = fresh_pages(4096 * CHANNELS), *there = fresh_pages(4096 * CHANNELS);
    pagewire_operation *operations[CHANNELS], *more = NULL;
    fill(source, 4096 * CHANNELS, 5);
    for (int i = 0; i < CHANNELS; i++)
        assert(pagewire_write(p.nodes[0], 1, source + 4096 * i,
                              (uintptr_t)there + 4096u * (uintptr_t)i, 4096, NULL,
                              &operations[i]) == PAGEWIRE_OK);
    assert(pagewire_write(p.nodes[0], 1, source, (uintptr_t)there, 1, NULL, &more) ==
           PAGEWIRE_ERR_FULL);
    assert(strstr(pagewire_reason(p.nodes[0]), "32 write channels are taken"));
    pagewire_forget(p.nodes[0], &operations[3]);
    assert(operations[3] == NULL);
    for (int i = 0; i < CHANNELS; i++)
        if (i != 3) assert(finish(p.nodes[0], operations[i]).error == PAGEWIRE_OK);
    assert(memcmp(source, there, 4096 * CHANNELS) == 0);
    assert(put(&p, source, there, 1).error == PAGEWIRE_OK);
    assert(pagewire_num_pending(p.nodes[0]) == 0);
    end(&p);
}

static void looking_again_and_again_ends(void)
{
    pair p = joined(none);
    uint8_t *source = fresh_pages(NUM_BYTES), *there = fresh_pages(NUM_BYTES);
    pagewire_operation *operation;
    pagewire_completion completion = {.error = 99};
    fill(source, NUM_BYTES, 6);
    assert(pagewire_write(p.nodes[0], 1, source, (uintptr_t)there, NUM_BYTES, NULL, &operation) ==
           PAGEWIRE_OK);
    int result, num_looks = 0;
    while (!(result = pagewire_test(p.nodes[0], &operation, &completion))) num_looks++;
    assert(result == 1 && operation == NULL && num_looks > 10);
    assert(completion.complete_ns == WRITE_NS && completion.error == PAGEWIRE_OK);
    assert(pagewire_clock_ns(p.nodes[0]) >= WRITE_NS &&
           pagewire_clock_ns(p.nodes[0]) < WRITE_NS + 1000);
    end(&p);
}

typedef struct {
    int count;
    pagewire_notification last;
} notice;

static void note(void *context, const pagewire_notification *notification)
{
    notice *seen = context;
    seen->count++;
    seen->last = *notification;
}

static void notifications(void)
{
    pair p;
    notice seen = {.count = 0};
    pagewire_options options;
    pagewire_options_default(&options);
    assert(pagewire_network_create(2, &p.network) == PAGEWIRE_OK);
    options.network = p.network;
    options.settings = none;
    assert(pagewire_node_create(&options, &p.nodes[0]) == PAGEWIRE_OK);
    options.node = 1;
    options.notified = note;
    options.context = &seen;
    assert(pagewire_node_create(&options, &p.nodes[1]) == PAGEWIRE_OK);
    uint8_t *source = fresh_pages(NUM_BYTES), *there = fresh_pages(NUM_BYTES);
    pagewire_operation *operation;
    fill(source, NUM_BYTES, 7);
    pagewire_transfer_options how = {.struct_size = sizeof how,
                                     .hint = PAGEWIRE_HINT_HIGH,
                                     .window_blocks = 4,
                                     .notification_address = (uintptr_t)there + NUM_BYTES,
                                     .notification_data = {11, 22}};
    assert(pagewire_write(p.nodes[0], 1, source, (uintptr_t)there, NUM_BYTES, &how, &operation) ==
           PAGEWIRE_OK);
    pagewire_completion completion = finish(p.nodes[0], operation);
    while (pagewire_num_pending(p.nodes[1])) assert(pagewire_progress(p.nodes[1], 1) >= 0);
    uint64_t words[2];
    memcpy(words, there + NUM_BYTES, sizeof words);
    assert(words[0] == 11 && words[1] == 22 && seen.count == 1);
    assert(seen.last.address == how.notification_address && seen.last.data[1] == 22 &&
           seen.last.error == PAGEWIRE_OK && seen.last.peer == 0);
    assert(completion.complete_ns != WRITE_NS); /* another window */
    assert(pagewire_clock_observe(p.nodes[1], seen.last.time_ns) == PAGEWIRE_OK);
    assert(pagewire_clock_ns(p.nodes[1]) > seen.last.time_ns);
    end(&p);
}

static void a_write_has_the_key_of_its_destination(void)
{
    static const char *const needed[] = {"run.compute=none", "ni.write_keys=needed", NULL};
    pair p = joined(needed);
    uint8_t *source = fresh_pages(NUM_BYTES), *there = fresh_pages(NUM_BYTES);
    pagewire_transfer_options how = {.struct_size = sizeof how};
    pagewire_operation *operation;
    fill(source, NUM_BYTES, 12);
    assert(pagewire_register(p.nodes[1], there, NUM_BYTES, &how.key) == PAGEWIRE_OK);
    assert(put(&p, source, there, NUM_BYTES).error == PAGEWIRE_ERR_PROTECTION);
    assert(pagewire_write(p.nodes[0], 1, source, (uintptr_t)there, NUM_BYTES, &how, &operation) ==
           PAGEWIRE_OK);
    assert(finish(p.nodes[0], operation).error == PAGEWIRE_OK);
    assert(memcmp(source, there, NUM_BYTES) == 0);
    end(&p);
}

static void a_strategy_works_on_registrations_and_transfers(void)
{
    static const char *const pin[] = {"run.compute=none", "run.memory=pin", NULL};
    pair p = joined(pin);
    uint8_t *source = fresh_pages(NUM_BYTES), *there = fresh_pages(NUM_BYTES);
    uint64_t key;
    fill(source, NUM_BYTES, 8);
    assert(pagewire_register(p.nodes[1], there, NUM_BYTES, &key) == PAGEWIRE_OK);
    assert(counter(p.nodes[1], "pin_ns") > 0);
    assert(put(&p, source, there, NUM_BYTES).error == PAGEWIRE_OK);
    assert(counter(p.nodes[1], "pages_paged_in") == 0 && counter(p.nodes[0], "pin_ns") > 0);
    assert(pagewire_deregister(p.nodes[1], key) == PAGEWIRE_OK);
    uint8_t *gone = fresh_pages(4096);
    assert(munmap(gone, 4096) == 0);
    assert(pagewire_register(p.nodes[1], gone, 4096, &key) < 0);
    assert(strstr(pagewire_reason(p.nodes[1]), "pin"));
    assert(pagewire_num_pending(p.nodes[1]) == 0);
    end(&p);
}

typedef struct {
    pagewire_node *node;
    atomic_int stop;
} server;

static void *serve(void *context)
{
    server *self = context;
    while (!atomic_load(&self->stop))
        assert(pagewire_progress(self->node, PAGEWIRE_CPU_WAITS) >= 0);
    return NULL;
}

/* Over wires of the host's and in two threads: the same bytes at the same times. */
static void a_host_carries_bursts(void)
{
    host_network network = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    host_end ends[2] = {{.network = &network, .node = 0}, {.network = &network, .node = 1}};
    pair p = {.nodes = {hosted(&ends[0], none), hosted(&ends[1], none)}};
    server server = {.node = p.nodes[1]};
    uint8_t *source = fresh_pages(NUM_BYTES), *there = fresh_pages(NUM_BYTES),
            *back = fresh_pages(NUM_BYTES);
    uint64_t key;
    pthread_t thread;
    fill(source, NUM_BYTES, 9);
    assert(pagewire_register(p.nodes[1], there, NUM_BYTES, &key) == PAGEWIRE_OK);
    pagewire_operation *operation;
    assert(pagewire_write(p.nodes[0], 1, source, (uintptr_t)there, NUM_BYTES, NULL, &operation) ==
           PAGEWIRE_OK);
    /* nobody serves yet */
    assert(pagewire_wait(p.nodes[0], &operation, NULL, 2000000) == 0 && operation);
    assert(pthread_create(&thread, NULL, serve, &server) == 0);
    assert(finish(p.nodes[0], operation).complete_ns == WRITE_NS);
    assert(get(&p, there, key, back, NUM_BYTES).complete_ns == READ_NS);
    assert(memcmp(source, back, NUM_BYTES) == 0);
    atomic_store(&server.stop, 1);
    assert(pthread_join(thread, NULL) == 0);
    pagewire_node_destroy(p.nodes[0]);
    pagewire_node_destroy(p.nodes[1]);
    end_network(&network);
    assert(ends[0].closed == 1 && ends[1].closed == 1);
}

static void ends_with_transfers_under_way(void)
{
    pair p = joined(none);
    uint8_t *source = fresh_pages(NUM_BYTES), *there = fresh_pages(NUM_BYTES);
    pagewire_operation *operation;
    fill(source, NUM_BYTES, 10);
    assert(pagewire_write(p.nodes[0], 1, source, (uintptr_t)there, NUM_BYTES, NULL, &operation) ==
           PAGEWIRE_OK);
    assert(pagewire_progress(p.nodes[0], 0) >= 0);
    end(&p);
}

int main(void)
{
    bytes_arrive_and_absent_pages_are_paged_in();
    lengths_and_offsets();
    a_policy_changes_the_faults();
    errors_leave_both_going();
    channels_run_out_and_come_back();
    looking_again_and_again_ends();
    notifications();
    a_write_has_the_key_of_its_destination();
    a_strategy_works_on_registrations_and_transfers();
    a_host_carries_bursts();
    ends_with_transfers_under_way();
    return 0;
}
