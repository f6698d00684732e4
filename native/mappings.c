/* Mappings and huge pages of this process, as its kernel was asked for them last. */
#include "native/memory_backend.h"
#include <errno.h>
#include <sys/ioctl.h>
#include <string.h>

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

/* Huge pages of the host: memory_backend.h. */

/* linux/fs.h, since Linux 6.7. */
struct pagemap_region {
    uint64_t start, end, categories;
};
struct pagemap_scan {
    uint64_t size, flags, start, end, walk_end, regions, num_regions, max_pages;
    uint64_t inverted, mask, any_of_mask, returned_mask;
};
_Static_assert(sizeof(struct pagemap_scan) == 96, "struct pm_scan_arg of the kernel");
#define PAGEMAP_SCAN_IOCTL _IOWR('f', 16, struct pagemap_scan)
#define SCAN_HUGE ((uint64_t)1 << 6)

/* Regions of huge pages in the range: 0 or 1, the first one, or -1. */
static int scan_range(const pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                      struct pagemap_region *found)
{
    struct pagemap_scan scan = {
        .size = sizeof scan,
        .start = first_page << PW_PAGE_SHIFT,
        .end = (first_page + num_pages) << PW_PAGE_SHIFT,
        .regions = (uint64_t)(uintptr_t)found,
        .num_regions = 1,
        .mask = SCAN_HUGE,
        .returned_mask = SCAN_HUGE,
    };
    return memory->pagemap < 0 ? -1 : ioctl(memory->pagemap, PAGEMAP_SCAN_IOCTL, &scan);
}

/* Pages at the start of the range that huge entries of the page table map. */
static uint64_t num_huge(const pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    struct pagemap_region found;
    if (scan_range(memory, first_page, num_pages, &found) != 1 ||
        found.start != first_page << PW_PAGE_SHIFT)
        return 0;
    return (found.end - found.start) >> PW_PAGE_SHIFT;
}

bool pw_memory_scans(const pw_memory *memory)
{
    struct pagemap_region found;
    return scan_range(memory, (uint64_t)(uintptr_t)&found >> PW_PAGE_SHIFT, 1, &found) >= 0;
}

static uint64_t region_of(uint64_t page) { return page & ~(uint64_t)(PW_HUGE_PAGES - 1); }

/* The page itself first: where it has an entry of its own the kernel would look at all 512. */
bool pw_memory_is_huge(const pw_memory *memory, uint64_t page)
{
    return num_huge(memory, page, 1) == 1 &&
           num_huge(memory, region_of(page), PW_HUGE_PAGES) == PW_HUGE_PAGES;
}

/* Only where the program announces itself (pw_memory_enter): it may give a region back, and then a
 * huge page may come. */
static bool is_small(const pw_memory *memory, uint64_t page)
{
    const pw_small_regions *known = &memory->small_regions;
    return memory->entry && known->entry == memory->entry &&
           known->generation == memory->generation && page >= known->first_page &&
           page < known->end_page;
}

static void note_small(pw_memory *memory, uint64_t page)
{
    pw_small_regions *known = &memory->small_regions;
    uint64_t region_page = region_of(page);
    bool continues = known->entry == memory->entry && known->generation == memory->generation &&
                     known->end_page == region_page;
    if (!continues) known->first_page = region_page;
    known->end_page = region_page + PW_HUGE_PAGES;
    known->entry = memory->entry;
    known->generation = memory->generation;
}

static bool is_any_changed(const uint8_t *effects, uint64_t num_pages)
{
    for (uint64_t i = 0; i < num_pages; i++)
        if (effects[i] != PW_EFFECT_NONE) return true;
    return false;
}

void pw_memory_find_huge(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                         uint8_t *effects)
{
    for (uint64_t i = 0, end; i < num_pages; i = end) {
        uint64_t page = first_page + i;
        end = region_of(page) + PW_HUGE_PAGES - first_page;
        if (end > num_pages) end = num_pages;
        if (is_small(memory, page)) continue;
        bool is_new = effects[i] == PW_EFFECT_NEW;
        /* where a page was there and another came, each has an entry */
        bool is_mixed = effects[i] == PW_EFFECT_NONE && is_any_changed(effects + i, end - i);
        if (is_new && pw_memory_is_huge(memory, page))
            memset(effects + i + 1, PW_EFFECT_ALONG, end - i - 1);
        else if (is_new || is_mixed) note_small(memory, page);
    }
}

void pw_memory_huge_extent(pw_memory *memory, uint64_t page, uint64_t *first_page,
                           uint64_t *num_pages)
{
    if (is_small(memory, page) || !pw_memory_is_huge(memory, page)) return;
    *first_page = region_of(page);
    *num_pages = PW_HUGE_PAGES;
}
