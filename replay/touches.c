#include "replay/touches.h"
#include "native/array.h"
#include "native/memory.h"
#include "native/status.h"
#include <stdlib.h>

#define FIRST_CAPACITY 16

void pw_touches_finish(pw_touches *touches) { free(touches->found); }

static int keep(pw_touches *touches, const pw_record *pages)
{
    if (PW_ARRAY_MAKE_ROOM(touches->found, touches->num_found, touches->capacity, FIRST_CAPACITY) <
        0)
        return PW_ERR_NOMEM;
    touches->found[touches->num_found++] = *pages;
    touches->num_pages += pages->count;
    return 1;
}

int pw_touches_begin(pw_touches *touches, uint64_t num_records, int64_t duration_ns)
{
    pw_record record;
    int code = 1;
    touches->num_found = touches->next = 0;
    touches->num_pages = touches->num_done = touches->num_there = 0;
    touches->duration_ns = duration_ns;
    touches->passed_ns = 0;
    while (code > 0 && touches->reader.num_read < num_records)
        code = pw_reader_record(&touches->reader, &record);
    while (code > 0 && (code = pw_reader_record(&touches->reader, &record)) > 0 &&
           record.opcode != PW_OP_COMPUTE)
        if (record.opcode == PW_OP_PAGES && record.state == PW_PAGE_PRESENT && record.count)
            code = keep(touches, &record);
    if (code < 0) return code;
    touches->is_under_way = touches->num_found > 0;
    return touches->is_under_way;
}

/* num_pages * ns of the interval fits nowhere. */
static int64_t spread_ns(const pw_touches *touches)
{
    const uint64_t parts = touches->num_pages + 1, place = touches->num_there + 1;
    const uint64_t whole = (uint64_t)touches->duration_ns / parts;
    const uint64_t rest = (uint64_t)touches->duration_ns % parts;
    return (int64_t)(whole * place + (uint64_t)((double)rest * (double)place / (double)parts));
}

bool pw_touches_next(const pw_touches *touches, pw_record *pages, int64_t *at_ns)
{
    if (touches->next == touches->num_found) return false;
    *pages = touches->found[touches->next];
    *at_ns = touches->when == PW_TOUCH_END ? touches->duration_ns : 0;
    if (touches->when != PW_TOUCH_SPREAD) return true;
    pages->offset += (int64_t)touches->num_done;
    pages->count = 1;
    *at_ns = spread_ns(touches);
    return true;
}

void pw_touches_done(pw_touches *touches, const pw_record *pages)
{
    touches->num_there += pages->count;
    touches->num_done += pages->count;
    if (touches->num_done < touches->found[touches->next].count) return;
    touches->num_done = 0;
    touches->next++;
}
