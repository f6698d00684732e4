#include "native/page_leaves.h"
#include <stdlib.h>

static uint32_t bucket_of(uint16_t pdid, uint64_t number)
{
    return (uint32_t)((number ^ (uint64_t)pdid << 40) * UINT64_C(0x9e3779b97f4a7c15) >> 40) %
           PW_LEAF_BUCKETS;
}

pw_leaf *pw_page_leaves_find(const pw_page_leaves *leaves, uint16_t pdid, uint64_t page)
{
    uint64_t number = page >> PW_LEAF_SHIFT;
    pw_leaf *leaf = leaves->buckets ? leaves->buckets[bucket_of(pdid, number)] : NULL;
    while (leaf && (leaf->number != number || leaf->pdid != pdid)) leaf = leaf->next_in_bucket;
    return leaf;
}

pw_leaf *pw_page_leaves_make(pw_page_leaves *leaves, uint16_t pdid, uint64_t page,
                             size_t leaf_bytes)
{
    pw_leaf *leaf = pw_page_leaves_find(leaves, pdid, page);
    if (leaf) return leaf;
    if (!leaves->buckets) leaves->buckets = calloc(PW_LEAF_BUCKETS, sizeof leaf);
    if (!leaves->buckets || !(leaf = calloc(1, leaf_bytes))) return NULL;
    leaf->number = page >> PW_LEAF_SHIFT;
    leaf->pdid = pdid;
    pw_leaf **bucket = &leaves->buckets[bucket_of(pdid, leaf->number)];
    leaf->next_in_bucket = *bucket;
    *bucket = leaf;
    if (leaves->last) leaves->last->next = leaf;
    else leaves->first = leaf;
    leaves->last = leaf;
    return leaf;
}

void pw_page_leaves_clear(pw_page_leaves *leaves)
{
    for (pw_leaf *leaf = leaves->first, *next; leaf; leaf = next) {
        next = leaf->next;
        free(leaf);
    }
    free(leaves->buckets);
    *leaves = (pw_page_leaves){0};
}
