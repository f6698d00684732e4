#include "native/ni_fifo.h"

pw_fifo_entry pw_fifo_pack(const pw_fifo_fields *f)
{
    return (pw_fifo_entry){
        .low = (uint64_t)(f->source_node & 0x3fffffu) | (uint64_t)(f->transaction_id & 0x3fffu) << 22 |
               (uint64_t)(f->sequence & 0x3fffu) << 36 | (uint64_t)(f->code & 3u) << 50 | UINT64_C(1) << 52,
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

void pw_ni_fifo_init(pw_ni_fifo *fifo, uint32_t depth)
{
    *fifo = (pw_ni_fifo){.depth = depth};
}

static void drop_read(pw_ni_fifo *fifo, pw_time at_ns)
{
    while (fifo->num_entries && fifo->read_ns[fifo->head] <= at_ns) {
        fifo->head = (fifo->head + 1) % PW_NI_FIFO_DEPTH;
        fifo->num_entries--;
    }
}

enum pw_fifo_outcome pw_ni_fifo_push(pw_ni_fifo *fifo, pw_time at_ns, pw_fifo_entry entry, uint32_t *slot)
{
    if (entry.low == fifo->last.low && entry.high == fifo->last.high) return PW_FIFO_FILTERED;
    drop_read(fifo, at_ns);
    if (fifo->num_entries >= fifo->depth) return PW_FIFO_LOST;
    *slot = (fifo->head + fifo->num_entries++) % PW_NI_FIFO_DEPTH;
    fifo->entries[*slot] = entry;
    fifo->read_ns[*slot] = PW_NEVER;
    fifo->last = entry;
    return PW_FIFO_PUSHED;
}

void pw_ni_fifo_set_read(pw_ni_fifo *fifo, uint32_t slot, pw_time read_ns) { fifo->read_ns[slot] = read_ns; }

uint64_t pw_ni_fifo_read_word(pw_ni_fifo *fifo)
{
    if (!fifo->num_entries) return 0;
    if (!fifo->half_read) {
        fifo->half_read = true;
        return fifo->entries[fifo->head].low;
    }
    uint64_t high = fifo->entries[fifo->head].high;
    fifo->half_read = false;
    fifo->head = (fifo->head + 1) % PW_NI_FIFO_DEPTH;
    fifo->num_entries--;
    return high;
}

uint32_t pw_ni_fifo_occupancy(pw_ni_fifo *fifo, pw_time at_ns)
{
    drop_read(fifo, at_ns);
    return fifo->num_entries;
}
