/* What strategies keep whose unit is the page, not the buffer (utlb, firehose): which pages, and
 * their pins. One thread at a time. */
#ifndef PW_NODE_STRATEGIES_KEPT_PINS_H
#define PW_NODE_STRATEGIES_KEPT_PINS_H
#include "native/page_leaves.h"
#include "node/strategies/strategy.h"

/* Pages that are kept, each with how many use it now. Those that nobody uses stand in a queue, who
 * came to it first at its head: that one goes first when room is needed. Only a page that
 * none was near to allocates. Knows no memory. One thread at a time. */

typedef struct pw_kept_page {
    struct pw_kept_page *before, *behind; /* in the queue */
    uint64_t page;
    int64_t ready_ns, idle_ns; /* the owner's: usable since; used last until */
    uint64_t awaits;           /* the owner's: what the page waits for */
    uint32_t num_users;
    bool is_kept;
    bool is_good; /* the owner's; false for a new one */
} pw_kept_page;

/* Zero is an empty one. */
typedef struct {
    pw_page_leaves leaves;
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

typedef struct {
    pw_strategy_context *context;
    pw_kept_pages pages;
    uint64_t max_pages, max_idle_pages; /* as far as what is in use allows */
} pw_kept_pins;

/* For the ops of strategies whose object this is; `destroy` unpins all. */
int pw_kept_pins_create(pw_strategy_context *context, uint64_t max_pages, uint64_t max_idle_pages,
                        void **self);
void pw_kept_pins_destroy(void *self);
int pw_kept_pins_release(void *self, const pw_lease *lease, pw_strategy_cost *cost);
int pw_kept_pins_invalidated(void *self, uint64_t first_page, uint64_t num_pages);
/* One user more for each page of the range, which is pinned then; *cost grows. *num_new: pages that
 * were not pinned before. With an error nothing has changed but what had to go. */
int pw_kept_pins_hold(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages, bool checks,
                      pw_strategy_cost *cost, uint64_t *num_new);
/* One user less, after a hold. */
int pw_kept_pins_drop(void *self, uint64_t first_page, uint64_t num_pages, pw_strategy_cost *cost);
/* Pin anew what is kept of the range and was unpinned by the OS. */
int pw_kept_pins_renew(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages,
                       pw_strategy_cost *cost);

#endif
