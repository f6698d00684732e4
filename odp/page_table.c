#include "odp/page_table.h"
#include <stdlib.h>

static uint32_t bucket(uint16_t pdid, uint64_t leaf)
{
    return (uint32_t)(((leaf << 16 | pdid) * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % PW_ODP_BUCKETS;
}

static pw_odp_leaf *find_leaf(const pw_odp_table *table, uint16_t pdid, uint64_t page)
{
    uint64_t number = page >> PW_ODP_LEAF_SHIFT;
    pw_odp_leaf *leaf = table->buckets[bucket(pdid, number)];
    while (leaf && (leaf->leaf != number || leaf->pdid != pdid)) leaf = leaf->next;
    return leaf;
}

static pw_odp_leaf *make_leaf(pw_odp_table *table, uint16_t pdid, uint64_t page)
{
    pw_odp_leaf *leaf = find_leaf(table, pdid, page);
    if (leaf || !(leaf = malloc(sizeof *leaf))) return leaf;
    leaf->leaf = page >> PW_ODP_LEAF_SHIFT;
    leaf->pdid = pdid;
    for (uint32_t i = 0; i < PW_ODP_LEAF_PAGES; i++)
        leaf->entries[i] = (pw_odp_entry){.ready_ns = PW_NEVER};
    pw_odp_leaf **home = &table->buckets[bucket(pdid, leaf->leaf)];
    leaf->next = *home;
    *home = leaf;
    return leaf;
}

void pw_odp_table_destroy(pw_odp_table *table)
{
    for (uint32_t i = 0; i < PW_ODP_BUCKETS; i++)
        while (table->buckets[i]) {
            pw_odp_leaf *leaf = table->buckets[i];
            table->buckets[i] = leaf->next;
            free(leaf);
        }
}

const pw_odp_entry *pw_odp_table_find(const pw_odp_table *table, uint16_t pdid, uint64_t page)
{
    const pw_odp_leaf *leaf = find_leaf(table, pdid, page);
    const pw_odp_entry *entry = leaf ? &leaf->entries[page % PW_ODP_LEAF_PAGES] : NULL;
    return entry && entry->ready_ns != PW_NEVER ? entry : NULL;
}

int pw_odp_table_enter(pw_odp_table *table, uint16_t pdid, uint64_t page, pw_odp_entry entry)
{
    pw_odp_leaf *leaf = make_leaf(table, pdid, page);
    if (!leaf) return PW_ERR_NOMEM;
    pw_odp_entry *place = &leaf->entries[page % PW_ODP_LEAF_PAGES];
    table->num_entries += place->ready_ns == PW_NEVER;
    if (table->num_entries > table->peak_entries) table->peak_entries = table->num_entries;
    *place = entry;
    return PW_OK;
}

static uint64_t drop_of_leaf(pw_odp_table *table, pw_odp_leaf *leaf, uint64_t first_page,
                             uint64_t end_page)
{
    uint64_t base = leaf->leaf << PW_ODP_LEAF_SHIFT, num_dropped = 0;
    for (uint32_t i = 0; i < PW_ODP_LEAF_PAGES; i++) {
        if (base + i < first_page || base + i >= end_page) continue;
        num_dropped += leaf->entries[i].ready_ns != PW_NEVER;
        leaf->entries[i].ready_ns = PW_NEVER;
    }
    table->num_entries -= num_dropped;
    return num_dropped;
}

/* Tables of the process that are in the range: a range can be longer than all tables together. */
static uint64_t drop(pw_odp_table *table, uint16_t pdid, uint64_t first_page, uint64_t end_page)
{
    uint64_t num_dropped = 0;
    for (uint32_t i = 0; table->num_entries && i < PW_ODP_BUCKETS; i++)
        for (pw_odp_leaf *leaf = table->buckets[i]; leaf; leaf = leaf->next) {
            uint64_t base = leaf->leaf << PW_ODP_LEAF_SHIFT;
            bool is_outside = base >= end_page || base + PW_ODP_LEAF_PAGES <= first_page;
            if (is_outside || (pdid && leaf->pdid != pdid)) continue;
            num_dropped += drop_of_leaf(table, leaf, first_page, end_page);
        }
    return num_dropped;
}

uint64_t pw_odp_table_drop(pw_odp_table *table, uint16_t pdid, uint64_t first_page,
                           uint64_t num_pages)
{
    uint64_t end_page = num_pages > UINT64_MAX - first_page ? UINT64_MAX : first_page + num_pages;
    if (num_pages > PW_ODP_LEAF_PAGES) return drop(table, pdid, first_page, end_page);
    uint64_t num_dropped = 0;
    for (uint64_t page = first_page; page < end_page; page = (page | (PW_ODP_LEAF_PAGES - 1)) + 1) {
        pw_odp_leaf *leaf = find_leaf(table, pdid, page);
        if (leaf) num_dropped += drop_of_leaf(table, leaf, first_page, end_page);
    }
    return num_dropped;
}

uint64_t pw_odp_table_drop_process(pw_odp_table *table, uint16_t pdid)
{
    return drop(table, pdid, 0, UINT64_MAX);
}
