#include "node/record/believed_pages.h"
#include <string.h>

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
