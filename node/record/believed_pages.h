/* How a replay will believe a rank's pages to be, from what the trace has told so far, so that the
 * recorder tells of a page when it is otherwise. Pages that nobody has told of are absent. A page
 * that the NI has met absent is coming: the NI will bring it in, here and in the replay, and until
 * it has, that it is there or not is no news. One thread at a time. */
#ifndef PW_NODE_RECORD_BELIEVED_PAGES_H
#define PW_NODE_RECORD_BELIEVED_PAGES_H
#include "native/memory.h"
#include "native/page_leaves.h"

#define PW_COMING_MAX 64

typedef struct {
    uint64_t first_page, num_pages;
} pw_page_range;

/* Zeroed: all are absent. */
typedef struct {
    pw_page_leaves leaves;
    pw_page_range coming[PW_COMING_MAX]; /* each of one leaf */
    uint32_t num_coming;
} pw_believed_pages;

/* So many pages are in a state that was not believed. */
typedef void pw_page_news(void *context, uint64_t first_page, uint64_t num_pages, uint8_t state);

void pw_believed_finish(pw_believed_pages *pages);
/* Compare a range with the memory: what is news is told, and believed from now on. PW_ERR_NOMEM. */
int pw_believed_look(pw_believed_pages *pages, pw_memory *memory, pw_page_range range,
                     pw_page_news *tell, void *context);
/* PW_ERR_NOMEM. */
int pw_believed_set(pw_believed_pages *pages, pw_page_range range, uint8_t state);
/* The program gave them back. */
void pw_believed_unmap(pw_believed_pages *pages, pw_page_range range);
/* The NI uses them: those that are absent are coming. At most PW_COMING_MAX leaves are looked at by
 * `settle`: of more it is known when they have landed. PW_ERR_NOMEM. */
int pw_believed_use(pw_believed_pages *pages, pw_page_range range);
/* Which of those that are coming are there? Behind a run of the NI or of a strategy they have
 * brought them (tell NULL), before it the program has touched them, which is told. */
void pw_believed_settle(pw_believed_pages *pages, pw_memory *memory, pw_page_news *tell,
                        void *context);
#endif
