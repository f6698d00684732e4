#include "ni/packetizer.h"
#include <stdlib.h>

typedef struct {
    pw_mailbox_word word;
    pw_time arrival_ns;
} entry;

/* From when until when a word that was read has taken its place. */
typedef struct {
    pw_time arrival_ns, read_ns;
} stay;

/* Rings of as many places as there are words: those that wait, and the last ones that were read. */
struct pw_mailbox_fifo {
    uint32_t depth;
    uint32_t head, num_waiting;
    uint32_t last_read, num_read; /* at most depth */
    int64_t bursts;
    entry *waiting;
    stay *stays;
};

pw_mailbox_fifo *pw_mailbox_fifo_create(uint32_t depth_words, int64_t bursts)
{
    pw_mailbox_fifo *fifo = calloc(1, sizeof *fifo);
    if (!fifo) return NULL;
    fifo->depth = depth_words;
    fifo->bursts = bursts;
    fifo->waiting = calloc(depth_words, sizeof *fifo->waiting);
    fifo->stays = calloc(depth_words, sizeof *fifo->stays);
    if (fifo->waiting && fifo->stays) return fifo;
    pw_mailbox_fifo_destroy(fifo);
    return NULL;
}

void pw_mailbox_fifo_destroy(pw_mailbox_fifo *fifo)
{
    if (!fifo) return;
    free(fifo->waiting);
    free(fifo->stays);
    free(fifo);
}

static entry *at(const pw_mailbox_fifo *fifo, uint32_t place)
{
    return &fifo->waiting[(fifo->head + place) % fifo->depth];
}

/* Words that are read only after at_ns took their places then, if they were there: who is late in
 * wall time finds no words that arrive after his own. */
static uint32_t num_read_later(const pw_mailbox_fifo *fifo, pw_time at_ns)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < fifo->num_read; i++) {
        const stay *each = &fifo->stays[(fifo->last_read + fifo->depth - i) % fifo->depth];
        if (each->read_ns <= at_ns) break;
        count += each->arrival_ns <= at_ns;
    }
    return count;
}

static uint32_t room(const pw_mailbox_fifo *fifo, pw_time at_ns)
{
    uint32_t taken = fifo->num_waiting + num_read_later(fifo, at_ns);
    return taken < fifo->depth ? fifo->depth - taken : 0;
}

/* Behind every word that has arrived by then: beats of a burst stay together. */
static void insert(pw_mailbox_fifo *fifo, pw_mailbox_word word, pw_time at_ns)
{
    uint32_t place = fifo->num_waiting++;
    for (; place > 0 && at(fifo, place - 1)->arrival_ns > at_ns; place--)
        *at(fifo, place) = *at(fifo, place - 1);
    *at(fifo, place) = (entry){word, at_ns};
}

uint32_t pw_mailbox_fifo_write(pw_mailbox_fifo *fifo, const pw_mailbox_word *words,
                               uint32_t num_words, int64_t at_ns, bool *is_acked)
{
    uint32_t num_kept = room(fifo, at_ns);
    if (num_kept >= num_words) num_kept = num_words;
    else if (fifo->bursts == PW_BURSTS_WHOLE) num_kept = 0;
    for (uint32_t i = 0; i < num_kept; i++) insert(fifo, words[i], at_ns);
    *is_acked = num_kept > 0;
    return num_kept;
}

uint32_t pw_mailbox_fifo_read(pw_mailbox_fifo *fifo, pw_mailbox_word *words, uint32_t num_words,
                              int64_t at_ns)
{
    uint32_t num_there = 0;
    for (uint32_t i = 0; i < num_words; i++) {
        if (pw_mailbox_fifo_next_ns(fifo) > at_ns) {
            words[i] = (pw_mailbox_word){PW_MAILBOX_EMPTY, PW_MAILBOX_EMPTY};
            continue;
        }
        const entry *first = at(fifo, 0);
        words[i] = first->word;
        fifo->head = (fifo->head + 1) % fifo->depth;
        fifo->num_waiting--;
        /* Readers of several cores: the ring of times must not go back. */
        pw_time before_ns = fifo->num_read ? fifo->stays[fifo->last_read].read_ns : 0;
        fifo->last_read = (fifo->last_read + 1) % fifo->depth;
        fifo->stays[fifo->last_read] = (stay){first->arrival_ns, pw_later(before_ns, at_ns)};
        if (fifo->num_read < fifo->depth) fifo->num_read++;
        num_there++;
    }
    return num_there;
}

int64_t pw_mailbox_fifo_next_ns(const pw_mailbox_fifo *fifo)
{
    return fifo->num_waiting ? at(fifo, 0)->arrival_ns : PW_NEVER;
}

#define BASE_MASK (UINT64_C(0xffff) << PW_DESTINATION_BASE_SHIFT)

enum { PAYLOAD0 = 1, PAYLOAD1 = 2, DESTINATION = 4, ALL = 7 };

typedef struct {
    pw_mailbox_word payload[2];
    uint64_t destination;
    uint32_t written; /* registers of the packet that is prepared */
    uint32_t flags;   /* ILLEGAL, OVERWR_BUF */
    bool is_pending;  /* no answer is known */
    uint32_t answer;  /* PW_PIF_NACK or PW_PIF_ACK, from answer_ns on; 0: nothing was sent yet */
    pw_time answer_ns;
} interface_page;

struct pw_packetizer {
    interface_page pages[PW_PIFS];
    uint64_t ids[PW_PIFS];
    uint64_t base_destination; /* in its bits 33:18 */
    uint64_t valid;
};

pw_packetizer *pw_packetizer_create(void) { return calloc(1, sizeof(pw_packetizer)); }
void pw_packetizer_destroy(pw_packetizer *packetizer) { free(packetizer); }

static bool is_pending(const interface_page *page, pw_time at_ns)
{
    return page->is_pending || (page->answer && at_ns < page->answer_ns);
}

/* All three are there. 1: *out goes. */
static int send(const pw_packetizer *packetizer, uint32_t interface, interface_page *page,
                pw_packet *out)
{
    page->written = 0;
    page->answer = 0;
    page->flags &= ~(uint32_t)PW_PIF_ILLEGAL;
    uint64_t node = page->destination >> PW_DESTINATION_NODE_SHIFT;
    if ((page->destination & BASE_MASK) != packetizer->base_destination ||
        node > PW_DESTINATION_NODE_MAX) {
        page->flags |= PW_PIF_ILLEGAL;
        return 0;
    }
    page->is_pending = true;
    *out = (pw_packet){.words = {page->payload[0], page->payload[1]},
                       .node = (uint32_t)node,
                       .fifo =
                           page->destination >> PW_DESTINATION_FIFO_SHIFT & (PW_MAILBOX_FIFOS - 1)};
    out->words[0].low = (out->words[0].low & ~PW_SENDER_ID_MASK) | packetizer->ids[interface];
    return 1;
}

int pw_packetizer_write(pw_packetizer *packetizer, uint32_t interface, uint32_t offset,
                        pw_mailbox_word value, int64_t at_ns, pw_packet *out)
{
    uint32_t which;
    switch (offset) {
    case PW_PIF_PAYLOAD0: which = PAYLOAD0; break;
    case PW_PIF_PAYLOAD1: which = PAYLOAD1; break;
    case PW_PIF_DESTINATION: which = DESTINATION; break;
    default: return PW_ERR_INVALID;
    }
    if (interface >= PW_PIFS) return PW_ERR_INVALID;
    if (!(packetizer->valid >> interface & 1)) return 0;
    interface_page *page = &packetizer->pages[interface];
    if (is_pending(page, at_ns)) {
        page->flags |= PW_PIF_OVERWR_BUF;
        return 0;
    }
    if (page->written & which) page->flags |= PW_PIF_OVERWR_BUF;
    page->written |= which;
    if (which == DESTINATION) page->destination = value.low;
    else page->payload[which == PAYLOAD1] = value;
    return page->written == ALL ? send(packetizer, interface, page, out) : 0;
}

uint64_t pw_packetizer_status(const pw_packetizer *packetizer, uint32_t interface, int64_t at_ns)
{
    const interface_page *page = &packetizer->pages[interface];
    if (is_pending(page, at_ns)) return page->flags | PW_PIF_PEND;
    return page->flags | page->answer;
}

int64_t pw_packetizer_answer_ns(const pw_packetizer *packetizer, uint32_t interface)
{
    return packetizer->pages[interface].answer_ns;
}

void pw_packetizer_answered(pw_packetizer *packetizer, uint32_t interface, bool is_acked,
                            int64_t at_ns)
{
    interface_page *page = &packetizer->pages[interface];
    if (!page->is_pending) return;
    page->is_pending = false;
    page->answer = is_acked ? PW_PIF_ACK : PW_PIF_NACK;
    page->answer_ns = at_ns;
}

int pw_packetizer_write_trusted(pw_packetizer *packetizer, uint32_t offset, uint64_t value)
{
    if (offset < PW_TIF_IDS + 8 * PW_PIFS && offset % 8 == 0)
        packetizer->ids[offset / 8] = value & PW_SENDER_ID_MASK;
    else if (offset == PW_TIF_BASE_DEST) packetizer->base_destination = value & BASE_MASK;
    else if (offset == PW_TIF_PID_CONF) packetizer->valid = value;
    else if (offset == PW_TIF_CLR_REQ) {
        for (uint32_t i = 0; i < PW_PIFS; i++)
            if (value >> i & 1) packetizer->pages[i] = (interface_page){.written = 0};
    } else return PW_ERR_INVALID;
    return PW_OK;
}

int pw_packetizer_read_trusted(const pw_packetizer *packetizer, uint32_t offset, uint64_t *out)
{
    if (offset < PW_TIF_IDS + 8 * PW_PIFS && offset % 8 == 0) *out = packetizer->ids[offset / 8];
    else if (offset == PW_TIF_BASE_DEST) *out = packetizer->base_destination;
    else if (offset == PW_TIF_PID_CONF) *out = packetizer->valid;
    else if (offset == PW_TIF_CLR_REQ) *out = 0;
    else return PW_ERR_INVALID;
    return PW_OK;
}
