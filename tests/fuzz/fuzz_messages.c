/* Messages that a stranger on node 1 sends to a process with the libfabric provider: envelopes of
 * every kind with right checksums and any contents, while receives, looks and atomic operations are
 * posted. Nothing of it may end the process or be written outside of a posted buffer or a region,
 * and whatever is read from node 1, which works, ends. */
#include "native/crc32c.h"
#include "tests/c/node/node_pair.h"
#include "tests/fuzz/input.h"
#include "transport/fabric/provider.h"

#define FRAME_BYTES 8192
#define EAGER_BYTES 1024
#define OPERATIONS_MAX 200
#define BUFFERS_MAX 64
#define REGION_BYTES 4096
#define CANARY_BYTES 32
#define CANARY 0xc5
#define TURNS_MAX 200000
#define QUIET_TURNS 8 /* one may only have sent */

typedef struct {
    joined all;
    pw_fi_process process; /* of node 0 */
    pw_fi_domain domain;
    pw_fi_endpoint endpoint;
    int64_t in_order_ns[2];
    pw_fi_counter received, written;
    pw_fi_region region;
    uint8_t *buffers[BUFFERS_MAX];
    size_t buffer_bytes[BUFFERS_MAX];
    uint32_t num_buffers;
    uint64_t exposed_key;
} fixture;

static fixture self;
static uint8_t *shown; /* node 1 lets node 0 read it */
static uint8_t around[3 * REGION_BYTES];

static int ignore_message(void *context, uint32_t source, const uint8_t *data, uint32_t num_bytes)
{
    (void)context;
    MUST(source == 0 && num_bytes <= FRAME_BYTES && data[0] != 0);
    return PW_OK;
}

/* ---- what the process does itself */

/* A buffer with canaries around. */
static uint8_t *new_buffer(size_t num_bytes)
{
    if (self.num_buffers == BUFFERS_MAX) return NULL;
    uint8_t *made = malloc(num_bytes + 2 * CANARY_BYTES);
    MUST(made);
    memset(made, CANARY, num_bytes + 2 * CANARY_BYTES);
    self.buffers[self.num_buffers] = made;
    self.buffer_bytes[self.num_buffers++] = num_bytes;
    return made + CANARY_BYTES;
}

static void check_buffers(void)
{
    for (uint32_t i = 0; i < self.num_buffers; i++) {
        const uint8_t *behind = self.buffers[i] + CANARY_BYTES + self.buffer_bytes[i];
        for (int at = 0; at < CANARY_BYTES; at++)
            MUST(self.buffers[i][at] == CANARY && behind[at] == CANARY);
        free(self.buffers[i]);
    }
    for (int at = 0; at < REGION_BYTES; at++)
        MUST(around[at] == CANARY && around[2 * REGION_BYTES + at] == CANARY);
}

static void post_receive(input *in)
{
    static const uint64_t flags[] = {0,
                                     0,
                                     0,
                                     FI_MULTI_RECV,
                                     FI_PEEK,
                                     FI_CLAIM,
                                     FI_PEEK | FI_CLAIM,
                                     FI_PEEK | FI_DISCARD,
                                     FI_CLAIM | FI_DISCARD};
    struct iovec iov[PW_FI_IOV_MAX];
    const uint8_t how = take_byte(in), num_parts = take_byte(in) < 200 ? 1 : how % 9;
    for (uint8_t i = 0; i < num_parts && i < PW_FI_IOV_MAX; i++) {
        const size_t num_bytes = take_byte(in) < 128 ? take_byte(in) : take(in, 2) % 5000;
        iov[i] = (struct iovec){new_buffer(num_bytes), num_bytes};
        if (!iov[i].iov_base) return;
    }
    const uint64_t chosen = flags[how % (sizeof flags / sizeof *flags)];
    void *context = (void *)(uintptr_t)(take_byte(in) % 4u);
    const uint64_t tag = take_byte(in) % 4u, ignore = take_byte(in) % 4u;
    if (how & 128)
        pw_fi_tagged_ops.recvmsg(&self.endpoint.fid,
                                 &(struct fi_msg_tagged){.msg_iov = iov,
                                                         .iov_count = num_parts,
                                                         .addr = FI_ADDR_UNSPEC,
                                                         .tag = tag,
                                                         .ignore = ignore,
                                                         .context = context},
                                 chosen);
    else
        pw_fi_message_ops.recvmsg(
            &self.endpoint.fid,
            &(struct fi_msg){
                .msg_iov = iov, .iov_count = num_parts, .addr = FI_ADDR_UNSPEC, .context = context},
            chosen);
}

/* One that node 1 should answer. */
static void post_atomic(input *in)
{
    pw_fi_operation *asked = pw_fi_take(&self.process, PW_OPERATION_ATOMIC);
    const uint32_t num_bytes = 8u * (1 + take_byte(in) % 16u);
    uint8_t *result = new_buffer(num_bytes);
    MUST(asked);
    if (!result) {
        pw_fi_give(&self.process, asked);
        return;
    }
    asked->endpoint = &self.endpoint;
    asked->sink = &self.endpoint.write;
    asked->flags = FI_ATOMIC | (take_byte(in) & 1 ? FI_READ : FI_WRITE);
    asked->id = take_byte(in) % 8;
    asked->base.peer = 1;
    asked->base.num_bytes = num_bytes;
    asked->num_parts = 1;
    asked->iov[0] = (struct iovec){result, num_bytes};
    pw_operation_append(&self.process.messages.atomics, &asked->base);
}

/* ---- what arrives */

static uint64_t take_address(input *in)
{
    const uint8_t where = take_byte(in) % 6;
    const uint64_t offset = take(in, 2);
    switch (where) {
    case 0: return (uintptr_t)shown + offset % PW_BLOCK_BYTES;
    case 1: return (uintptr_t)around + offset % sizeof around;
    case 2: return (uintptr_t)around + REGION_BYTES + offset % REGION_BYTES / 8 * 8;
    case 3: return 0 - offset;
    case 4: return offset;
    default: return take(in, 8);
    }
}

static uint32_t write_payload(input *in, uint8_t kind, uint8_t *out)
{
    uint32_t num_bytes = take_byte(in) < 200 ? take_byte(in) : take_below(in, FRAME_BYTES - 200);
    memset(out, take_byte(in), num_bytes);
    if (kind == PW_MESSAGE_ATOMIC) {
        const pw_fi_atomic_request asked = {
            .id = take_byte(in),
            .address = take_address(in),
            .key = take_byte(in) % 4 ? self.region.fid.key : take(in, 8),
            .count = take_byte(in) % 8 ? take_byte(in) % 8u : (uint32_t)take(in, 4),
            .type = take_byte(in) % 16,
            .operation = take_byte(in) % 20,
            .wants_old = take_byte(in) & 1};
        memcpy(out, &asked, sizeof asked);
        if (take_byte(in) % 8) num_bytes = (uint32_t)sizeof asked + take_byte(in) % 20u * 8;
    } else if (kind == PW_MESSAGE_ANSWER) {
        const pw_fi_atomic_answer said = {.id = take_byte(in) % 8,
                                          .error = take_byte(in) % 4 ? 0 : (int32_t)take(in, 4),
                                          .num_bytes = take_byte(in) % 8 ? take_byte(in) % 17 * 8u
                                                                         : (uint32_t)take(in, 4)};
        memcpy(out, &said, sizeof said);
        if (take_byte(in) % 8) num_bytes = (uint32_t)sizeof said + said.num_bytes % 4096;
    }
    return num_bytes;
}

static void alter(input *in, pw_envelope *envelope)
{
    switch (take_byte(in) % 10) {
    case 0: envelope->kind = take_byte(in); break;
    case 1: envelope->source_node = (uint32_t)take_number(in); break;
    case 2: envelope->num_bytes = take_number(in); break;
    case 3: envelope->address = take_address(in); break;
    case 4: envelope->key = take(in, 8); break;
    case 5: envelope->arrival_ns = (int64_t)take_number(in); break;
    case 6: envelope->payload_bytes = (uint32_t)take_number(in); break;
    case 7: envelope->payload_crc = (uint32_t)take(in, 4); break;
    default: break;
    }
}

/* In a block of its own, so that a look behind its end is seen. */
static void arrive(const uint8_t *data, uint32_t num_bytes, uint32_t source)
{
    uint8_t *exact = malloc(num_bytes ? num_bytes : 1);
    MUST(exact);
    memcpy(exact, data, num_bytes);
    MUST(pw_fi_message_arrived(&self.process, source, exact, num_bytes) == PW_OK);
    free(exact);
}

static void send_one(input *in)
{
    static const uint8_t kinds[] = {PW_MESSAGE_EAGER,  PW_MESSAGE_EAGER,  PW_MESSAGE_RENDEZVOUS,
                                    PW_MESSAGE_ATOMIC, PW_MESSAGE_ANSWER, PW_FI_MESSAGE_DATA};
    _Alignas(64) static uint8_t made[2 * FRAME_BYTES];
    const uint8_t kind = kinds[take_byte(in) % sizeof kinds], num_changes = take_byte(in) % 4;
    pw_message_header header = {.tag = take_byte(in) % 4, .data = take(in, 2)};
    const uint8_t flags = take_byte(in) % 4;
    header.context = pw_fi_context(0, flags & 1);
    header.has_data = flags >> 1;
    if (!(flags & 1)) header.tag = 0;
    if (take_byte(in) > 240) header.context = take(in, 2);
    if (take_byte(in) > 240) header.source = (uint32_t)take(in, 2);
    uint8_t *payload = made + PW_ENVELOPE_BYTES;
    pw_envelope envelope = {.magic = PW_ENVELOPE_MAGIC, .kind = kind, .source_node = 1};
    if (kind == PW_MESSAGE_RENDEZVOUS) {
        envelope.num_bytes = take(in, 2) % PW_BLOCK_BYTES;
        envelope.address = (uintptr_t)shown;
        envelope.key = self.exposed_key;
    } else {
        envelope.num_bytes = envelope.payload_bytes = write_payload(in, kind, payload);
    }
    const uint32_t payload_bytes = envelope.payload_bytes;
    if (payload_bytes) envelope.payload_crc = pw_crc32c(0, payload, payload_bytes);
    memcpy(payload + payload_bytes, &header, sizeof header);
    for (uint8_t i = 0; i < num_changes; i++) alter(in, &envelope);
    envelope.envelope_crc = pw_crc32c(0, &envelope, sizeof envelope);
    memcpy(made, &envelope, sizeof envelope);
    uint32_t num_bytes = PW_MESSAGE_FRAME_BYTES(payload_bytes);
    if (num_changes && take_byte(in) > 240) num_bytes = take_below(in, num_bytes + 64);
    arrive(made, num_bytes, take_byte(in) > 250 ? 0 : 1);
}

static void send_bytes(input *in)
{
    uint8_t bytes[255];
    const uint8_t num_bytes = take_byte(in);
    for (uint8_t i = 0; i < num_bytes; i++) bytes[i] = take_byte(in);
    arrive(bytes, num_bytes, take_byte(in) & 1);
}

/* ---- the run */

static void begin_run(input *in)
{
    pw_handle *exposed;
    self = (fixture){.num_buffers = 0};
    memset(around, CANARY, sizeof around);
    prepare(&self.all, 2);
    self.all.config.settings.l2_sets = 16;
    self.all.config.settings.policy = take_byte(in) % 3;
    create(&self.all);
    pw_fi_process *process = &self.process;
    process->node = self.all.nodes[0];
    process->ni = pw_node_ni(process->node);
    process->clock = pw_node_clock(process->node);
    process->endpoints[0] = &self.endpoint;
    self.domain.process = process;
    self.endpoint = (pw_fi_endpoint){.process = process,
                                     .in_order_ns = self.in_order_ns,
                                     .domain = &self.domain,
                                     .is_enabled = true,
                                     .min_multi_receive_bytes = take_byte(in),
                                     .receive.counter = &self.received,
                                     .write.counter = &self.written};
    pw_node_set_host(process->node, &(pw_node_host){.context = process,
                                                    .message = pw_fi_message_arrived,
                                                    .finished = pw_fi_handle_finished});
    pw_node_set_host(self.all.nodes[1], &(pw_node_host){.message = ignore_message});
    const pw_messages_host host = {
        .context = process, .matched = pw_fi_matched, .over = pw_fi_over};
    MUST(pw_messages_open(&process->messages, process->node, &host, EAGER_BYTES, FRAME_BYTES - 256,
                          sizeof(pw_fi_operation)) == PW_OK);
    self.region = (pw_fi_region){.domain = &self.domain,
                                 .address = (uintptr_t)around + REGION_BYTES,
                                 .num_bytes = REGION_BYTES,
                                 .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
                                 .fid.key = 77};
    process->regions = &self.region;
    MUST(pw_node_expose(self.all.nodes[1], 0, (uintptr_t)shown, PW_BLOCK_BYTES, &exposed) == PW_OK);
    self.exposed_key = exposed->key;
}

static void turn_until_quiet(void)
{
    for (uint32_t turns = 0, quiet = 0; quiet < QUIET_TURNS; turns++) {
        const int moved = turn_all(&self.all);
        MUST(moved >= 0 && turns < TURNS_MAX);
        quiet = moved ? 0 : quiet + 1;
    }
}

static void give_all(pw_operation_list *list)
{
    for (pw_operation *each; (each = list->head);) {
        pw_operation_unlink(each);
        MUST(pw_operation_release(&self.process.messages, each) == PW_OK);
        pw_operation_free(&self.process.messages, each);
    }
}

static void end_run(void)
{
    pw_fi_process *process = &self.process;
    turn_until_quiet();
    while (pw_fi_deliver(process, true)) continue;
    MUST(!pw_node_under_way(process->node) && !self.endpoint.in_order.head);
    MUST(!pw_fi_timeline_first(&process->timeline) && !process->has_failed);
    give_all(&process->messages.posted);
    give_all(&process->messages.unexpected);
    give_all(&process->claimed);
    give_all(&process->messages.atomics);
    pw_event_queue_destroy(process->timeline.over);
    pw_messages_close(&process->messages);
    end(&self.all);
    check_buffers();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    shown = make_pattern(PW_BLOCK_BYTES);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t num_bytes)
{
    input in = {data, data + num_bytes};
    begin_run(&in);
    for (int i = 0; i < OPERATIONS_MAX && !is_over(&in); i++) {
        switch (take_byte(&in) % 12) {
        case 0:
        case 1:
        case 2: post_receive(&in); break;
        case 3: post_atomic(&in); break;
        case 4: send_bytes(&in); break;
        case 5:
            (void)pw_fi_cancel_receive(&self.endpoint, (void *)(uintptr_t)(take_byte(&in) % 4u));
            break;
        case 6: turn_until_quiet(); break;
        case 7: (void)pw_fi_deliver(&self.process, take_byte(&in) & 1); break;
        default: send_one(&in); break;
        }
    }
    end_run();
    return 0;
}
