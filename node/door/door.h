/* For who puts a door of his own beside pagewire.h's: what he does with nodes of that door. */
#ifndef PW_NODE_DOOR_DOOR_H
#define PW_NODE_DOOR_DOOR_H
#include "include/pagewire.h"
#include "node/node.h"

/* What moves a node that is not pagewire_node_create's; `context` goes with each. */
typedef struct {
    void *context;
    int (*turn)(void *context, bool is_waiting); /* as pw_node_turn */
    /* Called in a wait after so much wall time, and again and again, with the node unlocked; a
     * negative code ends the wait. */
    int (*pause)(void *context);
    int64_t pause_ns;
    int64_t look_ns; /* what it costs the CPU to see that what it waits for is there */
} pw_door_host;
/* This door for a node that its host has made, and destroys behind pagewire_node_destroy. */
int pw_door_wrap(pw_node *node, const pw_door_host *host, pagewire_node **out);

/* cdef begin */
pw_node *pw_door_node(const pagewire_node *node);
/* cdef end */
/* Of pw_door_host; 0 for nodes of pagewire_node_create. */
int64_t pw_door_look_ns(const pagewire_node *node);
/* Are its peers in this process? */
bool pw_door_is_joined(const pagewire_node *node);
/* Note why a call failed: the engine's code and what was tried; the code. */
__attribute__((format(printf, 3, 4))) int pw_door_fail(pagewire_node *node, int code,
                                                       const char *format, ...);
/* The same with the node's own reason. */
int pw_door_fail_as_node(pagewire_node *node, int code);
/* cdef begin */
/* The code of the last call that failed. */
int pw_door_error(const pagewire_node *node);
/* cdef end */
/* Around each call: lock and clock; leave returns the result. */
void pw_door_enter(pagewire_node *node);
int pw_door_leave(pagewire_node *node, int result);
/* A turn of the node, and of those that it is joined with. ran: the program may have changed
 * mappings since the last one. 1: something happened, 0: nothing did; or a code, which is noted. */
int pw_door_move(pagewire_node *node, bool is_waiting, bool ran);

/* A wait for something; zero at first but for the first two. */
typedef struct {
    int64_t limit_ns;   /* of wall time; 0: none */
    bool is_of_another; /* core: the node's CPU does something else */
    int64_t began_ns;
    pw_pace pace;
} pw_door_wait;
/* One turn of it: others come in between. As pw_door_move. */
int pw_door_step(pagewire_node *node, pw_door_wait *wait);
bool pw_door_is_late(const pw_door_wait *wait);
/* Is it over, and when in virtual time? Unlike pagewire_test, nothing of it is taken. */
bool pw_door_is_over(const pagewire_operation *operation, int64_t *complete_ns);
/* A struct that the host filled, as large as it knew it, into one of own_bytes that is zero; false:
 * it has members that this version does not know. */
bool pw_door_copy_struct(void *own, size_t own_bytes, const void *given);
#endif
