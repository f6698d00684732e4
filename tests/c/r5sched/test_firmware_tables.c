/* Transactions, scheduler, NI FIFO, page-in table and segmentation against short references. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "native/ni_fifo.h"
#include "r5sched/scheduler.h"
#include "r5sched/segmentation.h"
#include "r5sched/transactions.h"
#include "smmu/presence.h"

static uint32_t draw(uint32_t below)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* Ids are unique among the pending, old ids find nothing, the timeout list keeps its order. */
static void transactions(bool ticket_queue)
{
    static pw_transactions table;
    static uint16_t pending[PW_TRANSACTIONS], list[PW_TRANSACTIONS];
    uint32_t num_pending = 0, num_listed = 0;
    pw_transactions_init(&table, ticket_queue);
    for (int step = 0; step < 60000; step++) {
        uint32_t choice = draw(8), at = num_pending ? draw(num_pending) : 0;
        if (choice < 4 - (uint32_t)(step / 30000)) {
            const bool is_full = num_pending == PW_TRANSACTIONS;
            const uint16_t next_id = is_full ? 0 : pw_transactions_next_id(&table);
            pw_transaction *transaction = pw_transactions_claim(&table);
            assert(!transaction == is_full);
            if (!transaction) continue;
            assert(transaction->id == next_id);
            assert(transaction->id < 1 << 14 && transaction->sequence == 0);
            pending[num_pending++] = transaction->id;
            continue;
        }
        if (!num_pending) continue;
        uint16_t id = pending[at];
        pw_transaction *transaction = pw_transactions_find(&table, id);
        assert(transaction && transaction->id == id);
        uint32_t kept = 0; /* arm moves to the tail, disarm and release take it out */
        for (uint32_t i = 0; i < num_listed; i++)
            if (list[i] != id) list[kept++] = list[i];
        num_listed = kept;
        if (choice == 4) {
            pw_transactions_arm(&table, transaction, step);
            list[num_listed++] = id;
        } else if (choice == 5) {
            pw_transactions_disarm(&table, transaction);
            assert(transaction->deadline_ns == PW_NEVER);
        } else {
            pw_transactions_release(&table, transaction);
            pending[at] = pending[--num_pending];
            assert(!pw_transactions_find(&table, id));
        }
        assert(table.num_free == PW_TRANSACTIONS - num_pending);
        assert(table.num_armed == num_listed);
    }
    pw_transactions_destroy(&table);
}

static void scheduler(void)
{
    static pw_scheduler scheduler = {.high_limit_bytes = 16384, .medium_limit_bytes = 524288};
    static uint32_t queue[PW_NUM_CLASSES][PW_NUM_CHANNELS], length[PW_NUM_CLASSES];
    uint32_t channel, num_channels = 0;
    assert(pw_scheduler_classify(&scheduler, 16384) == PW_CLASS_HIGH);
    assert(pw_scheduler_classify(&scheduler, 16385) == PW_CLASS_MEDIUM);
    assert(pw_scheduler_classify(&scheduler, 524289) == PW_CLASS_LOW);
    for (int step = 0; step < 50000; step++) {
        if (step % 3000 == 0 && num_channels < PW_NUM_CHANNELS) /* what is queued stays so */
            assert(pw_scheduler_make_room(&scheduler, num_channels += 64) == PW_OK);
        uint32_t class_ = draw(PW_NUM_CLASSES), choice = draw(4), *q = queue[class_],
                 *n = &length[class_];
        if (choice == 0 && *n < num_channels) {
            pw_scheduler_enqueue(&scheduler, (enum pw_class)class_,
                                 q[(*n)++] = (uint32_t)step % PW_NUM_CHANNELS);
        } else if (choice == 1 && *n < num_channels) {
            memmove(q + 1, q, (*n)++ * sizeof *q);
            pw_scheduler_put_back(&scheduler, (enum pw_class)class_,
                                  q[0] = (uint32_t)step % PW_NUM_CHANNELS);
        } else if (choice == 2 && *n) {
            uint32_t removed = q[draw(*n)], kept = 0;
            for (uint32_t i = 0; i < *n; i++)
                if (q[i] != removed) q[kept++] = q[i];
            *n = kept;
            pw_scheduler_remove(&scheduler, (enum pw_class)class_, removed);
        } else {
            uint32_t first = 0;
            while (first < PW_NUM_CLASSES && !length[first]) first++;
            assert(pw_scheduler_dequeue(&scheduler, &channel) == (first < PW_NUM_CLASSES));
            if (first == PW_NUM_CLASSES) continue;
            assert(channel == queue[first][0]);
            memmove(queue[first], queue[first] + 1, --length[first] * sizeof channel);
        }
    }
    pw_scheduler_destroy(&scheduler);
}

static void ni_fifo(void)
{
    static pw_ni_fifo fifo;
    pw_fifo_fields fields = {.source_node = 0x3fffff,
                             .transaction_id = 0x3fff,
                             .sequence = 0xfff,
                             .pdid = 0xffff,
                             .page = (UINT64_C(1) << 36) - 1,
                             .code = 1};
    pw_fifo_fields same = pw_fifo_unpack(pw_fifo_pack(&fields));
    assert(same.source_node == fields.source_node && same.transaction_id == fields.transaction_id &&
           same.sequence == fields.sequence && same.pdid == fields.pdid &&
           same.page == fields.page && same.code == 1);
    for (uint32_t depth = 1; depth <= PW_NI_FIFO_DEPTH; depth += 73) {
        pw_ni_fifo_init(&fifo, depth, 1);
        for (uint32_t i = 0; i < depth + 3; i++) {
            fields.page = i;
            enum pw_fifo_outcome outcome = pw_ni_fifo_push(&fifo, i, pw_fifo_pack(&fields));
            assert(outcome == (i < depth ? PW_FIFO_PUSHED : PW_FIFO_LOST));
            if (i < depth)
                assert(pw_ni_fifo_push(&fifo, i, pw_fifo_pack(&fields)) == PW_FIFO_FILTERED);
        }
        /* half read, an entry neither leaves nor makes room */
        pw_fifo_fields first = {.source_node = 0x3fffff,
                                .transaction_id = 0x3fff,
                                .sequence = 0xfff,
                                .pdid = 0xffff,
                                .code = 1};
        pw_fifo_entry entry = {.low = pw_ni_fifo_read_word(&fifo, 4000)};
        assert(pw_ni_fifo_push(&fifo, 9000, pw_fifo_pack(&fields)) == PW_FIFO_LOST);
        entry.high =
            pw_ni_fifo_read_word(&fifo, 5000); /* goes on with the same entry's high word */
        assert(entry.low == pw_fifo_pack(&first).low && entry.high == pw_fifo_pack(&first).high);
        assert(pw_ni_fifo_push(&fifo, 4999, pw_fifo_pack(&fields)) == PW_FIFO_LOST);
        assert(pw_ni_fifo_push(&fifo, 5000, pw_fifo_pack(&fields)) == PW_FIFO_PUSHED);
        for (uint32_t i = 1; i <= depth; i++) { /* the rest, in order */
            entry.low = pw_ni_fifo_read_word(&fifo, 6000);
            entry.high = pw_ni_fifo_read_word(&fifo, 6000);
            assert(pw_fifo_unpack(entry).page == (i < depth ? i : depth + 2) &&
                   pw_fifo_unpack(entry).pdid == 0xffff);
        }
        assert(pw_ni_fifo_read_word(&fifo, 6000) == 0 && !fifo.half_read);
        fields.page++;
        assert(pw_ni_fifo_push(&fifo, 5999, pw_fifo_pack(&fields)) == PW_FIFO_LOST);
        for (uint32_t i = 0; i <= depth; i++, fields.page++)
            assert(pw_ni_fifo_push(&fifo, 6000, pw_fifo_pack(&fields)) ==
                   (i < depth ? PW_FIFO_PUSHED : PW_FIFO_LOST));
        pw_ni_fifo_finish(&fifo);
    }
}

static void page_in(void)
{
    enum { PAGES = 5000 };
    static pw_time reference[PAGES];
    pw_presence table;
    pw_cpu cpu;
    pw_cpu_init(&cpu, 1000);
    pw_presence_init(&table, &cpu);
    for (int i = 0; i < PAGES; i++) reference[i] = INT64_MIN;
    for (int step = 0; step < 40000; step++) {
        uint32_t page = 1 + draw(PAGES - 1);
        if (draw(4)) {
            reference[page] = step;
            assert(pw_presence_add(&table, page, (pw_cpu_instant){.ns = step}, step % 2 == 0) ==
                   PW_OK);
        } else {
            uint32_t num_pages = draw(40);
            if (page + num_pages > PAGES) num_pages = PAGES - page;
            for (uint32_t i = page; i < page + num_pages; i++) reference[i] = INT64_MIN;
            pw_presence_forget(&table, page, num_pages);
        }
        page = 1 + draw(PAGES - 1);
        assert(pw_presence_present_ns(&table, page) == reference[page]);
    }
    uint32_t num_entries = 0;
    for (uint32_t page = 1; page < PAGES; page++) {
        assert(pw_presence_present_ns(&table, page) == reference[page]);
        num_entries += reference[page] != INT64_MIN;
    }
    assert(num_entries == table.num_entries);
    pw_presence_forget(&table, 1, PAGES);
    assert(table.num_entries == 0);
    pw_presence_destroy(&table);
}

/* Blocks cover the transfer without gap, up to 4 GB, and end at aligned destination addresses. */
static void segmentation(void)
{
    for (int step = 0; step < 3000; step++) {
        uint64_t num_bytes =
            1 + (step % 3 ? draw(200000) : PW_TRANSFER_MAX_BYTES - 1 - draw(70000));
        uint64_t address = ((uint64_t)draw(1u << 30) << 18) + draw(1 << 18);
        uint32_t first = pw_first_block_bytes(PW_BLOCK_BYTES, address, num_bytes),
                 num_blocks = pw_num_blocks(PW_BLOCK_BYTES, address, num_bytes);
        for (uint32_t i = 0; i < num_blocks;
             i += 1 + (num_blocks > 100 ? draw(num_blocks / 50) : 0)) {
            uint64_t begin = pw_block_offset(PW_BLOCK_BYTES, first, i),
                     end = begin + pw_block_bytes(PW_BLOCK_BYTES, num_bytes, first, i);
            assert(end > begin && end - begin <= PW_BLOCK_BYTES);
            assert(i == 0 ? begin == 0 : (address + begin) % PW_BLOCK_BYTES == 0);
            assert(i + 1 < num_blocks ? end == pw_block_offset(PW_BLOCK_BYTES, first, i + 1)
                                      : end == num_bytes);
        }
    }
    for (int step = 0; step < 20; step++) { /* every block of the longest transfers */
        uint64_t num_bytes = PW_TRANSFER_MAX_BYTES - (uint64_t)step * draw(40000), sum = 0;
        uint64_t address = ((uint64_t)draw(1u << 30) << 12) + draw(1 << 15);
        uint32_t first = pw_first_block_bytes(PW_BLOCK_BYTES, address, num_bytes),
                 num_blocks = pw_num_blocks(PW_BLOCK_BYTES, address, num_bytes);
        for (uint32_t i = 0; i < num_blocks; i++) {
            uint32_t block_bytes = pw_block_bytes(PW_BLOCK_BYTES, num_bytes, first, i);
            assert(block_bytes > 0 && block_bytes <= PW_BLOCK_BYTES &&
                   pw_block_offset(PW_BLOCK_BYTES, first, i) == sum);
            assert(i == 0 || (address + sum) % PW_BLOCK_BYTES == 0);
            sum += block_bytes;
        }
        assert(sum == num_bytes);
    }
    assert(pw_num_blocks(PW_BLOCK_BYTES, 16384, PW_TRANSFER_MAX_BYTES) == 262144 &&
           pw_num_blocks(PW_BLOCK_BYTES, 1, PW_TRANSFER_MAX_BYTES) == 262145);
}

int main(void)
{
    transactions(true);
    transactions(false);
    scheduler();
    ni_fifo();
    page_in();
    segmentation();
    return 0;
}
