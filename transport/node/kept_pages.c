#include "transport/node/kept_pages.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_SHIFT 9
#define TABLE_PAGES (UINT64_C(1) << TABLE_SHIFT)

struct pw_kept_table {
    pw_kept_table *next;
    uint64_t number; /* of its pages, without their low bits */
    pw_kept_page pages[TABLE_PAGES];
};

static uint32_t bucket_of(uint64_t number)
{
    return (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 40) % PW_KEPT_BUCKETS;
}

static pw_kept_table *find_table(const pw_kept_pages *kept, uint64_t number)
{
    pw_kept_table *each = kept->buckets[bucket_of(number)];
    while (each && each->number != number) each = each->next;
    return each;
}

void pw_kept_pages_finish(pw_kept_pages *kept)
{
    for (uint32_t i = 0; i < PW_KEPT_BUCKETS; i++)
        for (pw_kept_table *each = kept->buckets[i], *next; each; each = next) {
            next = each->next;
            free(each);
        }
    *kept = (pw_kept_pages){0};
}

int pw_kept_pages_prepare(pw_kept_pages *kept, uint64_t first_page, uint64_t num_pages)
{
    uint64_t last = (first_page + num_pages - 1) >> TABLE_SHIFT;
    for (uint64_t number = first_page >> TABLE_SHIFT; number <= last; number++) {
        if (find_table(kept, number)) continue;
        pw_kept_table *made = calloc(1, sizeof *made);
        if (!made) return PW_ERR_NOMEM;
        pw_kept_table **bucket = &kept->buckets[bucket_of(number)];
        made->number = number;
        made->next = *bucket;
        *bucket = made;
    }
    return PW_OK;
}

static pw_kept_page *place_of(const pw_kept_pages *kept, uint64_t page)
{
    pw_kept_table *table = find_table(kept, page >> TABLE_SHIFT);
    return table ? &table->pages[page & (TABLE_PAGES - 1)] : NULL;
}

pw_kept_page *pw_kept_pages_find(const pw_kept_pages *kept, uint64_t page)
{
    pw_kept_page *found = place_of(kept, page);
    return found && found->is_kept ? found : NULL;
}

static void leave_queue(pw_kept_pages *kept, pw_kept_page *page)
{
    if (page->before) page->before->behind = page->behind;
    else kept->head = page->behind;
    if (page->behind) page->behind->before = page->before;
    else kept->tail = page->before;
    page->before = page->behind = NULL;
    kept->num_idle--;
}

pw_kept_page *pw_kept_pages_use(pw_kept_pages *kept, uint64_t page)
{
    pw_kept_page *used = place_of(kept, page);
    if (!used->is_kept) {
        *used = (pw_kept_page){.page = page, .is_kept = true};
        kept->num_pages++;
    } else if (used->num_users == 0) leave_queue(kept, used);
    used->num_users++;
    return used;
}

void pw_kept_pages_let_go(pw_kept_pages *kept, pw_kept_page *page)
{
    if (--page->num_users) return;
    page->before = kept->tail;
    page->behind = NULL;
    if (kept->tail) kept->tail->behind = page;
    else kept->head = page;
    kept->tail = page;
    kept->num_idle++;
}

void pw_kept_pages_remove(pw_kept_pages *kept, pw_kept_page *page)
{
    if (page->num_users == 0) leave_queue(kept, page);
    page->is_kept = false;
    kept->num_pages--;
}

uint64_t pw_kept_pages_run(const pw_kept_pages *kept, uint64_t max_pages)
{
    uint64_t num_pages = 0;
    for (const pw_kept_page *each = kept->head; each && num_pages < max_pages;
         each = each->behind, num_pages++)
        if (each->page != kept->head->page + num_pages) break;
    return num_pages;
}
