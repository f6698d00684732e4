/* Messages to peers by a core provider, which wait in order while it has no room for them. */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "transport/fabric/core_messages_state.h"

enum try_result { TRY_FREE, TRY_LENT, TRY_LATER, TRY_LOST, TRY_NO_MEMORY };

static void lose(pw_core_messages *messages, uint32_t peer, int error)
{
    message_peer *to = &messages->peers[peer];
    if (to->lost_error) return;
    to->lost_error = error;
    messages->counters.num_lost++;
    while (to->waiting.first) pw_waiting_move(&to->waiting, &messages->gone);
}

static int refuse_lost(const pw_core_messages *messages, uint32_t peer, pw_sentence *reason)
{
    const pw_fabric_library *library = messages->core.library;
    return pw_sentence_refuse(reason, PW_ERR_HOST,
                              "node %u cannot be reached over libfabric's provider %s (%s): its "
                              "process has ended, or the network between the hosts is cut; "
                              "run.wire_interface names another one",
                              peer, messages->core.provider,
                              library->strerror(messages->peers[peer].lost_error));
}

static posted_send *take_send(pw_core_messages *messages)
{
    if (!messages->free_sends) {
        send_chunk *chunk = calloc(1, sizeof *chunk);
        if (!chunk) return NULL;
        chunk->next = messages->chunks;
        messages->chunks = chunk;
        for (uint32_t i = 0; i < SENDS_AT_ONCE; i++) {
            chunk->sends[i].next = messages->free_sends;
            messages->free_sends = &chunk->sends[i];
        }
    }
    posted_send *it = messages->free_sends;
    messages->free_sends = it->next;
    return it;
}

static void give_back(pw_core_messages *messages, posted_send *it)
{
    it->next = messages->free_sends;
    messages->free_sends = it;
}

static enum try_result try_send(pw_core_messages *messages, uint32_t peer, uint8_t *data,
                                uint32_t num_bytes)
{
    message_peer *to = &messages->peers[peer];
    struct fid_ep *endpoint = messages->core.endpoint;
    const bool is_hello = data == messages->hello;
    const uint64_t tag = (uint64_t)to->key << KEY_SHIFT | (is_hello ? HELLO_FLAG : 0) |
                         (to->num_sent & NUMBER_MASK) << NUMBER_SHIFT | messages->options.node;
    posted_send *it = NULL;
    ssize_t code;
    if (num_bytes <= messages->core.inject_bytes) {
        code = fi_injectdata(endpoint, data, num_bytes, tag, to->address);
    } else {
        it = take_send(messages);
        if (!it) return TRY_NO_MEMORY;
        it->data = data;
        it->peer = peer;
        code =
            fi_senddata(endpoint, data, num_bytes, NULL, tag, to->address, &it->operation.context);
        if (code) give_back(messages, it);
    }
    if (code == -FI_EAGAIN) return TRY_LATER;
    if (code) {
        lose(messages, peer, (int)-code);
        return TRY_LOST;
    }
    to->num_sent += !is_hello;
    messages->counters.num_sent += !is_hello;
    return it ? TRY_LENT : TRY_FREE;
}

static int put(pw_core_messages *messages, uint32_t peer, uint8_t *data, uint32_t num_bytes,
               bool *is_free, pw_sentence *reason)
{
    message_peer *to = &messages->peers[peer];
    enum try_result result = TRY_LATER;
    if (to->lost_error) return refuse_lost(messages, peer, reason);
    const bool is_first = !to->waiting.first;
    if (is_first) result = try_send(messages, peer, data, num_bytes);
    if (result == TRY_LOST) return refuse_lost(messages, peer, reason);
    if (result == TRY_NO_MEMORY ||
        (result == TRY_LATER && pw_waiting_append(&messages->pool, &to->waiting, data, num_bytes)))
        return pw_sentence_refuse(reason, PW_ERR_NOMEM,
                                  "no memory for one more burst to node %u; %u are under way", peer,
                                  messages->num_pending);
    if (result == TRY_LATER && is_first)
        messages->waiting_peers[messages->num_waiting_peers++] = peer;
    *is_free = result == TRY_FREE;
    messages->num_pending += !*is_free;
    return PW_OK;
}

int pw_core_messages_send(pw_core_messages *messages, uint32_t peer, uint8_t *data,
                          uint32_t num_bytes, bool *is_free, pw_sentence *reason)
{
    return put(messages, peer, data, num_bytes, is_free, reason);
}

int pw_core_messages_greet(pw_core_messages *messages, uint32_t peer, pw_sentence *reason)
{
    bool is_free;
    return put(messages, peer, messages->hello, messages->hello_bytes, &is_free, reason);
}

static int64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Does whoever there is no room for still listen? */
static void probe(pw_core_messages *messages, uint32_t peer)
{
    message_peer *to = &messages->peers[peer];
    if (to->listens.ss_family == AF_UNSPEC) return;
    const int error = pw_listener_probe_ask(&to->probe, (const struct sockaddr *)&to->listens,
                                            to->listens_bytes, wall_ns());
    if (error) lose(messages, peer, error);
}

void pw_core_send_waiting(pw_core_messages *messages)
{
    for (uint32_t i = messages->num_waiting_peers; i-- > 0;) {
        const uint32_t peer = messages->waiting_peers[i];
        pw_waiting_list *waiting = &messages->peers[peer].waiting;
        bool is_stuck = true;
        while (waiting->first) {
            const pw_waiting *burst = waiting->first;
            const enum try_result result = try_send(messages, peer, burst->data, burst->num_bytes);
            if (result == TRY_LATER || result == TRY_NO_MEMORY) break;
            is_stuck = false;
            if (result == TRY_FREE) pw_waiting_move(waiting, &messages->gone);
            else if (result == TRY_LENT) pw_waiting_take(&messages->pool, waiting);
        }
        if (is_stuck) probe(messages, peer);
        else pw_listener_probe_clear(&messages->peers[peer].probe);
        if (!waiting->first)
            messages->waiting_peers[i] = messages->waiting_peers[--messages->num_waiting_peers];
    }
}

void pw_core_send_done(pw_core_messages *messages, posted_send *it, int error)
{
    if (error) lose(messages, it->peer, error);
    it->next = messages->done_sends;
    messages->done_sends = it;
}

uint8_t *pw_core_messages_sent(pw_core_messages *messages)
{
    uint8_t *data;
    do {
        posted_send *it = messages->done_sends;
        if (it) {
            data = it->data;
            messages->done_sends = it->next;
            give_back(messages, it);
        } else {
            data = pw_waiting_take(&messages->pool, &messages->gone);
        }
        messages->num_pending -= data != NULL;
    } while (data == messages->hello); /* is not the node's */
    return data;
}

uint32_t pw_core_messages_num_pending(const pw_core_messages *messages)
{
    return messages->num_pending;
}
