/* Firehoses between nodes of one process: what a reader holds, round trips that move them, limits
 * at both ends, messages of more pages than there are. Costs are 1 us to pin and 1 us to unpin,
 * whatever the pages, so that times can be told in a sum. */
#include "tests/c/node/node_pair.h"

#define PIN_ONE_NS 1000
#define UNPIN_ONE_NS 1000

static void begin_firehoses(joined *all, uint32_t num_nodes, uint64_t limit_pages,
                            uint64_t victim_pages)
{
    prepare(all, num_nodes);
    all->config.settings.firehose_limit_bytes = (int64_t)(limit_pages * PW_PAGE_BYTES);
    all->config.settings.firehose_victims_bytes = (int64_t)(victim_pages * PW_PAGE_BYTES);
    all->config.tables.table[PW_COST_PIN_RESIDENT].cost_ns[0] = PIN_ONE_NS;
    all->config.tables.table[PW_COST_UNPIN].cost_ns[0] = UNPIN_ONE_NS;
    all->opening.strategy = pw_strategy_find("firehose");
    create(all);
}

static uint64_t pinned_pages(const joined *all, uint32_t node)
{
    return pw_node_strategy_context(all->nodes[node])->pinned.num_pages;
}

static pw_strategy_counters counters_of(const joined *all, uint32_t node)
{
    return pw_node_strategy_context(all->nodes[node])->counters;
}

/* A read of pages of node 0 by node 1, without a lease of its own at at_ns. */
typedef struct {
    pw_handle *exposed, *fetched;
} transfer;

static uint8_t *destination;

static transfer start_read(joined *all, uint8_t *source, uint64_t num_pages, int64_t at_ns)
{
    transfer made;
    uint64_t num_bytes = num_pages * PW_PAGE_BYTES;
    assert(pw_node_expose(all->nodes[0], 1, address_of(source), num_bytes, &made.exposed) == PW_OK);
    assert(pw_node_fetch(all->nodes[1], 0, made.exposed->address, made.exposed->key,
                         address_of(destination), num_bytes, at_ns, NULL, &made.fetched) == PW_OK);
    return made;
}

/* How long it took. */
static int64_t finish_read(joined *all, transfer *made, int64_t at_ns)
{
    finish(all, made->fetched);
    finish(all, made->exposed);
    assert(made->fetched->error == PW_OK && made->exposed->error == PW_OK);
    int64_t duration_ns = made->fetched->complete_ns - at_ns;
    pw_node_free_handle(all->nodes[1], made->fetched);
    pw_node_free_handle(all->nodes[0], made->exposed);
    return duration_ns;
}

static int64_t read_pages(joined *all, uint8_t *source, uint64_t num_pages, int64_t at_ns)
{
    memset(destination, 0, num_pages * PW_PAGE_BYTES);
    transfer made = start_read(all, source, num_pages, at_ns);
    int64_t duration_ns = finish_read(all, &made, at_ns);
    assert(memcmp(source, destination, num_pages * PW_PAGE_BYTES) == 0);
    return duration_ns;
}

/* From the reader's call to its reading of the answer: a packet each way, each read from a mailbox
 * by the library, and its work in between. */
static int64_t round_trip_ns(joined *all, int64_t work_ns)
{
    uint8_t frame[PW_ENVELOPE_BYTES];
    pw_envelope envelope;
    pw_ni_control_write(pw_node_ni(all->nodes[1]), 0, PW_MESSAGE_OF_NODES, 0, 0, 0, 0, 0, frame);
    memcpy(&envelope, frame, sizeof envelope);
    return 2 * (envelope.arrival_ns + platform_costs.mailbox_read_ns) + work_ns;
}

/* A test of so many nodes, with 64 pages of node 0's. */
static void run(uint32_t num_nodes, uint64_t limit_pages, uint64_t victim_pages,
                void (*test)(joined *all, uint8_t *pages))
{
    joined all;
    begin_firehoses(&all, num_nodes, limit_pages, victim_pages);
    test(&all, make_pattern(64 * PW_PAGE_BYTES));
    end(&all);
}

static void test_first_read_takes_a_round_trip_and_later_ones_none(joined *all, uint8_t *pages)
{
    int64_t at_ns = 10000000;
    read_pages(all, pages + 32 * PW_PAGE_BYTES, 4, at_ns); /* warms TLBs of the destination */
    assert(pinned_pages(all, 0) == 4 && pinned_pages(all, 1) == 0);
    int64_t first_ns = read_pages(all, pages, 4, at_ns *= 2);
    int64_t second_ns = read_pages(all, pages, 4, at_ns *= 2);
    assert(read_pages(all, pages + PW_PAGE_BYTES, 2, at_ns *= 2) < second_ns);
    pw_strategy_counters reader = counters_of(all, 1);
    assert(reader.firehose_moves == 2 && reader.firehose_pages == 8);
    assert(reader.strategy_hits == 2 && reader.strategy_misses == 2);
    /* The source's translations were cold the first time, beside the round trip. */
    int64_t walk_ns = platform_costs.walk_ns, expected_ns = round_trip_ns(all, PIN_ONE_NS);
    assert(first_ns - second_ns >= expected_ns && first_ns - second_ns <= expected_ns + walk_ns);
}

static void test_idle_firehoses_are_moved_the_oldest_first(joined *all, uint8_t *pages)
{
    int64_t at_ns = 10000000;
    for (int i = 0; i < 3; i++)
        read_pages(all, pages + i * 8 * PW_PAGE_BYTES, 8, at_ns += 10000000);
    pw_strategy_counters reader = counters_of(all, 1);
    assert(reader.firehose_moves == 3 && reader.strategy_evictions == 1);
    assert(pinned_pages(all, 0) == 16); /* never more than it lets its peer hold */
    assert(pw_node_strategy_context(all->nodes[0])->pinned.peak_pages == 16);
    read_pages(all, pages + 8 * PW_PAGE_BYTES, 8, at_ns += 10000000); /* still held */
    assert(counters_of(all, 1).firehose_moves == 3);
    read_pages(all, pages, 8, at_ns += 10000000); /* was moved */
    assert(counters_of(all, 1).firehose_moves == 4);
}

static void test_victims_stay_pinned_and_cost_no_pin_when_held_again(joined *all, uint8_t *pages)
{
    int64_t at_ns = 10000000;
    read_pages(all, pages, 8, at_ns += 10000000);
    read_pages(all, pages + 8 * PW_PAGE_BYTES, 8, at_ns += 10000000);
    assert(pinned_pages(all, 0) == 16 && counters_of(all, 0).strategy_evictions == 0);
    pw_node_counters before, after;
    pw_node_read_counters(all->nodes[0], &before);
    read_pages(all, pages, 8, at_ns += 10000000);
    pw_node_read_counters(all->nodes[0], &after);
    assert(counters_of(all, 1).firehose_moves == 3 && after.pin_ns == before.pin_ns);
    read_pages(all, pages + 16 * PW_PAGE_BYTES, 8, at_ns += 10000000);
    assert(pinned_pages(all, 0) == 24 && counters_of(all, 0).strategy_evictions == 0);
    read_pages(all, pages + 24 * PW_PAGE_BYTES, 8, at_ns += 10000000); /* a third victim */
    assert(pinned_pages(all, 0) == 24 && counters_of(all, 0).strategy_evictions == 1);
    pw_node_read_counters(all->nodes[0], &after);
    assert(after.pin_ns == before.pin_ns + 2 * PIN_ONE_NS + UNPIN_ONE_NS);
}

static void test_messages_of_more_pages_are_read_in_chunks(joined *all, uint8_t *pages)
{
    transfer made;
    uint64_t num_bytes = 17 * PW_PAGE_BYTES + 100;
    memset(destination, 0, num_bytes + 1);
    uint64_t address = address_of(pages) + 77;
    assert(pw_node_expose(all->nodes[0], 1, address, num_bytes, &made.exposed) == PW_OK);
    assert(pw_node_fetch(all->nodes[1], 0, made.exposed->address, made.exposed->key,
                         address_of(destination), num_bytes, 0, NULL, &made.fetched) == PW_OK);
    finish_read(all, &made, 0);
    assert(memcmp(pages + 77, destination, num_bytes) == 0 && destination[num_bytes] == 0);
    assert(counters_of(all, 1).firehose_moves == 4); /* 18 pages by five */
    assert(pw_node_strategy_context(all->nodes[0])->pinned.peak_pages == 5);
    assert(pw_ni_num_pending(pw_node_ni(all->nodes[0])) == 0);
}

static void test_reads_wait_while_all_firehoses_are_in_use(joined *all, uint8_t *pages)
{
    transfer reads[3];
    for (int i = 0; i < 3; i++) reads[i] = start_read(all, pages + i * 8 * PW_PAGE_BYTES, 8, 1000);
    assert(counters_of(all, 1).firehose_waits == 2);
    int64_t last_ns = 0;
    for (int i = 0; i < 3; i++) {
        int64_t duration_ns = finish_read(all, &reads[i], 0);
        assert(duration_ns > last_ns + round_trip_ns(all, PIN_ONE_NS) * (i > 0));
        last_ns = duration_ns;
    }
    assert(pw_node_strategy_context(all->nodes[0])->pinned.peak_pages == 8);
}

static void test_a_read_of_pages_under_move_waits_for_the_same_answer(joined *all, uint8_t *pages)
{
    transfer first = start_read(all, pages, 8, 1000);
    transfer second = start_read(all, pages + 2 * PW_PAGE_BYTES, 2, 1000);
    assert(counters_of(all, 1).firehose_moves == 1);
    int64_t least_ns = round_trip_ns(all, PIN_ONE_NS);
    assert(finish_read(all, &second, 1000) > least_ns);
    finish_read(all, &first, 1000);
}

static void test_each_peer_has_its_part_and_a_node_none_at_itself(void)
{
    joined all;
    begin_firehoses(&all, 3, 8, 64); /* four pages for each of two peers */
    message own = start_message(&all, 0, 0, 8 * PW_PAGE_BYTES, true);
    finish_message(&all, &own, 0, 0);
    assert(counters_of(&all, 0).firehose_moves == 0);
    for (uint32_t to = 1; to < 3; to++) {
        message sent = start_message(&all, 0, to, 4 * PW_PAGE_BYTES, true);
        finish_message(&all, &sent, 0, to);
        assert(counters_of(&all, to).firehose_moves == 1);
        sent = start_message(&all, 0, to, 4 * PW_PAGE_BYTES, true);
        finish_message(&all, &sent, 0, to);
        assert(counters_of(&all, to).strategy_evictions == 1);
    }
    end(&all);
    begin_firehoses(&all, 1, 1, 0);
    own = start_message(&all, 0, 0, 8 * PW_PAGE_BYTES, true);
    finish_message(&all, &own, 0, 0);
    end(&all);
}

static void test_mapping_that_went_is_pinned_anew_by_its_owner(joined *all, uint8_t *pages)
{
    read_pages(all, pages, 4, 1000);
    assert(mmap(pages + PW_PAGE_BYTES, PW_PAGE_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    read_pages(all, pages, 4, 10000000);
    assert(counters_of(all, 0).strategy_invalidations == 1 && pinned_pages(all, 0) == 4);
    assert(counters_of(all, 1).firehose_moves == 1);
    pw_counters ni;
    pw_ni_read_counters(pw_node_ni(all->nodes[0]), &ni);
    assert(ni.translation_faults_source == 0);
    assert(pw_node_unmapped(all->nodes[0], pw_page_of(address_of(pages)), 4) == PW_OK);
    assert(pinned_pages(all, 0) == 0);
    read_pages(all, pages, 4, 20000000);
    assert(pinned_pages(all, 0) == 4);
}

static void test_pages_that_cannot_be_pinned_end_the_read_alone(joined *all, uint8_t *pages)
{
    transfer made = start_read(all, pages, 4, 1000);
    assert(mprotect(pages, 4 * PW_PAGE_BYTES, PROT_NONE) == 0);
    finish(all, made.fetched);
    assert(made.fetched->error < 0 && pinned_pages(all, 0) == 0);
    read_pages(all, pages + 8 * PW_PAGE_BYTES, 8, 10000000);
    assert(pinned_pages(all, 0) == 8);
}

static void test_what_peers_say_is_checked(void)
{
    joined all;
    begin_firehoses(&all, 2, 8, 0);
    assert(pw_node_set_frame_bytes(all.nodes[0], PW_ENVELOPE_BYTES) == PW_OK);
    const struct {
        uint8_t kind;
        uint64_t address, num_bytes, key;
    } unsound[] = {{8, 1, 0, 0},  {9, 1, 9, 1},  {9, UINT64_MAX - 2, 4, 1},
                   {10, 0, 0, 1}, {11, 0, 0, 1}, {12, 0, 0, 0}};
    for (size_t i = 0; i < sizeof unsound / sizeof *unsound; i++) {
        uint8_t *sent = pw_node_take_frame(all.nodes[0]);
        pw_ni_control_write(pw_node_ni(all.nodes[0]), 1,
                            (uint8_t)(PW_MESSAGE_OF_NODES + unsound[i].kind), unsound[i].address,
                            unsound[i].num_bytes, unsound[i].key, 0, 0, sent);
        assert(pw_node_send_frame(all.nodes[0], 1, sent, PW_ENVELOPE_BYTES) == PW_OK);
        assert(pw_node_turn(all.nodes[1], true) == PW_ERR_MALFORMED);
        assert(strstr(pw_node_reason(all.nodes[1]), "is about no firehose here"));
    }
    end(&all);
    prepare(&all, 2);
    all.config.settings.firehose_limit_bytes = PW_PAGE_BYTES - 1;
    all.opening.strategy = pw_strategy_find("firehose");
    pw_sentence reason;
    assert(pw_node_open(&all.config, &all.opening, all.wires[0], &all.nodes[0], &reason) ==
           PW_ERR_INVALID);
    assert(strstr(reason.text, "no page of 4 KiB for each peer"));
    for (uint32_t i = 0; i < 2; i++) all.wires[i]->ops->close(all.wires[i]);
}

int main(void)
{
    destination = make_pattern(64 * PW_PAGE_BYTES);
    run(2, 64, 0, test_first_read_takes_a_round_trip_and_later_ones_none);
    run(2, 16, 0, test_idle_firehoses_are_moved_the_oldest_first);
    run(2, 8, 16, test_victims_stay_pinned_and_cost_no_pin_when_held_again);
    run(2, 5, 0, test_messages_of_more_pages_are_read_in_chunks);
    run(2, 8, 0, test_reads_wait_while_all_firehoses_are_in_use);
    run(2, 8, 0, test_a_read_of_pages_under_move_waits_for_the_same_answer);
    test_each_peer_has_its_part_and_a_node_none_at_itself();
    run(2, 8, 0, test_mapping_that_went_is_pinned_anew_by_its_owner);
    run(2, 8, 0, test_pages_that_cannot_be_pinned_end_the_read_alone);
    test_what_peers_say_is_checked();
    return 0;
}
