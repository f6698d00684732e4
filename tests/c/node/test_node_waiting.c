/* How a node waits, and how threads share it. */
#include "tests/c/node/node_pair.h"
#include "node/wires/bell.h"
#include <pthread.h>
#include <sched.h>

static pw_node_counters counters_of(const pw_node *node)
{
    pw_node_counters counters;
    pw_node_read_counters(node, &counters);
    return counters;
}

static void test_a_loop_in_vain_yields_then_sleeps_and_is_silent(joined *all)
{
    pw_node *node = all->nodes[0];
    pw_node_lock(node);
    for (int i = 0; i < 8; i++) pw_node_idle(node);
    assert(counters_of(node).yields == 0 && pw_node_silent_ns(node) == 0);
    pw_node_idle(node);
    assert(counters_of(node).yields == 1 && pw_node_silent_ns(node) > 0);
    assert(pw_node_silent_since_ns(node) > 0);
    while (counters_of(node).sleeps == 0) pw_node_idle(node);
    assert(counters_of(node).yields > 1000);
    uint64_t yields = counters_of(node).yields;
    pw_node_idle(node);
    assert(counters_of(node).yields == yields && counters_of(node).sleeps == 2);
    pw_node_busy(node);
    assert(pw_node_silent_ns(node) == 0 && pw_node_silent_since_ns(node) == 0);
    pw_node_idle(node);
    assert(counters_of(node).yields == yields && counters_of(node).sleeps == 2);
    pw_node_unlock(node);
}

/* A program that tests in a loop of its own has work to do: it yields, as it always did, but no
 * test of it sleeps. */
static void test_a_program_that_tests_does_not_sleep(joined *all)
{
    pw_node *node = all->nodes[0];
    pw_clock *clock = pw_node_clock(node);
    for (int i = 0; i < 5000; i++) {
        pw_clock_enter(clock, true);
        pw_node_lock(node);
        assert(pw_node_turn(node, false) == 0);
        pw_node_idle(node);
        pw_node_unlock(node);
        pw_clock_leave(clock);
    }
    assert(counters_of(node).sleeps == 0 && counters_of(node).yields == 5000 - 8);
    assert(pw_node_silent_ns(node) == 0);
}

typedef struct {
    pw_node *node;
    uint64_t *shared; /* by whoever has the lock */
    bool is_busy;
} shared_loop;

#define ROUNDS 2000

static void pass_turn(pw_node *node, bool is_busy)
{
    if (is_busy) pw_node_busy(node);
    else pw_node_idle(node);
}

static void *loop(void *argument)
{
    const shared_loop *self = argument;
    pw_node_lock(self->node);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = *self->shared;
        for (volatile int work = 0; work < 10; work++) {}
        *self->shared = before + 1;
        pass_turn(self->node, self->is_busy);
    }
    pw_node_unlock(self->node);
    return NULL;
}

static void test_threads_that_wait_take_turns(bool is_busy)
{
    joined all;
    begin(&all, 1);
    uint64_t shared = 0, mine = 0;
    shared_loop other = {all.nodes[0], &shared, is_busy};
    pthread_t thread;
    pw_node_lock(all.nodes[0]);
    assert(pthread_create(&thread, NULL, loop, &other) == 0);
    while (shared < ROUNDS) { /* with the lock: it runs only when this loop lets it */
        mine++;
        pass_turn(all.nodes[0], is_busy);
    }
    pw_node_unlock(all.nodes[0]);
    assert(pthread_join(thread, NULL) == 0);
    assert(shared == ROUNDS && mine > 0);
    end(&all);
}

static void *wait_for_lock(void *argument)
{
    pw_ticket_lock_take(argument);
    pw_ticket_lock_give(argument);
    return NULL;
}

static void test_a_lock_is_wanted_while_somebody_waits(void)
{
    pw_ticket_lock lock = {0};
    pthread_t thread;
    pw_ticket_lock_take(&lock);
    assert(!pw_ticket_lock_is_wanted(&lock));
    assert(pthread_create(&thread, NULL, wait_for_lock, &lock) == 0);
    while (!pw_ticket_lock_is_wanted(&lock)) {}
    pw_ticket_lock_give(&lock);
    assert(pthread_join(thread, NULL) == 0);
    pw_ticket_lock_take(&lock);
    assert(!pw_ticket_lock_is_wanted(&lock));
}

/* A joined wire with a bell, on a host with as many nodes as the test wants. */
static const pw_wire_ops *joined_ops;
static uint32_t bell, num_near;
static bool rings = true;
#define LIMIT_NS INT64_C(20000000000)
#define SHORT_NS 1000000
static int64_t rest_ns = LIMIT_NS;

static bool rest_at_bell(const pw_wire *wire, pw_wire_rest *out)
{
    (void)wire;
    *out = (pw_wire_rest){rings ? &bell : NULL, PW_BELL_ARRIVAL, num_near, rest_ns};
    return true;
}

static void turn(pw_node *node, bool waiting)
{
    pw_node_lock(node);
    assert(pw_node_turn(node, waiting) == 0);
    pw_node_unlock(node);
}

/* For a wait. */
static void begin_with_bell(joined *all, pw_wire_ops *ops)
{
    begin(all, 1);
    joined_ops = all->wires[0]->ops;
    *ops = *joined_ops;
    ops->rest = rest_at_bell;
    all->wires[0]->ops = ops;
    turn(all->nodes[0], true);
}

static void *ring_when_somebody_rests(void *argument)
{
    pw_node *node = argument;
    while (!pw_bell_is_set(&bell, PW_BELL_ARRIVAL)) sched_yield();
    const int64_t begun_ns = pw_clock_wall_ns();
    while (counters_of(node).sleeps == 0 && pw_clock_wall_ns() - begun_ns < LIMIT_NS) sched_yield();
    pw_bell_ring(&bell, PW_BELL_ARRIVAL);
    return NULL;
}

static uint64_t idle_until_woken(pw_node *node)
{
    pthread_t thread;
    uint64_t turns = 0;
    const int64_t begun_ns = pw_clock_wall_ns();
    pw_node_lock(node);
    assert(pthread_create(&thread, NULL, ring_when_somebody_rests, node) == 0);
    for (; counters_of(node).sleeps == 0; turns++) pw_node_idle(node);
    pw_node_unlock(node);
    assert(pthread_join(thread, NULL) == 0);
    assert(pw_clock_wall_ns() - begun_ns < LIMIT_NS && !pw_bell_is_set(&bell, PW_BELL_ARRIVAL));
    return turns;
}

static void test_a_crowded_node_rests_soon_and_is_woken(void)
{
    joined all;
    pw_wire_ops ops;
    num_near = UINT32_MAX;
    begin_with_bell(&all, &ops);
    assert(idle_until_woken(all.nodes[0]) < 50);
    assert(counters_of(all.nodes[0]).yields == 0 && pw_node_silent_ns(all.nodes[0]) > 0);
    end(&all);
}

/* It may have something else to do, of which nobody rings. */
static void test_a_crowded_program_that_tests_rests_late_and_for_a_short_time(void)
{
    joined all;
    pw_wire_ops ops;
    num_near = UINT32_MAX;
    begin_with_bell(&all, &ops);
    pw_node *node = all.nodes[0];
    turn(node, false);
    pw_node_lock(node);
    int64_t silent_ns = 0;
    for (; counters_of(node).sleeps == 0; pw_node_idle(node)) silent_ns = pw_node_silent_ns(node);
    assert(silent_ns >= 400000 && counters_of(node).yields > 0);
    assert(pw_node_silent_ns(node) < LIMIT_NS / 2);
    pw_node_unlock(node);
    end(&all);
}

static void test_a_node_with_a_core_of_its_own_yields_for_a_time_and_rests(void)
{
    joined all;
    pw_wire_ops ops;
    num_near = 0;
    begin_with_bell(&all, &ops);
    do idle_until_woken(all.nodes[0]); /* a host that stops this process may have it rest at once */
    while (counters_of(all.nodes[0]).yields == 0);
    assert(pw_node_silent_ns(all.nodes[0]) > 200000);
    end(&all);
}

/* Until the wait yields, and for how long it has looked on then. */
static int64_t look_on_ns(pw_node *node)
{
    const pw_node_counters before = counters_of(node);
    pw_node_busy(node);
    while (counters_of(node).yields == before.yields && counters_of(node).sleeps == before.sleeps)
        pw_node_idle(node);
    return pw_node_silent_ns(node);
}

static void test_a_node_with_a_core_of_its_own_looks_on_before_it_yields(void)
{
    joined all;
    pw_wire_ops ops;
    num_near = 0;
    for (int with_bell = 0; with_bell < 2; with_bell++) {
        rings = with_bell;
        begin_with_bell(&all, &ops);
        pw_node_lock(all.nodes[0]);
        assert(look_on_ns(all.nodes[0]) > 50000);
        pw_node_unlock(all.nodes[0]);
        end(&all);
    }
}

static void test_a_crowded_node_that_nobody_wakes_yields_at_once(void)
{
    joined all;
    pw_wire_ops ops;
    rings = false;
    num_near = UINT32_MAX;
    begin_with_bell(&all, &ops);
    pw_node_lock(all.nodes[0]);
    for (int i = 0; i < 9; i++) pw_node_idle(all.nodes[0]);
    assert(counters_of(all.nodes[0]).yields == 1);
    pw_node_unlock(all.nodes[0]);
    rings = true;
    end(&all);
}

static void *work(void *stop)
{
    while (!atomic_load((atomic_bool *)stop)) {}
    return NULL;
}

/* Another thread of the program takes the only core, in slices of ms. A slice amid a wait has it
 * rest, and nobody rings. */
static void test_a_node_whose_core_others_want_yields_at_once(void)
{
    joined all;
    pw_wire_ops ops;
    cpu_set_t cores, one;
    pthread_t thread;
    atomic_bool stop = false;
    int num_quick = 0;
    num_near = 0;
    rest_ns = SHORT_NS;
    begin_with_bell(&all, &ops);
    assert(sched_getaffinity(0, sizeof cores, &cores) == 0);
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) {
        assert(pthread_create(&thread, NULL, work, &stop) == 0);
        pw_node_lock(all.nodes[0]);
        const int64_t begun_ns = pw_clock_wall_ns();
        while (num_quick < 10 && pw_clock_wall_ns() - begun_ns < LIMIT_NS) {
            pw_node_busy(all.nodes[0]);
            const uint64_t yields = counters_of(all.nodes[0]).yields;
            for (int i = 0; i < 9; i++) pw_node_idle(all.nodes[0]);
            if (counters_of(all.nodes[0]).yields > yields) num_quick++;
            else look_on_ns(all.nodes[0]); /* for a moment nobody wanted the core */
        }
        pw_node_unlock(all.nodes[0]);
        atomic_store(&stop, true);
        assert(pthread_join(thread, NULL) == 0 && num_quick == 10);
        assert(sched_setaffinity(0, sizeof cores, &cores) == 0);
    }
    rest_ns = LIMIT_NS;
    end(&all);
}

static void test_what_happens_takes_the_announcement_back(void)
{
    joined all;
    pw_wire_ops ops;
    num_near = UINT32_MAX;
    begin_with_bell(&all, &ops);
    pw_node_lock(all.nodes[0]);
    while (!pw_bell_is_set(&bell, PW_BELL_ARRIVAL)) pw_node_idle(all.nodes[0]);
    assert(counters_of(all.nodes[0]).sleeps == 0);
    pw_node_busy(all.nodes[0]);
    assert(!pw_bell_is_set(&bell, PW_BELL_ARRIVAL));
    pw_node_unlock(all.nodes[0]);
    end(&all);
}

typedef struct {
    pw_node *node;
    bool is_over; /* by whoever has the lock */
} long_idle;

static void *idle_until_it_is_over(void *argument)
{
    const long_idle *self = argument;
    pw_node_lock(self->node);
    while (!self->is_over) pw_node_idle(self->node);
    pw_node_unlock(self->node);
    return NULL;
}

/* It rests again and again, each time as long as a node with several threads does, and whoever
 * takes the lock while the bell is set finds it resting. */
static void test_a_thread_that_rests_is_told_what_another_one_moves(void)
{
    joined all;
    pw_wire_ops ops;
    pthread_t thread;
    pw_handle *handle;
    uint8_t *data = make_pattern(PW_PAGE_BYTES);
    num_near = UINT32_MAX;
    begin_with_bell(&all, &ops);
    long_idle other = {all.nodes[0], false};
    pw_node_lock(other.node);
    assert(pthread_create(&thread, NULL, idle_until_it_is_over, &other) == 0);
    while (!pw_bell_is_set(&bell, PW_BELL_ARRIVAL)) {
        pw_node_unlock(other.node);
        sched_yield();
        pw_node_lock(other.node);
    }
    assert(pw_node_fetch(other.node, 0, address_of(data), 1, address_of(data), PW_PAGE_BYTES, 0,
                         NULL, &handle) == PW_OK);
    other.is_over = true;
    pw_node_unlock(other.node);
    assert(!pw_bell_is_set(&bell, PW_BELL_ARRIVAL));
    assert(pthread_join(thread, NULL) == 0);
    end(&all);
}

int main(void)
{
    run_joined(1, test_a_loop_in_vain_yields_then_sleeps_and_is_silent);
    run_joined(1, test_a_program_that_tests_does_not_sleep);
    test_threads_that_wait_take_turns(true);
    test_threads_that_wait_take_turns(false);
    test_a_lock_is_wanted_while_somebody_waits();
    test_a_crowded_node_rests_soon_and_is_woken();
    test_a_crowded_program_that_tests_rests_late_and_for_a_short_time();
    test_a_node_with_a_core_of_its_own_yields_for_a_time_and_rests();
    test_a_node_with_a_core_of_its_own_looks_on_before_it_yields();
    test_a_crowded_node_that_nobody_wakes_yields_at_once();
    test_a_node_whose_core_others_want_yields_at_once();
    test_what_happens_takes_the_announcement_back();
    test_a_thread_that_rests_is_told_what_another_one_moves();
    return 0;
}
