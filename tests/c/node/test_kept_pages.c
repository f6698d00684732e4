/* Kept pages against a list: who uses each, and the queue of those that nobody does. */
#include "node/strategies/kept_pins.h"

#include <assert.h>
#include <string.h>

#define NUM_PAGES 1200u /* of three tables */
#define FIRST_PAGE UINT64_C(0x7f1234500)

static uint32_t next_random(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

typedef struct {
    uint32_t num_users[NUM_PAGES], queue[NUM_PAGES], num_idle, num_pages;
    bool is_kept[NUM_PAGES];
} list;

static void leave(list *list, uint32_t page)
{
    for (uint32_t i = 0; i < list->num_idle; i++) {
        if (list->queue[i] != page) continue;
        list->num_idle--;
        memmove(&list->queue[i], &list->queue[i + 1], (list->num_idle - i) * sizeof *list->queue);
        return;
    }
}

static void check(const pw_kept_pages *kept, const list *list)
{
    assert(kept->num_pages == list->num_pages && kept->num_idle == list->num_idle);
    const pw_kept_page *each = kept->head;
    uint32_t run = 0;
    for (uint32_t i = 0; i < list->num_idle; i++, each = each->behind)
        assert(each->page == FIRST_PAGE + list->queue[i]);
    assert(!each);
    while (run < list->num_idle && run < 7 && list->queue[run] == list->queue[0] + run) run++;
    assert(pw_kept_pages_run(kept, 7) == run);
}

static void test_pages_and_queue_are_those_of_a_list(void)
{
    pw_kept_pages kept = {0};
    static list list;
    uint32_t random = 3;
    assert(!pw_kept_pages_find(&kept, FIRST_PAGE));
    assert(pw_kept_pages_prepare(&kept, FIRST_PAGE, NUM_PAGES) == PW_OK);
    for (int round = 0; round < 20000; round++) {
        uint32_t page = next_random(&random) / 7 % 64 * (NUM_PAGES / 64);
        page += next_random(&random) / 7 % 3; /* some follow each other */
        uint32_t what = next_random(&random) / 65536 % 8;
        pw_kept_page *found = pw_kept_pages_find(&kept, FIRST_PAGE + page);
        assert((found != NULL) == list.is_kept[page]);
        if (found) assert(found->num_users == list.num_users[page]);
        if (what < 4) {
            if (!list.num_users[page]++) leave(&list, page);
            list.num_pages += !list.is_kept[page];
            list.is_kept[page] = true;
            assert(pw_kept_pages_use(&kept, FIRST_PAGE + page)->page == FIRST_PAGE + page);
        } else if (what < 7 && found && found->num_users) {
            pw_kept_pages_let_go(&kept, found);
            if (!--list.num_users[page]) list.queue[list.num_idle++] = page;
        } else if (what == 7 && found) {
            pw_kept_pages_remove(&kept, found);
            leave(&list, page);
            list.is_kept[page] = false;
            list.num_users[page] = 0;
            list.num_pages--;
        }
        check(&kept, &list);
    }
    pw_kept_pages_finish(&kept);
    assert(!kept.num_pages && !pw_kept_pages_find(&kept, FIRST_PAGE));
}

static void test_a_page_that_comes_again_is_a_new_one(void)
{
    pw_kept_pages kept = {0};
    assert(pw_kept_pages_prepare(&kept, 511, 2) == PW_OK); /* on both sides of an edge */
    pw_kept_page *page = pw_kept_pages_use(&kept, 512);
    page->is_good = true;
    page->ready_ns = 7;
    assert(pw_kept_pages_use(&kept, 512)->is_good && page->num_users == 2);
    pw_kept_pages_remove(&kept, page);
    page = pw_kept_pages_use(&kept, 512);
    assert(!page->is_good && page->ready_ns == 0 && page->num_users == 1);
    pw_kept_pages_finish(&kept);
}

int main(void)
{
    test_pages_and_queue_are_those_of_a_list();
    test_a_page_that_comes_again_is_a_new_one();
    return 0;
}
