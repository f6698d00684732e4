/* PW_POLICY_HOST: the host decides which pages a fault brings in. Until it has, the block under way
 * waits (ni->arrival or ni->departure), the firmware's actions behind it too, and bursts are kept.
 */
#include "ni/dispatch.h"
#include "ni/state.h"
#include <stdlib.h>
#include <string.h>

typedef struct pw_held_burst {
    struct pw_held_burst *next;
    uint32_t source, num_bytes, position;
    _Alignas(8) uint8_t data[];
} pw_held_burst;

void pw_engine_ask(pw_ni *ni)
{
    const pw_tasklet_job *pending = pw_driver_undecided(&ni->driver);
    ni->decision_wanted = true;
    pw_engine_emit(ni, PW_HOST_DECISION, ++ni->decision_id, PW_OK, ni->service.page_in_ns, 0,
                   pending->fault.source_node);
}

/* From the frame under way on: its block is needed when it is answered. */
void pw_engine_hold(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes,
                    uint32_t position)
{
    const uint8_t *block = (const uint8_t *)ni->arrival.block;
    uint32_t begin = position ? (uint32_t)(block - data) : 0;
    pw_held_burst *held = malloc(sizeof *held + num_bytes - begin);
    if (!held) {
        pw_ni_latch(ni, PW_ERR_NOMEM);
        return;
    }
    *held = (pw_held_burst){
        .source = source, .num_bytes = num_bytes - begin, .position = position - begin};
    memcpy(held->data, data + begin, num_bytes - begin);
    if (position) ni->arrival.block = (const pw_block_frame *)(const void *)held->data;
    if (ni->last_held) ni->last_held->next = held;
    else ni->first_held = held;
    ni->last_held = held;
}

static void release_first(pw_ni *ni)
{
    pw_held_burst *held = ni->first_held;
    ni->first_held = held->next;
    if (!ni->first_held) ni->last_held = NULL;
    free(held);
}

void pw_engine_drop_held(pw_ni *ni)
{
    while (ni->first_held) release_first(ni);
}

static int receive_held(pw_ni *ni)
{
    int result = PW_OK;
    while (ni->first_held && !ni->decision_wanted) {
        pw_held_burst *held = ni->first_held;
        held->position += pw_dispatch_burst(ni, held->source, held->data + held->position,
                                            held->num_bytes - held->position, &result);
        if (!ni->decision_wanted) release_first(ni); /* else the block under way is in it */
    }
    return result;
}

int pw_ni_read_decision(const pw_ni *ni, uint64_t id, pw_decision *out)
{
    if (!ni->decision_wanted || id != ni->decision_id) return PW_ERR_INVALID;
    const pw_tasklet_job *pending = pw_driver_undecided(&ni->driver);
    const pw_fault *fault = &pending->fault;
    uint32_t bank = 0;
    while (ni->smmu.banks[bank].pdid != fault->pdid) bank++;
    *out = (pw_decision){
        .page = pending->page,
        .block_first_page = fault->block_first_page,
        .block_end_page = fault->block_end_page,
        .transfer_first_page = fault->transfer_first_page,
        .transfer_end_page = fault->transfer_end_page,
        .time_ns = ni->service.page_in_ns,
        .source_node = fault->source_node,
        .bank = bank,
        .pdid = fault->pdid,
        .transaction_id = fault->transaction_id,
        .sequence = fault->sequence,
        .at_destination = fault->at_destination,
    };
    return PW_OK;
}

int pw_ni_decide(pw_ni *ni, uint64_t id, uint64_t first_page, uint64_t num_pages)
{
    if (!ni->decision_wanted || id != ni->decision_id) return PW_ERR_INVALID;
    const pw_tasklet_job *pending = pw_driver_undecided(&ni->driver);
    bool holds_page = first_page <= pending->page && pending->page - first_page < num_pages;
    if (!holds_page || num_pages > UINT64_MAX - first_page) return PW_ERR_INVALID;
    bool at_destination = pending->fault.at_destination;
    ni->decision_wanted = false;
    pw_ni_enter(ni); /* the host's policy has run */
    if (!pw_driver_decide(&ni->driver, first_page, first_page + num_pages, &ni->service)) {
        pw_engine_ask(ni);
        return PW_OK;
    }
    if (at_destination) {
        pw_destination_refuse(ni);
        pw_destination_answered(ni, ni->arrival.block);
    } else pw_source_send_block(ni, &ni->actions);
    pw_engine_perform(ni);
    return receive_held(ni);
}
