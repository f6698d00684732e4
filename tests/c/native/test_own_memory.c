/* The emulator's own memory: blocks do not overlap, come back, and lie where they were asked to. */
#include "native/own_memory.h"
#include <assert.h>
#include <stdint.h>
#include <string.h>

#define KEPT 300

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void test_blocks_keep_what_is_written_to_them(void)
{
    struct {
        unsigned char *memory;
        size_t num_bytes;
        unsigned char mark;
    } kept[KEPT] = {0};
    for (uint32_t step = 0; step < 20000; step++) {
        const size_t i = draw() % KEPT;
        for (size_t at = 0; kept[i].memory && at < kept[i].num_bytes; at += 61)
            assert(kept[i].memory[at] == kept[i].mark);
        if (kept[i].memory) pw_own_release(kept[i].memory);
        const size_t alignment = (size_t)1 << draw() % 13;
        kept[i].num_bytes = draw() % (step % 50 ? 700 : 60000);
        kept[i].mark = (unsigned char)step;
        kept[i].memory = pw_own_allocate(kept[i].num_bytes, alignment);
        assert(kept[i].memory && pw_own_is_ours(kept[i].memory));
        assert((uintptr_t)kept[i].memory % (alignment < 16 ? 16 : alignment) == 0);
        assert(pw_own_room(kept[i].memory) >= kept[i].num_bytes);
        memset(kept[i].memory, kept[i].mark, kept[i].num_bytes);
    }
    for (size_t i = 0; i < KEPT; i++)
        if (kept[i].memory) pw_own_release(kept[i].memory);
}

static void test_a_block_that_came_back_is_given_again(void)
{
    void *first = pw_own_allocate(100, 1);
    pw_own_release(first);
    assert(pw_own_allocate(90, 1) == first);
    pw_own_release(first);
}

static void test_less_than_a_fifth_of_a_block_is_not_used(void)
{
    for (size_t num_bytes = 128; num_bytes < PW_OWN_BYTES_MAX - 64;
         num_bytes += 1 + num_bytes / 9) {
        void *memory = pw_own_allocate(num_bytes, 1);
        assert(memory && pw_own_room(memory) >= num_bytes);
        assert(pw_own_room(memory) <= num_bytes + num_bytes / 4 + 32);
        pw_own_release(memory);
    }
}

static void test_long_memory_and_that_of_others_is_not_ours(void)
{
    static char others;
    assert(!pw_own_allocate(PW_OWN_BYTES_MAX, 1));
    assert(!pw_own_allocate(SIZE_MAX, 1));
    assert(!pw_own_allocate(1, SIZE_MAX / 2 + 1));
    assert(!pw_own_is_ours(&others) && !pw_own_is_ours(NULL));
}

int main(void)
{
    test_blocks_keep_what_is_written_to_them();
    test_a_block_that_came_back_is_given_again();
    test_less_than_a_fifth_of_a_block_is_not_used();
    test_long_memory_and_that_of_others_is_not_ours();
    return 0;
}
