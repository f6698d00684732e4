/* What a node asks its host, what it tells it, and which hosts' mistakes it refuses. */
#include "tests/c/node/node_pair.h"
#include <errno.h>

/* A host that answers as PW_POLICY_PAGE does, and counts. */
typedef struct {
    joined *all;
    uint32_t node;
    int num_decisions, num_failures_left, num_events;
    bool is_silent; /* comes back without an answer */
    pw_host_event event;
    int64_t scheduled_ns;
    uint64_t scheduled_bytes;
} host;

static int decide(void *context, uint64_t id)
{
    host *self = context;
    pw_ni *ni = pw_node_ni(self->all->nodes[self->node]);
    pw_decision question;
    assert(pw_ni_read_decision(ni, id, &question) == PW_OK);
    self->num_decisions++;
    if (self->num_failures_left && self->num_failures_left--) return PW_ERR_HOST;
    return self->is_silent ? PW_OK : pw_ni_decide(ni, id, question.page, 1);
}

static int keep_event(void *context, const pw_host_event *event)
{
    host *self = context;
    self->num_events++;
    self->event = *event;
    return self->num_failures_left ? PW_ERR_HOST : PW_OK;
}

static int schedule(void *context, uint64_t num_bytes, uint32_t peer, int is_read, int64_t now_ns,
                    pw_scheduling *out)
{
    host *self = context;
    assert(peer == 1 && is_read == 1 && out->hint == PW_HINT_NONE && out->window_blocks == 0);
    self->scheduled_bytes = num_bytes;
    self->scheduled_ns = now_ns;
    out->window_blocks = self->num_failures_left ? PW_WINDOW_MAX + 1 : 1;
    return PW_OK;
}

static void begin_deciding(joined *all, host *self, bool decides)
{
    prepare(all, 2);
    all->config.settings.policy = decides ? PW_POLICY_HOST : PW_POLICY_PAGE;
    create(all);
    *self = (host){.all = all, .node = 1};
    if (decides)
        pw_node_set_host(all->nodes[1], &(pw_node_host){.context = self, .decide = decide});
}

static void test_a_host_that_decides_changes_no_time(void)
{
    joined all;
    host self;
    int64_t complete_ns[2];
    for (int decides = 0; decides < 2; decides++) {
        begin_deciding(&all, &self, decides);
        message sent = start_message(&all, 0, 1, MEGABYTE, false);
        finish_message(&all, &sent, 0, 1);
        complete_ns[decides] = sent.fetched->complete_ns;
        end(&all);
    }
    assert(self.num_decisions == (int)(MEGABYTE / PW_PAGE_BYTES));
    assert(complete_ns[0] == complete_ns[1]);
}

static int turn_until_error(joined *all)
{
    for (int turns = 0; turns < 1000; turns++) {
        int code = turn_all(all);
        if (code < 0) return code;
    }
    return PW_OK;
}

static void test_a_host_that_cannot_decide_is_asked_again(void)
{
    joined all;
    host self;
    begin_deciding(&all, &self, true);
    self.num_failures_left = 2;
    message sent = start_message(&all, 0, 1, 4 * PW_PAGE_BYTES, false);
    assert(turn_until_error(&all) == PW_ERR_HOST && self.num_decisions == 1);
    assert(strstr(pw_node_reason(all.nodes[1]), "page-in decision"));
    assert(turn_until_error(&all) == PW_ERR_HOST && self.num_decisions == 2);
    finish_message(&all, &sent, 0, 1);
    assert(self.num_decisions == 2 + 4);
    end(&all);
}

static void test_a_decision_without_an_answer_ends_the_turn(void)
{
    joined all;
    host self;
    begin_deciding(&all, &self, true);
    self.is_silent = true;
    message sent = start_message(&all, 0, 1, PW_PAGE_BYTES, false);
    assert(turn_until_error(&all) == PW_ERR_INVALID);
    assert(strstr(pw_node_reason(all.nodes[1]), "without pw_ni_decide"));
    pw_node_set_host(all.nodes[1], &(pw_node_host){0});
    assert(turn_until_error(&all) == PW_ERR_INVALID);
    assert(strstr(pw_node_reason(all.nodes[1]), "pw_node_set_host"));
    assert(!sent.fetched->done);
    end(&all);
}

static void test_a_notification_is_told(void)
{
    joined all;
    host self = {.all = &all};
    begin(&all, 2);
    pw_node_set_host(all.nodes[1], &(pw_node_host){.context = &self, .event = keep_event});
    uint8_t *source = make_pattern(PW_PAGE_BYTES), *destination = make_pattern(PW_PAGE_BYTES),
            *flag = make_pattern(PW_PAGE_BYTES);
    pw_descriptor descriptor = {.source_address = address_of(source),
                                .destination_address = address_of(destination),
                                .destination_address_notification = address_of(flag),
                                .first_data_notification = 11,
                                .last_data_notification = 22,
                                .transfer_bytes = PW_PAGE_BYTES};
    pw_ni *ni = pw_node_ni(all.nodes[0]);
    pw_handle *handle;
    uint64_t id;
    int channel = pw_ni_open_channel(ni, 1);
    assert(channel >= 0);
    assert(pw_ni_insert_descriptor(ni, (uint32_t)channel, 1, &descriptor, 0, 0) > 0);
    assert(pw_ni_trigger(ni, (uint32_t)channel, 0, &id) > 0);
    assert(pw_node_started(all.nodes[0], id, 1, &handle) == PW_OK);
    self.num_failures_left = 1;
    int code = turn_until_error(&all);
    assert(code == PW_ERR_HOST && strstr(pw_node_reason(all.nodes[1]), "notification"));
    finish(&all, handle);
    assert(self.num_events == 1 && self.event.kind == PW_HOST_NOTIFIED);
    assert(self.event.id == address_of(flag) && self.event.data[0] == 11);
    assert(self.event.data[1] == 22 && self.event.peer == 0);
    end(&all);
}

static void test_the_host_says_how_a_send_is_treated(void)
{
    joined all;
    host self = {.all = &all};
    begin(&all, 2);
    message sent = start_message(&all, 0, 1, MEGABYTE, true);
    finish_message(&all, &sent, 0, 1);
    int64_t by_size_ns = sent.fetched->complete_ns;
    end(&all);

    begin(&all, 2);
    pw_node_set_host(all.nodes[0], &(pw_node_host){.context = &self, .schedule = schedule});
    sent = start_message(&all, 0, 1, MEGABYTE, true);
    assert(self.scheduled_bytes == MEGABYTE);
    assert(self.scheduled_ns == platform_costs.mpi_call_ns + TOUCH_NS + PIN_NS);
    finish_message(&all, &sent, 0, 1);
    assert(sent.fetched->complete_ns > by_size_ns); /* one block at a time */
    self.num_failures_left = 1;
    pw_handle *handle;
    assert(pw_node_expose(all.nodes[0], 1, PW_PAGE_BYTES, 1, &handle) == PW_ERR_INVALID);
    end(&all);
}

static void test_a_malformed_burst_ends_the_turn(joined *all)
{
    uint8_t burst[256];
    bool is_free;
    memset(burst, 0xff, sizeof burst);
    assert(all->wires[0]->ops->send(all->wires[0], 1, burst, sizeof burst, &is_free) == PW_OK);
    assert(pw_node_turn(all->nodes[1], true) == PW_ERR_MALFORMED);
    assert(strstr(pw_node_reason(all->nodes[1]), "burst of 256 bytes from node 0"));
    assert(all->wires[0]->ops->sent(all->wires[0]) == burst);
    assert(pw_node_turn(all->nodes[1], true) == 0);
}

static int num_closed;
static const pw_wire_ops *joined_wire_ops;

static void count_close(pw_wire *wire)
{
    num_closed++;
    joined_wire_ops->close(wire);
}

static int refuse_create(pw_strategy_context *context, void **self)
{
    assert(context->memory && context->tables);
    *self = NULL;
    return PW_ERR_NOMEM;
}

static void expect_refused(joined *all, int code, const char *words)
{
    pw_sentence reason;
    pw_wire *wire;
    pw_node *node = NULL;
    assert(pw_wire_join(1, &wire) == PW_OK);
    pw_wire_ops ops = *wire->ops;
    joined_wire_ops = wire->ops;
    ops.close = count_close;
    wire->ops = &ops;
    num_closed = 0;
    assert(pw_node_open(&all->config, &all->opening, wire, &node, &reason) == code && !node);
    assert(strstr(reason.text, words));
    assert(num_closed == 0);
    wire->ops->close(wire);
}

static void test_a_node_that_cannot_be_made_leaves_its_wire(void)
{
    joined all;
    pw_strategy_ops refusing = counted_ops;
    refusing.create = refuse_create;
    prepare(&all, 1);
    create(&all); /* the options are those of a node */
    all.opening.pdid = 0;
    expect_refused(&all, PW_ERR_INVALID, "pdid");
    all.opening.pdid = 1;
    all.config.run.compute_scale = -1;
    expect_refused(&all, PW_ERR_INVALID, "scale");
    all.config.run.compute_scale = 1;
    all.config.settings.window_blocks = 0;
    expect_refused(&all, PW_ERR_INVALID, "pw_ni_refused");
    all.config.settings.window_blocks = 2;
    all.config.tables.table[PW_COST_MMAP].num_points = 0;
    expect_refused(&all, PW_ERR_INVALID, "cost table");
    all.config.tables.table[PW_COST_MMAP].num_points = PW_COST_POINTS_MAX + 1;
    expect_refused(&all, PW_ERR_INVALID, "cost table");
    all.config.tables.table[PW_COST_MMAP].num_points = 1;
    all.opening.strategy = &refusing;
    all.opening.strategy_self = NULL;
    expect_refused(&all, PW_ERR_NOMEM, "strategy");
    all.opening.strategy = NULL;
    strcpy(all.config.run.memory, "none such");
    expect_refused(&all, PW_ERR_INVALID, "strategy");
    end(&all);
}

/* Memory that the wire gives for bursts. */
static uint8_t *given, *given_end;
static int num_given, num_sent_elsewhere;

static uint8_t *give_memory(pw_wire *wire, size_t num_bytes)
{
    (void)wire;
    if (num_given++) return NULL; /* no more */
    given = aligned_alloc(64, num_bytes);
    given_end = given + num_bytes;
    return given;
}

static int check_send(pw_wire *wire, uint32_t peer, uint8_t *data, uint32_t num_bytes,
                      bool *is_free)
{
    num_sent_elsewhere += data < given || data >= given_end;
    return joined_wire_ops->send(wire, peer, data, num_bytes, is_free);
}

static void test_bursts_are_made_in_the_wires_memory_as_long_as_there_is_some(void)
{
    joined all;
    prepare(&all, 2);
    joined_wire_ops = all.wires[0]->ops;
    pw_wire_ops ops = *joined_wire_ops;
    ops.allocate = give_memory;
    ops.send = check_send;
    all.wires[0]->ops = &ops;
    create(&all);
    message sent = start_message(&all, 0, 1, PW_BLOCK_BYTES, true);
    finish_message(&all, &sent, 0, 1);
    assert(num_given == 1 && num_sent_elsewhere == 0);
    sent = start_message(&all, 0, 1, 8 * MEGABYTE, true);
    finish_message(&all, &sent, 0, 1);
    assert(num_given > 1 && num_sent_elsewhere > 0);
    end(&all);
    free(given);
}

static int refuse_send(pw_wire *wire, uint32_t peer, uint8_t *data, uint32_t num_bytes,
                       bool *is_free)
{
    (void)wire, (void)peer, (void)data, (void)num_bytes, (void)is_free;
    return PW_ERR_HOST;
}

static int refuse_poll(pw_wire *wire, pw_wire_burst *out)
{
    (void)wire, (void)out;
    return PW_ERR_HOST;
}

static const char *tell_reason(const pw_wire *wire)
{
    (void)wire;
    return "the cable is cut";
}

static void test_what_the_wire_says_of_its_failure_is_passed_on(void)
{
    joined all;
    prepare(&all, 2);
    joined_wire_ops = all.wires[0]->ops;
    pw_wire_ops ops = *joined_wire_ops;
    ops.send = refuse_send;
    ops.poll = refuse_poll;
    all.wires[0]->ops = &ops;
    create(&all);
    assert(pw_node_turn(all.nodes[0], true) == PW_ERR_HOST);
    assert(!strcmp(pw_node_reason(all.nodes[0]), "the wire cannot receive"));
    ops.reason = tell_reason;
    assert(pw_node_turn(all.nodes[0], true) == PW_ERR_HOST);
    assert(!strcmp(pw_node_reason(all.nodes[0]), "the wire cannot receive: the cable is cut"));
    assert(pw_node_set_frame_bytes(all.nodes[0], 96) == PW_OK);
    uint8_t *frame = pw_node_take_frame(all.nodes[0]);
    assert(pw_node_send_frame(all.nodes[0], 1, frame, 96) == PW_ERR_HOST);
    assert(!strcmp(pw_node_reason(all.nodes[0]),
                   "the wire cannot send 96 bytes to node 1: the cable is cut"));
    end(&all);
}

static void test_a_strategys_own_reason_is_passed_on(void)
{
    joined all;
    const char *reason;
    pw_lease lease;
    prepare(&all, 1);
    all.opening.strategy = pw_strategy_find("pretouch");
    create(&all);
    assert(pw_node_acquire(all.nodes[0], (pw_span){UINT64_C(1) << 45, 10}, PW_ACCESS_WRITE,
                           &lease) == PW_ERR_ADDRESS);
    reason = strstr(pw_node_reason(all.nodes[0]), "acquire of 10 bytes at 0x200000000000: ");
    assert(reason && strlen(reason) > 60);
    end(&all);
}

static void test_ends_that_cut_a_message_differently_are_told_why(void)
{
    joined all;
    pw_sentence reason;
    pw_handle *exposed, *fetched;
    const uint64_t num_bytes = 4 * PW_PAGE_BYTES;
    prepare(&all, 2);
    all.opening.strategy = pw_strategy_find("pin-rendezvous");
    for (uint32_t i = 0; i < 2; i++) {
        all.config.settings.piece_bytes = PW_PAGE_BYTES << i;
        assert(!pw_node_open(&all.config, &all.opening, all.wires[i], &all.nodes[i], &reason));
    }
    assert(
        !pw_node_expose(all.nodes[0], 1, address_of(make_pattern(num_bytes)), num_bytes, &exposed));
    assert(!pw_node_fetch(all.nodes[1], 0, exposed->address, exposed->key,
                          address_of(make_buffer(num_bytes)), num_bytes, 0, NULL, &fetched));
    int code = 0;
    for (int turns = 0; code >= 0 && turns < 1000; turns++) code = turn_all(&all);
    assert(code == PW_ERR_MALFORMED);
    assert(strstr(pw_node_reason(all.nodes[1]), "the same strategy.piece on all ranks?"));
    end(&all);
}

int main(void)
{
    test_ends_that_cut_a_message_differently_are_told_why();
    test_what_the_wire_says_of_its_failure_is_passed_on();
    test_a_strategys_own_reason_is_passed_on();
    test_a_host_that_decides_changes_no_time();
    test_a_host_that_cannot_decide_is_asked_again();
    test_a_decision_without_an_answer_ends_the_turn();
    test_a_notification_is_told();
    test_the_host_says_how_a_send_is_treated();
    run_joined(2, test_a_malformed_burst_ends_the_turn);
    test_a_node_that_cannot_be_made_leaves_its_wire();
    test_bursts_are_made_in_the_wires_memory_as_long_as_there_is_some();
    return 0;
}
