#include "transport/node/waiting.h"
#include "transport/node/clock.h"
#include <sched.h>
#include <time.h>

#define IDLE_TURNS 8u      /* in vain before the core is yielded */
#define VAIN_TURNS 2000u   /* before it is slept: about 1 ms, where nobody else wants the core */
#define SLEEP_PART 16      /* a sleep may add this part to a wait */
#define SLEEP_MAX_NS 50000 /* and what the kernel adds: about as much again */

void pw_waiting_end(pw_waiting *waiting)
{
    waiting->idle_turns = 0;
    pw_waiting_renew(waiting);
}

void pw_waiting_renew(pw_waiting *waiting)
{
    waiting->vain_turns = 0;
    waiting->silent_since_ns = 0;
}

static int64_t pause_ns(const pw_waiting *waiting)
{
    int64_t part_ns = pw_waiting_silent_ns(waiting) / SLEEP_PART;
    return part_ns < SLEEP_MAX_NS ? part_ns : SLEEP_MAX_NS;
}

void pw_waiting_idle(pw_waiting *waiting, pw_ticket_lock *lock)
{
    waiting->vain_turns++;
    bool is_early = waiting->idle_turns < IDLE_TURNS;
    waiting->idle_turns += is_early;
    if (is_early && !pw_ticket_lock_is_wanted(lock)) return;
    if (!waiting->silent_since_ns && waiting->vain_turns > IDLE_TURNS)
        waiting->silent_since_ns = pw_clock_wall_ns();
    bool is_late = waiting->vain_turns > VAIN_TURNS;
    const struct timespec pause = {.tv_nsec = is_late ? pause_ns(waiting) : 0};
    waiting->yields += !is_late;
    waiting->sleeps += is_late;
    pw_ticket_lock_give(lock);
    if (is_late) nanosleep(&pause, NULL);
    else sched_yield();
    pw_ticket_lock_take(lock);
}

int64_t pw_waiting_silent_ns(const pw_waiting *waiting)
{
    return waiting->silent_since_ns ? pw_clock_wall_ns() - waiting->silent_since_ns : 0;
}
