#include "native/ni_fifo.h"
#include <stdlib.h>

#define FIRST_SLOTS 16u

pw_fifo_entry pw_fifo_pack(const pw_fifo_fields *f)
{
    return (pw_fifo_entry){
        .low = (uint64_t)(f->source_node & 0x3fffffu) |
               (uint64_t)(f->transaction_id & 0x3fffu) << 22 |
               (uint64_t)(f->sequence & 0x3fffu) << 36 | (uint64_t)(f->code & 3u) << 50 |
               UINT64_C(1) << 52,
        .high = (uint64_t)f->pdid | f->page << 16,
    };
}

pw_fifo_fields pw_fifo_unpack(pw_fifo_entry entry)
{
    return (pw_fifo_fields){
        .source_node = (uint32_t)(entry.low & 0x3fffffu),
        .transaction_id = (uint16_t)(entry.low >> 22 & 0x3fffu),
        .sequence = (uint16_t)(entry.low >> 36 & 0x3fffu),
        .code = (uint8_t)(entry.low >> 50 & 3u),
        .pdid = (uint16_t)entry.high,
        .page = entry.high >> 16,
    };
}

void pw_ni_fifo_init(pw_ni_fifo *fifo, uint32_t depth, uint32_t remembers)
{
    *fifo = (pw_ni_fifo){.depth = depth, .remembers = remembers, .latest_ns = INT64_MIN};
}

void pw_ni_fifo_finish(pw_ni_fifo *fifo)
{
    free(fifo->slots);
    free(fifo->seen);
    fifo->slots = NULL;
    fifo->seen = NULL;
    fifo->capacity = 0;
}

static pw_fifo_slot *slot_at(const pw_ni_fifo *fifo, uint32_t position)
{
    return &fifo->slots[(fifo->head + position) & (fifo->capacity - 1)];
}

static bool make_seen(pw_ni_fifo *fifo)
{
    fifo->seen = calloc(PW_NI_FIFO_SEEN, sizeof *fifo->seen);
    for (uint32_t i = 0; fifo->seen && i < PW_NI_FIFO_SEEN; i++)
        fifo->seen[i].at_ns = fifo->seen[i].latest_ns = INT64_MIN;
    return fifo->seen != NULL;
}

static bool grow(pw_ni_fifo *fifo)
{
    const uint32_t capacity = fifo->capacity ? 2 * fifo->capacity : FIRST_SLOTS;
    pw_fifo_slot *slots = malloc(capacity * sizeof *slots);
    if (!slots) return false;
    for (uint32_t i = 0; i < fifo->num_entries; i++) slots[i] = *slot_at(fifo, i);
    free(fifo->slots);
    fifo->slots = slots;
    fifo->capacity = capacity;
    fifo->head = 0;
    return true;
}

static void drop_read(pw_ni_fifo *fifo, pw_time at_ns)
{
    while (fifo->num_read && slot_at(fifo, 0)->read_ns <= at_ns) {
        fifo->head = (fifo->head + 1) & (fifo->capacity - 1);
        fifo->num_entries--;
        fifo->num_read--;
    }
}

static bool is_same(pw_fifo_entry a, pw_fifo_entry b) { return a.low == b.low && a.high == b.high; }

/* The entry before at_ns, of another block than that of this low word (0: of any); all zero, which
 * is none, when nothing is. */
static pw_fifo_entry last_before(const pw_ni_fifo *fifo, pw_time at_ns, uint64_t not_low)
{
    uint32_t last = (fifo->next_seen + PW_NI_FIFO_SEEN - 1) % PW_NI_FIFO_SEEN;
    if (!not_low && fifo->seen[last].at_ns == fifo->latest_ns && at_ns >= fifo->latest_ns)
        return fifo->seen[last].entry;
    pw_time found_ns = INT64_MIN;
    pw_fifo_entry entry = {0, 0};
    for (uint32_t i = 0; i < PW_NI_FIFO_SEEN; i++) { /* newest first: of equal times that one */
        const pw_fifo_seen *each = &fifo->seen[(last + PW_NI_FIFO_SEEN - i) % PW_NI_FIFO_SEEN];
        if (found_ns >= each->latest_ns || found_ns == at_ns) break; /* nor any before it */
        if (each->at_ns > at_ns || each->at_ns <= found_ns ||
            (not_low && each->entry.low == not_low))
            continue;
        found_ns = each->at_ns;
        entry = each->entry;
    }
    return entry;
}

static void note_seen(pw_ni_fifo *fifo, pw_time at_ns, pw_fifo_entry entry)
{
    fifo->latest_ns = pw_later(fifo->latest_ns, at_ns);
    fifo->seen[fifo->next_seen] =
        (pw_fifo_seen){.at_ns = at_ns, .latest_ns = fifo->latest_ns, .entry = entry};
    fifo->next_seen = (fifo->next_seen + 1) % PW_NI_FIFO_SEEN;
}

enum pw_fifo_outcome pw_ni_fifo_push(pw_ni_fifo *fifo, pw_time at_ns, pw_fifo_entry entry)
{
    if (!fifo->seen && !make_seen(fifo)) return PW_FIFO_NO_MEMORY;
    pw_fifo_entry last = last_before(fifo, at_ns, 0);
    if (is_same(entry, last) ||
        (fifo->remembers > 1 && is_same(entry, last_before(fifo, at_ns, last.low)))) {
        note_seen(fifo, at_ns, entry);
        return PW_FIFO_FILTERED;
    }
    drop_read(fifo, at_ns);
    if (fifo->num_entries >= fifo->depth) return PW_FIFO_LOST;
    if (fifo->num_entries == fifo->capacity && !grow(fifo)) return PW_FIFO_NO_MEMORY;
    *slot_at(fifo, fifo->num_entries++) = (pw_fifo_slot){.entry = entry, .pushed_ns = at_ns};
    note_seen(fifo, at_ns, entry);
    return PW_FIFO_PUSHED;
}

uint64_t pw_ni_fifo_read_word(pw_ni_fifo *fifo, pw_time at_ns)
{
    if (fifo->num_read == fifo->num_entries) return 0;
    pw_fifo_slot *next = slot_at(fifo, fifo->num_read);
    fifo->half_read = !fifo->half_read;
    if (fifo->half_read) return next->entry.low;
    next->read_ns = at_ns;
    fifo->num_read++;
    return next->entry.high;
}

pw_time pw_ni_fifo_next_ns(const pw_ni_fifo *fifo)
{
    if (fifo->num_read == fifo->num_entries) return PW_NEVER;
    return slot_at(fifo, fifo->num_read)->pushed_ns;
}

pw_fifo_entry pw_ni_fifo_peek(const pw_ni_fifo *fifo)
{
    return slot_at(fifo, fifo->num_read)->entry;
}

void pw_ni_fifo_delay(pw_ni_fifo *fifo, pw_time at_ns, pw_time by_ns)
{
    for (uint32_t i = fifo->num_read; i-- > 0;) { /* in the order of reading: the latest last */
        pw_time *read_ns = &slot_at(fifo, i)->read_ns;
        if (*read_ns <= at_ns) return;
        *read_ns += by_ns;
    }
}
