/* What a stranger may say to the provider: frames that are none, or whose contents make no sense,
 * are dropped and counted, leave nothing behind, and end nothing. */
#include "transport/fabric/provider.h"

#include "native/crc32c.h"
#include "tests/c/node/node_pair.h"

#define FRAME_BYTES 8192

typedef struct {
    joined all;
    pw_fi_process process; /* of node 0; node 1 is the stranger */
    pw_fi_domain domain;
    pw_fi_endpoint endpoint;
    int64_t in_order_ns[2];
    pw_fi_counter received, written;
    uint32_t num_answers;
    int32_t last_error; /* in an answer */
} fixture;

typedef struct {
    _Alignas(64) uint8_t data[FRAME_BYTES];
    uint32_t num_bytes;
} frame;

static uint32_t num_over(const pw_fi_timeline *timeline)
{
    return timeline->over ? pw_event_queue_length(timeline->over) : 0;
}

static int take_answer(void *context, uint32_t source, const uint8_t *data, uint32_t num_bytes)
{
    fixture *self = context;
    pw_fi_atomic_answer said;
    assert(source == 0 && num_bytes >= PW_ENVELOPE_BYTES + sizeof said + sizeof(pw_message_header));
    memcpy(&said, data + PW_ENVELOPE_BYTES, sizeof said);
    self->num_answers++;
    self->last_error = said.error;
    return PW_OK;
}

static fixture *open_fixture(void)
{
    fixture *self = calloc(1, sizeof *self);
    assert(self);
    begin(&self->all, 2);
    pw_fi_process *process = &self->process;
    process->node = self->all.nodes[0];
    process->ni = pw_node_ni(process->node);
    process->clock = pw_node_clock(process->node);
    process->endpoints[0] = &self->endpoint;
    self->domain.process = process;
    self->endpoint = (pw_fi_endpoint){.process = process,
                                      .in_order_ns = self->in_order_ns,
                                      .domain = &self->domain,
                                      .is_enabled = true,
                                      .receive.counter = &self->received,
                                      .write.counter = &self->written};
    pw_node_set_host(process->node, &(pw_node_host){.context = process,
                                                    .message = pw_fi_message_arrived,
                                                    .finished = pw_fi_handle_finished});
    pw_node_set_host(self->all.nodes[1], &(pw_node_host){.context = self, .message = take_answer});
    const pw_messages_host host = {
        .context = process, .matched = pw_fi_matched, .over = pw_fi_over};
    assert(pw_messages_open(&process->messages, process->node, &host, 64, FRAME_BYTES - 256,
                            sizeof(pw_fi_operation)) == PW_OK);
    return self;
}

static void close_fixture(fixture *self)
{
    while (pw_fi_timeline_first(&self->process.timeline))
        pw_fi_give(&self->process, pw_fi_timeline_take(&self->process.timeline));
    pw_event_queue_destroy(self->process.timeline.over);
    pw_messages_close(&self->process.messages);
    end(&self->all);
    free(self);
}

/* The checksum is right again: a stranger can compute it too. */
static void seal(frame *made, const pw_envelope *envelope)
{
    pw_envelope sealed = *envelope;
    sealed.envelope_crc = 0;
    sealed.envelope_crc = pw_crc32c(0, &sealed, sizeof sealed);
    memcpy(made->data, &sealed, sizeof sealed);
}

static pw_envelope envelope_of(const frame *made)
{
    pw_envelope envelope;
    memcpy(&envelope, made->data, sizeof envelope);
    return envelope;
}

/* From the stranger, with a payload. */
static frame make(fixture *self, uint8_t kind, const void *payload, uint32_t payload_bytes,
                  pw_message_header header)
{
    frame made = {.num_bytes = PW_MESSAGE_FRAME_BYTES(payload_bytes)};
    pw_ni_message_write(pw_node_ni(self->all.nodes[1]), 0, kind, (uintptr_t)payload, payload_bytes,
                        0, payload_bytes, 0, made.data);
    memcpy(made.data + PW_ENVELOPE_BYTES + payload_bytes, &header, sizeof header);
    return made;
}

static frame make_rendezvous(uint64_t address, uint64_t num_bytes)
{
    const pw_message_header header = {0};
    frame made = {.num_bytes = PW_MESSAGE_FRAME_BYTES(0)};
    const pw_envelope envelope = {.magic = PW_ENVELOPE_MAGIC,
                                  .kind = PW_MESSAGE_RENDEZVOUS,
                                  .source_node = 1,
                                  .num_bytes = num_bytes,
                                  .address = address,
                                  .key = 5};
    seal(&made, &envelope);
    memcpy(made.data + PW_ENVELOPE_BYTES, &header, sizeof header);
    return made;
}

static uint64_t num_malformed(const fixture *self)
{
    pw_counters counters;
    pw_ni_read_counters(self->process.ni, &counters);
    return counters.malformed_frames;
}

static int arrive(fixture *self, uint32_t source, const frame *given)
{
    return pw_fi_message_arrived(&self->process, source, given->data, given->num_bytes);
}

static void check_dropped_from(fixture *self, uint32_t source, const frame *given)
{
    const uint64_t before = num_malformed(self), queued = num_over(&self->process.timeline);
    const uint32_t answered = self->num_answers;
    assert(arrive(self, source, given) == PW_OK);
    assert(turn_all(&self->all) >= 0);
    assert(num_malformed(self) == before + 1);
    assert(num_over(&self->process.timeline) == queued && self->num_answers == answered);
    assert(!self->process.messages.unexpected.head);
    assert(!self->process.has_failed);
}

static void check_dropped(fixture *self, frame given) { check_dropped_from(self, 1, &given); }

static void test_frames_that_are_none(fixture *self)
{
    const frame sound = make(self, PW_MESSAGE_EAGER, "payload", 8, (pw_message_header){0});
    frame wrong = sound;
    check_dropped_from(self, 0, &sound); /* it says that it is node 1's */
    for (uint32_t num_bytes = 0; num_bytes <= sound.num_bytes + 3; num_bytes++) {
        wrong.num_bytes = num_bytes;
        if (num_bytes != sound.num_bytes) check_dropped(self, wrong);
    }
    for (uint32_t byte = 0; byte < PW_ENVELOPE_BYTES + 8; byte++) {
        wrong = sound;
        wrong.data[byte] ^= 0x10;
        check_dropped(self, wrong);
    }
}

static void test_headers(fixture *self)
{
    const uint16_t numbers[] = {1, 63, 64, 65, UINT16_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        check_dropped(self, make(self, PW_MESSAGE_EAGER, "a", 1,
                                 (pw_message_header){.context = pw_fi_context(numbers[i], false)}));
    check_dropped(self, make(self, PW_MESSAGE_EAGER, "a", 1, (pw_message_header){.source = 64}));
    check_dropped(self, make(self, PW_MESSAGE_EAGER, "a", 1, (pw_message_header){.tag = 1}));
    check_dropped(self, make(self, 0, "a", 1, (pw_message_header){0}));
    check_dropped(self, make(self, 99, "a", 1, (pw_message_header){0}));
}

static void test_envelopes(fixture *self)
{
    frame longer = make(self, PW_MESSAGE_EAGER, "payload", 8, (pw_message_header){0});
    pw_envelope envelope = envelope_of(&longer);
    envelope.num_bytes = 9;
    seal(&longer, &envelope);
    check_dropped(self, longer);
    envelope.num_bytes = 8;
    envelope.kind = PW_MESSAGE_RENDEZVOUS; /* that has a payload */
    seal(&longer, &envelope);
    check_dropped(self, longer);
    check_dropped(self, make_rendezvous(4096, PW_FI_MESSAGE_MAX_BYTES + 1));
    check_dropped(self, make_rendezvous(4096, UINT64_MAX));
    check_dropped(self, make_rendezvous(UINT64_MAX - 99, 100));
    check_dropped(self, make_rendezvous(UINT64_MAX, 1));
    const int64_t times[] = {-1, INT64_MIN, PW_FRAME_TIME_MAX, INT64_MAX};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        frame later = make(self, PW_MESSAGE_EAGER, "payload", 8, (pw_message_header){0});
        envelope = envelope_of(&later);
        envelope.arrival_ns = times[i];
        seal(&later, &envelope);
        check_dropped(self, later);
    }
}

/* A receive is there, and the message reads from where no program's memory is. */
static void test_rendezvous_with_a_receive(fixture *self)
{
    static uint8_t room[200];
    assert(pw_fi_message_ops.recv(&self->endpoint.fid, room, sizeof room, NULL, FI_ADDR_UNSPEC,
                                  NULL) == 0);
    check_dropped(self, make_rendezvous(UINT64_MAX - 99, 200));
    const frame nowhere = make_rendezvous(UINT64_MAX - 300, 200); /* and a key that is none */
    assert(arrive(self, 1, &nowhere) == PW_OK);
    for (int turn = 0; turn < 1000 && !num_over(&self->process.timeline); turn++)
        assert(turn_all(&self->all) >= 0);
    assert(num_over(&self->process.timeline) == 1);
    assert(pw_fi_timeline_first(&self->process.timeline)->error);
    assert(pw_fi_deliver(&self->process, true) && self->received.errors == 1);
}

static frame make_request_to(fixture *self, uint16_t endpoint, pw_fi_atomic_request asked,
                             uint32_t operand_bytes)
{
    uint8_t payload[sizeof asked + 4096] = {0};
    memcpy(payload, &asked, sizeof asked);
    return make(self, PW_MESSAGE_ATOMIC, payload, (uint32_t)sizeof asked + operand_bytes,
                (pw_message_header){.context = pw_fi_context(endpoint, false)});
}

static frame make_request(fixture *self, pw_fi_atomic_request asked, uint32_t operand_bytes)
{
    return make_request_to(self, 0, asked, operand_bytes);
}

static void test_requests(fixture *self)
{
    const pw_fi_atomic_request sound = {
        .id = 3, .key = 9, .count = 2, .type = FI_UINT64, .operation = FI_SUM};
    pw_fi_atomic_request wrong = sound;
    check_dropped(self,
                  make(self, PW_MESSAGE_ATOMIC, &sound, sizeof sound - 1, (pw_message_header){0}));
    check_dropped(self, make_request(self, sound, 0));
    check_dropped(self, make_request(self, sound, 15));
    check_dropped(self, make_request(self, sound, 17));
    check_dropped(self, make_request(self, sound, 32));
    wrong.count = 0;
    check_dropped(self, make_request(self, wrong, 0));
    wrong.count = PW_FI_ATOMIC_MAX_BYTES / 8 + 1;
    check_dropped(self, make_request(self, wrong, PW_FI_ATOMIC_MAX_BYTES + 8));
    wrong.count = UINT32_MAX;
    check_dropped(self, make_request(self, wrong, 16));
    wrong = sound;
    wrong.type = 14;
    check_dropped(self, make_request(self, wrong, 16));
    wrong.type = UINT16_MAX;
    check_dropped(self, make_request(self, wrong, 16));
    wrong = sound;
    wrong.operation = UINT16_MAX;
    check_dropped(self, make_request(self, wrong, 16));
    wrong.operation = FI_CSWAP; /* has no compares */
    check_dropped(self, make_request(self, wrong, 16));
    wrong.operation = FI_ATOMIC_READ; /* has operands */
    check_dropped(self, make_request(self, wrong, 16));
    wrong = sound;
    wrong.type = FI_DOUBLE;
    wrong.operation = FI_BXOR;
    check_dropped(self, make_request(self, wrong, 16));
    /* Sound, but of memory that nobody has given: an answer says so. */
    const frame forbidden = make_request(self, sound, 16);
    assert(arrive(self, 1, &forbidden) == PW_OK && turn_all(&self->all) >= 0);
    assert(self->num_answers == 1 && self->last_error == FI_EACCES);
    /* For an endpoint that has closed, or never was: its sender waits for an answer. */
    const frame late = make_request_to(self, 5, sound, 16);
    assert(arrive(self, 1, &late) == PW_OK && turn_all(&self->all) >= 0);
    assert(self->num_answers == 2 && self->last_error == FI_ECONNREFUSED);
    check_dropped(self, make_request_to(self, 5, sound, 15));
    check_dropped(self, make_request_to(self, 64, sound, 16));
}

static frame make_answer(fixture *self, pw_fi_atomic_answer said, uint32_t value_bytes)
{
    uint8_t payload[sizeof said + 4096] = {0};
    memcpy(payload, &said, sizeof said);
    return make(self, PW_MESSAGE_ANSWER, payload, (uint32_t)sizeof said + value_bytes,
                (pw_message_header){0});
}

static void test_answers(fixture *self)
{
    pw_fi_process *process = &self->process;
    uint64_t result = 0;
    pw_fi_operation *asked = pw_fi_take(process, PW_OPERATION_ATOMIC);
    asked->endpoint = &self->endpoint;
    asked->sink = &self->endpoint.write;
    asked->flags = FI_ATOMIC | FI_READ;
    asked->id = 7;
    asked->base.peer = 1;
    asked->base.num_bytes = 8;
    asked->num_parts = 1;
    asked->iov[0] = (struct iovec){&result, 8};
    pw_operation_append(&process->messages.atomics, &asked->base);
    check_dropped(self, make(self, PW_MESSAGE_ANSWER, &result, 8, (pw_message_header){0}));
    check_dropped(self, make_answer(self, (pw_fi_atomic_answer){.id = 8, .num_bytes = 8}, 8));
    check_dropped(self, make_answer(self, (pw_fi_atomic_answer){.id = 7, .num_bytes = 8}, 7));
    check_dropped(self, make_answer(self, (pw_fi_atomic_answer){.id = 7, .num_bytes = 0}, 0));
    check_dropped(self, make_answer(self, (pw_fi_atomic_answer){.id = 7, .num_bytes = 16}, 16));
    check_dropped(self,
                  make_answer(self, (pw_fi_atomic_answer){.id = 7, .num_bytes = UINT32_MAX}, 8));
    check_dropped(
        self, make_answer(self, (pw_fi_atomic_answer){.id = 7, .error = -1, .num_bytes = 8}, 8));
    asked->base.peer = 0; /* it was another's to answer */
    check_dropped(self, make_answer(self, (pw_fi_atomic_answer){.id = 7, .num_bytes = 8}, 8));
    asked->base.peer = 1;
    const frame once = make_answer(self, (pw_fi_atomic_answer){.id = 7, .num_bytes = 8}, 8);
    assert(arrive(self, 1, &once) == PW_OK);
    assert(num_over(&process->timeline) == 1 && !process->messages.atomics.head);
    check_dropped(self, once); /* and once more */
    assert(pw_fi_deliver(process, true) && self->written.value == 1);
}

/* The second was faster in virtual time, and stays the second all the same. */
static void test_order_of_one_sender(fixture *self)
{
    uint8_t room[2] = {0};
    const pw_message_header header = {.context = pw_fi_context(0, true), .tag = 6};
    frame first = make(self, PW_MESSAGE_EAGER, "1", 1, header);
    frame second = make(self, PW_MESSAGE_EAGER, "2", 1, header);
    pw_envelope slow = envelope_of(&first);
    slow.arrival_ns = envelope_of(&second).arrival_ns + 1000;
    seal(&first, &slow);
    assert(arrive(self, 1, &first) == PW_OK && arrive(self, 1, &second) == PW_OK);
    for (int i = 0; i < 2; i++)
        assert(pw_fi_tagged_ops.recv(&self->endpoint.fid, &room[i], 1, NULL, FI_ADDR_UNSPEC, 6, 0,
                                     NULL) == 0);
    assert(room[0] == '1' && room[1] == '2');
}

/* Receives are posted, and the second message is read before the first is: it ends after it. */
static void test_ends_of_one_sender(fixture *self)
{
    uint8_t room[2] = {0};
    pw_fi_timeline *timeline = &self->process.timeline;
    frame first = make(self, PW_MESSAGE_EAGER, "1", 1, (pw_message_header){0});
    const frame second = make(self, PW_MESSAGE_EAGER, "2", 1, (pw_message_header){0});
    pw_envelope slow = envelope_of(&first);
    slow.arrival_ns += 1000;
    seal(&first, &slow);
    for (int i = 0; i < 2; i++)
        assert(pw_fi_message_ops.recv(&self->endpoint.fid, &room[i], 1, NULL, FI_ADDR_UNSPEC,
                                      NULL) == 0);
    assert(arrive(self, 1, &first) == PW_OK && arrive(self, 1, &second) == PW_OK);
    assert(num_over(timeline) == 2 && room[0] == '1' && room[1] == '2');
    for (int i = 0; i < 2; i++) {
        pw_fi_operation *ended = pw_fi_timeline_take(timeline);
        assert(ended->base.address == (uintptr_t)&room[i] &&
               ended->base.complete_ns >= slow.arrival_ns);
        pw_fi_give(&self->process, ended);
    }
}

int main(void)
{
    static void (*const tests[])(fixture *) = {
        test_frames_that_are_none,
        test_headers,
        test_envelopes,
        test_rendezvous_with_a_receive,
        test_requests,
        test_answers,
        test_order_of_one_sender,
        test_ends_of_one_sender,
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        fixture *self = open_fixture();
        tests[i](self);
        close_fixture(self);
    }
    return 0;
}
