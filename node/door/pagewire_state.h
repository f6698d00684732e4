/* What stands behind the handles of pagewire.h, for the files that implement it: pagewire_node.c
 * makes nodes, pagewire_transfers.c moves them, pagewire_facts.c tells of them. */
#ifndef PW_NODE_DOOR_PAGEWIRE_STATE_H
#define PW_NODE_DOOR_PAGEWIRE_STATE_H
#include "node/door/door.h"
#include "node/report/program_regions.h"
#include "node/sentence.h"

/* Memory that peers may read. */
typedef struct {
    uint64_t key;
    pw_lease lease;
} pw_registration;

struct pagewire_node {
    pw_node *node;
    pagewire_network *network; /* NULL: a wire of the host's */
    pw_door_host host;         /* turn NULL: this door has made the node */
    pw_registration *registrations;
    uint32_t num_registrations, capacity;
    uint16_t pdid;
    int64_t write_poll_ns, read_poll_ns; /* a look at the done flag */
    void (*notified)(void *context, const pagewire_notification *notification);
    void *context;
    pw_sentence reason;
    int error; /* what it is about */
};

struct pagewire_network {
    uint32_t num_nodes, num_open;
    bool is_destroyed; /* it goes with its last node */
    pw_wire **wires;   /* NULL: taken by a node */
    pagewire_node *nodes[];
};
#endif
