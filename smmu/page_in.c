#include "smmu/page_in.h"
#include <stdlib.h>

#define FIRST_CAPACITY 1024u

void pw_page_in_init(pw_page_in *table) { *table = (pw_page_in){0}; }

void pw_page_in_destroy(pw_page_in *table)
{
    free(table->pages);
    free(table->present_ns);
    free(table->is_permission);
    pw_page_in_init(table);
}

static uint32_t home(const pw_page_in *table, uint64_t page)
{
    return (uint32_t)(page * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (table->capacity - 1);
}

/* Slot of the page, or the empty one where it would go. */
static uint32_t find(const pw_page_in *table, uint64_t page)
{
    uint32_t slot = home(table, page);
    while (table->pages[slot] != 0 && table->pages[slot] != page) slot = (slot + 1) & (table->capacity - 1);
    return slot;
}

static int grow(pw_page_in *table)
{
    pw_page_in bigger = {.capacity = table->capacity ? 2 * table->capacity : FIRST_CAPACITY};
    bigger.pages = calloc(bigger.capacity, sizeof *bigger.pages);
    bigger.present_ns = malloc(bigger.capacity * sizeof *bigger.present_ns);
    bigger.is_permission = malloc(bigger.capacity * sizeof *bigger.is_permission);
    if (!bigger.pages || !bigger.present_ns || !bigger.is_permission) {
        pw_page_in_destroy(&bigger);
        return PW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < table->capacity; i++) {
        if (table->pages[i] == 0) continue;
        uint32_t slot = find(&bigger, table->pages[i]);
        bigger.pages[slot] = table->pages[i];
        bigger.present_ns[slot] = table->present_ns[i];
        bigger.is_permission[slot] = table->is_permission[i];
    }
    bigger.num_entries = table->num_entries;
    pw_page_in_destroy(table);
    *table = bigger;
    return PW_OK;
}

int pw_page_in_add(pw_page_in *table, uint64_t page, pw_time present_ns, bool is_permission)
{
    if (2 * (table->num_entries + 1) > table->capacity) {
        int code = grow(table);
        if (code < 0) return code;
    }
    uint32_t slot = find(table, page);
    if (table->pages[slot] == 0) {
        table->pages[slot] = page;
        table->num_entries++;
    }
    table->present_ns[slot] = present_ns;
    table->is_permission[slot] = is_permission;
    return PW_OK;
}

pw_time pw_page_in_present_ns(const pw_page_in *table, uint64_t page)
{
    if (!table->num_entries) return INT64_MIN;
    uint32_t slot = find(table, page);
    return table->pages[slot] ? table->present_ns[slot] : INT64_MIN;
}

bool pw_page_in_is_permission(const pw_page_in *table, uint64_t page)
{
    if (!table->num_entries) return false;
    uint32_t slot = find(table, page);
    return table->pages[slot] && table->is_permission[slot];
}

/* Close the gap that a removed entry leaves: later ones of the run move up when their home allows. */
static void remove_slot(pw_page_in *table, uint32_t slot)
{
    uint32_t mask = table->capacity - 1;
    for (uint32_t next = (slot + 1) & mask; table->pages[next] != 0; next = (next + 1) & mask) {
        uint32_t distance = (next - home(table, table->pages[next])) & mask;
        if (distance < ((next - slot) & mask)) continue;
        table->pages[slot] = table->pages[next];
        table->present_ns[slot] = table->present_ns[next];
        table->is_permission[slot] = table->is_permission[next];
        slot = next;
    }
    table->pages[slot] = 0;
    table->num_entries--;
}

void pw_page_in_forget(pw_page_in *table, uint64_t first_page, uint64_t num_pages)
{
    for (uint64_t page = first_page; table->num_entries && page < first_page + num_pages; page++) {
        uint32_t slot = find(table, page);
        if (table->pages[slot]) remove_slot(table, slot);
    }
}
