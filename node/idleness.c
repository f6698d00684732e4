#include "node/node_state.h"

#include <sched.h>
#include <time.h>

#include "native/on_core.h"
#include "node/wires/bell.h"
#include "node/clock.h"

#define IDLE_TURNS 8u    /* in vain before the core is yielded */
#define VAIN_TURNS 2000u /* before it is slept, where nobody else wants the core */
#define NAP_AFTER_NS 1000000
/* With a core for each node nobody on this host waits for this core: a wait looks on for as long as
 * an answer of 256 KiB takes, then yields, and looks on again. Between two turns it gives way to
 * the other thread of its core, which may be the node that it waits for and works at half the
 * speed else; a yield does not. */
#define LOOK_ON_NS 50000
#define LOOK_AGAIN_NS 20000
/* But other programs may want the cores. A yield that took so long let one run, unless the kernel
 * tells that this thread stayed on its core; then so many waits yield at once, and what those that
 * look on in vain after them take is little beside. */
#define YIELD_NS 2000
#define WAITS_TO_YIELD 256u
#define SLEEP_PART 16      /* a sleep may add this part to a wait */
#define SLEEP_MAX_NS 50000 /* and what the kernel adds: about as much again */

/* Before a rest at a bell. It adds some 5 us to the wait, the kernel's switches there and back, so
 * with a core for each node it begins when that is little beside the wait so far. A yield that took
 * longer than all this tells that somebody else wants the core. With more nodes than cores whoever
 * is waited for may need this one: then as many turns as an answer takes from the other core, and
 * no yields, by which this kernel's scheduler hands on the core for a whole slice or not at all. */
#define REST_AFTER_NS 200000
#define CROWDED_TURNS 24u

/* What does not ring is found when a rest ends. The longer the wait, the longer the rests: many
 * nodes that wait and look all the time leave no core for the one that they wait for. */
#define REST_PART 8 /* of the wait so far */
#define REST_MAX_NS 10000000

void pw_idleness_end(pw_idleness *idleness)
{
    idleness->idle_turns = 0;
    pw_idleness_renew(idleness);
}

void pw_idleness_renew(pw_idleness *idleness)
{
    idleness->vain_turns = 0;
    idleness->silent_since_ns = 0;
    if (!idleness->announced) return;
    idleness->announced = 0;
    if (!idleness->num_resting) pw_bell_withdraw(idleness->bell);
}

static int64_t pause_ns(const pw_node *node)
{
    int64_t part_ns = pw_node_silent_ns(node) / SLEEP_PART;
    return part_ns < SLEEP_MAX_NS ? part_ns : SLEEP_MAX_NS;
}

static bool is_crowded(pw_idleness *idleness, const pw_wire_rest *rest)
{
    if (!idleness->num_cores) idleness->num_cores = pw_num_cores();
    return rest->num_near >= idleness->num_cores;
}

static void yield(pw_node *node)
{
    node->idleness.yields++;
    pw_ticket_lock_give(&node->lock);
    const uint64_t stint = pw_on_core_stint();
    const int64_t began_ns = pw_clock_wall_ns();
    sched_yield();
    const int64_t ended_ns = pw_clock_wall_ns();
    const bool has_stayed = stint && pw_on_core_stint() == stint;
    pw_ticket_lock_take(&node->lock);
    if (has_stayed || ended_ns - began_ns < YIELD_NS)
        node->idleness.look_until_ns = ended_ns + LOOK_AGAIN_NS;
    else if (!node->idleness.waits_to_yield) node->idleness.waits_to_yield = WAITS_TO_YIELD;
}

static void nap(pw_node *node)
{
    const struct timespec pause = {.tv_nsec = pause_ns(node)};
    node->idleness.sleeps++;
    pw_ticket_lock_give(&node->lock);
    nanosleep(&pause, NULL);
    pw_ticket_lock_take(&node->lock);
}

static int64_t rest_limit_ns(const pw_node *node, const pw_wire_rest *rest)
{
    const int64_t part_ns = pw_node_silent_ns(node) / REST_PART;
    const int64_t longer_ns = part_ns < REST_MAX_NS ? part_ns : REST_MAX_NS;
    if (node->idleness.has_threads) return SLEEP_MAX_NS;
    if (!node->idleness.is_waiting) return longer_ns;
    return longer_ns > rest->limit_ns ? longer_ns : rest->limit_ns;
}

/* Who tests may have something else to do, of which nobody rings: so its rests are a part of the
 * time that it has tested in vain, and none is shorter than the kernel makes it. */
static bool may_rest(const pw_node *node)
{
    return node->idleness.is_waiting || pw_node_silent_ns(node) / REST_PART > SLEEP_MAX_NS;
}

/* One turn announces the rest; the next one looks at everything again, whatever the host looks at
 * included, and was in vain too when this is called the second time. With several threads rests are
 * short: who rests in a call of a library's may hold locks of that one, which others want. */
static void rest_or_announce(pw_node *node, const pw_wire_rest *rest)
{
    pw_idleness *idleness = &node->idleness;
    if (idleness->announced != rest->calls) {
        idleness->bell = rest->bell;
        idleness->announced = rest->calls;
        pw_bell_announce(rest->bell, rest->calls);
        return;
    }
    const int64_t limit_ns = rest_limit_ns(node, rest);
    idleness->announced = 0;
    idleness->num_resting++;
    idleness->sleeps++;
    pw_ticket_lock_give(&node->lock);
    pw_bell_wait(rest->bell, rest->calls, limit_ns);
    pw_ticket_lock_take(&node->lock);
    if (!--idleness->num_resting) pw_bell_withdraw(rest->bell);
}

/* Threads of one process may be more than cores. */
static bool has_own_core(pw_node *node, const pw_wire_rest *rest)
{
    return !node->idleness.waits_to_yield && !node->idleness.has_threads &&
           !is_crowded(&node->idleness, rest);
}

static bool looks_on(pw_node *node, const pw_wire_rest *rest)
{
    if (!has_own_core(node, rest) || pw_ticket_lock_is_wanted(&node->lock) ||
        pw_clock_wall_ns() > node->idleness.look_until_ns)
        return false;
#if defined __x86_64__
    __builtin_ia32_pause(); /* the other thread of this core, where it has one, goes on */
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
    return true;
}

/* True: the core was kept. */
static bool idle_with_bell(pw_node *node, const pw_wire_rest *rest)
{
    if (is_crowded(&node->idleness, rest)) {
        const bool is_late = node->idleness.vain_turns > CROWDED_TURNS;
        if (is_late && may_rest(node)) rest_or_announce(node, rest);
        else if (is_late || pw_ticket_lock_is_wanted(&node->lock)) yield(node);
        return false;
    }
    if (pw_node_silent_ns(node) > REST_AFTER_NS && may_rest(node)) rest_or_announce(node, rest);
    else if (looks_on(node, rest)) return true;
    else yield(node);
    return false;
}

bool pw_node_idle(pw_node *node)
{
    pw_idleness *idleness = &node->idleness;
    pw_wire *wire = node->wire;
    pw_wire_rest rest;
    idleness->vain_turns++;
    bool is_early = idleness->idle_turns < IDLE_TURNS;
    idleness->idle_turns += is_early;
    const bool is_known = wire->ops->rest && wire->ops->rest(wire, &rest);
    if (is_early && !pw_ticket_lock_is_wanted(&node->lock))
        return is_known && has_own_core(node, &rest);
    if (!idleness->silent_since_ns && idleness->vain_turns > IDLE_TURNS) {
        idleness->silent_since_ns = pw_clock_wall_ns();
        idleness->look_until_ns = idleness->silent_since_ns + LOOK_ON_NS;
        if (idleness->waits_to_yield) idleness->waits_to_yield--;
    }
    if (is_known && rest.bell) return idle_with_bell(node, &rest);
    if (idleness->vain_turns > VAIN_TURNS && pw_node_silent_ns(node) > NAP_AFTER_NS) nap(node);
    else if (is_known && looks_on(node, &rest)) return true;
    else yield(node);
    return false;
}

void pw_idleness_tell_resting(pw_idleness *idleness)
{
    if (idleness->num_resting) pw_bell_wake(idleness->bell);
}

int64_t pw_node_silent_ns(const pw_node *node)
{
    /* Once: another thread may end the silence. */
    const int64_t since_ns = pw_node_silent_since_ns(node);
    return since_ns ? pw_clock_wall_ns() - since_ns : 0;
}

int64_t pw_node_silent_since_ns(const pw_node *node)
{
    return __atomic_load_n(&node->idleness.silent_since_ns, __ATOMIC_RELAXED);
}
