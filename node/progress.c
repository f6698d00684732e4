/* The turn: bursts in, engine, events, bursts out. */
#include "node/node_state.h"
#include "node/record/recorder.h"
#include <stddef.h>
#include <string.h>

#define TURNS_PER_LOOK 64u /* at the wall clock */
#define EVENTS_AT_ONCE 32
#define FOREVER (PW_NEVER - 1)

typedef unsigned long long printed;

static int first_error(int a, int b) { return a < 0 ? a : b; }

/* A message says so in its first word; what is too short for either is the engine's to refuse. */
static bool is_message(const uint8_t *data, uint32_t num_bytes)
{
    uint16_t magic = 0;
    if (num_bytes >= PW_ENVELOPE_BYTES) memcpy(&magic, data, sizeof magic);
    return magic == PW_ENVELOPE_MAGIC;
}

static int receive_for_service(pw_node *node, uint32_t source, const uint8_t *data,
                               uint32_t num_bytes)
{
    const pw_node_service *service = &node->service;
    if (!service->message)
        return pw_node_fail(node, PW_ERR_MALFORMED,
                            "message of a service from node %u, which has none here; open it on "
                            "all nodes before it is used",
                            source);
    int code = service->message(service->context, source, data, num_bytes);
    return code < 0 ? pw_node_fail(node, code, "message of a service from node %u", source) : PW_OK;
}

/* A message between nodes, about another that goes in pieces or the like. */
static int receive_for_way(pw_node *node, uint32_t source, const uint8_t *data, uint32_t num_bytes)
{
    static const pw_message_way none = {.unknown =
                                            "message here; the same run.memory on all ranks?"};
    const pw_message_way *way = node->way_state ? node->strategy->way : &none;
    pw_envelope envelope;
    int code = way->message ? pw_ni_message_check(node->ni, data, num_bytes) : PW_OK;
    if (code < 0)
        return pw_node_fail(node, code, "message of node %u about %s", source, way->about);
    memcpy(&envelope, data, sizeof envelope);
    node->reason[0] = '\0';
    code = way->message ? way->message(node, source, &envelope) : PW_ERR_MALFORMED;
    if (code != PW_ERR_MALFORMED || node->reason[0]) return code; /* the way has said why */
    pw_ni_message_refuse(node->ni);
    return pw_node_fail(node, code, "message of kind %u of node %u is about no %s", envelope.kind,
                        source, way->unknown);
}

static int receive_message(pw_node *node, uint32_t source, const uint8_t *data, uint32_t num_bytes)
{
    if (data[offsetof(pw_envelope, kind)] >= PW_MESSAGE_OF_SERVICES)
        return receive_for_service(node, source, data, num_bytes);
    if (data[offsetof(pw_envelope, kind)] >= PW_MESSAGE_OF_NODES)
        return receive_for_way(node, source, data, num_bytes);
    if (!node->host.message)
        return pw_node_fail(node, PW_ERR_MALFORMED,
                            "message of %u bytes from node %u, but the host takes none", num_bytes,
                            source);
    node->reason[0] = '\0';
    int code = node->host.message(node->host.context, source, data, num_bytes);
    if (code < 0 && !node->reason[0]) /* else a call of the host's has said it */
        pw_node_fail(node, code, "message of %u bytes from node %u", num_bytes, source);
    return code < 0 ? code : PW_OK;
}

int pw_node_receive_burst(pw_node *node, uint32_t source, const uint8_t *data, uint32_t num_bytes)
{
    int code = pw_ni_rx_burst(node->ni, source, data, num_bytes);
    if (code >= 0) return PW_OK;
    /* What was dropped will never be answered: going on would hang. */
    return pw_node_fail(node, code, "burst of %u bytes from node %u; same pagewire on all ranks?",
                        num_bytes, source);
}

static int receive_any(pw_node *node, uint32_t source, const uint8_t *data, uint32_t num_bytes)
{
    pw_peer_asks *asks = pw_node_asks(node, source); /* what comes may be unsealed */
    if (is_message(data, num_bytes)) return receive_message(node, source, data, num_bytes);
    if (asks) asks->num_received += pw_ni_burst_asks(data, num_bytes);
    return pw_node_receive_burst(node, source, data, num_bytes);
}

/* What the wire says of its failure; empty: nothing. */
static const char *wire_reason(const pw_node *node)
{
    const pw_wire_ops *ops = node->wire->ops;
    return ops->reason ? ops->reason(node->wire) : "";
}

static int fail_to_send(pw_node *node, int code, uint32_t peer, uint32_t num_bytes)
{
    const char *reason = wire_reason(node);
    return pw_node_fail(node, code, "the wire cannot send %u bytes to node %u%s%s", num_bytes, peer,
                        *reason ? ": " : "", reason);
}

static int fail_to_receive(pw_node *node, int code)
{
    const char *reason = wire_reason(node);
    return pw_node_fail(node, code, "the wire cannot receive%s%s", *reason ? ": " : "", reason);
}

/* 1: a burst was here, 0: none was. In a recording a turn ends its bursts with one that is answered
 * at once: the next one may come of the answer, and a replay takes a turn's bursts together. */
static int receive(pw_node *node, bool waiting)
{
    const pw_wire_ops *ops = node->wire->ops;
    pw_wire_burst burst;
    int code, moved = 0;
    while ((code = ops->poll(node->wire, &burst)) > 0) {
        moved = 1;
        node->has_sent = false;
        if (node->clock.recorder) pw_recorder_received(node->clock.recorder, &burst, waiting);
        code = receive_any(node, burst.source, burst.data, burst.num_bytes);
        ops->taken(node->wire, &burst);
        if (code < 0) return code;
        if (node->clock.recorder && node->has_sent) return moved;
    }
    return code < 0 ? fail_to_receive(node, code) : moved;
}

void pw_node_reclaim(pw_node *node)
{
    for (uint8_t *data; (data = node->wire->ops->sent(node->wire));) {
        if (pw_frame_is_own(&node->frames, data)) pw_frame_give(&node->frames, data);
        else pw_ni_tx_release(node->ni, data);
    }
}

int pw_node_set_frame_bytes(pw_node *node, uint32_t frame_bytes)
{
    if (frame_bytes < PW_ENVELOPE_BYTES || frame_bytes > PW_BURST_BYTES)
        return pw_node_fail(node, PW_ERR_INVALID, "frame of %u bytes: allowed is %u to %u",
                            frame_bytes, PW_ENVELOPE_BYTES, PW_BURST_BYTES);
    node->frames.frame_bytes = (frame_bytes + 63) & ~UINT32_C(63);
    return PW_OK;
}

int pw_node_set_service(pw_node *node, const pw_node_service *service, uint32_t frame_bytes)
{
    if (!service) {
        node->service = (pw_node_service){.message = NULL};
        return PW_OK;
    }
    if (node->has_no_bytes)
        return pw_node_fail(node, PW_ERR_INVALID,
                            "a node without bytes carries no messages of a service; open the node "
                            "without has_no_bytes");
    if (node->service.message)
        return pw_node_fail(node, PW_ERR_FULL, "the node has a service already");
    if (node->frames.frame_bytes < frame_bytes) {
        if (node->frames.num_slabs)
            return pw_node_fail(node, PW_ERR_INVALID,
                                "frames of %u bytes are wanted, but the node has sent shorter ones "
                                "already; open the service before the first transfer",
                                frame_bytes);
        int code = pw_node_set_frame_bytes(node, frame_bytes);
        if (code < 0) return code;
    }
    node->service = *service;
    return PW_OK;
}

uint32_t pw_node_num_leaving(const pw_node *node)
{
    return node->wire->ops->num_pending(node->wire);
}

uint8_t *pw_node_take_frame(pw_node *node) { return pw_frame_take(&node->frames, node->wire); }

int pw_node_send_frame(pw_node *node, uint32_t peer, uint8_t *frame, uint32_t frame_bytes)
{
    bool is_free = true;
    int code;
    node->has_sent = true;
    if (peer == node->wire->node) {
        code = receive_message(node, peer, frame, frame_bytes);
        pw_idleness_tell_resting(&node->idleness);
    } else {
        code = node->wire->ops->send(node->wire, peer, frame, frame_bytes, &is_free);
        if (code < 0) fail_to_send(node, code, peer, frame_bytes);
    }
    if (is_free && pw_frame_is_own(&node->frames, frame)) pw_frame_give(&node->frames, frame);
    else if (is_free) pw_ni_tx_release(node->ni, frame);
    return code < 0 ? code : PW_OK;
}

/* Send every burst that waits. *looped: one went to this node itself, so the engine goes on. */
static int flush(pw_node *node, bool *looped)
{
    pw_burst burst;
    int code = PW_OK;
    while (code >= 0 && pw_ni_tx_burst(node->ni, &burst)) {
        bool is_free = true;
        if (burst.peer == node->wire->node) {
            code = receive_any(node, burst.peer, burst.data, burst.num_bytes);
            *looped = true;
        } else {
            pw_peer_asks *asks = pw_node_asks(node, burst.peer);
            if (asks) asks->num_sent += pw_ni_burst_asks(burst.data, burst.num_bytes);
            code = node->wire->ops->send(node->wire, burst.peer, burst.data, burst.num_bytes,
                                         &is_free);
            if (code < 0) fail_to_send(node, code, burst.peer, burst.num_bytes);
        }
        if (is_free) pw_ni_tx_release(node->ni, burst.data);
    }
    pw_node_reclaim(node);
    return code;
}

static int decide(pw_node *node)
{
    pw_decision question;
    if (!node->host.decide)
        return pw_node_fail(node, PW_ERR_INVALID,
                            "page-in decision: the settings want one of the host, which has no "
                            "decide; give it with pw_node_set_host");
    int code = node->host.decide(node->host.context, node->decision);
    if (code < 0) return pw_node_fail(node, code, "page-in decision: the host failed");
    if (pw_ni_read_decision(node->ni, node->decision, &question) < 0) return PW_OK;
    return pw_node_fail(node, PW_ERR_INVALID,
                        "page-in decision %llu: the host came back without pw_ni_decide",
                        (printed)node->decision);
}

/* The host was asked, and could not tell: nothing goes on before it has. */
static int decide_again(pw_node *node)
{
    pw_decision question;
    if (pw_ni_next_ns(node->ni) != INT64_MIN) return PW_OK;
    if (pw_ni_read_decision(node->ni, node->decision, &question) < 0) return PW_OK;
    return decide(node);
}

static int dispatch(pw_node *node, const pw_host_event *event)
{
    int code;
    switch (event->kind) {
    case PW_HOST_EXPOSE_DONE:
    case PW_HOST_FETCH_DONE:
    case PW_HOST_WRITE_DONE: return pw_node_finish(node, event);
    case PW_HOST_DECISION: node->decision = event->id; return decide(node);
    case PW_HOST_NOTIFIED:
        if (!node->host.event) return PW_OK;
        code = node->host.event(node->host.context, event);
        return code < 0 ? pw_node_fail(node, code, "notification: the host failed") : PW_OK;
    case PW_HOST_DEADLOCK: return pw_node_fail(node, event->error, "mailbox of the R5");
    case PW_HOST_FRAMES_SHORT: return pw_node_fail(node, event->error, "page-in");
    default: return PW_OK;
    }
}

/* How many events there were; all are dispatched, and the first error is told. */
static int step(pw_node *node, int64_t horizon_ns)
{
    pw_host_event events[EVENTS_AT_ONCE];
    uint64_t page;
    int count = pw_ni_run(node->ni, horizon_ns, events, EVENTS_AT_ONCE), code = PW_OK;
    if (pw_ni_promise_was_wrong(node->ni))
        return pw_node_fail(
            node, count,
            "a read that its reader had foreseen came otherwise, which is a defect; "
            "ni.lookahead_blocks = 0 does without, please tell us");
    if (count < 0) return pw_node_fail(node, count, "run of the engine");
    if (pw_memory_events_were_wrong(node->memory, &page))
        return pw_node_fail(node, PW_ERR_RESIDENCY,
                            "page at address %#llx: it is not as residency.source = events had it",
                            (printed)(page << PW_PAGE_SHIFT));
    for (int i = 0; i < count; i++) code = first_error(code, dispatch(node, &events[i]));
    return code < 0 ? code : count;
}

/* With a policy of the host the engine goes on from its decisions before anything is sent. */
static int run_engine(pw_node *node, int64_t horizon_ns)
{
    int count = 0, stepped;
    if (!node->has_policy) count = stepped = step(node, horizon_ns);
    else if ((stepped = decide_again(node)) >= 0)
        while ((stepped = step(node, horizon_ns)) > 0) count += stepped;
    node->next_ns = pw_ni_next_ns(node->ni);
    return stepped < 0 ? stepped : count;
}

/* 1: there were events, 0: there were none. */
static int run(pw_node *node, int64_t horizon_ns)
{
    int moved = 0, count;
    bool looped;
    node->is_posted = false;
    do {
        looped = false;
        count = run_engine(node, horizon_ns);
        if (count >= 0) {
            moved |= count > 0;
            int code = flush(node, &looped);
            if (code < 0) count = code;
        }
    } while (count >= 0 && (looped || count >= EVENTS_AT_ONCE || node->next_ns <= horizon_ns));
    if (count >= 0) return moved;
    node->is_posted = true; /* the bursts that were not sent */
    return count;
}

/* 1: something moved, 0: nothing did. */
static int turn(pw_node *node, bool waiting)
{
    bool was_forked = atomic_load_explicit(&node->num_forks, memory_order_relaxed) != 0;
    if (node->clock.program_ran || was_forked) {
        node->clock.program_ran = false;
        if (!node->clock.is_polling) pw_idleness_renew(&node->idleness);
        pw_ni_enter(node->ni);
        int code = was_forked ? pw_node_share_pages(node) : PW_OK;
        if (code < 0) return code;
    }
    const int64_t began_ns = node->clock.now_ns;
    int moved = receive(node, waiting);
    if (moved < 0) {
        node->is_posted = true; /* some may have been received */
        return moved;
    }
    bool looped = false;
    int64_t horizon_ns = waiting ? FOREVER : node->clock.now_ns;
    if (horizon_ns > node->horizon_ns) {
        /* Answers leave by themselves: with a block behind them they would have to wait for it. */
        int code = moved ? flush(node, &looped) : PW_OK;
        if (code < 0) return code;
        horizon_ns = node->horizon_ns;
    }
    if (moved || node->is_posted || node->next_ns <= horizon_ns) {
        if (node->clock.recorder) pw_recorder_turns(node->clock.recorder, waiting, began_ns);
        int ran = run(node, horizon_ns);
        if (node->clock.recorder) pw_recorder_brought(node->clock.recorder);
        moved = ran < 0 ? ran : moved | ran;
        if (moved) pw_idleness_tell_resting(&node->idleness);
        return moved;
    }
    pw_node_reclaim(node);
    return 0;
}

int pw_node_turn(pw_node *node, bool waiting)
{
    pw_node_stand_by(node, waiting);
    node->idleness.is_waiting = waiting;
    int moved = turn(node, waiting);
    if (moved < 0 || !node->service.turned) return moved;
    int code = node->service.turned(node->service.context);
    return code < 0 ? code : moved | code;
}

void pw_node_set_horizon(pw_node *node, int64_t horizon_ns) { node->horizon_ns = horizon_ns; }

void pw_node_busy(pw_node *node)
{
    pw_idleness_end(&node->idleness);
    if (pw_ticket_lock_is_wanted(&node->lock)) {
        pw_ticket_lock_give(&node->lock);
        pw_ticket_lock_take(&node->lock);
    }
}

bool pw_node_is_due(const pw_node *node, pw_pace *pace, bool moved, int64_t interval_ns)
{
    /* In a silence a turn may rest, for up to 10 ms. */
    const bool may_rest = !moved && pw_node_silent_since_ns(node);
    if (++pace->num_turns % TURNS_PER_LOOK && !may_rest) return false;
    int64_t now_ns = pw_clock_wall_ns();
    if (!pace->looked_ns) pace->looked_ns = now_ns;
    if (now_ns - pace->looked_ns <= interval_ns) return false;
    pace->looked_ns = 0;
    return true;
}

void pw_node_failed_test(pw_node *node, bool is_future, int64_t poll_ns)
{
    bool is_ahead = node->clock.now_ns < node->next_ns && node->next_ns < PW_NEVER;
    if (!is_future && !is_ahead) {
        pw_clock_excuse_call(&node->clock);
        return;
    }
    pw_clock_look_in_vain(&node->clock, poll_ns);
}
