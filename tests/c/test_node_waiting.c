/* How a node waits, and how threads share it. */
#include "tests/c/node_pair.h"
#include "transport/node/ticket_lock.h"
#include <pthread.h>

static pw_node_counters counters_of(const pw_node *node)
{
    pw_node_counters counters;
    pw_node_read_counters(node, &counters);
    return counters;
}

static void test_a_loop_in_vain_yields_then_sleeps_and_is_silent(void)
{
    joined all;
    begin(&all, 1);
    pw_node *node = all.nodes[0];
    pw_node_lock(node);
    for (int i = 0; i < 8; i++) pw_node_idle(node);
    assert(counters_of(node).yields == 0 && pw_node_silent_ns(node) == 0);
    pw_node_idle(node);
    assert(counters_of(node).yields == 1 && pw_node_silent_ns(node) > 0);
    while (counters_of(node).sleeps == 0) pw_node_idle(node);
    assert(counters_of(node).yields > 1000);
    uint64_t yields = counters_of(node).yields;
    pw_node_idle(node);
    assert(counters_of(node).yields == yields && counters_of(node).sleeps == 2);
    pw_node_busy(node);
    assert(pw_node_silent_ns(node) == 0);
    pw_node_idle(node);
    assert(counters_of(node).yields == yields && counters_of(node).sleeps == 2);
    pw_node_unlock(node);
    end(&all);
}

/* A program that tests in a loop of its own has work to do: it yields, as it always did, but no
 * test of it sleeps. */
static void test_a_program_that_tests_does_not_sleep(void)
{
    joined all;
    begin(&all, 1);
    pw_node *node = all.nodes[0];
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
    end(&all);
}

typedef struct {
    pw_node *node;
    uint64_t *shared; /* by whoever has the lock */
    bool is_busy;
} shared_loop;

#define ROUNDS 2000

static void *loop(void *argument)
{
    const shared_loop *self = argument;
    pw_node_lock(self->node);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = *self->shared;
        for (volatile int work = 0; work < 10; work++) {}
        *self->shared = before + 1;
        if (self->is_busy) pw_node_busy(self->node);
        else pw_node_idle(self->node);
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
        if (is_busy) pw_node_busy(all.nodes[0]);
        else pw_node_idle(all.nodes[0]);
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

int main(void)
{
    test_a_loop_in_vain_yields_then_sleeps_and_is_silent();
    test_a_program_that_tests_does_not_sleep();
    test_threads_that_wait_take_turns(true);
    test_threads_that_wait_take_turns(false);
    test_a_lock_is_wanted_while_somebody_waits();
    return 0;
}
