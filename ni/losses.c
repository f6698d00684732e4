#include "ni/losses.h"
#include "ni/inbound.h"
#include "ni/state.h"

static void lose_answers(pw_ni *ni, const pw_transaction *transaction)
{
    pw_firmware *firmware = &ni->firmware;
    uint64_t identity =
        pw_identity(firmware->transfers[transaction->channel].stream, transaction->block_idx);
    pw_answer lost = {.kind = PW_EVENT_NACK,
                      .peer = firmware->transfers[transaction->channel].peer,
                      .transaction_id = transaction->id,
                      .sequence = transaction->sequence,
                      .identity = identity,
                      .sent_ns = INT64_MIN};
    if (transaction->predicted && !transaction->confirmed) { /* its ACK may never be confirmed */
        lost.code = PW_NACK_CORRUPT;
        lost.at_ns = transaction->predicted_ns;
        pw_firmware_answer(firmware, &lost);
    } else if (transaction->unanswered) {
        lost.at_ns = transaction->earliest_answer_ns;
        pw_firmware_spoiled(firmware, &lost);
        pw_firmware_no_answer(firmware, &lost);
    }
}

void pw_losses_note(pw_ni *ni, uint32_t peer)
{
    for (uint32_t i = 0; i < PW_TRANSACTIONS; i++) {
        const pw_transaction *transaction = &ni->firmware.transactions.entries[i];
        if (transaction->state != PW_TRANSACTION_FREE &&
            ni->firmware.transfers[transaction->channel].peer == peer)
            lose_answers(ni, transaction);
    }
    pw_transactions *table = &ni->firmware.transactions;
    for (uint32_t i = table->num_overtaken; i-- > 0;)
        if (table->overtaken[i].peer == peer)
            pw_transactions_overtaken_answered(table, &table->overtaken[i]);
    while (pw_network_settle(ni, peer)) continue;
    pw_inbound_fail_unserved(ni, peer);
}
