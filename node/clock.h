/* The virtual clock of a rank's CPU and where its compute time comes from. enter and leave bracket
 * every call of the library; what lies between a leave and the next enter is compute: measured (CPU
 * time of the thread), replayed from an earlier run, declared by the program (model) or nothing.
 * Reading the CPU time is a system call. Where the kernel tells that the thread was on its core all
 * the time (native/on_core.h) wall time stands for it: below PW_CLOCK_SHORT_NS.
 * One thread at a time.
 *
 * It is the clock of one core: where several threads of a process call, what they compute adds up,
 * but for what one computes while another is in a call. */
#ifndef PW_NODE_CLOCK_H
#define PW_NODE_CLOCK_H
#include "native/types.h"

struct pw_trace;
struct pw_recorder;

/* cdef begin */
#define PW_COMPUTE_MEASURED 0
#define PW_COMPUTE_REPLAY 1
#define PW_COMPUTE_MODEL 2
#define PW_COMPUTE_NONE 3
#define PW_COMPUTE_SCALE_MAX 1000000
#define PW_CLOCK_SHORT_NS 20000 /* compute that wall time may stand for */

typedef struct {
    int64_t call_ns; /* what a call of the MPI library costs the CPU */
    int64_t poll_ns; /* a look for a completion */
    int64_t read_ns; /* a reading of the clock */
    int64_t compute; /* PW_COMPUTE_* */
    double scale;    /* of every duration, at most PW_COMPUTE_SCALE_MAX */
    /* replay: the durations, one for each outermost call that was not in vain; the clock's own copy
     */
    const int64_t *replay_ns;
    uint64_t num_replay;
    int64_t is_recording; /* keep the durations: pw_clock_recorded */
} pw_clock_options;

/* Read freely; now_ns and sleep_ns are changed by functions only, except for `completed`. */
typedef struct {
    int64_t now_ns;
    int64_t compute_ns, mpi_ns, sleep_ns;
    int64_t entered_ns;      /* clock when the outermost call began */
    int64_t charged_ns;      /* for that call as such */
    int64_t told_ns;         /* to whoever read it last: nothing is taken back from before */
    int64_t passed_ns;       /* compute before it */
    int64_t excused_wall_ns; /* when a call was excused that nothing has followed; 0: none was */
    int64_t declared_ns;
    int64_t call_ns, poll_ns, read_ns;
    int64_t cpu_boundary_ns, wall_boundary_ns;
    int64_t cpu_looked_ns; /* wall time of the last look at the CPU clock, which num_looks counts */
    uint64_t num_looks;
    uint64_t stint;    /* of the thread at the boundary: pw_on_core_stint */
    uint64_t thread;   /* whose CPU time counts; 0: that of the process */
    int32_t cpu_clock; /* by which other threads read it (clockid_t) */
    uint64_t next_replay, num_replay, replay_missing;
    int64_t *replay_ns, *recorded_ns;
    uint32_t num_recorded, recorded_capacity;
    int64_t last_ns,
        vain_ns; /* recording: before this call; before tests in vain, to be recorded */
    double scale;
    int32_t compute;
    int32_t depth;
    int32_t recording_error; /* PW_ERR_NOMEM: durations are missing */
    uint8_t is_recording;
    uint8_t program_ran; /* since the NI was last looked after, which takes this back */
    uint8_t is_polling;  /* the call follows an excused one at once: the program tests in a loop */
    uint8_t is_prepaid;  /* replay: a test in vain has taken the next call's duration */
    uint8_t is_mpi_call; /* the outermost one */
    struct pw_trace *trace;       /* NULL: calls leave no record */
    const uint32_t *call;         /* index of the MPI call under way, for the trace */
    struct pw_recorder *recorder; /* NULL: nothing is recorded */
} pw_clock;

/* The host's own clock (CLOCK_MONOTONIC). */
int64_t pw_clock_wall_ns(void);
/* PW_ERR_NOMEM, PW_ERR_INVALID (an option out of its range, a negative duration). */
int pw_clock_init(pw_clock *clock, const pw_clock_options *options);
void pw_clock_finish(pw_clock *clock);
/* At every public entry: the compute since the last leave has passed. costs_call: an MPI call, not
 * one of the RDMA library. */
void pw_clock_enter(pw_clock *clock, bool costs_call);
/* The same for a host that was entered at wall_ns already (CLOCK_MONOTONIC): what it has done since
 * is no compute, but for what it did for more than 5 us around a loss of its core. */
void pw_clock_enter_at(pw_clock *clock, bool costs_call, int64_t wall_ns);
void pw_clock_leave(pw_clock *clock);
/* Virtual time now. The reading costs read_ns: a program that waits on it ends. */
int64_t pw_clock_read(pw_clock *clock);
/* The program says what its work takes on the emulated node (PW_COMPUTE_MODEL). */
void pw_clock_declare(pw_clock *clock, int64_t duration_ns);
/* The program lets time pass, between enter and leave. */
void pw_clock_sleep(pw_clock *clock, int64_t duration_ns);
/* The CPU learns of a completion. */
void pw_clock_completed(pw_clock *clock, int64_t complete_ns);
/* The CPU works for so long, within a call. */
void pw_clock_pass(pw_clock *clock, int64_t duration_ns);
/* The outermost call is a test in vain: the look costs so much. */
void pw_clock_look_in_vain(pw_clock *clock, int64_t poll_ns);
/* The same, and what it looks for is not here yet, but may be in virtual time: the call as such
 * costs nothing, and neither does what a loop of such calls does between them. Else the time of a
 * program that tests in a loop would be this host's. */
void pw_clock_excuse_call(pw_clock *clock);
/* What was recorded, *num_durations of them; NULL when there is nothing, or no memory for it all
 * (recording_error). */
const int64_t *pw_clock_recorded(const pw_clock *clock, uint64_t *num_durations);
/* cdef end */
#endif
