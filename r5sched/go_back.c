/* Go-back-N, as an InfiniBand NIC does it, for a transfer: the receiver takes blocks in their order
 * alone. What was sent behind one that it did not take is sent again: at once when the receiver
 * tells of the gap, with a timeout of the first, or after the pause for which a receiver asks that
 * is not ready, since its NIC handles a fault. */
#include "r5sched/firmware_parts.h"

/* The transfer's blocks from first_block on that are not acknowledged, in their order; how many. */
static uint32_t find_outstanding(pw_firmware *firmware, uint32_t channel, uint32_t first_block,
                                 pw_transaction *blocks[PW_WINDOW_MAX])
{
    uint32_t num_blocks = 0;
    for (uint32_t i = 0; i < PW_TRANSACTIONS; i++) {
        pw_transaction *each = &firmware->transactions.entries[i];
        if (each->state == PW_TRANSACTION_FREE || each->channel != channel ||
            each->block_idx < first_block)
            continue;
        uint32_t place = num_blocks++;
        for (; place > 0 && blocks[place - 1]->block_idx > each->block_idx; place--)
            blocks[place] = blocks[place - 1];
        blocks[place] = each;
    }
    return num_blocks;
}

void pw_go_back(pw_firmware *firmware, uint32_t channel, uint32_t first_block, pw_actions *actions,
                pw_time at_ns)
{
    pw_transaction *blocks[PW_WINDOW_MAX];
    if (firmware->transfers[channel].paused) return; /* the end of the pause goes back */
    uint32_t num_blocks = find_outstanding(firmware, channel, first_block, blocks);
    if (num_blocks && first_block == 0 && pw_answers_is_exhausted(blocks[0], PW_BLOCK_GO_BACK, 0)) {
        pw_firmware_fail(firmware, channel, PW_UNRECOVERABLE, actions, at_ns);
        return;
    }
    for (uint32_t i = 0; i < num_blocks; i++) {
        firmware->counters->blocks_gone_back += i > 0 || first_block > 0;
        pw_answers_go_back(firmware, blocks[i], actions, at_ns);
    }
}

void pw_go_back_pause(pw_firmware *firmware, uint32_t channel, pw_time at_ns)
{
    pw_transfer *transfer = &firmware->transfers[channel];
    if (transfer->paused) return;
    transfer->paused = true;
    pw_transaction *blocks[PW_WINDOW_MAX];
    uint32_t num_blocks = find_outstanding(firmware, channel, 0, blocks);
    for (uint32_t i = 0; i < num_blocks; i++) {
        blocks[i]->timer_cancelled = true;
        pw_transactions_disarm(&firmware->transactions, blocks[i]);
    }
    pw_time pause_ns = firmware->settings->odp_rnr_ns;
    firmware->counters->rnr_wait_ns += pause_ns;
    pw_r5_push(firmware, PW_EVENT_PAUSE_OVER, PRIORITY_TIMEOUT, at_ns + pause_ns, channel,
               transfer->stream);
}

void pw_go_back_resume(pw_firmware *firmware, uint32_t channel, uint32_t stream,
                       pw_actions *actions, pw_time at_ns)
{
    pw_transfer *transfer = &firmware->transfers[channel];
    if (!transfer->active || !transfer->paused || transfer->stream != stream) return;
    transfer->paused = false;
    pw_go_back(firmware, channel, 0, actions, at_ns);
    bool has_more = transfer->active && transfer->next_block < transfer->num_blocks &&
                    transfer->outstanding < transfer->window_blocks;
    if (has_more && !transfer->queued) pw_r5_requeue(firmware, channel, at_ns);
}
