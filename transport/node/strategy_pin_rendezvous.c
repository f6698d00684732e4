/* Memory strategy `pin-rendezvous`: each end pins a message piece by piece while the handshake and
 * the pieces before are on their way, and unpins a piece when it has gone through. Memory that
 * peers know by its address, and what is read and written one-sided, is pinned as a whole. */
#include <stdlib.h>

#include "transport/node/strategy_pages.h"
#include "transport/node/strategy_whole_pins.h"

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    if (access & PW_ACCESS_MESSAGE) { /* its pieces will be */
        *out = (pw_lease){.span = span};
        return PW_OK;
    }
    return pw_strategy_pin.acquire(self, span, access, out);
}

static int release(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    if (lease->token) return pw_strategy_pin.release(self, lease, cost);
    *cost = (pw_strategy_cost){0};
    return PW_OK;
}

static uint64_t piece_bytes(void *self)
{
    return (uint64_t)pw_strategy_pin_context(self)->settings->piece_bytes;
}

static void freed(void *self, const pw_lease *lease, int64_t free_ns)
{
    (void)self, (void)lease, (void)free_ns;
}

static int create(pw_strategy_context *context, void **self)
{
    return pw_strategy_pin.create(context, self);
}

static void destroy(void *self) { pw_strategy_pin.destroy(self); }

static int acquire_piece(void *self, pw_span span, int access, pw_lease *out)
{
    return pw_strategy_pin.acquire(self, span, access, out);
}

static int release_piece(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    return pw_strategy_pin.release(self, lease, cost);
}

static const pw_piece_ops pieces = {
    .piece_bytes = piece_bytes,
    .acquire = acquire_piece,
    .release = release_piece,
    .freed = freed,
    .is_ahead = true,
};

const pw_strategy_ops pw_strategy_pin_rendezvous = {
    .name = "pin-rendezvous",
    .summary = "pin each message in pieces, while its handshake and its first pieces travel",
    .create = create,
    .destroy = destroy,
    .acquire = acquire,
    .release = release,
    .invalidated = pw_strategy_nothing_known,
    .pieces = &pieces,
};
