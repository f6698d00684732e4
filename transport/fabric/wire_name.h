/* A wire's address in the 64 bytes that MPICH keeps of an endpoint's name. On one host the whole
 * address is read from a file in memory that the node keeps open (its card); between hosts what tcp
 * needs is in the name, and the rest comes with the first hello. */
#ifndef PW_FABRIC_WIRE_NAME_H
#define PW_FABRIC_WIRE_NAME_H
#include "transport/fabric/wire_address.h"

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
