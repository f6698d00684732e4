#include "r5sched/transactions.h"
#include "native/array.h"
#include <stdlib.h>

#define SLOT_MASK (PW_TRANSACTIONS - 1)
#define ID_MASK 0x3fffu

void pw_transactions_init(pw_transactions *table, bool ticket_queue)
{
    *table = (pw_transactions){.ticket_queue = ticket_queue,
                               .num_free = PW_TRANSACTIONS,
                               .first_unanswered = PW_NO_TRANSACTION,
                               .earliest_answer_ns = PW_NEVER};
}

void pw_transactions_destroy(pw_transactions *table)
{
    free(table->overtaken);
    free(table->places);
    free(table->tickets);
    for (uint32_t i = 0; i < table->num_chunks; i++) free(table->chunks[i]);
    free(table->chunks);
    pw_transactions_init(table, table->ticket_queue);
}

static int make_tables(pw_transactions *table)
{
    uint16_t *places = calloc(PW_TRANSACTIONS, sizeof *places);
    uint16_t *tickets = malloc(PW_TRANSACTIONS * sizeof *tickets);
    if (!places || !tickets) {
        free(places);
        free(tickets);
        return PW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < PW_TRANSACTIONS; i++) tickets[i] = (uint16_t)i;
    table->places = places;
    table->tickets = tickets;
    return PW_OK;
}

static int more_entries(pw_transactions *table)
{
    if (PW_ARRAY_MAKE_ROOM(table->chunks, table->num_chunks, table->chunks_capacity, 2) < 0)
        return PW_ERR_NOMEM;
    pw_transaction *chunk = calloc(PW_TRANSACTIONS_CHUNK, sizeof *chunk);
    if (!chunk) return PW_ERR_NOMEM;
    for (uint32_t i = PW_TRANSACTIONS_CHUNK; i-- > 0;) {
        chunk[i].place = (uint16_t)(table->num_chunks * PW_TRANSACTIONS_CHUNK + i);
        pw_link_push(&table->free_list, &chunk[i]);
    }
    table->chunks[table->num_chunks++] = chunk;
    return PW_OK;
}

uint16_t pw_transactions_next_id(const pw_transactions *table)
{
    if (!table->places) return 0;
    if (table->ticket_queue) return table->tickets[table->next_ticket];
    uint32_t slot = 0;
    while (table->places[slot]) slot++;
    return table->tickets[slot];
}

pw_transaction *pw_transactions_claim(pw_transactions *table)
{
    if (table->num_free == 0 || (!table->places && make_tables(table) < 0)) return NULL;
    if (!table->free_list && more_entries(table) < 0) return NULL;
    pw_transaction *transaction = pw_link_pop(&table->free_list);
    const uint16_t id = pw_transactions_next_id(table);
    if (table->ticket_queue) table->next_ticket = (table->next_ticket + 1) & SLOT_MASK;
    table->num_free--;
    table->places[id & SLOT_MASK] = (uint16_t)(transaction->place + 1);
    *transaction = (pw_transaction){
        .place = transaction->place,
        .id = id,
        .state = pw_block_transition_of(PW_TRANSACTION_FREE, PW_BLOCK_START)->next,
        .deadline_ns = PW_NEVER,
        .answer_ns = INT64_MIN,
    };
    return transaction;
}

void pw_transactions_release(pw_transactions *table, pw_transaction *transaction)
{
    pw_transactions_disarm(table, transaction);
    pw_transactions_answered(table, transaction);
    transaction->state = PW_TRANSACTION_FREE;
    uint32_t slot = transaction->id & SLOT_MASK;
    uint32_t tail = (table->next_ticket + table->num_free) & SLOT_MASK;
    transaction->id =
        (uint16_t)((transaction->id + PW_TRANSACTIONS) & ID_MASK); /* of the next holder */
    table->tickets[table->ticket_queue ? tail : slot] = transaction->id;
    table->num_free++;
    table->places[slot] = 0;
    pw_link_push(&table->free_list, transaction);
}

pw_transaction *pw_transactions_find(pw_transactions *table, uint16_t id)
{
    pw_transaction *transaction = pw_transactions_at(table, id & SLOT_MASK);
    return transaction && transaction->id == id ? transaction : NULL;
}

void pw_transactions_disarm(pw_transactions *table, pw_transaction *transaction)
{
    table->num_armed -= transaction->deadline_ns != PW_NEVER;
    transaction->deadline_ns = PW_NEVER;
}

void pw_transactions_arm(pw_transactions *table, pw_transaction *transaction, pw_time deadline_ns)
{
    pw_transactions_disarm(table, transaction);
    transaction->deadline_ns = deadline_ns;
    transaction->arm_number = table->next_arm_number++;
    table->num_armed += deadline_ns != PW_NEVER;
}

void pw_transactions_await(pw_transactions *table, pw_transaction *transaction,
                           pw_time earliest_answer_ns)
{
    pw_transactions_answered(table, transaction);
    uint16_t slot = transaction->id & SLOT_MASK;
    transaction->unanswered = true;
    transaction->earliest_answer_ns = earliest_answer_ns;
    transaction->before = PW_NO_TRANSACTION;
    transaction->after = table->first_unanswered;
    if (transaction->after != PW_NO_TRANSACTION)
        pw_transactions_at(table, transaction->after)->before = slot;
    table->first_unanswered = slot;
    if (earliest_answer_ns < table->earliest_answer_ns)
        table->earliest_answer_ns = earliest_answer_ns;
}

static void find_earliest(pw_transactions *table)
{
    pw_time earliest_ns = PW_NEVER;
    for (uint16_t slot = table->first_unanswered; slot != PW_NO_TRANSACTION;) {
        const pw_transaction *each = pw_transactions_at(table, slot);
        if (each->earliest_answer_ns < earliest_ns) earliest_ns = each->earliest_answer_ns;
        slot = each->after;
    }
    for (uint32_t i = 0; i < table->num_overtaken; i++)
        if (table->overtaken[i].earliest_answer_ns < earliest_ns)
            earliest_ns = table->overtaken[i].earliest_answer_ns;
    table->earliest_answer_ns = earliest_ns;
}

void pw_transactions_answered(pw_transactions *table, pw_transaction *transaction)
{
    if (!transaction->unanswered) return;
    transaction->unanswered = transaction->awaits_err = false;
    if (transaction->before != PW_NO_TRANSACTION)
        pw_transactions_at(table, transaction->before)->after = transaction->after;
    else table->first_unanswered = transaction->after;
    if (transaction->after != PW_NO_TRANSACTION)
        pw_transactions_at(table, transaction->after)->before = transaction->before;
    if (transaction->earliest_answer_ns == table->earliest_answer_ns) find_earliest(table);
}

pw_overtaken *pw_transactions_find_overtaken(pw_transactions *table, uint16_t id, uint16_t sequence,
                                             uint64_t identity)
{
    for (uint32_t i = 0; i < table->num_overtaken; i++) {
        pw_overtaken *overtaken = &table->overtaken[i];
        if (overtaken->id == id && overtaken->sequence == sequence &&
            overtaken->identity == identity)
            return overtaken;
    }
    return NULL;
}

int pw_transactions_note_overtaken(pw_transactions *table, const pw_overtaken *attempt)
{
    pw_overtaken *same =
        pw_transactions_find_overtaken(table, attempt->id, attempt->sequence, attempt->identity);
    if (same) { /* sequence numbers wrap */
        same->earliest_answer_ns = pw_later(same->earliest_answer_ns, attempt->earliest_answer_ns);
        find_earliest(table);
        return PW_OK;
    }
    if (PW_ARRAY_MAKE_ROOM(table->overtaken, table->num_overtaken, table->overtaken_capacity, 16) <
        0)
        return PW_ERR_NOMEM;
    table->overtaken[table->num_overtaken++] = *attempt;
    if (attempt->earliest_answer_ns < table->earliest_answer_ns)
        table->earliest_answer_ns = attempt->earliest_answer_ns;
    return PW_OK;
}

void pw_transactions_overtaken_answered(pw_transactions *table, pw_overtaken *overtaken)
{
    *overtaken = table->overtaken[--table->num_overtaken];
    find_earliest(table);
}

void pw_transactions_overtaken_passed(pw_transactions *table, pw_overtaken *overtaken,
                                      pw_time earliest_answer_ns)
{
    overtaken->earliest_answer_ns = earliest_answer_ns;
    find_earliest(table);
}

void pw_transactions_overtaken_of_stream(pw_transactions *table, uint32_t peer, uint32_t stream,
                                         pw_time earliest_answer_ns)
{
    for (uint32_t i = 0; i < table->num_overtaken; i++) {
        pw_overtaken *overtaken = &table->overtaken[i];
        if (overtaken->peer == peer && overtaken->identity >> 32 == stream)
            overtaken->earliest_answer_ns =
                pw_later(overtaken->earliest_answer_ns, earliest_answer_ns);
    }
    find_earliest(table);
}
