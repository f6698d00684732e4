#include "native/memory_backend.h"
#include "native/memory.h"
#include <string.h>

typedef struct {
    pw_leaf leaf;
    uint64_t there[PW_LEAF_PAGES / 64]; /* a bit a page */
} resident_leaf;

static resident_leaf *of_leaf(pw_leaf *leaf) { return (resident_leaf *)(void *)leaf; }

static bool is_there(const uint8_t *state, uint64_t idx)
{
    return !state || (state[idx] != PW_PAGE_ABSENT && state[idx] != PW_PAGE_UNMAPPED);
}

/* *num_pages: of all that are there. */
static void set_bit(resident_leaf *leaf, uint64_t page, bool there, uint64_t *num_pages)
{
    uint64_t *word = &leaf->there[page % PW_LEAF_PAGES / 64], bit = UINT64_C(1) << page % 64;
    bool was_there = (*word & bit) != 0;
    if (was_there == there) return;
    *word ^= bit;
    if (there) ++*num_pages;
    else --*num_pages;
}

/* Pages of one leaf, which only one that is there makes. */
static void note_in_leaf(pw_resident *resident, uint64_t first_page, uint64_t num_pages,
                         const uint8_t *state, uint64_t *total)
{
    resident_leaf *leaf = of_leaf(pw_page_leaves_find(&resident->leaves, 0, first_page));
    for (uint64_t i = 0; i < num_pages; i++) {
        bool there = is_there(state, i);
        if (!leaf && there)
            leaf = of_leaf(pw_page_leaves_make(&resident->leaves, 0, first_page, sizeof *leaf));
        if (leaf) set_bit(leaf, first_page + i, there, total);
    }
}

void pw_resident_note(pw_resident *resident, uint64_t first_page, uint64_t num_pages,
                      const uint8_t *state)
{
    uint64_t total = resident->count.num_pages, num_now;
    for (uint64_t done = 0; done < num_pages; done += num_now) {
        uint64_t page = first_page + done;
        num_now = PW_LEAF_PAGES - page % PW_LEAF_PAGES;
        if (num_now > num_pages - done) num_now = num_pages - done;
        note_in_leaf(resident, page, num_now, state ? state + done : NULL, &total);
    }
    pw_pinned_set(&resident->count, total, resident->now_ns);
}

void pw_resident_gone(pw_resident *resident, uint64_t page)
{
    const uint8_t state = PW_PAGE_ABSENT;
    pw_resident_note(resident, page, 1, &state);
}

/* A range can be longer than all leaves together. */
static void all_leaves_gone(pw_resident *resident, uint64_t first_page, uint64_t num_pages)
{
    uint64_t total = resident->count.num_pages;
    for (pw_leaf *each = resident->leaves.first; each; each = each->next) {
        uint64_t leaf_page = pw_leaf_first_page(each);
        if (leaf_page + PW_LEAF_PAGES <= first_page ||
            (leaf_page > first_page && leaf_page - first_page >= num_pages))
            continue;
        for (uint64_t page = leaf_page; page < leaf_page + PW_LEAF_PAGES; page++)
            if (page - first_page < num_pages) set_bit(of_leaf(each), page, false, &total);
    }
    pw_pinned_set(&resident->count, total, resident->now_ns);
}

void pw_resident_range_gone(pw_resident *resident, uint64_t first_page, uint64_t num_pages)
{
    uint8_t state[PW_LEAF_PAGES];
    memset(state, PW_PAGE_ABSENT, sizeof state);
    if (num_pages <= PW_LEAF_PAGES) pw_resident_note(resident, first_page, num_pages, state);
    else all_leaves_gone(resident, first_page, num_pages);
}

void pw_resident_clear(pw_resident *resident)
{
    pw_page_leaves_clear(&resident->leaves);
    *resident = (pw_resident){0};
}
