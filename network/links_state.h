/* Links as the files that move blocks over them see them. */
#ifndef PW_NETWORK_LINKS_STATE_H
#define PW_NETWORK_LINKS_STATE_H
#include "native/calendar.h"
#include "network/links.h"

/* Blocks fill gaps before the latest window too. */
#define PW_LINK_WINDOWS 4
typedef struct {
    int64_t number; /* from 0 on, each of PW_LINK_WINDOW_NS */
    int64_t busy_ns;
} pw_link_window;

typedef struct {
    pw_calendar calendar; /* of blocks; packets have a queue instead */
    pw_link_use use;
    int64_t byte_ps_1000;                    /* 1000 x picoseconds of a byte */
    pw_link_window windows[PW_LINK_WINDOWS]; /* each at its number modulo that */
    pw_time_histogram *times;                /* ns that it was busy; NULL: none yet */
} pw_link_state;

struct pw_links {
    const pw_topology *topology;
    int64_t hop_ns, router_ns, wait_limit_ns;
    int64_t asked_ns; /* when backlogs are asked for */
    bool keeps_times;
    uint32_t num_way, way[PW_ROUTE_MAX]; /* of the latest block */
    pw_link_state states[];
};

/* How long so many bytes take. */
static inline int64_t pw_link_bytes_ns(const pw_link_state *state, uint64_t wire_bytes)
{
    const uint64_t busy_ps = wire_bytes * (uint64_t)state->byte_ps_1000 / 1000;
    return (int64_t)((busy_ps + 999) / 1000);
}

/* From a link to the next one of the way, or to its end. */
static inline int64_t pw_link_step_ns(const pw_links *links, bool is_last)
{
    return links->hop_ns + (is_last ? 0 : links->router_ns);
}

/* It is busy for so long. */
void pw_link_note_busy(const pw_links *links, pw_link_state *state, int64_t start_ns,
                       int64_t busy_ns);
/* A block has waited for it. */
void pw_link_note_wait(const pw_links *links, pw_link_state *state, int64_t wait_ns);
#endif
