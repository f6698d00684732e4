/* The node of a process that loaded the provider: made with the first domain out of the node file
 * that the launcher wrote, alive until the process ends. Endpoints share it. */
#ifndef PW_FABRIC_PROCESS_H
#define PW_FABRIC_PROCESS_H
#include "transport/fabric/calls.h"
#include "transport/fabric/library.h"
#include "transport/fabric/objects.h"
#include "transport/fabric/timeline.h"
#include "transport/fabric/wire_fabric.h"
#include "transport/node/config_file.h"

#define PW_FI_PDID 1 /* the same for all nodes of a run */
#define PW_FI_ENDPOINTS_MAX 64
#define PW_FI_NODES_SPARE 512        /* processes that the program may spawn, each a new node */
#define PW_FI_EAGER_MAX_BYTES 131072 /* what a burst holds */
#define PW_FI_ATOMIC_MAX_BYTES 2048

struct pw_fi_process {
    pw_node *node;
    pw_ni *ni;
    pw_clock *clock;
    pw_wire *wire;
    int card; /* of wire_name.h */
    const pw_fabric_library *library;
    pw_node_config config;
    uint64_t eager_limit_bytes;
    uint8_t *scratch; /* eager_limit_bytes: parts of a message, gathered */
    pw_fi_endpoint *endpoints[PW_FI_ENDPOINTS_MAX];
    uint32_t num_endpoints;
    pw_fi_timeline timeline;
    pw_fi_region *regions;
    pw_fi_operation *free_operations;
    pw_fi_list waiting_writes; /* for a write channel */
    pw_fi_list atomics;        /* under way */
    pw_fi_list claimed;        /* messages that a look has kept */
    uint64_t num_atomics;
    int32_t *call_idx; /* of the marked calls' counts, by number */
    bool has_marks, has_failed;
    bool has_future; /* a look found what is not here yet in virtual time */
};

/* What the launcher left, read once: false: nothing, this is no run of pagewire's. */
bool pw_fi_is_configured(void);
/* Longest message that fi_inject takes: what rides in the packetizer's message, so that a buffer of
 * ours, which never faults, does not stand in for the program's. */
uint64_t pw_fi_inject_bytes(void);
/* The process's, made at the first call. FI_E*: a sentence has been printed. */
int pw_fi_process_get(pw_fi_process **out);
/* The same when it was made; else NULL. */
pw_fi_process *pw_fi_process_if_made(void);
/* The library that loaded the provider; before the first _get. */
void pw_fi_process_set_library(const pw_fabric_library *library);
/* The last endpoint is about to close: what is under way ends, the report is left. */
void pw_fi_process_rest(pw_fi_process *process);
/* The run cannot go on: the sentence is printed once and noted for the launcher. */
void pw_fi_process_fail(pw_fi_process *process, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A sentence of the provider's on standard error. */
void pw_fi_say(const char *sentence);

/* NULL: no memory. */
pw_fi_operation *pw_fi_take(pw_fi_process *process);
/* Back to the pool, its memory freed; not in a list. */
void pw_fi_give(pw_fi_process *process, pw_fi_operation *operation);
/* FI_E* (positive) of a PW_ERR_*. */
int pw_fi_error_of(int code);

#endif
