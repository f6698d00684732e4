/* pagewire for C: nodes of an emulated RDMA network, hosted by a C or C++ program. A node has a
 * network interface (NI), an SMMU, a driver that pages in, and a CPU with a virtual clock. Real
 * bytes of the program's own memory travel between the nodes; time is virtual. docs/c-api.md has
 * examples.
 *
 * Names: a node registers memory, which gives a key; a peer that has the key reads from it; nodes
 * write to memory of a peer; the far address and key go to the peer by the program's own means.
 * Addresses of a peer are uint64_t, own ones pointers. Sizes are bytes, times ns: virtual ones
 * since the node was created, unless a name says wall.
 *
 * Results: 0 or more, or a negative PAGEWIRE_ERR_*; pagewire_reason says of which call and why.
 * What a function hands out it writes on success alone.
 *
 * Threads: calls for one node may come from several threads, one waits for the other. Nodes joined
 * by a pagewire_network belong to one thread at a time, all of them. No function may be called from
 * a callback. A fork: see pagewire_forked.
 *
 * Structs that the program fills begin with struct_size, the sizeof that it was compiled with, so
 * that later versions can add members at the end; all of them zero behind it means the default. */
#ifndef PAGEWIRE_H
#define PAGEWIRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAGEWIRE_VERSION "0.1.0"
/* Of the library that is loaded. */
const char *pagewire_version(void);

/* ---- errors ------------------------------------------------------------------------------- */

#define PAGEWIRE_OK 0
#define PAGEWIRE_ERR_NOMEM (-1)         /* the host has no memory */
#define PAGEWIRE_ERR_INVALID (-2)       /* an argument is out of its range */
#define PAGEWIRE_ERR_FULL (-3)          /* a table is full: try again later */
#define PAGEWIRE_ERR_MALFORMED (-4)     /* a burst failed its checks */
#define PAGEWIRE_ERR_ADDRESS (-5)       /* an address is outside of any mapping */
#define PAGEWIRE_ERR_CONTEXT (-6)       /* no context bank for the protection domain */
#define PAGEWIRE_ERR_PROTECTION (-7)    /* domain, key, bounds or mapping forbid the access */
#define PAGEWIRE_ERR_HOST (-8)          /* a system call failed; errno tells why */
#define PAGEWIRE_ERR_UNRECOVERABLE (-9) /* nothing configured can bring a block through */
#define PAGEWIRE_ERR_DEADLOCK (-10)     /* the mailbox of the R5 is blocked for ever */
#define PAGEWIRE_ERR_FRAMES (-11)       /* the model has too few frames for a transfer */

/* What a negative code means, and what to do. Never NULL. */
const char *pagewire_error_text(int code);

/* ---- nodes -------------------------------------------------------------------------------- */

typedef struct pagewire_node pagewire_node;

/* The nodes of one process and one thread, joined by memory: whatever moves one of them moves the
 * others, whose CPUs wait meanwhile. */
typedef struct pagewire_network pagewire_network;

int pagewire_network_create(uint32_t num_nodes, pagewire_network **out);
/* After its nodes. */
void pagewire_network_destroy(pagewire_network *network);

#define PAGEWIRE_BURST_MAX_BYTES 135168
#define PAGEWIRE_BURST_ALIGNMENT 8

/* The program's own means to carry bursts of bytes between the nodes of its run, in order between
 * any two. Called by the thread that calls the library. */
typedef struct {
    size_t struct_size;
    void *context; /* first argument of each */
    /* Takes num_bytes, at most PAGEWIRE_BURST_MAX_BYTES, which are the library's again when it
     * returns. 0, or a negative code, which ends the node's call with it. */
    int (*send)(void *context, uint32_t peer, const void *data, uint32_t num_bytes);
    /* 1: a burst from *peer is here, aligned to PAGEWIRE_BURST_ALIGNMENT, which stays until the
     * next poll; 0: none is; or a negative code. */
    int (*poll)(void *context, uint32_t *peer, const void **data, uint32_t *num_bytes);
    /* The node is destroyed, or was not created. May be NULL. */
    void (*close)(void *context);
} pagewire_wire;

/* What a write or read that ended has left at a notification address of this node. */
typedef struct {
    uint64_t address;
    uint64_t data[2]; /* stand at the address */
    int64_t time_ns;
    int32_t error; /* negative: the transfer failed, and the words are not there */
    uint32_t peer;
} pagewire_notification;

typedef struct {
    size_t struct_size;
    uint32_t node, num_nodes; /* its number, from 0 on, and how many there are */
    /* One of the two: a network of this process, which has num_nodes itself, or a wire, which is
     * copied. */
    pagewire_network *network;
    const pagewire_wire *wire;
    /* Texts "section.name=value" with the names and units of docs/settings.md, and
     * "costs.FIELD=number"; NULL ends the list. NULL: all defaults. */
    const char *const *settings;
    uint32_t protection_domain; /* 0: 1, the same for all nodes of a run */
    uint32_t reserved;
    /* Where pagewire_node_create writes a sentence when it fails; may be NULL. */
    char *reason;
    size_t reason_bytes;
    /* Called for each notification that arrives; may be NULL. */
    void (*notified)(void *context, const pagewire_notification *notification);
    void *context;
} pagewire_options;

/* Everything default, one node alone. */
#define pagewire_options_default(options) \
    pagewire_options_default_sized((options), sizeof *(options))
void pagewire_options_default_sized(pagewire_options *options, size_t struct_size);

int pagewire_node_create(const pagewire_options *options, pagewire_node **out);
/* Its operations and registrations end with it. NULL: nothing. */
void pagewire_node_destroy(pagewire_node *node);
/* Why the node's last call that failed did; until the next one. Never NULL. */
const char *pagewire_reason(const pagewire_node *node);

/* The idx-th setting's name and the idx-th platform's; NULL behind the last. */
const char *pagewire_setting_name(uint32_t idx);
const char *pagewire_platform_name(uint32_t idx);

/* ---- memory ------------------------------------------------------------------------------- */

/* Let any peer that has the key read [address, +num_bytes), at least one byte. What run.memory does
 * to a buffer (touch, pin) is done now and lasts until pagewire_deregister. */
int pagewire_register(pagewire_node *node, void *address, uint64_t num_bytes, uint64_t *key);
/* The key is void from now on. Writes of peers end with an error when the memory is unmapped. */
int pagewire_deregister(pagewire_node *node, uint64_t key);
/* The program has unmapped this range or mapped it anew: translations are dropped. */
int pagewire_unmapped(pagewire_node *node, const void *address, uint64_t num_bytes);
/* This process was forked, so that its pages are shared with a child: call it in the parent.
 * Async-signal-safe. The child must not use the node. */
void pagewire_forked(pagewire_node *node);

/* ---- transfers ---------------------------------------------------------------------------- */

#define PAGEWIRE_TRANSFER_MAX_BYTES 4294967295
#define PAGEWIRE_WINDOW_MAX 64

#define PAGEWIRE_HINT_NONE 0 /* class by size */
#define PAGEWIRE_HINT_HIGH 1
#define PAGEWIRE_HINT_MEDIUM 2
#define PAGEWIRE_HINT_LOW 3

typedef struct {
    size_t struct_size;
    uint32_t hint;          /* PAGEWIRE_HINT_*; of a write alone */
    uint32_t window_blocks; /* outstanding at a time; 0: firmware.window_blocks; of a write alone */
    /* Where two words appear when the last byte is there: at the destination, a multiple of 16; 0:
     * nowhere. */
    uint64_t notification_address;
    uint64_t notification_data[2];
    uint64_t key; /* of a write: what pagewire_register gave there; 0: none */
} pagewire_transfer_options;

/* A transfer under way, until pagewire_test, pagewire_wait or pagewire_forget takes it. */
typedef struct pagewire_operation pagewire_operation;

typedef struct {
    int64_t complete_ns; /* when the node could know */
    uint64_t num_bytes;
    uint32_t peer;
    int32_t error; /* PAGEWIRE_OK, or why nothing can be said of the destination's bytes */
    uint64_t reserved[4];
} pagewire_completion;

/* Write num_bytes (1 to PAGEWIRE_TRANSFER_MAX_BYTES) to an address of the peer's memory. Without a
 * key in the options its protection domain and mapping guard it, as on the machine; the setting
 * ni.write_keys says where one is needed. The source must stay as it is until the operation is
 * over. options: NULL for the default. PAGEWIRE_ERR_FULL: the 32 write channels are taken; take an
 * operation that is over, and try again. */
int pagewire_write(pagewire_node *node, uint32_t peer, const void *source,
                   uint64_t destination_address, uint64_t num_bytes,
                   const pagewire_transfer_options *options, pagewire_operation **out);
/* Read from memory that the peer has registered with that key. Any number can be under way. */
int pagewire_read(pagewire_node *node, uint32_t peer, uint64_t source_address, uint64_t key,
                  void *destination, uint64_t num_bytes, const pagewire_transfer_options *options,
                  pagewire_operation **out);

/* A look at the operation, which costs the CPU some ns. 1: it is over at the node's virtual time,
 * *completion (may be NULL) tells how, and *operation is NULL from now on; 0: it is not. Looking
 * again and again lets virtual time pass. */
int pagewire_test(pagewire_node *node, pagewire_operation **operation,
                  pagewire_completion *completion);
/* Until it is over: the clock goes on to its end. wall_limit_ns: returns 0 after that much wall
 * time without it, negative: never. */
int pagewire_wait(pagewire_node *node, pagewire_operation **operation,
                  pagewire_completion *completion, int64_t wall_limit_ns);
/* Nobody asks for it any more; it goes on. */
void pagewire_forget(pagewire_node *node, pagewire_operation **operation);

/* The CPU does nothing else: the NI serves peers without limit, and the thread yields its core when
 * there is nothing to do. Otherwise the NI runs up to the node's clock. */
#define PAGEWIRE_CPU_WAITS 1u
/* With it: the thread keeps its core also then, because it waits elsewhere, as in epoll. */
#define PAGEWIRE_KEEPS_CORE 2u
/* Move the NI: what has arrived, what is due. 1: something happened, 0: nothing. A node that peers
 * write to or read from must be called now and then. */
int pagewire_progress(pagewire_node *node, uint32_t flags);
/* The transfers and reads of this node and of peers on it that are not over; registrations count.
 */
uint32_t pagewire_num_pending(pagewire_node *node);

/* ---- virtual time ------------------------------------------------------------------------- */

/* The CPU's clock; looking at it costs nothing. */
int64_t pagewire_clock_ns(pagewire_node *node);
/* The same as the emulated program reads it, which costs it some ns. */
int64_t pagewire_clock_read(pagewire_node *node);
/* The program has computed for so long, which passes now, times run.compute_scale. Needs
 * run.compute=model: by default (measured) the thread's own CPU time between the calls counts. */
int pagewire_clock_advance(pagewire_node *node, int64_t compute_ns);
/* The program lets time pass. */
int pagewire_clock_sleep(pagewire_node *node, int64_t duration_ns);
/* The CPU learns of what happened at time_ns, such as a notification: its clock is not before. */
int pagewire_clock_observe(pagewire_node *node, int64_t time_ns);

/* ---- counters ----------------------------------------------------------------------------- */

/* Name of the idx-th counter (docs/report.md), NULL behind the last. */
const char *pagewire_counter_name(uint32_t idx);
uint32_t pagewire_num_counters(void);
/* The first num_values counters by idx; how many were written. */
uint32_t pagewire_read_counters(pagewire_node *node, uint64_t *values, uint32_t num_values);
/* One by name; PAGEWIRE_ERR_INVALID: there is none of that name. */
int pagewire_read_counter(pagewire_node *node, const char *name, uint64_t *value);

/* ---- regions ------------------------------------------------------------------------------ */

/* The program enters a phase by name: 1 to 63 bytes without control characters. What the node
 * counts from now on belongs to it, until a region within is entered, or it is left. Regions are
 * those of the thread that entered the outermost one; for another one meanwhile this does nothing.
 */
int pagewire_region_enter(pagewire_node *node, const char *name);
/* Leave the innermost one. PAGEWIRE_ERR_INVALID: the thread has none open. */
int pagewire_region_leave(pagewire_node *node);
/* 0, or how many rows there are: what lies outside of all regions is row 0, and a region within
 * another one is a row "outer/inner". */
uint32_t pagewire_num_regions(pagewire_node *node);
/* The idx-th row: its name, which the node keeps; how often it was entered; and its share of the
 * first num_values counters. NULL behind the last. Any may be NULL. */
const char *pagewire_region_read(pagewire_node *node, uint32_t idx, uint64_t *entries,
                                 uint64_t *values, uint32_t num_values);

#ifdef __cplusplus
}
#endif
#endif
