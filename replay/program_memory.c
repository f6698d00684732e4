/* Memory of a program: where its buffers lie, and which pages are there. */
#include "native/array.h"
#include "native/status.h"
#include "replay/program_parts.h"
#include <stdlib.h>

typedef unsigned long long printed;

#define FIRST_CAPACITY 16
#define REGION_SHIFT 40                    /* bytes of a region whose base is not told */
#define REGIONS_MAX (UINT64_C(1) << 22)    /* the same: their addresses fit */
#define SPAN_MAX_BYTES (UINT64_C(1) << 36) /* of a buffer, or of pages at a time */
#define PAGES_AT_ONCE 512u

/* ---- addresses */

static int base_of(pw_program *program, uint64_t region, uint64_t *out)
{
    const pw_region_base *bases = program->bases;
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
        return pw_program_refuse(program, "region %llu: without a base address they go to %llu",
                                 (printed)region, (printed)REGIONS_MAX - 1);
    *out = (region + 1) << REGION_SHIFT;
    return PW_OK;
}

int pw_program_read_bases(pw_program *program, pw_reader *reader)
{
    uint64_t region, base;
    int code;
    while ((code = pw_reader_number(reader, &region)) > 0) {
        code = pw_reader_number(reader, &base);
        if (code == 0)
            return pw_program_refuse(program, "region %llu has no base address", (printed)region);
        if (code < 0) break;
        if (PW_ARRAY_MAKE_ROOM(program->bases, program->num_bases, program->bases_capacity,
                               FIRST_CAPACITY) < 0)
            return PW_ERR_NOMEM;
        program->bases[program->num_bases++] = (pw_region_base){region, base};
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
    if (*out < PW_PROGRAM_ADDRESS_END && num_bytes <= SPAN_MAX_BYTES) return PW_OK;
    return pw_program_refuse(
        program,
        "a buffer of %llu bytes at region %llu, offset %lld: allowed are %llu bytes "
        "below address %#llx",
        (printed)num_bytes, (printed)region, (long long)offset, (printed)SPAN_MAX_BYTES,
        (printed)PW_PROGRAM_ADDRESS_END);
}

int pw_program_address(pw_program *program, const pw_record *record, uint64_t *out)
{
    return place_of(program, record->region, record->offset, record->bytes, out);
}

int pw_program_remote_address(pw_program *program, const pw_record *record, uint64_t *out)
{
    return place_of(program, record->remote_region, record->remote_offset, record->bytes, out);
}

static int pages_of(pw_program *program, const pw_record *record, uint64_t *out)
{
    uint64_t base = 0;
    const int code = base_of(program, record->region, &base);
    if (code < 0) return code;
    *out = pw_page_of(base) + (uint64_t)record->offset;
    if (*out < pw_page_of(PW_PROGRAM_ADDRESS_END) && record->count <= pw_page_of(SPAN_MAX_BYTES))
        return PW_OK;
    return pw_program_refuse(
        program, "%llu pages at region %llu, page %lld: allowed are %llu pages below address %#llx",
        (printed)record->count, (printed)record->region, (long long)record->offset,
        (printed)pw_page_of(SPAN_MAX_BYTES), (printed)PW_PROGRAM_ADDRESS_END);
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

int pw_program_touch(pw_program *program, uint64_t address, uint64_t num_bytes)
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

/* ---- memory of the message's length */

typedef struct {
    uint64_t num_runs, count[PW_ROOM_RUNS_MAX], state[PW_ROOM_RUNS_MAX];
} room;

static int read_runs(pw_program *program, room *out)
{
    int code = 1;
    for (uint64_t i = 0; code > 0 && i < out->num_runs; i++) {
        code = pw_reader_number(&program->rooms, &out->count[i]);
        if (code > 0) code = pw_reader_number(&program->rooms, &out->state[i]);
        if (code < 0) return code;
        if (code == 0 || out->count[i] > pw_page_of(SPAN_MAX_BYTES) ||
            out->state[i] > PW_PAGE_WRITE_PROTECTED)
            return pw_program_refuse(program, "memory of the message's length: run %llu of pages",
                                     (printed)i);
    }
    return PW_OK;
}

int pw_program_read_room(pw_program *program, pw_numbered *receive)
{
    uint64_t num_runs, region = 0, offset = 0;
    int code = pw_reader_number(&program->rooms, &num_runs);
    if (code > 0) code = pw_reader_number(&program->rooms, &region);
    if (code > 0) code = pw_reader_number(&program->rooms, &offset);
    if (code <= 0) return code; /* not told */
    if (num_runs > PW_ROOM_RUNS_MAX)
        return pw_program_refuse(program, "%llu runs of pages: allowed is %u", (printed)num_runs,
                                 PW_ROOM_RUNS_MAX);
    receive->region = region;
    receive->offset = pw_zigzag(offset);
    code = place_of(program, region, receive->offset, 0, &receive->base.address);
    if (code < 0 || !num_runs) return code;
    room *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    receive->base.memory = (uint8_t *)made; /* which the message layer frees */
    made->num_runs = num_runs;
    return read_runs(program, made);
}

int pw_program_make_room(pw_program *program, const pw_numbered *receive)
{
    const room *made = (const room *)(const void *)receive->base.memory;
    uint64_t page = pw_page_of(receive->base.address);
    int code = PW_OK;
    for (uint64_t i = 0; made && code >= 0 && i < made->num_runs; page += made->count[i++])
        code = set_all(program, page, made->count[i], (uint8_t)made->state[i]);
    return code;
}

/* ---- what records say */

int pw_perform_pages(pw_program *program, const pw_record *record)
{
    uint64_t first_page = 0;
    int code = pages_of(program, record, &first_page);
    if (code < 0) return code;
    if (record->state > PW_PAGE_WRITE_PROTECTED)
        return pw_program_refuse(program, "pages of state %llu", (printed)record->state);
    code = set_all(program, first_page, record->count, (uint8_t)record->state);
    return code == PW_ERR_INVALID ? pw_program_refuse(program, "pages that cannot be set") : code;
}

int pw_perform_unmap(pw_program *program, const pw_record *record)
{
    uint64_t first_page = 0;
    int code = pages_of(program, record, &first_page);
    if (code < 0) return code;
    code = pw_node_unmapped(program->node, first_page, record->count);
    if (code < 0) return pw_program_of_node(program, code);
    return pw_memory_set(pw_node_memory(program->node), first_page, record->count, PW_PAGE_ABSENT);
}

int pw_perform_fork(pw_program *program, const pw_record *record)
{
    (void)record;
    pw_node_forked(program->node);
    return PW_OK;
}
