/* Smoke test of page residency without Python: a mapping with a hole, and the model's frame limit.
 */
#include <assert.h>
#include <sys/mman.h>

#include "native/memory.h"

static void test_host(void)
{
    pw_memory *memory;
    uint8_t state[8];
    uint64_t num_absent;
    assert(pw_memory_create(PW_MEMORY_HOST, NULL, &memory) == PW_OK);
    char *pages =
        mmap(NULL, 8 * PW_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(pages != MAP_FAILED);
    madvise(pages, 8 * PW_PAGE_BYTES, MADV_NOHUGEPAGE);
    uint64_t first_page = pw_page_of((uintptr_t)pages);
    pages[PW_PAGE_BYTES] = 1;
    munmap(pages + 5 * PW_PAGE_BYTES, PW_PAGE_BYTES);
    assert(pw_memory_probe(memory, first_page, 8, state) == PW_OK);
    for (int i = 0; i < 8; i++)
        assert(state[i] == (i == 1 ? PW_PAGE_PRESENT : i == 5 ? PW_PAGE_UNMAPPED : PW_PAGE_ABSENT));
    assert(pw_memory_populate(memory, first_page, 8, 1, &num_absent) == PW_ERR_ADDRESS &&
           num_absent == 4);
    assert(pw_memory_populate(memory, first_page, 5, 1, &num_absent) == PW_OK && num_absent == 0);
    munmap(pages, 8 * PW_PAGE_BYTES);
    pw_memory_destroy(memory);
}

static void test_model(void)
{
    pw_memory *memory;
    uint8_t state;
    const pw_memory_model_options options = {
        .detached = 1, .fault_millionths = 1000000, .frame_limit_pages = 100};
    assert(pw_memory_create(PW_MEMORY_MODEL, &options, &memory) == PW_OK);
    assert(pw_memory_populate(memory, 7, 101, 1, NULL) == PW_OK);
    assert(pw_memory_probe(memory, 7, 1, &state) == PW_OK && state == PW_PAGE_ABSENT);
    assert(pw_memory_probe(memory, 8, 1, &state) == PW_OK && state == PW_PAGE_PRESENT);
    assert(pw_memory_pin(memory, 0, 101, NULL) == PW_ERR_FULL);
    pw_memory_destroy(memory);
}

int main(void)
{
    test_host();
    test_model();
    pw_memory_destroy(NULL);
    return 0;
}
