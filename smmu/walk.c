#include "smmu/walk.h"
#include "native/memory_backend.h"
#include <string.h>

/* Every page was found in a mapping that allows the access. An absent one tells nothing of that. */
static bool is_all_allowed(const uint8_t *state, uint64_t num_pages)
{
    return !memchr(state, PW_PAGE_ABSENT, num_pages) && !memchr(state, PW_PAGE_UNMAPPED, num_pages) &&
           !memchr(state, PW_PAGE_FORBIDDEN, num_pages);
}

static int probe_window(pw_walk *walk, pw_memory *memory, uint64_t page, uint64_t end_page)
{
    uint64_t num_pages = end_page > page ? end_page - page : 1;
    if (num_pages > PW_WALK_PAGES) num_pages = PW_WALK_PAGES;
    walk->num_pages = walk->num_mapped = 0;
    int code = pw_memory_walk(memory, page, num_pages, walk->for_write, walk->state);
    if (code < 0) return code;
    walk->first_page = page;
    walk->num_pages = num_pages;
    walk->generation = memory->generation;
    if (memory->is_model || !is_all_allowed(walk->state, num_pages)) return PW_OK;  /* a model knows nothing of the host */
    walk->entry = memory->entry;
    walk->mapped_first = page;
    walk->num_mapped = num_pages;
    return PW_OK;
}

/* Nothing but this call may come between the mapping and its use. */
int pw_walk_check_mapping(pw_walk *walk, pw_memory *memory, uint64_t page)
{
    if (walk->entry == memory->entry && page - walk->mapped_first < walk->num_mapped) return PW_OK;
    int code = pw_memory_mapping(memory, page, walk->for_write, &walk->mapped_first, &walk->num_mapped);
    walk->entry = memory->entry;
    if (code < 0) walk->num_mapped = 0;
    return code;
}

int pw_walk_state(pw_walk *walk, pw_memory *memory, uint64_t page, uint64_t end_page)
{
    if (page - walk->first_page >= walk->num_pages || walk->generation != memory->generation) {
        int code = probe_window(walk, memory, page, end_page);
        if (code < 0) return code;
    }
    uint8_t *state = &walk->state[page - walk->first_page];
    if (*state != PW_PAGE_UNMAPPED && *state != PW_PAGE_FORBIDDEN) {
        int code = pw_walk_check_mapping(walk, memory, page);
        if (code == PW_ERR_ADDRESS) *state = PW_PAGE_UNMAPPED;
        else if (code == PW_ERR_PROTECTION && *state != PW_PAGE_ABSENT) *state = PW_PAGE_FORBIDDEN;   /* else the page-in will tell */
        else if (code == PW_ERR_HOST) return code;
    }
    return *state;
}

int pw_walk_state_now(pw_walk *walk, pw_memory *memory, uint64_t page, uint64_t end_page)
{
    int state = pw_walk_state(walk, memory, page, end_page);
    if (state < 0 || state == PW_PAGE_PRESENT || state == PW_PAGE_UNMAPPED) return state;
    pw_walk_forget(walk);
    return pw_walk_state(walk, memory, page, end_page);
}
