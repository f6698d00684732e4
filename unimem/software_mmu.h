/* Shared pages of a node [D3.6 2]: memory for them, and the software MMU, a hash map of 2^16 rows
 * by virtual page number. An entry says where the page is, who may do what, and when the last
 * operation on it took effect: operations on one page have an order in virtual time, whatever the
 * order in which they become known.
 *
 * Page numbers are given out once, so that who uses a page that was freed finds nothing; page 0 is
 * never given. Memory of freed pages is used again, cleared. One thread at a time. */
#ifndef PW_UNIMEM_SOFTWARE_MMU_H
#define PW_UNIMEM_SOFTWARE_MMU_H
#include "include/unimem.h"
#include "native/types.h"

/* UNIMEM_DENY_*: rights that others than the thread that allocated a page do not have; 0: everybody
 * may do everything, as in the prototype, which enforced nothing. */
#define PW_DENY_ALL 15
#define PW_MMU_ROWS 65536

/* Ids of threads, unique in the system: node and interface. The driver writes them to the trusted
 * page of the packetizer, whose hardware puts them into each packet. */
static inline uint64_t pw_sender_id(uint32_t node, uint32_t interface)
{
    return (uint64_t)node << 8 | interface;
}
static inline uint32_t pw_sender_node(uint64_t id) { return (uint32_t)(id >> 8); }
static inline uint32_t pw_sender_interface(uint64_t id) { return (uint32_t)(id & 0xff); }

typedef struct pw_shared_page {
    uint64_t page; /* its virtual number */
    uint8_t *memory;
    uint64_t first_page; /* of its allocation */
    uint64_t allocator;  /* sender id */
    uint32_t num_pages;  /* of its allocation */
    uint32_t denied;     /* UNIMEM_DENY_* */
    pw_time changed_ns;  /* when the last operation on it took effect */
    struct pw_shared_page *next;
} pw_shared_page;

typedef struct {
    pw_shared_page **rows;
    uint8_t *memory;         /* num_pages of it */
    pw_shared_page *entries; /* this and the next one: of each of them; behind them */
    bool *is_used;
    uint64_t num_pages, num_used, next_page;
    pw_time changed_ns; /* when the last page came or went */
} pw_software_mmu;

int pw_software_mmu_init(pw_software_mmu *mmu, uint64_t memory_bytes);
void pw_software_mmu_finish(pw_software_mmu *mmu);
/* The first of num_pages >= 1 pages in a row, NULL: there is no memory for them. */
pw_shared_page *pw_software_mmu_allocate(pw_software_mmu *mmu, uint32_t num_pages,
                                         uint64_t allocator, uint32_t denied);
/* The whole allocation goes. */
void pw_software_mmu_free(pw_software_mmu *mmu, pw_shared_page *first);
/* NULL: there is no such page. */
pw_shared_page *pw_software_mmu_find(const pw_software_mmu *mmu, uint64_t page);
/* May the thread with that id read it, or write it? */
bool pw_shared_page_allows(const pw_shared_page *page, uint64_t sender, bool is_write);
#endif
