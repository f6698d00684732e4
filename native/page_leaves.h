/* A sparse table by page: leaves of 512 neighbouring pages of a process, found by a hash, and
 * listed in the order in which they were made. What stands in a leaf is the owner's, whose struct
 * begins with a pw_leaf. Leaves stay until the table is cleared; only a new one allocates. Not
 * thread-safe. */
#ifndef PW_NATIVE_PAGE_LEAVES_H
#define PW_NATIVE_PAGE_LEAVES_H
#include "native/types.h"

#define PW_LEAF_SHIFT 9
#define PW_LEAF_PAGES (1u << PW_LEAF_SHIFT)

typedef struct pw_leaf {
    struct pw_leaf *next_in_bucket, *next; /* next: made after it */
    uint64_t number;                       /* page number >> PW_LEAF_SHIFT */
    uint16_t pdid;
} pw_leaf;

/* Zero is an empty one. */
typedef struct {
    pw_leaf **buckets;    /* NULL: there is no leaf yet */
    uint32_t num_buckets; /* a power of two, as many as leaves or more */
    uint32_t num_leaves;
    pw_leaf *first, *last;
} pw_page_leaves;

/* The leaf of a page, or NULL. */
pw_leaf *pw_page_leaves_find(const pw_page_leaves *leaves, uint16_t pdid, uint64_t page);
/* The same, made when there is none: leaf_bytes, with zeros behind the pw_leaf. NULL: the host has
 * no memory. */
pw_leaf *pw_page_leaves_make(pw_page_leaves *leaves, uint16_t pdid, uint64_t page,
                             size_t leaf_bytes);
void pw_page_leaves_clear(pw_page_leaves *leaves);

static inline uint64_t pw_leaf_first_page(const pw_leaf *leaf)
{
    return leaf->number << PW_LEAF_SHIFT;
}
#endif
