/* What the preloaded library of a program and the agent that holds its node say to each other, over
 * sockets of records in the abstract name space of the kernel.
 *
 * A program's emulated descriptor is one end of a socket pair of the kernel, whose other end is the
 * agent's: so read, write, poll, dup, fork and close are the kernel's own. The agent's end has a
 * name, which tells every process that has the descriptor whose connection it is. A program that
 * does not wait for its connect has its end at once, with so much unread in the pair that it is not
 * writable; the outcome is the name that the program's end gets. */
#ifndef PW_SOCKETS_PROGRAM_CALLS_H
#define PW_SOCKETS_PROGRAM_CALLS_H
#include <stdbool.h>
#include <stdint.h>

#define PW_AGENT_VARIABLE "PAGEWIRE_SOCKETS" /* "PID NODE NODES NETWORK", of the program */
/* In place of NODE: enter_node.sh sets it. The one above a launcher hands on to what it starts. */
#define PW_ENTERED_VARIABLE "PAGEWIRE_SOCKETS_NODE"
#define PW_AGENT_NAME "pagewire-agent/%u/%u" /* PID, node; behind a 0 */
#define PW_ENDPOINT_PREFIX "pagewire-socket/"
/* Kind, family, own node and port, the peer's, the agent's PID, a number; behind a 0. */
#define PW_ENDPOINT_NAME PW_ENDPOINT_PREFIX "%c/%u/%u:%u/%u:%u/%u/%u"
#define PW_OUTCOME_PREFIX "pagewire-outcome/"
/* errno, 0: connected; the agent's PID, node, a number; behind a 0. */
#define PW_OUTCOME_NAME PW_OUTCOME_PREFIX "%u/%u/%u/%u"

/* SIX_ONLY: bound to any address of IPv6, and of IPv6 alone, which nobody reaches. */
enum {
    PW_KIND_BOUND = 'b',
    PW_KIND_SIX_ONLY = 's',
    PW_KIND_CONNECTED = 'c',
    PW_KIND_NOT_WAITED_FOR = 'n'
};

enum { PW_CALL_CONNECT, PW_CALL_BIND, PW_CALL_LISTEN };

typedef struct {
    uint32_t call;
    uint32_t node; /* to connect to */
    uint32_t backlog;
    uint16_t port;     /* to connect to, to bind (0: any), or bound, to listen at */
    uint16_t own_port; /* bound, to connect from; 0: any */
    uint16_t family;   /* as the program sees its socket */
    uint16_t waits;    /* for the answer to its connect */
    uint32_t number;   /* in the name of what is to listen: several can share a port */
    bool is_six_only;  /* to bind, as PW_KIND_SIX_ONLY, or bound, to listen */
    bool is_shared;    /* to bind: with SO_REUSEPORT */
} pw_program_request;

/* With a descriptor, but for errors and listen. The same is what accept reads. */
typedef struct {
    int32_t error; /* errno, 0: none */
} pw_program_reply;
#endif
