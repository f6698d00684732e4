/* Bursts as messages of a core provider of libfabric: shm between processes of a host, tcp between
 * hosts. Each message tells in its completion data who sent it, its number among those to the same
 * peer, and the receiver's key, so that what an earlier run or a stranger sends is dropped; bursts
 * of one source are handed out in the order in which they were sent, in whatever order the provider
 * completes them. The first message to a peer is a hello, which says who sends, unless that went
 * another way; bursts of a source are held until it is opened.
 *
 * A peer that cannot be reached is lost: what waits for it is given back, and every later send to
 * it is refused. Of a peer that is only silent nothing is noticed. One thread at a time. */
#ifndef PW_FABRIC_CORE_MESSAGES_H
#define PW_FABRIC_CORE_MESSAGES_H
#include "native/frames.h"
#include "transport/fabric/library.h"
#include "node/wires/wire.h"

/* A hello must fit in a slot of shared memory, too. */
#define PW_HELLO_BYTES 240
/* In the token of every burst from here, so that it is told from an address in shared memory. */
#define PW_CORE_MESSAGES_TOKEN 1u

typedef struct pw_core_messages pw_core_messages;

typedef struct {
    const char *provider, *interface; /* as of pw_core_endpoint_open */
    uint32_t node, num_nodes;
    uint32_t key; /* that messages to this node must bear */
} pw_core_messages_options;

/* What arrived: a hello is anybody's, its data are not to be believed. */
enum { PW_CORE_BURST = 0, PW_CORE_HELLO = 1 };

/* As pw_core_endpoint_open. name: of the endpoint, for pw_core_messages_add of the peers. */
int pw_core_messages_open(const pw_fabric_library *library, const pw_core_messages_options *options,
                          void *name, size_t room_bytes, uint8_t *name_bytes,
                          pw_core_messages **out, pw_sentence *reason);
/* What pw_core_messages_greet sends to any peer. */
void pw_core_messages_set_hello(pw_core_messages *messages, const void *hello, size_t num_bytes);

/* Once a peer, before anything is sent to it. */
int pw_core_messages_add(pw_core_messages *messages, uint32_t peer, const void *name,
                         size_t name_bytes, uint32_t key, pw_sentence *reason);
int pw_core_messages_greet(pw_core_messages *messages, uint32_t peer, pw_sentence *reason);
/* Bursts of this source may be handed out: its hello is here. */
void pw_core_messages_open_source(pw_core_messages *messages, uint32_t source);

/* As the functions of pw_wire_ops, to peers that were added. PW_ERR_HOST and a sentence: the peer
 * is lost. */
int pw_core_messages_send(pw_core_messages *messages, uint32_t peer, uint8_t *data,
                          uint32_t num_bytes, bool *is_free, pw_sentence *reason);
uint8_t *pw_core_messages_sent(pw_core_messages *messages);
/* *kind: PW_CORE_BURST or PW_CORE_HELLO. */
int pw_core_messages_poll(pw_core_messages *messages, pw_wire_burst *out, int *kind,
                          pw_sentence *reason);
void pw_core_messages_taken(const pw_wire_burst *burst);
uint32_t pw_core_messages_num_pending(const pw_core_messages *messages);

typedef struct {
    uint64_t num_sent;    /* bursts, without hellos */
    uint64_t num_dropped; /* messages that were not for this node, or too long */
    uint32_t num_lost;    /* peers */
} pw_core_messages_counters;
/* NULL has none. */
void pw_core_messages_add_counters(const pw_core_messages *messages,
                                   pw_core_messages_counters *sum);
/* What has not left is lost. is_owner: false in a forked child, which must not touch the endpoint
 * of its parent. */
void pw_core_messages_close(pw_core_messages *messages, bool is_owner);
#endif
