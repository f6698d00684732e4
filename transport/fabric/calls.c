#include "transport/fabric/provider.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/report/program_regions.h"
#include "transport/marks/marks.h"

/* The MPI call that a thread is in. */
typedef struct {
    const pagewire_marked_call *call; /* NULL: none is marked */
    bool is_open;                     /* the clock's call has begun */
    bool was_delivered;
    uint32_t num_vain_looks;
} thread_call;

/* A call that ought to return at once, such as MPI_Fetch_and_op of Open MPI, may wait within for an
 * answer: then it looks again and again. MPICH and Open MPI look a few times in one that does not.
 */
#define VAIN_LOOKS_OF_A_POST 100

/* initial-exec: reached without a call, though the library is loaded late; it is small. */
static _Thread_local thread_call here __attribute__((tls_model("initial-exec")));
static pw_fi_process *marked; /* whose clock the marks move; one for each process */
static bool has_finalized;    /* MPI_Finalize came back, and the network is open still */

static uint32_t kind_here(void) { return here.call ? here.call->kind : PAGEWIRE_CALL_WAITS; }

void pw_fi_enter(pw_fi_process *process)
{
    pw_node_lock(process->node);
    if (!here.is_open) pw_clock_enter(process->clock, false);
}

void pw_fi_leave(pw_fi_process *process)
{
    if (!here.is_open) pw_clock_leave(process->clock);
    pw_node_unlock(process->node);
}

bool pw_fi_is_waiting(void)
{
    return kind_here() == PAGEWIRE_CALL_WAITS || here.num_vain_looks > VAIN_LOOKS_OF_A_POST;
}

/* Waiting for what never comes: the launcher's other ranks must not wait for this one. */
static int watch(pw_fi_process *process)
{
    const int64_t limit_ns = process->config.run.watchdog_ns;
    if (limit_ns < 0) return 0;
    const int64_t silent_ns = pw_node_silent_ns(process->node);
    if (silent_ns < limit_ns) return 0;
    pw_fi_process_fail(
        process,
        "nothing has happened for %lld s in MPI_%s; a rank that does not answer, "
        "%sor a receive without its send? (run.watchdog sets the limit)",
        (long long)(silent_ns / 1000000000), here.call ? here.call->name : "Init or Finalize",
        pw_wire_fabric_has_far(process->wire) ? "a network between the hosts that is down, " : "");
    return -FI_EIO;
}

int pw_fi_turn(pw_fi_process *process, bool *moved)
{
    if (process->has_failed) return -FI_EIO;
    const int code = pw_node_turn(process->node, pw_fi_is_waiting());
    *moved = code > 0;
    if (code >= 0) return code ? 0 : watch(process);
    pw_fi_process_fail(process, "%s", pw_node_reason(process->node));
    return -FI_EIO;
}

void pw_fi_note_look(bool delivered)
{
    here.was_delivered |= delivered;
    here.num_vain_looks = delivered ? 0 : here.num_vain_looks + 1;
}

void pw_fi_count_bytes(pw_fi_process *process, uint64_t num_bytes)
{
    pw_call_counts *counts = pw_node_calls(process->node);
    if (here.call && process->call_idx && process->call_idx[here.call->number] >= 0)
        counts->call[process->call_idx[here.call->number]].bytes += num_bytes;
}

/* ---- the host of the marks */

static void begin(const pagewire_marked_call *call)
{
    pw_fi_process *process = marked;
    pw_call_counts *counts = pw_node_calls(process->node);
    pw_clock_enter(process->clock, true);
    here = (thread_call){.call = call, .is_open = true};
    int32_t *idx = &process->call_idx[call->number];
    if (*idx < 0) *idx = pw_call_index(counts, call->name);
    if (*idx >= 0) pw_call_begin(counts, (uint32_t)*idx);
}

/* A test that found nothing costs a look when there is something ahead, and else nothing: its time
 * would be this host's. */
static void end(void)
{
    pw_fi_process *process = marked;
    pw_clock *clock = process->clock;
    if (kind_here() == PAGEWIRE_CALL_TESTS && here.num_vain_looks && !here.was_delivered) {
        const bool is_future =
            process->has_future || pw_fi_timeline_first(&process->timeline) != NULL;
        pw_node_failed_test(process->node, is_future, clock->poll_ns);
    }
    process->has_future = false;
    pw_clock_leave(clock);
    here = (thread_call){0};
}

static void marks_enter(const pagewire_marked_call *call)
{
    pw_node_lock(marked->node);
    if (here.is_open) end(); /* left by a jump */
    begin(call);
    pw_node_unlock(marked->node);
}

static void marks_leave(const pagewire_marked_call *call)
{
    if (!here.is_open) return;
    pw_node_lock(marked->node);
    end();
    pw_node_unlock(marked->node);
    has_finalized |= !strcmp(call->name, "Finalize");
}

static int64_t marks_clock_read(void)
{
    pw_node_lock(marked->node);
    const int64_t now_ns = pw_clock_read(marked->clock);
    pw_node_unlock(marked->node);
    return now_ns;
}

static void marks_sleep(int64_t duration_ns)
{
    pw_node_lock(marked->node);
    pw_clock_enter(marked->clock, false);
    pw_clock_sleep(marked->clock, duration_ns);
    const int code = pw_node_turn(marked->node, false);
    if (code < 0) pw_fi_process_fail(marked, "%s", pw_node_reason(marked->node));
    pw_clock_leave(marked->clock);
    pw_node_unlock(marked->node);
}

static void marks_region_enter(const char *name, size_t num_bytes)
{
    if (pw_node_region_enter(marked->node, name, num_bytes) < 0)
        pw_fi_process_fail(marked, "region: %s", pw_node_reason(marked->node));
}

static void marks_region_leave(const char *name, size_t num_bytes)
{
    (void)pw_node_region_leave_named(marked->node, name, num_bytes);
}

static pagewire_marks_host host = {
    .struct_size = sizeof(pagewire_marks_host),
    .version = PAGEWIRE_MARKS_VERSION,
    .enter = marks_enter,
    .leave = marks_leave,
    .clock_read = marks_clock_read,
    .sleep = marks_sleep,
    .region_enter = marks_region_enter,
    .region_leave = marks_region_leave,
};

typedef int (*attach_function)(const pagewire_marks_host *);

static attach_function find_attach(void)
{
    attach_function attach = NULL;
    *(void **)&attach = dlsym(RTLD_DEFAULT, "pagewire_marks_attach");
    return attach;
}

/* The process ends. */
void pw_fi_detach_marks(void)
{
    if (has_finalized && marked->num_endpoints)
        pw_fi_say("MPI_Finalize failed; MPICH's does when there is a message that nobody received");
    const attach_function attach = find_attach();
    if (marked && marked->has_marks && attach) attach(NULL);
}

int pw_fi_attach_marks(pw_fi_process *process)
{
    const attach_function attach = find_attach();
    uint32_t (*num_calls)(void) = NULL;
    *(void **)&num_calls = dlsym(RTLD_DEFAULT, "pagewire_marks_num_calls");
    if (!attach || !num_calls) return PW_OK;
    const uint32_t count = num_calls();
    process->call_idx = malloc(count * sizeof *process->call_idx);
    if (!process->call_idx) return PW_ERR_NOMEM;
    for (uint32_t i = 0; i < count; i++) process->call_idx[i] = -1;
    host.has_virtual_wtime = process->config.run.wtime == PW_WTIME_VIRTUAL;
    host.has_virtual_clocks = process->config.run.clocks == PW_CLOCKS_VIRTUAL;
    marked = process;
    /* MPI_Init, or whatever made the node, is under way: it is told when it ends. */
    pw_clock_enter(process->clock, false);
    here = (thread_call){.is_open = true};
    process->has_marks = attach(&host) == 0;
    if (process->has_marks) return PW_OK;
    pw_clock_leave(process->clock);
    here = (thread_call){0};
    return PW_OK;
}
