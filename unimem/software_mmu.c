#include "unimem/software_mmu.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The pages, and behind them an entry of each. */
static size_t mapped_bytes(const pw_software_mmu *mmu)
{
    return mmu->num_pages * (PW_PAGE_BYTES + sizeof *mmu->entries);
}

int pw_software_mmu_init(pw_software_mmu *mmu, uint64_t memory_bytes)
{
    *mmu = (pw_software_mmu){.num_pages = memory_bytes / PW_PAGE_BYTES, .next_page = 1};
    mmu->rows = calloc(PW_MMU_ROWS, sizeof(pw_shared_page *));
    mmu->is_used = calloc(mmu->num_pages, sizeof *mmu->is_used);
    void *memory = mmap(NULL, mapped_bytes(mmu), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) {
        mmu->memory = memory;
        mmu->entries = (void *)(mmu->memory + mmu->num_pages * PW_PAGE_BYTES);
    }
    if (mmu->rows && mmu->is_used && mmu->memory) return PW_OK;
    pw_software_mmu_finish(mmu);
    return PW_ERR_NOMEM;
}

void pw_software_mmu_finish(pw_software_mmu *mmu)
{
    if (mmu->memory) munmap(mmu->memory, mapped_bytes(mmu));
    free(mmu->rows);
    free(mmu->is_used);
    *mmu = (pw_software_mmu){.rows = NULL};
}

static pw_shared_page **row_of(const pw_software_mmu *mmu, uint64_t page)
{
    return &mmu->rows[page % PW_MMU_ROWS];
}

/* The first place with so many pages in a row; num_pages of the memory: there is none. */
static uint64_t find_place(const pw_software_mmu *mmu, uint32_t num_pages)
{
    uint64_t run = 0;
    for (uint64_t i = 0; i < mmu->num_pages; i++) {
        run = mmu->is_used[i] ? 0 : run + 1;
        if (run == num_pages) return i + 1 - run;
    }
    return mmu->num_pages;
}

static void remove_entry(pw_software_mmu *mmu, uint64_t number)
{
    pw_shared_page **link = row_of(mmu, number);
    while (*link && (*link)->page != number) link = &(*link)->next;
    pw_shared_page *page = *link;
    if (!page) return;
    *link = page->next;
    mmu->is_used[page - mmu->entries] = false;
    mmu->num_used--;
}

static void add_entry(pw_software_mmu *mmu, uint64_t place, const pw_shared_page *values)
{
    pw_shared_page *page = &mmu->entries[place], **row = row_of(mmu, values->page);
    *page = *values;
    page->memory = mmu->memory + place * PW_PAGE_BYTES;
    page->next = *row;
    *row = page;
    mmu->is_used[place] = true;
    mmu->num_used++;
}

pw_shared_page *pw_software_mmu_allocate(pw_software_mmu *mmu, uint32_t num_pages,
                                         uint64_t allocator, uint32_t denied)
{
    if (num_pages > mmu->num_pages - mmu->num_used) return NULL;
    uint64_t place = find_place(mmu, num_pages);
    if (place == mmu->num_pages) return NULL;
    pw_shared_page values = {.page = mmu->next_page,
                             .first_page = mmu->next_page,
                             .allocator = allocator,
                             .num_pages = num_pages,
                             .denied = denied};
    for (uint32_t i = 0; i < num_pages; i++, values.page++) add_entry(mmu, place + i, &values);
    mmu->next_page += num_pages;
    return &mmu->entries[place];
}

void pw_software_mmu_free(pw_software_mmu *mmu, pw_shared_page *first)
{
    uint64_t number = first->first_page;
    uint32_t num_pages = first->num_pages;
    uint8_t *memory = first->memory;
    size_t num_bytes = (size_t)num_pages * PW_PAGE_BYTES;
    /* Cleared for the next one, who must not see what was there. */
    if (madvise(memory, num_bytes, MADV_DONTNEED) < 0) memset(memory, 0, num_bytes);
    for (uint32_t i = 0; i < num_pages; i++) remove_entry(mmu, number + i);
}

pw_shared_page *pw_software_mmu_find(const pw_software_mmu *mmu, uint64_t page)
{
    pw_shared_page *found = *row_of(mmu, page);
    while (found && found->page != page) found = found->next;
    return found;
}

bool pw_shared_page_allows(const pw_shared_page *page, uint64_t sender, bool is_write)
{
    if (sender == page->allocator) return true;
    bool same_node = pw_sender_node(sender) == pw_sender_node(page->allocator);
    uint32_t right = same_node ? (is_write ? UNIMEM_DENY_NODE_WRITE : UNIMEM_DENY_NODE_READ)
                               : (is_write ? UNIMEM_DENY_OTHERS_WRITE : UNIMEM_DENY_OTHERS_READ);
    return !(page->denied & right);
}
