#include "replay/program.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native/array.h"
#include "native/frames.h"
#include "native/peers.h"
#include "native/status.h"
#include "node/report/program_regions.h"
#include "replay/operations.h"
#include "replay/turns.h"

typedef unsigned long long printed;

#define FIRST_CAPACITY 16
#define REGION_SHIFT 40                     /* bytes of a region whose base is not told */
#define REGIONS_MAX (UINT64_C(1) << 22)     /* the same: their addresses fit */
#define SPAN_MAX_BYTES (UINT64_C(1) << 36)  /* of a buffer, or of pages at a time */
#define ADDRESS_END (UINT64_C(1) << 63)     /* of all that a trace may name */
#define TIME_MAX_NS (PW_FRAME_TIME_MAX / 4) /* 18 years: sums stay in range */
#define PAGES_AT_ONCE 512u
#define DEPTH_MAX 1024 /* of calls within calls */
#define NAMES_MAX 65536
#define NOBODY (PW_ANY_NODE - 1) /* a peer that never sends */

typedef struct {
    uint64_t region, base;
} region_base;

/* Memory that peers may use. */
typedef struct {
    uint64_t number, address, num_bytes, key;
    uint64_t recorded_key; /* 0: the trace does not say */
    uint32_t rights;       /* PW_REMOTE_* */
} registration;

typedef struct {
    pw_peer peer;
    int64_t last_ns; /* when the last of its receives in order ended */
} in_order_peer;

struct pw_program {
    pw_node *node;
    pw_clock *clock;
    pw_messages messages;
    pw_reader ops, matches, times, keys;
    pw_turns turns;
    pw_touches touches;
    bool matches_freely, verifies, is_cut, yields;
    uint32_t waits;         /* PW_PROGRAM_* */
    pw_record wanted;       /* at which it waits */
    pw_numbered *operation; /* for which it waits */
    pw_numbers numbers;
    uint64_t num_operations, num_atomics, num_registrations;
    registration *registered;
    uint32_t num_registered, registered_capacity;
    uint64_t known_keys[PW_KEYS_KNOWN]; /* as recorded, by their numbers: a ring */
    uint64_t num_keys;
    uint64_t (*key_of)(void *context, uint32_t peer, const pw_program_wish *wish);
    void *context;
    pw_operation_list in_order; /* matched, and one of their source before them may not be over */
    pw_peers in_order_of;       /* of in_order_peer */
    pw_operation_list exposed;  /* sends of this call that were eager when recorded, by companion */
    region_base *bases;
    uint32_t num_bases, bases_capacity;
    int32_t *calls; /* by the index of a name: that of the call, or a code */
    uint32_t num_names, names_capacity;
    uint64_t num_calls, num_lost;
    char lost[PW_CALL_NAME_BYTES];
    uint64_t recorded_ns; /* the last recorded time; sums wrap around in a malformed trace */
    pw_program_difference difference;
    pw_sentence reason;
};

/* ---- what is wrong */

static const char *call_name(const pw_program *program)
{
    const pw_call_counts *counts = pw_node_calls(program->node);
    return counts->num_calls ? counts->call[counts->current].name : "";
}

static void name_record(pw_program *program)
{
    pw_sentence_clear(&program->reason);
    pw_sentence_add(&program->reason, "rank %u, record %llu (%s): ", program->ops.rank,
                    (printed)(program->ops.num_read - 1),
                    *call_name(program) ? call_name(program) : "before the first call");
}

__attribute__((format(printf, 2, 3))) static int refuse(pw_program *program, const char *format,
                                                        ...)
{
    va_list arguments;
    name_record(program);
    va_start(arguments, format);
    pw_sentence_add_list(&program->reason, format, arguments);
    va_end(arguments);
    return PW_ERR_MALFORMED;
}

/* The code of a call of the node's, of which it has said why. */
static int of_node(pw_program *program, int code)
{
    if (code >= 0 || program->reason.length) return code;
    const char *why = pw_node_reason(program->node);
    name_record(program);
    pw_sentence_add(&program->reason, "%s", *why ? why : pw_status_text(code));
    return code;
}

/* ---- addresses */

static int base_of(pw_program *program, uint64_t region, uint64_t *out)
{
    const region_base *bases = program->bases;
    if (region < program->num_bases && bases[region].region == region) {
        *out = bases[region].base;
        return PW_OK;
    }
    for (uint32_t i = 0; i < program->num_bases; i++)
        if (bases[i].region == region) {
            *out = bases[i].base;
            return PW_OK;
        }
    if (region >= REGIONS_MAX)
        return refuse(program, "region %llu: without a base address they go to %llu",
                      (printed)region, (printed)REGIONS_MAX - 1);
    *out = (region + 1) << REGION_SHIFT;
    return PW_OK;
}

static int read_bases(pw_program *program, pw_reader *reader)
{
    uint64_t region, base;
    int code;
    while ((code = pw_reader_number(reader, &region)) > 0) {
        code = pw_reader_number(reader, &base);
        if (code == 0) return refuse(program, "region %llu has no base address", (printed)region);
        if (code < 0) break;
        if (PW_ARRAY_MAKE_ROOM(program->bases, program->num_bases, program->bases_capacity,
                               FIRST_CAPACITY) < 0)
            return PW_ERR_NOMEM;
        program->bases[program->num_bases++] = (region_base){region, base};
    }
    return code;
}

static int place_of(pw_program *program, uint64_t region, int64_t offset, uint64_t num_bytes,
                    uint64_t *out)
{
    uint64_t base = 0;
    const int code = base_of(program, region, &base);
    if (code < 0) return code;
    *out = base + (uint64_t)offset;
    if (*out < ADDRESS_END && num_bytes <= SPAN_MAX_BYTES) return PW_OK;
    return refuse(program,
                  "a buffer of %llu bytes at region %llu, offset %lld: allowed are %llu bytes "
                  "below address %#llx",
                  (printed)num_bytes, (printed)region, (long long)offset, (printed)SPAN_MAX_BYTES,
                  (printed)ADDRESS_END);
}

static int address_of(pw_program *program, const pw_record *record, uint64_t *out)
{
    return place_of(program, record->region, record->offset, record->bytes, out);
}

static int remote_address_of(pw_program *program, const pw_record *record, uint64_t *out)
{
    return place_of(program, record->remote_region, record->remote_offset, record->bytes, out);
}

static int pages_of(pw_program *program, const pw_record *record, uint64_t *out)
{
    uint64_t base = 0;
    const int code = base_of(program, record->region, &base);
    if (code < 0) return code;
    *out = pw_page_of(base) + (uint64_t)record->offset;
    if (*out < pw_page_of(ADDRESS_END) && record->count <= pw_page_of(SPAN_MAX_BYTES)) return PW_OK;
    return refuse(
        program, "%llu pages at region %llu, page %lld: allowed are %llu pages below address %#llx",
        (printed)record->count, (printed)record->region, (long long)record->offset,
        (printed)pw_page_of(SPAN_MAX_BYTES), (printed)ADDRESS_END);
}

/* ---- operations by their numbers */

static int new_operation(pw_program *program, pw_numbered **out)
{
    *out = (pw_numbered *)pw_operation_new(&program->messages, PW_OPERATION_RECEIVE);
    return *out ? PW_OK : PW_ERR_NOMEM;
}

/* It has a number now. */
static int number(pw_program *program, pw_numbered *operation)
{
    return pw_numbers_add(&program->numbers, operation, program->num_operations++);
}

static int refuse_number(pw_program *program, const pw_record *record)
{
    return refuse(program, "operation %llu before the latest: %llu were posted",
                  (printed)record->operation, (printed)program->num_operations);
}

/* The operation that a record names; *out NULL: it is over, and nobody asks for it any more. */
static int find(pw_program *program, const pw_record *record, pw_numbered **out)
{
    *out = NULL;
    if (record->operation >= program->num_operations) return refuse_number(program, record);
    *out = pw_numbers_find(&program->numbers, program->num_operations - 1 - record->operation);
    return PW_OK;
}

static void forget(pw_program *program, pw_numbered *operation)
{
    pw_numbers_remove(&program->numbers, operation);
    pw_operation_free(&program->messages, &operation->base);
}

static int failed(pw_program *program, const pw_operation *operation)
{
    static const char *const kinds[PW_OPERATION_OF_HOST] = {[PW_OPERATION_SEND] = "send",
                                                            [PW_OPERATION_RECEIVE] = "receive",
                                                            [PW_OPERATION_READ] = "get",
                                                            [PW_OPERATION_WRITE] = "put",
                                                            [PW_OPERATION_ATOMIC] = "atomic"};
    name_record(program);
    pw_sentence_add(&program->reason, "a %s of %llu bytes with rank %u has failed: %s",
                    kinds[operation->kind], (printed)operation->message_bytes, operation->peer,
                    pw_status_text(operation->error));
    return PW_ERR_UNRECOVERABLE;
}

/* ---- pages */

/* Those of them that are not so already: what is known of the others, a pin, stays. */
static int set_some(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t state)
{
    uint8_t found[PAGES_AT_ONCE];
    int code = pw_memory_look(memory, first_page, num_pages, found);
    for (uint64_t i = 0, end; code == PW_OK && i < num_pages; i = end) {
        for (end = i; end < num_pages && found[end] != state;) end++;
        if (end > i) code = pw_memory_set(memory, first_page + i, end - i, state);
        while (end < num_pages && found[end] == state) end++;
    }
    return code == PW_ERR_FULL ? PW_OK : code; /* every frame is pinned: they are not there */
}

static int set_all(pw_program *program, uint64_t first_page, uint64_t num_pages, uint8_t state)
{
    pw_memory *memory = pw_node_memory(program->node);
    int code = PW_OK;
    pw_memory_at(memory, program->clock->now_ns);
    for (uint64_t done = 0, count; code == PW_OK && done < num_pages; done += count) {
        count = num_pages - done < PAGES_AT_ONCE ? num_pages - done : PAGES_AT_ONCE;
        code = set_some(memory, first_page + done, count, state);
    }
    return code;
}

/* The CPU copies something there, which costs no time: the kernel brings the pages. */
static int touch(pw_program *program, uint64_t address, uint64_t num_bytes)
{
    uint8_t state[PAGES_AT_ONCE];
    pw_memory *memory = pw_node_memory(program->node);
    const uint64_t end_page = num_bytes ? pw_page_of(address + num_bytes - 1) + 1 : 0;
    int code = PW_OK;
    pw_memory_at(memory, program->clock->now_ns);
    for (uint64_t page = pw_page_of(address), count; code == PW_OK && page < end_page;
         page += count) {
        count = end_page - page < PAGES_AT_ONCE ? end_page - page : PAGES_AT_ONCE;
        code = pw_memory_look(memory, page, count, state);
        for (uint64_t i = 0; code == PW_OK && i < count; i++)
            if (state[i] == PW_PAGE_ABSENT || state[i] == PW_PAGE_WRITE_PROTECTED)
                code = pw_memory_set(memory, page + i, 1, PW_PAGE_PRESENT);
        if (code == PW_ERR_FULL) code = PW_OK; /* every frame is pinned */
    }
    return code;
}

/* ---- what the node tells */

/* An atomic operation of a peer. Its header: bytes of the memory, of the answer, and a number. */
static int serve_atomic(pw_program *program, const pw_arrival *arrival)
{
    const pw_envelope *envelope = &arrival->envelope;
    const pw_message_header *asked = &arrival->header;
    const int64_t landed_ns =
        pw_ni_message_land(pw_node_ni(program->node), arrival->frame, 0, 0, envelope->arrival_ns);
    const int code = touch(program, envelope->address, asked->context);
    const pw_message_header header = {.data = asked->data};
    if (code < 0) return code;
    return pw_messages_send_plain(&program->messages, envelope->source_node, PW_MESSAGE_ANSWER, 0,
                                  (uint32_t)asked->tag, landed_ns, &header);
}

static int take_answer(pw_messages *messages, const pw_arrival *arrival)
{
    pw_operation *asked = messages->atomics.head;
    while (asked && asked->data != arrival->header.data) asked = asked->next;
    if (!asked) return PW_ERR_MALFORMED;
    pw_messages_answered(messages, asked, arrival, 0, 0);
    return PW_OK;
}

static int message_arrived(void *context, uint32_t source, const uint8_t *frame,
                           uint32_t frame_bytes)
{
    pw_messages *messages = &((pw_program *)context)->messages;
    pw_arrival arrival;
    const int code = pw_messages_read(messages, source, frame, frame_bytes, &arrival);
    if (code < 0) return code;
    switch (arrival.envelope.kind) {
    case PW_MESSAGE_ATOMIC: return serve_atomic(context, &arrival);
    case PW_MESSAGE_ANSWER: return take_answer(messages, &arrival);
    default: return pw_messages_match(messages, &arrival);
    }
}

static int handle_finished(void *context, pw_handle *handle)
{
    return pw_messages_finish(&((pw_program *)context)->messages, handle);
}

/* A part of a receive of several messages. */
static pw_numbered *new_part(pw_program *program, pw_numbered *whole, uint64_t message_bytes)
{
    pw_operation *from = &whole->base;
    pw_numbered *part, **last = &whole->parts;
    if (new_operation(program, &part) < 0) return NULL;
    pw_operation_cut(from, &part->base, message_bytes);
    if (!from->capacity_bytes) {
        pw_operation_unlink(from);
        from->complete_ns = program->clock->now_ns;
        from->done = 1;
    }
    while (*last) last = &(*last)->sibling;
    *last = part;
    return part;
}

static pw_operation *matched(void *context, pw_operation *receive, uint64_t message_bytes)
{
    pw_program *program = context;
    if (receive->is_multi) {
        pw_numbered *part = new_part(program, (pw_numbered *)receive, message_bytes);
        if (!part || pw_operation_acquire(&program->messages, &part->base) < 0) return NULL;
        receive = &part->base;
    }
    if (receive->is_in_order) pw_operation_append(&program->in_order, receive);
    return receive;
}

/* What came with its envelope is copied. Receives in order end in the order of sending. */
static int operation_over(void *context, pw_operation *operation)
{
    pw_program *program = context;
    const bool is_copied = operation->kind == PW_OPERATION_RECEIVE && !operation->error &&
                           operation->message_bytes <= program->messages.eager_limit_bytes;
    const int code = is_copied ? touch(program, operation->address, operation->num_bytes) : PW_OK;
    if (code < 0 || operation->list != &program->in_order) return code;
    in_order_peer *of = pw_peers_make(&program->in_order_of, operation->peer, sizeof *of);
    if (!of) return PW_ERR_NOMEM;
    while (pw_operation_next_in_order(&program->in_order, operation->context, operation->peer,
                                      operation->source, &of->last_ns)) {}
    return PW_OK;
}

static int set_pages(pw_program *program, const pw_record *record);

/* ---- calls and time */

/* Is the clock where it was recorded? */
static int check_time(pw_program *program, bool is_end)
{
    uint64_t change;
    if (!program->verifies) return PW_OK;
    const int code = pw_reader_number(&program->times, &change);
    if (code <= 0) return code;
    program->recorded_ns += (uint64_t)pw_zigzag(change);
    if (program->recorded_ns == (uint64_t)program->clock->now_ns) return PW_OK;
    pw_program_difference *out = &program->difference;
    *out = (pw_program_difference){.call = program->num_calls - !is_end,
                                   .recorded_ns = (int64_t)program->recorded_ns,
                                   .replayed_ns = program->clock->now_ns,
                                   .is_there = 1,
                                   .is_end = is_end};
    memcpy(out->name, call_name(program), strlen(call_name(program)));
    name_record(program);
    pw_sentence_add(&program->reason, "recorded %lld ns, replayed %lld ns",
                    (long long)out->recorded_ns, (long long)out->replayed_ns);
    return PW_ERR_UNRECOVERABLE;
}

/* What fits of a record's text, fit for a terminal. */
static void copy_text(char out[PW_CALL_NAME_BYTES], const pw_record *record)
{
    uint32_t length = 0;
    for (; length < record->text_bytes && length < PW_CALL_NAME_BYTES - 1; length++) {
        const uint8_t byte = record->text[length];
        out[length] = byte < ' ' || byte == 127 ? '?' : (char)byte;
    }
    out[length] = '\0';
}

static int take_name(pw_program *program, const pw_record *record)
{
    char name[PW_CALL_NAME_BYTES];
    if (record->idx >= NAMES_MAX)
        return refuse(program, "name %llu: they go to %u", (printed)record->idx, NAMES_MAX - 1);
    while (program->num_names <= record->idx) {
        if (PW_ARRAY_MAKE_ROOM(program->calls, program->num_names, program->names_capacity,
                               FIRST_CAPACITY) < 0)
            return PW_ERR_NOMEM;
        program->calls[program->num_names++] = PW_ERR_INVALID;
    }
    copy_text(name, record);
    program->calls[record->idx] = pw_call_index(pw_node_calls(program->node), name);
    return PW_OK;
}

static int enter(pw_program *program, const pw_record *record)
{
    if (program->clock->depth >= DEPTH_MAX)
        return refuse(program, "%d calls within calls: allowed is %d", DEPTH_MAX + 1, DEPTH_MAX);
    if (record->opcode == PW_OP_CALL) {
        const int32_t call =
            record->idx < program->num_names ? program->calls[record->idx] : PW_ERR_INVALID;
        if (call < 0)
            return refuse(program, "call %llu: it has no name, or there are more than %u names",
                          (printed)record->idx, PW_CALLS_MAX);
        pw_call_begin(pw_node_calls(program->node), (uint32_t)call);
    }
    pw_clock_enter(program->clock, record->opcode == PW_OP_CALL);
    return PW_OK;
}

static int leave(pw_program *program, const pw_record *record)
{
    (void)record;
    if (program->clock->depth == 0) return refuse(program, "a call ends that has not begun");
    if (program->clock->depth == 1 && program->exposed.head) {
        program->waits = PW_PROGRAM_WAITS_EXPOSED;
        return PW_OK;
    }
    pw_clock_leave(program->clock);
    program->num_calls++;
    return check_time(program, false);
}

/* Everything that a duration is added to stays in range, now and when it is scaled. */
static int check_duration(pw_program *program, int64_t duration_ns)
{
    const pw_clock *clock = program->clock;
    if (duration_ns <= TIME_MAX_NS - clock->declared_ns && duration_ns >= -clock->now_ns)
        return PW_OK;
    return refuse(program, "%lld ns: the clock goes from 0 to %lld", (long long)duration_ns,
                  (long long)TIME_MAX_NS);
}

/* So much compute passes now, and not with the next call. */
static void compute(pw_clock *clock, int64_t duration_ns)
{
    pw_clock_declare(clock, duration_ns);
    pw_clock_enter(clock, false);
    pw_clock_leave(clock);
}

/* An interval in which pages are touched one after the other: on to the next of them, or the NI
 * goes on to where the CPU is and they are there. What is left passes with the next call. */
static int touch_next(pw_program *program)
{
    pw_touches *touches = &program->touches;
    pw_record pages;
    int64_t at_ns;
    if (!pw_touches_next(touches, &pages, &at_ns)) {
        pw_clock_declare(program->clock, touches->duration_ns - touches->passed_ns);
        touches->is_under_way = false;
        return PW_OK;
    }
    if (at_ns > touches->passed_ns) {
        compute(program->clock, at_ns - touches->passed_ns);
        touches->passed_ns = at_ns;
        return PW_OK; /* the other nodes come first, as far as they are behind */
    }
    const int code = pw_node_turn(program->node, false);
    if (code) { /* peers may have an answer to what has moved */
        program->yields = code > 0;
        return code < 0 ? code : PW_OK;
    }
    pw_touches_done(touches, &pages);
    return set_pages(program, &pages);
}

/* A compute interval begins. */
static int begin_compute(pw_program *program, int64_t duration_ns)
{
    pw_touches *touches = &program->touches;
    int code = 0;
    if (touches->when && program->clock->depth == 0)
        code = pw_touches_begin(touches, program->ops.num_read, duration_ns);
    if (code < 0) return code;
    if (!code) pw_clock_declare(program->clock, duration_ns);
    return PW_OK;
}

static int pass_time(pw_program *program, const pw_record *record)
{
    pw_clock *clock = program->clock;
    if (record->opcode != PW_OP_PASS && record->duration_ns < 0)
        return refuse(program, "a duration above %lld ns", (long long)INT64_MAX);
    const int code = check_duration(program, record->duration_ns);
    if (code < 0) return code;
    switch (record->opcode) {
    case PW_OP_COMPUTE: return begin_compute(program, record->duration_ns);
    case PW_OP_SLEEP: pw_clock_sleep(clock, record->duration_ns); break;
    case PW_OP_PASS: clock->now_ns += record->duration_ns; break;
    default: /* calls in vain */
        pw_clock_enter(clock, false);
        clock->now_ns += record->duration_ns;
        pw_clock_leave(clock);
    }
    return PW_OK;
}

static int read_clock(pw_program *program, const pw_record *record)
{
    (void)record;
    pw_clock_read(program->clock);
    return PW_OK;
}

static int meet(pw_program *program, const pw_record *record)
{
    program->wanted = *record;
    program->waits = PW_PROGRAM_WAITS_GROUP;
    return PW_OK;
}

void pw_program_meet(pw_program *program, int64_t time_ns)
{
    program->clock->now_ns = pw_later(program->clock->now_ns, time_ns);
    program->waits = PW_PROGRAM_RUNS;
}

static void drain(pw_program *program)
{
    program->waits = PW_PROGRAM_DRAINS;
    if (program->verifies) pw_turns_end(&program->turns);
}

static int end(pw_program *program, const pw_record *record)
{
    (void)record;
    drain(program);
    return check_time(program, true);
}

/* ---- messages */

static int check_peer(pw_program *program, uint64_t peer, uint64_t source)
{
    const uint32_t num_nodes = pw_node_count(program->node);
    if (peer < num_nodes && source <= UINT32_MAX) return PW_OK;
    return refuse(program, "rank %llu, source %llu: there are ranks 0 to %u", (printed)peer,
                  (printed)source, num_nodes - 1);
}

static int send_exposed(pw_program *program, const pw_record *record, uint64_t address,
                        const pw_message_header *header)
{
    pw_numbered *send;
    if (new_operation(program, &send) < 0) return PW_ERR_NOMEM;
    pw_operation *base = &send->base;
    base->kind = PW_OPERATION_SEND;
    base->peer = (uint32_t)record->peer;
    base->tag = record->tag;
    base->address = address;
    base->num_bytes = base->capacity_bytes = base->message_bytes = record->bytes;
    int code = pw_messages_send_exposed(&program->messages, base, header);
    if (code < 0) return of_node(program, code);
    if (!(record->flags & PW_SEND_WAS_EAGER)) return number(program, send);
    program->num_operations++;
    if (program->exposed.tail) program->exposed.tail->companion = base;
    else program->exposed.head = base;
    program->exposed.tail = base;
    return PW_OK;
}

static int post_send(pw_program *program, const pw_record *record)
{
    uint64_t address = 0;
    int code = check_peer(program, record->peer, record->source);
    if (code == PW_OK) code = address_of(program, record, &address);
    if (code < 0) return code;
    const pw_message_header header = {.context = record->context,
                                      .tag = record->tag,
                                      .data = record->data,
                                      .source = (uint32_t)record->source,
                                      .has_data = (record->flags & PW_SEND_HAS_DATA) != 0};
    pw_call_counts *counts = pw_node_calls(program->node);
    if (counts->num_calls) counts->call[counts->current].bytes += record->bytes;
    if (record->bytes > program->messages.eager_limit_bytes || record->flags & PW_SEND_SYNCHRONOUS)
        return send_exposed(program, record, address, &header);
    program->num_operations++;
    return of_node(program, pw_messages_send_eager(&program->messages, (uint32_t)record->peer,
                                                   address, record->bytes, &header));
}

/* Whose message a receive from any source takes. */
static int read_match(pw_program *program, pw_operation *receive)
{
    uint64_t peer, source;
    int code = pw_reader_number(&program->matches, &peer);
    if (code > 0) code = pw_reader_number(&program->matches, &source);
    if (code < 0) return code;
    if (program->matches_freely) return PW_OK;
    receive->peer = NOBODY;
    if (code == 0 || peer == 0) return PW_OK; /* of a run that was killed, or none */
    code = check_peer(program, peer - 1, source);
    receive->peer = (uint32_t)(peer - 1);
    receive->source = (uint32_t)source;
    return code;
}

/* Which message it wants. */
static int want(pw_program *program, const pw_record *record, pw_operation *receive)
{
    receive->context = record->context;
    receive->tag = record->tag;
    receive->ignore = record->ignore;
    receive->is_multi = (record->flags & PW_RECEIVE_MULTI) != 0;
    receive->is_in_order = (record->flags & PW_RECEIVE_IN_ORDER) != 0;
    receive->peer = PW_ANY_NODE;
    if (record->peer == 0) return receive->is_multi ? PW_OK : read_match(program, receive);
    const int code = check_peer(program, record->peer - 1, record->source);
    receive->peer = (uint32_t)(record->peer - 1);
    receive->source = (uint32_t)record->source;
    return code;
}

/* A receive with its buffer; the strategy's part of posting it is done. */
static int new_receive(pw_program *program, const pw_record *record, pw_numbered **out)
{
    uint64_t address = 0;
    int code = address_of(program, record, &address);
    if (code == PW_OK) code = new_operation(program, out);
    if (code < 0) return code;
    pw_operation *receive = &(*out)->base;
    receive->address = address;
    receive->capacity_bytes = record->bytes;
    receive->is_unsized = (record->flags & PW_RECEIVE_UNSIZED) != 0;
    const bool is_later = receive->is_unsized || record->flags & PW_RECEIVE_MULTI;
    code = is_later ? PW_OK : pw_operation_acquire(&program->messages, receive);
    if (code < 0) pw_operation_free(&program->messages, receive);
    return of_node(program, code);
}

static int post_receive(pw_program *program, const pw_record *record)
{
    pw_numbered *receive = NULL;
    int code = new_receive(program, record, &receive);
    if (code < 0) return code;
    code = want(program, record, &receive->base);
    if (code == PW_OK) code = number(program, receive);
    if (code < 0) {
        pw_operation_free(&program->messages, &receive->base);
        return code;
    }
    return of_node(program, pw_messages_post(&program->messages, &receive->base));
}

static int await(pw_program *program, const pw_record *record)
{
    const int code = find(program, record, &program->operation);
    if (code < 0 || !program->operation) return code; /* sent eagerly here */
    if (program->operation->base.kind == PW_OPERATION_ARRIVED)
        return refuse(program, "operation %llu is a message that nobody received",
                      (printed)program->operation->number);
    program->wanted = *record;
    program->waits = PW_PROGRAM_WAITS_OPERATION;
    return PW_OK;
}

static int await_message(pw_program *program, const pw_record *record)
{
    program->wanted = *record;
    program->operation = NULL;
    int code = check_peer(program, record->peer, record->source);
    if (code == PW_OK && record->opcode == PW_OP_PART) {
        code = find(program, record, &program->operation);
        if (code == PW_OK && (!program->operation || !program->operation->base.is_multi))
            return refuse(program, "a part of what is no receive of several messages");
    }
    if (code == PW_OK) program->waits = PW_PROGRAM_WAITS_MESSAGE;
    return code;
}

static int take(pw_program *program, const pw_record *record)
{
    pw_numbered *arrived = NULL, *receive = NULL;
    int code = find(program, record, &arrived);
    if (code < 0) return code;
    if (!arrived || arrived->base.kind != PW_OPERATION_ARRIVED)
        return refuse(program, "a message is received that no probe has taken");
    pw_numbers_remove(&program->numbers, arrived);
    code = new_receive(program, record, &receive);
    if (code < 0) return code;
    receive->base.posted_ns = program->clock->now_ns;
    code = number(program, receive);
    if (code < 0) return code;
    return of_node(program, pw_messages_take(&program->messages, &receive->base, &arrived->base));
}

static int cancel(pw_program *program, const pw_record *record)
{
    pw_numbered *receive = NULL;
    const int code = find(program, record, &receive);
    if (code < 0 || !receive || receive->base.list != &program->messages.posted) return code;
    receive->base.cancelled = 1;
    return of_node(program, pw_messages_withdraw(&program->messages, &receive->base));
}

/* ---- one-sided operations */

/* The next one of the recorded run; 0: there is none. */
static int read_key(pw_program *program, uint64_t *key)
{
    *key = 0;
    const int code = pw_reader_number(&program->keys, key);
    return code < 0 ? code : PW_OK;
}

/* The recorded key that a PUT or GET says so. */
static int find_key(pw_program *program, uint64_t number, uint64_t *key)
{
    uint64_t *known = program->known_keys;
    if (number == PW_KEY_NEW) {
        const int code = read_key(program, key);
        known[program->num_keys++ % PW_KEYS_KNOWN] = *key;
        return code;
    }
    const uint64_t ago = number - PW_KEY_KNOWN;
    if (ago >= PW_KEYS_KNOWN || ago >= program->num_keys)
        return refuse(program, "the key %llu before the latest: %llu were told, and %u are known",
                      (printed)ago, (printed)program->num_keys, PW_KEYS_KNOWN);
    *key = known[(program->num_keys - 1 - ago) % PW_KEYS_KNOWN];
    return PW_OK;
}

static int register_memory(pw_program *program, const pw_record *record)
{
    const bool is_all = record->flags & PW_REGISTER_ALL;
    registration made = {.number = program->num_registrations++,
                         .num_bytes = is_all ? ADDRESS_END : record->bytes,
                         .rights = record->flags & (PW_REGISTER_READ | PW_REGISTER_WRITE)};
    int code = is_all ? PW_OK : address_of(program, record, &made.address);
    if (code == PW_OK) code = read_key(program, &made.recorded_key);
    if (code == PW_OK)
        code = pw_ni_register(pw_node_ni(program->node), made.address, made.num_bytes, made.rights,
                              &made.key);
    if (code == PW_OK)
        code = PW_ARRAY_MAKE_ROOM(program->registered, program->num_registered,
                                  program->registered_capacity, FIRST_CAPACITY);
    if (code < 0) return code;
    program->registered[program->num_registered++] = made;
    return PW_OK;
}

static int deregister_memory(pw_program *program, const pw_record *record)
{
    registration *all = program->registered;
    uint32_t place = 0;
    while (place < program->num_registered && all[place].number != record->idx) place++;
    if (place == program->num_registered)
        return refuse(program, "registration %llu: there is none any more, or not yet",
                      (printed)record->idx);
    const uint64_t key = all[place].key;
    memmove(&all[place], &all[place + 1], (--program->num_registered - place) * sizeof *all);
    return pw_ni_unexpose(pw_node_ni(program->node), key);
}

static bool suits(const registration *registered, const pw_program_wish *wish)
{
    const uint64_t offset = wish->address - registered->address;
    if (wish->key && registered->recorded_key) return wish->key == registered->recorded_key;
    return registered->rights & wish->right && offset <= registered->num_bytes &&
           wish->num_bytes <= registered->num_bytes - offset;
}

uint64_t pw_program_key(const pw_program *program, const pw_program_wish *wish)
{
    for (uint32_t i = program->num_registered; i-- > 0;)
        if (suits(&program->registered[i], wish)) return program->registered[i].key;
    return 0;
}

/* An operation on a peer's memory, numbered. */
static int new_one_sided(pw_program *program, const pw_record *record, uint8_t kind,
                         pw_operation **out)
{
    uint64_t remote_address = 0;
    pw_numbered *made = NULL;
    int code = check_peer(program, record->peer, 0);
    if (code == PW_OK && (record->bytes == 0 || record->bytes > UINT32_MAX))
        return refuse(program, "%llu bytes of a peer's memory: allowed is 1 to %u",
                      (printed)record->bytes, UINT32_MAX);
    if (code == PW_OK) code = remote_address_of(program, record, &remote_address);
    if (code == PW_OK) code = new_operation(program, &made);
    if (code < 0) return code;
    made->base.kind = kind;
    made->base.peer = (uint32_t)record->peer;
    made->base.num_bytes = made->base.message_bytes = record->bytes;
    made->base.remote_address = remote_address;
    *out = &made->base;
    code = number(program, made);
    if (code < 0) pw_operation_free(&program->messages, &made->base);
    return code;
}

static int post_transfer(pw_program *program, const pw_record *record)
{
    const bool is_get = record->opcode == PW_OP_GET;
    uint64_t address = 0;
    pw_operation *made;
    pw_program_wish wish = {.num_bytes = record->bytes,
                            .right = is_get ? PW_REMOTE_READ : PW_REMOTE_WRITE};
    int code = address_of(program, record, &address);
    if (code == PW_OK && record->key) code = find_key(program, record->key, &wish.key);
    if (code == PW_OK)
        code =
            new_one_sided(program, record, is_get ? PW_OPERATION_READ : PW_OPERATION_WRITE, &made);
    if (code < 0) return code;
    made->address = address;
    made->capacity_bytes = record->bytes;
    wish.address = made->remote_address;
    if (record->key) made->remote_key = program->key_of(program->context, made->peer, &wish);
    pw_call_counts *counts = pw_node_calls(program->node);
    if (counts->num_calls) counts->call[counts->current].bytes += record->bytes;
    return of_node(program, pw_messages_transfer(&program->messages, made));
}

static int post_atomic(pw_program *program, const pw_record *record)
{
    const uint64_t limit = PW_MESSAGE_EAGER_MAX_BYTES;
    pw_operation *made;
    if (record->bytes > limit || record->request_bytes > limit || record->answer_bytes > limit)
        return refuse(program,
                      "an atomic of %llu bytes, %llu and %llu in its messages: allowed is "
                      "up to %llu each",
                      (printed)record->bytes, (printed)record->request_bytes,
                      (printed)record->answer_bytes, (printed)limit);
    const int code = new_one_sided(program, record, PW_OPERATION_ATOMIC, &made);
    if (code < 0) return code;
    made->data = ++program->num_atomics;
    const pw_message_header header = {
        .context = record->bytes, .tag = record->answer_bytes, .data = made->data};
    return of_node(program, pw_messages_ask(&program->messages, made, made->remote_address,
                                            (uint32_t)record->request_bytes,
                                            (uint32_t)record->answer_bytes, &header));
}

/* ---- memory and phases */

static int set_pages(pw_program *program, const pw_record *record)
{
    uint64_t first_page = 0;
    int code = pages_of(program, record, &first_page);
    if (code < 0) return code;
    if (record->state > PW_PAGE_WRITE_PROTECTED)
        return refuse(program, "pages of state %llu", (printed)record->state);
    code = set_all(program, first_page, record->count, (uint8_t)record->state);
    return code == PW_ERR_INVALID ? refuse(program, "pages that cannot be set") : code;
}

static int unmap(pw_program *program, const pw_record *record)
{
    uint64_t first_page = 0;
    int code = pages_of(program, record, &first_page);
    if (code < 0) return code;
    code = pw_node_unmapped(program->node, first_page, record->count);
    if (code < 0) return of_node(program, code);
    return pw_memory_set(pw_node_memory(program->node), first_page, record->count, PW_PAGE_ABSENT);
}

static int fork_process(pw_program *program, const pw_record *record)
{
    (void)record;
    pw_node_forked(program->node);
    return PW_OK;
}

static int enter_phase(pw_program *program, const pw_record *record)
{
    const int64_t code =
        pw_node_region_enter(program->node, (const char *)record->text, record->text_bytes);
    if (code == PW_ERR_INVALID)
        return refuse(program, "the name of a phase has %u bytes, or control characters",
                      record->text_bytes);
    return code < 0 ? (int)code : PW_OK;
}

static int leave_phase(pw_program *program, const pw_record *record)
{
    (void)record;
    pw_node_region_leave_named(program->node, NULL, 0);
    return PW_OK;
}

static int note_lost(pw_program *program, const pw_record *record)
{
    if (program->num_lost++ == 0) copy_text(program->lost, record);
    return PW_OK;
}

/* ---- going on */

static int (*const performers[PW_OPS])(pw_program *program, const pw_record *record) = {
    [PW_OP_END] = end,
    [PW_OP_COMPUTE] = pass_time,
    [PW_OP_NAME] = take_name,
    [PW_OP_CALL] = enter,
    [PW_OP_ENTER] = enter,
    [PW_OP_LEAVE] = leave,
    [PW_OP_SEND] = post_send,
    [PW_OP_RECEIVE] = post_receive,
    [PW_OP_DONE] = await,
    [PW_OP_TOLD] = await,
    [PW_OP_LOOKS] = pass_time,
    [PW_OP_READ] = read_clock,
    [PW_OP_SLEEP] = pass_time,
    [PW_OP_PASS] = pass_time,
    [PW_OP_MEET] = meet,
    [PW_OP_FOUND] = await_message,
    [PW_OP_TAKE] = take,
    [PW_OP_CANCEL] = cancel,
    [PW_OP_PAGES] = set_pages,
    [PW_OP_UNMAP] = unmap,
    [PW_OP_FORK] = fork_process,
    [PW_OP_REGION] = enter_phase,
    [PW_OP_LEFT] = leave_phase,
    [PW_OP_LOST] = note_lost,
    [PW_OP_PART] = await_message,
    [PW_OP_REGISTER] = register_memory,
    [PW_OP_DEREGISTER] = deregister_memory,
    [PW_OP_PUT] = post_transfer,
    [PW_OP_GET] = post_transfer,
    [PW_OP_ATOMIC] = post_atomic,
};

/* The CPU learns of a completion, or knew of it: an earlier look was at one that came later. */
static int settle_operation(pw_program *program)
{
    pw_numbered *operation = program->operation;
    if (!operation->base.done || operation->base.list) return 0;
    if (operation->base.error) return failed(program, &operation->base);
    pw_clock *clock = program->clock;
    if (program->wanted.opcode == PW_OP_DONE)
        pw_clock_completed(clock, operation->base.complete_ns);
    else clock->now_ns = pw_later(clock->now_ns, operation->base.complete_ns);
    forget(program, operation);
    return 1;
}

static int settle_found(pw_program *program)
{
    const pw_record *record = &program->wanted;
    const pw_operation wanted = {.context = record->context,
                                 .tag = record->tag,
                                 .peer = (uint32_t)record->peer,
                                 .source = (uint32_t)record->source};
    pw_operation *arrived = pw_messages_find(&program->messages, &wanted);
    if (!arrived) return 0;
    pw_clock *clock = program->clock;
    if (record->flags & PW_FOUND_WAITED) pw_clock_completed(clock, arrived->arrival_ns);
    else clock->now_ns = pw_later(clock->now_ns, arrived->arrival_ns);
    arrived->is_announced = 1;
    if (!(record->flags & PW_FOUND_TAKEN)) {
        program->num_operations++;
        return 1;
    }
    pw_operation_unlink(arrived);
    const int code = number(program, (pw_numbered *)arrived);
    return code < 0 ? code : 1;
}

static int settle_part(pw_program *program)
{
    const pw_record *record = &program->wanted;
    pw_numbered **each = &program->operation->parts;
    while (*each && ((*each)->base.peer != record->peer || (*each)->base.source != record->source))
        each = &(*each)->sibling;
    pw_numbered *part = *each;
    if (!part) return 0;
    *each = part->sibling;
    const int code = number(program, part);
    return code < 0 ? code : 1;
}

static int settle_exposed(pw_program *program)
{
    pw_operation_list *list = &program->exposed;
    for (pw_operation *send; (send = list->head);) {
        if (!send->done) return 0;
        if (send->error) return failed(program, send);
        pw_clock_completed(program->clock, send->complete_ns);
        list->head = send->companion;
        pw_operation_free(&program->messages, send);
    }
    list->tail = NULL;
    const int code = leave(program, NULL);
    return code < 0 ? code : 1;
}

/* 1: what it waits for is over, and it goes on; 0: not yet; or a code. */
static int settle(pw_program *program)
{
    int code = 0;
    switch (program->waits) {
    case PW_PROGRAM_WAITS_OPERATION: code = settle_operation(program); break;
    case PW_PROGRAM_WAITS_MESSAGE:
        code = program->wanted.opcode == PW_OP_PART ? settle_part(program) : settle_found(program);
        break;
    case PW_PROGRAM_WAITS_EXPOSED: code = settle_exposed(program); break;
    case PW_PROGRAM_DRAINS:
        if (!program->messages.sends.head) program->waits = PW_PROGRAM_ENDED;
        return 0;
    default: return 0;
    }
    if (code > 0) program->waits = PW_PROGRAM_RUNS;
    return code;
}

/* The turns before the next record. 1: they are done, 0: not all yet; or a code. */
static int follow_turns(pw_program *program)
{
    int code = PW_TURNS_DONE;
    if (!program->verifies) return 1;
    while (code == PW_TURNS_DONE) code = pw_turns_follow(&program->turns, program->ops.num_read);
    if (code < 0) return of_node(program, code);
    program->waits = code == PW_TURNS_BEHIND ? PW_PROGRAM_WAITS_TURN : PW_PROGRAM_RUNS;
    return code == PW_TURNS_NONE;
}

int pw_program_go(pw_program *program, int64_t until_ns)
{
    pw_record record;
    program->yields = false;
    while (program->waits == PW_PROGRAM_RUNS && program->clock->now_ns <= until_ns) {
        int code = follow_turns(program);
        if (code <= 0) return code;
        if (program->touches.is_under_way) {
            code = touch_next(program);
            if (code < 0 || program->yields) return of_node(program, code);
            continue;
        }
        code = pw_reader_record(&program->ops, &record);
        if (code < 0) return code;
        if (code == 0) {
            program->is_cut = true;
            drain(program);
            break;
        }
        code = performers[record.opcode](program, &record);
        if (code == PW_OK && program->waits) code = settle(program);
        if (code < 0) return of_node(program, code);
        if (program->clock->now_ns > TIME_MAX_NS)
            return refuse(program, "the clock is beyond %lld ns", (long long)TIME_MAX_NS);
    }
    return PW_OK;
}

int pw_program_turn(pw_program *program)
{
    if (program->waits == PW_PROGRAM_WAITS_TURN) return follow_turns(program);
    const bool follows = program->verifies && !program->turns.is_end;
    int code = follows ? PW_OK : pw_node_turn(program->node, true);
    if (code >= 0) code = settle(program);
    return of_node(program, code);
}

/* ---- its life */

/* What is wrong with any of its streams, its program says. */
static pw_reader reader_of(const pw_program_options *options, uint32_t kind, pw_program *program)
{
    return (pw_reader){.source = options->source,
                       .rank = pw_node_number(options->node),
                       .kind = kind,
                       .reason = &program->reason};
}

int pw_program_create(const pw_program_options *options, pw_program **out, pw_sentence *reason)
{
    *out = NULL;
    pw_program *program = calloc(1, sizeof *program);
    if (!program) return pw_sentence_refuse(reason, PW_ERR_NOMEM, "no memory for a program");
    program->node = options->node;
    program->clock = pw_node_clock(options->node);
    program->matches_freely = options->matches_freely;
    program->verifies = options->verifies;
    program->key_of = options->key_of;
    program->context = options->context;
    program->ops = reader_of(options, PW_PWT_OPS, program);
    program->matches = reader_of(options, PW_PWT_MATCHES, program);
    program->times = reader_of(options, PW_PWT_TIMES, program);
    program->keys = reader_of(options, PW_PWT_KEYS, program);
    program->touches =
        (pw_touches){.reader = reader_of(options, PW_PWT_OPS | PW_READS_AHEAD, program),
                     .when = options->verifies ? PW_TOUCH_AT_USE : options->touch};
    program->turns = (pw_turns){.reader = reader_of(options, PW_PWT_TURNS, program),
                                .node = options->node,
                                .wire = options->wire};
    pw_reader regions = reader_of(options, PW_PWT_REGIONS, program);
    const pw_messages_host host = {.context = program, .matched = matched, .over = operation_over};
    int code = pw_messages_open(&program->messages, options->node, &host,
                                options->eager_limit_bytes, 0, sizeof(pw_numbered));
    if (code < 0) pw_sentence_add(&program->reason, "messages: %s", pw_status_text(code));
    else code = read_bases(program, &regions);
    if (code < 0) {
        *reason = program->reason;
        pw_program_destroy(program);
        return code;
    }
    pw_node_host calls =
        *pw_node_host_of(options->node); /* Python's functions look at no context */
    calls.context = program;
    calls.message = message_arrived;
    calls.finished = handle_finished;
    pw_node_set_host(options->node, &calls);
    *out = program;
    return PW_OK;
}

void pw_program_destroy(pw_program *program)
{
    if (!program) return;
    pw_messages_close(&program->messages);
    pw_numbers_finish(&program->numbers);
    pw_turns_finish(&program->turns);
    pw_peers_clear(&program->in_order_of);
    pw_touches_finish(&program->touches);
    free(program->bases);
    free(program->calls);
    free(program->registered);
    free(program);
}

/* ---- what can be seen of it */

uint32_t pw_program_waits(const pw_program *program) { return program->waits; }

bool pw_program_yields(const pw_program *program) { return program->yields; }

uint64_t pw_program_group(const pw_program *program, uint64_t *members)
{
    *members = program->wanted.count;
    return program->wanted.group;
}

const char *pw_program_reason(const pw_program *program) { return program->reason.text; }

uint64_t pw_program_num_records(const pw_program *program) { return program->ops.num_read; }

static void place_operation(const pw_operation *operation, pw_program_place *out)
{
    out->kind = operation->kind;
    out->peer = operation->peer;
    out->tag = operation->tag;
    out->ignore = operation->ignore;
    out->num_bytes =
        operation->message_bytes ? operation->message_bytes : operation->capacity_bytes;
}

void pw_program_read_place(const pw_program *program, pw_program_place *out)
{
    *out = (pw_program_place){.waits = program->waits,
                              .is_cut = program->is_cut,
                              .num_records = program->ops.num_read,
                              .num_calls = program->num_calls,
                              .num_verified = program->times.num_read,
                              .num_lost = program->num_lost};
    memcpy(out->call, call_name(program), strlen(call_name(program)));
    memcpy(out->lost, program->lost, sizeof out->lost);
    if (program->waits == PW_PROGRAM_WAITS_OPERATION) {
        place_operation(&program->operation->base, out);
        out->operation = program->operation->number;
    } else if (program->waits == PW_PROGRAM_WAITS_EXPOSED) {
        place_operation(program->exposed.head, out);
    } else if (program->waits == PW_PROGRAM_WAITS_MESSAGE) {
        out->kind = PW_OPERATION_ARRIVED;
        out->peer = (uint32_t)program->wanted.peer;
        out->tag = program->wanted.tag;
    } else if (program->waits == PW_PROGRAM_WAITS_GROUP) {
        out->group = program->wanted.group;
        out->members = program->wanted.count;
    }
}

void pw_program_read_difference(const pw_program *program, pw_program_difference *out)
{
    *out = program->difference;
}

/* A long message that came early is its sender's to tell; a receive of several messages just
 * stands. */
static bool is_alone(const pw_operation *operation)
{
    if (operation->is_multi) return false;
    return operation->kind != PW_OPERATION_ARRIVED ||
           ((const pw_envelope *)(const void *)operation->frame)->kind == PW_MESSAGE_EAGER;
}

uint32_t pw_program_read_unmatched(const pw_program *program, pw_program_unmatched *out,
                                   uint32_t capacity)
{
    const pw_messages *messages = &program->messages;
    const pw_operation *heads[] = {messages->sends.head, messages->posted.head,
                                   messages->unexpected.head};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (const pw_operation *each = heads[i]; each; each = each->next) {
            if (!is_alone(each)) continue;
            if (count < capacity)
                out[count] = (pw_program_unmatched){
                    .kind = each->kind,
                    .peer = each->peer,
                    .tag = each->tag,
                    .ignore = each->ignore,
                    .num_bytes = each->message_bytes ? each->message_bytes : each->capacity_bytes};
            count++;
        }
    return count;
}
