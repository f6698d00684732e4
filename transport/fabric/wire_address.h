/* What a node tells its peers of itself, so that they can send to it: the bytes that an MPI
 * exchanges as the provider's address. Small enough for a slot of shared memory. */
#ifndef PW_FABRIC_WIRE_ADDRESS_H
#define PW_FABRIC_WIRE_ADDRESS_H
#include "node/sentence.h"
#include "node/wires/shared_segment.h"

#define PW_WIRE_ADDRESS_MAGIC 0x41575057u /* "PWWA" */
#define PW_WIRE_ADDRESS_VERSION 1
#define PW_SHM_NAME_BYTES 56
#define PW_TCP_NAME_BYTES 32 /* a socket address */

typedef struct {
    uint32_t magic;
    uint16_t version;
    uint8_t shm_name_bytes, tcp_name_bytes; /* 0: no such endpoint */
    uint32_t node, num_nodes;
    uint64_t network_namespace;
    pw_segment_facts segment; /* num_bytes 0: none; host and nonce are always there */
    uint8_t shm_name[PW_SHM_NAME_BYTES];
    uint8_t tcp_name[PW_TCP_NAME_BYTES];
} pw_wire_address;
_Static_assert(sizeof(pw_wire_address) == 24 + 96 + 56 + 32, "no padding: compared as bytes");

/* Everything but segment and names. PW_ERR_HOST: errno tells why. */
int pw_wire_address_make(uint32_t node, uint32_t num_nodes, pw_wire_address *out);
/* It came from elsewhere: PW_ERR_MALFORMED and a sentence unless it can be used by a node of a run
 * of num_nodes. */
int pw_wire_address_check(const pw_wire_address *address, uint32_t num_nodes, pw_sentence *reason);
/* One host to us: shared memory may work. Network namespaces count as hosts, as containers are. */
bool pw_wire_address_is_near(const pw_wire_address *a, const pw_wire_address *b);
/* Its tcp endpoint has the loopback's address, and the other node is in another network. */
bool pw_wire_address_is_out_of_reach(const pw_wire_address *address, const pw_wire_address *other);

/* One process? One of the two may be what a name of 64 bytes told: without a host. */
static inline bool pw_wire_address_is_same(const pw_wire_address *a, const pw_wire_address *b)
{
    return a->node == b->node && a->segment.nonce[1] == b->segment.nonce[1];
}

/* That messages to the node must bear. */
static inline uint32_t pw_wire_address_key(const pw_wire_address *address)
{
    return (uint32_t)address->segment.nonce[1];
}

/* ---- a wire's address in the 64 bytes that MPICH keeps of an endpoint's name. On one host the
 * whole address is read from a file in memory that the node keeps open (its card); between hosts
 * what tcp needs is in the name, and the rest comes with the first hello. */

#define PW_WIRE_NAME_TCP_BYTES 28 /* an IPv6 socket address */

typedef struct {
    uint32_t magic;
    uint32_t node;
    int32_t pid;
    uint16_t card;
    uint16_t endpoint; /* of several that share the node */
    uint64_t host;     /* digest of what makes two nodes near */
    uint64_t nonce;
    uint8_t tcp_name[PW_WIRE_NAME_TCP_BYTES];
    uint32_t tcp_name_bytes;
} pw_wire_name;
_Static_assert(sizeof(pw_wire_name) == 64, "FI_NAME_MAX");

/* The card of this node: a file descriptor, open as long as peers may come. PW_ERR_HOST: errno. */
int pw_wire_card_open(const pw_wire_address *address);
void pw_wire_name_make(const pw_wire_address *address, int card, uint16_t endpoint,
                       pw_wire_name *out);
/* The address that a name stands for, as far as it can be known here. PW_ERR_MALFORMED: it is none.
 */
int pw_wire_name_expand(const pw_wire_name *name, const pw_wire_address *mine,
                        pw_wire_address *out);
#endif
