#include "transport/fabric/core_messages.h"

#include <netinet/in.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/fabric/core_messages_state.h"

#define COMPLETIONS_AT_ONCE 16

static int make_receives(pw_core_messages *messages)
{
    for (uint32_t i = 0; i < RECEIVES; i++) {
        receive *it = &messages->receives[i];
        it->operation.is_receive = true;
        it->messages = messages;
        it->buffer = aligned_alloc(64, PW_BURST_BYTES);
        if (!it->buffer) return PW_ERR_NOMEM;
        pw_core_receive_post(it);
    }
    return PW_OK;
}

int pw_core_messages_open(const pw_fabric_library *library, const char *provider,
                          const char *interface, const pw_core_messages_options *options,
                          pw_core_messages **out, pw_sentence *reason)
{
    int code = PW_ERR_NOMEM;
    pw_core_messages *messages = calloc(1, sizeof *messages);
    if (messages) {
        messages->options = *options;
        messages->peers = calloc(options->num_nodes, sizeof *messages->peers);
        messages->waiting_peers = calloc(options->num_nodes, sizeof *messages->waiting_peers);
    }
    if (!messages || !messages->peers || !messages->waiting_peers) {
        pw_sentence_refuse(reason, code, "no memory for the tables of %u peers",
                           options->num_nodes);
        goto failed;
    }
    code = pw_core_endpoint_open(library, provider, interface, &messages->core, reason);
    if (code) goto failed;
    code = make_receives(messages);
    if (code) {
        pw_sentence_refuse(reason, code, "no memory for %u receive buffers of %u bytes", RECEIVES,
                           PW_BURST_BYTES);
        goto failed;
    }
    *out = messages;
    return PW_OK;
failed:
    pw_core_messages_close(messages, true);
    return code;
}

int pw_core_messages_name(const pw_core_messages *messages, void *out, size_t *num_bytes,
                          pw_sentence *reason)
{
    return pw_core_endpoint_name(&messages->core, out, num_bytes, reason);
}

void pw_core_messages_set_hello(pw_core_messages *messages, const void *hello, size_t num_bytes)
{
    memcpy(messages->hello, hello, num_bytes);
    messages->hello_bytes = (uint32_t)num_bytes;
}

static bool is_socket_address(const void *name, size_t name_bytes)
{
    const struct sockaddr *address = name;
    return (name_bytes == sizeof(struct sockaddr_in) && address->sa_family == AF_INET) ||
           (name_bytes == sizeof(struct sockaddr_in6) && address->sa_family == AF_INET6);
}

int pw_core_messages_add(pw_core_messages *messages, uint32_t peer, const void *name,
                         size_t name_bytes, uint32_t key, pw_sentence *reason)
{
    message_peer *it = &messages->peers[peer];
    if (it->is_added) return PW_OK;
    const int code = pw_core_endpoint_insert(&messages->core, name, &it->address, reason);
    if (code) return code;
    it->key = key;
    if (is_socket_address(name, name_bytes)) {
        memcpy(&it->listens, name, name_bytes);
        it->listens_bytes = (socklen_t)name_bytes;
    }
    it->is_added = true;
    return PW_OK;
}

/* libfabric 1.20 and later write one more field behind those that the header knows. */
typedef union {
    struct fi_cq_err_entry entry;
    uint8_t room[256];
} failed_completion;

static int read_failed(pw_core_messages *messages, pw_sentence *reason)
{
    failed_completion failed = {.room = {0}};
    const ssize_t code = fi_cq_readerr(messages->core.completions, &failed.entry, 0);
    if (code == -FI_EAGAIN) return PW_OK;
    if (code < 0)
        return pw_sentence_refuse(
            reason, PW_ERR_HOST, "fi_cq_readerr of libfabric's provider %s failed: %s",
            messages->core.provider, messages->core.library->strerror((int)-code));
    operation *it = failed.entry.op_context;
    if (!it) messages->counters.num_dropped++; /* an injected one: it has no owner */
    else if (it->is_receive) pw_core_receive_drop((receive *)it);
    else
        pw_core_send_done(messages, (posted_send *)it,
                          failed.entry.err ? failed.entry.err : FI_EIO);
    return PW_OK;
}

int pw_core_messages_progress(pw_core_messages *messages, pw_sentence *reason)
{
    struct fi_cq_data_entry done[COMPLETIONS_AT_ONCE];
    const ssize_t num_done = fi_cq_read(messages->core.completions, done, COMPLETIONS_AT_ONCE);
    if (num_done == -FI_EAGAIN) return PW_OK;
    if (num_done == -FI_EAVAIL) return read_failed(messages, reason);
    if (num_done < 0)
        return pw_sentence_refuse(
            reason, PW_ERR_HOST, "fi_cq_read of libfabric's provider %s failed: %s",
            messages->core.provider, messages->core.library->strerror((int)-num_done));
    for (ssize_t i = 0; i < num_done; i++) {
        operation *it = done[i].op_context;
        if (!it->is_receive) pw_core_send_done(messages, (posted_send *)it, 0);
        else if (!(done[i].flags & FI_REMOTE_CQ_DATA)) pw_core_receive_drop((receive *)it);
        else pw_core_receive_arrived((receive *)it, done[i].data, done[i].len);
    }
    return PW_OK;
}

void pw_core_messages_read_counters(const pw_core_messages *messages,
                                    pw_core_messages_counters *out)
{
    *out = messages->counters;
}

void pw_core_messages_close(pw_core_messages *messages, bool is_owner)
{
    if (!messages) return;
    if (is_owner) pw_core_endpoint_close(&messages->core);
    for (uint32_t i = 0; messages->peers && i < messages->options.num_nodes; i++)
        pw_listener_probe_clear(&messages->peers[i].probe);
    for (uint32_t i = 0; i < RECEIVES; i++) free(messages->receives[i].buffer);
    while (messages->chunks) {
        send_chunk *chunk = messages->chunks;
        messages->chunks = chunk->next;
        free(chunk);
    }
    pw_waiting_finish(&messages->pool);
    free(messages->waiting_peers);
    free(messages->peers);
    free(messages);
}
