#include "node/node.h"
#include "node/node_state.h"
#include "node/record/recorder.h"
#include "native/status.h"
#include "native/warm.h"
#include "ni/ni.h"
#include "node/settings/config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>

static uint8_t *burst_memory(void *context, size_t num_bytes)
{
    pw_wire *wire = context;
    return wire->ops->allocate(wire, num_bytes);
}

#define ALWAYS_MILLIONTHS 1000000

static int create_memory(pw_node *node, const pw_settings *settings)
{
    pw_memory_model_options options = {
        .seed = (uint64_t)settings->model_seed + node->wire->node,
        .fault_millionths = (uint32_t)settings->model_fault_millionths,
        .frame_limit_pages = (uint64_t)settings->model_frame_limit_pages,
        .huge_pages = (uint32_t)settings->model_huge_pages,
        .collapse_millionths = (uint32_t)settings->model_collapse_millionths,
        .detached = node->has_no_bytes,
    };
    uint32_t backend = (uint32_t)settings->memory_backend;
    if (node->has_no_bytes && backend != PW_MEMORY_MODEL) {
        options.fault_millionths = ALWAYS_MILLIONTHS;
        backend = PW_MEMORY_MODEL;
    }
    const int code = pw_memory_create(backend, &options, &node->memory);
    if (code == PW_OK && backend == PW_MEMORY_HOST &&
        settings->residency_source == PW_RESIDENCY_EVENTS)
        pw_memory_use_events(node->memory, settings->residency_check); /* the report says whether */
    return code;
}

static int create_engine(pw_node *node, const pw_node *like, const char **reason)
{
    int code = create_memory(node, &node->shared->settings);
    if (code < 0) {
        const char *lacks = code == PW_ERR_HOST ? pw_memory_host_lacks() : NULL;
        *reason = lacks ? lacks : "the memory backend cannot be made: see pw_memory_create";
        return code;
    }
    *reason = "the engine cannot be made: too many nodes, or no memory for its tables";
    code = pw_ni_create_like(like ? like->ni : NULL, &node->shared->costs, &node->shared->settings,
                             node->wire->node, node->wire->num_nodes, node->memory, &node->ni);
    if (code < 0) return code;
    const pw_wire_ops *wire = node->wire->ops;
    if (node->has_no_bytes)
        pw_ni_set_without_bytes(node->ni, wire->parts ? wire->parts(node->wire) : NULL);
    uint64_t secret;
    *reason = "no random number for the keys of memory: getrandom failed";
    if (getrandom(&secret, sizeof secret, 0) != (ssize_t)sizeof secret) return PW_ERR_HOST;
    pw_ni_set_key_secret(node->ni, secret);
    if (node->wire->ops->allocate) pw_ni_set_burst_memory(node->ni, burst_memory, node->wire);
    pw_ni_set_keeper(node->ni, pw_node_keep_promise, node);
    *reason = "the protection domain (pdid, from 1 on) cannot be opened; see pw_ni_open_domain";
    return pw_ni_open_domain(node->ni, node->pdid);
}

static void forget_translations(void *owner, uint64_t first_page, uint64_t num_pages)
{
    pw_node *node = owner;
    pw_ni_invalidate(node->ni, node->pdid, first_page, num_pages);
}

static int create_strategy(pw_node *node, const char **reason)
{
    node->context =
        (pw_strategy_context){.memory = node->memory,
                              .tables = &node->shared->tables,
                              .costs = &node->shared->costs,
                              .settings = &node->shared->settings,
                              .unpinned = node->strategy->unit ? forget_translations : NULL,
                              .owner = node,
                              .has_no_bytes = node->has_no_bytes};
    if (node->strategy_self) return PW_OK;
    *reason = "the memory strategy cannot be made";
    node->strategy_self = &node->context;
    const pw_strategy_ops *ops = node->strategy;
    int code = ops->create ? ops->create(&node->context, &node->strategy_self) : PW_OK;
    node->owns_strategy = code == PW_OK;
    if (code == PW_ERR_FULL)
        *reason = "the memory strategy needs more locked memory at its start than there may be; "
                  "raise the limit (ulimit -l, strategy.locked_limit, or the model's, "
                  "memory_backend.frame_limit_pages) or take another run.memory";
    return code == PW_OK ? pw_node_pass(node, &node->context.start_cost, "create") : code;
}

static int create_parts(pw_node *node, const pw_node_config *config, const pw_node_opening *opening,
                        const char **reason)
{
    const pw_clock_options clock = {.call_ns = node->shared->costs.mpi_call_ns,
                                    .poll_ns = node->shared->costs.poll_ns,
                                    .read_ns = node->shared->costs.clock_read_ns,
                                    .compute = config->run.compute,
                                    .scale = config->run.compute_scale,
                                    .replay_ns = opening->replay_ns,
                                    .num_replay = opening->num_replay,
                                    .is_recording = config->run.compute_record[0] != '\0'};
    *reason = "the clock: costs, durations and scale are not negative, the scale is at most "
              "PW_COMPUTE_SCALE_MAX, compute is one of PW_COMPUTE_*";
    int code = pw_clock_init(&node->clock, &clock);
    if (code < 0) return code;
    *reason = "no memory for the table of transfers";
    code = pw_handles_init(&node->handles);
    if (code < 0) return code;
    code = create_engine(node, opening->like, reason);
    if (code < 0) return code;
    if (node->strategy->way)
        code = node->strategy->way->create(node, opening->num_started, &node->way_state, reason);
    return code < 0 ? code : create_strategy(node, reason);
}

static const char *refused(const pw_node *node)
{
    const char *reason = NULL;
    if (!node->strategy) return "the memory strategy of a node must be given";
    if (pw_cost_tables_check(&node->shared->tables, &reason) < 0) return reason;
    if (pw_ni_refused(&node->shared->costs, &node->shared->settings))
        return "a cost or a setting is out of its range; pw_ni_refused names it";
    return NULL;
}

/* Costs, settings and tables: those of `like` where they are the same. PW_ERR_NOMEM. */
static int share(pw_node *node, const pw_node_config *config, const pw_node *like)
{
    pw_node_shared *made = malloc(sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->num_users = 1;
    made->costs = config->costs;
    made->settings = config->settings;
    made->tables = config->tables;
    if (node->strategy) pw_strategy_choose_unit(node->strategy, &made->settings);
    pw_node_shared *known = like ? like->shared : NULL;
    if (known && !memcmp(&known->costs, &made->costs, sizeof made->costs) &&
        !memcmp(&known->settings, &made->settings, sizeof made->settings) &&
        !memcmp(&known->tables, &made->tables, sizeof made->tables)) {
        free(made);
        made = known;
        made->num_users++;
    }
    node->shared = made;
    return PW_OK;
}

/* The wire, unless it stays the caller's, before the engine: it may still be sending from the
 * engine's bursts. */
static void destroy(pw_node *node, bool closes_wire)
{
    if (node->ni) pw_node_reclaim(node);
    pw_node_trace_drop(node);
    (void)pw_node_record_finish(node); /* what failed is the host's to ask before */
    pw_node_regions_finish(node);
    if (closes_wire) node->wire->ops->close(node->wire);
    if (node->owns_strategy && node->strategy->destroy)
        node->strategy->destroy(node->strategy_self);
    if (node->way_state) node->strategy->way->destroy(node);
    pw_page_counts_finish(&node->context.pinned_pages);
    pw_ni_destroy(node->ni);
    pw_memory_destroy(node->memory);
    pw_handles_destroy(&node->handles);
    pw_peers_clear(&node->promises.asks);
    pw_frame_pool_finish(&node->frames);
    pw_clock_finish(&node->clock);
    pw_topology_destroy(node->topology);
    pw_calendar_finish(&node->library);
    pw_call_counts_finish(&node->calls);
    if (node->shared && --node->shared->num_users == 0) free(node->shared);
    free(node);
}

static int create(const pw_node_config *config, const pw_node_opening *opening, pw_wire *wire,
                  pw_node **out, const char **reason)
{
    pw_node *node = calloc(1, sizeof *node);
    *reason = "no memory for a node";
    if (!node) return PW_ERR_NOMEM;
    node->wire = wire;
    node->pdid = opening->pdid;
    node->has_no_bytes = opening->has_no_bytes != 0;
    node->transfer_max_bytes =
        opening->transfer_max_bytes ? opening->transfer_max_bytes : (uint64_t)PW_TRANSFER_MAX_BYTES;
    node->host = opening->host;
    node->strategy = opening->strategy ? opening->strategy : pw_strategy_find(config->run.memory);
    node->strategy_self = opening->strategy_self;
    node->has_policy = pw_asks_host(&config->settings);
    node->next_ns = node->horizon_ns = PW_NEVER;
    node->started_wall_ns = pw_clock_wall_ns();
    int code = share(node, config, opening->like);
    if (code == PW_OK) *reason = refused(node);
    if (code == PW_OK && *reason) code = PW_ERR_INVALID;
    if (code == PW_OK) code = create_parts(node, config, opening, reason);
    if (code < 0) {
        const int saved = errno; /* PW_ERR_HOST: the caller wants to read it */
        destroy(node, false);
        errno = saved;
        return code;
    }
    *out = node;
    return PW_OK;
}

static int refuse(pw_sentence *reason, int code, const char *what)
{
    const int saved = errno;
    pw_sentence_refuse(reason, code, "%s: %s", what, pw_status_text(code));
    if (code == PW_ERR_HOST && saved) pw_sentence_add(reason, ": %s", strerror(saved));
    return code;
}

static int plan_impairments(pw_ni *ni, const pw_node_config *config, pw_sentence *reason)
{
    for (uint32_t site = 0; site < PW_IMPAIRMENT_SITES; site++) {
        const pw_impairment_site *plan = &config->impairments[site];
        if (pw_ni_plan_impairment(ni, site, plan) < 0)
            return pw_sentence_refuse(reason, PW_ERR_INVALID, "impairment %u: %s", site,
                                      pw_impairment_refused(site, plan));
    }
    return PW_OK;
}

/* The emulated machine pages in steps of 4 KB; huge pages would hide faults behind the first. */
static int set_huge_pages(const pw_node_config *config, pw_sentence *reason)
{
    if (config->run.huge_pages != PW_HUGE_PAGES_NEVER || !prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
        return PW_OK;
    return pw_sentence_refuse(reason, PW_ERR_HOST,
                              "run.huge_pages = 'never': the kernel refuses "
                              "prctl(PR_SET_THP_DISABLE); set it to 'host'");
}

int pw_node_config_topology(const pw_node_config *config, uint32_t num_ranks, pw_topology **out,
                            pw_sentence *reason)
{
    char why[PW_TOPOLOGY_REASON_BYTES];
    const pw_node_run *run = &config->run;
    const pw_network_texts texts = {run->topology, run->placement, run->failed, run->lossy};
    const uint32_t together = (uint32_t)run->ranks_per_node;
    const int code = pw_topology_make(&texts, (num_ranks + together - 1) / together,
                                      (uint32_t)config->costs.nodes_per_qfdb, out, why);
    if (code < 0) return pw_sentence_refuse(reason, code, "%s", why);
    pw_topology_set_together(*out, together);
    return PW_OK;
}

int pw_node_config_topology_apart(const pw_node_config *config, uint32_t num_ranks,
                                  pw_topology **out, pw_sentence *reason)
{
    const pw_node_run *run = &config->run;
    const int64_t model = config->settings.network_model;
    *out = NULL;
    if (model != PW_NETWORK_PRIVATE)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "network.model = '%s': only nodes of one process can share "
                                  "links; record the run and replay it with them",
                                  model == PW_NETWORK_LINKS ? "links" : "packets");
    if (run->ranks_per_node > 1)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "run.ranks_per_node = %lld: only ranks of one process can "
                                  "share a node; record the run with 1 and replay it with that",
                                  (long long)run->ranks_per_node);
    const bool is_usual = !strcmp(run->topology, "qfdb") && !strcmp(run->placement, "packed") &&
                          !run->failed[0] && !run->lossy[0];
    return is_usual ? PW_OK : pw_node_config_topology(config, num_ranks, out, reason);
}

/* The topology, where the host gives none: of the nodes that the run starts with. */
static int make_topology(const pw_node_config *config, const pw_node_opening *opening,
                         const pw_wire *wire, pw_topology **out, pw_sentence *reason)
{
    const uint32_t num_started = opening->num_started ? opening->num_started : wire->num_nodes;
    *out = NULL;
    if (opening->topology) return PW_OK;
    int code = pw_node_config_topology_apart(config, num_started, out, reason);
    if (code < 0 || !*out || wire->node < num_started) return code;
    pw_topology_destroy(*out);
    *out = NULL;
    return pw_sentence_refuse(reason, PW_ERR_INVALID,
                              "network.topology = '%s', placement '%s': it has places for the %u "
                              "ranks that the run starts with, and none for a process that a "
                              "program starts; leave network.* at its default",
                              config->run.topology, config->run.placement, num_started);
}

int pw_node_open(const pw_node_config *config, const pw_node_opening *opening, pw_wire *wire,
                 pw_node **out, pw_sentence *reason)
{
    const char *why;
    pw_topology *topology = NULL;
    int code = opening->is_process ? set_huge_pages(config, reason) : PW_OK;
    if (code == PW_OK) code = make_topology(config, opening, wire, &topology, reason);
    if (code < 0) return code;
    code = create(config, opening, wire, out, &why);
    if (code < 0) {
        pw_topology_destroy(topology);
        return refuse(reason, code, why);
    }
    (*out)->topology = topology;
    if (topology || opening->topology)
        pw_ni_set_network((*out)->ni, topology ? topology : opening->topology, opening->links,
                          opening->forwarding);
    if (opening->neighbour) code = pw_ni_share_node((*out)->ni, opening->neighbour->ni);
    if (code < 0)
        pw_sentence_refuse(reason, code,
                           "run.ranks_per_node = %lld: the SMMU that they share tells 65,535 "
                           "protection domains apart; take fewer",
                           (long long)config->run.ranks_per_node);
    else code = plan_impairments((*out)->ni, config, reason);
    if (code == PW_OK) return PW_OK;
    destroy(*out, false);
    *out = NULL;
    return code;
}

void pw_node_destroy(pw_node *node)
{
    if (node) destroy(node, true);
}

int pw_node_fail(pw_node *node, int code, const char *format, ...)
{
    int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(node->reason, sizeof node->reason, format, arguments);
    va_end(arguments);
    errno = saved;
    return code;
}

const char *pw_node_reason(const pw_node *node) { return node->reason; }

void pw_node_lock(pw_node *node)
{
    pw_ticket_lock_take(&node->lock);
    pw_idleness_note_thread(&node->idleness);
}

void pw_node_unlock(pw_node *node)
{
    if (!node->clock.depth) pw_node_stand_by(node, false); /* the program goes on */
    if (node->is_posted) pw_idleness_tell_resting(&node->idleness);
    pw_ticket_lock_give(&node->lock);
}

bool pw_node_is_mine(const pw_node *node) { return pw_ticket_lock_is_mine(&node->lock); }

void pw_node_warm(const pw_node *node)
{
    PW_WARM_FIELDS(node, ni, reason);
    PW_WARM_FIELDS(node, frames, way_state);
    pw_ni_warm(node->ni);
}

pw_ni *pw_node_ni(pw_node *node) { return node->ni; }
pw_clock *pw_node_clock(pw_node *node) { return &node->clock; }
pw_memory *pw_node_memory(pw_node *node) { return node->memory; }
bool pw_node_has_no_bytes(const pw_node *node) { return node->has_no_bytes; }
uint16_t pw_node_pdid(const pw_node *node) { return node->pdid; }
const pw_costs *pw_node_costs(const pw_node *node) { return &node->shared->costs; }
const pw_cost_tables *pw_node_tables(const pw_node *node) { return &node->shared->tables; }
const pw_settings *pw_node_ni_settings(const pw_node *node) { return &node->shared->settings; }
pw_call_counts *pw_node_calls(pw_node *node) { return &node->calls; }
uint32_t pw_node_number(const pw_node *node) { return node->wire->node; }
uint32_t pw_node_count(const pw_node *node) { return node->wire->num_nodes; }
pw_strategy_context *pw_node_strategy_context(pw_node *node) { return &node->context; }
int64_t pw_node_next_ns(const pw_node *node) { return node->next_ns; }
const pw_handle *pw_node_under_way(const pw_node *node) { return node->handles.under_way; }

void pw_node_set_host(pw_node *node, const pw_node_host *host) { node->host = *host; }

const pw_node_host *pw_node_host_of(const pw_node *node) { return &node->host; }

void pw_node_set_without_marks(pw_node *node) { node->lacks_marks = true; }

void pw_node_read_counters(const pw_node *node, pw_node_counters *out)
{
    pw_wire_counts sent = {0, 0, 0, 0};
    /* the unit pins, or the strategy: settings with both are refused */
    const pw_pinned *of_unit = pw_ni_pinned(node->ni);
    const pw_pinned *pinned = of_unit ? of_unit : &node->context.pinned;
    const pw_pinned *resident = pw_memory_resident(node->memory);
    int64_t now_ns = node->clock.now_ns;
    if (node->wire->ops->count) node->wire->ops->count(node->wire, &sent);
    *out = (pw_node_counters){.touch_ns = node->strategy_cost.touch_ns,
                              .pin_ns = node->strategy_cost.pin_ns,
                              .copy_ns = node->strategy_cost.copy_ns,
                              .pinned_peak_bytes = pinned->peak_pages << PW_PAGE_SHIFT,
                              .pinned_mean_bytes = pw_pinned_mean_bytes(pinned, now_ns),
                              .resident_peak_bytes = resident->peak_pages << PW_PAGE_SHIFT,
                              .resident_mean_bytes = pw_pinned_mean_bytes(resident, now_ns),
                              .strategy = node->context.counters,
                              .received_hash = node->received_hash,
                              .yields = node->idleness.yields,
                              .sleeps = node->idleness.sleeps,
                              .bursts_short = sent.num_short,
                              .bursts_in_place = sent.num_in_place,
                              .bursts_copied = sent.num_copied,
                              .bursts_by_message = sent.num_by_message,
                              .started_wall_ns = node->started_wall_ns,
                              .without_marks = node->lacks_marks};
}

void pw_node_clock_enter(pw_node *node, int costs_call)
{
    LOCKED(node, pw_clock_enter(&node->clock, costs_call != 0));
}

void pw_node_clock_leave(pw_node *node) { LOCKED(node, pw_clock_leave(&node->clock)); }

int64_t pw_node_clock_read(pw_node *node)
{
    int64_t now_ns;
    LOCKED(node, now_ns = pw_clock_read(&node->clock));
    return now_ns;
}

void pw_node_clock_declare(pw_node *node, int64_t duration_ns)
{
    LOCKED(node, pw_clock_declare(&node->clock, duration_ns));
}

void pw_node_clock_sleep(pw_node *node, int64_t duration_ns)
{
    LOCKED(node, pw_clock_sleep(&node->clock, duration_ns));
}

void pw_node_clock_completed(pw_node *node, int64_t complete_ns)
{
    LOCKED(node, pw_clock_completed(&node->clock, complete_ns));
}

void pw_node_clock_reach(pw_node *node, int64_t time_ns)
{
    LOCKED(node, node->clock.now_ns = pw_later(node->clock.now_ns, time_ns));
}

void pw_node_clock_pass(pw_node *node, int64_t duration_ns)
{
    LOCKED(node, pw_clock_pass(&node->clock, duration_ns));
}

void pw_node_clock_failed_test(pw_node *node, int is_future, int64_t poll_ns)
{
    LOCKED(node, pw_node_failed_test(node, is_future != 0, poll_ns));
}
