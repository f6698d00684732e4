/* The programs' side of a node: their descriptors, and the bytes between these and the node's
 * stream connections. Descriptors do not block; who waits is in `epoll`. */
#ifndef PW_SOCKETS_AGENT_AGENT_H
#define PW_SOCKETS_AGENT_AGENT_H
#include "unimem/streams/stream_nodes.h"
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

typedef struct pw_programs pw_programs;
typedef struct pw_endpoint pw_endpoint; /* what epoll's data.ptr points to */

/* Programs of the node reach it from now on. PW_ERR_HOST: see errno. */
int pw_programs_create(pw_stream_nodes *all, uint32_t node, int epoll, pw_programs **out);
/* epoll says that the descriptor is ready. */
int pw_programs_ready(pw_endpoint *endpoint, uint32_t events);
uint32_t pw_programs_node_of(const pw_endpoint *endpoint);
/* What has changed at the node's connections. */
int pw_programs_move(pw_programs *self);
/* Connects that have waited too long for their answer are given up; a listener that has taken its
 * connection without a sign gets the next one. To be called now and then while something waits. */
int pw_programs_look_late(pw_programs *self, int64_t now_ns);
bool pw_programs_are_waiting(const pw_programs *self);
/* Has one of the node's called listen, with success? */
bool pw_programs_have_listened(const pw_programs *self);
/* Endpoints that were closed are freed: after all events of a turn. */
void pw_programs_sweep(pw_programs *self);

/* The programs of a run, as processes, and whom they leave behind. */

#define PW_CHILDREN_MAX 64

typedef struct {
    uint32_t num_programs;
    pid_t programs[PW_CHILDREN_MAX]; /* 0: ended */
    const char *names[PW_CHILDREN_MAX];
    int gates[PW_CHILDREN_MAX]; /* a byte lets it begin */
    uint32_t num_begun;
    int exit_codes[PW_CHILDREN_MAX]; /* 128 + signal, as a shell tells it */
    sigset_t signals;                /* blocked here, not there */
    struct rlimit descriptors;       /* what they get */
    int64_t last_ended_ns;           /* since when the last one of the line has; 0: it has not */
    int64_t ending_ns;               /* since when they are asked to end; 0: they are not */
    bool is_killing, has_ended;      /* has_ended: all programs */
} pw_children;

/* Blocks the signals that pw_children_reap takes; *fd becomes readable by them. -1: see errno. */
int pw_children_init(pw_children *self, int *fd);
/* A process that is to run the command with the library preloaded and the variable of
 * program_calls.h. It waits: to fork when there is traffic would copy the rings' pages, and change
 * what faults. -1: see errno. */
int pw_children_prepare(pw_children *self, char **command, const char *library,
                        const char *variable);
/* The next one begins. */
void pw_children_begin(pw_children *self);
/* Take signals and ends. When the last program of the line has ended the others get SIGTERM, if
 * they do not end by themselves at once, and whoever they leave behind; after 10 s SIGKILL. false:
 * nobody is left. */
bool pw_children_reap(pw_children *self, int fd);
/* pw_children_reap is to be called now and then, not by signals alone. */
bool pw_children_are_ending(const pw_children *self);
/* At once, all of them and theirs. */
void pw_children_kill(pw_children *self);
#endif
