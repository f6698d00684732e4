/* The rank's node as a node of pagewire.h: for services above the node. */
#ifndef PW_FACADE_DOOR_H
#define PW_FACADE_DOOR_H
#include "node/door/door.h"
#include "transport/facade/calls.h"

/* cdef begin */
/* As long as the messaging. */
int pw_call_open_door(pw_messaging *messaging, pagewire_node **out);
/* cdef end */
#endif
