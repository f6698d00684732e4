/* Descriptors of the agent, each with what it is for; for agent/ alone. */
#ifndef PW_SOCKETS_AGENT_ENDPOINTS_H
#define PW_SOCKETS_AGENT_ENDPOINTS_H
#include "transport/sockets/agent/programs.h"
#include "transport/sockets/program_calls.h"
#include <errno.h>
#include <sys/epoll.h>

typedef enum {
    ENDPOINT_DOOR,       /* where programs come in */
    ENDPOINT_CALLER,     /* asks, or waits for the answer to a connect */
    ENDPOINT_BOUND,      /* has a port, listens perhaps */
    ENDPOINT_CONNECTING, /* of a program that does not wait for the answer */
    ENDPOINT_CONNECTED,  /* carries bytes */
} endpoint_kind;

struct pw_endpoint {
    pw_programs *owner;
    pw_endpoint *before, *next;
    endpoint_kind kind;
    int fd; /* -1: closed, to be freed */
    uint32_t interest;
    uint32_t connection;
    uint16_t port, family;
    /* Of a bound one: the number in its name, the next one of its port, and what it is. */
    uint32_t number;
    pw_endpoint *next_at_port;
    bool is_six_only, is_shared, is_listening;
    /* Of one that connects: the program's end, how many bytes keep it from being writable, how
     * large its buffer is to be, and when the connect began. */
    int far;
    uint32_t num_fill_bytes;
    int buffer_bytes;
    int64_t since_ns;
    bool has_read_end;    /* the program sends no more */
    bool has_written_end; /* it was told that the peer sends no more */
    bool is_gone;         /* nobody has the other end; not in epoll any more */
};

struct pw_programs {
    uint32_t node, number, num_connecting;
    pw_node_streams *on_node;
    pw_streams *streams;
    int epoll;
    int spare; /* a descriptor to give up when there are no more */
    bool has_warned, has_listened;
    bool has_waiting; /* a listener whose program has not taken what it was handed */
    pw_endpoint *endpoints, *closed;
    pw_endpoint *of_slot[PW_STREAM_SLOTS_MAX];
    pw_endpoint *of_port[UINT16_MAX + 1]; /* bound; several that share it */
    pw_endpoint *six_only;                /* bound to IPv6 alone, at any port */
};

/* NULL: no memory; fd is closed. */
pw_endpoint *endpoint_add(pw_programs *self, endpoint_kind kind, int fd, uint32_t interest);
void endpoint_wait_for(pw_endpoint *endpoint, uint32_t interest);
void endpoint_drop(pw_endpoint *endpoint);
/* There are descriptors for one; else standard error says so. */
bool endpoint_can_pair(pw_programs *self);
/* A pair whose nearer end has the name; *far is to be passed on and closed. -1: see errno. */
int endpoint_pair(pw_programs *self, int type, char kind, uint16_t family, uint16_t port,
                  uint32_t peer, uint16_t peer_port, int *far);
/* Give the descriptor a name in the abstract name space. */
int endpoint_name(int fd, const char *text);
/* fd: -1 for none; closed here. false: it did not go. */
bool endpoint_reply(const pw_endpoint *endpoint, int error, int fd);
/* Say once on standard error that connections are lost, and why. */
void endpoint_warn(pw_programs *self, const char *what, const char *remedy);

static inline pw_endpoint **endpoint_of(pw_programs *self, uint32_t connection)
{
    return &self->of_slot[connection % PW_STREAM_SLOTS_MAX];
}

/* Where the list begins of those that are bound like this. */
static inline pw_endpoint **bound_at(pw_programs *self, uint16_t port, bool is_six_only)
{
    return is_six_only ? &self->six_only : &self->of_port[port];
}

/* Bind and listen; the caller goes. */
void port_bind(pw_endpoint *caller, const pw_program_request *request);
void port_listen(pw_endpoint *caller, const pw_program_request *request);
/* The next one of its queue, when the program has taken the last one: what waits stays in the
 * queue, whose length is the program's. */
int port_hand_next(pw_endpoint *listener);
/* What waits in the port's queue, to whoever listens there. */
int port_hand_out(pw_programs *self, uint16_t port);
/* The bound one goes. */
void port_leave(pw_endpoint *bound);

/* Hand a connection to the program that waits at `to`. *is_given: it is the program's now. */
int connection_hand_over(pw_endpoint *to, uint32_t connection);
/* Move its bytes, both ways. */
int connection_pump(pw_endpoint *endpoint);
/* Connect for the caller, which goes when its answer is here. */
int connection_begin(pw_endpoint *caller, const pw_program_request *request);
/* The connect that it waits for is over, perhaps. */
int connection_finish(pw_endpoint *endpoint, const pw_stream_facts *facts);
/* It is over by an error of the agent's. */
int connection_fail(pw_endpoint *endpoint, int error);
#endif
