/* Messages in a recording: what is sent and received, and when the CPU learns of it. */
#include "node/record/recorder_parts.h"
#include "native/array.h"
#include <errno.h>
#include <string.h>

#define FIRST_CAPACITY 64u

/* ---- sends and receives */

void pw_record_number(pw_recorder *recorder, pw_operation *operation)
{
    recorder->num_operations++;
    if (operation) operation->recorded = recorder->num_operations;
}

void pw_recorder_sent(pw_recorder *recorder, pw_operation *send, uint32_t peer,
                      const pw_message_header *header, pw_span span)
{
    uint32_t flags =
        send && span.num_bytes <= recorder->eager_limit_bytes ? PW_SEND_SYNCHRONOUS : 0;
    if (send && span.num_bytes) pw_recorder_uses(recorder, span);
    pw_pwt_open_chunk *out = pw_record_certain(recorder, PW_OP_SEND);
    if (header->has_data) flags |= PW_SEND_HAS_DATA;
    if (!send) flags |= PW_SEND_WAS_EAGER;
    pw_record_put(out, peer);
    pw_record_put(out, header->context);
    pw_record_put(out, header->tag);
    pw_record_put(out, header->source);
    pw_record_put(out, span.num_bytes);
    pw_record_put_address(recorder, out, span);
    pw_record_put(out, flags);
    if (header->has_data) pw_record_put(out, header->data);
    pw_record_number(recorder, send);
}

static int keep_match(pw_recorder *recorder, pw_operation *receive)
{
    if (PW_ARRAY_MAKE_ROOM(recorder->matched, recorder->num_matched, recorder->matched_capacity,
                           FIRST_CAPACITY) < 0)
        return PW_ERR_NOMEM;
    recorder->matched[recorder->num_matched++] = (pw_record_match){.is_known = false};
    receive->match = recorder->num_matches_written + recorder->num_matched;
    return PW_OK;
}

void pw_recorder_posted(pw_recorder *recorder, pw_operation *receive)
{
    pw_pwt_open_chunk *out = pw_record_certain(recorder, PW_OP_RECEIVE);
    const bool is_any = receive->peer == PW_ANY_NODE;
    uint32_t flags = receive->is_unsized ? PW_RECEIVE_UNSIZED : 0;
    if (receive->is_multi) flags |= PW_RECEIVE_MULTI;
    if (receive->ignore) flags |= PW_RECEIVE_IGNORES;
    if (receive->is_in_order) flags |= PW_RECEIVE_IN_ORDER;
    pw_record_put(out, is_any ? 0 : (uint64_t)receive->peer + 1);
    pw_record_put(out, receive->context);
    pw_record_put(out, receive->tag);
    pw_record_put(out, receive->source);
    pw_record_put(out, receive->capacity_bytes);
    pw_record_put_address(recorder, out, (pw_span){receive->address, receive->capacity_bytes});
    pw_record_put(out, flags);
    if (receive->ignore) pw_record_put(out, receive->ignore);
    pw_record_number(recorder, receive);
    receive->match = 0;
    if (is_any && !receive->is_multi && keep_match(recorder, receive) < 0) recorder->error = ENOMEM;
    if (receive->is_unsized) pw_record_keep_room(recorder, receive);
}

void pw_record_write_matches(pw_recorder *recorder)
{
    uint32_t done = 0;
    for (; done < recorder->num_matched && recorder->matched[done].is_known; done++) {
        pw_record_begin(recorder, recorder->matches);
        pw_record_put(recorder->matches, recorder->matched[done].peer);
        pw_record_put(recorder->matches, recorder->matched[done].source);
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
        (pw_record_match){.is_known = true, .peer = peer, .source = source};
    receive->match = 0;
    pw_record_write_matches(recorder);
}

static void put_operation(pw_recorder *recorder, pw_pwt_open_chunk *out, uint32_t number)
{
    pw_record_put(out, recorder->num_operations - 1 - number);
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
    pw_record_no_room(recorder, receive);
    put_operation(recorder, pw_record_certain(recorder, PW_OP_CANCEL), receive->recorded - 1);
}

void pw_recorder_found(pw_recorder *recorder, pw_operation *arrived, uint32_t flags)
{
    pw_pwt_open_chunk *out = pw_record_certain(recorder, PW_OP_FOUND);
    pw_record_put(out, arrived->peer);
    pw_record_put(out, arrived->context);
    pw_record_put(out, arrived->tag);
    pw_record_put(out, arrived->source);
    pw_record_put(out, flags);
    pw_record_number(recorder, arrived);
    recorder->is_found_awaited = flags & PW_FOUND_WAITED;
}

void pw_recorder_took(pw_recorder *recorder, const pw_operation *arrived, pw_operation *receive)
{
    pw_pwt_open_chunk *out = pw_record_certain(recorder, PW_OP_TAKE);
    put_operation(recorder, out, arrived->recorded - 1);
    pw_record_put(out, receive->capacity_bytes);
    pw_record_put_address(recorder, out, (pw_span){receive->address, receive->capacity_bytes});
    pw_record_put(out, receive->is_unsized ? PW_RECEIVE_UNSIZED : 0);
    pw_record_number(recorder, receive);
    if (receive->is_unsized) pw_record_keep_room(recorder, receive);
}

/* ---- completions */

void pw_recorder_over(pw_recorder *recorder, const pw_operation *operation)
{
    if (!operation->recorded || operation->is_dropped) return;
    if (PW_ARRAY_MAKE_ROOM(recorder->over, recorder->num_over, recorder->over_capacity,
                           FIRST_CAPACITY) < 0) {
        recorder->error = ENOMEM;
        return;
    }
    recorder->over[recorder->num_over++] =
        (pw_record_finished){operation->complete_ns, operation->recorded - 1};
}

/* Takes the place out of those that are over; their order stays. */
static uint32_t take_over(pw_recorder *recorder, uint32_t place)
{
    const uint32_t number = recorder->over[place].number;
    memmove(&recorder->over[place], &recorder->over[place + 1],
            (--recorder->num_over - place) * sizeof *recorder->over);
    return number;
}

/* The CPU learns of what has no number: an eager send, say, which is over already. */
static void pass_to(pw_recorder *recorder, int64_t now_ns, int64_t complete_ns, int64_t poll_ns)
{
    if (complete_ns > now_ns) pw_record_lose(recorder, "a completion that is no message's");
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
        put_operation(recorder, pw_record_certain(recorder, PW_OP_DONE), number);
        return;
    }
    pass_to(recorder, now_ns, complete_ns, poll_ns);
}

void pw_recorder_forget(pw_recorder *recorder, pw_operation *operation)
{
    uint32_t place = 0;
    while (place < recorder->num_over && recorder->over[place].number != operation->recorded - 1)
        place++;
    if (place < recorder->num_over) take_over(recorder, place);
    operation->recorded = 0;
}

static void put_part(pw_recorder *recorder, pw_operation *part, const pw_operation *whole)
{
    pw_pwt_open_chunk *out = pw_record_certain(recorder, PW_OP_PART);
    put_operation(recorder, out, whole->recorded - 1);
    pw_record_put(out, part->peer);
    pw_record_put(out, part->source);
    pw_record_number(recorder, part);
}

void pw_recorder_done(pw_recorder *recorder, pw_operation *operation, const pw_operation *whole,
                      int64_t now_ns, int64_t poll_ns)
{
    if (operation->is_announced) return; /* FOUND says it */
    if (!operation->recorded && whole && whole->recorded) put_part(recorder, operation, whole);
    if (operation->recorded) {
        const uint32_t number = operation->recorded - 1;
        pw_recorder_forget(recorder, operation);
        put_operation(recorder, pw_record_certain(recorder, PW_OP_DONE), number);
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
    put_operation(recorder, pw_record_certain(recorder, PW_OP_TOLD), number);
}

/* ---- memory that receives of the message's length have landed in: how its pages were before. */

#define FIRST_ROOMS 16u
#define PAGES_AT_ONCE 512u

void pw_record_keep_room(pw_recorder *recorder, pw_operation *receive)
{
    if (PW_ARRAY_MAKE_ROOM(recorder->room, recorder->num_rooms, recorder->rooms_capacity,
                           FIRST_ROOMS) < 0) {
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
