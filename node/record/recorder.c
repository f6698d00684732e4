/* Encodes records into the chunks of a rank's streams, and writes the chunks that are full. What is
 * not written yet stands in a file that is mapped, where a kill leaves it. */
#include "node/record/recorder.h"
#include "native/array.h"
#include "native/crc32c.h"
#include "native/frames.h"
#include "node/messages/messages.h"
#include "node/node_state.h"
#include "node/record/believed_pages.h"
#include "node/report/output_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECORD_MAX_BYTES 512u /* longest, but for the name in it */
#define NAME_MAX_BYTES 256u
#define REGIONS_MAX 65536u
#define REGION_REACH (UINT64_C(1) << 36) /* buffers that are nearer are of one region */
#define FIRST_CAPACITY 64u

typedef pw_pwt_open_chunk stream;

/* Which message a receive from any source took. */
typedef struct {
    bool is_known;
    uint32_t peer, source; /* peer + 1 */
} match;

/* An operation that is over, and of which the CPU has not learned. */
typedef struct {
    int64_t complete_ns;
    uint32_t number;
} finished;

/* Memory of one node, by its place in the list. */
typedef struct {
    uint32_t node;
    uint64_t base;
} region;

/* Memory that peers may use. */
typedef struct {
    uint32_t number;
    pw_span span;
} registration;

struct pw_recorder {
    int descriptor;
    int error; /* errno of the first failure: nothing is recorded any more */
    uint32_t rank;
    pw_memory *memory;
    const pw_call_counts *calls;
    uint64_t eager_limit_bytes;
    stream *tail, *ops, *matches, *times, *regions, *turns,
        *keys; /* the tail file, mapped, and its parts */
    char *tail_path;
    region *known;
    uint32_t num_regions, regions_capacity, last_region;
    uint32_t num_operations;
    struct {
        uint32_t peer;
        uint64_t key;
    } known_keys[PW_KEYS_KNOWN]; /* by the number of the key, a ring */
    uint32_t num_keys;
    registration *registered;
    uint32_t num_registered, registered_capacity, num_registrations;
    uint32_t num_names, name[PW_CALLS_MAX]; /* index + 1 of a call's name, 0: none yet */
    match *matched;                         /* from num_matches_written on */
    uint32_t num_matched, matched_capacity, num_matches_written;
    finished *over;
    uint32_t num_over, over_capacity;
    pw_believed_pages pages;
    /* not written yet, since a test in vain takes it back */
    int64_t compute_ns, look_ns;
    uint64_t num_looks;
    uint64_t num_since_turn; /* records */
    uint32_t *sources;       /* whose bursts this turn has taken */
    uint32_t num_sources, sources_capacity;
    bool has_call, costs_call, is_swallowed, has_entered;
    bool is_found_awaited; /* the next completion is that of a message found */
    int64_t time_ns;       /* last of the times */
};

/* ---- chunks */

static void write_bytes(pw_recorder *recorder, const void *bytes, size_t num_bytes)
{
    if (!recorder->error) recorder->error = pw_output_put(recorder->descriptor, bytes, num_bytes);
}

static void write_chunk(pw_recorder *recorder, stream *out)
{
    pw_pwt_chunk_header header = {.magic = PW_PWT_CHUNK_MAGIC,
                                  .kind = out->kind,
                                  .rank = recorder->rank,
                                  .sequence = out->sequence,
                                  .stored_bytes = out->num_bytes,
                                  .raw_bytes = out->num_bytes,
                                  .num_records = out->num_records};
    if (!out->num_bytes) return;
    header.crc = pw_crc32c(pw_crc32c(0, &header, sizeof header), out->bytes, out->num_bytes);
    write_bytes(recorder, &header, sizeof header);
    write_bytes(recorder, out->bytes, out->num_bytes);
    out->sequence++;
    out->whole_bytes = out->whole_records = out->num_bytes = out->num_records = 0;
}

static void write_chunks(pw_recorder *recorder)
{
    for (uint32_t i = 0; i < PW_PWT_OPEN_CHUNKS; i++) write_chunk(recorder, &recorder->tail[i]);
}

/* What stands there is whole. */
static void end_record(stream *out)
{
    out->whole_bytes = out->num_bytes;
    out->whole_records = out->num_records;
}

static void begin_record(pw_recorder *recorder, stream *out)
{
    if (out->num_bytes + RECORD_MAX_BYTES > sizeof out->bytes) write_chunk(recorder, out);
    if (recorder->error) out->num_bytes = 0;
    end_record(out);
    out->num_records++;
}

static void put(stream *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) out->bytes[out->num_bytes++] = (uint8_t)(value | 0x80);
    out->bytes[out->num_bytes++] = (uint8_t)value;
}

static void put_signed(stream *out, int64_t value)
{
    put(out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static void put_bytes(stream *out, const char *bytes, size_t num_bytes)
{
    if (num_bytes > NAME_MAX_BYTES) num_bytes = NAME_MAX_BYTES;
    put(out, num_bytes);
    memcpy(out->bytes + out->num_bytes, bytes, num_bytes);
    out->num_bytes += (uint32_t)num_bytes;
}

static stream *put_op(pw_recorder *recorder, uint8_t opcode)
{
    stream *out = recorder->ops;
    begin_record(recorder, out);
    recorder->num_since_turn++;
    out->bytes[out->num_bytes++] = opcode;
    return out;
}

/* ---- what a test in vain may still take back */

static void put_looks(pw_recorder *recorder)
{
    if (!recorder->num_looks) return;
    stream *out = put_op(recorder, PW_OP_LOOKS);
    put(out, recorder->num_looks);
    put(out, (uint64_t)recorder->look_ns);
    recorder->num_looks = 0;
    recorder->look_ns = 0;
}

static void put_compute(pw_recorder *recorder)
{
    if (!recorder->compute_ns) return;
    put(put_op(recorder, PW_OP_COMPUTE), (uint64_t)recorder->compute_ns);
    recorder->compute_ns = 0;
}

/* Index of the call's name, which stands before its first call. */
static uint32_t name_of(pw_recorder *recorder, uint32_t call)
{
    const char *name = recorder->calls->num_calls ? recorder->calls->call[call].name : "";
    if (recorder->name[call]) return recorder->name[call] - 1;
    stream *out = put_op(recorder, PW_OP_NAME);
    put(out, recorder->num_names);
    put_bytes(out, name, strlen(name));
    recorder->name[call] = ++recorder->num_names;
    return recorder->num_names - 1;
}

static void put_call(pw_recorder *recorder)
{
    put_looks(recorder);
    put_compute(recorder);
    if (!recorder->has_call) return;
    recorder->has_call = false;
    recorder->has_entered = true;
    if (!recorder->costs_call) {
        put_op(recorder, PW_OP_ENTER);
        return;
    }
    const uint32_t name = name_of(recorder, recorder->calls->current);
    put(put_op(recorder, PW_OP_CALL), name);
}

/* A record of what is done now: all before it is certain. */
static stream *put_certain(pw_recorder *recorder, uint8_t opcode)
{
    put_call(recorder);
    return put_op(recorder, opcode);
}

static void lose(pw_recorder *recorder, const char *what)
{
    put_bytes(put_certain(recorder, PW_OP_LOST), what, strlen(what));
}

void pw_recorder_enter(pw_recorder *recorder, int64_t compute_ns, bool costs_call)
{
    recorder->compute_ns += compute_ns;
    recorder->has_call = true;
    recorder->costs_call = costs_call;
    recorder->has_entered = recorder->is_swallowed = false;
}

static void put_time(pw_recorder *recorder, int64_t now_ns)
{
    begin_record(recorder, recorder->times);
    put_signed(recorder->times, now_ns - recorder->time_ns);
    recorder->time_ns = now_ns;
}

void pw_recorder_leave(pw_recorder *recorder, int64_t now_ns)
{
    recorder->is_found_awaited = false;
    if (recorder->is_swallowed) return;
    end_record(put_certain(recorder, PW_OP_LEAVE));
    put_time(recorder, now_ns);
    end_record(recorder->times);
}

void pw_recorder_looked(pw_recorder *recorder, int64_t in_call_ns, int64_t poll_ns)
{
    if (recorder->has_entered) {
        pw_recorder_passed(recorder, poll_ns);
        return;
    }
    recorder->num_looks++;
    recorder->look_ns += recorder->compute_ns + in_call_ns;
    recorder->compute_ns = 0;
    recorder->has_call = false;
    recorder->is_swallowed = true;
}

void pw_recorder_excused(pw_recorder *recorder, int64_t in_call_ns, int64_t back_ns)
{
    if (recorder->has_entered) {
        if (back_ns) pw_recorder_passed(recorder, -back_ns);
        return;
    }
    recorder->compute_ns += in_call_ns;
    recorder->has_call = false;
    recorder->is_swallowed = true;
}

void pw_recorder_read(pw_recorder *recorder, int64_t compute_ns)
{
    recorder->compute_ns += compute_ns;
    put_certain(recorder, PW_OP_READ);
}

void pw_recorder_slept(pw_recorder *recorder, int64_t duration_ns)
{
    put(put_certain(recorder, PW_OP_SLEEP), (uint64_t)duration_ns);
}

void pw_recorder_passed(pw_recorder *recorder, int64_t duration_ns)
{
    put_signed(put_certain(recorder, PW_OP_PASS), duration_ns);
}

void pw_recorder_met(pw_recorder *recorder, uint64_t group, uint32_t num_members)
{
    stream *out = put_certain(recorder, PW_OP_MEET);
    put(out, group);
    put(out, num_members);
}

/* ---- completions */

/* Takes the place out of those that are over; their order stays. */
static uint32_t take_over(pw_recorder *recorder, uint32_t place)
{
    const uint32_t number = recorder->over[place].number;
    memmove(&recorder->over[place], &recorder->over[place + 1],
            (--recorder->num_over - place) * sizeof *recorder->over);
    return number;
}

static void put_operation(pw_recorder *recorder, stream *out, uint32_t number)
{
    put(out, recorder->num_operations - 1 - number);
}

/* The CPU learns of what has no number: an eager send, say, which is over already. */
static void pass_to(pw_recorder *recorder, int64_t now_ns, int64_t complete_ns, int64_t poll_ns)
{
    if (complete_ns > now_ns) lose(recorder, "a completion that is no message's");
    pw_recorder_passed(recorder, pw_later(now_ns, complete_ns) + poll_ns - now_ns);
}

void pw_recorder_completed(pw_recorder *recorder, int64_t now_ns, int64_t complete_ns,
                           int64_t poll_ns)
{
    uint32_t place = 0;
    if (recorder->is_found_awaited) {
        recorder->is_found_awaited = false;
        return;
    }
    while (place < recorder->num_over && recorder->over[place].complete_ns != complete_ns) place++;
    if (place < recorder->num_over) {
        const uint32_t number = take_over(recorder, place);
        put_operation(recorder, put_certain(recorder, PW_OP_DONE), number);
        return;
    }
    pass_to(recorder, now_ns, complete_ns, poll_ns);
}

static void number(pw_recorder *recorder, pw_operation *operation)
{
    recorder->num_operations++;
    if (operation) operation->recorded = recorder->num_operations;
}

static void put_part(pw_recorder *recorder, pw_operation *part, const pw_operation *whole)
{
    stream *out = put_certain(recorder, PW_OP_PART);
    put_operation(recorder, out, whole->recorded - 1);
    put(out, part->peer);
    put(out, part->source);
    number(recorder, part);
}

void pw_recorder_done(pw_recorder *recorder, pw_operation *operation, const pw_operation *whole,
                      int64_t now_ns, int64_t poll_ns)
{
    if (operation->is_announced) return; /* FOUND says it */
    if (!operation->recorded && whole && whole->recorded) put_part(recorder, operation, whole);
    if (operation->recorded) {
        const uint32_t number = operation->recorded - 1;
        pw_recorder_forget(recorder, operation);
        put_operation(recorder, put_certain(recorder, PW_OP_DONE), number);
        operation->is_announced = 1;
        return;
    }
    pass_to(recorder, now_ns, operation->complete_ns, poll_ns);
}

void pw_recorder_told(pw_recorder *recorder, pw_operation *operation, const pw_operation *whole)
{
    if (operation->is_announced) return;
    if (!operation->recorded && whole && whole->recorded) put_part(recorder, operation, whole);
    if (!operation->recorded) return; /* known already, or nothing to wait for */
    const uint32_t number = operation->recorded - 1;
    pw_recorder_forget(recorder, operation);
    put_operation(recorder, put_certain(recorder, PW_OP_TOLD), number);
}

void pw_recorder_forget(pw_recorder *recorder, pw_operation *operation)
{
    uint32_t place = 0;
    while (place < recorder->num_over && recorder->over[place].number != operation->recorded - 1)
        place++;
    if (place < recorder->num_over) take_over(recorder, place);
    operation->recorded = 0;
}

/* ---- addresses */

static bool is_of(const region *region, uint32_t node, uint64_t address)
{
    return region->node == node && address - region->base + REGION_REACH < 2 * REGION_REACH;
}

/* The region that an address of a node's memory is of; made when it is far from all. */
static uint32_t region_of(pw_recorder *recorder, uint32_t node, uint64_t address)
{
    const region *known = recorder->known;
    if (recorder->num_regions && is_of(&known[recorder->last_region], node, address))
        return recorder->last_region;
    uint32_t place = 0;
    while (place < recorder->num_regions && !is_of(&known[place], node, address)) place++;
    if (place == REGIONS_MAX) return 0; /* its offsets are long then */
    if (place == recorder->num_regions) {
        if (PW_ARRAY_MAKE_ROOM(recorder->known, place, recorder->regions_capacity, FIRST_CAPACITY) <
            0) {
            recorder->error = ENOMEM;
            return 0;
        }
        const uint64_t base = address & ~(uint64_t)(PW_PAGE_BYTES - 1);
        recorder->known[recorder->num_regions++] = (region){node, base};
        begin_record(recorder, recorder->regions);
        put(recorder->regions, place);
        put(recorder->regions, base);
        end_record(recorder->regions);
    }
    recorder->last_region = place;
    return place;
}

static int64_t offset_in(const pw_recorder *recorder, uint32_t region, uint64_t address)
{
    return (int64_t)(address - (recorder->num_regions ? recorder->known[region].base : 0));
}

/* Of memory of a node; what is without bytes is nowhere. */
static void put_place(pw_recorder *recorder, stream *out, uint32_t node, pw_span span)
{
    const uint32_t region = span.num_bytes ? region_of(recorder, node, span.address) : 0;
    put(out, region);
    put_signed(out, span.num_bytes ? offset_in(recorder, region, span.address) : 0);
}

/* Of a buffer. */
static void put_address(pw_recorder *recorder, stream *out, pw_span span)
{
    put_place(recorder, out, recorder->rank, span);
}

static void put_pages(pw_recorder *recorder, stream *out, uint64_t first_page, uint64_t num_pages)
{
    const uint64_t address = first_page << PW_PAGE_SHIFT;
    const uint32_t region = region_of(recorder, recorder->rank, address);
    put(out, region);
    put_signed(out, offset_in(recorder, region, address) / PW_PAGE_BYTES);
    put(out, num_pages);
}

/* ---- memory */

/* The program has left pages so, which is news. */
static void put_news(void *context, uint64_t first_page, uint64_t num_pages, uint8_t state)
{
    pw_recorder *recorder = context;
    stream *out = put_certain(recorder, PW_OP_PAGES);
    put_pages(recorder, out, first_page, num_pages);
    put(out, state);
}

/* Of what has bytes. */
static pw_page_range pages_of(pw_span span)
{
    const uint64_t first_page = pw_page_of(span.address);
    return (pw_page_range){first_page,
                           pw_page_of(span.address + span.num_bytes - 1) + 1 - first_page};
}

static void look(pw_recorder *recorder, pw_span span)
{
    if (recorder->error) return;
    if (pw_believed_look(&recorder->pages, recorder->memory, pages_of(span), put_news, recorder) <
        0)
        recorder->error = ENOMEM;
}

/* What has come since the NI ran last, the program has touched. Within a turn it is the NI's. */
static void tell_touched(pw_recorder *recorder)
{
    if (!recorder->num_sources)
        pw_believed_settle(&recorder->pages, recorder->memory, put_news, recorder);
}

void pw_recorder_uses(pw_recorder *recorder, pw_span span)
{
    tell_touched(recorder);
    look(recorder, span);
    if (recorder->error) return;
    if (pw_believed_use(&recorder->pages, pages_of(span)) < 0) recorder->error = ENOMEM;
}

void pw_recorder_brought(pw_recorder *recorder)
{
    pw_believed_settle(&recorder->pages, recorder->memory, NULL, NULL);
}

void pw_recorder_unmapped(pw_recorder *recorder, uint64_t first_page, uint64_t num_pages)
{
    pw_believed_unmap(&recorder->pages, (pw_page_range){first_page, num_pages});
    put_pages(recorder, put_certain(recorder, PW_OP_UNMAP), first_page, num_pages);
}

void pw_recorder_forked(pw_recorder *recorder) { put_certain(recorder, PW_OP_FORK); }

/* ---- messages */

void pw_recorder_sent(pw_recorder *recorder, pw_operation *send, uint32_t peer,
                      const pw_message_header *header, pw_span span)
{
    uint32_t flags =
        send && span.num_bytes <= recorder->eager_limit_bytes ? PW_SEND_SYNCHRONOUS : 0;
    if (send && span.num_bytes) pw_recorder_uses(recorder, span);
    stream *out = put_certain(recorder, PW_OP_SEND);
    if (header->has_data) flags |= PW_SEND_HAS_DATA;
    if (!send) flags |= PW_SEND_WAS_EAGER;
    put(out, peer);
    put(out, header->context);
    put(out, header->tag);
    put(out, header->source);
    put(out, span.num_bytes);
    put_address(recorder, out, span);
    put(out, flags);
    if (header->has_data) put(out, header->data);
    number(recorder, send);
}

static int keep_match(pw_recorder *recorder, pw_operation *receive)
{
    if (PW_ARRAY_MAKE_ROOM(recorder->matched, recorder->num_matched, recorder->matched_capacity,
                           FIRST_CAPACITY) < 0)
        return PW_ERR_NOMEM;
    recorder->matched[recorder->num_matched++] = (match){.is_known = false};
    receive->match = recorder->num_matches_written + recorder->num_matched;
    return PW_OK;
}

void pw_recorder_posted(pw_recorder *recorder, pw_operation *receive)
{
    stream *out = put_certain(recorder, PW_OP_RECEIVE);
    const bool is_any = receive->peer == PW_ANY_NODE;
    uint32_t flags = receive->is_unsized ? PW_RECEIVE_UNSIZED : 0;
    if (receive->is_multi) flags |= PW_RECEIVE_MULTI;
    if (receive->ignore) flags |= PW_RECEIVE_IGNORES;
    if (receive->is_in_order) flags |= PW_RECEIVE_IN_ORDER;
    put(out, is_any ? 0 : (uint64_t)receive->peer + 1);
    put(out, receive->context);
    put(out, receive->tag);
    put(out, receive->source);
    put(out, receive->capacity_bytes);
    put_address(recorder, out, (pw_span){receive->address, receive->capacity_bytes});
    put(out, flags);
    if (receive->ignore) put(out, receive->ignore);
    number(recorder, receive);
    receive->match = 0;
    if (is_any && !receive->is_multi && keep_match(recorder, receive) < 0) recorder->error = ENOMEM;
}

static void write_matches(pw_recorder *recorder)
{
    uint32_t done = 0;
    for (; done < recorder->num_matched && recorder->matched[done].is_known; done++) {
        begin_record(recorder, recorder->matches);
        put(recorder->matches, recorder->matched[done].peer);
        put(recorder->matches, recorder->matched[done].source);
    }
    recorder->num_matched -= done;
    recorder->num_matches_written += done;
    memmove(recorder->matched, recorder->matched + done,
            recorder->num_matched * sizeof *recorder->matched);
}

static void know_match(pw_recorder *recorder, pw_operation *receive, uint32_t peer, uint32_t source)
{
    if (!receive->match) return;
    recorder->matched[receive->match - recorder->num_matches_written - 1] =
        (match){.is_known = true, .peer = peer, .source = source};
    receive->match = 0;
    write_matches(recorder);
}

void pw_recorder_matched(pw_recorder *recorder, pw_operation *receive, uint32_t peer,
                         uint32_t source)
{
    know_match(recorder, receive, peer + 1, source);
}

void pw_recorder_cancelled(pw_recorder *recorder, pw_operation *receive)
{
    if (!receive->recorded) return;
    know_match(recorder, receive, 0, 0);
    put_operation(recorder, put_certain(recorder, PW_OP_CANCEL), receive->recorded - 1);
}

void pw_recorder_found(pw_recorder *recorder, pw_operation *arrived, uint32_t flags)
{
    stream *out = put_certain(recorder, PW_OP_FOUND);
    put(out, arrived->peer);
    put(out, arrived->context);
    put(out, arrived->tag);
    put(out, arrived->source);
    put(out, flags);
    number(recorder, arrived);
    recorder->is_found_awaited = flags & PW_FOUND_WAITED;
}

void pw_recorder_took(pw_recorder *recorder, const pw_operation *arrived, pw_operation *receive)
{
    stream *out = put_certain(recorder, PW_OP_TAKE);
    put_operation(recorder, out, arrived->recorded - 1);
    put(out, receive->capacity_bytes);
    put_address(recorder, out, (pw_span){receive->address, receive->capacity_bytes});
    put(out, receive->is_unsized ? PW_RECEIVE_UNSIZED : 0);
    number(recorder, receive);
}

void pw_recorder_landed(pw_recorder *recorder, pw_span span)
{
    if (recorder->error || !span.num_bytes) return;
    if (pw_believed_set(&recorder->pages, pages_of(span), PW_PAGE_PRESENT) < 0)
        recorder->error = ENOMEM;
}

void pw_recorder_over(pw_recorder *recorder, const pw_operation *operation)
{
    if (!operation->recorded || operation->is_dropped) return;
    if (PW_ARRAY_MAKE_ROOM(recorder->over, recorder->num_over, recorder->over_capacity,
                           FIRST_CAPACITY) < 0) {
        recorder->error = ENOMEM;
        return;
    }
    recorder->over[recorder->num_over++] =
        (finished){operation->complete_ns, operation->recorded - 1};
}

/* ---- one-sided operations */

static void put_key(pw_recorder *recorder, uint64_t key)
{
    begin_record(recorder, recorder->keys);
    put(recorder->keys, key);
    end_record(recorder->keys);
}

/* How a PUT or GET says it: PW_KEY_*. */
static uint32_t number_of_key(pw_recorder *recorder, uint32_t peer, uint64_t key)
{
    if (!key) return PW_KEY_NONE;
    for (uint32_t ago = 0; ago < PW_KEYS_KNOWN && ago < recorder->num_keys; ago++) {
        const uint32_t place = (recorder->num_keys - 1 - ago) % PW_KEYS_KNOWN;
        if (recorder->known_keys[place].key == key && recorder->known_keys[place].peer == peer)
            return PW_KEY_KNOWN + ago;
    }
    const uint32_t place = recorder->num_keys++ % PW_KEYS_KNOWN;
    recorder->known_keys[place].peer = peer;
    recorder->known_keys[place].key = key;
    put_key(recorder, key);
    return PW_KEY_NEW;
}

uint32_t pw_recorder_registered(pw_recorder *recorder, pw_span span, uint64_t key, uint32_t rights)
{
    const bool is_all = rights & PW_REGISTER_ALL;
    if (PW_ARRAY_MAKE_ROOM(recorder->registered, recorder->num_registered,
                           recorder->registered_capacity, FIRST_CAPACITY) < 0) {
        recorder->error = ENOMEM;
        return 0;
    }
    if (!is_all && span.num_bytes) look(recorder, span);
    stream *out = put_certain(recorder, PW_OP_REGISTER);
    put(out, is_all ? 0 : span.num_bytes);
    put_address(recorder, out, is_all ? (pw_span){0} : span);
    put(out, rights);
    put_key(recorder, key);
    recorder->registered[recorder->num_registered++] =
        (registration){++recorder->num_registrations, span};
    return recorder->num_registrations;
}

void pw_recorder_deregistered(pw_recorder *recorder, uint32_t number)
{
    uint32_t place = 0;
    while (place < recorder->num_registered && recorder->registered[place].number != number)
        place++;
    if (place == recorder->num_registered) return;
    recorder->registered[place] = recorder->registered[--recorder->num_registered];
    put(put_certain(recorder, PW_OP_DEREGISTER), number - 1);
}

static bool is_registered(const pw_recorder *recorder, pw_span span)
{
    for (uint32_t i = 0; i < recorder->num_registered; i++) {
        const pw_span whole = recorder->registered[i].span;
        const uint64_t offset = span.address - whole.address;
        if (offset < whole.num_bytes && span.num_bytes <= whole.num_bytes - offset) return true;
    }
    return false;
}

void pw_recorder_transfer(pw_recorder *recorder, pw_operation *transfer)
{
    const pw_span span = {transfer->address, transfer->num_bytes};
    const pw_span remote = {transfer->remote_address, transfer->num_bytes};
    pw_recorder_uses(recorder, span);
    if (transfer->peer == recorder->rank && is_registered(recorder, remote))
        pw_recorder_uses(recorder, remote);
    stream *out =
        put_certain(recorder, transfer->kind == PW_OPERATION_READ ? PW_OP_GET : PW_OP_PUT);
    put(out, transfer->peer);
    put(out, transfer->num_bytes);
    put_address(recorder, out, span);
    put_place(recorder, out, transfer->peer, remote);
    put(out, number_of_key(recorder, transfer->peer, transfer->remote_key));
    number(recorder, transfer);
}

void pw_recorder_atomic(pw_recorder *recorder, pw_operation *atomic, uint32_t request_bytes,
                        uint32_t answer_bytes)
{
    const pw_span remote = {atomic->remote_address, atomic->num_bytes};
    stream *out = put_certain(recorder, PW_OP_ATOMIC);
    put(out, atomic->peer);
    put(out, atomic->num_bytes);
    put_place(recorder, out, atomic->peer, remote);
    put(out, request_bytes);
    put(out, answer_bytes);
    number(recorder, atomic);
}

/* What memory of this node's a frame is about, if the NI is to reach it for a peer. */
static pw_span span_of(const pw_frame_header *header)
{
    const pw_block_frame *block = (const pw_block_frame *)header;
    const pw_read_request_frame *request = (const pw_read_request_frame *)header;
    if (header->kind == PW_FRAME_BLOCK && header->frame_bytes >= sizeof *block &&
        !(header->stream & PW_STREAM_READ))
        return (pw_span){block->destination_address, block->block_bytes};
    if (header->kind == PW_FRAME_READ_REQUEST && header->frame_bytes >= sizeof *request)
        return (pw_span){request->source_address, request->num_bytes};
    return (pw_span){0};
}

/* Frames that make no sense are the NI's to refuse. */
static void look_at_frames(pw_recorder *recorder, const uint8_t *data, uint32_t num_bytes)
{
    while (num_bytes >= sizeof(pw_frame_header) && !recorder->error) {
        const pw_frame_header *header = (const pw_frame_header *)(const void *)data;
        if (header->magic != PW_FRAME_MAGIC || header->frame_bytes < sizeof *header ||
            header->frame_bytes > num_bytes || header->frame_bytes % 8)
            return;
        const pw_span span = span_of(header);
        if (span.num_bytes && is_registered(recorder, span)) pw_recorder_uses(recorder, span);
        data += header->frame_bytes;
        num_bytes -= header->frame_bytes;
    }
}

/* ---- the node's turns */

static void put_turn(pw_recorder *recorder, uint64_t number)
{
    begin_record(recorder, recorder->turns);
    put(recorder->turns, number);
}

/* The program, or a library in its call, has run since the last turn. */
static void begin_turn(pw_recorder *recorder, bool is_waiting)
{
    if (recorder->num_sources) return;
    if (is_waiting) put_call(recorder); /* else it may be a test in vain, which leaves no record */
    tell_touched(recorder);
}

void pw_recorder_received(pw_recorder *recorder, const pw_wire_burst *burst, bool is_waiting)
{
    begin_turn(recorder, is_waiting);
    if (recorder->num_registered) look_at_frames(recorder, burst->data, burst->num_bytes);
    if (PW_ARRAY_MAKE_ROOM(recorder->sources, recorder->num_sources, recorder->sources_capacity,
                           FIRST_CAPACITY) < 0) {
        recorder->error = ENOMEM;
        return;
    }
    recorder->sources[recorder->num_sources++] = burst->source;
}

void pw_recorder_turns(pw_recorder *recorder, bool is_waiting, int64_t now_ns)
{
    begin_turn(recorder, is_waiting);
    put_turn(recorder, recorder->num_since_turn);
    recorder->num_since_turn = 0;
    for (uint32_t i = 0; i < recorder->num_sources; i++)
        put_turn(recorder, (uint64_t)recorder->sources[i] + PW_TURN_BURST);
    recorder->num_sources = 0;
    put_turn(recorder, is_waiting ? PW_TURN_WAITS : PW_TURN_COMPUTES);
    if (!is_waiting) put_turn(recorder, (uint64_t)now_ns);
    end_record(recorder->turns);
}

/* ---- the rest */

void pw_recorder_region_entered(pw_recorder *recorder, const char *name, size_t num_bytes)
{
    put_bytes(put_certain(recorder, PW_OP_REGION), name, num_bytes);
}

void pw_recorder_region_left(pw_recorder *recorder) { put_certain(recorder, PW_OP_LEFT); }

void pw_node_record_lost(pw_node *node, const char *what)
{
    if (node->clock.recorder) lose(node->clock.recorder, what);
}

/* ---- its life */

static void write_file_header(pw_recorder *recorder, uint32_t num_ranks)
{
    pw_pwt_file_header header = {.version = PW_PWT_VERSION, .num_ranks = num_ranks};
    memcpy(header.magic, PW_PWT_MAGIC, sizeof header.magic);
    write_bytes(recorder, &header, sizeof header);
}

static stream *open_chunk(pw_recorder *recorder, uint32_t place, uint16_t kind)
{
    stream *opened = &recorder->tail[place];
    opened->kind = kind;
    opened->rank = recorder->rank;
    return opened;
}

/* PW_ERR_HOST (errno), PW_ERR_NOMEM. */
static int map_tail(pw_recorder *recorder, const char *path)
{
    if (asprintf(&recorder->tail_path, "%s.tail", path) < 0) {
        recorder->tail_path = NULL;
        return PW_ERR_NOMEM;
    }
    const int descriptor = open(recorder->tail_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) return PW_ERR_HOST;
    int error = posix_fallocate(descriptor, 0, PW_PWT_OPEN_CHUNKS * sizeof *recorder->tail);
    void *mapped = error ? MAP_FAILED
                         : mmap(NULL, PW_PWT_OPEN_CHUNKS * sizeof *recorder->tail,
                                PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (!error && mapped == MAP_FAILED) error = errno;
    close(descriptor);
    errno = error;
    if (error) return PW_ERR_HOST;
    recorder->tail = mapped;
    recorder->regions = open_chunk(recorder, 0, PW_PWT_REGIONS);
    recorder->matches = open_chunk(recorder, 1, PW_PWT_MATCHES);
    recorder->times = open_chunk(recorder, 2, PW_PWT_TIMES);
    recorder->turns = open_chunk(recorder, 3, PW_PWT_TURNS);
    recorder->keys = open_chunk(recorder, 4, PW_PWT_KEYS);
    recorder->ops = open_chunk(recorder, 5, PW_PWT_OPS);
    return PW_OK;
}

/* errno stays. */
static void destroy(pw_recorder *recorder)
{
    const int saved = errno;
    if (recorder->tail) munmap(recorder->tail, PW_PWT_OPEN_CHUNKS * sizeof *recorder->tail);
    if (recorder->tail_path) unlink(recorder->tail_path);
    pw_believed_finish(&recorder->pages);
    free(recorder->known);
    free(recorder->registered);
    free(recorder->sources);
    free(recorder->tail_path);
    free(recorder->matched);
    free(recorder->over);
    free(recorder);
    errno = saved;
}

int pw_node_record_start(pw_node *node, const char *path, uint64_t eager_limit_bytes)
{
    pw_recorder *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->rank = node->wire->node;
    made->memory = node->memory;
    made->calls = &node->calls;
    made->eager_limit_bytes = eager_limit_bytes;
    made->descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    const int code = made->descriptor < 0 ? PW_ERR_HOST : map_tail(made, path);
    if (code < 0) {
        if (made->descriptor >= 0) close(made->descriptor);
        destroy(made);
        return code;
    }
    write_file_header(made, node->wire->num_nodes);
    node->clock.recorder = made;
    return PW_OK;
}

static void put_end(pw_recorder *recorder, int64_t now_ns)
{
    put_certain(recorder, PW_OP_END);
    put_time(recorder, now_ns);
    write_matches(recorder);
}

static void write_footer(pw_recorder *recorder)
{
    pw_pwt_file_footer footer = {.index_offset = 0};
    memcpy(footer.magic, PW_PWT_END_MAGIC, sizeof footer.magic);
    write_bytes(recorder, &footer, sizeof footer);
}

int pw_node_record_finish(pw_node *node)
{
    pw_recorder *recorder = node->clock.recorder;
    if (!recorder) return PW_OK;
    node->clock.recorder = NULL;
    put_end(recorder, node->clock.now_ns);
    write_chunks(recorder);
    write_footer(recorder);
    if (close(recorder->descriptor) && !recorder->error) recorder->error = errno;
    errno = recorder->error;
    const int code = recorder->error ? PW_ERR_HOST : PW_OK;
    destroy(recorder);
    return code;
}

void pw_node_clock_meet(pw_node *node, int64_t latest_ns, uint64_t group, uint32_t num_members)
{
    LOCKED(node, {
        if (node->clock.recorder) pw_recorder_met(node->clock.recorder, group, num_members);
        node->clock.now_ns = pw_later(node->clock.now_ns, latest_ns);
    });
}
