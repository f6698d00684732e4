/* Memory that receives of the message's length have landed in: how its pages were before. */
#include "native/array.h"
#include "node/record/recorder_parts.h"
#include <errno.h>
#include <string.h>

#define FIRST_CAPACITY 16u
#define PAGES_AT_ONCE 512u

void pw_record_keep_room(pw_recorder *recorder, pw_operation *receive)
{
    if (PW_ARRAY_MAKE_ROOM(recorder->room, recorder->num_rooms, recorder->rooms_capacity,
                           FIRST_CAPACITY) < 0) {
        recorder->error = ENOMEM;
        return;
    }
    recorder->room[recorder->num_rooms++] = (pw_record_room){.is_known = false};
    receive->room = recorder->num_rooms_written + recorder->num_rooms;
}

static void write_room(pw_recorder *recorder, const pw_record_room *room)
{
    pw_pwt_open_chunk *out = recorder->rooms;
    pw_record_begin(recorder, out);
    pw_record_put(out, room->num_runs);
    pw_record_put(out, room->region);
    pw_record_put_signed(out, room->offset);
    for (uint32_t i = 0; i < room->num_runs; i++) {
        pw_record_put(out, room->count[i]);
        pw_record_put(out, room->state[i]);
    }
    pw_record_end(out);
}

void pw_record_write_rooms(pw_recorder *recorder, bool is_end)
{
    uint32_t done = 0;
    for (; done < recorder->num_rooms && (is_end || recorder->room[done].is_known); done++)
        write_room(recorder, &recorder->room[done]);
    recorder->num_rooms -= done;
    recorder->num_rooms_written += done;
    if (done)
        memmove(recorder->room, recorder->room + done,
                recorder->num_rooms * sizeof *recorder->room);
}

/* NULL: it has told already. */
static pw_record_room *room_of(const pw_recorder *recorder, pw_operation *receive)
{
    if (!receive->room) return NULL;
    pw_record_room *room = &recorder->room[receive->room - recorder->num_rooms_written - 1];
    receive->room = 0;
    room->is_known = true;
    return room;
}

void pw_record_no_room(pw_recorder *recorder, pw_operation *receive)
{
    if (room_of(recorder, receive)) pw_record_write_rooms(recorder, false);
}

static void add_run(pw_record_room *room, uint8_t state)
{
    const uint32_t last = room->num_runs - 1;
    if (room->num_runs && (room->state[last] == state || room->num_runs == PW_ROOM_RUNS_MAX)) {
        room->count[last]++;
        return;
    }
    room->state[room->num_runs] = state;
    room->count[room->num_runs++] = 1;
}

static void no_news(void *context, uint64_t first_page, uint64_t num_pages, uint8_t state)
{
    (void)context;
    (void)first_page;
    (void)num_pages;
    (void)state;
}

/* They are told here, not by PAGES, which would come behind the message. */
static int look(pw_recorder *recorder, pw_record_room *room, pw_span span)
{
    uint8_t state[PAGES_AT_ONCE];
    const uint64_t first_page = pw_page_of(span.address);
    const uint64_t end_page = pw_page_of(span.address + span.num_bytes - 1) + 1;
    for (uint64_t page = first_page, count; page < end_page; page += count) {
        count = end_page - page < PAGES_AT_ONCE ? end_page - page : PAGES_AT_ONCE;
        const int code = pw_memory_look(recorder->memory, page, count, state);
        for (uint64_t i = 0; code >= 0 && i < count; i++) add_run(room, state[i]);
        if (code < 0) return code;
    }
    return pw_believed_look(&recorder->pages, recorder->memory,
                            (pw_page_range){first_page, end_page - first_page}, no_news, NULL);
}

void pw_recorder_made_room(pw_recorder *recorder, pw_operation *receive, pw_span span)
{
    pw_record_room *room = room_of(recorder, receive);
    if (!room || recorder->error) return;
    if (span.num_bytes) {
        room->region = pw_record_region_of(recorder, recorder->rank, span.address);
        room->offset = pw_record_offset_in(recorder, room->region, span.address);
    }
    if (span.num_bytes > recorder->eager_limit_bytes && look(recorder, room, span) < 0)
        recorder->error = ENOMEM;
    pw_record_write_rooms(recorder, false);
}
