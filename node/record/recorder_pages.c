/* Memory in a recording: where buffers lie, and how the program has left their pages. */
#include "node/record/recorder_parts.h"
#include "native/array.h"
#include <errno.h>
#include <string.h>

/* ---- how a replay will believe them to be */

#define COMING 255 /* beside PW_PAGE_* */

typedef struct {
    pw_leaf leaf;
    uint8_t state[PW_LEAF_PAGES];
} believed;

void pw_believed_finish(pw_believed_pages *pages) { pw_page_leaves_clear(&pages->leaves); }

/* The states from a page on, to the leaf's end. */
static uint8_t *states_of(pw_believed_pages *pages, uint64_t page)
{
    believed *leaf = (believed *)pw_page_leaves_make(&pages->leaves, 0, page, sizeof *leaf);
    return leaf ? leaf->state + page % PW_LEAF_PAGES : NULL;
}

/* What of the range, which is not empty, lies in its first page's leaf; the rest stays in it. */
static pw_page_range take_leaf(pw_page_range *range)
{
    pw_page_range taken = *range;
    const uint64_t room = PW_LEAF_PAGES - range->first_page % PW_LEAF_PAGES;
    if (taken.num_pages > room) taken.num_pages = room;
    range->first_page += taken.num_pages;
    range->num_pages -= taken.num_pages;
    return taken;
}

static bool is_news(uint8_t known, uint8_t found)
{
    return known != found &&
           !(known == COMING && (found == PW_PAGE_ABSENT || found == PW_PAGE_PRESENT));
}

static void note(uint8_t *known, const uint8_t *found, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++)
        if (known[i] != COMING || found[i] != PW_PAGE_ABSENT) known[i] = found[i];
}

static void compare(uint8_t *known, const uint8_t *found, pw_page_range range, pw_page_news *tell,
                    void *context)
{
    for (uint64_t i = 0, end; i < range.num_pages; i = end) {
        for (end = i + 1; end < range.num_pages && found[end] == found[i];) end++;
        uint64_t first = i, last = end;
        while (first < last && !is_news(known[first], found[i])) first++;
        while (first < last && !is_news(known[last - 1], found[i])) last--;
        note(known, found, i, first);
        note(known, found, last, end);
        if (first == last) continue;
        memset(known + first, found[i], last - first);
        tell(context, range.first_page + first, last - first, found[i]);
    }
}

int pw_believed_look(pw_believed_pages *pages, pw_memory *memory, pw_page_range range,
                     pw_page_news *tell, void *context)
{
    uint8_t found[PW_LEAF_PAGES];
    while (range.num_pages) {
        const pw_page_range part = take_leaf(&range);
        uint8_t *known = states_of(pages, part.first_page);
        if (!known) return PW_ERR_NOMEM;
        if (pw_memory_look(memory, part.first_page, part.num_pages, found) < 0) continue;
        compare(known, found, part, tell, context);
    }
    return PW_OK;
}

int pw_believed_set(pw_believed_pages *pages, pw_page_range range, uint8_t state)
{
    while (range.num_pages) {
        const pw_page_range part = take_leaf(&range);
        uint8_t *known = states_of(pages, part.first_page);
        if (!known) return PW_ERR_NOMEM;
        memset(known, state, part.num_pages);
    }
    return PW_OK;
}

void pw_believed_unmap(pw_believed_pages *pages, pw_page_range range)
{
    const uint64_t end_page = range.first_page + range.num_pages;
    for (pw_leaf *each = pages->leaves.first; each; each = each->next) {
        const uint64_t own = pw_leaf_first_page(each);
        const uint64_t begin = own > range.first_page ? own : range.first_page;
        const uint64_t end = own + PW_LEAF_PAGES < end_page ? own + PW_LEAF_PAGES : end_page;
        if (begin < end)
            memset(((believed *)each)->state + begin % PW_LEAF_PAGES, PW_PAGE_ABSENT, end - begin);
    }
}

int pw_believed_use(pw_believed_pages *pages, pw_page_range range)
{
    while (range.num_pages) {
        const pw_page_range part = take_leaf(&range);
        uint8_t *known = states_of(pages, part.first_page);
        if (!known) return PW_ERR_NOMEM;
        bool is_absent = false;
        for (uint64_t i = 0; i < part.num_pages; i++)
            if (known[i] == PW_PAGE_ABSENT) {
                known[i] = COMING;
                is_absent = true;
            }
        if (is_absent && pages->num_coming < PW_COMING_MAX)
            pages->coming[pages->num_coming++] = part;
    }
    return PW_OK;
}

/* Is a page of this part of a leaf still coming? */
static bool is_coming(pw_believed_pages *pages, pw_memory *memory, pw_page_range part,
                      pw_page_news *tell, void *context)
{
    uint8_t found[PW_LEAF_PAGES], *known = states_of(pages, part.first_page);
    bool any = false;
    if (!known || pw_memory_look(memory, part.first_page, part.num_pages, found) < 0) return false;
    for (uint64_t i = 0, end; i < part.num_pages; i = end) {
        for (end = i;
             end < part.num_pages && known[end] == COMING && found[end] == PW_PAGE_PRESENT;)
            known[end++] = PW_PAGE_PRESENT;
        if (end > i && tell) tell(context, part.first_page + i, end - i, PW_PAGE_PRESENT);
        if (end == i) any |= known[end++] == COMING;
    }
    return any;
}

void pw_believed_settle(pw_believed_pages *pages, pw_memory *memory, pw_page_news *tell,
                        void *context)
{
    uint32_t num_left = 0;
    for (uint32_t i = 0; i < pages->num_coming; i++)
        if (is_coming(pages, memory, pages->coming[i], tell, context))
            pages->coming[num_left++] = pages->coming[i];
    pages->num_coming = num_left;
}

#define REGIONS_MAX 65536u
#define REGION_REACH (UINT64_C(1) << 36) /* buffers that are nearer are of one region */
#define FIRST_CAPACITY 64u

/* ---- addresses */

static bool is_of(const pw_record_region *region, uint32_t node, uint64_t address)
{
    return region->node == node && address - region->base + REGION_REACH < 2 * REGION_REACH;
}

/* Made when the address is far from all. */
uint32_t pw_record_region_of(pw_recorder *recorder, uint32_t node, uint64_t address)
{
    const pw_record_region *known = recorder->known;
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
        recorder->known[recorder->num_regions++] = (pw_record_region){node, base};
        pw_record_begin(recorder, recorder->regions);
        pw_record_put(recorder->regions, place);
        pw_record_put(recorder->regions, base);
        pw_record_end(recorder->regions);
    }
    recorder->last_region = place;
    return place;
}

int64_t pw_record_offset_in(const pw_recorder *recorder, uint32_t region, uint64_t address)
{
    return (int64_t)(address - (recorder->num_regions ? recorder->known[region].base : 0));
}

void pw_record_put_place(pw_recorder *recorder, pw_pwt_open_chunk *out, uint32_t node, pw_span span)
{
    const uint32_t region = span.num_bytes ? pw_record_region_of(recorder, node, span.address) : 0;
    pw_record_put(out, region);
    pw_record_put_signed(out,
                         span.num_bytes ? pw_record_offset_in(recorder, region, span.address) : 0);
}

void pw_record_put_address(pw_recorder *recorder, pw_pwt_open_chunk *out, pw_span span)
{
    pw_record_put_place(recorder, out, recorder->rank, span);
}

static void put_pages(pw_recorder *recorder, pw_pwt_open_chunk *out, uint64_t first_page,
                      uint64_t num_pages)
{
    const uint64_t address = first_page << PW_PAGE_SHIFT;
    const uint32_t region = pw_record_region_of(recorder, recorder->rank, address);
    pw_record_put(out, region);
    pw_record_put_signed(out, pw_record_offset_in(recorder, region, address) / PW_PAGE_BYTES);
    pw_record_put(out, num_pages);
}

/* ---- pages */

/* The program has left pages so, which is news. */
static void put_news(void *context, uint64_t first_page, uint64_t num_pages, uint8_t state)
{
    pw_recorder *recorder = context;
    pw_pwt_open_chunk *out = pw_record_certain(recorder, PW_OP_PAGES);
    put_pages(recorder, out, first_page, num_pages);
    pw_record_put(out, state);
}

/* Of what has bytes. */
static pw_page_range pages_of(pw_span span)
{
    const uint64_t first_page = pw_page_of(span.address);
    return (pw_page_range){first_page,
                           pw_page_of(span.address + span.num_bytes - 1) + 1 - first_page};
}

/* A mapping that went and came anew took the pins along, and has pages that look as before. */
static void look_at_pins(pw_recorder *recorder, pw_page_range range)
{
    const uint64_t end_page = range.first_page + range.num_pages;
    for (uint64_t page = range.first_page, run;
         (run = pw_page_counts_next(recorder->pinned, &page, end_page)) > 0; page += run) {
        if (pw_memory_is_pinned(recorder->memory, page, run) != 0) continue;
        put_news(recorder, page, run, PW_PAGE_ABSENT);
        pw_believed_unmap(&recorder->pages, (pw_page_range){page, run});
    }
}

void pw_record_look(pw_recorder *recorder, pw_span span)
{
    const pw_page_range range = pages_of(span);
    if (recorder->error) return;
    look_at_pins(recorder, range);
    if (pw_believed_look(&recorder->pages, recorder->memory, range, put_news, recorder) < 0)
        recorder->error = ENOMEM;
}

void pw_record_tell_touched(pw_recorder *recorder)
{
    if (!recorder->num_sources)
        pw_believed_settle(&recorder->pages, recorder->memory, put_news, recorder);
}

void pw_recorder_uses(pw_recorder *recorder, pw_span span)
{
    pw_record_tell_touched(recorder);
    pw_record_look(recorder, span);
    if (recorder->error) return;
    if (pw_believed_use(&recorder->pages, pages_of(span)) < 0) recorder->error = ENOMEM;
}

void pw_recorder_brought(pw_recorder *recorder)
{
    pw_believed_settle(&recorder->pages, recorder->memory, NULL, NULL);
}

void pw_recorder_landed(pw_recorder *recorder, pw_span span)
{
    if (recorder->error || !span.num_bytes) return;
    if (pw_believed_set(&recorder->pages, pages_of(span), PW_PAGE_PRESENT) < 0)
        recorder->error = ENOMEM;
}

void pw_recorder_unmapped(pw_recorder *recorder, uint64_t first_page, uint64_t num_pages)
{
    pw_believed_unmap(&recorder->pages, (pw_page_range){first_page, num_pages});
    put_pages(recorder, pw_record_certain(recorder, PW_OP_UNMAP), first_page, num_pages);
}

void pw_recorder_forked(pw_recorder *recorder) { pw_record_certain(recorder, PW_OP_FORK); }
