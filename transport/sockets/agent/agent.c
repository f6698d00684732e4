/* pagewire-sockets RING_BYTES WAIT_MS FILE FACTS LIBRARY NUM_SETTINGS [SETTING]... --
 *                  COMMAND [ARGS] [: COMMAND [ARGS]]...
 *
 * Starts a command a node, whose stream sockets to addresses of the emulated network (10.77.0.0/16;
 * node i has 10.77.0.(i+1)) go over the nodes' RDMA. The nodes are all in this process, joined by
 * memory, moved by one thread; the programs have LIBRARY preloaded. A program begins when the one
 * before it listens or has ended, or after WAIT_MS. The run ends with the last command of the line.
 * Statistics on standard error, and as JSON with the given facts in FILE, unless that is empty.
 * `pagewire sockets` has checked all of it. */
#include "native/status.h"
#include "node/clock.h"
#include "node/report/output_file.h"
#include "transport/sockets/agent/agent.h"
#include "transport/sockets/agent/agent.h"
#include "transport/sockets/program_calls.h"
#include "unimem/streams/stream_nodes.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

typedef unsigned long long printed;

#define NODES_MAX PW_CHILDREN_MAX
#define SLOTS 1024
#define NETWORK 0x0A4D0000u /* 10.77.0.0 */
#define EVENTS 256
#define EXIT_FAILURE_OWN 2
#define VAIN_TURNS 100             /* before the core is given up while something is under way */
#define LOOK_NS INT64_C(100000000) /* for what is late: connects without an answer, ends */
#define LOOK_MS 100
#define NS_IN_MS INT64_C(1000000)

typedef struct {
    uint32_t ring_bytes, num_nodes;
    int64_t wait_ns;
    const char *json, *facts, *library;
    const char *const *settings; /* NULL ends them */
    char **commands[NODES_MAX];
} plan;

static pw_stream_nodes *all;
static pw_programs *programs[NODES_MAX];
static pw_children children;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "pagewire-sockets: error: %s: %s\n", what, why);
    pw_children_kill(&children);
    exit(EXIT_FAILURE_OWN);
}

static void read_arguments(char **argument, plan *out)
{
    *out = (plan){.ring_bytes = (uint32_t)strtoul(argument[0], NULL, 10),
                  .wait_ns = (int64_t)strtoul(argument[1], NULL, 10) * NS_IN_MS,
                  .json = argument[2],
                  .facts = argument[3],
                  .library = argument[4],
                  .settings = (const char *const *)argument + 6};
    argument += 6 + strtoul(argument[5], NULL, 10);
    *argument++ = NULL;
    out->commands[out->num_nodes++] = argument;
    for (; *argument; argument++) {
        if (strcmp(*argument, ":")) continue;
        if (out->num_nodes == NODES_MAX) fail("arguments", "there are at most 64 commands");
        *argument = NULL;
        out->commands[out->num_nodes++] = argument + 1;
    }
}

static void create_nodes(const plan *wanted, int epoll)
{
    const char *const *settings[NODES_MAX];
    char reason[512] = "";
    for (uint32_t i = 0; i < wanted->num_nodes; i++) settings[i] = wanted->settings;
    const pw_stream_nodes_options options = {.num_nodes = wanted->num_nodes,
                                             .num_slots = SLOTS,
                                             .ring_bytes = wanted->ring_bytes,
                                             .settings = settings};
    int code = pw_stream_nodes_create(&options, reason, sizeof reason, &all);
    if (code < 0) fail("--ring or node", *reason ? reason : pw_status_text(code));
    for (uint32_t i = 0; i < wanted->num_nodes; i++) {
        code = pw_programs_create(all, i, epoll, &programs[i]);
        if (code < 0) fail("node", pw_status_text(code));
    }
}

/* Each connection takes two descriptors here. Programs keep the limit that was. */
static void raise_limit(void)
{
    struct rlimit raised = children.descriptors;
    raised.rlim_cur = raised.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &raised)) fail("limit of descriptors", strerror(errno));
}

static void prepare_programs(const plan *wanted)
{
    char place[96];
    for (uint32_t i = 0; i < wanted->num_nodes; i++) {
        snprintf(place, sizeof place, "%u %u %u %u", (unsigned)getpid(), i, wanted->num_nodes,
                 NETWORK);
        if (pw_children_prepare(&children, wanted->commands[i], wanted->library, place) < 0)
            fail("fork", strerror(errno));
    }
}

static void check(uint32_t node, int code)
{
    if (code >= 0) return;
    fprintf(stderr, "pagewire-sockets: node %u: %s\n", node,
            pagewire_reason(pw_stream_nodes_door(all, node)));
    fail("node", pw_status_text(code));
}

/* true: something happened. */
static bool move_nodes(uint32_t num_nodes)
{
    bool has_moved = false;
    for (uint32_t i = 0; i < num_nodes; i++) {
        pw_node_streams *streams = pw_stream_nodes_on_node(all, i);
        int moved = i ? pw_node_streams_take_all(streams) : pw_node_streams_move(streams);
        check(i, moved);
        check(i, pw_programs_move(programs[i]));
        has_moved = has_moved || moved;
    }
    return has_moved;
}

static bool is_waiting_for_time(uint32_t num_nodes)
{
    bool is_waiting = pw_children_are_ending(&children) || children.num_begun < num_nodes;
    for (uint32_t i = 0; i < num_nodes; i++)
        is_waiting = is_waiting || pw_programs_are_waiting(programs[i]);
    return is_waiting;
}

static void begin_programs(const plan *wanted)
{
    static int64_t due_ns;
    while (children.num_begun < wanted->num_nodes) {
        uint32_t next = children.num_begun;
        int64_t now = pw_clock_wall_ns();
        if (next && children.programs[next - 1] && now < due_ns &&
            !pw_programs_have_listened(programs[next - 1]))
            return;
        due_ns = now + wanted->wait_ns;
        pw_children_begin(&children);
    }
}

static void run(int epoll, int signals, const plan *wanted)
{
    int64_t looked_ns = 0;
    uint32_t num_vain = 0;
    uint32_t num_nodes = wanted->num_nodes;
    for (bool is_running = true; is_running;) {
        struct epoll_event events[EVENTS];
        begin_programs(wanted);
        bool has_moved = move_nodes(num_nodes), has_signals = false;
        /* For ever only if nothing can happen before a program does something. */
        bool is_quiet = !has_moved && pw_stream_nodes_are_quiet(all);
        bool waits = is_waiting_for_time(num_nodes);
        num_vain = has_moved || is_quiet ? 0 : num_vain + 1;
        int limit_ms = is_quiet ? (waits ? LOOK_MS : -1) : num_vain > VAIN_TURNS ? 1 : 0;
        int num_events = epoll_wait(epoll, events, EVENTS, limit_ms);
        for (int i = 0; i < num_events; i++) {
            pw_endpoint *endpoint = events[i].data.ptr;
            if (!endpoint) has_signals = true;
            else
                check(pw_programs_node_of(endpoint), pw_programs_ready(endpoint, events[i].events));
        }
        bool is_late = waits && pw_clock_wall_ns() - looked_ns >= LOOK_NS;
        if (is_late) looked_ns = pw_clock_wall_ns();
        if (has_signals || is_late) is_running = pw_children_reap(&children, signals);
        for (uint32_t i = 0; i < num_nodes; i++) {
            if (is_late) check(i, pw_programs_look_late(programs[i], looked_ns));
            pw_programs_sweep(programs[i]);
        }
    }
}

/* ---- what the sockets did, told at the end */

/* A node's statistics, in the order of both forms. */
static void write_counts(FILE *file, const char *form, uint32_t i)
{
    pagewire_node *node = pw_stream_nodes_door(all, i);
    pw_streams_counters counted;
    uint64_t num_faults = 0;
    pw_streams_read_counters(pw_stream_nodes_streams(all, i), &counted);
    pagewire_read_counter(node, "translation_faults_destination", &num_faults);
    fprintf(file, form, (printed)counted.connections_made, (printed)counted.connections_taken,
            (printed)counted.refused, (printed)counted.resets, (printed)counted.writes,
            (printed)counted.messages, (printed)counted.bytes_out, (printed)counted.bytes_in,
            (printed)num_faults, (long long)pagewire_clock_ns(node));
}

/* A line a node on standard error. */
static void print_rows(uint32_t num_nodes)
{
    for (uint32_t i = 0; i < num_nodes; i++) {
        fprintf(stderr, "sockets, node %u: ", i);
        write_counts(stderr,
                     "%llu connections made, %llu taken, %llu refused, %llu reset; %llu RDMA "
                     "writes, %llu messages; %llu bytes out, %llu in; %llu page faults of arriving "
                     "blocks; %lld ns virtual\n",
                     i);
    }
}

/* The same as JSON, with members of what was asked for. */
static void write_rows(const plan *wanted)
{
    char *text;
    size_t num_bytes;
    FILE *file = open_memstream(&text, &num_bytes);
    if (!file) fail(wanted->json, strerror(errno));
    fprintf(file, "{\n  \"$schema\": \"urn:pagewire:schema:sockets:1\",\n  %s,\n  \"nodes\": [",
            wanted->facts);
    for (uint32_t i = 0; i < wanted->num_nodes; i++) {
        fprintf(file, "%s\n    {\"node\": %u, \"exit_code\": %d,\n", i ? "," : "", i,
                children.exit_codes[i]);
        write_counts(file,
                     "     \"connections\": {\"made\": %llu, \"taken\": %llu, \"refused\": %llu, "
                     "\"reset\": %llu},\n"
                     "     \"writes\": %llu, \"messages\": %llu, \"bytes_out\": %llu, "
                     "\"bytes_in\": %llu,\n"
                     "     \"page_faults\": %llu, \"virtual_ns\": %lld}",
                     i);
    }
    fprintf(file, "\n  ]\n}\n");
    int code = fclose(file) ? PW_ERR_HOST : pw_output_write(wanted->json, text, num_bytes);
    if (code < 0) fail(wanted->json, strerror(code == PW_ERR_HOST ? errno : ENAMETOOLONG));
    free(text);
}

int main(int num_arguments, char **arguments)
{
    plan wanted;
    int signals;
    if (num_arguments < 9) fail("arguments", "too few; pagewire sockets gives them");
    read_arguments(arguments + 1, &wanted);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll < 0 || pw_children_init(&children, &signals) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, signals, &event))
        fail("epoll or signals", strerror(errno));
    raise_limit();
    create_nodes(&wanted, epoll);
    prepare_programs(&wanted);
    run(epoll, signals, &wanted);
    print_rows(wanted.num_nodes);
    if (*wanted.json) write_rows(&wanted);
    return children.exit_codes[wanted.num_nodes - 1];
}
