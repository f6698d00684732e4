#include "network/links.h"

#include <stdlib.h>

#include "native/status.h"
#include "network/links_state.h"

int pw_links_create(const pw_topology *topology, const pw_costs *costs, int64_t wait_limit_ns,
                    pw_links **out)
{
    const uint32_t num_links = pw_topology_num_links(topology);
    pw_links *links = calloc(1, sizeof *links + num_links * sizeof *links->states);
    if (!links) return PW_ERR_NOMEM;
    links->topology = topology;
    for (uint32_t i = 0; i < num_links; i++) {
        pw_topology_link link;
        pw_topology_link_at(topology, i, &link);
        links->states[i].byte_ps_1000 = pw_link_byte_ps_1000(costs, link.tier);
    }
    links->hop_ns = costs->hop_ns;
    links->router_ns = costs->router_ns;
    links->wait_limit_ns = wait_limit_ns;
    *out = links;
    return PW_OK;
}

void pw_links_destroy(pw_links *links)
{
    if (!links) return;
    for (uint32_t i = 0; i < pw_topology_num_links(links->topology); i++) {
        pw_calendar_finish(&links->states[i].calendar);
        free(links->states[i].times);
    }
    free(links);
}

const pw_topology *pw_links_topology(const pw_links *links) { return links->topology; }

/* Without memory a link has none. */
static void note_times(pw_link_state *state, int64_t start_ns, int64_t busy_ns)
{
    if (!state->times && (state->times = malloc(sizeof *state->times)))
        pw_time_histogram_init(state->times);
    if (!state->times || busy_ns <= 0) return;
    pw_time_histogram_add_many(state->times, start_ns + busy_ns - 1, 0);
    const int64_t bin_ns = state->times->bin_ns, end_ns = start_ns + busy_ns;
    for (int64_t next_ns; start_ns < end_ns; start_ns = next_ns) {
        next_ns = start_ns - start_ns % bin_ns + bin_ns;
        if (next_ns > end_ns) next_ns = end_ns;
        pw_time_histogram_add_many(state->times, start_ns, (uint64_t)(next_ns - start_ns));
    }
}

/* What is booked in a gap before the windows that are kept is left out. */
static void note_window(pw_link_state *state, int64_t start_ns, int64_t busy_ns)
{
    const int64_t window = start_ns / PW_LINK_WINDOW_NS;
    pw_link_window *own = &state->windows[window % PW_LINK_WINDOWS];
    if (window < own->number) return;
    if (window > own->number) *own = (pw_link_window){.number = window};
    own->busy_ns += busy_ns;
    if (own->busy_ns <= state->use.busiest_ns) return;
    state->use.busiest_ns = own->busy_ns;
    state->use.busiest_at_ns = window * PW_LINK_WINDOW_NS;
}

void pw_link_note_busy(const pw_links *links, pw_link_state *state, int64_t start_ns,
                       int64_t busy_ns)
{
    state->use.busy_ns += busy_ns;
    if (links->keeps_times) note_times(state, start_ns, busy_ns);
    while (busy_ns > 0) {
        const int64_t room_ns = PW_LINK_WINDOW_NS - start_ns % PW_LINK_WINDOW_NS;
        const int64_t part_ns = busy_ns < room_ns ? busy_ns : room_ns;
        note_window(state, start_ns, part_ns);
        start_ns += part_ns;
        busy_ns -= part_ns;
    }
}

void pw_link_note_wait(const pw_links *links, pw_link_state *state, int64_t wait_ns)
{
    state->use.waited_ns += wait_ns;
    state->use.num_long_waits += wait_ns > links->wait_limit_ns;
    state->use.longest_wait_ns = pw_later(state->use.longest_wait_ns, wait_ns);
}

/* When its first byte enters the link, and its last one has. */
static int64_t book(pw_links *links, uint32_t link, uint64_t wire_bytes, int64_t at_ns,
                    int64_t *end_ns)
{
    pw_link_state *state = &links->states[link];
    const int64_t busy_ns = pw_link_bytes_ns(state, wire_bytes);
    int64_t first_ns = PW_NEVER;
    *end_ns = at_ns;
    for (int64_t left_ns = busy_ns; left_ns > 0;) {
        const int64_t start_ns =
            pw_calendar_spend_piece(&state->calendar, *end_ns, left_ns, end_ns);
        if (start_ns == PW_NEVER) break;
        if (first_ns == PW_NEVER) first_ns = start_ns;
        pw_link_note_busy(links, state, start_ns, *end_ns - start_ns);
        left_ns -= *end_ns - start_ns;
    }
    state->use.num_blocks++;
    state->use.num_bytes += wire_bytes;
    pw_link_note_wait(links, state, *end_ns - busy_ns - at_ns);
    return busy_ns > 0 ? first_ns : at_ns;
}

/* How long a block that came now would wait. */
static int64_t backlog(const void *context, uint32_t link)
{
    const pw_links *links = context;
    return pw_calendar_peek(&links->states[link].calendar, links->asked_ns, 1) - links->asked_ns;
}

void pw_links_pass(pw_links *links, uint32_t from, uint32_t to, uint32_t variant, uint64_t salt,
                   uint64_t wire_bytes, int64_t at_ns, pw_passing *out)
{
    links->asked_ns = at_ns;
    links->num_way =
        pw_topology_route_by(links->topology, from, to, variant, salt, backlog, links, links->way);
    int64_t head_ns = at_ns, tail_ns = at_ns, end_ns;
    *out = (pw_passing){.leaves_ns = at_ns};
    for (uint32_t i = 0; i < links->num_way; i++) {
        const int64_t start_ns = book(links, links->way[i], wire_bytes, head_ns, &end_ns);
        if (i == 0) out->leaves_ns = start_ns;
        const int64_t step_ns = pw_link_step_ns(links, i + 1 == links->num_way);
        head_ns = start_ns + step_ns;
        tail_ns = pw_later(tail_ns, end_ns) + step_ns;
    }
    out->head_ns = head_ns;
    out->tail_ns = tail_ns;
}

uint32_t pw_links_latest_way(const pw_links *links, const uint32_t **way)
{
    *way = links->way;
    return links->num_way;
}

void pw_links_read(const pw_links *links, uint32_t link, pw_link_use *out)
{
    *out = links->states[link].use;
}

void pw_links_keep_times(pw_links *links) { links->keeps_times = true; }

const pw_time_histogram *pw_links_times(const pw_links *links, uint32_t link)
{
    return links->states[link].times;
}
