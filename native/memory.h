/* Page residency behind one interface, with two backends: the host's own (mincore, MADV_POPULATE,
 * mlock on the process's mappings) and a model (software page table, seeded). The SMMU's walk, the
 * driver's get_user_pages and the strategies' touch and pin all come here. Pages are absolute page
 * numbers (address >> 12). Not thread-safe. */
#ifndef PW_NATIVE_MEMORY_H
#define PW_NATIVE_MEMORY_H
#include "native/counters.h"
#include "native/pinned.h"
#include "native/types.h"

/* cdef begin */
typedef struct pw_memory pw_memory;

/* State of a page as a walk sees it, one byte a page. */
#define PW_PAGE_ABSENT 0
#define PW_PAGE_PRESENT 1
#define PW_PAGE_UNMAPPED 2  /* no mapping at all: an invalid address */
#define PW_PAGE_FORBIDDEN 3 /* present, but the mapping does not allow the access: walk */
#define PW_PAGE_WRITE_PROTECTED \
    4 /* present for reading, but a write faults first: zero page, copy on write */

/* What a page-in did to a page, one byte a page. */
#define PW_EFFECT_NONE 0     /* it was there for the access wanted */
#define PW_EFFECT_NEW 1      /* first touch, or taken away before */
#define PW_EFFECT_COPIED 2   /* the write protection is over: it has a frame of its own now */
#define PW_EFFECT_SWAPPED 3  /* major fault: it came back from swap */
#define PW_EFFECT_ALONG 4    /* came with another page: both are parts of one huge page */
#define PW_EFFECT_UNMAPPED 5 /* from here on the range is not mapped */

/* What a walk tells apart. */
#define PW_CHECKS_PERMISSION 1
#define PW_CHECKS_WRITE_PROTECTION 2
/* Where page states come from. */
#define PW_SOURCE_MINCORE 1
#define PW_SOURCE_PAGEMAP                                                                        \
    2                       /* /proc/self/pagemap: which pages are the process's own, or in swap \
                             */
#define PW_SOURCE_PROCMAP 4 /* PROCMAP_QUERY: what a mapping allows */
#define PW_SOURCE_SCAN 8    /* PAGEMAP_SCAN: huge pages */
#define PW_SOURCE_EVENTS 16 /* what was seen stays so until an event: pw_memory_use_events */

#define PW_HUGE_PAGES 512 /* pages of a huge page (2 MB) */

/* Whom residency.source asks. */
#define PW_RESIDENCY_KERNEL 0
#define PW_RESIDENCY_EVENTS 1

#define PW_MEMORY_HOST 0
#define PW_MEMORY_MODEL 1

typedef struct {
    uint64_t seed;
    uint32_t fault_millionths;  /* probability that a page never seen before is absent, in 1e-6 */
    uint64_t frame_limit_pages; /* resident pages at most; 0 = no limit; LRU page is swapped out.
                                 * A page never populated, pinned or set takes no frame. */
    uint32_t
        huge_pages; /* 1: every aligned 2 MB is one huge page until a part of it is taken away */
    uint32_t collapse_millionths; /* probability that a transfer finds 2 MB of its resident pages
                                     just collapsed */
    uint32_t detached; /* 1: pages of no process. 0: of this one, whose mappings page_in asks too */
} pw_memory_model_options;

typedef struct {
    uint64_t probes, probed_pages; /* calls of probe, pages asked for */
    uint64_t major_faults;         /* of populate and pin: pages that came back from swap */
    uint64_t collapsed_regions;    /* model: huge pages made of resident pages */
    uint64_t pinned_pages, unpinned_pages;
} pw_memory_counters;

/* options are the model's (the host ignores them). PW_ERR_HOST when pw_memory_host_lacks
 * something. */
int pw_memory_create(uint32_t backend, const pw_memory_model_options *options, pw_memory **out);
void pw_memory_destroy(pw_memory *memory);
/* What the host backend cannot do without and this host lacks, a sentence with the remedy: pages of
 * 4 KB, mincore, MADV_POPULATE_* (Linux 5.14), any of which a container may refuse. NULL: nothing.
 * Tries the calls. */
const char *pw_memory_host_lacks(void);
/* From now on a page of private anonymous memory that a walk has found present counts as present,
 * without a question, until the process unmaps or advises it or forks, and a mapping counts as it
 * was found until one changes; native/memory_events.h tells. NULL, or why it cannot be and the
 * kernel is asked each time, a sentence. is_checked: the kernel is asked beside, PW_ERR_RESIDENCY
 * where it says otherwise. Host only; another memory of the process may listen, too. */
const char *pw_memory_use_events(pw_memory *memory, bool is_checked);
/* Has the kernel said otherwise, and of which page first? */
bool pw_memory_events_were_wrong(const pw_memory *memory, uint64_t *page);
/* Were these pages seen present, and would the events tell if one of them went? */
bool pw_memory_stays(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
/* What a walk for a write would find, without being one: nothing is counted or noted. num_pages: at
 * least one. PW_ERR_HOST, PW_ERR_INVALID. */
int pw_memory_look(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *state);
/* What is there, for whatever access: state[i] for first_page + i. PW_OK even when pages are
 * unmapped (state tells); PW_ERR_HOST when the probe itself failed. */
int pw_memory_probe(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *state);
/* The walk of an access: probe, then PRESENT becomes FORBIDDEN where the mapping does not allow the
 * access, and for a write WRITE_PROTECTED where it would fault (the shared zero page, a page shared
 * with a forked child), or ABSENT where only the page cache has it. The host needs Linux 6.11 for
 * it (PROCMAP_QUERY), write protection also a readable /proc/self/pagemap; without them states stay
 * as they are, and a forbidden access crashes. A page that was shared with a child which has ended
 * counts as PRESENT: the host's kernel will not copy it. On the host a write walk of private memory
 * reads /proc/self/pagemap alone. */
int pw_memory_walk(pw_memory *memory, uint64_t first_page, uint64_t num_pages, int for_write,
                   uint8_t *state);
/* PW_CHECKS_* of what a walk can tell. */
int pw_memory_checks_access(const pw_memory *memory);
/* PW_SOURCE_* of this host that page states come from; 0 for the model. Asks the kernel. */
uint32_t pw_memory_sources(const pw_memory *memory);
/* The mapping around a page, as the host's kernel has it now: [*first_page, +*num_pages) can be
 * read (written) without a signal, whatever the model says; of a detached one every page.
 * PW_ERR_ADDRESS, PW_ERR_PROTECTION; before Linux 6.11 only the page itself is looked at, and its
 * protection is not. */
int pw_memory_mapping(pw_memory *memory, uint64_t page, int for_write, uint64_t *first_page,
                      uint64_t *num_pages);
/* Is a file mapped in the range, which can be truncated under its mapping? Before Linux 6.11: not
 * known, 0. Shared anonymous memory counts as a file. */
int pw_memory_may_vanish(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
/* The program's own code may have run since the last call: mappings may have changed. See
 * pw_ni_enter. From the first call on walk, mapping, may_vanish and page_in rely on it: they ask
 * the kernel about a mapping once between two calls. */
void pw_memory_enter(pw_memory *memory);
/* What is asked next is at this virtual time, for pw_memory_resident alone; PW_NEVER: as before. */
void pw_memory_at(pw_memory *memory, int64_t now_ns);
/* How many of the pages that were walked, brought in, touched or pinned are in memory: a page
 * counts from the call on that brings it in, or finds it, until one finds it absent, the model
 * evicts it, or pw_memory_unmapped. The host's kernel does not tell of what it takes away. */
const pw_pinned *pw_memory_resident(const pw_memory *memory);
/* The program unmapped these pages. */
void pw_memory_unmapped(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
/* The OS changed mappings: every snapshot of a walk is out of date. The generation counts these
 * calls. */
void pw_memory_changed(pw_memory *memory);
uint64_t pw_memory_generation(const pw_memory *memory);
/* Page in [first_page, +num_pages), for writing or only for reading. num_absent[0] = pages that
 * were absent before for the access wanted: a write-protected page counts for a write, a huge
 * page's pages each. PW_OK, PW_ERR_ADDRESS when part of the range is not mapped (what is mapped
 * before it is paged in and counted), PW_ERR_PROTECTION when the mapping forbids the access,
 * PW_ERR_HOST otherwise; model: PW_ERR_FULL when every frame is pinned. num_absent may be NULL here
 * and in pin. */
int pw_memory_populate(pw_memory *memory, uint64_t first_page, uint64_t num_pages, int for_write,
                       uint64_t *num_absent);
/* The same; effects[i] (PW_EFFECT_*) tells for each page, PW_EFFECT_UNMAPPED from a hole on.
 * PW_ERR_ADDRESS without a hole: a page behind the end of its file. With an error effects tell what
 * came in before it. */
int pw_memory_page_in(pw_memory *memory, uint64_t first_page, uint64_t num_pages, int for_write,
                      uint8_t *effects);
/* A block was acknowledged, so the pages that came in were of use. */
void pw_memory_progress(pw_memory *memory);
/* Model with a frame limit: has page_in ended with PW_ERR_FRAMES, because PW_MEMORY_ROUNDS times as
 * many pages as there are frames came in, each in place of another, and no block got through? */
#define PW_MEMORY_ROUNDS 64
int pw_memory_is_short(const pw_memory *memory);
/* The pages that came in together with this one: its huge page, or itself. */
void pw_memory_extent(pw_memory *memory, uint64_t page, uint64_t *first_page, uint64_t *num_pages);
/* mlock / munlock: one unpin undoes any number of pins. PW_ERR_FULL when the locked-memory limit
 * (model: frame limit) is reached, PW_ERR_ADDRESS when part of the range is not mapped; then
 * nothing is pinned. Pin also fails as populate does. */
int pw_memory_pin(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint64_t *num_absent);
int pw_memory_unpin(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
/* Are these very pages pinned, 1 or 0? So 0 when a mapping went since the pin, whatever is mapped
 * there now. PW_ERR_HOST. */
int pw_memory_is_pinned(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
/* The first anonymous, private mapping that can be written and ends behind from_page, as the host's
 * kernel has it. PW_ERR_ADDRESS: there is none; PW_ERR_HOST, ENOTSUP: before Linux 6.11 nobody
 * tells. */
int pw_memory_next_private(pw_memory *memory, uint64_t from_page, uint64_t *first_page,
                           uint64_t *num_pages);
/* Model only: set the state of pages (PW_PAGE_*), unpinned; a present one is the most recently
 * used. PW_ERR_INVALID on the host backend. */
int pw_memory_set(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t state);
/* The process was forked: resident pages of the range are shared now, so a write faults. num_pages
 * UINT64_MAX: the whole address space. The host's kernel does so by itself: nothing to do there. */
int pw_memory_fork(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
/* A transfer over these pages begins: with collapse_millionths the model may make a huge page of
 * each aligned 2 MB that it touches and that is wholly resident, unpinned and not huge; the 512
 * translations are invalid until the first access. Returns how many. */
uint64_t pw_memory_begin_transfer(pw_memory *memory, uint64_t first_page, uint64_t num_pages);
void pw_memory_read_counters(const pw_memory *memory, pw_memory_counters *out);
/* cdef end */
/* Count what a page-in did to a page. */
static inline void pw_memory_count_effect(pw_counters *counters, uint8_t effect)
{
    counters->pages_paged_in += effect != PW_EFFECT_NONE && effect != PW_EFFECT_UNMAPPED;
    counters->pages_copied += effect == PW_EFFECT_COPIED;
    counters->major_faults += effect == PW_EFFECT_SWAPPED;
    counters->pages_along += effect == PW_EFFECT_ALONG;
}

/* What was found of pages [first_page, end_page). It holds while the program's code has not run
 * since (pw_memory_enter), nor the OS changed mappings. */
typedef struct {
    uint64_t first_page, end_page;
    uint64_t entry, generation; /* of the memory */
} pw_known_pages;
bool pw_known_pages_have(const pw_memory *memory, const pw_known_pages *known, uint64_t first_page,
                         uint64_t end_page);
/* Behind those that are known already, or instead of them. */
void pw_known_pages_note(const pw_memory *memory, pw_known_pages *known, uint64_t first_page,
                         uint64_t end_page);
#endif
