/* Pinned pages with counts: see pins.h. */
#include "transport/node/pins.h"

#include <errno.h>
#include <stdlib.h>

#include "transport/node/page_counts.h"
#include "transport/node/strategy_pages.h"

struct pw_pins {
    pw_memory *memory;
    pw_page_counts counts;
};

int pw_pins_create(pw_memory *memory, pw_pins **out)
{
    pw_pins *pins = calloc(1, sizeof(*pins));
    if (!pins) return PW_ERR_NOMEM;
    pins->memory = memory;
    *out = pins;
    return PW_OK;
}

static int unpin(void *memory, uint64_t first_page, uint64_t num_pages)
{
    return pw_memory_unpin_mapped(memory, first_page, num_pages);
}

void pw_pins_destroy(pw_pins *pins)
{
    if (!pins) return;
    const pw_page_interval *held = pw_page_counts_from(&pins->counts, 0);
    for (; held; held = pw_page_counts_from(&pins->counts, held->end_page))
        unpin(pins->memory, held->first_page, held->end_page - held->first_page);
    pw_page_counts_finish(&pins->counts);
    free(pins);
}

/* A pin that failed may have undone what others had pinned in its range: do that again. */
static void restore(pw_pins *pins, uint64_t first_page, uint64_t num_pages)
{
    uint64_t end_page = first_page + num_pages;
    for (uint64_t page = first_page; page < end_page;) {
        const pw_page_interval *held = pw_page_counts_from(&pins->counts, page);
        if (!held || held->first_page >= end_page) return;
        if (held->first_page > page) page = held->first_page;
        uint64_t held_end = held->end_page < end_page ? held->end_page : end_page;
        pw_memory_pin(pins->memory, page, held_end - page, NULL);
        page = held_end;
    }
}

int pw_pins_acquire(pw_pins *pins, uint64_t first_page, uint64_t num_pages, uint64_t *num_absent,
                    uint64_t *pin)
{
    uint64_t hold, absent;
    if (pw_range_wraps(first_page, num_pages)) return PW_ERR_INVALID;
    int code = pw_page_counts_hold(&pins->counts, first_page, num_pages, &hold);
    if (code != PW_OK) return code;
    code = pw_memory_pin(pins->memory, first_page, num_pages, &absent);
    if (code != PW_OK) {
        int error = errno;
        pw_page_counts_drop(&pins->counts, first_page, num_pages, hold, pw_strategy_leave_pages,
                            NULL);
        restore(pins, first_page, num_pages);
        errno = error;
        return code;
    }
    *num_absent = absent;
    *pin = hold;
    return PW_OK;
}

int pw_pins_release(pw_pins *pins, uint64_t first_page, uint64_t num_pages, uint64_t pin)
{
    return pw_page_counts_drop(&pins->counts, first_page, num_pages, pin, unpin, pins->memory);
}

int pw_pins_invalidated(pw_pins *pins, uint64_t first_page, uint64_t num_pages)
{
    return pw_page_counts_forget(&pins->counts, first_page, num_pages);
}

int pw_pins_cover(const pw_pins *pins, uint64_t first_page, uint64_t num_pages)
{
    for (uint64_t num_known = 0; num_known < num_pages;) {
        uint64_t page = first_page + num_known;
        const pw_page_interval *held = pw_page_counts_from(&pins->counts, page);
        if (!held || held->first_page > page) return 0;
        num_known += held->end_page - page;
    }
    return 1;
}

uint64_t pw_pins_count(const pw_pins *pins, uint64_t page)
{
    const pw_page_interval *held = pw_page_counts_from(&pins->counts, page);
    return held && held->first_page <= page ? held->num_holders : 0;
}

uint64_t pw_pins_num_pages(const pw_pins *pins) { return pins->counts.num_held_pages; }
