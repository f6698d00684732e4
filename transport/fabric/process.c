#include "transport/fabric/process.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "native/status.h"
#include "transport/fabric/arrivals.h"
#include "transport/fabric/environment.h"
#include "transport/fabric/messages.h"
#include "transport/fabric/rma.h"
#include "transport/node/durations.h"
#include "transport/node/node_report.h"
#include "transport/node/node_trace.h"
#include "transport/node/output_file.h"

/* In vain, before what is under way counts as nobody's: so many turns, or so much wall time, as
 * each turn may rest for some ms. */
#define DRAIN_TURNS 2000
#define DRAIN_NS INT64_C(2000000000)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const pw_fabric_library *libfabric;
static pw_fi_process *process_here;
static pw_node_config config;
static enum { UNREAD, ABSENT, READ } config_state;

void pw_fi_say(const char *sentence)
{
    fprintf(stderr, "pagewire: rank %u: error: %s\n", pw_fi_rank_of_environment(), sentence);
}

/* A sentence on standard error and for the launcher; FI_E*. */
static int refuse(int error, const char *sentence)
{
    pw_fi_say(sentence);
    pw_fi_leave_note(sentence);
    return error;
}

void pw_fi_process_set_library(const pw_fabric_library *library) { libfabric = library; }

static void read_config(void)
{
    const char *path = getenv("PAGEWIRE_NODE_FILE");
    char reason[PW_CONFIG_REASON_BYTES];
    config_state = ABSENT;
    if (!path || !*path) return;
    const uint32_t planned = pw_fi_is_spawned() ? 0 : pw_fi_rank_of_environment();
    const int code = pw_node_config_read(path, planned, &config, reason);
    if (code == PW_OK) {
        config_state = READ;
        return;
    }
    refuse(FI_EINVAL, reason);
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
    if (code < 0) return refuse(pw_fi_error_of(code), reason.text);
    process->card = pw_wire_card_open(pw_wire_fabric_address(process->wire));
    if (process->card >= 0) return 0;
    process->wire->ops->close(process->wire);
    return refuse(
        FI_EIO, "no file in memory for this node's address: memfd_create is refused; allow it "
                "in the container's seccomp profile, or raise the limit of open files (ulimit -n)");
}

static int read_replay(int64_t **out, uint64_t *num_durations)
{
    char reason[PW_CONFIG_REASON_BYTES];
    if (config.run.compute != PW_COMPUTE_REPLAY) return 0;
    const int code = pw_durations_read(config.run.compute_replay, pw_fi_rank_of_environment(), out,
                                       num_durations, reason);
    return code < 0 ? refuse(pw_fi_error_of(code), reason) : 0;
}

static int plan_impairments(pw_fi_process *process)
{
    for (uint32_t site = 0; site < PW_IMPAIRMENT_SITES; site++)
        if (pw_ni_plan_impairment(process->ni, site, &config.impairments[site]) < 0)
            return refuse(FI_EINVAL, pw_impairment_refused(site, &config.impairments[site]));
    return 0;
}

static int ask_host(pw_fi_process *process)
{
    pw_fi_host_hooks hooks = {0};
    pw_fi_hooks_read(&hooks);
    const pw_node_host host = {.context = process,
                               .decide = hooks.decide,
                               .schedule = hooks.schedule,
                               .message = pw_fi_message_arrived,
                               .finished = pw_fi_handle_finished};
    pw_node_set_host(process->node, &host);
    if (!hooks.created || hooks.created(process->node) >= 0) return 0;
    return refuse(FI_EINVAL, "a class of the settings failed when it was to begin; see above");
}

static int create_node(pw_fi_process *process, uint32_t machine_nodes)
{
    pw_node_options options;
    int64_t *replay_ns = NULL;
    uint64_t num_replay = 0;
    const char *why = NULL;
    pw_fi_host_hooks hooks = {0};
    pw_fi_hooks_read(&hooks);
    int error = read_replay(&replay_ns, &num_replay);
    if (error) {
        process->wire->ops->close(process->wire);
        return error;
    }
    pw_node_config_options(&config, &options);
    options.clock.replay_ns = replay_ns;
    options.clock.num_replay = num_replay;
    options.strategy = hooks.strategy ? hooks.strategy : pw_strategy_find(config.run.memory);
    options.strategy_self = hooks.strategy_self;
    options.pdid = PW_FI_PDID;
    options.num_started = machine_nodes;
    const int code = pw_node_create(&options, process->wire, &process->node, &why);
    pw_durations_free(replay_ns);
    if (code < 0) {
        char sentence[PW_CONFIG_REASON_BYTES];
        snprintf(sentence, sizeof sentence, "node: %s: %s", why, pw_status_text(code));
        return refuse(pw_fi_error_of(code), sentence);
    }
    process->ni = pw_node_ni(process->node);
    process->clock = pw_node_clock(process->node);
    pw_ni_set_machine_nodes(process->ni, machine_nodes);
    return plan_impairments(process);
}

static int set_frames(pw_fi_process *process)
{
    const uint64_t eager_bytes = (uint64_t)config.settings.eager_limit_bytes;
    const uint64_t atomic_bytes = 2 * PW_FI_ATOMIC_MAX_BYTES + 64;
    if (eager_bytes > PW_FI_EAGER_MAX_BYTES) {
        char sentence[PW_CONFIG_REASON_BYTES];
        snprintf(sentence, sizeof sentence,
                 "run.eager_limit = %llu bytes: over the fabric at most %d bytes ride along with a "
                 "message; lower it",
                 (unsigned long long)eager_bytes, PW_FI_EAGER_MAX_BYTES);
        return refuse(FI_EINVAL, sentence);
    }
    process->eager_limit_bytes = eager_bytes;
    process->scratch = malloc(eager_bytes + 1);
    if (!process->scratch) return FI_ENOMEM;
    const uint64_t payload_bytes = eager_bytes > atomic_bytes ? eager_bytes : atomic_bytes;
    return pw_node_set_frame_bytes(process->node, PW_FI_FRAME_BYTES(payload_bytes)) < 0 ? FI_EINVAL
                                                                                        : 0;
}

static int start_trace(pw_fi_process *process)
{
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    if (!config.run.trace[0] || !directory || !*directory) return 0;
    char path[PW_OUTPUT_PATH_BYTES], sentence[PW_CONFIG_REASON_BYTES];
    int code =
        pw_output_path(path, "%s/%" PRIu32 ".trace", directory, pw_node_number(process->node));
    if (code == PW_OK) code = pw_node_trace_start(process->node, path);
    if (code == PW_OK) return 0;
    snprintf(sentence, sizeof sentence, "run.trace: '%.600s/%" PRIu32 ".trace' was not written: %s",
             directory, pw_node_number(process->node),
             code == PW_ERR_HOST ? strerror(errno) : pw_status_text(code));
    return refuse(pw_fi_error_of(code), sentence);
}

/* The emulated machine pages in steps of 4 KB; huge pages would hide faults behind the first. */
static int apply_host_settings(void)
{
    if (config.run.huge_pages == PW_HUGE_PAGES_NEVER && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
        return refuse(FI_EPERM, "run.huge_pages = 'never': the kernel refuses "
                                "prctl(PR_SET_THP_DISABLE); set it to 'host'");
    return 0;
}

static void tell_forked(void)
{
    if (process_here) pw_node_forked(process_here->node);
}

static int check_config(void)
{
    char reason[PW_CONFIG_REASON_BYTES];
    pw_fi_host_hooks hooks = {0};
    if (pw_fi_hooks_read(&hooks)) return 0; /* Python answers */
    return pw_node_config_check_native(&config, reason) < 0 ? refuse(FI_EINVAL, reason) : 0;
}

static int create(pw_fi_process **out)
{
    uint32_t node;
    const uint32_t machine_nodes = (uint32_t)config.run.num_nodes;
    const uint32_t num_nodes = machine_nodes + PW_FI_NODES_SPARE;
    int error = check_config();
    if (!error) error = apply_host_settings();
    if (!error) error = pw_fi_claim_node(machine_nodes, num_nodes, &node);
    if (error) return error;
    pw_fi_process *process = calloc(1, sizeof *process);
    if (!process) return FI_ENOMEM;
    process->library = libfabric;
    process->config = config;
    error = open_wire(process, node, num_nodes);
    if (!error) error = create_node(process, machine_nodes);
    if (!error) error = set_frames(process);
    if (!error) error = start_trace(process);
    if (!error) error = ask_host(process);
    if (!error && pw_fi_attach_marks(process) < 0) error = FI_ENOMEM;
    if (error) {
        pw_node_destroy(process->node);
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

pw_fi_process *pw_fi_process_if_made(void)
{
    pthread_mutex_lock(&mutex);
    pw_fi_process *process = process_here;
    pthread_mutex_unlock(&mutex);
    return process;
}

/* ---- its end */

void pw_fi_process_fail(pw_fi_process *process, const char *format, ...)
{
    char sentence[PW_CONFIG_REASON_BYTES];
    if (process->has_failed) return;
    process->has_failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    refuse(FI_EIO, sentence);
}

static uint32_t num_regions(const pw_fi_process *process)
{
    uint32_t count = 0;
    for (const pw_fi_region *each = process->regions; each; each = each->next) count++;
    return count;
}

static bool is_quiet(const pw_fi_process *process)
{
    return pw_ni_num_pending(process->ni) <= num_regions(process) &&
           process->wire->ops->num_pending(process->wire) == 0;
}

static void drain(pw_fi_process *process)
{
    int64_t moved_ns = pw_clock_wall_ns();
    for (int in_vain = 0;
         in_vain < DRAIN_TURNS && pw_clock_wall_ns() - moved_ns < DRAIN_NS && !is_quiet(process);
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
        refuse(FI_EIO, reason);
}

void pw_fi_process_rest(pw_fi_process *process)
{
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    drain(process);
    leave_durations(process);
    if (pw_node_trace_finish(process->node) < 0)
        pw_fi_process_fail(process, "run.trace: '%s/%u.trace' was not written: %s", directory,
                           pw_node_number(process->node), strerror(errno));
    if (process->has_failed || !directory || !*directory) return;
    if (pw_node_report_leave(process->node, directory) < 0) {
        char sentence[PW_CONFIG_REASON_BYTES];
        snprintf(sentence, sizeof sentence, "'%s/%u.report' was not written: %s", directory,
                 pw_node_number(process->node), strerror(errno));
        pw_fi_process_fail(process, "%s", sentence);
    }
}

/* ---- operations */

pw_fi_operation *pw_fi_take(pw_fi_process *process)
{
    pw_fi_operation *operation = process->free_operations;
    if (operation) process->free_operations = operation->next;
    else operation = malloc(sizeof *operation);
    if (operation) memset(operation, 0, offsetof(pw_fi_operation, small));
    return operation;
}

void pw_fi_give(pw_fi_process *process, pw_fi_operation *operation)
{
    free(operation->memory);
    operation->next = process->free_operations;
    process->free_operations = operation;
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
