/* What a process on the same host may write: the address and the hello by which it makes itself
 * known, its ring in the victim's shared memory, the greetings and the bell, the slots that the
 * victim fills in its own. Nodes 0 and 1 are honest and talk meanwhile; node 2 is the stranger. No
 * burst is read from outside of a segment, and those between 0 and 1 arrive whole and in order. */
#include <rdma/fi_errno.h>
#include <unistd.h>

#include "tests/fuzz/input.h"
#include "transport/fabric/wire_fabric.c"
#include "node/wires/shared_rings.h"

#define NODES 3
#define OPERATIONS_MAX 300
#define BUFFERS 40 /* of each honest node */
#define POLLS_MAX 10000

typedef struct {
    pw_wire *wire;
    uint8_t *buffers[BUFFERS]; /* all of them */
    uint8_t *free[BUFFERS];
    uint32_t num_free;
    uint64_t num_sent, num_received; /* to and from the other honest one */
} honest_node;

static honest_node nodes[2];
static pw_shared_bursts *stranger;
static pw_segment_facts stranger_facts;
static bool has_ended;       /* nonsense in a slot ends the victim's run, with a sentence */
static uint64_t next_number; /* of the stranger's ring, as it counts itself */

/* ---- a libfabric without providers: only shared memory is left */

static int no_info(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info)
{
    (void)version, (void)node, (void)service, (void)flags, (void)hints, (void)info;
    return -FI_ENODATA;
}
static void free_info(struct fi_info *info) { free(info); }
static struct fi_info *copy_info(const struct fi_info *info)
{
    (void)info;
    return NULL;
}
static const char *tell_error(int error)
{
    (void)error;
    return "no such thing";
}

static const pw_fabric_library library = {
    .getinfo = no_info, .freeinfo = free_info, .dupinfo = copy_info, .strerror = tell_error};

/* ---- the honest ones */

static wire_fabric *state_of(uint32_t node) { return (wire_fabric *)(void *)nodes[node].wire; }

static uint32_t bytes_of(uint64_t number)
{
    static const uint32_t num_bytes[] = {8, 100, PW_SHARED_SHORT_BYTES, 1000, 20000};
    return num_bytes[number % 5];
}

static void send_honest(uint32_t node)
{
    honest_node *self = &nodes[node];
    bool is_free = false;
    if (!self->num_free) return;
    uint8_t *data = self->free[--self->num_free];
    const uint32_t num_bytes = bytes_of(self->num_sent);
    memset(data, (int)(self->num_sent * 7 + node), num_bytes);
    MUST(self->wire->ops->send(self->wire, 1 - node, data, num_bytes, &is_free) == PW_OK);
    self->num_sent++;
    if (is_free) self->free[self->num_free++] = data;
}

static void take_back(uint32_t node)
{
    honest_node *self = &nodes[node];
    for (uint8_t *data; (data = self->wire->ops->sent(self->wire));) {
        MUST(self->num_free < BUFFERS);
        self->free[self->num_free++] = data;
    }
}

/* Reads every byte of what is here; an error is the stranger's work, and only his. */
static bool poll_one(uint32_t node)
{
    honest_node *self = &nodes[node];
    pw_wire_burst burst;
    uint8_t sum = 0;
    const int code = self->wire->ops->poll(self->wire, &burst);
    take_back(node);
    if (code < 0) {
        MUST(node == 0 && code == PW_ERR_MALFORMED && *pw_wire_fabric_reason(self->wire));
        has_ended = true;
    }
    if (code != 1) return false;
    MUST(burst.source < NODES && burst.source != node);
    MUST(burst.num_bytes && burst.num_bytes <= PW_BURST_BYTES);
    for (uint32_t i = 0; i < burst.num_bytes; i++) sum ^= burst.data[i];
    if (burst.source != 2) {
        const uint64_t number = self->num_received++;
        MUST(burst.num_bytes == bytes_of(number));
        for (uint32_t i = 0; i < burst.num_bytes; i++)
            MUST(burst.data[i] == (uint8_t)(number * 7 + burst.source));
    }
    self->wire->ops->taken(self->wire, &burst);
    return sum || burst.num_bytes;
}

/* To the stranger, once a way has been agreed on. */
static void send_to_stranger(input *in)
{
    honest_node *self = &nodes[0];
    bool is_free = false;
    const uint32_t num_bytes = 1 + take_below(in, 1000);
    if (state_of(0)->peers[2].way != WAY_SHARED || !self->num_free) return;
    uint8_t *data = self->free[--self->num_free];
    memset(data, 0x2e, num_bytes);
    MUST(self->wire->ops->send(self->wire, 2, data, num_bytes, &is_free) == PW_OK);
    if (is_free) self->free[self->num_free++] = data;
}

/* ---- the stranger */

static pw_wire_address true_address(void)
{
    pw_wire_address made = *pw_wire_fabric_address(nodes[0].wire);
    made.node = 2;
    made.segment = stranger_facts;
    made.tcp_name_bytes = 0;
    return made;
}

/* Right in most things. */
static pw_wire_address take_wire_address(input *in)
{
    pw_wire_address made = true_address();
    for (uint8_t changes = take_byte(in) % 4; changes; changes--) {
        const uint32_t at = take_byte(in) % (uint32_t)sizeof made, width = 1u << take_byte(in) % 4;
        const uint64_t value = take_number(in);
        /* Another process's file is none of ours to open. */
        const bool is_of_process = at + width > offsetof(pw_wire_address, segment.pid) &&
                                   at < offsetof(pw_wire_address, segment.pid) + 8;
        if (at + width <= sizeof made && !is_of_process)
            memcpy((uint8_t *)&made + at, &value, width);
    }
    switch (take_byte(in) % 16) {
    case 0: made.segment.fd = take_byte(in) % 16; break;
    case 1: made.segment.pid = 0; break;
    case 2: made.segment = state_of(0)->hello.address.segment; break; /* the victim's own */
    case 3: made.segment = state_of(1)->hello.address.segment; break;
    default: break;
    }
    return made;
}

static void write_slot(input *in)
{
    const wire_fabric *victim = state_of(0);
    const uint8_t how = take_byte(in);
    const uint64_t ahead = how & 1 ? take_byte(in) : 0;
    slot *into = &victim->shared->neighbours[2].in[(next_number + ahead + 2) % SLOTS];
    wire_hello hello = {.magic = HELLO_MAGIC, .can_map = how >> 6 & 1};
    into->num_bytes = (uint32_t)take_number(in);
    into->offset = how & 2 ? (uint32_t)take_number(in) : 0;
    if (how & 4) into->offset = (uint32_t)(stranger->area_end - take(in, 2));
    if (how & 8) {
        hello.address = take_wire_address(in);
        memcpy(into->data, &hello, sizeof hello);
        if (how & 16) into->num_bytes = sizeof hello, into->offset = 0;
    } else {
        memset(into->data, take_byte(in), sizeof into->data);
    }
    const uint64_t number = how & 32 ? take_number(in) : ++next_number;
    atomic_store(&into->number, number);
    if (how & 128) atomic_fetch_or(victim->shared->greetings, UINT64_C(1) << 2);
}

static void scribble(input *in)
{
    const wire_fabric *victim = state_of(0);
    const uint8_t how = take_byte(in);
    switch (how % 4) {
    case 0: /* taking node 1's greeting away would keep node 1 out, as would writing in its ring */
        atomic_fetch_or(&victim->shared->greetings[0], take_number(in));
        break;
    case 1: *bell_in(&victim->shared->segment) = (uint32_t)take_number(in); break;
    case 2: { /* in its own memory, where the victim puts bursts for it */
        slot *mine = stranger->neighbours[0].in;
        for (uint32_t i = 0; i < SLOTS; i++)
            atomic_store(&mine[i].number, how & 8 ? 0 : take_number(in));
        break;
    }
    default: *bell_in(&stranger->segment) = (uint32_t)take_number(in); break;
    }
}

/* As an MPI hands it out. */
static void insert_address(input *in)
{
    const pw_wire_address made = take_wire_address(in);
    uint32_t node = NODES;
    if (made.node == 1) return; /* a lie about node 1 keeps node 1 out: its name is given first */
    const int code = pw_wire_fabric_connect(nodes[0].wire, &made, &node);
    MUST(code <= 0 && (code || node < NODES));
    if (code) MUST(*pw_wire_fabric_reason(nodes[0].wire));
}

/* ---- the run */

static void open_all(void)
{
    pw_sentence reason;
    uint32_t ignored;
    const pw_wire_fabric_options options = {.mode = PW_WIRE_AUTO};
    for (uint32_t node = 0; node < 2; node++) {
        honest_node *self = &nodes[node];
        *self = (honest_node){.num_free = 0};
        MUST(pw_wire_fabric_create(&library, node, NODES, &options, &self->wire, &reason) == PW_OK);
        for (uint32_t i = 0; i < BUFFERS; i++) {
            /* Every fourth one is not of the segment. */
            uint8_t *data = i % 4 ? self->wire->ops->allocate(self->wire, 20000) : malloc(20000);
            MUST(data);
            self->buffers[i] = self->free[self->num_free++] = data;
        }
    }
    for (uint32_t node = 0; node < 2; node++)
        MUST(pw_wire_fabric_connect(nodes[node].wire, pw_wire_fabric_address(nodes[1 - node].wire),
                                    &ignored) == PW_OK);
    MUST(pw_shared_create(2, NODES, &stranger, &stranger_facts) == PW_OK);
    next_number = 0;
    has_ended = false;
}

static void close_all(void)
{
    /* Whatever the victim sent him the stranger takes now; else closing waits for a second. */
    for (uint32_t i = 0; i < SLOTS; i++) atomic_store(&stranger->neighbours[0].in[i].number, 0);
    uint32_t idle = 0;
    for (int polls = 0; idle < 40; polls++) {
        bool has_moved = poll_one(0);
        has_moved |= poll_one(1);
        idle = has_moved ? 0 : idle + 1;
        for (uint32_t i = 0; i < SLOTS; i++) atomic_store(&stranger->neighbours[0].in[i].number, 0);
        MUST(polls < POLLS_MAX);
    }
    for (uint32_t node = 0; node < 2 && !has_ended; node++) {
        MUST(nodes[node].num_received == nodes[1 - node].num_sent);
        MUST(nodes[node].num_free == BUFFERS);
    }
    for (uint32_t node = 0; node < 2; node++) {
        nodes[node].wire->ops->close(nodes[node].wire);
        for (uint32_t i = 0; i < BUFFERS; i += 4) free(nodes[node].buffers[i]);
    }
    pw_shared_destroy(stranger);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t num_bytes)
{
    input in = {data, data + num_bytes};
    open_all();
    for (int i = 0; i < OPERATIONS_MAX && !is_over(&in) && !has_ended; i++) {
        switch (take_byte(&in) % 10) {
        case 0: send_honest(0); break;
        case 1: send_honest(1); break;
        case 2:
            for (uint8_t polls = take_byte(&in) % 8 + 1u; polls; polls--) poll_one(0);
            break;
        case 3: poll_one(1); break;
        case 4: send_to_stranger(&in); break;
        case 5: scribble(&in); break;
        case 6: insert_address(&in); break;
        default: write_slot(&in); break;
        }
    }
    close_all();
    return 0;
}
