#include "ni/mailbox_fifo.h"
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

pw_mailbox_word pw_mailbox_fifo_peek(const pw_mailbox_fifo *fifo)
{
    return fifo->num_waiting ? at(fifo, 0)->word
                             : (pw_mailbox_word){PW_MAILBOX_EMPTY, PW_MAILBOX_EMPTY};
}

uint32_t pw_mailbox_fifo_num_words(const pw_mailbox_fifo *fifo) { return fifo->num_waiting; }
