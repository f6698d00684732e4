/* How messages go under a strategy that does more for them than to lease the whole span: in pieces,
 * or through firehoses. A strategy names its way in its ops; the node asks here, and keeps what the
 * way has made for it (node->way_state). One thread at a time. */
#ifndef PW_NODE_STRATEGIES_MESSAGE_WAY_H
#define PW_NODE_STRATEGIES_MESSAGE_WAY_H
#include "node/node.h"

/* Functions return PW_OK, or a negative PW_ERR_* with a reason. */
struct pw_message_way {
    /* *state, for a node among num_started. *reason: a sentence for PW_ERR_*, lives for ever. */
    int (*create)(pw_node *node, uint32_t num_started, void **state, const char **reason);
    void (*destroy)(pw_node *node);
    /* Do messages with the peer go this way? NULL: with every one. */
    bool (*concerns)(const pw_node *node, uint32_t peer);
    /* A message of at least one byte begins; the handle has its lease, and gets address and key for
     * the host's rendezvous message. 1: it is done when the way says so; 0: it goes as a whole. */
    int (*offer)(pw_node *node, pw_handle *handle, uint64_t address);
    /* The handle says what is read, from source_address on with its key, at at_ns. 1: the way reads
     * it; 0: it goes as a whole. */
    int (*fetch)(pw_node *node, pw_handle *handle, uint64_t source_address, int64_t at_ns);
    /* A transfer of a part is over: handle->piece_of is the way's own. */
    int (*finish)(pw_node *node, pw_handle *part, const pw_host_event *event);
    /* A message between nodes, which is sound. PW_ERR_MALFORMED: it is about nothing here. */
    int (*message)(pw_node *node, uint32_t source, const pw_envelope *envelope);
    /* For errors: what such messages are about, and what one is about that is about nothing. */
    const char *about, *unknown;
};

extern const pw_message_way pw_way_in_pieces;

/* The library's progress thread, on a core of its own: it takes its turn in the calendar `library`
 * and not on the clock of the CPU, so that nothing hangs on when the program comes by. And what
 * nodes tell each other by it. */

/* The thread works for so long, at the first time from at_ns on that it can; when it is through. */
int64_t pw_library_work(pw_node *node, int64_t at_ns, int64_t duration_ns);
/* When it has read a message. They come between its other work and do not delay it: in which order
 * both are noticed here is chance. */
int64_t pw_library_read_ns(const pw_node *node, const pw_envelope *envelope);
/* Send a message between nodes; what the numbers mean is the kind's. */
int pw_library_tell(pw_node *node, uint32_t peer, uint8_t kind, uint64_t address,
                    uint64_t num_bytes, uint64_t key, uint64_t extra, int64_t at_ns);

#endif
