#include "tests/fuzz/engines.h"

#define EVENTS 16
#define FOREVER (PW_NEVER - 1)

uint8_t *open_memory;
static uint8_t sent[NODES][PRIVATE_BYTES]; /* what nobody may change */
void (*engines_watch)(uint32_t from, uint32_t to, const uint8_t *data, uint32_t num_bytes);

void engines_map(engines *all)
{
    open_memory =
        mmap(NULL, SPACE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MUST(open_memory != MAP_FAILED);
    MUST(!mprotect(open_memory, OPEN_BYTES + FIXED_BYTES, PROT_READ | PROT_WRITE));
    MUST(!madvise(open_memory, OPEN_BYTES + FIXED_BYTES, MADV_NOHUGEPAGE));
    memset(open_memory + OPEN_BYTES, 1, FIXED_BYTES);
    MUST(!mprotect(open_memory + OPEN_BYTES, FIXED_BYTES, PROT_READ));
    for (uint32_t node = 0; node < NODES; node++) {
        uint8_t *pages = mmap(NULL, 2 * PRIVATE_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST(pages != MAP_FAILED && !madvise(pages, 2 * PRIVATE_BYTES, MADV_NOHUGEPAGE));
        all->private[node] = pages;
        uint64_t *words = (uint64_t *)(void *)pages;
        for (size_t i = 0; i < PRIVATE_BYTES / sizeof *words; i++)
            words[i] = node == 0 ? SECRET : (node + 1) * UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
        memcpy(sent[node], pages, PRIVATE_BYTES);
    }
}

void engines_begin(engines *all, const pw_settings *settings, const pw_impairment_site *plan,
                   uint32_t site)
{
    pw_memory_model_options model = {
        .seed = (uint64_t)settings->model_seed,
        .fault_millionths = (uint32_t)settings->model_fault_millionths,
        .huge_pages = (uint32_t)settings->model_huge_pages,
        .collapse_millionths = (uint32_t)settings->model_collapse_millionths,
    };
    all->num_transfers = 0;
    all->is_stuck = false;
    MUST(!madvise(open_memory, OPEN_BYTES, MADV_DONTNEED));
    for (uint32_t node = 0; node < NODES; node++) {
        /* The first half is what is sent, the second where things arrive: absent at first. */
        MUST(!madvise(all->private[node] + PRIVATE_BYTES, PRIVATE_BYTES, MADV_DONTNEED));
        all->first[node] = all->last[node] = NULL;
        MUST(pw_memory_create((uint32_t)settings->memory_backend, &model, &all->memory[node]) ==
             PW_OK);
        MUST(pw_ni_create(&platform_costs, settings, node, NODES, all->memory[node],
                          &all->ni[node]) == PW_OK);
        MUST(pw_ni_open_domain(all->ni[node], PDID) == PW_OK);
        if (plan) MUST(pw_ni_plan_impairment(all->ni[node], site, plan) == PW_OK);
    }
    MUST(pw_ni_register(all->ni[0], (uintptr_t)open_memory, SHOWN_BYTES, PW_REMOTE_READ,
                        &all->shown_key) == PW_OK);
}

void engines_end(engines *all)
{
    for (uint32_t node = 0; node < NODES; node++) {
        for (carried *burst; (burst = all->first[node]);) {
            all->first[node] = burst->next;
            free(burst->data);
            free(burst);
        }
        MUST(!memcmp(all->private[node], sent[node], PRIVATE_BYTES));
        pw_ni_destroy(all->ni[node]);
        pw_memory_destroy(all->memory[node]);
    }
}

void engines_carry(engines *all, uint32_t from, uint32_t to, const uint8_t *data,
                   uint32_t num_bytes)
{
    carried *burst = malloc(sizeof *burst);
    uint8_t *copy = malloc(num_bytes);
    MUST(burst && copy);
    memcpy(copy, data, num_bytes);
    *burst = (carried){.source = from, .num_bytes = num_bytes, .data = copy};
    if (all->first[to]) all->last[to]->next = burst;
    else all->first[to] = burst;
    all->last[to] = burst;
}

static bool take_bursts(engines *all, uint32_t node)
{
    bool has_moved = false;
    for (carried *burst; (burst = all->first[node]); has_moved = true) {
        all->first[node] = burst->next;
        pw_ni_rx_burst(all->ni[node], burst->source, burst->data, burst->num_bytes);
        free(burst->data);
        free(burst);
    }
    return has_moved;
}

static void heed(engines *all, uint32_t node, const pw_host_event *event)
{
    pw_decision question;
    switch (event->kind) {
    case PW_HOST_DECISION:
        MUST(pw_ni_read_decision(all->ni[node], event->id, &question) == PW_OK);
        MUST(question.page >= question.block_first_page && question.page < question.block_end_page);
        (void)pw_ni_decide(all->ni[node], event->id, question.page, 1);
        break;
    case PW_HOST_DEADLOCK:
    case PW_HOST_FRAMES_SHORT: all->is_stuck = true; break;
    case PW_HOST_WRITE_DONE:
    case PW_HOST_FETCH_DONE:
        for (uint32_t i = 0; i < all->num_transfers; i++) {
            transfer *it = &all->transfers[i];
            if (it->node != node || it->id != event->id || it->done) continue;
            it->done = true;
            it->error = event->error;
        }
        break;
    default: break;
    }
}

static bool run(engines *all, uint32_t node)
{
    pw_host_event events[EVENTS];
    pw_burst burst;
    bool has_moved = false;
    const int count = pw_ni_run(all->ni[node], FOREVER, events, EVENTS);
    MUST(count >= 0); /* no failure of the host's */
    for (int i = 0; i < count; i++) heed(all, node, &events[i]);
    while (pw_ni_tx_burst(all->ni[node], &burst)) {
        has_moved = true;
        if (engines_watch) engines_watch(node, burst.peer, burst.data, burst.num_bytes);
        engines_carry(all, node, burst.peer, burst.data, burst.num_bytes);
        pw_ni_tx_release(all->ni[node], burst.data);
    }
    return has_moved || count;
}

bool engines_turn(engines *all)
{
    bool has_moved = false;
    for (uint32_t node = 0; node < NODES; node++) {
        has_moved |= take_bursts(all, node);
        has_moved |= run(all, node);
    }
    return has_moved;
}

void engines_start(engines *all, uint32_t node, uint32_t peer, uint64_t source,
                   uint64_t destination, uint64_t num_bytes, bool is_read, uint64_t at_ns)
{
    if (all->num_transfers == TRANSFERS_MAX) return;
    transfer made = {.node = node,
                     .peer = peer,
                     .source = source,
                     .destination = destination,
                     .num_bytes = num_bytes};
    uint64_t key;
    int code;
    if (is_read) {
        code = pw_ni_expose(all->ni[peer], node, source, num_bytes, NULL, &key);
        if (code == PW_OK)
            code = pw_ni_fetch(all->ni[node], PDID, peer, source, key, destination, num_bytes,
                               (int64_t)at_ns, &made.id);
    } else {
        code = pw_ni_write(all->ni[node], PDID, peer, source, destination, 0, num_bytes, NULL,
                           (int64_t)at_ns, &made.id);
    }
    if (code == PW_OK) all->transfers[all->num_transfers++] = made;
}
