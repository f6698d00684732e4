#include "transport/node/shared_clock.h"

/* The clock, and in *is_ours whether unlock is to follow. */
static pw_clock *lock(pw_node *node, bool *is_ours)
{
    *is_ours = !pw_node_is_mine(node);
    if (*is_ours) pw_node_lock(node);
    return pw_node_clock(node);
}

static void unlock(pw_node *node, bool is_ours)
{
    if (is_ours) pw_node_unlock(node);
}

void pw_node_clock_enter(pw_node *node, int costs_call)
{
    bool is_ours;
    pw_clock_enter(lock(node, &is_ours), costs_call != 0);
    unlock(node, is_ours);
}

void pw_node_clock_leave(pw_node *node)
{
    bool is_ours;
    pw_clock_leave(lock(node, &is_ours));
    unlock(node, is_ours);
}

int64_t pw_node_clock_read(pw_node *node)
{
    bool is_ours;
    int64_t now_ns = pw_clock_read(lock(node, &is_ours));
    unlock(node, is_ours);
    return now_ns;
}

void pw_node_clock_declare(pw_node *node, int64_t duration_ns)
{
    bool is_ours;
    pw_clock_declare(lock(node, &is_ours), duration_ns);
    unlock(node, is_ours);
}

void pw_node_clock_sleep(pw_node *node, int64_t duration_ns)
{
    bool is_ours;
    pw_clock_sleep(lock(node, &is_ours), duration_ns);
    unlock(node, is_ours);
}

void pw_node_clock_completed(pw_node *node, int64_t complete_ns)
{
    bool is_ours;
    pw_clock_completed(lock(node, &is_ours), complete_ns);
    unlock(node, is_ours);
}

void pw_node_clock_reach(pw_node *node, int64_t time_ns)
{
    bool is_ours;
    pw_clock *clock = lock(node, &is_ours);
    clock->now_ns = pw_later(clock->now_ns, time_ns);
    unlock(node, is_ours);
}

void pw_node_clock_pass(pw_node *node, int64_t duration_ns)
{
    bool is_ours;
    lock(node, &is_ours)->now_ns += duration_ns;
    unlock(node, is_ours);
}

void pw_node_clock_failed_test(pw_node *node, int is_future, int64_t poll_ns)
{
    bool is_ours;
    (void)lock(node, &is_ours);
    pw_node_failed_test(node, is_future != 0, poll_ns);
    unlock(node, is_ours);
}
