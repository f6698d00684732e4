#include "node/clock.h"
#include "native/array.h"
#include "native/on_core.h"
#include "native/trace.h"
#include "node/record/recorder.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOP_NS 2000 /* between two tests of a loop, in Python too; wall time */
/* Where nobody tells whether the thread was away: it cannot have lost more than this. And of a
 * thread that was: a host that tells of a call late has not worked longer on it. */
#define UNSURE_NS 5000
/* A call by wall time, of a thread that was on its core: a hypervisor may have taken a part of it.
 * And until the next look at the CPU clock, as interrupts take some, too. */
#define CALL_LIMIT_NS 100000
#define LOOK_NS 1000000
#define FIRST_CAPACITY 1024
#define LONGEST_NS 4e18 /* 126 years: what an int64_t holds, with room for a sum */

static int64_t read_ns(clockid_t which)
{
    struct timespec time;
    clock_gettime(which, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t pw_clock_wall_ns(void) { return read_ns(CLOCK_MONOTONIC); }

static int64_t cpu_ns(const pw_clock *clock)
{
    return read_ns(clock->thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID);
}

static bool is_of_this_thread(const pw_clock *clock)
{
    return clock->thread == 0 || clock->thread == (uint64_t)pthread_self();
}

/* Compute begins now. */
static void start(pw_clock *clock)
{
    if (!is_of_this_thread(clock)) clock->thread = 0;
    clock->stint = pw_on_core_stint();
    clock->cpu_boundary_ns = cpu_ns(clock);
    clock->wall_boundary_ns = clock->cpu_looked_ns = pw_clock_wall_ns();
    clock->num_looks++;
}

/* May wall time stand for the CPU time of the passed_ns since the boundary, of which the limit
 * holds for a thread that was on its core? Then about now is the boundary. */
static bool passes_by_wall(pw_clock *clock, int64_t passed_ns, int64_t limit_ns)
{
    const uint64_t stint = clock->thread ? pw_on_core_stint() : 0;
    if (passed_ns >= (!stint ? UNSURE_NS : stint == clock->stint ? limit_ns : 0)) return false;
    clock->cpu_boundary_ns += passed_ns;
    clock->wall_boundary_ns += passed_ns;
    return true;
}

/* A second thread calls: from now on the process's time counts. Until now what the first one has
 * done, unless it has ended, and what this one has done since it was started. */
static int64_t share_ns(pw_clock *clock, int64_t passed_ns)
{
    struct timespec theirs = {0};
    int64_t other_ns = 0, own_ns = read_ns(CLOCK_THREAD_CPUTIME_ID);
    if (clock_gettime(clock->cpu_clock, &theirs) == 0)
        other_ns = pw_later(0, (int64_t)theirs.tv_sec * 1000000000 + theirs.tv_nsec -
                                   clock->cpu_boundary_ns);
    start(clock);
    return other_ns + (own_ns < passed_ns ? own_ns : passed_ns);
}

/* CPU time of the thread from the last boundary to wall_ns; about now is the next one. What has
 * passed since wall_ns counts by wall time as long as the thread was on its core all the time; else
 * nobody knows how much of it the thread had, and it counts up to unsure_ns. */
static int64_t elapsed_ns(pw_clock *clock, int64_t wall_ns, int64_t unsure_ns)
{
    int64_t passed_ns = wall_ns - clock->wall_boundary_ns;
    if (passed_ns < 0) return 0; /* another thread was in a call meanwhile */
    if (!is_of_this_thread(clock)) return share_ns(clock, passed_ns);
    if (passes_by_wall(clock, passed_ns, PW_CLOCK_SHORT_NS)) return passed_ns;
    const int64_t before_ns = clock->cpu_boundary_ns;
    const uint64_t stint = clock->thread ? clock->stint : 0;
    start(clock);
    int64_t since_ns = clock->wall_boundary_ns - wall_ns;
    const bool stayed = stint && stint == pw_on_core_stint();
    if (!stayed && since_ns > unsure_ns) since_ns = unsure_ns;
    return pw_later(0, clock->cpu_boundary_ns - before_ns - since_ns);
}

static int64_t scaled_ns(const pw_clock *clock, int64_t duration_ns)
{
    double scaled_ns = (double)duration_ns * clock->scale;
    return scaled_ns < LONGEST_NS ? (int64_t)scaled_ns : (int64_t)LONGEST_NS;
}

static int64_t replayed_ns(pw_clock *clock)
{
    if (clock->is_prepaid) {
        clock->is_prepaid = false;
        return 0;
    }
    if (clock->next_replay == clock->num_replay) {
        clock->replay_missing++;
        return 0;
    }
    return scaled_ns(clock, clock->replay_ns[clock->next_replay++]);
}

static void record(pw_clock *clock, int64_t duration_ns)
{
    if (clock->recording_error == PW_OK) /* without memory the run itself can go on */
        clock->recording_error = PW_ARRAY_MAKE_ROOM(clock->recorded_ns, clock->num_recorded,
                                                    clock->recorded_capacity, FIRST_CAPACITY);
    if (clock->recording_error == PW_OK) clock->recorded_ns[clock->num_recorded++] = duration_ns;
}

static bool looks_at_wall(const pw_clock *clock)
{
    return clock->compute == PW_COMPUTE_MEASURED || clock->is_recording;
}

/* The compute from the last leave to wall_ns. A run that records takes no other durations. */
static int64_t compute_ns(pw_clock *clock, int64_t wall_ns, int64_t unsure_ns)
{
    if (clock->is_recording) {
        int64_t duration_ns = elapsed_ns(clock, wall_ns, unsure_ns);
        clock->last_ns = duration_ns;
        record(clock, clock->vain_ns + duration_ns);
        clock->vain_ns = 0;
        return clock->compute == PW_COMPUTE_MEASURED ? scaled_ns(clock, duration_ns) : 0;
    }
    switch (clock->compute) {
    case PW_COMPUTE_MEASURED: return scaled_ns(clock, elapsed_ns(clock, wall_ns, unsure_ns));
    case PW_COMPUTE_REPLAY: return replayed_ns(clock);
    case PW_COMPUTE_MODEL: {
        int64_t declared_ns = clock->declared_ns;
        clock->declared_ns = 0;
        return scaled_ns(clock, declared_ns);
    }
    default: return 0;
    }
}

static int64_t wall_if_needed_ns(const pw_clock *clock)
{
    return looks_at_wall(clock) ? pw_clock_wall_ns() : 0;
}

static void end_call(pw_clock *clock)
{
    if (!looks_at_wall(clock)) return;
    int64_t wall_ns = pw_clock_wall_ns(), passed_ns = wall_ns - clock->wall_boundary_ns;
    const bool may_pass = is_of_this_thread(clock) && wall_ns - clock->cpu_looked_ns < LOOK_NS;
    if (!may_pass || !passes_by_wall(clock, passed_ns, CALL_LIMIT_NS)) start(clock);
}

static bool is_sound(const pw_clock_options *options)
{
    if (options->num_replay && !options->replay_ns) return false;
    for (uint64_t i = 0; i < options->num_replay; i++)
        if (options->replay_ns[i] < 0) return false;
    return options->call_ns >= 0 && options->poll_ns >= 0 && options->read_ns >= 0 &&
           options->compute >= PW_COMPUTE_MEASURED && options->compute <= PW_COMPUTE_NONE &&
           options->scale >= 0.0 && options->scale <= PW_COMPUTE_SCALE_MAX;
}

int pw_clock_init(pw_clock *clock, const pw_clock_options *options)
{
    if (!is_sound(options)) return PW_ERR_INVALID;
    *clock = (pw_clock){
        .call_ns = options->call_ns,
        .poll_ns = options->poll_ns,
        .read_ns = options->read_ns,
        .scale = options->scale,
        .compute = (int32_t)options->compute,
        .is_recording = options->is_recording != 0,
        .program_ran = true,
        .thread = (uint64_t)pthread_self(),
    };
    if (pthread_getcpuclockid(pthread_self(), &clock->cpu_clock)) return PW_ERR_HOST;
    if (options->num_replay) {
        clock->replay_ns = calloc(options->num_replay, sizeof *clock->replay_ns);
        if (!clock->replay_ns) return PW_ERR_NOMEM;
        memcpy(clock->replay_ns, options->replay_ns,
               options->num_replay * sizeof *clock->replay_ns);
        clock->num_replay = options->num_replay;
    }
    start(clock);
    return PW_OK;
}

void pw_clock_finish(pw_clock *clock)
{
    free(clock->replay_ns);
    free(clock->recorded_ns);
    clock->replay_ns = clock->recorded_ns = NULL;
    clock->num_replay = clock->next_replay = clock->num_recorded = clock->recorded_capacity = 0;
}

/* Is this call one of a loop around tests that find nothing? Work between them takes longer. */
static bool follows_at_once(pw_clock *clock)
{
    int64_t excused_ns = clock->excused_wall_ns;
    clock->excused_wall_ns = 0;
    return excused_ns && pw_clock_wall_ns() - excused_ns < LOOP_NS;
}

static void enter(pw_clock *clock, bool costs_call, int64_t wall_ns, int64_t unsure_ns)
{
    int64_t passed_ns = compute_ns(clock, wall_ns, unsure_ns);
    clock->is_polling = follows_at_once(clock);
    clock->passed_ns = passed_ns;
    clock->compute_ns += passed_ns;
    clock->entered_ns = clock->now_ns + passed_ns;
    clock->charged_ns = costs_call ? clock->call_ns : 0;
    clock->now_ns = clock->entered_ns + clock->charged_ns;
    clock->program_ran = true;
    clock->is_mpi_call = costs_call;
    if (clock->recorder) pw_recorder_enter(clock->recorder, passed_ns, costs_call);
}

void pw_clock_enter_at(pw_clock *clock, bool costs_call, int64_t wall_ns)
{
    if (++clock->depth == 1) enter(clock, costs_call, wall_ns, UNSURE_NS);
}

void pw_clock_enter(pw_clock *clock, bool costs_call)
{
    if (++clock->depth == 1) enter(clock, costs_call, wall_if_needed_ns(clock), 0);
}

void pw_clock_leave(pw_clock *clock)
{
    if (--clock->depth) return;
    int64_t passed_ns = clock->now_ns - clock->entered_ns;
    clock->mpi_ns += passed_ns;
    if (clock->trace && passed_ns)
        pw_trace_detail(clock->trace, clock->entered_ns, PW_TRACE_CALL, clock->trace->node,
                        (uint64_t)passed_ns, clock->is_mpi_call ? *clock->call : UINT32_MAX);
    if (clock->recorder) pw_recorder_leave(clock->recorder, clock->now_ns);
    end_call(clock);
}

int64_t pw_clock_read(pw_clock *clock)
{
    int64_t passed_ns = 0;
    if (clock->depth == 0) {
        passed_ns = compute_ns(clock, wall_if_needed_ns(clock), 0);
        clock->compute_ns += passed_ns;
        clock->now_ns += passed_ns;
        end_call(clock);
    }
    clock->now_ns += clock->read_ns;
    clock->told_ns = clock->now_ns;
    if (clock->recorder) pw_recorder_read(clock->recorder, passed_ns);
    return clock->now_ns;
}

void pw_clock_declare(pw_clock *clock, int64_t duration_ns) { clock->declared_ns += duration_ns; }

void pw_clock_sleep(pw_clock *clock, int64_t duration_ns)
{
    clock->now_ns += duration_ns;
    clock->entered_ns += duration_ns; /* not the library's time */
    clock->sleep_ns += duration_ns;
    if (clock->recorder) pw_recorder_slept(clock->recorder, duration_ns);
}

void pw_clock_completed(pw_clock *clock, int64_t complete_ns)
{
    if (clock->recorder)
        pw_recorder_completed(clock->recorder, clock->now_ns, complete_ns, clock->poll_ns);
    clock->now_ns = pw_later(clock->now_ns, complete_ns) + clock->poll_ns;
}

void pw_clock_pass(pw_clock *clock, int64_t duration_ns)
{
    if (clock->recorder && duration_ns) pw_recorder_passed(clock->recorder, duration_ns);
    clock->now_ns += duration_ns;
}

/* How many tests in vain a program makes is up to this host: a recording of compute has one
 * duration for all of them and the call that they lead to. */
static void found_nothing(pw_clock *clock)
{
    if (clock->depth != 1) return;
    clock->is_prepaid = clock->compute == PW_COMPUTE_REPLAY;
    if (clock->is_recording && clock->recording_error == PW_OK)
        clock->vain_ns = clock->recorded_ns[--clock->num_recorded];
}

void pw_clock_look_in_vain(pw_clock *clock, int64_t poll_ns)
{
    found_nothing(clock);
    clock->now_ns += poll_ns;
    if (!clock->recorder) return;
    if (clock->depth == 1)
        pw_recorder_looked(clock->recorder, clock->now_ns - clock->entered_ns, poll_ns);
    else pw_recorder_passed(clock->recorder, poll_ns);
}

static void take_back(pw_clock *clock, int64_t duration_ns)
{
    clock->now_ns = pw_later(clock->now_ns - duration_ns, clock->told_ns);
}

/* What the loop did between two tests goes, too. */
static void excuse_loop(pw_clock *clock)
{
    if (clock->is_recording && clock->recording_error == PW_OK) clock->vain_ns -= clock->last_ns;
    if (clock->compute != PW_COMPUTE_MEASURED) return; /* else it is not the loop's */
    take_back(clock, clock->passed_ns);
    clock->entered_ns -= clock->passed_ns;
    clock->compute_ns -= clock->passed_ns;
    clock->passed_ns = 0;
}

void pw_clock_excuse_call(pw_clock *clock)
{
    const int64_t before_ns = clock->now_ns, entered_ns = clock->entered_ns;
    found_nothing(clock);
    if (clock->depth != 1) return;
    take_back(clock, clock->charged_ns);
    clock->charged_ns = 0;
    clock->excused_wall_ns = pw_clock_wall_ns();
    if (clock->is_polling) excuse_loop(clock);
    if (clock->recorder)
        pw_recorder_excused(clock->recorder, clock->now_ns - entered_ns, before_ns - clock->now_ns);
}

const int64_t *pw_clock_recorded(const pw_clock *clock, uint64_t *num_durations)
{
    bool is_whole = clock->recording_error == PW_OK;
    *num_durations = is_whole ? clock->num_recorded : 0;
    return is_whole ? clock->recorded_ns : NULL;
}
