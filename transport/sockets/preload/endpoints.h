/* What the preloaded library's files share: whose a descriptor is. */
#ifndef PW_SOCKETS_PRELOAD_ENDPOINTS_H
#define PW_SOCKETS_PRELOAD_ENDPOINTS_H
#include "transport/sockets/preload/next_calls.h"
#include <stdbool.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct {
    char kind;
    unsigned family, node, port, peer, peer_port, agent, number;
} identity;

/* Is the descriptor an emulated one, and whose? errno stays. */
bool identify(int fd, identity *out);
/* Has the connect that was not waited for ended, and how? errno stays. */
bool read_outcome(int fd, int *error);
/* Would connect with these go over the emulated network? */
bool is_for_us(int fd, const void *address, uint32_t length);
/* What one socket was told of timeouts, buffers and the like, the other one gets too.
 * has_send_buffer: also that, which is the agent's while a connect goes on. */
void carry_options(int from, int to, bool has_send_buffer);
#endif
