#include "native/present_pages.h"
#include "native/memory.h"
#include <stdlib.h>
#include <string.h>

#define CHUNK_PAGES 64u

int pw_present_init(pw_present_pages *present)
{
    if (!present->chunks) present->chunks = calloc(PW_PRESENT_CHUNKS, sizeof *present->chunks);
    return present->chunks ? PW_OK : PW_ERR_NOMEM;
}

void pw_present_finish(pw_present_pages *present)
{
    free(present->chunks);
    present->chunks = NULL;
}

/* The pages of the chunk that lie in [first_page, end_page), of which one does. */
static uint64_t bits_of(uint64_t number, uint64_t first_page, uint64_t end_page)
{
    const uint64_t chunk_page = number * CHUNK_PAGES;
    const uint64_t first = first_page > chunk_page ? first_page - chunk_page : 0;
    const uint64_t end = end_page - chunk_page < CHUNK_PAGES ? end_page - chunk_page : CHUNK_PAGES;
    const uint64_t below_end = end == CHUNK_PAGES ? UINT64_MAX : (UINT64_C(1) << end) - 1;
    return below_end & (UINT64_MAX << first);
}

static pw_present_chunk *chunk_of(const pw_present_pages *present, uint64_t number)
{
    return &present->chunks[number % PW_PRESENT_CHUNKS];
}

bool pw_present_has(const pw_present_pages *present, bool for_write, uint64_t first_page,
                    uint64_t num_pages)
{
    const uint64_t end_page = first_page + num_pages;
    for (uint64_t i = first_page / CHUNK_PAGES; i * CHUNK_PAGES < end_page; i++) {
        const pw_present_chunk *chunk = chunk_of(present, i);
        if (chunk->number != i + 1 || bits_of(i, first_page, end_page) & ~chunk->pages[for_write])
            return false;
    }
    return true;
}

void pw_present_note(pw_present_pages *present, bool for_write, uint64_t first_page,
                     uint64_t num_pages, const uint8_t *state)
{
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        if (state[page - first_page] != PW_PAGE_PRESENT) continue;
        const uint64_t i = page / CHUNK_PAGES;
        pw_present_chunk *chunk = chunk_of(present, i);
        if (chunk->number != i + 1) *chunk = (pw_present_chunk){.number = i + 1};
        chunk->pages[for_write] |= UINT64_C(1) << page % CHUNK_PAGES;
    }
}

static void forget_in(pw_present_chunk *chunk, uint64_t first_page, uint64_t end_page)
{
    const uint64_t gone = bits_of(chunk->number - 1, first_page, end_page);
    chunk->pages[0] &= ~gone;
    chunk->pages[1] &= ~gone;
}

void pw_present_forget(pw_present_pages *present, uint64_t first_page, uint64_t end_page)
{
    if (first_page >= end_page) return;
    const uint64_t first = first_page / CHUNK_PAGES, last = (end_page - 1) / CHUNK_PAGES;
    if (last - first >= PW_PRESENT_CHUNKS) {
        for (uint32_t i = 0; i < PW_PRESENT_CHUNKS; i++) {
            pw_present_chunk *chunk = &present->chunks[i];
            if (chunk->number > first && chunk->number - 1 <= last)
                forget_in(chunk, first_page, end_page);
        }
        return;
    }
    for (uint64_t i = first; i <= last; i++)
        if (chunk_of(present, i)->number == i + 1)
            forget_in(chunk_of(present, i), first_page, end_page);
}
