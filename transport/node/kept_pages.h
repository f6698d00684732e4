/* Pages that are kept, each with how many use it now. Those that nobody uses stand in a queue, who
 * came to it first at its head: that one goes first when room is needed. Found by a hash of tables
 * of 512 pages, which stay until the end; only a new table allocates. Knows no memory. One thread
 * at a time. */
#ifndef PW_NODE_KEPT_PAGES_H
#define PW_NODE_KEPT_PAGES_H
#include "native/types.h"

#define PW_KEPT_BUCKETS 256

typedef struct pw_kept_page {
    struct pw_kept_page *before, *behind; /* in the queue */
    uint64_t page;
    int64_t ready_ns, idle_ns; /* the owner's: usable since; used last until */
    uint64_t awaits;           /* the owner's: what the page waits for */
    uint32_t num_users;
    bool is_kept;
    bool is_good; /* the owner's; false for a new one */
} pw_kept_page;

typedef struct pw_kept_table pw_kept_table;

/* Zero is an empty one. */
typedef struct {
    pw_kept_table *buckets[PW_KEPT_BUCKETS];
    pw_kept_page *head, *tail;
    uint64_t num_pages, num_idle; /* kept; of these, used by nobody */
} pw_kept_pages;

void pw_kept_pages_finish(pw_kept_pages *kept);
/* Tables for all pages of the range, so that pw_kept_pages_use cannot fail there. PW_ERR_NOMEM. */
int pw_kept_pages_prepare(pw_kept_pages *kept, uint64_t first_page, uint64_t num_pages);
/* The page, NULL when it is not kept. */
pw_kept_page *pw_kept_pages_find(const pw_kept_pages *kept, uint64_t page);
/* One user more, of a page that is prepared; kept from now on. */
pw_kept_page *pw_kept_pages_use(pw_kept_pages *kept, uint64_t page);
/* One user less; the last one leaves it to the queue's tail. */
void pw_kept_pages_let_go(pw_kept_pages *kept, pw_kept_page *page);
/* It is kept no more, whoever used it. */
void pw_kept_pages_remove(pw_kept_pages *kept, pw_kept_page *page);
/* How many pages from the queue's head on follow each other in memory, at most max. */
uint64_t pw_kept_pages_run(const pw_kept_pages *kept, uint64_t max_pages);
#endif
