/* The hash map: rows with several pages, deletion in each place of a chain, memory that ends. */
#include "unimem/software_mmu.h"
#include <assert.h>

#define ME UINT64_C(0x0001)

static pw_software_mmu mmu;

static pw_shared_page *allocate(uint32_t num_pages)
{
    return pw_software_mmu_allocate(&mmu, num_pages, ME, 0);
}

/* One page, and as many after it as bring the next one to the same row. */
static uint64_t page_of_the_same_row(void)
{
    uint64_t number = allocate(1)->page;
    pw_software_mmu_free(&mmu, allocate(PW_MMU_ROWS - 1));
    return number;
}

/* Three pages of one row; `first` goes, then `second`: the others stay. */
static void chain_loses_the_page_that_is_freed(int first, int second)
{
    uint64_t numbers[3];
    assert(pw_software_mmu_init(&mmu, (uint64_t)(PW_MMU_ROWS + 8) * PW_PAGE_BYTES) == PW_OK);
    for (int i = 0; i < 3; i++) {
        numbers[i] = page_of_the_same_row();
        assert(numbers[i] % PW_MMU_ROWS == numbers[0] % PW_MMU_ROWS);
        pw_software_mmu_find(&mmu, numbers[i])->memory[0] = (uint8_t)(i + 1);
    }
    const int order[3] = {first, second, 3 - first - second};
    for (int gone = 0; gone <= 3; gone++) {
        for (int i = 0; i < 3; i++) {
            const int number = order[i];
            const pw_shared_page *page = pw_software_mmu_find(&mmu, numbers[number]);
            assert((page != NULL) == (i >= gone));
            if (page) assert(page->page == numbers[number] && page->memory[0] == number + 1);
        }
        assert(mmu.num_used == (uint64_t)(3 - gone));
        if (gone < 3) pw_software_mmu_free(&mmu, pw_software_mmu_find(&mmu, numbers[order[gone]]));
    }
    pw_software_mmu_finish(&mmu);
}

/* Free pages that are not in a row do not make an allocation. */
static void allocation_is_in_a_row(void)
{
    pw_shared_page *pages[4];
    assert(pw_software_mmu_init(&mmu, 4 * PW_PAGE_BYTES) == PW_OK);
    for (int i = 0; i < 4; i++) pages[i] = allocate(1);
    assert(!allocate(1) && mmu.num_used == 4);
    pw_software_mmu_free(&mmu, pages[0]);
    pw_software_mmu_free(&mmu, pages[2]);
    assert(!allocate(2) && !allocate(3) && mmu.num_used == 2);
    pw_software_mmu_free(&mmu, pages[1]);
    pw_shared_page *three = allocate(3);
    assert(three && three->num_pages == 3 && !allocate(1));
    for (uint64_t i = 0; i < 3; i++)
        assert(pw_software_mmu_find(&mmu, three->page + i)->memory ==
               three->memory + i * PW_PAGE_BYTES);
    pw_software_mmu_finish(&mmu);
}

int main(void)
{
    for (int first = 0; first < 3; first++)
        for (int second = 0; second < 3; second++)
            if (first != second) chain_loses_the_page_that_is_freed(first, second);
    allocation_is_in_a_row();
    return 0;
}
