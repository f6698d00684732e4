/* What core_messages.c makes and core_sends.c and core_receives.c work with. For these files
 * alone. */
#ifndef PW_FABRIC_CORE_MESSAGES_STATE_H
#define PW_FABRIC_CORE_MESSAGES_STATE_H
#include <sys/socket.h>

#include "transport/fabric/core_messages.h"
#include "transport/fabric/listener_probe.h"
#include "transport/node/waiting_list.h"

#define RECEIVES 8
#define SENDS_AT_ONCE 64 /* allocated together */

/* Completion data of a message: key, whether it is a hello, number among the bursts, source. */
#define NUMBER_MASK 0x7fffu
#define NUMBER_SHIFT 16
#define SOURCE_MASK 0xffffu
#define HELLO_FLAG (1u << 31)
#define KEY_SHIFT 32
_Static_assert(RECEIVES < NUMBER_MASK, "bursts that are here at once have different numbers");

/* The provider's own stands first: a completion names it. */
typedef struct {
    struct fi_context2 context;
    bool is_receive;
} operation;

typedef struct receive {
    operation operation;
    pw_core_messages *messages;
    uint8_t *buffer;
    struct receive *next; /* held, or to be posted */
    uint32_t source, number, num_bytes;
    bool is_hello;
} receive;

typedef struct posted_send {
    operation operation;
    struct posted_send *next; /* free, or done */
    uint8_t *data;
    uint32_t peer;
} posted_send;

typedef struct send_chunk {
    struct send_chunk *next;
    posted_send sends[SENDS_AT_ONCE];
} send_chunk;

typedef struct {
    fi_addr_t address;
    pw_waiting_list waiting; /* in order, for room in the provider */
    uint32_t key;
    uint32_t num_sent, num_received; /* bursts */
    int lost_error;                  /* not 0: lost, by this error of libfabric */
    bool is_added;
    bool is_open;                    /* as a source */
    pw_listener_probe probe;         /* while bursts wait for long */
    struct sockaddr_storage listens; /* at; family AF_UNSPEC: no socket */
    socklen_t listens_bytes;
} message_peer;

struct pw_core_messages {
    pw_core_endpoint core;
    pw_core_messages_options options;
    message_peer *peers;
    receive receives[RECEIVES];
    receive *held; /* here, not handed out yet; in order of arrival */
    uint32_t num_held;
    receive *unposted; /* the provider had no room for them */
    posted_send *free_sends, *done_sends;
    send_chunk *chunks;
    uint32_t *waiting_peers; /* with bursts that wait, each once */
    uint32_t num_waiting_peers;
    pw_waiting_pool pool;
    pw_waiting_list gone; /* waited and were copied or given up; to be given back */
    uint32_t num_pending; /* hellos included */
    uint8_t hello[PW_HELLO_BYTES];
    uint32_t hello_bytes;
    pw_core_messages_counters counters;
};

/* Give it to the provider for the next message. */
void pw_core_receive_post(receive *it);
/* A message is in it. */
void pw_core_receive_arrived(receive *it, uint64_t data, size_t num_bytes);
/* The message in it is nobody's. */
void pw_core_receive_drop(receive *it);
/* The provider is through with it; error: 0, or why it did not get there. */
void pw_core_send_done(pw_core_messages *messages, posted_send *it, int error);
/* What waits goes out, if there is room again. */
void pw_core_send_waiting(pw_core_messages *messages);
/* Read completions. PW_ERR_HOST and a sentence: the endpoint is of no use any more. */
int pw_core_messages_progress(pw_core_messages *messages, pw_sentence *reason);
#endif
