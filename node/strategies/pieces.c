#include "node/strategies/message_way.h"
#include "native/array.h"
#include "node/node_state.h"
#include <stdlib.h>

int64_t pw_library_work(pw_node *node, int64_t at_ns, int64_t duration_ns)
{
    return pw_calendar_book(&node->library, at_ns, duration_ns) + duration_ns;
}

int64_t pw_library_read_ns(const pw_node *node, const pw_envelope *envelope)
{
    return envelope->arrival_ns + node->shared->costs.mailbox_read_ns;
}

int pw_library_tell(pw_node *node, uint32_t peer, uint8_t kind, uint64_t address,
                    uint64_t num_bytes, uint64_t key, uint64_t extra, int64_t at_ns)
{
    if (node->frames.frame_bytes == 0) node->frames.frame_bytes = PW_ENVELOPE_BYTES;
    uint8_t *frame = pw_node_take_frame(node);
    if (!frame) return pw_node_fail(node, PW_ERR_NOMEM, "no memory for a message to node %u", peer);
    pw_ni_control_write(node->ni, peer, kind, address, num_bytes, key, extra, at_ns, frame);
    return pw_node_send_frame(node, peer, frame, PW_ENVELOPE_BYTES);
}

/* Messages in pieces, for memory strategies that say so (pw_piece_ops): each piece is made ready,
 * exposed, read and given back by itself, so that the work on one overlaps the way of another.
 *
 *   sender                          receiver
 *   the host's rendezvous message ->          names the message instead of an address
 *                               <- OPEN       how much is wanted, by whom
 *   PIECE (address, key)        ->            as each is ready; the NI reads it
 *
 * The work is the library's progress thread's, on a core of its own: it takes its turn in the
 * calendar `library` and not on the clock of the CPU. So nothing depends on when the program comes
 * by; a run with measured compute differs from a real library without such a thread there. */

#define KIND_OPEN \
    PW_MESSAGE_OF_NODES /* address: the sender's id, key: the receiver's, num_bytes: wanted */
#define KIND_PIECE \
    (PW_MESSAGE_OF_NODES + 1) /* extra: the receiver's id; address, key, num_bytes of the piece */
#define KIND_EMPTY (PW_MESSAGE_OF_NODES + 2) /* extra: the receiver's id; nothing was wanted */
#define NAME (UINT64_C(1) << 63)             /* no program has memory there */

typedef unsigned long long printed;

#define PIECES_AHEAD 4 /* pieces of a message that are ready or under way at a time */

typedef struct {
    pw_link link;
    pw_handle *handle;
    uint64_t id;      /* of its name to the peer */
    uint64_t peer_id; /* sender: the receiver's name for it */
    uint64_t address, wanted_bytes, begun_bytes, over_bytes;
    int64_t cause_ns; /* of the next piece */
    int64_t open_ns;  /* sender: the peer wants it since then */
    int64_t end_ns;
    uint32_t peer, num_under_way;
    uint32_t first_ready, num_ready;         /* rings */
    uint32_t first_announced, num_announced; /* receiver */
    int error;
    bool is_sender, is_open;
    bool is_queued, is_waiting;     /* for a piece to be freed; in vain so far */
    pw_handle *ready[PIECES_AHEAD]; /* complete_ns: ready since then */
    struct {
        uint64_t address, key, num_bytes;
        int64_t arrival_ns;
    } announced[PIECES_AHEAD];
} piece_message;

typedef struct {
    piece_message **messages; /* by index, in the low half of an id; NULL: free */
    uint32_t num_messages;
    uint32_t num_made; /* of ids */
    pw_queue waiting;
} node_pieces;

static node_pieces *of(const pw_node *node) { return node->way_state; }

/* -- messages by id: an index, and how many were made before, so that an old id finds none */

static piece_message *find(pw_node *node, uint64_t id, uint32_t peer, bool is_sender)
{
    uint32_t idx = (uint32_t)id;
    if (idx >= of(node)->num_messages) return NULL;
    piece_message *message = of(node)->messages[idx];
    bool is_it = message && message->id == id && message->peer == peer;
    return is_it && message->is_sender == is_sender ? message : NULL;
}

static int find_place(node_pieces *pieces, uint32_t *idx)
{
    for (uint32_t i = 0; i < pieces->num_messages; i++)
        if (!pieces->messages[i]) {
            *idx = i;
            return PW_OK;
        }
    *idx = pieces->num_messages;
    int code = PW_ARRAY_MAKE_ROOM(pieces->messages, *idx, pieces->num_messages, 16);
    for (uint32_t i = *idx; i < pieces->num_messages; i++) pieces->messages[i] = NULL;
    return code;
}

static piece_message *new_message(pw_node *node, pw_handle *handle, uint64_t address, int64_t at_ns)
{
    uint32_t idx;
    piece_message *made = NULL;
    if (find_place(of(node), &idx) == PW_OK) made = calloc(1, sizeof *made);
    if (!made) {
        pw_node_fail(node, PW_ERR_NOMEM, "no memory for a message of %llu bytes in pieces",
                     (printed)handle->num_bytes);
        return NULL;
    }
    made->handle = handle;
    made->id = (uint64_t)(++of(node)->num_made & 0x3fffffff) << 32 | idx;
    made->address = address;
    made->wanted_bytes = handle->num_bytes;
    made->peer = handle->peer;
    made->cause_ns = made->end_ns = at_ns;
    of(node)->messages[idx] = made;
    return made;
}

static int end_message(pw_node *node, piece_message *message)
{
    pw_handle *handle = message->handle;
    int64_t end_ns = message->end_ns;
    int error = message->error;
    of(node)->messages[(uint32_t)message->id] = NULL;
    free(message);
    return pw_node_complete(node, handle, end_ns, error);
}

static int create(pw_node *node, uint32_t num_started, void **state, const char **reason)
{
    (void)node, (void)num_started;
    *reason = "no memory for messages in pieces";
    *state = calloc(1, sizeof(node_pieces));
    return *state ? PW_OK : PW_ERR_NOMEM;
}

static void destroy(pw_node *node)
{
    for (uint32_t i = 0; i < of(node)->num_messages; i++) free(of(node)->messages[i]);
    free(of(node)->messages);
    free(of(node));
}

/* -- pieces */

static void wait_for_piece(pw_node *node, piece_message *message)
{
    node_pieces *pieces = of(node);
    if (message->is_queued) return;
    if (!message->is_waiting) node->context.counters.pool_waits++;
    message->is_queued = message->is_waiting = true;
    pw_queue_append(&pieces->waiting, message);
}

/* Make the next piece ready. *out NULL: the message waits until one is freed. */
static int begin_piece(pw_node *node, piece_message *message, pw_handle **out)
{
    const pw_piece_ops *ops = node->strategy->pieces;
    uint64_t rest_bytes = message->wanted_bytes - message->begun_bytes;
    uint64_t piece_bytes = (uint64_t)node->shared->settings.piece_bytes;
    pw_span span = {message->address + message->begun_bytes,
                    rest_bytes < piece_bytes ? rest_bytes : piece_bytes};
    int access = message->is_sender ? PW_ACCESS_READ : PW_ACCESS_WRITE;
    pw_handle *piece = pw_handles_take(&node->handles);
    if (!piece) return pw_node_fail(node, PW_ERR_NOMEM, "no memory for a piece of a message");
    node->context.now_ns = message->cause_ns;
    uint64_t num_swapped = pw_node_count_swapped(node);
    int code = ops->acquire(node->strategy_self, span, access, &piece->lease);
    if (code < 0) {
        pw_handles_give(&node->handles, piece);
        *out = NULL;
        if (code != PW_ERR_FULL || !ops->waits)
            return pw_node_fail_span(node, code, "acquire", span);
        wait_for_piece(node, message);
        return PW_OK;
    }
    pw_node_add_swapped(node, num_swapped, &piece->lease.cost);
    int64_t cost_ns = pw_node_count_cost(node, &piece->lease.cost, "acquire");
    if (cost_ns < 0) return (int)cost_ns;
    if (!piece->lease.ni_address) piece->lease.ni_address = span.address;
    piece->complete_ns =
        pw_library_work(node, pw_later(message->cause_ns, piece->lease.from_ns), cost_ns);
    piece->peer = message->peer;
    piece->num_bytes = span.num_bytes;
    piece->is_fetch = !message->is_sender;
    piece->piece_of = message;
    message->begun_bytes += span.num_bytes;
    message->is_waiting = false;
    *out = piece;
    return PW_OK;
}

static void push_ready(piece_message *message, pw_handle *piece)
{
    message->ready[(message->first_ready + message->num_ready++) % PIECES_AHEAD] = piece;
}

static pw_handle *pop_ready(piece_message *message)
{
    pw_handle *piece = message->ready[message->first_ready];
    message->first_ready = (message->first_ready + 1) % PIECES_AHEAD;
    message->num_ready--;
    return piece;
}

/* The strategy gets a piece back at at_ns; when that is done, or a code. */
static int64_t give_back(pw_node *node, pw_handle *piece, int64_t at_ns)
{
    const pw_piece_ops *ops = node->strategy->pieces;
    pw_strategy_cost cost = {0};
    node->context.now_ns = at_ns;
    uint64_t num_swapped = pw_node_count_swapped(node);
    int code = ops->release(node->strategy_self, &piece->lease, &cost);
    if (code < 0) return pw_node_fail_span(node, code, "release", piece->lease.span);
    pw_node_add_swapped(node, num_swapped, &cost);
    int64_t cost_ns = pw_node_count_cost(node, &cost, "release");
    if (cost_ns < 0) return cost_ns;
    int64_t free_ns = pw_library_work(node, at_ns, cost_ns);
    if (ops->freed) ops->freed(node->strategy_self, &piece->lease, free_ns);
    pw_handles_give(&node->handles, piece);
    return free_ns;
}

/* -- sending */

static int expose(pw_node *node, pw_handle *piece)
{
    int code = pw_node_post_exposed(node, piece, piece->lease.ni_address, piece->complete_ns);
    return code < 0 ? pw_node_fail(node, code, "piece of %llu bytes for node %u",
                                   (printed)piece->num_bytes, piece->peer)
                    : PW_OK;
}

static int announce(pw_node *node, piece_message *message)
{
    while (message->num_ready) {
        const pw_handle *piece = pop_ready(message);
        int code = pw_library_tell(node, message->peer, KIND_PIECE, piece->lease.ni_address,
                                   piece->num_bytes, piece->key, message->peer_id,
                                   pw_later(message->open_ns, piece->complete_ns));
        if (code < 0) return code;
    }
    return PW_OK;
}

static int advance_sender(pw_node *node, piece_message *message)
{
    bool is_ahead = node->strategy->pieces->is_ahead;
    while (message->begun_bytes < message->wanted_bytes && message->num_under_way < PIECES_AHEAD &&
           (message->is_open || is_ahead)) {
        pw_handle *piece = NULL;
        int code = begin_piece(node, message, &piece);
        if (code == PW_OK && !piece) break;
        if (code == PW_OK) code = expose(node, piece);
        if (code < 0) return code;
        message->num_under_way++;
        push_ready(message, piece);
    }
    return message->is_open ? announce(node, message) : PW_OK;
}

static int offer(pw_node *node, pw_handle *handle, uint64_t address)
{
    piece_message *message = new_message(node, handle, address, node->clock.now_ns);
    if (!message) return PW_ERR_NOMEM;
    message->is_sender = true;
    handle->address = NAME | message->id;
    handle->key = handle->address;
    node->is_posted = true;
    int code = advance_sender(node, message);
    return code < 0 ? code : 1;
}

/* What was made ready beyond what is wanted goes back; a piece may end earlier. */
static int cut(pw_node *node, piece_message *message, uint64_t wanted_bytes)
{
    message->wanted_bytes = wanted_bytes;
    while (message->begun_bytes > wanted_bytes) { /* the last is at the ring's end */
        uint32_t last = (message->first_ready + message->num_ready - 1) % PIECES_AHEAD;
        pw_handle *piece = message->ready[last];
        uint64_t start = message->begun_bytes - piece->num_bytes;
        if (start < wanted_bytes) {
            piece->num_bytes = wanted_bytes - start;
            message->begun_bytes = wanted_bytes;
            break;
        }
        message->begun_bytes = start;
        message->num_ready--;
        message->num_under_way--;
        pw_ni_unexpose(node->ni, piece->key);
        pw_handles_end(&node->handles, piece->key);
        int64_t free_ns = give_back(node, piece, message->open_ns);
        if (free_ns < 0) return (int)free_ns;
    }
    return PW_OK;
}

static int open_sender(pw_node *node, piece_message *message, const pw_envelope *envelope)
{
    message->is_open = true;
    message->open_ns = pw_library_read_ns(node, envelope);
    message->cause_ns = pw_later(message->cause_ns, message->open_ns);
    message->peer_id = envelope->key;
    int code = cut(node, message, envelope->num_bytes);
    if (code < 0) return code;
    if (message->wanted_bytes) return advance_sender(node, message);
    message->end_ns = message->open_ns;
    code = pw_library_tell(node, message->peer, KIND_EMPTY, 0, 0, 0, message->peer_id,
                           message->open_ns);
    return code < 0 ? code : end_message(node, message);
}

/* -- receiving */

static int fetch(pw_node *node, piece_message *message)
{
    pw_handle *piece = pop_ready(message);
    uint32_t at = message->first_announced;
    message->first_announced = (at + 1) % PIECES_AHEAD;
    message->num_announced--;
    uint64_t id;
    int code = PW_ERR_MALFORMED; /* both ends cut alike */
    if (message->announced[at].num_bytes == piece->num_bytes)
        code = pw_ni_fetch(node->ni, node->pdid, message->peer, message->announced[at].address,
                           message->announced[at].key, piece->lease.ni_address, piece->num_bytes,
                           pw_later(message->announced[at].arrival_ns, piece->complete_ns), &id);
    if (code < 0)
        return pw_node_fail(node, code,
                            "piece of %llu bytes from node %u; the same strategy.piece on all "
                            "ranks?",
                            (printed)piece->num_bytes, message->peer);
    message->num_under_way++;
    pw_handles_begin(&node->handles, piece, id);
    node->is_posted = true;
    return PW_OK;
}

static int advance_receiver(pw_node *node, piece_message *message)
{
    const pw_piece_ops *ops = node->strategy->pieces;
    while (message->begun_bytes < message->wanted_bytes &&
           message->num_ready + message->num_under_way < PIECES_AHEAD &&
           (ops->is_ahead || message->num_announced > message->num_ready)) {
        pw_handle *piece = NULL;
        int code = begin_piece(node, message, &piece);
        if (code < 0) return code;
        if (!piece) break;
        push_ready(message, piece);
    }
    while (message->num_ready && message->num_announced) {
        int code = fetch(node, message);
        if (code < 0) return code;
    }
    return PW_OK;
}

/* An address in a rendezvous message may be the name of a message in pieces. */
static int begin_fetch(pw_node *node, pw_handle *handle, uint64_t source_address, int64_t at_ns)
{
    if (!(source_address & NAME)) return 0;
    piece_message *message = new_message(node, handle, handle->address, at_ns);
    if (!message) return PW_ERR_NOMEM;
    uint64_t id = message->id; /* of a node's message to itself it may be over when this is told */
    int code = pw_library_tell(node, handle->peer, KIND_OPEN, source_address & ~NAME,
                               handle->num_bytes, id, 0, at_ns);
    node->is_posted = true;
    message = find(node, id, handle->peer, false);
    if (code == PW_OK && message) code = advance_receiver(node, message);
    return code < 0 ? code : 1;
}

static int take_announced(pw_node *node, piece_message *message, const pw_envelope *envelope)
{
    if (message->num_announced == PIECES_AHEAD) return PW_ERR_MALFORMED;
    uint32_t at = (message->first_announced + message->num_announced++) % PIECES_AHEAD;
    message->announced[at].address = envelope->address;
    message->announced[at].key = envelope->key;
    message->announced[at].num_bytes = envelope->num_bytes;
    message->announced[at].arrival_ns = pw_library_read_ns(node, envelope);
    message->cause_ns = message->announced[at].arrival_ns;
    return advance_receiver(node, message);
}

/* -- both */

static int advance(pw_node *node, piece_message *message)
{
    return message->is_sender ? advance_sender(node, message) : advance_receiver(node, message);
}

/* A piece was freed: who waits longest tries first. */
static int wake_waiting(pw_node *node)
{
    node_pieces *pieces = of(node);
    pw_queue waiting = pieces->waiting;
    pieces->waiting = (pw_queue){NULL, NULL};
    for (piece_message *each; (each = pw_queue_take(&waiting));) {
        each->is_queued = false;
        int code = advance(node, each);
        if (code < 0) return code;
    }
    return PW_OK;
}

static int finish(pw_node *node, pw_handle *piece, const pw_host_event *event)
{
    piece_message *message = piece->piece_of;
    if (piece->is_fetch && !event->error) piece->lease.landed_bytes = piece->num_bytes;
    message->over_bytes += piece->num_bytes;
    message->num_under_way--;
    message->cause_ns = event->time_ns;
    if (event->error && !message->error) message->error = event->error;
    int64_t free_ns = give_back(node, piece, event->time_ns);
    if (free_ns < 0) return (int)free_ns;
    message->end_ns = pw_later(message->end_ns, free_ns);
    bool is_over = message->over_bytes == message->wanted_bytes;
    int code = is_over ? end_message(node, message) : advance(node, message);
    return code < 0 ? code : wake_waiting(node);
}

static int take_message(pw_node *node, uint32_t source, const pw_envelope *envelope)
{
    bool is_open = envelope->kind == KIND_OPEN;
    uint64_t id = is_open ? envelope->address : envelope->extra;
    piece_message *message = find(node, id, source, is_open);
    if (!message) return PW_ERR_MALFORMED;
    if (is_open && !message->is_open && envelope->num_bytes <= message->wanted_bytes)
        return open_sender(node, message, envelope);
    if (envelope->kind == KIND_PIECE) return take_announced(node, message, envelope);
    if (envelope->kind != KIND_EMPTY || message->wanted_bytes) return PW_ERR_MALFORMED;
    message->end_ns = envelope->arrival_ns;
    return end_message(node, message);
}

const pw_message_way pw_way_in_pieces = {
    .create = create,
    .destroy = destroy,
    .offer = offer,
    .fetch = begin_fetch,
    .finish = finish,
    .message = take_message,
    .about = "pieces",
    .unknown = "message here",
};
