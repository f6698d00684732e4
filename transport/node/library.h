/* The library's progress thread, on a core of its own: it takes its turn in the calendar `library`
 * and not on the clock of the CPU, so that nothing hangs on when the program comes by. And what
 * nodes tell each other by it. */
#ifndef PW_NODE_LIBRARY_H
#define PW_NODE_LIBRARY_H
#include "transport/node/node.h"

/* The thread works for so long, at the first time from at_ns on that it can; when it is through. */
int64_t pw_library_work(pw_node *node, int64_t at_ns, int64_t duration_ns);
/* When it has read a message. They come between its other work and do not delay it: in which order
 * both are noticed here is chance. */
int64_t pw_library_read_ns(const pw_node *node, const pw_envelope *envelope);
/* Send a message between nodes; what the numbers mean is the kind's. */
int pw_library_tell(pw_node *node, uint32_t peer, uint8_t kind, uint64_t address,
                    uint64_t num_bytes, uint64_t key, uint64_t extra, int64_t at_ns);
#endif
