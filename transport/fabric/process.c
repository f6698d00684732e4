/* The process's node: its number, its making and its end. And what a host in the same process,
 * Python, answers in place of what is built in. */
#include "transport/fabric/provider.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "native/status.h"
#include "node/node.h"
#include "node/node_trace.h"
#include "node/record/recorder.h"
#include "node/report/output_file.h"
#include "node/report/program_regions.h"
#include "node/report/report.h"
#include "transport/marks/rank.h"

/* In vain, before what is under way counts as nobody's: of wall time, without a sign of a peer; at
 * the end of all also turns, each of which may rest for some ms. */
#define PATIENCE_NS INT64_C(2000000000)
#define DRAIN_TURNS 2000

#define NODES_SPARE 512 /* processes that the program may spawn, each a new node */
#define EXPORTED __attribute__((visibility("default")))

/* Functions of a host in this process, by pagewire_fabric_set_hooks, before MPI starts. */
typedef struct {
    size_t struct_size;
    int (*decide)(void *context, uint64_t id);
    int (*schedule)(void *context, uint64_t num_bytes, uint32_t peer, int is_read, int64_t now_ns,
                    pw_scheduling *out);
    const pw_strategy_ops *strategy;
    void *strategy_self;
    int (*created)(pw_node *node); /* before anything is asked */
} pw_fi_host_hooks;

EXPORTED int pagewire_fabric_set_hooks(const pw_fi_host_hooks *hooks);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const pw_fabric_library *libfabric;
static pw_fi_process *process_here;
static pw_node_config config;
static enum { UNREAD, ABSENT, READ } config_state;
static pw_fi_host_hooks hooks; /* struct_size 0: none */

int pagewire_fabric_set_hooks(const pw_fi_host_hooks *given)
{
    if (given->struct_size != sizeof hooks) return PW_ERR_INVALID;
    hooks = *given;
    return PW_OK;
}

/* What the process manager says; 0 without one. */
static uint32_t rank_of_environment(void)
{
    return (uint32_t)strtoul(pagewire_rank_text(), NULL, 10);
}

/* As JSON has it; what does not fit is cut. */
static void escape(char *out, size_t room, const char *text)
{
    size_t length = 0;
    for (; *text && length + 7 < room; text++) {
        const unsigned char each = (unsigned char)*text;
        if (each == '"' || each == '\\') out[length++] = '\\';
        if (each >= ' ') out[length++] = (char)each;
        else length += (size_t)snprintf(out + length, 7, "\\u%04x", each);
    }
    out[length] = '\0';
}

/* A record for the launcher of why this rank fails. */
static void leave_note(const char *sentence)
{
    char path[PW_OUTPUT_PATH_BYTES], reason[2 * PW_CONFIG_REASON_BYTES],
        text[2 * PW_CONFIG_REASON_BYTES + 128];
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    const uint32_t rank = rank_of_environment();
    const bool is_spawned = pagewire_is_spawned(); /* its rank is not one of the launcher's */
    if (!directory || !*directory ||
        pw_output_path(path, "%s/%s%u.note", directory, is_spawned ? "spawned-" : "", rank) < 0)
        return;
    escape(reason, sizeof reason, sentence);
    const int num_bytes = snprintf(
        text, sizeof text, "{\"rank\": %u, \"time_ns\": %lld, \"code\": 1, \"reason\": \"%s: %s\"}",
        rank, (long long)pw_clock_wall_ns(), is_spawned ? "among those spawned failed" : "failed",
        reason);
    (void)pw_output_write(path, text, (size_t)num_bytes); /* the sentence has been printed */
}

void pw_fi_say(const char *sentence)
{
    fprintf(stderr, "pagewire: rank %u: error: %s\n", rank_of_environment(), sentence);
}

static void refuse(const char *format, va_list arguments)
{
    char sentence[PW_CONFIG_REASON_BYTES];
    vsnprintf(sentence, sizeof sentence, format, arguments);
    pw_fi_say(sentence);
    leave_note(sentence);
}

int pw_fi_refuse(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    refuse(format, arguments);
    va_end(arguments);
    return error;
}

void pw_fi_process_set_library(const pw_fabric_library *library) { libfabric = library; }

static void read_config(void)
{
    const char *path = getenv("PAGEWIRE_NODE_FILE");
    pw_sentence reason;
    config_state = ABSENT;
    if (!path || !*path) return;
    const uint32_t planned = pagewire_is_spawned() ? 0 : rank_of_environment();
    const int code = pw_node_config_read(path, planned, &config, &reason);
    if (code == PW_OK) {
        config_state = READ;
        return;
    }
    pw_fi_refuse(FI_EINVAL, "%s", reason.text);
}

bool pw_fi_is_configured(void)
{
    pthread_mutex_lock(&mutex);
    if (config_state == UNREAD) read_config();
    pthread_mutex_unlock(&mutex);
    return config_state == READ;
}

uint64_t pw_fi_inject_bytes(void)
{
    return pw_fi_is_configured() ? (uint64_t)config.settings.eager_limit_bytes : 0;
}

/* ---- which node it is */

/* A lock on a file that lasts as long as the process: a number is one process's at a time. A
 * spawned one takes a file that was not there: peers of a process that has ended still know its
 * number. 1: it is this one's now, 0: another's; negative: errno tells. */
static int lock_number(const char *directory, uint32_t node, bool is_spawned)
{
    char path[PW_OUTPUT_PATH_BYTES];
    if (pw_output_path(path, "%s/%u.node", directory, node) < 0) return PW_ERR_INVALID;
    const int descriptor =
        open(path, O_RDWR | O_CREAT | O_CLOEXEC | (is_spawned ? O_EXCL : 0), 0600);
    if (descriptor < 0) return errno == EEXIST ? 0 : PW_ERR_HOST;
    if (!flock(descriptor, LOCK_EX | LOCK_NB)) return 1;
    const int saved = errno;
    close(descriptor);
    errno = saved;
    return saved == EWOULDBLOCK ? 0 : PW_ERR_HOST;
}

/* The node that this process is: its rank, or, when it was spawned, a number from machine_nodes on
 * that no other process of the run has. FI_E*: a sentence has been printed. */
static int claim_node(uint32_t machine_nodes, uint32_t num_nodes, uint32_t *out)
{
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    uint32_t node = rank_of_environment();
    const bool is_spawned = pagewire_is_spawned();
    if (!directory || !*directory) {
        if (!is_spawned) {
            *out = node;
            return 0;
        }
        pw_fi_say("a spawned process needs PAGEWIRE_LAUNCH_DIR to find a node number that is free");
        return FI_EINVAL;
    }
    int code = is_spawned ? 0 : lock_number(directory, node, false);
    if (is_spawned)
        for (node = machine_nodes;
             node < num_nodes && !(code = lock_number(directory, node, true));)
            node++;
    if (code > 0) {
        *out = node;
        return 0;
    }
    if (code < 0)
        return pw_fi_refuse(FI_EIO, "'%s/%u.node' cannot be locked: %s", directory, node,
                            strerror(errno));
    if (is_spawned)
        return pw_fi_refuse(FI_EIO, "more than %u processes spawned: no node number is left",
                            num_nodes - machine_nodes);
    return pw_fi_refuse(
        FI_EIO,
        "another process is node %u of this run: give each run a folder of its own, and have the "
        "launcher number the ranks (as srun --mpi=pmi2, which srun alone does not)",
        node);
}

/* ---- making it */

static int open_wire(pw_fi_process *process, uint32_t node, uint32_t num_nodes)
{
    pw_sentence reason;
    pw_sentence_clear(&reason);
    const pw_wire_fabric_options options = {
        .mode = config.run.wire == PW_CARRIER_SHM   ? PW_WIRE_SHM
                : config.run.wire == PW_CARRIER_TCP ? PW_WIRE_TCP
                                                    : PW_WIRE_AUTO,
        .interface = config.run.wire_interface[0] ? config.run.wire_interface : NULL,
    };
    const int code =
        pw_wire_fabric_create(libfabric, node, num_nodes, &options, &process->wire, &reason);
    if (code < 0) return pw_fi_refuse(pw_fi_error_of(code), "%s", reason.text);
    process->card = pw_wire_card_open(pw_wire_fabric_address(process->wire));
    if (process->card >= 0) return 0;
    return pw_fi_refuse(
        FI_EIO, "no file in memory for this node's address: memfd_create is refused; allow it "
                "in the container's seccomp profile, or raise the limit of open files (ulimit -n)");
}

static int read_replay(int64_t **out, uint64_t *num_durations)
{
    char reason[PW_CONFIG_REASON_BYTES];
    if (config.run.compute != PW_COMPUTE_REPLAY) return 0;
    const int code = pw_durations_read(config.run.compute_replay, rank_of_environment(), out,
                                       num_durations, reason);
    return code < 0 ? pw_fi_refuse(pw_fi_error_of(code), "%s", reason) : 0;
}

static int ask_host(pw_fi_process *process)
{
    const pw_node_host host = {.context = process,
                               .decide = hooks.decide,
                               .schedule = hooks.schedule,
                               .message = pw_fi_message_arrived,
                               .finished = pw_fi_handle_finished};
    pw_node_set_host(process->node, &host);
    if (!hooks.created || hooks.created(process->node) >= 0) return 0;
    return pw_fi_refuse(FI_EINVAL,
                        "a class of the settings failed when it was to begin; see above");
}

static int create_node(pw_fi_process *process, uint32_t machine_nodes)
{
    int64_t *replay_ns = NULL;
    uint64_t num_replay = 0;
    pw_sentence reason;
    int error = read_replay(&replay_ns, &num_replay);
    if (error) return error;
    const pw_node_opening opening = {.strategy = hooks.strategy,
                                     .strategy_self = hooks.strategy_self,
                                     .replay_ns = replay_ns,
                                     .num_replay = num_replay,
                                     .num_started = machine_nodes,
                                     .pdid = PW_FI_PDID,
                                     .is_process = true};
    const int code = pw_node_open(&config, &opening, process->wire, &process->node, &reason);
    pw_durations_free(replay_ns);
    if (code < 0) return pw_fi_refuse(pw_fi_error_of(code), "%s", reason.text);
    process->ni = pw_node_ni(process->node);
    process->clock = pw_node_clock(process->node);
    pw_ni_set_machine_nodes(process->ni, machine_nodes);
    return 0;
}

static int set_frames(pw_fi_process *process)
{
    const uint64_t eager_bytes = (uint64_t)config.settings.eager_limit_bytes;
    const uint64_t atomic_bytes = 2 * PW_FI_ATOMIC_MAX_BYTES + 64;
    process->scratch = malloc(eager_bytes + 1);
    if (!process->scratch) return FI_ENOMEM;
    const pw_messages_host host = {
        .context = process, .matched = pw_fi_matched, .over = pw_fi_over};
    const int code = pw_messages_open(&process->messages, process->node, &host, eager_bytes,
                                      atomic_bytes, sizeof(pw_fi_operation));
    return code < 0 ? FI_EINVAL : 0;
}

static int start_trace(pw_fi_process *process)
{
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    if (!config.run.trace[0] || !directory || !*directory) return 0;
    char path[PW_OUTPUT_PATH_BYTES];
    int code =
        pw_output_path(path, "%s/%" PRIu32 ".trace", directory, pw_node_number(process->node));
    if (code == PW_OK) code = pw_node_trace_start(process->node, path);
    if (code == PW_OK) return 0;
    return pw_fi_refuse(pw_fi_error_of(code),
                        "run.trace: '%.600s/%" PRIu32 ".trace' was not written: %s", directory,
                        pw_node_number(process->node),
                        code == PW_ERR_HOST ? strerror(errno) : pw_status_text(code));
}

static int start_recording(pw_fi_process *process)
{
    if (!config.run.record[0]) return 0;
    char path[PW_OUTPUT_PATH_BYTES];
    const uint32_t rank = pw_node_number(process->node);
    int code = pw_output_path(path, "%s.%" PRIu32, config.run.record, rank);
    if (code == PW_OK)
        code = pw_node_record_start(process->node, path, process->messages.eager_limit_bytes);
    if (code == PW_OK) return 0;
    return pw_fi_refuse(pw_fi_error_of(code),
                        "run.record: '%.600s.%" PRIu32 "' was not written: %s", config.run.record,
                        rank, code == PW_ERR_HOST ? strerror(errno) : pw_status_text(code));
}

static void tell_forked(void)
{
    if (process_here) pw_node_forked(process_here->node);
}

static int check_config(void)
{
    pw_sentence reason;
    if (hooks.struct_size) return 0; /* Python answers */
    return pw_node_config_check_native(&config, &reason) < 0
               ? pw_fi_refuse(FI_EINVAL, "%s", reason.text)
               : 0;
}

static int create(pw_fi_process **out)
{
    uint32_t node = 0;
    const uint32_t machine_nodes = (uint32_t)config.run.num_nodes;
    const uint32_t num_nodes = machine_nodes + NODES_SPARE;
    int error = check_config();
    if (!error) error = claim_node(machine_nodes, num_nodes, &node);
    if (error) return error;
    pw_fi_process *process = calloc(1, sizeof *process);
    if (!process) return FI_ENOMEM;
    process->library = libfabric;
    process->config = config;
    error = open_wire(process, node, num_nodes);
    if (!error) error = create_node(process, machine_nodes);
    if (!error) error = set_frames(process);
    if (!error) error = start_trace(process);
    if (!error) error = start_recording(process);
    if (!error) error = ask_host(process);
    if (!error && pw_fi_attach_marks(process) < 0) error = FI_ENOMEM;
    if (error) {
        pw_messages_close(&process->messages);
        if (process->node) pw_node_destroy(process->node);
        else if (process->wire) process->wire->ops->close(process->wire);
        free(process);
        return error;
    }
    if (!process->has_marks) pw_node_set_without_marks(process->node);
    pthread_atfork(NULL, tell_forked, NULL);
    *out = process;
    return 0;
}

int pw_fi_process_get(pw_fi_process **out)
{
    if (!pw_fi_is_configured()) return FI_ENODATA;
    pthread_mutex_lock(&mutex);
    const int error = process_here ? 0 : create(&process_here);
    pthread_mutex_unlock(&mutex);
    if (!error) *out = process_here;
    return error;
}

/* NULL: it was not made. */
static pw_fi_process *process_if_made(void)
{
    pthread_mutex_lock(&mutex);
    pw_fi_process *process = process_here;
    pthread_mutex_unlock(&mutex);
    return process;
}

/* ---- its end */

void pw_fi_process_fail(pw_fi_process *process, const char *format, ...)
{
    if (process->has_failed) return;
    process->has_failed = true;
    va_list arguments;
    va_start(arguments, format);
    refuse(format, arguments);
    va_end(arguments);
}

static uint32_t num_regions(const pw_fi_process *process)
{
    uint32_t count = 0;
    for (const pw_fi_region *each = process->regions; each; each = each->next) count++;
    return count;
}

static bool is_quiet(const pw_fi_process *process, const pw_fi_endpoint *last)
{
    return pw_ni_num_pending(process->ni) <= num_regions(process) &&
           pw_node_num_leaving(process->node) == 0;
}

void pw_fi_turn_until(pw_fi_process *process, pw_fi_is_over *is_over,
                      const pw_fi_endpoint *endpoint, uint32_t vain_turns)
{
    int64_t moved_ns = pw_clock_wall_ns();
    for (uint32_t in_vain = 0;
         in_vain < vain_turns && pw_clock_wall_ns() - moved_ns < PATIENCE_NS &&
         !is_over(process, endpoint);
         in_vain++) {
        const int code = pw_node_turn(process->node, true);
        if (code < 0) return;
        if (code > 0) {
            in_vain = 0;
            moved_ns = pw_clock_wall_ns();
            pw_node_busy(process->node);
        } else pw_node_idle(process->node);
    }
}

static void leave_durations(pw_fi_process *process)
{
    char reason[PW_CONFIG_REASON_BYTES];
    uint64_t num_durations;
    const int64_t *recorded_ns = pw_clock_recorded(process->clock, &num_durations);
    if (!config.run.compute_record[0]) return;
    if (pw_durations_write(config.run.compute_record, pw_node_number(process->node), recorded_ns,
                           num_durations, reason) < 0)
        pw_fi_refuse(FI_EIO, "%s", reason);
}

void pw_fi_process_rest(pw_fi_process *process)
{
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    pw_fi_turn_until(process, is_quiet, NULL, DRAIN_TURNS);
    leave_durations(process);
    if (pw_node_record_finish(process->node) < 0)
        pw_fi_process_fail(process, "run.record: '%s.%u' was not written: %s", config.run.record,
                           pw_node_number(process->node), strerror(errno));
    if (pw_node_trace_finish(process->node) < 0)
        pw_fi_process_fail(process, "run.trace: '%s/%u.trace' was not written: %s", directory,
                           pw_node_number(process->node), strerror(errno));
    if (process->has_failed || !directory || !*directory) return;
    if (pw_node_report_leave(process->node, directory) < 0)
        pw_fi_process_fail(process, "'%s/%u.report' was not written: %s", directory,
                           pw_node_number(process->node), strerror(errno));
}

int pw_fi_error_of(int code)
{
    switch (code) {
    case PW_ERR_NOMEM: return FI_ENOMEM;
    case PW_ERR_FULL: return FI_EAGAIN;
    case PW_ERR_ADDRESS: return FI_EFAULT;
    case PW_ERR_PROTECTION: return FI_EACCES;
    case PW_ERR_INVALID:
    case PW_ERR_MALFORMED: return FI_EINVAL;
    default: return FI_EIO;
    }
}

/* ---- the program's regions, marked by a host in the same process: Python, which finds these
 * functions by name. Programs in C and Fortran have MPI_Pcontrol (calls.c). */

EXPORTED int64_t pagewire_fabric_region_enter(const char *name, uint64_t name_bytes);
EXPORTED void pagewire_fabric_region_leave(int64_t number);

/* As pw_node_region_enter; 0 as long as there is no node. */
int64_t pagewire_fabric_region_enter(const char *name, uint64_t name_bytes)
{
    pw_fi_process *process = process_if_made();
    return process ? pw_node_region_enter(process->node, name, name_bytes) : 0;
}

void pagewire_fabric_region_leave(int64_t number)
{
    pw_fi_process *process = process_if_made();
    if (process) pw_node_region_leave(process->node, number);
}
