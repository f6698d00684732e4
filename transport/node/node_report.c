#include "transport/node/node_report.h"
#include "transport/node/program_regions.h"
#include "transport/node/report.h"

/* What the report is made of, in one place to point to. */
typedef struct {
    pw_counters counters;
    pw_impairment_site sites[PW_IMPAIRMENT_SITES];
    pw_time_histogram interrupt_times;
    pw_node_counters node;
} facts;

static pw_report_input gather(pw_node *node, facts *out)
{
    pw_ni *ni = pw_node_ni(node);
    pw_ni_read_counters(ni, &out->counters);
    for (uint32_t site = 0; site < PW_IMPAIRMENT_SITES; site++)
        (void)pw_ni_read_impairment(ni, site, &out->sites[site]); /* every site is one */
    pw_ni_read_interrupt_times(ni, &out->interrupt_times);
    pw_node_read_counters(node, &out->node);
    pw_node_regions_settle(node);
    return (pw_report_input){.counters = &out->counters,
                             .sites = out->sites,
                             .interrupt_times = &out->interrupt_times,
                             .tallies = pw_ni_tallies(ni),
                             .clock = pw_node_clock(node),
                             .calls = pw_node_calls(node),
                             .node = &out->node,
                             .wall_ns = pw_clock_wall_ns() - out->node.started_wall_ns,
                             .peak_rss_bytes = pw_report_peak_rss_bytes(),
                             .of = node,
                             .page_sources = pw_memory_sources(pw_node_memory(node))};
}

size_t pw_node_report_write(pw_node *node, char *buffer, size_t capacity)
{
    facts found;
    pw_report_input input = gather(node, &found);
    return pw_report_write(&input, buffer, capacity);
}

int pw_node_report_leave(pw_node *node, const char *directory)
{
    facts found;
    pw_report_input input = gather(node, &found);
    return pw_report_leave(&input, directory, pw_node_number(node));
}
