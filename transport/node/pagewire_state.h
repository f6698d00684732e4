/* What stands behind the handles of pagewire.h, for the files that implement it: pagewire_node.c
 * makes nodes, pagewire_transfers.c moves them, pagewire_facts.c tells of them. */
#ifndef PW_NODE_PAGEWIRE_STATE_H
#define PW_NODE_PAGEWIRE_STATE_H
#include "include/pagewire.h"
#include "transport/node/node.h"
#include "transport/node/program_regions.h"
#include "transport/node/sentence.h"

/* Memory that peers may read. */
typedef struct {
    uint64_t key;
    pw_lease lease;
} pw_registration;

struct pagewire_node {
    pw_node *node;
    pagewire_network *network; /* NULL: a wire of the host's */
    pw_registration *registrations;
    uint32_t num_registrations, capacity;
    uint16_t pdid;
    int64_t write_poll_ns, read_poll_ns; /* a look at the done flag */
    void (*notified)(void *context, const pagewire_notification *notification);
    void *context;
    pw_sentence reason;
};

struct pagewire_network {
    uint32_t num_nodes, num_open;
    bool is_destroyed; /* it goes with its last node */
    pw_wire **wires;   /* NULL: taken by a node */
    pagewire_node *nodes[];
};

/* Note why a call failed: the engine's code and what was tried; the code. */
__attribute__((format(printf, 3, 4))) int pw_door_fail(pagewire_node *node, int code,
                                                       const char *format, ...);
/* The same with the node's own reason. */
int pw_door_fail_as_node(pagewire_node *node, int code);
/* Around each call: lock and clock; leave returns the result. */
void pw_door_enter(pagewire_node *node);
int pw_door_leave(pagewire_node *node, int result);
/* A turn of the node, and of those that it is joined with. ran: the program may have changed
 * mappings since the last one. 1: something happened, 0: nothing did; or a code, which is noted. */
int pw_door_move(pagewire_node *node, bool is_waiting, bool ran);
/* The first num_values counters of pagewire_counter_name; how many were written. */
uint32_t pw_door_write_counters(const pw_region_sums *sums, uint64_t *values, uint32_t num_values);
/* Is it over, and when in virtual time? Unlike pagewire_test, nothing of it is taken. */
bool pw_door_is_over(const pagewire_operation *operation, int64_t *complete_ns);
/* A struct that the host filled, as large as it knew it, into one of own_bytes that is zero; false:
 * it has members that this version does not know. */
bool pw_door_copy_struct(void *own, size_t own_bytes, const void *given);
#endif
