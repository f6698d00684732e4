/* A wire over the functions of a host in C: see pagewire_wire in pagewire.h. */
#ifndef PW_NODE_HOST_WIRE_H
#define PW_NODE_HOST_WIRE_H
#include "include/pagewire.h"
#include "transport/node/wire.h"

/* *given is copied. PW_ERR_NOMEM. */
int pw_host_wire_create(const pagewire_wire *given, uint32_t node, uint32_t num_nodes,
                        pw_wire **out);
#endif
