#include "native/pinned.h"

void pw_pinned_set(pw_pinned *pinned, uint64_t num_pages, int64_t now_ns)
{
    if (now_ns > pinned->since_ns) {
        pinned->page_ns += (double)pinned->num_pages * (double)(now_ns - pinned->since_ns);
        pinned->since_ns = now_ns;
    }
    pinned->num_pages = num_pages;
    if (num_pages > pinned->peak_pages) pinned->peak_pages = num_pages;
}

uint64_t pw_pinned_mean_bytes(const pw_pinned *pinned, int64_t now_ns)
{
    pw_pinned until = *pinned;
    pw_pinned_set(&until, pinned->num_pages, now_ns);
    if (until.since_ns <= 0) return 0;
    return (uint64_t)(until.page_ns * PW_PAGE_BYTES / (double)until.since_ns + 0.5);
}
