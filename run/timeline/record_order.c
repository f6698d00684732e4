#include "run/timeline/record_order.h"
#include "native/array.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_RECORDS 1024
#define TIME_NS_MAX ((pw_time)1 << 60) /* 36 years */
#define NAME_PIECE_BYTES 16

typedef struct {
    pw_time time_ns;
    uint32_t idx; /* in the piece */
} pw_record_key;

/* A piece of a rank's file; before it is loaded it stands for the earliest record in or behind it.
 */
struct pw_record_run {
    pw_time time_ns;
    uint32_t rank_idx, piece;
    bool is_loaded;
    uint32_t next, num_records;
    pw_record_run *next_free;
    pw_record_key keys[PIECE_RECORDS];
    pw_trace_record records[PIECE_RECORDS];
};

/* It takes `a` ns from its time on. */
static bool is_span(const pw_trace_record *record)
{
    switch (record->kind) {
    case PW_TRACE_R5:
    case PW_TRACE_SEND_ENGINE:
    case PW_TRACE_LINK:
    case PW_TRACE_RECEIVE_ENGINE:
    case PW_TRACE_WALK:
    case PW_TRACE_CALL:
    case PW_TRACE_TOUCH:
    case PW_TRACE_PIN:
    case PW_TRACE_COPY:
    case PW_TRACE_REGION:
    case PW_TRACE_UNIT_PAGE_IN: return true;
    default: return false;
    }
}

/* What the timeline shows; names and MOVED are read beforehand. */
static bool is_shown(const pw_trace_record *record)
{
    switch (record->kind) {
    case PW_TRACE_BLOCK_STARTED:
    case PW_TRACE_FAULT_SOURCE:
    case PW_TRACE_FAULT_DESTINATION:
    case PW_TRACE_HANDLER:
    case PW_TRACE_TASKLET_ENTRY:
    case PW_TRACE_PAGE_IN_DONE:
    case PW_TRACE_NETLINK_SENT:
    case PW_TRACE_ERR_SENT:
    case PW_TRACE_NACK_SENT:
    case PW_TRACE_ACK:
    case PW_TRACE_NACK:
    case PW_TRACE_ERR:
    case PW_TRACE_TIMEOUT:
    case PW_TRACE_RESUME:
    case PW_TRACE_TRANSITION:
    case PW_TRACE_MESSAGE_SENT:
    case PW_TRACE_PINNED:
    case PW_TRACE_RESIDENT: return true;
    case PW_TRACE_PAGE_TOUCHED:
    case PW_TRACE_TOUCH_SEGFAULT: /* 0: the run ended before the touch */
        return record->time_ns > 0;
    default: return is_span(record);
    }
}

/* Times and lengths that a run can have: sums of them stay numbers. */
static bool is_possible(const pw_trace_record *record)
{
    if (record->time_ns < 0 || record->time_ns > TIME_NS_MAX) return false;
    const bool has_time = is_span(record) || record->kind == PW_TRACE_MESSAGE_SENT;
    if (has_time && record->a > TIME_NS_MAX) return false;
    return record->kind != PW_TRACE_REGION || record->peer < PW_REGION_DEPTHS_MAX;
}

pw_time pw_record_time(const pw_trace_record *record)
{
    switch (record->kind) {
    case PW_TRACE_CALL:   /* recorded when it ends, maybe with all of the run's records in it */
    case PW_TRACE_REGION: /* the same */
    case PW_TRACE_UNIT_PAGE_IN: /* faults until then wait for it */
        return record->time_ns + (pw_time)record->a;
    default: return record->time_ns;
    }
}

/* --- names ---------------------------------------------------------------------------------------
 */

/* A piece: the peer is the name's index, below max_names, time the piece's number. PW_ERR_INVALID:
 * there are no such ones; PW_ERR_NOMEM. */
static int add_name(pw_record_names *names, const pw_trace_record *record, uint32_t max_names)
{
    uint32_t idx = record->peer;
    if (idx >= max_names || record->time_ns < 0 ||
        record->time_ns >= PW_TRACE_PATH_BYTES / NAME_PIECE_BYTES)
        return PW_ERR_INVALID;
    if (idx >= names->num_names) {
        pw_record_name *more = realloc(names->names, (idx + 1) * sizeof *more);
        if (!more) return PW_ERR_NOMEM;
        memset(more + names->num_names, 0, (idx + 1 - names->num_names) * sizeof *more);
        names->names = more;
        names->num_names = idx + 1;
    }
    const uint64_t text[] = {record->a, record->b};
    memcpy(names->names[idx].text + record->time_ns * NAME_PIECE_BYTES, text, sizeof text);
    return PW_OK;
}

const char *pw_record_names_of(const pw_record_names *names, uint64_t idx)
{
    return idx < names->num_names ? names->names[idx].text : "";
}

/* --- a file's pieces -----------------------------------------------------------------------------
 */

static uint32_t piece_records(const pw_rank_records *rank, uint32_t piece)
{
    uint64_t left = rank->num_records - (uint64_t)piece * PIECE_RECORDS;
    return left < PIECE_RECORDS ? (uint32_t)left : PIECE_RECORDS;
}

static off_t record_offset(uint64_t number) { return (off_t)(number * sizeof(pw_trace_record)); }

static int read_piece(const pw_rank_records *rank, int descriptor, uint32_t piece,
                      pw_trace_record *records)
{
    char *to = (char *)records;
    size_t left = piece_records(rank, piece) * sizeof *records;
    off_t offset = record_offset((uint64_t)piece * PIECE_RECORDS);
    while (left) {
        ssize_t count = pread(descriptor, to, left, offset);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return PW_ERR_HOST;
        if (count == 0) return PW_ERR_INVALID; /* cut meanwhile */
        to += count;
        offset += count;
        left -= (size_t)count;
    }
    return PW_OK;
}

static pw_time earliest(const pw_trace_record *records, uint32_t num_records)
{
    pw_time earliest_ns = PW_NEVER;
    for (uint32_t i = 0; i < num_records; i++) {
        if (!is_shown(&records[i])) continue;
        pw_time time_ns = pw_record_time(&records[i]);
        if (time_ns < earliest_ns) earliest_ns = time_ns;
    }
    return earliest_ns;
}

/* Put into the file the time that a record has moved to. is_stale: by piece, whether its earliest
 * time has to be found again. */
static int move_record(const pw_rank_records *rank, int descriptor, const pw_trace_record *moved,
                       uint32_t piece, pw_trace_record *records, bool *is_stale)
{
    if (moved->a >= rank->num_records) return PW_ERR_INVALID;
    uint32_t of_piece = (uint32_t)(moved->a / PIECE_RECORDS);
    if (of_piece == piece) records[moved->a % PIECE_RECORDS].time_ns = moved->time_ns;
    else is_stale[of_piece] = true;
    off_t offset = record_offset(moved->a) + (off_t)offsetof(pw_trace_record, time_ns);
    ssize_t count = pwrite(descriptor, &moved->time_ns, sizeof moved->time_ns, offset);
    return count == sizeof moved->time_ns ? PW_OK : PW_ERR_HOST;
}

static int scan_piece(pw_rank_records *rank, int descriptor, uint32_t piece,
                      pw_trace_record *records, bool *is_stale)
{
    int code = read_piece(rank, descriptor, piece, records);
    uint32_t num_records = piece_records(rank, piece);
    for (uint32_t i = 0; i < num_records && code == PW_OK; i++) {
        if (!is_possible(&records[i])) return PW_ERR_INVALID;
        if (records[i].kind == PW_TRACE_MOVED)
            code = move_record(rank, descriptor, &records[i], piece, records, is_stale);
        else if (records[i].kind == PW_TRACE_CALL_NAME)
            code = add_name(&rank->calls, &records[i], PW_CALL_NAMES_MAX);
        else if (records[i].kind == PW_TRACE_REGION_NAME)
            code = add_name(&rank->regions, &records[i], PW_REGION_NAMES_MAX);
        else if (records[i].kind == PW_TRACE_LINK)
            rank->last_link_ns = pw_later(rank->last_link_ns, records[i].time_ns);
    }
    rank->earliest_ns[piece] = earliest(records, num_records);
    return code;
}

static int scan(pw_rank_records *rank, int descriptor, pw_trace_record *records, bool *is_stale)
{
    for (uint32_t piece = 0; piece < rank->num_pieces; piece++) {
        int code = scan_piece(rank, descriptor, piece, records, is_stale);
        if (code < 0) return code;
    }
    pw_time earliest_ns = PW_NEVER;
    for (uint32_t piece = rank->num_pieces; piece-- > 0;) {
        if (is_stale[piece]) {
            int code = read_piece(rank, descriptor, piece, records);
            if (code < 0) return code;
            rank->earliest_ns[piece] = earliest(records, piece_records(rank, piece));
        }
        if (rank->earliest_ns[piece] < earliest_ns) earliest_ns = rank->earliest_ns[piece];
        rank->earliest_ns[piece] = earliest_ns;
    }
    return PW_OK;
}

static int open_rank(pw_rank_records *rank, const char *path)
{
    *rank = (pw_rank_records){.path = strdup(path)};
    if (!rank->path) return PW_ERR_NOMEM;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return PW_ERR_HOST;
    struct stat file;
    int code = fstat(descriptor, &file) ? PW_ERR_HOST : PW_OK;
    pw_trace_record *records = malloc(PIECE_RECORDS * sizeof *records);
    bool *is_stale = NULL;
    if (code == PW_OK && (size_t)file.st_size % sizeof *records) code = PW_ERR_INVALID;
    if (code == PW_OK) {
        rank->num_records = (size_t)file.st_size / sizeof *records;
        rank->num_pieces = (uint32_t)((rank->num_records + PIECE_RECORDS - 1) / PIECE_RECORDS);
        rank->earliest_ns = calloc(rank->num_pieces + 1, sizeof *rank->earliest_ns);
        is_stale = calloc(rank->num_pieces + 1, sizeof *is_stale);
        if (!records || !rank->earliest_ns || !is_stale) code = PW_ERR_NOMEM;
    }
    if (code == PW_OK) code = scan(rank, descriptor, records, is_stale);
    int host_error = errno;
    free(is_stale);
    free(records);
    close(descriptor);
    errno = host_error;
    return code;
}

/* --- runs in the order of their next records -----------------------------------------------------
 */

/* What is not loaded comes first: it may hold what has the same time. */
static bool is_before(const pw_record_run *a, const pw_record_run *b)
{
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns;
    if (a->is_loaded != b->is_loaded) return b->is_loaded;
    if (a->rank_idx != b->rank_idx) return a->rank_idx < b->rank_idx;
    return a->piece < b->piece;
}

static void sift_down(const pw_record_order *order)
{
    pw_record_run **heap = order->heap, *moving = heap[0];
    size_t idx = 0;
    for (size_t child; (child = 2 * idx + 1) < order->num_runs; idx = child) {
        if (child + 1 < order->num_runs && is_before(heap[child + 1], heap[child])) child++;
        if (!is_before(heap[child], moving)) break;
        heap[idx] = heap[child];
    }
    heap[idx] = moving;
}

static int push(pw_record_order *order, pw_record_run *run)
{
    if (PW_ARRAY_MAKE_ROOM(order->heap, order->num_runs, order->runs_capacity, 16) < 0)
        return PW_ERR_NOMEM;
    size_t idx = order->num_runs++;
    for (; idx && is_before(run, order->heap[(idx - 1) / 2]); idx = (idx - 1) / 2)
        order->heap[idx] = order->heap[(idx - 1) / 2];
    order->heap[idx] = run;
    return PW_OK;
}

static void pop(pw_record_order *order)
{
    pw_record_run *run = order->heap[0];
    order->heap[0] = order->heap[--order->num_runs];
    if (order->num_runs) sift_down(order);
    run->next_free = order->free_runs;
    order->free_runs = run;
}

/* The rank's next piece, to be loaded when its time has come. */
static int push_next(pw_record_order *order, uint32_t rank_idx)
{
    pw_rank_records *rank = &order->ranks[rank_idx];
    if (rank->next_piece == rank->num_pieces) return PW_OK;
    pw_time time_ns = rank->earliest_ns[rank->next_piece];
    if (time_ns == PW_NEVER) return PW_OK; /* nothing to show from here on */
    pw_record_run *run = order->free_runs;
    if (run) order->free_runs = run->next_free;
    else run = malloc(sizeof *run);
    if (!run) return PW_ERR_NOMEM;
    run->time_ns = time_ns;
    run->rank_idx = rank_idx;
    run->piece = rank->next_piece++;
    run->is_loaded = false;
    run->next = run->num_records = 0;
    int code = push(order, run);
    if (code < 0) free(run);
    return code;
}

/* What has one time stays in its order. */
static int compare(const void *a, const void *b)
{
    const pw_record_key *left = a, *right = b;
    if (left->time_ns != right->time_ns) return left->time_ns < right->time_ns ? -1 : 1;
    return left->idx < right->idx ? -1 : 1;
}

static int load(pw_record_order *order, pw_record_run *run)
{
    const pw_rank_records *rank = &order->ranks[run->rank_idx];
    int descriptor = open(rank->path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return PW_ERR_HOST;
    int code = read_piece(rank, descriptor, run->piece, run->records);
    close(descriptor);
    if (code < 0) return code;
    uint32_t num_records = piece_records(rank, run->piece);
    for (uint32_t i = 0; i < num_records; i++)
        if (is_shown(&run->records[i]))
            run->keys[run->num_records++] = (pw_record_key){pw_record_time(&run->records[i]), i};
    qsort(run->keys, run->num_records, sizeof *run->keys, compare);
    order->num_held += run->num_records;
    run->is_loaded = true;
    return PW_OK;
}

/* The heap's first run goes on, to its next record or out of the heap. */
static void advance(pw_record_order *order)
{
    pw_record_run *run = order->heap[0];
    if (run->next == run->num_records) {
        order->num_held -= run->num_records;
        pop(order);
        return;
    }
    run->time_ns = run->keys[run->next].time_ns;
    sift_down(order);
}

/* --- the order -----------------------------------------------------------------------------------
 */

int pw_record_order_add(pw_record_order *order, const char *path)
{
    if (PW_ARRAY_MAKE_ROOM(order->ranks, order->num_ranks, order->ranks_capacity, 16) < 0)
        return PW_ERR_NOMEM;
    uint32_t rank_idx = order->num_ranks++;
    int code = open_rank(&order->ranks[rank_idx], path);
    return code < 0 ? code : push_next(order, rank_idx);
}

int pw_record_order_next(pw_record_order *order, const pw_trace_record **record, uint32_t *rank_idx)
{
    if (order->current) advance(order);
    order->current = NULL;
    while (order->num_runs) {
        pw_record_run *run = order->heap[0];
        if (run->is_loaded) {
            order->current = run;
            *record = &run->records[run->keys[run->next++].idx];
            *rank_idx = run->rank_idx;
            return 1;
        }
        int code = load(order, run);
        if (code < 0) return code;
        uint32_t of_rank = run->rank_idx;
        advance(order);
        code = push_next(order, of_rank);
        if (code < 0) return code;
    }
    return 0;
}

void pw_record_order_destroy(pw_record_order *order)
{
    for (uint32_t i = 0; i < order->num_ranks; i++) {
        free(order->ranks[i].path);
        free(order->ranks[i].earliest_ns);
        free(order->ranks[i].calls.names);
        free(order->ranks[i].regions.names);
    }
    free(order->ranks);
    for (size_t i = 0; i < order->num_runs; i++) free(order->heap[i]);
    for (pw_record_run *run; (run = order->free_runs);) {
        order->free_runs = run->next_free;
        free(run);
    }
    free(order->heap);
    *order = (pw_record_order){0};
}
