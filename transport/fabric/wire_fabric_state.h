/* What wire_fabric.c makes and wire_hellos.c connects. For these two files alone. */
#ifndef PW_FABRIC_WIRE_FABRIC_STATE_H
#define PW_FABRIC_WIRE_FABRIC_STATE_H
#include "transport/fabric/core_messages.h"
#include "transport/fabric/wire_fabric.h"
#include "transport/node/shared_bursts.h"
#include "transport/node/waiting_list.h"

#define PW_HELLO_MAGIC 0x48575057u /* "PWWH" */

typedef struct {
    uint32_t magic;
    uint8_t can_map; /* the sender has mapped the receiver's segment */
    uint8_t reserved[3];
    pw_wire_address address;
} wire_hello;
_Static_assert(sizeof(wire_hello) <= PW_SHARED_SHORT_BYTES && sizeof(wire_hello) <= PW_HELLO_BYTES,
               "one burst, which can be read before its sender is met");

enum way { WAY_NONE = 0, WAY_SHARED, WAY_MESSAGES };

typedef struct {
    uint8_t way;      /* of all bursts, from when both hellos are there */
    bool is_known;    /* there is an address */
    bool has_greeted; /* the peer was sent a hello */
    bool has_heard;   /* the peer's hello is here */
    bool can_map, can_they_map;
    pw_core_messages *messages; /* that reach it, NULL: none do */
    pw_waiting_list waiting;    /* bursts, for its hello */
} wire_peer;

typedef struct {
    pw_wire base;
    uint8_t *is_owner;           /* a page that reads 0 in a forked child */
    pw_shared_bursts *shared;    /* NULL: none in this mode, or the kernel refuses it */
    pw_core_messages *shm, *tcp; /* NULL: not in this mode, or not there */
    wire_peer *peers;
    pw_wire_address *addresses; /* of the peers that are known; apart, they are seldom read */
    wire_hello hello;           /* that goes through shared memory */
    uint32_t num_polls;         /* since tcp was looked at */
    uint32_t num_by_tcp;        /* peers that were sent something by it */
    uint32_t num_near, num_far; /* known peers on this host and on others */
    uint32_t num_waiting;       /* bursts, and those of `gone` */
    pw_waiting_pool pool;
    pw_waiting_list gone; /* waited and were copied or given up; to be given back */
    pw_wire_fabric_counters counters;
    pw_sentence reason;
    pw_sentence no_tcp; /* why, without tcp */
} wire_fabric;

/* An address is there, checked. PW_ERR_INVALID and a sentence: the number is another node's. */
int pw_wire_introduce(wire_fabric *self, const pw_wire_address *address);
/* Say hello to a known peer, once; after both hellos its way is settled, and what waited goes out.
 * PW_ERR_HOST and a sentence: there is no way. */
int pw_wire_greet(wire_fabric *self, uint32_t peer);
/* What may be a hello came from the peer: what is none is dropped and counted. */
void pw_wire_hear(wire_fabric *self, uint32_t peer, const uint8_t *data, uint32_t num_bytes);
/* A burst to a peer whose way is settled. */
int pw_wire_put(wire_fabric *self, uint32_t peer, uint8_t *data, uint32_t num_bytes, bool *is_free);
#endif
