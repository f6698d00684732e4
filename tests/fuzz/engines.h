/* Three engines in one process: node 0, which is attacked, node 1, its honest peer, and node 2, an
 * engine like the others on whose wire to node 0 a stranger writes. Bursts are carried in heap
 * blocks of their exact length, so that a sanitizer sees a look behind their end. */
#ifndef TESTS_FUZZ_ENGINES_H
#define TESTS_FUZZ_ENGINES_H
#include <sys/mman.h>

#include "native/frames.h"
#include "ni/ni.h"
#include "tests/c/platform.h"
#include "tests/fuzz/input.h"

#define NODES 3
#define PDID 1
#define TRANSFERS_MAX 48
#define OPEN_BYTES ((size_t)256 << 10)      /* that a peer with the right PDID may write */
#define SHOWN_BYTES ((size_t)64 << 10)      /* of it: registered for reading */
#define FIXED_BYTES ((size_t)64 << 10)      /* behind: can be read only */
#define SPACE_BYTES ((size_t)6 << 30)       /* behind: nothing; a transfer has 4 GiB at most */
#define PRIVATE_BYTES ((size_t)128 << 10)   /* of each node: nobody else's business */
#define SECRET UINT64_C(0x5ec7e75ec7e75ec7) /* fills node 0's; must not leave but for node 1 */

typedef struct carried {
    struct carried *next;
    uint32_t source, num_bytes;
    uint8_t *data;
} carried;

typedef struct {
    uint64_t id;
    uint32_t node, peer; /* who started it; the other */
    uint64_t source, destination, num_bytes;
    bool done;
    int32_t error;
} transfer;

typedef struct {
    pw_ni *ni[NODES];
    pw_memory *memory[NODES];
    uint8_t *private[NODES];
    carried *first[NODES], *last[NODES]; /* inboxes */
    transfer transfers[TRANSFERS_MAX];
    uint32_t num_transfers;
    bool is_stuck; /* a node said that nothing can go on: frames of the model, the mailbox */
    uint64_t shown_key;
} engines;

/* Once a process: where all may write, and the private memory. */
extern uint8_t *open_memory;

void engines_map(engines *all);
void engines_begin(engines *all, const pw_settings *settings, const pw_impairment_site *plan,
                   uint32_t site);
void engines_end(engines *all);
/* Copies. */
void engines_carry(engines *all, uint32_t from, uint32_t to, const uint8_t *data,
                   uint32_t num_bytes);
/* Every burst that is here is taken, every engine runs: whether anything moved. */
bool engines_turn(engines *all);
/* Seen by whoever wants to: each burst of an engine. */
extern void (*engines_watch)(uint32_t from, uint32_t to, const uint8_t *data, uint32_t num_bytes);
/* Starts one when there is room for it. `is_read`: node reads from peer. */
void engines_start(engines *all, uint32_t node, uint32_t peer, uint64_t source,
                   uint64_t destination, uint64_t num_bytes, bool is_read, uint64_t at_ns);
#endif
