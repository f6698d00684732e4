#include "smmu/walk.h"

int pw_walk_state(pw_walk *walk, pw_memory *memory, uint64_t page, uint64_t end_page)
{
    if (page - walk->first_page >= walk->num_pages) {
        uint64_t num_pages = end_page > page ? end_page - page : 1;
        if (num_pages > PW_WALK_PAGES) num_pages = PW_WALK_PAGES;
        walk->num_pages = 0;
        int code = pw_memory_probe(memory, page, num_pages, walk->state);
        if (code == PW_OK) code = pw_memory_check_access(memory, page, num_pages, walk->for_write, walk->state);
        if (code < 0) return code;
        walk->first_page = page;
        walk->num_pages = num_pages;
    }
    return walk->state[page - walk->first_page];
}
