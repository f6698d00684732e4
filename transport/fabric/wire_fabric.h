/* The wire of a libfabric provider: own shared memory to the nodes of the same host, messages of
 * libfabric's core providers to the others. Nodes are connected one by one and at any time. Before
 * the first burst between two nodes each says hello to the other: its address, and whether it could
 * map the other's segment. Both then know the one way that their bursts take, so that their order
 * is that of one way; bursts wait until then. A node that has an address may send to a node that
 * does not know it yet: the hello makes it known.
 *
 * One thread at a time. In a forked child everything but close is refused. */
#ifndef PW_FABRIC_WIRE_FABRIC_H
#define PW_FABRIC_WIRE_FABRIC_H
#include "transport/fabric/library.h"
#include "transport/fabric/wire_address.h"
#include "node/wires/wire.h"

typedef enum {
    PW_WIRE_AUTO = 0, /* own shared memory on a host, tcp between hosts */
    PW_WIRE_SHM = 1,  /* libfabric's shm on a host, tcp between hosts */
    PW_WIRE_TCP = 2,  /* tcp everywhere */
} pw_wire_mode;

typedef struct {
    pw_wire_mode mode;
    const char *interface; /* for tcp: a network interface's name or address; NULL: the first */
} pw_wire_fabric_options;

typedef struct {
    uint32_t num_shared;         /* peers by own shared memory */
    uint32_t num_messages;       /* peers by messages */
    uint32_t num_near_unmapped;  /* of these: on this host, but one could not map the other */
    uint32_t num_lost;           /* peers that no message reaches any more */
    uint64_t num_hellos_refused; /* not from whom they said, or of another address */
    uint64_t num_dropped;        /* messages that were not for this node, or too long */
} pw_wire_fabric_counters;

/* library: must live as long. num_nodes: nodes are numbered below it, also those that come later.
 * PW_ERR_INVALID, PW_ERR_NOMEM, PW_ERR_HOST and a sentence: nothing that the mode asks for works.
 */
int pw_wire_fabric_create(const pw_fabric_library *library, uint32_t node, uint32_t num_nodes,
                          const pw_wire_fabric_options *options, pw_wire **out,
                          pw_sentence *reason);
/* What peers need for connect; never changes. */
const pw_wire_address *pw_wire_fabric_address(const pw_wire *wire);
/* Make a peer known; nothing is sent yet. Its own address, or one that is known, is fine. *node:
 * whose it is. PW_ERR_MALFORMED: no address; PW_ERR_INVALID: another node has this number. */
int pw_wire_fabric_connect(pw_wire *wire, const pw_wire_address *address, uint32_t *node);
/* Does it know a node of another host? */
bool pw_wire_fabric_has_far(const pw_wire *wire);
/* After a negative PW_ERR_*: what it was about; until the next one. */
const char *pw_wire_fabric_reason(const pw_wire *wire);
void pw_wire_fabric_read_counters(const pw_wire *wire, pw_wire_fabric_counters *out);
#endif
