/* Encodes records into the chunks of a rank's streams, and writes the chunks that are full. What is
 * not written yet stands in a file that is mapped, where a kill leaves it. */
#include "node/record/recorder.h"
#include "native/array.h"
#include "native/crc32c.h"
#include "native/page_leaves.h"
#include "node/messages/messages.h"
#include "node/node_state.h"
#include "node/report/output_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECORD_MAX_BYTES 512u /* longest, but for the name in it */
#define NAME_MAX_BYTES 256u
#define REGIONS_MAX 64u
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

/* States of 512 pages, as the replay will believe them. */
typedef struct {
    pw_leaf leaf;
    uint8_t state[PW_LEAF_PAGES];
} believed;

struct pw_recorder {
    int descriptor;
    int error; /* errno of the first failure: nothing is recorded any more */
    uint32_t rank;
    pw_memory *memory;
    const pw_call_counts *calls;
    uint64_t eager_limit_bytes;
    stream *tail, *ops, *matches, *times, *regions,
        *turns; /* the tail file, mapped, and its parts */
    char *tail_path;
    uint64_t region_base[REGIONS_MAX];
    uint32_t num_regions, num_operations;
    uint32_t num_names, name[PW_CALLS_MAX]; /* index + 1 of a call's name, 0: none yet */
    match *matched;                         /* from num_matches_written on */
    uint32_t num_matched, matched_capacity, num_matches_written;
    finished *over;
    uint32_t num_over, over_capacity;
    pw_page_leaves pages;
    /* not written yet, since a test in vain takes it back */
    int64_t compute_ns, look_ns;
    uint64_t num_looks;
    uint64_t num_since_turn; /* records */
    bool is_turning;
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
        return;
    }
    pass_to(recorder, now_ns, operation->complete_ns, poll_ns);
}

void pw_recorder_told(pw_recorder *recorder, pw_operation *operation, const pw_operation *whole)
{
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

/* The region that an address is of; made when it is far from all. */
static uint32_t region_of(pw_recorder *recorder, uint64_t address)
{
    uint32_t region = 0;
    while (region < recorder->num_regions &&
           address - recorder->region_base[region] + REGION_REACH >= 2 * REGION_REACH)
        region++;
    if (region < recorder->num_regions) return region;
    if (region == REGIONS_MAX) return 0; /* its offsets are long then */
    recorder->region_base[recorder->num_regions++] = address & ~(uint64_t)(PW_PAGE_BYTES - 1);
    begin_record(recorder, recorder->regions);
    put(recorder->regions, region);
    put(recorder->regions, recorder->region_base[region]);
    return region;
}

static int64_t offset_in(const pw_recorder *recorder, uint32_t region, uint64_t address)
{
    return (int64_t)(address - recorder->region_base[region]);
}

/* Of a buffer; one without bytes is nowhere. */
static void put_address(pw_recorder *recorder, stream *out, pw_span span)
{
    const uint32_t region = span.num_bytes ? region_of(recorder, span.address) : 0;
    put(out, region);
    put_signed(out, span.num_bytes ? offset_in(recorder, region, span.address) : 0);
}

static void put_pages(pw_recorder *recorder, stream *out, uint64_t first_page, uint64_t num_pages)
{
    const uint32_t region = region_of(recorder, first_page << PW_PAGE_SHIFT);
    put(out, region);
    put_signed(out, offset_in(recorder, region, first_page << PW_PAGE_SHIFT) / PW_PAGE_BYTES);
    put(out, num_pages);
}

/* ---- memory */

static believed *leaf_of(pw_recorder *recorder, uint64_t page)
{
    believed *leaf = (believed *)pw_page_leaves_make(&recorder->pages, 0, page, sizeof *leaf);
    if (!leaf) recorder->error = ENOMEM;
    return leaf;
}

/* How the program has left the pages of one leaf, where that is news. */
static void compare(pw_recorder *recorder, uint64_t first_page, uint64_t num_pages)
{
    uint8_t found[PW_LEAF_PAGES];
    believed *leaf = leaf_of(recorder, first_page);
    if (!leaf || pw_memory_look(recorder->memory, first_page, num_pages, found) < 0) return;
    uint8_t *known = leaf->state + first_page % PW_LEAF_PAGES;
    for (uint64_t i = 0, end; i < num_pages; i = end) {
        for (end = i + 1; end < num_pages && found[end] == found[i];) end++;
        uint64_t first = i, last = end;
        while (first < last && known[first] == found[i]) first++;
        while (first < last && known[last - 1] == found[i]) last--;
        if (first == last) continue;
        stream *out = put_certain(recorder, PW_OP_PAGES);
        put_pages(recorder, out, first_page + first, last - first);
        put(out, found[i]);
        memset(known + first, found[i], last - first);
    }
}

/* Does `what` for the pages of each leaf in the range. */
static void by_leaf(pw_recorder *recorder, uint64_t first_page, uint64_t end_page,
                    void (*what)(pw_recorder *recorder, uint64_t first_page, uint64_t num_pages))
{
    for (uint64_t page = first_page, end; page < end_page; page = end) {
        end = (page / PW_LEAF_PAGES + 1) * PW_LEAF_PAGES;
        if (end > end_page) end = end_page;
        what(recorder, page, end - page);
    }
}

static uint64_t end_page_of(pw_span span)
{
    return pw_page_of(span.address + span.num_bytes - 1) + 1;
}

void pw_recorder_uses(pw_recorder *recorder, pw_span span)
{
    if (recorder->error) return;
    by_leaf(recorder, pw_page_of(span.address), end_page_of(span), compare);
}

static void believe_present(pw_recorder *recorder, uint64_t first_page, uint64_t num_pages)
{
    believed *leaf = leaf_of(recorder, first_page);
    if (leaf) memset(leaf->state + first_page % PW_LEAF_PAGES, PW_PAGE_PRESENT, num_pages);
}

void pw_recorder_unmapped(pw_recorder *recorder, uint64_t first_page, uint64_t num_pages)
{
    const uint64_t end_page = first_page + num_pages;
    for (pw_leaf *each = recorder->pages.first; each; each = each->next) {
        const uint64_t own = pw_leaf_first_page(each);
        const uint64_t begin = own > first_page ? own : first_page;
        const uint64_t end = own + PW_LEAF_PAGES < end_page ? own + PW_LEAF_PAGES : end_page;
        if (begin < end)
            memset(((believed *)each)->state + begin % PW_LEAF_PAGES, PW_PAGE_ABSENT, end - begin);
    }
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
    if (!recorder->error && span.num_bytes)
        by_leaf(recorder, pw_page_of(span.address), end_page_of(span), believe_present);
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

/* ---- the node's turns */

static void put_turn(pw_recorder *recorder, uint64_t number)
{
    begin_record(recorder, recorder->turns);
    put(recorder->turns, number);
}

static void begin_turn(pw_recorder *recorder, bool is_waiting)
{
    if (recorder->is_turning) return;
    if (is_waiting) put_call(recorder); /* else it may be a test in vain, which leaves no record */
    recorder->is_turning = true;
    put_turn(recorder, recorder->num_since_turn);
    recorder->num_since_turn = 0;
}

void pw_recorder_received(pw_recorder *recorder, uint32_t node, bool is_waiting)
{
    begin_turn(recorder, is_waiting);
    put_turn(recorder, (uint64_t)node + PW_TURN_BURST);
}

void pw_recorder_turns(pw_recorder *recorder, bool is_waiting, int64_t now_ns)
{
    begin_turn(recorder, is_waiting);
    put_turn(recorder, is_waiting ? PW_TURN_WAITS : PW_TURN_COMPUTES);
    if (!is_waiting) put_turn(recorder, (uint64_t)now_ns);
    end_record(recorder->turns);
    recorder->is_turning = false;
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
    recorder->ops = open_chunk(recorder, 4, PW_PWT_OPS);
    return PW_OK;
}

/* errno stays. */
static void destroy(pw_recorder *recorder)
{
    const int saved = errno;
    if (recorder->tail) munmap(recorder->tail, PW_PWT_OPEN_CHUNKS * sizeof *recorder->tail);
    if (recorder->tail_path) unlink(recorder->tail_path);
    pw_page_leaves_clear(&recorder->pages);
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
