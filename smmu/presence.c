#include "smmu/presence.h"
#include <stdlib.h>

#define FIRST_CAPACITY 16u
#define GROUP_PAGES 8u

void pw_presence_init(pw_presence *table, const pw_cpu *cpu) { *table = (pw_presence){.cpu = cpu}; }

void pw_presence_destroy(pw_presence *table)
{
    free(table->entries);
    pw_presence_init(table, table->cpu);
}

/* Neighbours stay together, since whoever asks for one asks for the next. */
static uint32_t home(const pw_presence *table, uint64_t page)
{
    uint64_t group = page / GROUP_PAGES * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    return (uint32_t)(group * GROUP_PAGES + page % GROUP_PAGES) & (table->capacity - 1);
}

/* The page's entry, or the empty one where it would go. */
static pw_presence_entry *find(const pw_presence *table, uint64_t page)
{
    uint32_t slot = home(table, page);
    while (table->entries[slot].page != 0 && table->entries[slot].page != page)
        slot = (slot + 1) & (table->capacity - 1);
    return &table->entries[slot];
}

static int grow(pw_presence *table)
{
    pw_presence bigger = *table;
    bigger.capacity = table->capacity ? 2 * table->capacity : FIRST_CAPACITY;
    bigger.entries = calloc(bigger.capacity, sizeof *bigger.entries);
    if (!bigger.entries) return PW_ERR_NOMEM;
    for (uint32_t i = 0; i < table->capacity; i++)
        if (table->entries[i].page) *find(&bigger, table->entries[i].page) = table->entries[i];
    free(table->entries);
    *table = bigger;
    return PW_OK;
}

int pw_presence_add(pw_presence *table, uint64_t page, pw_cpu_instant present, bool is_permission)
{
    if (2 * (table->num_entries + 1) > table->capacity) {
        int code = grow(table);
        if (code < 0) return code;
    }
    pw_presence_entry *entry = find(table, page);
    table->num_entries += entry->page == 0;
    *entry = (pw_presence_entry){.page = page, .present = present, .is_permission = is_permission};
    return PW_OK;
}

void pw_presence_settle(pw_presence *table, uint64_t page, uint32_t span)
{
    if (!table->num_entries) return;
    pw_presence_entry *entry = find(table, page);
    if (entry->page && entry->present.span == span)
        entry->present = (pw_cpu_instant){.ns = pw_cpu_time(table->cpu, entry->present)};
}

pw_time pw_presence_present_ns(const pw_presence *table, uint64_t page)
{
    if (!table->num_entries) return INT64_MIN;
    const pw_presence_entry *entry = find(table, page);
    return entry->page ? pw_cpu_time(table->cpu, entry->present) : INT64_MIN;
}

bool pw_presence_is_permission(const pw_presence *table, uint64_t page)
{
    if (!table->num_entries) return false;
    const pw_presence_entry *entry = find(table, page);
    return entry->page && entry->is_permission;
}

/* Close the gap that a removed entry leaves: later ones of the run move up when their home allows.
 */
static void remove_entry(pw_presence *table, uint32_t slot)
{
    uint32_t mask = table->capacity - 1;
    for (uint32_t next = (slot + 1) & mask; table->entries[next].page != 0;
         next = (next + 1) & mask) {
        uint32_t distance = (next - home(table, table->entries[next].page)) & mask;
        if (distance < ((next - slot) & mask)) continue;
        table->entries[slot] = table->entries[next];
        slot = next;
    }
    table->entries[slot].page = 0;
    table->num_entries--;
}

void pw_presence_forget(pw_presence *table, uint64_t first_page, uint64_t num_pages)
{
    for (uint64_t page = first_page; table->num_entries && page < first_page + num_pages; page++) {
        pw_presence_entry *entry = find(table, page);
        if (entry->page) remove_entry(table, (uint32_t)(entry - table->entries));
    }
}
