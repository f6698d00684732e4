#include "replay/loggops.h"
#include <stdlib.h>

#include "native/array.h"

#define KIND_MESSAGE 4
#define NONE UINT32_MAX
#define FIRST_CAPACITY 1024
#define TIME_MAX_NS ((int64_t)1 << 60)

/* In order of time, then of creation; who finds the CPU busy comes again with the same order. */
typedef struct {
    int64_t time_ns;
    uint64_t order;
    uint32_t rank, node; /* a message: the receiver, the sender's node */
    uint32_t source;
    uint8_t kind;
} event;

typedef struct {
    uint32_t head, tail;
} list;

/* A message that no receive was posted for. */
typedef struct {
    uint32_t source, node, next;
} early;

typedef struct {
    pw_loggops_node *nodes;
    const uint32_t *edges;
    uint32_t num_nodes, num_cpus, num_nics;
    int64_t *cpu_ns;         /* by CPU: when it is free */
    int64_t *in_ns, *out_ns; /* by interface */
    uint32_t *next;          /* by node: the receive posted behind it */
    list posted, unexpected;
} rank_state;

struct pw_loggops {
    pw_loggops_costs costs;
    rank_state *ranks;
    uint32_t num_ranks;
    event *heap;
    uint32_t num_events, capacity;
    uint64_t num_created;
    early *early;
    uint32_t num_early, early_capacity, free_early;
    uint32_t *released; /* of the rank under way: nodes that can begin now */
    uint32_t num_released, released_capacity;
    int error;
};

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Times stay where sums of two have room. */
static int64_t plus(int64_t a, int64_t b) { return a + b < TIME_MAX_NS ? a + b : TIME_MAX_NS; }

static int64_t by_bytes(double cost_ns, uint64_t num_bytes)
{
    const double ns = num_bytes ? cost_ns * (double)(num_bytes - 1) : 0;
    return ns < (double)TIME_MAX_NS ? (int64_t)ns : TIME_MAX_NS;
}

/* ---- heap */

static bool is_before(const event *a, const event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

static void push(pw_loggops *loggops, event added)
{
    if (PW_ARRAY_MAKE_ROOM(loggops->heap, loggops->num_events, loggops->capacity, FIRST_CAPACITY) <
        0) {
        loggops->error = PW_ERR_NOMEM;
        return;
    }
    size_t at = loggops->num_events++;
    while (at > 0) {
        const size_t parent = (at - 1) / 2;
        if (!is_before(&added, &loggops->heap[parent])) break;
        loggops->heap[at] = loggops->heap[parent];
        at = parent;
    }
    loggops->heap[at] = added;
}

static event pop(pw_loggops *loggops)
{
    const event first = loggops->heap[0], last = loggops->heap[--loggops->num_events];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < loggops->num_events; at = child) {
        if (child + 1 < loggops->num_events &&
            is_before(&loggops->heap[child + 1], &loggops->heap[child]))
            child++;
        if (!is_before(&loggops->heap[child], &last)) break;
        loggops->heap[at] = loggops->heap[child];
    }
    loggops->heap[at] = last;
    return first;
}

static void create(pw_loggops *loggops, event made)
{
    made.order = loggops->num_created++;
    push(loggops, made);
}

static void retry(pw_loggops *loggops, event again, int64_t time_ns)
{
    again.time_ns = time_ns;
    push(loggops, again);
}

/* ---- the graph */

static void release(pw_loggops *loggops, rank_state *state, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        const uint32_t node = state->edges[i];
        if (--state->nodes[node].num_open == 0) loggops->released[loggops->num_released++] = node;
    }
}

/* Sends first, then receives, then calculations. */
static void start_released(pw_loggops *loggops, uint32_t rank)
{
    rank_state *state = &loggops->ranks[rank];
    for (uint8_t kind = PW_LOGGOPS_SEND; kind <= PW_LOGGOPS_CALC; kind++)
        for (uint32_t i = 0; i < loggops->num_released; i++) {
            const uint32_t node = loggops->released[i];
            const pw_loggops_node *each = &state->nodes[node];
            if (each->kind != kind) continue;
            const int64_t free_ns = state->cpu_ns[each->cpu];
            const int64_t time_ns =
                kind == PW_LOGGOPS_SEND ? later(free_ns, state->out_ns[each->nic]) : free_ns;
            create(loggops, (event){.time_ns = time_ns, .rank = rank, .node = node, .kind = kind});
        }
    loggops->num_released = 0;
}

static void begin(pw_loggops *loggops, uint32_t rank, uint32_t node)
{
    rank_state *state = &loggops->ranks[rank];
    pw_loggops_node *each = &state->nodes[node];
    each->state = PW_LOGGOPS_BEGUN;
    release(loggops, state, each->first_start, each->num_start);
}

static void finish(pw_loggops *loggops, uint32_t rank, uint32_t node)
{
    rank_state *state = &loggops->ranks[rank];
    pw_loggops_node *each = &state->nodes[node];
    each->state = PW_LOGGOPS_DONE;
    release(loggops, state, each->first_out, each->num_out);
}

/* ---- matching */

static bool suits(const pw_loggops_node *receive, uint32_t source, uint32_t tag)
{
    return (receive->peer == PW_LOGGOPS_ANY || receive->peer == source) &&
           (receive->tag == PW_LOGGOPS_ANY || tag == PW_LOGGOPS_ANY || receive->tag == tag);
}

/* The first posted receive that a message suits, which is taken out; NONE: there is none. */
static uint32_t take_posted(rank_state *state, uint32_t source, uint32_t tag)
{
    uint32_t before = NONE;
    for (uint32_t at = state->posted.head; at != NONE; before = at, at = state->next[at]) {
        if (!suits(&state->nodes[at], source, tag)) continue;
        if (before == NONE) state->posted.head = state->next[at];
        else state->next[before] = state->next[at];
        if (state->posted.tail == at) state->posted.tail = before;
        return at;
    }
    return NONE;
}

static void post(rank_state *state, uint32_t node)
{
    state->next[node] = NONE;
    if (state->posted.tail == NONE) state->posted.head = node;
    else state->next[state->posted.tail] = node;
    state->posted.tail = node;
}

/* The first message that came early and suits; false: there is none. */
static bool take_early(pw_loggops *loggops, uint32_t rank, const pw_loggops_node *receive,
                       early *out)
{
    list *all = &loggops->ranks[rank].unexpected;
    uint32_t before = NONE;
    for (uint32_t at = all->head; at != NONE; before = at, at = loggops->early[at].next) {
        early *each = &loggops->early[at];
        if (!suits(receive, each->source, loggops->ranks[each->source].nodes[each->node].tag))
            continue;
        *out = *each;
        if (before == NONE) all->head = each->next;
        else loggops->early[before].next = each->next;
        if (all->tail == at) all->tail = before;
        each->next = loggops->free_early;
        loggops->free_early = at;
        return true;
    }
    return false;
}

static void keep_early(pw_loggops *loggops, uint32_t rank, uint32_t source, uint32_t node)
{
    uint32_t at = loggops->free_early;
    if (at != NONE) {
        loggops->free_early = loggops->early[at].next;
    } else {
        if (PW_ARRAY_MAKE_ROOM(loggops->early, loggops->num_early, loggops->early_capacity,
                               FIRST_CAPACITY) < 0) {
            loggops->error = PW_ERR_NOMEM;
            return;
        }
        at = loggops->num_early++;
    }
    loggops->early[at] = (early){source, node, NONE};
    list *all = &loggops->ranks[rank].unexpected;
    if (all->tail == NONE) all->head = at;
    else loggops->early[all->tail].next = at;
    all->tail = at;
}

/* ---- events */

static void calculate(pw_loggops *loggops, event now)
{
    rank_state *state = &loggops->ranks[now.rank];
    const pw_loggops_node *node = &state->nodes[now.node];
    int64_t *cpu_ns = &state->cpu_ns[node->cpu];
    if (*cpu_ns > now.time_ns) {
        retry(loggops, now, *cpu_ns);
        return;
    }
    *cpu_ns = plus(now.time_ns, (int64_t)node->size);
    begin(loggops, now.rank, now.node);
    finish(loggops, now.rank, now.node);
    start_released(loggops, now.rank);
}

static void send(pw_loggops *loggops, event now)
{
    const pw_loggops_costs *costs = &loggops->costs;
    rank_state *state = &loggops->ranks[now.rank];
    const pw_loggops_node *node = &state->nodes[now.node];
    int64_t *cpu_ns = &state->cpu_ns[node->cpu], *out_ns = &state->out_ns[node->nic];
    if (later(*cpu_ns, *out_ns) > now.time_ns) {
        retry(loggops, now, later(*cpu_ns, *out_ns));
        return;
    }
    const int64_t begun_ns = plus(now.time_ns, costs->overhead_ns);
    *cpu_ns = plus(begun_ns, by_bytes(costs->overhead_per_byte_ns, node->size));
    *out_ns = plus(plus(now.time_ns, costs->gap_ns), by_bytes(costs->gap_per_byte_ns, node->size));
    begin(loggops, now.rank, now.node);
    create(loggops, (event){.time_ns = plus(begun_ns, costs->latency_ns),
                            .rank = node->peer,
                            .node = now.node,
                            .source = now.rank,
                            .kind = KIND_MESSAGE});
    if (node->size <= costs->eager_bytes) finish(loggops, now.rank, now.node);
    start_released(loggops, now.rank);
}

/* A receive has its message. What that lets begin comes in the order of ranks; the sender of a long
 * message goes on now at the earliest. */
static void meet(pw_loggops *loggops, const early *sent, uint32_t rank, uint32_t node,
                 int64_t now_ns)
{
    rank_state *state = &loggops->ranks[sent->source];
    const pw_loggops_node *message = &state->nodes[sent->node];
    const bool is_long = message->size > loggops->costs.eager_bytes;
    if (is_long) {
        state->cpu_ns[message->cpu] = later(state->cpu_ns[message->cpu], now_ns);
        state->out_ns[message->nic] = later(state->out_ns[message->nic], now_ns);
    }
    if (is_long && sent->source <= rank) finish(loggops, sent->source, sent->node);
    if (sent->source < rank) start_released(loggops, sent->source);
    if (loggops->ranks[rank].nodes[node].state == PW_LOGGOPS_WAITS) begin(loggops, rank, node);
    finish(loggops, rank, node);
    start_released(loggops, rank);
    if (is_long && sent->source > rank) {
        finish(loggops, sent->source, sent->node);
        start_released(loggops, sent->source);
    }
}

static void receive(pw_loggops *loggops, event now)
{
    rank_state *state = &loggops->ranks[now.rank];
    early found;
    if (take_early(loggops, now.rank, &state->nodes[now.node], &found)) {
        meet(loggops, &found, now.rank, now.node, now.time_ns);
        return;
    }
    begin(loggops, now.rank, now.node);
    post(state, now.node);
    start_released(loggops, now.rank);
}

static void arrive(pw_loggops *loggops, event now)
{
    const pw_loggops_costs *costs = &loggops->costs;
    const pw_loggops_node *sent = &loggops->ranks[now.source].nodes[now.node];
    rank_state *state = &loggops->ranks[now.rank];
    const uint32_t cpu = sent->cpu < state->num_cpus ? sent->cpu : 0;
    const uint32_t nic = sent->nic < state->num_nics ? sent->nic : 0;
    const int64_t free_ns = later(state->cpu_ns[cpu], state->in_ns[nic]);
    if (free_ns > now.time_ns) {
        retry(loggops, now, free_ns);
        return;
    }
    const int64_t gap_ns = by_bytes(costs->gap_per_byte_ns, sent->size);
    const int64_t overhead_ns = by_bytes(costs->overhead_per_byte_ns, sent->size);
    state->cpu_ns[cpu] = plus(plus(now.time_ns, costs->overhead_ns), later(overhead_ns, gap_ns));
    state->in_ns[nic] = plus(plus(now.time_ns, costs->gap_ns), gap_ns);
    const uint32_t node = take_posted(state, now.source, sent->tag);
    if (node == NONE) {
        keep_early(loggops, now.rank, now.source, now.node);
        return;
    }
    meet(loggops, &(early){now.source, now.node, NONE}, now.rank, node, now.time_ns);
}

int pw_loggops_run(pw_loggops *loggops)
{
    for (uint32_t rank = 0; rank < loggops->num_ranks; rank++) {
        const rank_state *state = &loggops->ranks[rank];
        for (uint32_t node = 0; node < state->num_nodes; node++)
            if (state->nodes[node].num_open == 0) loggops->released[loggops->num_released++] = node;
        start_released(loggops, rank);
    }
    while (loggops->num_events && !loggops->error) {
        const event now = pop(loggops);
        if (now.kind == PW_LOGGOPS_CALC) calculate(loggops, now);
        else if (now.kind == PW_LOGGOPS_SEND) send(loggops, now);
        else if (now.kind == PW_LOGGOPS_RECEIVE) receive(loggops, now);
        else arrive(loggops, now);
    }
    return loggops->error;
}

/* ---- making */

int pw_loggops_create(uint32_t num_ranks, const pw_loggops_costs *costs, pw_loggops **out)
{
    pw_loggops *loggops = calloc(1, sizeof *loggops);
    if (!loggops) return PW_ERR_NOMEM;
    loggops->ranks = calloc(num_ranks, sizeof *loggops->ranks);
    if (!loggops->ranks) {
        free(loggops);
        return PW_ERR_NOMEM;
    }
    loggops->costs = *costs;
    loggops->num_ranks = num_ranks;
    loggops->free_early = NONE;
    for (uint32_t rank = 0; rank < num_ranks; rank++)
        loggops->ranks[rank].posted = loggops->ranks[rank].unexpected = (list){NONE, NONE};
    *out = loggops;
    return PW_OK;
}

void pw_loggops_destroy(pw_loggops *loggops)
{
    if (!loggops) return;
    for (uint32_t rank = 0; rank < loggops->num_ranks; rank++) {
        free(loggops->ranks[rank].cpu_ns);
        free(loggops->ranks[rank].in_ns);
        free(loggops->ranks[rank].out_ns);
        free(loggops->ranks[rank].next);
    }
    free(loggops->ranks);
    free(loggops->heap);
    free(loggops->early);
    free(loggops->released);
    free(loggops);
}

static bool is_sound(const pw_loggops *loggops, const pw_loggops_node *node, uint32_t num_edges)
{
    if (node->kind < PW_LOGGOPS_SEND || node->kind > PW_LOGGOPS_CALC) return false;
    const bool is_any = node->kind == PW_LOGGOPS_RECEIVE && node->peer == PW_LOGGOPS_ANY;
    if (node->kind != PW_LOGGOPS_CALC && !is_any && node->peer >= loggops->num_ranks) return false;
    return (uint64_t)node->first_out + node->num_out <= num_edges &&
           (uint64_t)node->first_start + node->num_start <= num_edges && node->size <= TIME_MAX_NS;
}

int pw_loggops_set_rank(pw_loggops *loggops, uint32_t rank, pw_loggops_node *nodes,
                        uint32_t num_nodes, const uint32_t *edges, uint32_t num_edges)
{
    if (rank >= loggops->num_ranks || loggops->ranks[rank].next || num_nodes == NONE)
        return PW_ERR_INVALID;
    rank_state *state = &loggops->ranks[rank];
    uint32_t num_cpus = 1, num_nics = 1;
    for (uint32_t i = 0; i < num_nodes; i++) {
        if (!is_sound(loggops, &nodes[i], num_edges)) return PW_ERR_INVALID;
        if (nodes[i].cpu >= num_cpus) num_cpus = nodes[i].cpu + 1U;
        if (nodes[i].nic >= num_nics) num_nics = nodes[i].nic + 1U;
    }
    for (uint32_t i = 0; i < num_edges; i++)
        if (edges[i] >= num_nodes) return PW_ERR_INVALID;
    if (num_nodes > loggops->released_capacity) {
        uint32_t *grown = realloc(loggops->released, num_nodes * sizeof *grown);
        if (!grown) return PW_ERR_NOMEM;
        loggops->released = grown;
        loggops->released_capacity = num_nodes;
    }
    state->cpu_ns = calloc(num_cpus, sizeof *state->cpu_ns);
    state->in_ns = calloc(num_nics, sizeof *state->in_ns);
    state->out_ns = calloc(num_nics, sizeof *state->out_ns);
    state->next = malloc((num_nodes + 1) * sizeof *state->next);
    if (!state->cpu_ns || !state->in_ns || !state->out_ns || !state->next) return PW_ERR_NOMEM;
    state->nodes = nodes;
    state->edges = edges;
    state->num_nodes = num_nodes;
    state->num_cpus = num_cpus;
    state->num_nics = num_nics;
    return PW_OK;
}

int64_t pw_loggops_end_ns(const pw_loggops *loggops, uint32_t rank)
{
    int64_t end_ns = 0;
    const rank_state *state = &loggops->ranks[rank];
    for (uint32_t cpu = 0; cpu < state->num_cpus; cpu++) end_ns = later(end_ns, state->cpu_ns[cpu]);
    return end_ns;
}

uint64_t pw_loggops_unexpected(const pw_loggops *loggops, uint32_t rank)
{
    uint64_t count = 0;
    uint32_t at = loggops->ranks[rank].unexpected.head;
    for (; at != NONE; at = loggops->early[at].next) count++;
    return count;
}

uint64_t pw_loggops_events(const pw_loggops *loggops) { return loggops->num_created; }
