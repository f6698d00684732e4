/* What the preloaded library of a program and the agent that holds its node say to each other, over
 * sockets of records in the abstract name space of the kernel.
 *
 * A program's emulated descriptor is one end of a socket pair of the kernel, whose other end is the
 * agent's: so read, write, poll, dup, fork and close are the kernel's own. The agent's end has a
 * name, which tells every process that has the descriptor whose connection it is. */
#ifndef PW_SOCKETS_PROGRAM_CALLS_H
#define PW_SOCKETS_PROGRAM_CALLS_H
#include <stdbool.h>
#include <stdint.h>

#define PW_AGENT_VARIABLE "PAGEWIRE_SOCKETS" /* "PID NODE NODES NETWORK", of the program */
#define PW_AGENT_NAME "pagewire-agent/%u/%u" /* PID, node; behind a 0 */
#define PW_ENDPOINT_PREFIX "pagewire-socket/"
/* Family, own node and port, the peer's, the agent's PID, a number; behind a 0. */
#define PW_NODE_NONE 0xFFFFu /* own node of a socket of IPv6 alone */
#define PW_ENDPOINT_NAME PW_ENDPOINT_PREFIX "%u/%u:%u/%u:%u/%u/%u"

enum { PW_CALL_CONNECT, PW_CALL_BIND, PW_CALL_LISTEN };

typedef struct {
    uint32_t call;
    uint32_t node;     /* to connect to */
    uint32_t backlog;  /* of listen, which goes over the bound descriptor itself */
    uint16_t port;     /* to connect to or bind; 0: any */
    uint16_t family;   /* as the program sees its socket */
    uint16_t own_port; /* to connect from, bound before; 0: any */
    bool is_six_only;  /* to bind: the address is any of IPv6, which nobody reaches */
    bool is_shared;    /* to bind: with SO_REUSEPORT */
} pw_program_request;

/* With a descriptor, but for errors and listen. The same is what accept reads. */
typedef struct {
    int32_t error; /* errno, 0: none */
} pw_program_reply;
#endif
