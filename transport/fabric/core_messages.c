#include "transport/fabric/core_messages.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "native/types.h"
#include "node/clock.h"
#include "node/waiting_list.h"
#include "transport/fabric/core_endpoint.h"

#define RECEIVES 8
#define COMPLETIONS_AT_ONCE 16

/* Completion data of a message: key, whether it is a hello, number among the bursts, source. */
#define NUMBER_MASK 0x7fffu
#define NUMBER_SHIFT 16
#define SOURCE_MASK 0xffffu
#define HELLO_FLAG (1u << 31)
#define KEY_SHIFT 32
_Static_assert(RECEIVES < NUMBER_MASK, "bursts that are here at once have different numbers");

/* Of a peer that bursts wait for. Zeroed: nothing is stuck. */
typedef struct {
    int64_t next_ns, period_ns;
    int fd;
    bool is_connecting;
} listener_probe;

/* What a completion names. */
typedef struct {
    union {
        struct fi_context2 context; /* the provider's own, while it has the operation */
        pw_link link;               /* else: of a send's list */
    };
    bool is_receive;
} operation;

typedef struct receive {
    operation operation;
    pw_core_messages *messages;
    uint8_t *buffer;
    struct receive *next; /* held, or to be posted */
    uint32_t source, number, num_bytes;
    bool is_hello;
} receive;

typedef struct {
    operation operation;
    uint8_t *data;
    uint32_t peer;
} posted_send;

typedef struct {
    fi_addr_t address;
    pw_waiting_list waiting; /* in order, for room in the provider */
    uint32_t key;
    uint32_t num_sent, num_received; /* bursts */
    int lost_error;                  /* not 0: lost, by this error of libfabric */
    bool is_added;
    bool is_open;                    /* as a source */
    listener_probe probe;            /* while bursts wait for long */
    struct sockaddr_storage listens; /* at; family AF_UNSPEC: no socket */
    socklen_t listens_bytes;
} message_peer;

struct pw_core_messages {
    pw_core_endpoint core;
    pw_core_messages_options options;
    message_peer *peers;
    receive receives[RECEIVES];
    receive *held; /* here, not handed out yet; in order of arrival */
    uint32_t num_held;
    receive *unposted; /* the provider had no room for them */
    pw_pool sends;
    pw_queue done_sends;
    uint32_t *waiting_peers; /* with bursts that wait, each once */
    uint32_t num_waiting_peers;
    pw_waiting_pool pool;
    pw_waiting_list gone; /* waited and were copied or given up; to be given back */
    uint32_t num_pending; /* hellos included */
    uint8_t hello[PW_HELLO_BYTES];
    uint32_t hello_bytes;
    pw_core_messages_counters counters;
};

/* ---- does a peer still listen?
 *
 * Asked by connecting to its socket: libfabric's tcp connects again and again to a process that has
 * ended and only ever says "try again", as it says of one that computes and takes nothing
 * meanwhile. Seldom, for what has been stuck for a while: system calls, none of which waits. */

/* Each look leaves a closed connection in the queue of a listener that accepts none meanwhile: ever
 * more seldom, so that the queue does not fill up. */
#define FIRST_PERIOD_NS INT64_C(1000000000)
#define LAST_PERIOD_NS (64 * FIRST_PERIOD_NS)

/* Other errors say something of this process only, e.g. that it has no file descriptor left. */
static int error_of_listener(int error)
{
    switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ETIMEDOUT: return error;
    default: return 0;
    }
}

static int probe_finish(listener_probe *probe, int error, int64_t now_ns)
{
    if (probe->fd >= 0) close(probe->fd);
    probe->is_connecting = false;
    if (probe->period_ns < LAST_PERIOD_NS) probe->period_ns *= 2;
    probe->next_ns = now_ns + probe->period_ns;
    return error_of_listener(error);
}

static int probe_begin(listener_probe *probe, const struct sockaddr *address, socklen_t num_bytes,
                       int64_t now_ns)
{
    probe->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe->fd < 0) return probe_finish(probe, errno, now_ns);
    const int error = connect(probe->fd, address, num_bytes) ? errno : 0;
    if (error != EINPROGRESS) return probe_finish(probe, error, now_ns);
    probe->is_connecting = true;
    return 0;
}

/* It is stuck at now_ns, as it was at the calls before. 0: somebody listens, or it is not known
 * yet; else the errno that says why nobody does. */
static int probe_ask(listener_probe *probe, const struct sockaddr *address, socklen_t num_bytes,
                     int64_t now_ns)
{
    if (!probe->period_ns) {
        probe->period_ns = FIRST_PERIOD_NS;
        probe->next_ns = now_ns + FIRST_PERIOD_NS;
    }
    if (probe->is_connecting) {
        struct pollfd connected = {.fd = probe->fd, .events = POLLOUT};
        int error = 0;
        socklen_t error_bytes = sizeof error;
        if (poll(&connected, 1, 0) != 1) return 0;
        if (getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes)) error = errno;
        return probe_finish(probe, error, now_ns);
    }
    return now_ns < probe->next_ns ? 0 : probe_begin(probe, address, num_bytes, now_ns);
}

/* It is not stuck any more. */
static void probe_clear(listener_probe *probe)
{
    if (probe->is_connecting) close(probe->fd);
    *probe = (listener_probe){0};
}

/* ---- messages that come in: checked, put in order, handed out */

/* Give it to the provider for the next message. */
static void post_receive(receive *it)
{
    pw_core_messages *messages = it->messages;
    const ssize_t code = fi_recv(messages->core.endpoint, it->buffer, PW_BURST_BYTES, NULL,
                                 FI_ADDR_UNSPEC, &it->operation.context);
    if (!code) return;
    it->next = messages->unposted; /* the next poll tries again */
    messages->unposted = it;
}

/* The message in it is nobody's. */
static void drop_receive(receive *it)
{
    it->messages->counters.num_dropped++;
    post_receive(it);
}

/* Whoever can reach the endpoint can write this: believe nothing. */
static void take_arrived(receive *it, uint64_t data, size_t num_bytes)
{
    pw_core_messages *messages = it->messages;
    const pw_core_messages_options *options = &messages->options;
    const uint32_t source = (uint32_t)data & SOURCE_MASK;
    if (data >> KEY_SHIFT != options->key || source >= options->num_nodes ||
        source == options->node || !num_bytes || num_bytes > PW_BURST_BYTES) {
        drop_receive(it);
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
    if (messages->num_held == RECEIVES) drop_receive(unlink_at(messages, &messages->held));
    return NULL;
}

static void post_again(pw_core_messages *messages)
{
    receive *it = messages->unposted;
    messages->unposted = NULL;
    while (it) {
        receive *next = it->next;
        post_receive(it);
        it = next;
    }
}

/* ---- messages to peers, which wait in order while the provider has no room for them */

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
        it = pw_pool_take(&messages->sends, sizeof *it);
        if (!it) return TRY_NO_MEMORY;
        it->operation.is_receive = false;
        it->data = data;
        it->peer = peer;
        code =
            fi_senddata(endpoint, data, num_bytes, NULL, tag, to->address, &it->operation.context);
        if (code) pw_pool_give(&messages->sends, it);
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

int pw_core_messages_send(pw_core_messages *messages, uint32_t peer, uint8_t *data,
                          uint32_t num_bytes, bool *is_free, pw_sentence *reason)
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

int pw_core_messages_greet(pw_core_messages *messages, uint32_t peer, pw_sentence *reason)
{
    bool is_free;
    return pw_core_messages_send(messages, peer, messages->hello, messages->hello_bytes, &is_free,
                                 reason);
}

/* Does whoever there is no room for still listen? */
static void probe_peer(pw_core_messages *messages, uint32_t peer)
{
    message_peer *to = &messages->peers[peer];
    if (to->listens.ss_family == AF_UNSPEC) return;
    const int error = probe_ask(&to->probe, (const struct sockaddr *)&to->listens,
                                to->listens_bytes, pw_clock_wall_ns());
    if (error) lose(messages, peer, error);
}

/* What waits goes out, if there is room again. */
static void send_waiting(pw_core_messages *messages)
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
        if (is_stuck) probe_peer(messages, peer);
        else probe_clear(&messages->peers[peer].probe);
        if (!waiting->first)
            messages->waiting_peers[i] = messages->waiting_peers[--messages->num_waiting_peers];
    }
}

/* The provider is through with it; error: 0, or why it did not get there. */
static void send_done(pw_core_messages *messages, posted_send *it, int error)
{
    if (error) lose(messages, it->peer, error);
    pw_queue_append(&messages->done_sends, it);
}

uint8_t *pw_core_messages_sent(pw_core_messages *messages)
{
    uint8_t *data;
    do {
        posted_send *it = pw_queue_take(&messages->done_sends);
        data = it ? it->data : pw_waiting_take(&messages->pool, &messages->gone);
        if (it) pw_pool_give(&messages->sends, it);
        messages->num_pending -= data != NULL;
    } while (data == messages->hello); /* is not the node's */
    return data;
}

uint32_t pw_core_messages_num_pending(const pw_core_messages *messages)
{
    return messages->num_pending;
}

/* ---- completions */

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
        return pw_core_endpoint_refuse(&messages->core, reason, "fi_cq_readerr", (int)code);
    operation *it = failed.entry.op_context;
    if (!it) messages->counters.num_dropped++; /* an injected one: it has no owner */
    else if (it->is_receive) drop_receive((receive *)it);
    else send_done(messages, (posted_send *)it, failed.entry.err ? failed.entry.err : FI_EIO);
    return PW_OK;
}

/* Read completions. PW_ERR_HOST and a sentence: the endpoint is of no use any more. */
static int progress(pw_core_messages *messages, pw_sentence *reason)
{
    struct fi_cq_data_entry done[COMPLETIONS_AT_ONCE];
    const ssize_t num_done = fi_cq_read(messages->core.completions, done, COMPLETIONS_AT_ONCE);
    if (num_done == -FI_EAGAIN) return PW_OK;
    if (num_done == -FI_EAVAIL) return read_failed(messages, reason);
    if (num_done < 0)
        return pw_core_endpoint_refuse(&messages->core, reason, "fi_cq_read", (int)num_done);
    for (ssize_t i = 0; i < num_done; i++) {
        operation *it = done[i].op_context;
        if (!it->is_receive) send_done(messages, (posted_send *)it, 0);
        else if (!(done[i].flags & FI_REMOTE_CQ_DATA)) drop_receive((receive *)it);
        else take_arrived((receive *)it, done[i].data, done[i].len);
    }
    return PW_OK;
}

int pw_core_messages_poll(pw_core_messages *messages, pw_wire_burst *out, int *kind,
                          pw_sentence *reason)
{
    receive *it = messages->held ? next_in_order(messages) : NULL;
    if (!it) {
        if (messages->unposted) post_again(messages);
        const int code = progress(messages, reason);
        if (code) return code;
        if (messages->num_waiting_peers) send_waiting(messages);
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
    post_receive((receive *)(uintptr_t)(burst->token & ~(uint64_t)PW_CORE_MESSAGES_TOKEN));
}

void pw_core_messages_open_source(pw_core_messages *messages, uint32_t source)
{
    messages->peers[source].is_open = true;
}

/* ---- opening and closing */

static int make_receives(pw_core_messages *messages)
{
    for (uint32_t i = 0; i < RECEIVES; i++) {
        receive *it = &messages->receives[i];
        it->operation.is_receive = true;
        it->messages = messages;
        it->buffer = aligned_alloc(64, PW_BURST_BYTES);
        if (!it->buffer) return PW_ERR_NOMEM;
        post_receive(it);
    }
    return PW_OK;
}

int pw_core_messages_open(const pw_fabric_library *library, const pw_core_messages_options *options,
                          void *name, size_t room_bytes, uint8_t *name_bytes,
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
    code = pw_core_endpoint_open(library, options->provider, options->interface, &messages->core,
                                 reason);
    if (!code) code = pw_core_endpoint_name(&messages->core, name, &room_bytes, reason);
    if (code) goto failed;
    code = make_receives(messages);
    if (code) {
        pw_sentence_refuse(reason, code, "no memory for %u receive buffers of %u bytes", RECEIVES,
                           PW_BURST_BYTES);
        goto failed;
    }
    *name_bytes = (uint8_t)room_bytes;
    *out = messages;
    return PW_OK;
failed:
    pw_core_messages_close(messages, true);
    return code;
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

void pw_core_messages_add_counters(const pw_core_messages *messages, pw_core_messages_counters *sum)
{
    if (!messages) return;
    sum->num_sent += messages->counters.num_sent;
    sum->num_dropped += messages->counters.num_dropped;
    sum->num_lost += messages->counters.num_lost;
}

void pw_core_messages_close(pw_core_messages *messages, bool is_owner)
{
    if (!messages) return;
    if (is_owner) pw_core_endpoint_close(&messages->core);
    for (uint32_t i = 0; messages->peers && i < messages->options.num_nodes; i++)
        probe_clear(&messages->peers[i].probe);
    for (uint32_t i = 0; i < RECEIVES; i++) free(messages->receives[i].buffer);
    pw_pool_finish(&messages->sends);
    pw_pool_finish(&messages->pool);
    free(messages->waiting_peers);
    free(messages->peers);
    free(messages);
}
