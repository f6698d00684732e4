/* Nodes without bytes: the same program on the model's memory, with bytes and without, gives every
 * time, every trace record and every counter alike, and touches no memory. */
#include "tests/c/node/message_nodes.h"

#define NUM_NODES 4
#define REGION_BYTES (UINT64_C(1) << 20)
#define REGION_PAGES (REGION_BYTES >> PW_PAGE_SHIFT)
#define EAGER_BYTES 512
#define NUM_STEPS 40
#define AT_ONCE 8
#define TRACE_RECORDS 200000
#define TEXTS 8

/* What a run is made of. */
typedef struct {
    const char *texts[TEXTS];
    bool is_impaired;
} variant;

typedef struct {
    joined all;
    pw_messages messages[NUM_NODES];
    uint8_t *regions[NUM_NODES];
    uint64_t drawn;
    int64_t ends[NUM_STEPS][AT_ONCE][2];
    int errors[NUM_STEPS][AT_ONCE];
} program;

static uint64_t draw(program *self, uint64_t below)
{
    self->drawn = self->drawn * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (self->drawn >> 33) % below;
}

static void impair(pw_ni *ni)
{
    const pw_impairment_site rare = {.num = 1, .denom = 20, .seed = 3, .amount_ns = 5000};
    const uint32_t sites[] = {PW_IMPAIRMENT_PACKET_CORRUPTION, PW_IMPAIRMENT_DUPLICATION,
                              PW_IMPAIRMENT_DELAY};
    for (int i = 0; i < 3; i++) {
        pw_impairment_site plan = rare;
        if (sites[i] == PW_IMPAIRMENT_PACKET_CORRUPTION) plan.denom = 400;
        if (sites[i] == PW_IMPAIRMENT_PACKET_CORRUPTION) plan.amount_ns = 0;
        assert(pw_ni_plan_impairment(ni, sites[i], &plan) == PW_OK);
    }
}

static void open_program(program *self, const variant *of, bool has_no_bytes)
{
    pw_sentence reason;
    prepare(&self->all, NUM_NODES);
    assert(pw_node_config_of_texts(of->texts, &self->all.config, &reason) == PW_OK);
    self->all.opening = (pw_node_opening){.pdid = 1, .has_no_bytes = has_no_bytes};
    create(&self->all);
    self->drawn = 2;
    for (int i = 0; i < NUM_NODES; i++) {
        open_messages(&self->messages[i], self->all.nodes[i], EAGER_BYTES);
        assert(pw_ni_trace_start(pw_node_ni(self->all.nodes[i]), TRACE_RECORDS) == PW_OK);
        pw_ni_trace_detail(pw_node_ni(self->all.nodes[i]));
        if (of->is_impaired) impair(pw_node_ni(self->all.nodes[i]));
    }
}

/* One operation of a step: its times are at ends, its code at error. */
typedef struct {
    pw_handle *handle;
    pw_operation *send, *receive;
    uint32_t from, to;
} step_operation;

static uint64_t place(program *self, uint32_t node, uint64_t num_bytes)
{
    uint64_t offset = draw(self, REGION_BYTES - num_bytes) & ~UINT64_C(7);
    return address_of(self->regions[node]) + offset;
}

static step_operation start_matched(program *self, uint32_t from, uint32_t to, uint64_t num_bytes)
{
    step_operation made = {.from = from, .to = to};
    pw_messages *source = &self->messages[from], *sink = &self->messages[to];
    const pw_message_header header = {.tag = draw(self, 2), .source = from};
    uint64_t address = place(self, from, num_bytes);
    made.receive = pw_operation_new(sink, PW_OPERATION_RECEIVE);
    made.receive->tag = header.tag;
    made.receive->peer = draw(self, 2) ? PW_ANY_NODE : from;
    made.receive->source = from;
    made.receive->address = place(self, to, num_bytes);
    made.receive->capacity_bytes = num_bytes;
    bool is_early = draw(self, 2);
    if (is_early) assert(pw_operation_acquire(sink, made.receive) == PW_OK);
    if (is_early) assert(pw_messages_post(sink, made.receive) == PW_OK);
    if (num_bytes <= EAGER_BYTES)
        assert(pw_messages_send_eager(source, to, address, num_bytes, &header) == PW_OK);
    else {
        made.send = pw_operation_new(source, PW_OPERATION_SEND);
        made.send->peer = to;
        made.send->address = address;
        made.send->num_bytes = made.send->capacity_bytes = num_bytes;
        assert(pw_messages_send_exposed(source, made.send, &header) == PW_OK);
    }
    for (int i = 0; !is_early && i < 3; i++) assert(turn_all(&self->all) >= 0);
    if (!is_early) assert(pw_operation_acquire(sink, made.receive) == PW_OK);
    if (!is_early) assert(pw_messages_post(sink, made.receive) == PW_OK);
    return made;
}

static step_operation start_one_sided(program *self, uint32_t from, uint32_t to, uint64_t num_bytes)
{
    step_operation made = {.from = from, .to = to};
    pw_node *node = self->all.nodes[from];
    uint64_t id, here = place(self, from, num_bytes), there = place(self, to, num_bytes);
    int64_t now_ns = pw_node_clock(node)->now_ns;
    pw_descriptor descriptor = {.source_address = here,
                                .destination_address = there,
                                .transfer_bytes = (uint32_t)num_bytes};
    bool is_read = draw(self, 2);
    if (draw(self, 2))
        descriptor.destination_address_notification =
            (place(self, is_read ? from : to, 64) + 15) & ~UINT64_C(15);
    if (is_read) descriptor.source_address = there, descriptor.destination_address = here;
    int64_t code =
        is_read ? pw_ni_read(pw_node_ni(node), 1, to, &descriptor, 0, now_ns, &id)
                : pw_ni_write_descriptor(pw_node_ni(node), 1, to, &descriptor, 0, now_ns, &id);
    assert(code >= 0 && pw_node_started(node, id, to, &made.handle) == PW_OK);
    return made;
}

static bool is_over(const step_operation *each)
{
    return (!each->handle || each->handle->done) && (!each->send || each->send->done) &&
           (!each->receive || each->receive->done);
}

static void end_step(program *self, int step, int i, step_operation *each)
{
    int64_t *ends = self->ends[step][i];
    for (int turns = 0; !is_over(each); turns++)
        assert(turn_all(&self->all) >= 0 && turns < 1000000);
    if (each->handle) {
        ends[0] = each->handle->complete_ns;
        self->errors[step][i] = each->handle->error;
        pw_node_free_handle(self->all.nodes[each->from], each->handle);
    }
    if (each->send) {
        ends[0] = each->send->complete_ns;
        pw_clock_completed(pw_node_clock(self->all.nodes[each->from]), ends[0]);
        pw_operation_free(&self->messages[each->from], each->send);
    }
    if (each->receive) {
        ends[1] = each->receive->complete_ns;
        self->errors[step][i] = each->receive->error;
        pw_clock_completed(pw_node_clock(self->all.nodes[each->to]), ends[1]);
        pw_operation_free(&self->messages[each->to], each->receive);
    }
}

/* The OS does something to some pages of a node. */
static void disturb(program *self, uint32_t node)
{
    static const uint8_t states[] = {PW_PAGE_ABSENT, PW_PAGE_PRESENT, PW_PAGE_WRITE_PROTECTED};
    uint64_t first = draw(self, REGION_PAGES), count = 1 + draw(self, REGION_PAGES - first);
    first += pw_page_of(address_of(self->regions[node]));
    assert(pw_memory_set(pw_node_memory(self->all.nodes[node]), first, count,
                         states[draw(self, 3)]) == PW_OK);
    if (draw(self, 2)) assert(pw_node_unmapped(self->all.nodes[node], first, count) == PW_OK);
    if (!draw(self, 8)) pw_node_forked(self->all.nodes[node]);
}

static void run_program(program *self)
{
    for (int step = 0; step < NUM_STEPS; step++) {
        step_operation under_way[AT_ONCE];
        for (uint32_t i = 0; i < NUM_NODES; i++) {
            pw_clock_enter(pw_node_clock(self->all.nodes[i]), true);
            disturb(self, i);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            uint32_t from = (uint32_t)draw(self, NUM_NODES);
            uint32_t to = (from + 1 + (uint32_t)draw(self, NUM_NODES - 1)) % NUM_NODES;
            uint64_t num_bytes = 1 + draw(self, UINT64_C(1) << (4 + draw(self, 14)));
            under_way[i] = draw(self, 2) ? start_matched(self, from, to, num_bytes)
                                         : start_one_sided(self, from, to, num_bytes);
        }
        for (int i = 0; i < AT_ONCE; i++) end_step(self, step, i, &under_way[i]);
        for (uint32_t i = 0; i < NUM_NODES; i++) pw_clock_leave(pw_node_clock(self->all.nodes[i]));
    }
}

static void close_program(program *self)
{
    for (int i = 0; i < NUM_NODES; i++) pw_messages_close(&self->messages[i]);
    end(&self->all);
    free(self);
}

static void compare_nodes(pw_node *a, pw_node *b, bool has_own_memory)
{
    pw_counters engine[2];
    pw_node_counters own[2];
    pw_memory_counters memory[2];
    const pw_trace_record *records[2];
    pw_node *nodes[] = {a, b};
    for (int i = 0; i < 2; i++) {
        pw_ni_read_counters(pw_node_ni(nodes[i]), &engine[i]);
        pw_node_read_counters(nodes[i], &own[i]);
        pw_memory_read_counters(pw_node_memory(nodes[i]), &memory[i]);
        own[i].started_wall_ns = 0;
    }
    assert(pw_node_clock(a)->now_ns == pw_node_clock(b)->now_ns && pw_node_clock(a)->now_ns > 0);
    assert(memcmp(&engine[0], &engine[1], sizeof engine[0]) == 0);
    assert(memcmp(&own[0], &own[1], sizeof own[0]) == 0);
    assert(memcmp(&memory[0], &memory[1], sizeof memory[0]) == 0);
    for (uint32_t site = 0; site < PW_IMPAIRMENT_SITES; site++) {
        pw_impairment_site plans[2];
        for (int i = 0; i < 2; i++)
            assert(pw_ni_read_impairment(pw_node_ni(nodes[i]), site, &plans[i]) == PW_OK);
        assert(memcmp(&plans[0], &plans[1], sizeof plans[0]) == 0);
    }
    uint32_t num_records = pw_ni_trace_read(pw_node_ni(a), &records[0]);
    assert(num_records > 100 && !pw_ni_trace_lost(pw_node_ni(a)));
    assert(pw_ni_trace_read(pw_node_ni(b), &records[1]) == num_records);
    for (uint32_t i = 0; i < num_records; i++) {
        pw_trace_record left = records[0][i], right = records[1][i];
        if (has_own_memory) left.a = left.b = right.a = right.b = 0; /* pages of its own */
        assert(memcmp(&left, &right, sizeof left) == 0);
    }
}

static void compare_with_bytes(const variant *of, uint8_t *const regions[NUM_NODES])
{
    program *runs[2];
    const char *name = of->texts[0];
    for (int i = 0; i < 2; i++) {
        runs[i] = calloc(1, sizeof *runs[i]);
        assert(runs[i]);
        memcpy(runs[i]->regions, regions, sizeof runs[i]->regions);
        int access = i == 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
        for (int node = 0; node < NUM_NODES; node++)
            assert(mprotect(regions[node], REGION_BYTES, access) == 0);
        open_program(runs[i], of, i == 1);
        run_program(runs[i]);
    }
    assert(memcmp(runs[0]->ends, runs[1]->ends, sizeof runs[0]->ends) == 0);
    assert(memcmp(runs[0]->errors, runs[1]->errors, sizeof runs[0]->errors) == 0);
    for (int i = 0; i < NUM_NODES; i++)
        compare_nodes(runs[0]->all.nodes[i], runs[1]->all.nodes[i], strstr(name, "bounce"));
    close_program(runs[0]);
    close_program(runs[1]);
}

#define MODEL                                                                        \
    "memory_backend.backend=model", "run.compute=none", "ni.reads_without_key=true", \
        "smmu.walk_cache_entries=0", "memory_backend.fault_fraction=0.3"

static void test_equal(uint8_t *const regions[NUM_NODES])
{
    static const variant variants[] = {
        {{"run.memory=part", MODEL}, false},
        {{"run.memory=part", MODEL}, true},
        {{"run.memory=part", MODEL, "ni.interleave=packet"}, false},
        {{"run.memory=part", MODEL, "memory_backend.frame_limit_pages=200"}, false},
        {{"run.memory=part-prefetch", MODEL}, false},
        {{"run.memory=pretouch", MODEL}, false},
        {{"run.memory=pin", MODEL}, false},
        {{"run.memory=pin-cache", MODEL}, true},
        {{"run.memory=bounce", MODEL}, false},
        {{"run.memory=odp", MODEL}, false},
        {{"run.memory=np-rdma", MODEL}, false},
        {{"run.memory=firehose", MODEL}, false},
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        compare_with_bytes(&variants[i], regions);
}

/* Which pages are there at first. */
static void test_first_pages(void)
{
    for (int is_model = 0; is_model < 2; is_model++) {
        joined all;
        uint8_t state;
        prepare(&all, 1);
        all.opening.has_no_bytes = 1;
        if (is_model) all.config.settings.memory_backend = PW_MEMORY_MODEL;
        create(&all);
        assert(pw_memory_walk(pw_node_memory(all.nodes[0]), UINT64_C(1) << 30, 1, 1, &state) ==
               PW_OK);
        assert(state == (is_model ? PW_PAGE_PRESENT : PW_PAGE_ABSENT));
        const pw_node_service service = {.message = message_arrived};
        assert(pw_node_set_service(all.nodes[0], &service, 64) == PW_ERR_INVALID);
        assert(strstr(pw_node_reason(all.nodes[0]), "without bytes"));
        end(&all);
    }
}

int main(void)
{
    uint8_t *regions[NUM_NODES];
    for (int i = 0; i < NUM_NODES; i++) regions[i] = make_buffer(REGION_BYTES);
    test_equal(regions);
    test_first_pages();
    return 0;
}
