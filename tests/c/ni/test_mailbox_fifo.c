#include "ni/packetizer.h"
#include <assert.h>
#include <stdlib.h>

static pw_mailbox_word word(uint64_t number) { return (pw_mailbox_word){number, ~number}; }

static void assert_word(pw_mailbox_word got, uint64_t number)
{
    assert(got.low == number && got.high == ~number);
}

static bool put(pw_mailbox_fifo *fifo, uint64_t number, int64_t at_ns)
{
    pw_mailbox_word one = word(number);
    bool is_acked;
    uint32_t num_kept = pw_mailbox_fifo_write(fifo, &one, 1, at_ns, &is_acked);
    assert(is_acked == (num_kept == 1));
    return is_acked;
}

static void empty_fifo_reads_the_pattern_twice(void)
{
    pw_mailbox_fifo *fifo = pw_mailbox_fifo_create(4, PW_BURSTS_HARDWARE);
    pw_mailbox_word got[3];
    assert(pw_mailbox_fifo_read(fifo, got, 1, 0) == 0);
    assert(got[0].low == UINT64_C(0xCAFEFEBEDEADBEAF) && got[0].high == got[0].low);
    assert(put(fifo, 7, 100) && pw_mailbox_fifo_next_ns(fifo) == 100);
    assert(pw_mailbox_fifo_read(fifo, got, 1, 99) == 0); /* has not arrived */
    /* A burst takes what is there; its other beats are the pattern. */
    assert(pw_mailbox_fifo_read(fifo, got, 3, 100) == 1);
    assert_word(got[0], 7);
    assert(got[1].low == PW_MAILBOX_EMPTY && got[2].high == PW_MAILBOX_EMPTY);
    assert(pw_mailbox_fifo_next_ns(fifo) == INT64_MAX);
    pw_mailbox_fifo_destroy(fifo);
}

static void full_fifo_refuses_until_a_word_is_read(void)
{
    pw_mailbox_fifo *fifo = pw_mailbox_fifo_create(2, PW_BURSTS_HARDWARE);
    pw_mailbox_word got;
    assert(put(fifo, 1, 10) && put(fifo, 2, 20) && !put(fifo, 3, 30));
    assert(pw_mailbox_fifo_read(fifo, &got, 1, 50) == 1);
    assert_word(got, 1);
    assert(!put(fifo, 4, 49)); /* known later, but before the read */
    assert(put(fifo, 5, 50) && !put(fifo, 6, 51));
    assert(pw_mailbox_fifo_read(fifo, &got, 1, 60) == 1);
    assert_word(got, 2);
    assert(pw_mailbox_fifo_read(fifo, &got, 1, 60) == 1);
    assert_word(got, 5);
    pw_mailbox_fifo_destroy(fifo);
}

/* Physically first, virtually later: no reason to be refused. */
static void words_that_arrive_later_take_no_place(void)
{
    pw_mailbox_fifo *fifo = pw_mailbox_fifo_create(2, PW_BURSTS_HARDWARE);
    pw_mailbox_word got;
    for (int64_t at_ns = 100; at_ns < 200; at_ns += 10) {
        assert(put(fifo, 1, at_ns));
        assert(pw_mailbox_fifo_read(fifo, &got, 1, at_ns + 5) == 1);
    }
    assert(put(fifo, 7, 50) && pw_mailbox_fifo_read(fifo, &got, 1, 190) == 1);
    assert_word(got, 7);
    /* 7 was there, and was read later; with 8 the FIFO is full. */
    assert(put(fifo, 8, 182) && !put(fifo, 9, 183));
    pw_mailbox_fifo_destroy(fifo);
}

static void burst_into_an_almost_full_fifo(int64_t bursts, uint32_t kept, bool acked)
{
    pw_mailbox_fifo *fifo = pw_mailbox_fifo_create(4, bursts);
    const pw_mailbox_word burst[3] = {word(11), word(12), word(13)};
    bool is_acked;
    assert(put(fifo, 1, 0) && put(fifo, 2, 0));
    assert(pw_mailbox_fifo_write(fifo, burst, 3, 5, &is_acked) == kept && is_acked == acked);
    uint32_t room = 0;
    while (put(fifo, 9, 5)) room++;
    assert(room == 2 - kept);
    /* A burst that finds it full is refused in either case. */
    assert(pw_mailbox_fifo_write(fifo, burst, 3, 6, &is_acked) == 0 && !is_acked);
    pw_mailbox_word got[4];
    assert(pw_mailbox_fifo_read(fifo, got, 4, 6) == 4);
    assert_word(got[0], 1);
    assert_word(got[2], kept ? 11 : 9);
    pw_mailbox_fifo_destroy(fifo);
}

static void words_stand_in_order_of_arrival_and_bursts_together(void)
{
    pw_mailbox_fifo *fifo = pw_mailbox_fifo_create(8, PW_BURSTS_HARDWARE);
    const pw_mailbox_word late[2] = {word(21), word(22)}, early[2] = {word(11), word(12)};
    bool is_acked;
    pw_mailbox_fifo_write(fifo, late, 2, 200, &is_acked);
    pw_mailbox_fifo_write(fifo, early, 2, 100, &is_acked);
    assert(put(fifo, 23, 200));
    pw_mailbox_word got[5];
    assert(pw_mailbox_fifo_read(fifo, got, 5, 1000) == 5);
    const uint64_t expected[5] = {11, 12, 21, 22, 23};
    for (int i = 0; i < 5; i++) assert_word(got[i], expected[i]);
    pw_mailbox_fifo_destroy(fifo);
}

/* A plain queue with a limit, words read at once or not at all. */
static void long_run_is_that_of_a_queue(void)
{
    enum { DEPTH = 5, STEPS = 20000 };
    pw_mailbox_fifo *fifo = pw_mailbox_fifo_create(DEPTH, PW_BURSTS_WHOLE);
    uint64_t queue[DEPTH], next = 1;
    uint32_t count = 0;
    srand(5);
    for (int64_t now_ns = 0; now_ns < STEPS; now_ns++) {
        uint32_t num_words = 1 + (uint32_t)rand() % 3;
        pw_mailbox_word words[3];
        if (rand() % 2) {
            bool is_acked;
            for (uint32_t i = 0; i < num_words; i++) words[i] = word(next + i);
            uint32_t num_kept = pw_mailbox_fifo_write(fifo, words, num_words, now_ns, &is_acked);
            assert(num_kept == (count + num_words <= DEPTH ? num_words : 0));
            for (uint32_t i = 0; i < num_kept; i++) queue[count++] = next++;
        } else {
            uint32_t expected = num_words < count ? num_words : count;
            assert(pw_mailbox_fifo_read(fifo, words, num_words, now_ns) == expected);
            for (uint32_t i = 0; i < expected; i++) assert_word(words[i], queue[i]);
            for (uint32_t i = expected; i < count; i++) queue[i - expected] = queue[i];
            count -= expected;
        }
    }
    pw_mailbox_fifo_destroy(fifo);
}

int main(void)
{
    empty_fifo_reads_the_pattern_twice();
    full_fifo_refuses_until_a_word_is_read();
    words_that_arrive_later_take_no_place();
    burst_into_an_almost_full_fifo(PW_BURSTS_HARDWARE, 2, true);
    burst_into_an_almost_full_fifo(PW_BURSTS_WHOLE, 0, false);
    words_stand_in_order_of_arrival_and_bursts_together();
    long_run_is_that_of_a_queue();
    return 0;
}
