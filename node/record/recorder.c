/* A recorder itself: its calls and times, the turns of its node, its files. */
#include "node/record/recorder_parts.h"
#include "native/array.h"
#include "native/crc32c.h"
#include "node/node_state.h"
#include "node/report/output_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_CAPACITY 64u

/* ---- what a test in vain may still take back */

static void put_looks(pw_recorder *recorder)
{
    if (!recorder->num_looks) return;
    pw_pwt_open_chunk *out = pw_record_op(recorder, PW_OP_LOOKS);
    pw_record_put(out, recorder->num_looks);
    pw_record_put(out, (uint64_t)recorder->look_ns);
    recorder->num_looks = 0;
    recorder->look_ns = 0;
}

static void put_compute(pw_recorder *recorder)
{
    if (!recorder->compute_ns) return;
    pw_record_put(pw_record_op(recorder, PW_OP_COMPUTE), (uint64_t)recorder->compute_ns);
    recorder->compute_ns = 0;
}

/* Index of the call's name, which stands before its first call. */
static uint32_t name_of(pw_recorder *recorder, uint32_t call)
{
    const char *name = recorder->calls->num_calls ? recorder->calls->call[call].name : "";
    if (recorder->name[call]) return recorder->name[call] - 1;
    pw_pwt_open_chunk *out = pw_record_op(recorder, PW_OP_NAME);
    pw_record_put(out, recorder->num_names);
    pw_record_put_bytes(out, name, strlen(name));
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
        pw_record_op(recorder, PW_OP_ENTER);
        return;
    }
    const uint32_t name = name_of(recorder, recorder->calls->current);
    pw_record_put(pw_record_op(recorder, PW_OP_CALL), name);
}

pw_pwt_open_chunk *pw_record_certain(pw_recorder *recorder, uint8_t opcode)
{
    put_call(recorder);
    return pw_record_op(recorder, opcode);
}

void pw_record_lose(pw_recorder *recorder, const char *what)
{
    pw_record_put_bytes(pw_record_certain(recorder, PW_OP_LOST), what, strlen(what));
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
    pw_record_begin(recorder, recorder->times);
    pw_record_put_signed(recorder->times, now_ns - recorder->time_ns);
    recorder->time_ns = now_ns;
}

void pw_recorder_leave(pw_recorder *recorder, int64_t now_ns)
{
    recorder->is_found_awaited = false;
    if (recorder->is_swallowed) return;
    pw_record_end(pw_record_certain(recorder, PW_OP_LEAVE));
    put_time(recorder, now_ns);
    pw_record_end(recorder->times);
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
    pw_record_certain(recorder, PW_OP_READ);
}

void pw_recorder_slept(pw_recorder *recorder, int64_t duration_ns)
{
    pw_record_put(pw_record_certain(recorder, PW_OP_SLEEP), (uint64_t)duration_ns);
}

void pw_recorder_passed(pw_recorder *recorder, int64_t duration_ns)
{
    pw_record_put_signed(pw_record_certain(recorder, PW_OP_PASS), duration_ns);
}

void pw_recorder_met(pw_recorder *recorder, uint64_t group, uint32_t num_members)
{
    pw_pwt_open_chunk *out = pw_record_certain(recorder, PW_OP_MEET);
    pw_record_put(out, group);
    pw_record_put(out, num_members);
}

/* ---- the node's turns */

static void put_turn(pw_recorder *recorder, uint64_t number)
{
    pw_record_begin(recorder, recorder->turns);
    pw_record_put(recorder->turns, number);
}

/* The program, or a library in its call, has run since the last turn. */
static void begin_turn(pw_recorder *recorder, bool is_waiting)
{
    if (recorder->num_sources) return;
    if (is_waiting) put_call(recorder); /* else it may be a test in vain, which leaves no record */
    pw_record_tell_touched(recorder);
}

void pw_recorder_received(pw_recorder *recorder, const pw_wire_burst *burst, bool is_waiting)
{
    begin_turn(recorder, is_waiting);
    if (recorder->num_registered) pw_record_look_at_frames(recorder, burst->data, burst->num_bytes);
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
    pw_record_end(recorder->turns);
}

/* ---- the rest */

void pw_recorder_region_entered(pw_recorder *recorder, const char *name, size_t num_bytes)
{
    pw_record_put_bytes(pw_record_certain(recorder, PW_OP_REGION), name, num_bytes);
}

void pw_recorder_region_left(pw_recorder *recorder) { pw_record_certain(recorder, PW_OP_LEFT); }

void pw_node_record_lost(pw_node *node, const char *what)
{
    if (node->clock.recorder) pw_record_lose(node->clock.recorder, what);
}

/* ---- its life */

static void write_file_header(pw_recorder *recorder, uint32_t num_ranks)
{
    pw_pwt_file_header header = {.version = PW_PWT_VERSION, .num_ranks = num_ranks};
    memcpy(header.magic, PW_PWT_MAGIC, sizeof header.magic);
    pw_record_write_bytes(recorder, &header, sizeof header);
}

static pw_pwt_open_chunk *open_chunk(pw_recorder *recorder, uint32_t place, uint16_t kind)
{
    pw_pwt_open_chunk *opened = &recorder->tail[place];
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
    recorder->rooms = open_chunk(recorder, 5, PW_PWT_ROOMS);
    recorder->ops = open_chunk(recorder, 6, PW_PWT_OPS);
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
    free(recorder->room);
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
    made->pinned = &node->context.pinned_pages;
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
    pw_record_certain(recorder, PW_OP_END);
    put_time(recorder, now_ns);
    pw_record_write_matches(recorder);
    pw_record_write_rooms(recorder, true);
}

static void write_footer(pw_recorder *recorder)
{
    pw_pwt_file_footer footer = {.index_offset = 0};
    memcpy(footer.magic, PW_PWT_END_MAGIC, sizeof footer.magic);
    pw_record_write_bytes(recorder, &footer, sizeof footer);
}

int pw_node_record_finish(pw_node *node)
{
    pw_recorder *recorder = node->clock.recorder;
    if (!recorder) return PW_OK;
    node->clock.recorder = NULL;
    put_end(recorder, node->clock.now_ns);
    pw_record_write_chunks(recorder);
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

/* Chunks of a recorder: encodes records, and writes the chunks that are full. What is not written
 * yet stands in a file that is mapped, where a kill leaves it. */

#define RECORD_MAX_BYTES 512u /* longest, but for the name in it */
#define NAME_MAX_BYTES 256u

void pw_record_write_bytes(pw_recorder *recorder, const void *bytes, size_t num_bytes)
{
    if (!recorder->error) recorder->error = pw_output_put(recorder->descriptor, bytes, num_bytes);
}

static void write_chunk(pw_recorder *recorder, pw_pwt_open_chunk *out)
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
    pw_record_write_bytes(recorder, &header, sizeof header);
    pw_record_write_bytes(recorder, out->bytes, out->num_bytes);
    out->sequence++;
    out->whole_bytes = out->whole_records = out->num_bytes = out->num_records = 0;
}

void pw_record_write_chunks(pw_recorder *recorder)
{
    for (uint32_t i = 0; i < PW_PWT_OPEN_CHUNKS; i++) write_chunk(recorder, &recorder->tail[i]);
}

/* ---- records */

void pw_record_end(pw_pwt_open_chunk *out)
{
    out->whole_bytes = out->num_bytes;
    out->whole_records = out->num_records;
}

void pw_record_begin(pw_recorder *recorder, pw_pwt_open_chunk *out)
{
    if (out->num_bytes + RECORD_MAX_BYTES > sizeof out->bytes) write_chunk(recorder, out);
    if (recorder->error) out->num_bytes = 0;
    pw_record_end(out);
    out->num_records++;
}

void pw_record_put(pw_pwt_open_chunk *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) out->bytes[out->num_bytes++] = (uint8_t)(value | 0x80);
    out->bytes[out->num_bytes++] = (uint8_t)value;
}

void pw_record_put_signed(pw_pwt_open_chunk *out, int64_t value)
{
    pw_record_put(out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

void pw_record_put_bytes(pw_pwt_open_chunk *out, const char *bytes, size_t num_bytes)
{
    if (num_bytes > NAME_MAX_BYTES) num_bytes = NAME_MAX_BYTES;
    pw_record_put(out, num_bytes);
    memcpy(out->bytes + out->num_bytes, bytes, num_bytes);
    out->num_bytes += (uint32_t)num_bytes;
}

pw_pwt_open_chunk *pw_record_op(pw_recorder *recorder, uint8_t opcode)
{
    pw_pwt_open_chunk *out = recorder->ops;
    pw_record_begin(recorder, out);
    recorder->num_since_turn++;
    out->bytes[out->num_bytes++] = opcode;
    return out;
}
