#include "smmu/residency.h"
#include "native/memory_backend.h"
#include <stdlib.h>
#include <string.h>

void pw_residency_finish(pw_residency *walk)
{
    free(walk->many);
    walk->many = NULL;
    walk->num_pages = 0;
}

/* Every page was found in a mapping that allows the access. An absent one tells nothing of that. */
static bool is_all_allowed(const uint8_t *state, uint64_t num_pages)
{
    return !memchr(state, PW_PAGE_ABSENT, num_pages) &&
           !memchr(state, PW_PAGE_UNMAPPED, num_pages) &&
           !memchr(state, PW_PAGE_FORBIDDEN, num_pages);
}

static uint32_t next_window(const uint8_t *state, uint64_t num_pages, uint32_t window_pages)
{
    for (uint64_t i = 0; i < num_pages; i++)
        if (state[i] != PW_PAGE_PRESENT) return PW_RESIDENCY_PAGES_MIN;
    uint32_t grown = window_pages * PW_RESIDENCY_GROWTH;
    return grown < PW_RESIDENCY_PAGES ? grown : PW_RESIDENCY_PAGES;
}

static int probe_window(pw_residency *walk, pw_memory *memory, uint64_t page, uint64_t end_page)
{
    uint64_t num_pages = end_page > page ? end_page - page : 1;
    uint64_t window = walk->window_pages ? walk->window_pages : PW_RESIDENCY_PAGES;
    if (num_pages > window) num_pages = window;
    walk->num_pages = walk->num_mapped = 0;
    if (num_pages > PW_RESIDENCY_FEW && !walk->many) walk->many = malloc(PW_RESIDENCY_PAGES);
    if (num_pages > PW_RESIDENCY_FEW && !walk->many) return PW_ERR_NOMEM;
    uint8_t *states = walk->many ? walk->many : walk->few;
    int code = pw_memory_walk(memory, page, num_pages, walk->for_write, states);
    if (code < 0) return code;
    walk->first_page = page;
    walk->num_pages = num_pages;
    walk->is_fresh = true;
    walk->generation = memory->generation;
    walk->window_pages = next_window(states, num_pages, (uint32_t)window);
    walk->may_vanish = pw_memory_may_vanish(memory, page, num_pages);
    if (memory->is_model || !is_all_allowed(states, num_pages))
        return PW_OK; /* a model knows nothing of the host */
    walk->entry = memory->entry;
    walk->mapped_first = page;
    walk->num_mapped = num_pages;
    return PW_OK;
}

/* Nothing but this call may come between the mapping and its use. */
int pw_residency_check_mapping(pw_residency *walk, pw_memory *memory, uint64_t page)
{
    if (walk->entry == memory->entry && page - walk->mapped_first < walk->num_mapped) return PW_OK;
    int code =
        pw_memory_mapping(memory, page, walk->for_write, &walk->mapped_first, &walk->num_mapped);
    walk->entry = memory->entry;
    if (code < 0) walk->num_mapped = 0;
    return code;
}

/* State of a page; probes the window [page, min(page + PW_RESIDENCY_PAGES, end_page)) when it is
 * outside. PW_PAGE_*, PW_ERR_HOST or PW_ERR_NOMEM. */
static int residency_state(pw_residency *walk, pw_memory *memory, uint64_t page, uint64_t end_page)
{
    if (page - walk->first_page >= walk->num_pages || walk->generation != memory->generation) {
        int code = probe_window(walk, memory, page, end_page);
        if (code < 0) return code;
    }
    uint8_t *state = (walk->many ? walk->many : walk->few) + (page - walk->first_page);
    if (*state != PW_PAGE_UNMAPPED && *state != PW_PAGE_FORBIDDEN) {
        int code = pw_residency_check_mapping(walk, memory, page);
        if (code == PW_ERR_ADDRESS) *state = PW_PAGE_UNMAPPED;
        else if (code == PW_ERR_PROTECTION && *state != PW_PAGE_ABSENT)
            *state = PW_PAGE_FORBIDDEN; /* else the page-in will tell */
        else if (code == PW_ERR_HOST) return code;
    }
    return *state;
}

int pw_residency_state_now(pw_residency *walk, pw_memory *memory, uint64_t page, uint64_t end_page,
                           bool is_further)
{
    if (!is_further) walk->is_fresh = false;
    int state = residency_state(walk, memory, page, end_page);
    if (state < 0 || state == PW_PAGE_PRESENT || state == PW_PAGE_UNMAPPED || walk->is_fresh)
        return state;
    pw_residency_forget(walk);
    return residency_state(walk, memory, page, end_page);
}
