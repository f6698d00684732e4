#include "native/page_leaves.h"
#include <stdlib.h>

#define FIRST_BUCKETS 4u

static pw_leaf **bucket_of(const pw_page_leaves *leaves, uint16_t pdid, uint64_t number)
{
    const uint64_t hash = (number ^ (uint64_t)pdid << 40) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    return &leaves->buckets[hash & (leaves->num_buckets - 1)];
}

static int more_buckets(pw_page_leaves *leaves)
{
    const uint32_t num_buckets = leaves->num_buckets ? 2 * leaves->num_buckets : FIRST_BUCKETS;
    pw_leaf **buckets = calloc(num_buckets, sizeof *buckets);
    if (!buckets) return PW_ERR_NOMEM;
    free(leaves->buckets);
    leaves->buckets = buckets;
    leaves->num_buckets = num_buckets;
    for (pw_leaf *leaf = leaves->first; leaf; leaf = leaf->next) {
        pw_leaf **bucket = bucket_of(leaves, leaf->pdid, leaf->number);
        leaf->next_in_bucket = *bucket;
        *bucket = leaf;
    }
    return PW_OK;
}

pw_leaf *pw_page_leaves_find(const pw_page_leaves *leaves, uint16_t pdid, uint64_t page)
{
    uint64_t number = page >> PW_LEAF_SHIFT;
    pw_leaf *leaf = leaves->buckets ? *bucket_of(leaves, pdid, number) : NULL;
    while (leaf && (leaf->number != number || leaf->pdid != pdid)) leaf = leaf->next_in_bucket;
    return leaf;
}

pw_leaf *pw_page_leaves_make(pw_page_leaves *leaves, uint16_t pdid, uint64_t page,
                             size_t leaf_bytes)
{
    pw_leaf *leaf = pw_page_leaves_find(leaves, pdid, page);
    if (leaf) return leaf;
    if (leaves->num_leaves == leaves->num_buckets && more_buckets(leaves) < 0) return NULL;
    leaf = calloc(1, leaf_bytes);
    if (!leaf) return NULL;
    leaves->num_leaves++;
    leaf->number = page >> PW_LEAF_SHIFT;
    leaf->pdid = pdid;
    pw_leaf **bucket = bucket_of(leaves, pdid, leaf->number);
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
