#include "transport/node/idleness.h"
#include "transport/node/clock.h"
#include <sched.h>
#include <time.h>

#define IDLE_TURNS 8u      /* in vain before the core is yielded */
#define VAIN_TURNS 2000u   /* before it is slept: about 1 ms, where nobody else wants the core */
#define SLEEP_PART 16      /* a sleep may add this part to a wait */
#define SLEEP_MAX_NS 50000 /* and what the kernel adds: about as much again */

void pw_idleness_end(pw_idleness *idleness)
{
    idleness->idle_turns = 0;
    pw_idleness_renew(idleness);
}

void pw_idleness_renew(pw_idleness *idleness)
{
    idleness->vain_turns = 0;
    idleness->silent_since_ns = 0;
}

static int64_t pause_ns(const pw_idleness *idleness)
{
    int64_t part_ns = pw_idleness_silent_ns(idleness) / SLEEP_PART;
    return part_ns < SLEEP_MAX_NS ? part_ns : SLEEP_MAX_NS;
}

void pw_idleness_idle(pw_idleness *idleness, pw_ticket_lock *lock)
{
    idleness->vain_turns++;
    bool is_early = idleness->idle_turns < IDLE_TURNS;
    idleness->idle_turns += is_early;
    if (is_early && !pw_ticket_lock_is_wanted(lock)) return;
    if (!idleness->silent_since_ns && idleness->vain_turns > IDLE_TURNS)
        idleness->silent_since_ns = pw_clock_wall_ns();
    bool is_late = idleness->vain_turns > VAIN_TURNS;
    const struct timespec pause = {.tv_nsec = is_late ? pause_ns(idleness) : 0};
    idleness->yields += !is_late;
    idleness->sleeps += is_late;
    pw_ticket_lock_give(lock);
    if (is_late) nanosleep(&pause, NULL);
    else sched_yield();
    pw_ticket_lock_take(lock);
}

int64_t pw_idleness_silent_ns(const pw_idleness *idleness)
{
    /* Once: another thread may end the silence. */
    int64_t since_ns = __atomic_load_n(&idleness->silent_since_ns, __ATOMIC_RELAXED);
    return since_ns ? pw_clock_wall_ns() - since_ns : 0;
}
