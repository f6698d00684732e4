/* The CPU's clock with measured compute, and what is recorded; the other sources are compared with
 * a reference in tests/node/test_clock.py. */
#include "node/clock.h"
#include "native/on_core.h"
#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static int64_t cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void work_for(int64_t duration_ns)
{
    for (int64_t begin_ns = cpu_ns(); cpu_ns() - begin_ns < duration_ns;) {}
}

static void rest_for(int64_t duration_ns)
{
    const struct timespec pause = {.tv_nsec = duration_ns};
    nanosleep(&pause, NULL);
}

static pw_clock_options options_of(int64_t compute)
{
    return (pw_clock_options){
        .call_ns = 500, .poll_ns = 135, .read_ns = 100, .compute = compute, .scale = 1.0};
}

static void begin(pw_clock *clock, int64_t compute)
{
    const pw_clock_options options = options_of(compute);
    assert(pw_clock_init(clock, &options) == PW_OK && clock->program_ran);
}

static void call(pw_clock *clock)
{
    pw_clock_enter(clock, true);
    pw_clock_leave(clock);
}

static void test_measured_compute_is_the_threads_own_time_between_calls(void)
{
    pw_clock clock;
    pw_clock_options options = options_of(PW_COMPUTE_MEASURED);
    int64_t begin_ns = cpu_ns(), in_calls_ns = 0; /* the clock's own first look is after it */
    assert(pw_clock_init(&clock, &options) == PW_OK && clock.program_ran);
    for (int i = 0; i < 5; i++) {
        work_for(2000000);
        rest_for(3000000); /* is not the program's work */
        pw_clock_enter(&clock, true);
        int64_t entered_ns = cpu_ns();
        pw_clock_enter(&clock, true); /* of a call inside: costs nothing */
        work_for(1000000);            /* the library's */
        pw_clock_leave(&clock);
        in_calls_ns += cpu_ns() - entered_ns;
        pw_clock_leave(&clock);
    }
    int64_t all_ns = cpu_ns() - begin_ns;
    assert(clock.compute_ns >= 5 * 2000000 && clock.compute_ns <= all_ns - in_calls_ns);
    assert(clock.mpi_ns == 5 * 500 && clock.now_ns == clock.compute_ns + 5 * 500);
    pw_clock_finish(&clock);
}

/* Such intervals count by wall time: a short one that is not the thread's own is not seen. */
static void test_short_intervals_add_up_to_the_cpu_time(void)
{
    pw_clock clock;
    begin(&clock, PW_COMPUTE_MEASURED);
    int64_t begin_ns = cpu_ns();
    for (int i = 0; i < 20000; i++) {
        pw_clock_enter(&clock, false);
        pw_clock_leave(&clock);
    }
    work_for(100000); /* a long one puts both clocks together again */
    pw_clock_enter(&clock, false);
    assert(clock.now_ns == clock.compute_ns && clock.compute_ns >= 100000);
    assert(clock.compute_ns <= cpu_ns() - begin_ns);
    pw_clock_finish(&clock);
}

/* Compute of that long, in between calls that take as long: by wall time where the host tells that
 * the thread was on its core, but for a look now and then. */
static void test_a_thread_that_stays_on_its_core_is_asked_for_its_cpu_time_now_and_then(void)
{
    pw_clock clock;
    begin(&clock, PW_COMPUTE_MEASURED);
    const bool is_told = pw_on_core_stint() != 0;
    const int64_t begin_ns = cpu_ns();
    const uint64_t num_looks = clock.num_looks, stint = pw_on_core_stint();
    for (int i = 0; i < 1000; i++) {
        work_for(PW_CLOCK_SHORT_NS / 2);
        pw_clock_enter(&clock, false);
        work_for(PW_CLOCK_SHORT_NS / 2);
        pw_clock_leave(&clock);
    }
    const uint64_t num_stints = pw_on_core_stint() - stint; /* others took the core so often */
    const int64_t all_ns = cpu_ns() - begin_ns;
    assert(clock.compute_ns >= 1000 * PW_CLOCK_SHORT_NS / 2 - 100000);
    assert(clock.compute_ns <= all_ns - 1000 * PW_CLOCK_SHORT_NS / 2 + 100000);
    const uint64_t num_by_time =
        (uint64_t)all_ns / 1000000 + 1; /* and what is longer, for others */
    if (is_told) assert(clock.num_looks - num_looks <= 3 * (num_by_time + num_stints) + 100);
    pw_clock_finish(&clock);
}

static void test_what_a_short_rest_takes_is_no_compute(void)
{
    pw_clock clock;
    begin(&clock, PW_COMPUTE_MEASURED);
    uint64_t num_away = 0;
    for (int i = 0; i < 200; i++) {
        const uint64_t stint = pw_on_core_stint();
        rest_for(1); /* the thread is away from its core, for some us to 50 us, or is not */
        num_away += pw_on_core_stint() != stint;
        call(&clock);
    }
    assert(clock.num_looks >= num_away);
    pw_clock_finish(&clock);
}

static void *stint_of(void *stint)
{
    *(uint64_t *)stint = pw_on_core_stint();
    return NULL;
}

static void test_a_stint_ends_when_the_thread_leaves_its_core(void)
{
    pthread_t thread;
    uint64_t stint = pw_on_core_stint(), theirs;
    if (!stint) return; /* this host does not tell */
    for (int i = 0; i < 1000 && stint != pw_on_core_stint(); i++) stint = pw_on_core_stint();
    assert(stint == pw_on_core_stint()); /* a switch between two calls is rare */
    rest_for(1000);
    const uint64_t after = pw_on_core_stint();
    assert(after > stint);
    for (int i = 0; i < 2; i++) { /* of threads that may have the same pthread_t */
        assert(pthread_create(&thread, NULL, stint_of, &theirs) == 0);
        assert(pthread_join(thread, NULL) == 0);
        assert(theirs > after && theirs != stint);
        stint = theirs;
    }
}

static void test_what_a_host_did_before_it_told_of_a_call_is_no_compute(void)
{
    pw_clock clock;
    int64_t wall_ns, worked_ns;
    uint64_t stint;
    do { /* until the thread keeps its core */
        begin(&clock, PW_COMPUTE_MEASURED);
        stint = pw_on_core_stint();
        const int64_t begin_ns = cpu_ns();
        work_for(100000);
        wall_ns = pw_clock_wall_ns();
        worked_ns = cpu_ns() - begin_ns;
        work_for(400000);
        pw_clock_enter_at(&clock, true, wall_ns);
        pw_clock_leave(&clock);
    } while (stint != pw_on_core_stint());
    if (stint) assert(clock.compute_ns <= worked_ns + 100000);
    int64_t compute_ns = clock.compute_ns;
    pw_clock_enter_at(&clock, true, wall_ns); /* of another thread, which waited for the first */
    assert(clock.compute_ns == compute_ns);
    pw_clock_finish(&clock);
}

/* As a thread does that waits for another one's call, or that a neighbour takes the core from. */
static void test_a_core_lost_before_a_host_told_of_a_call_takes_nothing_from_compute(void)
{
    pw_clock clock;
    begin(&clock, PW_COMPUTE_MEASURED);
    work_for(1000000);
    const int64_t wall_ns = pw_clock_wall_ns();
    rest_for(3000000);
    pw_clock_enter_at(&clock, true, wall_ns);
    assert(clock.compute_ns >= 1000000 - 5000);
    pw_clock_leave(&clock);
    pw_clock_finish(&clock);
}

static void test_every_outermost_call_is_recorded(void)
{
    pw_clock clock;
    pw_clock_options options = options_of(PW_COMPUTE_MEASURED);
    uint64_t num_recorded;
    options.is_recording = 1;
    options.scale = 2.0;
    assert(pw_clock_init(&clock, &options) == PW_OK);
    int64_t sum_ns = 0;
    for (int i = 0; i < 3000; i++) {
        pw_clock_enter(&clock, true);
        call(&clock);
        pw_clock_leave(&clock);
    }
    pw_clock_read(&clock);
    const int64_t *recorded_ns = pw_clock_recorded(&clock, &num_recorded);
    assert(num_recorded == 3001 && clock.recording_error == PW_OK);
    for (uint64_t i = 0; i < num_recorded; i++) sum_ns += recorded_ns[i];
    assert(sum_ns > 0 && clock.compute_ns == 2 * sum_ns);
    clock.recording_error = PW_ERR_NOMEM;
    assert(pw_clock_recorded(&clock, &num_recorded) == NULL && num_recorded == 0);
    pw_clock_finish(&clock);
}

typedef struct {
    pw_clock *clock;
    int64_t before_ns; /* CPU time before the first call */
} second_thread;

static void *call_from_a_second_thread(void *argument)
{
    const second_thread *self = argument;
    work_for(self->before_ns);
    call(self->clock);
    work_for(4000000);
    return NULL;
}

/* Whoever calls next finds what both have worked, and no thread's own CPU time is taken for the
 * other's. */
static void test_threads_that_take_turns_add_up(void)
{
    pw_clock clock;
    begin(&clock, PW_COMPUTE_MEASURED);
    const int64_t slack_ns = 3500000; /* for starting threads, and a neighbour's tick */
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        second_thread other = {&clock, 6000000};
        int64_t before_ns = clock.compute_ns;
        work_for(5000000);
        assert(pthread_create(&thread, NULL, call_from_a_second_thread, &other) == 0);
        assert(pthread_join(thread, NULL) == 0);
        assert(llabs(clock.compute_ns - before_ns - 11000000) <= slack_ns);
        before_ns = clock.compute_ns;
        call(&clock);
        assert(llabs(clock.compute_ns - before_ns - 4000000) <= slack_ns);
    }
    pw_clock_finish(&clock);
}

static void *leave(void *clock)
{
    pw_clock_leave(clock);
    return NULL;
}

static void test_the_last_to_leave_may_be_another_thread(void)
{
    pw_clock clock;
    pw_clock_options options = options_of(PW_COMPUTE_MEASURED);
    pthread_t thread;
    assert(pw_clock_init(&clock, &options) == PW_OK);
    work_for(30000000); /* more than the other thread ever does */
    pw_clock_enter(&clock, true);
    pw_clock_enter(&clock, true); /* the other one's */
    pw_clock_leave(&clock);
    assert(pthread_create(&thread, NULL, leave, &clock) == 0);
    assert(pthread_join(thread, NULL) == 0);
    int64_t before_ns = clock.compute_ns;
    work_for(1000000);
    pw_clock_enter(&clock, true);
    assert(clock.compute_ns - before_ns < 10000000);
    pw_clock_leave(&clock);
    pw_clock_finish(&clock);
}

/* What a test that finds nothing costs, called work_ns after the one before. */
static int64_t failed_test_ns(pw_clock *clock, int64_t work_ns)
{
    const int64_t before_ns = clock->now_ns;
    if (work_ns) work_for(work_ns);
    pw_clock_enter(clock, true);
    pw_clock_excuse_call(clock);
    pw_clock_leave(clock);
    return clock->now_ns - before_ns;
}

static void test_a_loop_around_tests_in_vain_costs_nothing_and_work_between_them_does(void)
{
    pw_clock clock;
    begin(&clock, PW_COMPUTE_MEASURED);
    failed_test_ns(&clock, 0);
    const int64_t compute_ns = clock.compute_ns;
    int num_free = 0;
    for (int i = 0; i < 10000; i++) num_free += failed_test_ns(&clock, 0) == 0;
    assert(num_free > 9000); /* the host interrupts some, for longer than a loop takes */
    assert(num_free < 10000 || clock.compute_ns == compute_ns);
    assert(failed_test_ns(&clock, 50000) >= 50000);
    assert(clock.mpi_ns == 0);
    pw_clock_finish(&clock);
}

/* Another thread reads the clock during a test in vain, which then costs nothing. */
static void test_what_was_told_during_a_call_is_not_taken_back(void)
{
    const int64_t computes[] = {PW_COMPUTE_MEASURED, PW_COMPUTE_NONE};
    for (uint32_t i = 0; i < 2; i++) {
        const pw_clock_options options = {
            .call_ns = 400, .read_ns = 10, .compute = computes[i], .scale = 1};
        pw_clock clock;
        assert(pw_clock_init(&clock, &options) == PW_OK);
        for (int turn = 0; turn < 3; turn++) { /* from the second on it is a loop */
            pw_clock_enter(&clock, true);
            const int64_t told_ns = pw_clock_read(&clock);
            pw_clock_excuse_call(&clock);
            pw_clock_leave(&clock);
            assert(pw_clock_read(&clock) >= told_ns);
        }
        pw_clock_finish(&clock);
    }
}

/* A call after num_vain tests that find nothing. */
static void call_after(pw_clock *clock, int num_vain, int64_t work_ns)
{
    for (int i = 0; i < num_vain; i++) {
        work_for(work_ns);
        pw_clock_enter(clock, true);
        if (i % 2) pw_clock_excuse_call(clock);
        else pw_clock_look_in_vain(clock, 0);
        pw_clock_leave(clock);
    }
    work_for(work_ns);
    call(clock);
}

static void test_tests_in_vain_and_the_call_they_lead_to_have_one_duration(void)
{
    pw_clock clock;
    pw_clock_options options = options_of(PW_COMPUTE_MEASURED);
    options.is_recording = true;
    assert(pw_clock_init(&clock, &options) == PW_OK);
    call_after(&clock, 3, 100000);
    call_after(&clock, 0, 100000);
    uint64_t num_durations;
    const int64_t *durations_ns = pw_clock_recorded(&clock, &num_durations);
    assert(num_durations == 2);
    assert(durations_ns[0] + durations_ns[1] == clock.compute_ns);
    assert(durations_ns[0] >= 400000 && durations_ns[1] >= 100000);
    pw_clock_finish(&clock);

    const int64_t recorded_ns[] = {4000, 1000, 500};
    options = options_of(PW_COMPUTE_REPLAY);
    options.replay_ns = recorded_ns;
    options.num_replay = 3;
    for (int num_vain = 0; num_vain < 4; num_vain++) { /* as many as this host happens to make */
        assert(pw_clock_init(&clock, &options) == PW_OK);
        call_after(&clock, num_vain, 0);
        assert(clock.compute_ns == 4000);
        call_after(&clock, 3 - num_vain, 0);
        assert(clock.compute_ns == 5000);
        call_after(&clock, 0, 0);
        assert(clock.compute_ns == 5500 && clock.next_replay == 3 && clock.replay_missing == 0);
        pw_clock_finish(&clock);
    }
}

static void test_options_out_of_range_are_refused(void)
{
    const int64_t negative_ns[] = {-1};
    const pw_clock_options refused[] = {
        {.compute = PW_COMPUTE_NONE + 1, .scale = 1},
        {.compute = PW_COMPUTE_NONE, .scale = NAN},
        {.compute = PW_COMPUTE_NONE, .scale = 2e6},
        {.compute = PW_COMPUTE_NONE, .scale = 1, .poll_ns = -1},
        {.compute = PW_COMPUTE_REPLAY, .scale = 1, .num_replay = 1},
        {.compute = PW_COMPUTE_REPLAY, .scale = 1, .num_replay = 1, .replay_ns = negative_ns},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        pw_clock clock;
        assert(pw_clock_init(&clock, &refused[i]) == PW_ERR_INVALID);
    }
}

int main(void)
{
    test_measured_compute_is_the_threads_own_time_between_calls();
    test_short_intervals_add_up_to_the_cpu_time();
    test_a_thread_that_stays_on_its_core_is_asked_for_its_cpu_time_now_and_then();
    test_what_a_short_rest_takes_is_no_compute();
    test_a_stint_ends_when_the_thread_leaves_its_core();
    test_what_a_host_did_before_it_told_of_a_call_is_no_compute();
    test_a_core_lost_before_a_host_told_of_a_call_takes_nothing_from_compute();
    test_every_outermost_call_is_recorded();
    test_threads_that_take_turns_add_up();
    test_the_last_to_leave_may_be_another_thread();
    test_a_loop_around_tests_in_vain_costs_nothing_and_work_between_them_does();
    test_what_was_told_during_a_call_is_not_taken_back();
    test_tests_in_vain_and_the_call_they_lead_to_have_one_duration();
    test_options_out_of_range_are_refused();
    return 0;
}
