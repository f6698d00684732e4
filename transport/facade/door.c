#include "transport/facade/door.h"

/* A program that looks again and again gives its core away too. */
static int turn(void *context, bool is_waiting)
{
    return is_waiting ? pw_messaging_turn(context, true) : pw_messaging_step(context, false);
}

static int pause_wait(void *context)
{
    const pw_messaging *messaging = context;
    return messaging->pause ? messaging->pause(messaging->pause_context, NULL) : PW_OK;
}

int pw_call_open_door(pw_messaging *messaging, pagewire_node **out)
{
    const pw_door_host host = {.context = messaging,
                               .turn = turn,
                               .pause = pause_wait,
                               .pause_ns = PW_CALL_PAUSE_NS,
                               .look_ns = pw_node_costs(messaging->node)->poll_ns};
    return pw_door_wrap(messaging->node, &host, out);
}
