/* What a process knows of its run by environment and folder: rank, node number, where records go.
 * And what a host in the same process, Python, answers in place of what is built in. */
#ifndef PW_FABRIC_ENVIRONMENT_H
#define PW_FABRIC_ENVIRONMENT_H
#include "transport/node/node.h"

/* What the process manager says; 0 without one. */
uint32_t pw_fi_rank_of_environment(void);
/* Did the program start this process by MPI_Comm_spawn? Its rank is one of another world then. */
bool pw_fi_is_spawned(void);
/* The node that this process is: its rank, or, when it was spawned, a number from machine_nodes on
 * that no other process of the run has. FI_E*: a sentence has been printed. */
int pw_fi_claim_node(uint32_t machine_nodes, uint32_t num_nodes, uint32_t *out);
/* A record for the launcher of why this rank fails. */
void pw_fi_leave_note(const char *sentence);

/* Functions of a host in this process, by pagewire_fabric_set_hooks, before MPI starts. */
typedef struct {
    size_t struct_size;
    int (*decide)(void *context, uint64_t id);
    int (*schedule)(void *context, uint64_t num_bytes, uint32_t peer, int is_read, int64_t now_ns,
                    pw_scheduling *out);
    const pw_strategy_ops *strategy;
    void *strategy_self;
    int (*created)(pw_node *node); /* before anything is asked */
} pw_fi_host_hooks;

__attribute__((visibility("default"))) int pagewire_fabric_set_hooks(const pw_fi_host_hooks *hooks);
/* Whether there are any. */
bool pw_fi_hooks_read(pw_fi_host_hooks *out);
#endif
