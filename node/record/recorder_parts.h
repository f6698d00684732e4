/* The parts of a recorder: recorder.c has its calls, turns and files, the other files recorder_*.c
 * put what is done into records. Private to these files. */
#ifndef PW_NODE_RECORD_RECORDER_PARTS_H
#define PW_NODE_RECORD_RECORDER_PARTS_H
#include "node/messages/messages.h"
#include "node/record/recorder.h"
#include "node/strategies/page_counts.h"
#include "native/memory.h"
#include "native/page_leaves.h"

/* How a replay will believe a rank's pages to be, from what the trace has told so far, so that the
 * recorder tells of a page when it is otherwise. Pages that nobody has told of are absent. A page
 * that the NI has met absent is coming: the NI will bring it in, here and in the replay, and until
 * it has, that it is there or not is no news. One thread at a time. */

#define PW_COMING_MAX 64

typedef struct {
    uint64_t first_page, num_pages;
} pw_page_range;

/* Zeroed: all are absent. */
typedef struct {
    pw_page_leaves leaves;
    pw_page_range coming[PW_COMING_MAX]; /* each of one leaf */
    uint32_t num_coming;
} pw_believed_pages;

/* So many pages are in a state that was not believed. */
typedef void pw_page_news(void *context, uint64_t first_page, uint64_t num_pages, uint8_t state);

void pw_believed_finish(pw_believed_pages *pages);
/* Compare a range with the memory: what is news is told, and believed from now on. PW_ERR_NOMEM. */
int pw_believed_look(pw_believed_pages *pages, pw_memory *memory, pw_page_range range,
                     pw_page_news *tell, void *context);
/* PW_ERR_NOMEM. */
int pw_believed_set(pw_believed_pages *pages, pw_page_range range, uint8_t state);
/* The program gave them back. */
void pw_believed_unmap(pw_believed_pages *pages, pw_page_range range);
/* The NI uses them: those that are absent are coming. At most PW_COMING_MAX leaves are looked at by
 * `settle`: of more it is known when they have landed. PW_ERR_NOMEM. */
int pw_believed_use(pw_believed_pages *pages, pw_page_range range);
/* Which of those that are coming are there? Behind a run of the NI or of a strategy they have
 * brought them (tell NULL), before it the program has touched them, which is told. */
void pw_believed_settle(pw_believed_pages *pages, pw_memory *memory, pw_page_news *tell,
                        void *context);

/* Which message a receive from any source took. */
typedef struct {
    bool is_known;
    uint32_t peer, source; /* peer + 1 */
} pw_record_match;

/* Where a receive of the message's length has landed: numbers, as ROOMS has them. */
typedef struct {
    bool is_known;
    uint32_t num_runs, region;
    int64_t offset;
    uint64_t count[PW_ROOM_RUNS_MAX];
    uint8_t state[PW_ROOM_RUNS_MAX];
} pw_record_room;

/* An operation that is over, and of which the CPU has not learned. */
typedef struct {
    int64_t complete_ns;
    uint32_t number;
} pw_record_finished;

/* Memory of one node, by its place in the list. */
typedef struct {
    uint32_t node;
    uint64_t base;
} pw_record_region;

/* Memory that peers may use. */
typedef struct {
    uint32_t number;
    pw_span span;
} pw_record_registration;

struct pw_recorder {
    int descriptor;
    int error; /* errno of the first failure: nothing is recorded any more */
    uint32_t rank;
    pw_memory *memory;
    const pw_page_counts *pinned; /* what the strategy believes to be pinned */
    const pw_call_counts *calls;
    uint64_t eager_limit_bytes;
    pw_pwt_open_chunk *tail, *ops, *matches, *times, *regions, *turns, *keys,
        *rooms; /* the tail file, mapped, and its parts */
    char *tail_path;
    pw_record_region *known;
    uint32_t num_regions, regions_capacity, last_region;
    uint32_t num_operations;
    struct {
        uint32_t peer;
        uint64_t key;
    } known_keys[PW_KEYS_KNOWN]; /* by the number of the key, a ring */
    uint32_t num_keys;
    pw_record_registration *registered;
    uint32_t num_registered, registered_capacity, num_registrations;
    uint32_t num_names, name[PW_CALLS_MAX]; /* index + 1 of a call's name, 0: none yet */
    pw_record_match *matched;               /* from num_matches_written on */
    uint32_t num_matched, matched_capacity, num_matches_written;
    pw_record_room *room; /* from num_rooms_written on */
    uint32_t num_rooms, rooms_capacity, num_rooms_written;
    pw_record_finished *over;
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

/* ---- recorder.c: chunks */

void pw_record_write_bytes(pw_recorder *recorder, const void *bytes, size_t num_bytes);
/* All that are open. */
void pw_record_write_chunks(pw_recorder *recorder);
/* Of a stream but OPS: what follows up to the end is put with it. */
void pw_record_begin(pw_recorder *recorder, pw_pwt_open_chunk *out);
/* What stands there is whole. */
void pw_record_end(pw_pwt_open_chunk *out);
void pw_record_put(pw_pwt_open_chunk *out, uint64_t value);
void pw_record_put_signed(pw_pwt_open_chunk *out, int64_t value);
void pw_record_put_bytes(pw_pwt_open_chunk *out, const char *bytes, size_t num_bytes);
/* Of OPS; whole when the next one begins. */
pw_pwt_open_chunk *pw_record_op(pw_recorder *recorder, uint8_t opcode);

/* ---- recorder.c */

/* A record of what is done now: all before it is certain. */
pw_pwt_open_chunk *pw_record_certain(pw_recorder *recorder, uint8_t opcode);
/* What cannot be recorded. */
void pw_record_lose(pw_recorder *recorder, const char *what);

/* ---- recorder_pages.c */

/* Of memory of a node; what is without bytes is nowhere. */
void pw_record_put_place(pw_recorder *recorder, pw_pwt_open_chunk *out, uint32_t node,
                         pw_span span);
/* The region that an address of a node's memory is of, and its offset there. */
uint32_t pw_record_region_of(pw_recorder *recorder, uint32_t node, uint64_t address);
int64_t pw_record_offset_in(const pw_recorder *recorder, uint32_t region, uint64_t address);
/* Of a buffer. */
void pw_record_put_address(pw_recorder *recorder, pw_pwt_open_chunk *out, pw_span span);
/* Tell how the program has left the pages of what has bytes, as far as that is news. */
void pw_record_look(pw_recorder *recorder, pw_span span);
/* What has come since the NI ran last, the program has touched. Within a turn it is the NI's. */
void pw_record_tell_touched(pw_recorder *recorder);

/* ---- recorder_messages.c */

/* The operation, NULL for one that nobody waits for, is the next one. */
void pw_record_number(pw_recorder *recorder, pw_operation *operation);
/* Those that are known. */
void pw_record_write_matches(pw_recorder *recorder);

/* ---- recorder_messages.c: memory of the library's */

/* A receive of the message's length is posted. */
void pw_record_keep_room(pw_recorder *recorder, pw_operation *receive);
/* It will not get any. */
void pw_record_no_room(pw_recorder *recorder, pw_operation *receive);
/* Those that are known; is_end: the others, too. */
void pw_record_write_rooms(pw_recorder *recorder, bool is_end);

/* ---- recorder_one_sided.c */

/* Frames of peers are here: what registered memory are they about? */
void pw_record_look_at_frames(pw_recorder *recorder, const uint8_t *data, uint32_t num_bytes);
#endif
