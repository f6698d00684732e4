#include "native/mappings.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "native/memory_backend.h"
#include "native/procmap.h"

static const pw_mapping *find_kept(pw_memory *memory, uint64_t page)
{
    pw_mappings *mappings = &memory->mappings;
    if (mappings->entry != memory->entry || mappings->generation != memory->generation) {
        mappings->entry = memory->entry;
        mappings->generation = memory->generation;
        pw_mappings_forget(mappings);
    }
    for (uint32_t i = 0; i < mappings->num_kept; i++)
        if (page >= mappings->kept[i].first_page && page < mappings->kept[i].end_page)
            return &mappings->kept[i];
    return NULL;
}

static void keep(pw_memory *memory, const pw_mapping *mapping)
{
    pw_mappings *mappings = &memory->mappings;
    if (!memory->entry) return; /* nobody says when the program runs */
    mappings->kept[mappings->next_slot++ % PW_MAPPINGS_KEPT] = *mapping;
    if (mappings->num_kept < PW_MAPPINGS_KEPT) mappings->num_kept++;
}

int pw_mappings_find(pw_memory *memory, uint64_t page, pw_mapping *out)
{
    const pw_mapping *kept = find_kept(memory, page);
    if (kept) {
        *out = *kept;
        return PW_OK;
    }
    struct procmap_question question = {
        .size = sizeof question, .flags = COVERING_OR_NEXT, .address = page << PW_PAGE_SHIFT};
    if (ioctl(memory->maps, PROCMAP_QUESTION, &question) != 0)
        return errno == ENOENT ? PW_ERR_ADDRESS : PW_ERR_HOST;
    *out = (pw_mapping){.first_page = question.vma_start >> PW_PAGE_SHIFT,
                        .end_page = question.vma_end >> PW_PAGE_SHIFT,
                        .flags = question.vma_flags,
                        .is_file = question.inode != 0};
    keep(memory, out);
    return PW_OK;
}
