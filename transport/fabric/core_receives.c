/* Messages of a core provider that come in: checked, put in order, handed out. */
#include "transport/fabric/core_messages_state.h"

void pw_core_receive_post(receive *it)
{
    pw_core_messages *messages = it->messages;
    const ssize_t code = fi_recv(messages->core.endpoint, it->buffer, PW_BURST_BYTES, NULL,
                                 FI_ADDR_UNSPEC, &it->operation.context);
    if (!code) return;
    it->next = messages->unposted; /* the next poll tries again */
    messages->unposted = it;
}

void pw_core_receive_drop(receive *it)
{
    it->messages->counters.num_dropped++;
    pw_core_receive_post(it);
}

/* Whoever can reach the endpoint can write this: believe nothing. */
void pw_core_receive_arrived(receive *it, uint64_t data, size_t num_bytes)
{
    pw_core_messages *messages = it->messages;
    const pw_core_messages_options *options = &messages->options;
    const uint32_t source = (uint32_t)data & SOURCE_MASK;
    if (data >> KEY_SHIFT != options->key || source >= options->num_nodes ||
        source == options->node || !num_bytes || num_bytes > PW_BURST_BYTES) {
        pw_core_receive_drop(it);
        return;
    }
    it->source = source;
    it->number = (uint32_t)data >> NUMBER_SHIFT & NUMBER_MASK;
    it->is_hello = ((uint32_t)data & HELLO_FLAG) != 0;
    it->num_bytes = (uint32_t)num_bytes;
    it->next = NULL;
    receive **end = &messages->held;
    while (*end) end = &(*end)->next;
    *end = it;
    messages->num_held++;
}

static receive *unlink_at(pw_core_messages *messages, receive **at)
{
    receive *it = *at;
    *at = it->next;
    messages->num_held--;
    return it;
}

/* The first that is its source's next one, NULL: none is. */
static receive *next_in_order(pw_core_messages *messages)
{
    for (receive **at = &messages->held; *at; at = &(*at)->next) {
        const receive *it = *at;
        if (it->is_hello) return unlink_at(messages, at);
        message_peer *from = &messages->peers[it->source];
        if (!from->is_open || it->number != (from->num_received & NUMBER_MASK)) continue;
        from->num_received++;
        return unlink_at(messages, at);
    }
    /* A burst that is early has been overtaken by none that found no receive: when all are held,
     * the oldest does not come from whom it says. */
    if (messages->num_held == RECEIVES) pw_core_receive_drop(unlink_at(messages, &messages->held));
    return NULL;
}

static void post_again(pw_core_messages *messages)
{
    receive *it = messages->unposted;
    messages->unposted = NULL;
    while (it) {
        receive *next = it->next;
        pw_core_receive_post(it);
        it = next;
    }
}

int pw_core_messages_poll(pw_core_messages *messages, pw_wire_burst *out, int *kind,
                          pw_sentence *reason)
{
    receive *it = messages->held ? next_in_order(messages) : NULL;
    if (!it) {
        if (messages->unposted) post_again(messages);
        const int code = pw_core_messages_progress(messages, reason);
        if (code) return code;
        if (messages->num_waiting_peers) pw_core_send_waiting(messages);
        it = messages->held ? next_in_order(messages) : NULL;
        if (!it) return 0;
    }
    *kind = it->is_hello ? PW_CORE_HELLO : PW_CORE_BURST;
    *out = (pw_wire_burst){.source = it->source,
                           .num_bytes = it->num_bytes,
                           .data = it->buffer,
                           .token = (uintptr_t)it | PW_CORE_MESSAGES_TOKEN};
    return 1;
}

void pw_core_messages_taken(const pw_wire_burst *burst)
{
    pw_core_receive_post((receive *)(uintptr_t)(burst->token & ~(uint64_t)PW_CORE_MESSAGES_TOKEN));
}

void pw_core_messages_open_source(pw_core_messages *messages, uint32_t source)
{
    messages->peers[source].is_open = true;
}
