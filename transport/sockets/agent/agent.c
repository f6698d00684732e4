/* pagewire-sockets [--set TEXT]... [--ring BYTES] [--wait MS] LIBRARY -- COMMAND [ARGS] [: COMMAND
 * [ARGS]]...
 *
 * Starts a command a node, whose stream sockets to addresses of the emulated network (10.77.0.0/16;
 * node i has 10.77.0.(i+1)) go over the nodes' RDMA. The nodes are all in this process, joined by
 * memory, moved by one thread; the programs have LIBRARY preloaded. A program begins when the one
 * before it listens or has ended, or after --wait. The run ends with the last command of the line:
 * the others get SIGTERM soon after. Statistics on standard error. */
#include "native/status.h"
#include "transport/sockets/agent/programs.h"
#include "transport/sockets/program_calls.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NODES_MAX 64
#define SETTINGS_MAX 64
#define SLOTS 1024
#define RING_BYTES 65536
#define WAIT_MS 2000
#define GRACE_MS 250        /* for servers that end with their last client */
#define NETWORK 0x0A4D0000u /* 10.77.0.0 */
#define EVENTS 64
#define EXIT_FAILURE_OWN 2
#define EXIT_SIGNALLED 128

typedef struct {
    pagewire_node *node;
    unimem *memory;
    pw_node_streams *streams;
    pw_programs *programs;
    pid_t child; /* 0: ended */
    int status;
    int gate; /* the program begins with a byte */
} emulated;

typedef struct {
    const char *settings[SETTINGS_MAX + 2];
    uint32_t ring_bytes, num_nodes;
    int64_t wait_ms;
    const char *library;
    char **commands[NODES_MAX];
} plan;

static emulated nodes[NODES_MAX];
static uint32_t num_begun;
static bool is_ending;
static int64_t end_ms; /* when the others are ended; 0: the last program still runs */

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "pagewire-sockets: error: %s: %s\n", what, why);
    exit(EXIT_FAILURE_OWN);
}

static void read_arguments(char **argument, plan *out)
{
    uint32_t num_settings = 0;
    /* The programs' own time is not the node's: they are other processes. */
    out->settings[num_settings++] = "run.compute=model";
    out->ring_bytes = RING_BYTES;
    out->wait_ms = WAIT_MS;
    for (; *argument && !strncmp(*argument, "--", 2) && (*argument)[2]; argument += 2) {
        if (!argument[1]) fail(*argument, "needs a value");
        if (!strcmp(*argument, "--ring"))
            out->ring_bytes = (uint32_t)strtoul(argument[1], NULL, 10);
        else if (!strcmp(*argument, "--wait"))
            out->wait_ms = (int64_t)strtoul(argument[1], NULL, 10);
        else if (strcmp(*argument, "--set") || num_settings > SETTINGS_MAX)
            fail(*argument, "allowed are --ring, --wait and up to 64 --set");
        else out->settings[num_settings++] = argument[1];
    }
    if (!*argument || !argument[1] || strcmp(argument[1], "--") || !argument[2])
        fail("arguments", "LIBRARY -- COMMAND [: COMMAND]... is needed");
    out->library = *argument;
    char **command = argument += 2;
    for (;; argument++) {
        if (*argument && strcmp(*argument, ":")) continue;
        bool is_last = !*argument;
        if (argument == command) fail("arguments", "a command is empty");
        if (out->num_nodes == NODES_MAX) fail("arguments", "there are at most 64 commands");
        *argument = NULL;
        out->commands[out->num_nodes++] = command;
        if (is_last) return;
        command = argument + 1;
    }
}

static void create_nodes(const plan *wanted, int epoll)
{
    pagewire_network *network;
    uint64_t arenas[NODES_MAX];
    char reason[512] = "";
    size_t arena_bytes = pw_streams_arena_bytes(SLOTS, wanted->ring_bytes);
    pagewire_options options;
    int code = pagewire_network_create(wanted->num_nodes, &network);
    if (code < 0) fail("network", pagewire_error_text(code));
    pagewire_options_default(&options);
    options.network = network;
    options.settings = wanted->settings;
    options.reason = reason;
    options.reason_bytes = sizeof reason;
    for (uint32_t i = 0; i < wanted->num_nodes; i++) {
        options.node = i;
        if (pagewire_node_create(&options, &nodes[i].node) < 0) fail("node", reason);
        if (unimem_create(nodes[i].node, NULL, &nodes[i].memory) < 0)
            fail("node", pagewire_reason(nodes[i].node));
        void *arena = mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == MAP_FAILED) fail("rings", strerror(errno));
        arenas[i] = (uint64_t)(uintptr_t)arena;
    }
    for (uint32_t i = 0; i < wanted->num_nodes; i++) {
        const pw_streams_options rings = {i, wanted->num_nodes, SLOTS, wanted->ring_bytes,
                                          (uint8_t *)(uintptr_t)arenas[i]};
        code = pw_node_streams_create(nodes[i].node, nodes[i].memory, &rings, arenas,
                                      &nodes[i].streams);
        if (code == PW_OK)
            code = pw_programs_create(i, nodes[i].streams, epoll, &nodes[i].programs);
        if (code < 0) fail("--ring or node", pw_status_text(code));
    }
}

/* Its process waits at the gate: to fork later would copy the nodes' pages, and change what faults.
 */
static void prepare_program(const plan *wanted, uint32_t node, const sigset_t *signals)
{
    char value[96], preload[4096], byte;
    int gate[2];
    if (pipe2(gate, O_CLOEXEC)) fail("pipe", strerror(errno));
    pid_t agent = getpid(), child = fork();
    if (child < 0) fail("fork", strerror(errno));
    nodes[node].child = child;
    nodes[node].gate = gate[1];
    close(gate[!child]);
    if (child) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != agent) _exit(EXIT_FAILURE_OWN);
    sigprocmask(SIG_UNBLOCK, signals, NULL);
    if (read(gate[0], &byte, 1) != 1) _exit(EXIT_FAILURE_OWN);
    const char *before = getenv("LD_PRELOAD");
    snprintf(value, sizeof value, "%u %u %u %u", (unsigned)agent, node, wanted->num_nodes, NETWORK);
    snprintf(preload, sizeof preload, "%s%s%s", wanted->library, before ? ":" : "",
             before ? before : "");
    setenv(PW_AGENT_VARIABLE, value, 1);
    setenv("LD_PRELOAD", preload, 1);
    execvp(wanted->commands[node][0], wanted->commands[node]);
    fprintf(stderr, "pagewire-sockets: error: %s: %s\n", wanted->commands[node][0],
            strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Let programs begin whose time has come. How long the next one has to wait at most, in ms; -1: all
 * have begun. */
static int begin_programs(const plan *wanted)
{
    static int64_t due_ms;
    while (num_begun < wanted->num_nodes) {
        const emulated *before = num_begun ? &nodes[num_begun - 1] : NULL;
        int64_t now = now_ms();
        if (before && before->child && now < due_ms && !pw_programs_has_listened(before->programs))
            return (int)(due_ms - now);
        due_ms = now + wanted->wait_ms;
        if (nodes[num_begun].child && write(nodes[num_begun].gate, "", 1) != 1)
            fail("pipe", strerror(errno));
        close(nodes[num_begun++].gate);
    }
    return -1;
}

static void end_others(uint32_t num_nodes, int number)
{
    is_ending = true;
    for (uint32_t i = 0; i < num_nodes; i++)
        if (nodes[i].child) kill(nodes[i].child, number);
}

/* The last program has ended: in ms, when the others are to be; -1: not now. */
static int end_programs(const plan *wanted)
{
    if (!end_ms || is_ending) return -1;
    int64_t rest_ms = end_ms - now_ms();
    if (rest_ms > 0) return (int)rest_ms;
    end_others(wanted->num_nodes, SIGTERM);
    return -1;
}

/* false: no program runs any more. */
static bool read_signals(int signals, const plan *wanted)
{
    uint32_t num_nodes = wanted->num_nodes;
    struct signalfd_siginfo info;
    int status;
    while (read(signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD) end_others(num_nodes, (int)info.ssi_signo);
    bool is_running = false;
    for (uint32_t i = 0; i < num_nodes; i++) {
        if (nodes[i].child && waitpid(nodes[i].child, &status, WNOHANG) == nodes[i].child) {
            nodes[i].child = 0;
            nodes[i].status =
                WIFSIGNALED(status) ? EXIT_SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
            if (nodes[i].status && !is_ending && i < num_nodes - 1)
                fprintf(stderr, "pagewire-sockets: node %u: %s has ended with exit code %d\n", i,
                        wanted->commands[i][0], nodes[i].status);
            if (i == num_nodes - 1) end_ms = now_ms() + GRACE_MS;
        }
        is_running = is_running || nodes[i].child;
    }
    return is_running;
}

static void check(uint32_t node, int code)
{
    if (code >= 0) return;
    end_others(NODES_MAX, SIGTERM);
    fprintf(stderr, "pagewire-sockets: node %u: %s\n", node, pagewire_reason(nodes[node].node));
    fail("node", pw_status_text(code));
}

static void run(int epoll, int signals, const plan *wanted)
{
    uint32_t num_nodes = wanted->num_nodes;
    for (bool is_running = true; is_running;) {
        struct epoll_event events[EVENTS];
        bool has_moved = false, has_writes = false;
        for (uint32_t i = 0; i < num_nodes; i++) {
            int moved = pw_node_streams_move(nodes[i].streams);
            check(i, moved);
            check(i, pw_programs_move(nodes[i].programs));
            has_moved = has_moved || moved;
            has_writes = has_writes || pw_node_streams_num_writes(nodes[i].streams);
        }
        int wait_ms = begin_programs(wanted), rest_ms = end_programs(wanted);
        if (rest_ms >= 0) wait_ms = rest_ms;
        if (has_moved) wait_ms = 0;
        else if (has_writes) wait_ms = 1;
        int num_events = epoll_wait(epoll, events, EVENTS, wait_ms);
        for (int i = 0; i < num_events; i++) {
            if (events[i].data.ptr)
                check(0, pw_programs_ready(events[i].data.ptr, events[i].events));
            else is_running = read_signals(signals, wanted);
        }
        for (uint32_t i = 0; i < num_nodes; i++) pw_programs_sweep(nodes[i].programs);
    }
}

static void report(uint32_t num_nodes)
{
    for (uint32_t i = 0; i < num_nodes; i++) {
        pw_streams_counters counted;
        uint64_t num_faults = 0;
        pw_streams_read_counters(pw_node_streams_of(nodes[i].streams), &counted);
        pagewire_read_counter(nodes[i].node, "translation_faults_destination", &num_faults);
        fprintf(stderr,
                "sockets, node %u: %llu connections made, %llu taken, %llu refused, %llu reset; "
                "%llu RDMA writes, %llu messages; %llu bytes out, %llu in; %llu page faults of "
                "arriving blocks; %lld ns virtual\n",
                i, (unsigned long long)counted.connections_made,
                (unsigned long long)counted.connections_taken, (unsigned long long)counted.refused,
                (unsigned long long)counted.resets, (unsigned long long)counted.writes,
                (unsigned long long)counted.messages, (unsigned long long)counted.bytes_out,
                (unsigned long long)counted.bytes_in, (unsigned long long)num_faults,
                (long long)pagewire_clock_ns(nodes[i].node));
    }
}

int main(int num_arguments, char **arguments)
{
    plan wanted = {.num_nodes = 0};
    sigset_t set;
    (void)num_arguments;
    read_arguments(arguments + 1, &wanted);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll < 0 || signals < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, signals, &event))
        fail("epoll", strerror(errno));
    create_nodes(&wanted, epoll);
    for (uint32_t i = 0; i < wanted.num_nodes; i++) prepare_program(&wanted, i, &set);
    run(epoll, signals, &wanted);
    report(wanted.num_nodes);
    return nodes[wanted.num_nodes - 1].status;
}
