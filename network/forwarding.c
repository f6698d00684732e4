#include "network/forwarding.h"

#include <stdlib.h>

#include "native/event_queue.h"
#include "native/parts.h"
#include "native/pool.h"
#include "native/status.h"
#include "network/links_state.h"

/* A link's queue: it is busy since begin_ns with num_bytes without a pause. Packets end at
 * fractions of a ns, blocks at whole ones. */
typedef struct {
    int64_t begin_ns;
    uint64_t num_bytes;
    int64_t promised_ns; /* with all that its node has sent, and that may not be here yet */
    pw_queue leaving;    /* of `departure`, behind the one whose event is in the queue of events */
    bool is_leaving;     /* there is one */
} line;

/* A quantum comes out of a link. */
typedef struct {
    pw_link link;
    pw_event event;
} departure;

/* A link of a block's way. */
typedef struct {
    uint32_t link;
    int64_t head_ns; /* the first quantum came */
} stage;

/* A block under way. */
typedef struct {
    pw_forwarding_block block;
    uint64_t token;
    uint32_t num_quanta, num_stages;
    pw_passing told, passing;
    stage stages[];
} flight;

struct pw_forwarding {
    pw_links *links;
    /* Kind: the link that a quantum comes out of, plus 1; 0: of none. Subject: the flight; detail:
     * the quantum and the stage that it comes to. */
    pw_event_queue *queue;
    pw_parts parts;
    pw_pool departures;
    bool is_short; /* of memory */
    line lines[];
};

int pw_forwarding_create(pw_links *links, pw_forwarding **out)
{
    const uint32_t num_links = pw_topology_num_links(links->topology);
    pw_forwarding *forwarding =
        calloc(1, sizeof *forwarding + num_links * sizeof *forwarding->lines);
    if (!forwarding) return PW_ERR_NOMEM;
    forwarding->links = links;
    const int code = pw_event_queue_create(0, &forwarding->queue);
    if (code < 0) {
        free(forwarding);
        return code;
    }
    *out = forwarding;
    return PW_OK;
}

void pw_forwarding_destroy(pw_forwarding *forwarding)
{
    if (!forwarding) return;
    pw_event_queue_destroy(forwarding->queue);
    pw_parts_finish(&forwarding->parts);
    pw_pool_finish(&forwarding->departures);
    free(forwarding);
}

/* ---- setting out */

static size_t size_of(uint32_t num_stages)
{
    return pw_parts_size(sizeof(flight) + num_stages * sizeof(stage));
}

/* The link is free from then on; in whole ns, rounded down. */
static int64_t free_ns(const pw_forwarding *forwarding, uint32_t link)
{
    const line *queue = &forwarding->lines[link];
    const uint64_t rate = (uint64_t)forwarding->links->states[link].byte_ps_1000;
    return queue->begin_ns + (int64_t)(queue->num_bytes * rate / 1000000);
}

/* How long a block that came now would wait. */
static int64_t backlog(const void *context, uint32_t link)
{
    const pw_forwarding *forwarding = context;
    const int64_t idle_ns =
        pw_later(free_ns(forwarding, link), forwarding->lines[link].promised_ns);
    return pw_later(idle_ns - forwarding->links->asked_ns, 0);
}

/* Behind the source's own blocks, and on free links. */
static void foresee(pw_forwarding *forwarding, flight *self)
{
    const pw_forwarding_block *block = &self->block;
    line *first = &forwarding->lines[self->stages[0].link];
    pw_passing *told = &self->told;
    told->leaves_ns = pw_later(block->at_ns, first->promised_ns);
    told->head_ns = told->tail_ns = told->leaves_ns;
    for (uint32_t i = 0; i < self->num_stages; i++) {
        const pw_link_state *state = &forwarding->links->states[self->stages[i].link];
        const int64_t end_ns = told->head_ns + pw_link_bytes_ns(state, block->wire_bytes);
        const int64_t step_ns = pw_link_step_ns(forwarding->links, i + 1 == self->num_stages);
        if (i == 0) first->promised_ns = end_ns;
        told->head_ns += step_ns;
        told->tail_ns = pw_later(told->tail_ns, end_ns) + step_ns;
    }
}

static void push(pw_forwarding *forwarding, const pw_event *event)
{
    if (pw_event_queue_push(forwarding->queue, event) < 0) forwarding->is_short = true;
}

static pw_event event_of(const flight *self, uint32_t quantum, uint32_t stage_idx, int64_t at_ns)
{
    return (pw_event){.time_ns = at_ns,
                      .kind = stage_idx ? self->stages[stage_idx - 1].link + 1 : 0,
                      .subject = (uint64_t)(uintptr_t)self,
                      .detail = (uint64_t)quantum << 32 | stage_idx};
}

uint64_t *pw_forwarding_send(pw_forwarding *forwarding, const pw_forwarding_block *block,
                             pw_passing *told)
{
    pw_links *links = forwarding->links;
    links->asked_ns = block->at_ns;
    const uint32_t num_stages =
        pw_topology_route_by(links->topology, block->from, block->to, block->variant, block->salt,
                             backlog, forwarding, links->way);
    links->num_way = num_stages;
    flight *self = pw_parts_take(&forwarding->parts, size_of(num_stages));
    if (!self) return NULL;
    *self = (flight){.block = *block, .num_stages = num_stages};
    self->num_quanta =
        (uint32_t)((block->wire_bytes + block->quantum_bytes - 1) / block->quantum_bytes);
    for (uint32_t i = 0; i < num_stages; i++) self->stages[i] = (stage){.link = links->way[i]};
    foresee(forwarding, self);
    *told = self->told;
    const pw_event event = event_of(self, 0, 0, block->at_ns);
    push(forwarding, &event);
    return &self->token;
}

/* ---- on its way */

static uint64_t bytes_of(const pw_forwarding_block *block, uint32_t quantum)
{
    const uint64_t left = block->wire_bytes - (uint64_t)quantum * block->quantum_bytes;
    return left < block->quantum_bytes ? left : block->quantum_bytes;
}

/* The link takes so many bytes behind what is there: when it begins with them, and has ended. */
static int64_t append(pw_forwarding *forwarding, uint32_t link, uint64_t num_bytes, bool is_last,
                      int64_t at_ns, int64_t *end_ns)
{
    line *queue = &forwarding->lines[link];
    const pw_link_state *state = &forwarding->links->states[link];
    int64_t start_ns = free_ns(forwarding, link);
    if (at_ns > start_ns) {
        queue->begin_ns = start_ns = at_ns;
        queue->num_bytes = 0;
    }
    queue->num_bytes += num_bytes;
    *end_ns = free_ns(forwarding, link);
    if (!is_last) return start_ns;
    *end_ns = queue->begin_ns + pw_link_bytes_ns(state, queue->num_bytes);
    queue->begin_ns = *end_ns;
    queue->num_bytes = 0;
    return start_ns;
}

/* The last quantum passes: how much later than the block would have ended on a free link. */
static void note_wait(pw_forwarding *forwarding, const flight *self, const stage *at, int64_t at_ns,
                      int64_t end_ns)
{
    const pw_forwarding_block *block = &self->block;
    pw_link_state *state = &forwarding->links->states[at->link];
    const int64_t last_ns = at_ns + pw_link_bytes_ns(state, bytes_of(block, self->num_quanta - 1));
    const int64_t all_ns = at->head_ns + pw_link_bytes_ns(state, block->wire_bytes);
    pw_link_note_wait(forwarding->links, state, pw_later(end_ns - pw_later(last_ns, all_ns), 0));
}

/* A quantum passes a stage; returns when it is at the next one. */
static int64_t pass(pw_forwarding *forwarding, flight *self, uint32_t quantum, uint32_t idx,
                    int64_t at_ns)
{
    stage *at = &self->stages[idx];
    pw_link_state *state = &forwarding->links->states[at->link];
    const bool is_last = quantum + 1 == self->num_quanta;
    const int64_t step_ns = pw_link_step_ns(forwarding->links, idx + 1 == self->num_stages);
    const uint64_t num_bytes = bytes_of(&self->block, quantum);
    int64_t end_ns;
    const int64_t start_ns = append(forwarding, at->link, num_bytes, is_last, at_ns, &end_ns);
    state->use.num_bytes += num_bytes;
    pw_link_note_busy(forwarding->links, state, start_ns, end_ns - start_ns);
    if (quantum == 0) {
        state->use.num_blocks++;
        at->head_ns = at_ns;
        if (idx == 0) self->passing.leaves_ns = start_ns;
        self->passing.head_ns = start_ns + step_ns;
    }
    if (is_last) {
        note_wait(forwarding, self, at, at_ns, end_ns);
        self->passing.tail_ns = pw_later(self->passing.tail_ns, end_ns) + step_ns;
    }
    return start_ns + step_ns;
}

static void come_out(pw_forwarding *forwarding, flight *self, pw_forwarding_out *out)
{
    *out = (pw_forwarding_out){.from = self->block.from,
                               .token = self->token,
                               .passing = self->passing,
                               .head_late_ns = self->passing.head_ns - self->told.head_ns,
                               .tail_late_ns = self->passing.tail_ns - self->told.tail_ns};
    pw_parts_give(&forwarding->parts, self, size_of(self->num_stages));
}

/* The one that comes next follows when this one is in the queue of the first link. */
static void follow(pw_forwarding *forwarding, const flight *self, uint32_t quantum)
{
    if (++quantum == self->num_quanta) return;
    const int64_t behind_ns = (int64_t)quantum * self->block.interval_ps / 1000;
    const pw_event event = event_of(self, quantum, 0, self->block.at_ns + behind_ns);
    push(forwarding, &event);
}

/* Quanta leave a link in order, so that the first one's event will do. */
static void leave(pw_forwarding *forwarding, const pw_event *event)
{
    line *from = &forwarding->lines[event->kind - 1];
    if (!from->is_leaving) {
        from->is_leaving = true;
        push(forwarding, event);
        return;
    }
    departure *waits = pw_pool_take(&forwarding->departures, sizeof *waits);
    if (!waits) {
        forwarding->is_short = true;
        return;
    }
    waits->event = *event;
    pw_queue_append(&from->leaving, waits);
}

/* The first one has left: the next one's turn. */
static void has_left(pw_forwarding *forwarding, uint32_t link)
{
    line *from = &forwarding->lines[link];
    departure *next = pw_queue_take(&from->leaving);
    from->is_leaving = next != NULL;
    if (!next) return;
    push(forwarding, &next->event);
    pw_pool_give(&forwarding->departures, next);
}

int64_t pw_forwarding_next_ns(const pw_forwarding *forwarding)
{
    return pw_event_queue_next_ns(forwarding->queue);
}

/* From stage to stage, as long as nothing else comes before. True: its block has come out. */
static bool advance(pw_forwarding *forwarding, flight *self, uint32_t quantum, uint32_t idx,
                    int64_t at_ns, int64_t until_ns)
{
    if (idx == 0) follow(forwarding, self, quantum);
    do {
        at_ns = pass(forwarding, self, quantum, idx++, at_ns);
        if (idx == self->num_stages) return quantum + 1 == self->num_quanta;
    } while (at_ns <= until_ns && at_ns < pw_forwarding_next_ns(forwarding));
    const pw_event event = event_of(self, quantum, idx, at_ns);
    leave(forwarding, &event);
    return false;
}

int pw_forwarding_run(pw_forwarding *forwarding, int64_t until_ns, pw_forwarding_out *out)
{
    pw_event event;
    while (!forwarding->is_short && pw_forwarding_next_ns(forwarding) <= until_ns &&
           pw_event_queue_pop(forwarding->queue, &event)) {
        flight *self = (flight *)(uintptr_t)event.subject;
        const uint32_t quantum = (uint32_t)(event.detail >> 32);
        if (event.kind) has_left(forwarding, event.kind - 1);
        if (!advance(forwarding, self, quantum, (uint32_t)event.detail, event.time_ns, until_ns))
            continue;
        come_out(forwarding, self, out);
        return 1;
    }
    return forwarding->is_short ? PW_ERR_NOMEM : 0;
}
