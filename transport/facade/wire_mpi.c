#include "transport/facade/wire_mpi.h"

#include <stdio.h>
#include <stdlib.h>

#include "transport/facade/mpi_bursts.h"

/* A look at MPI costs as much as some tens of looks at shared memory, so with bursts arriving there
 * MPI is looked at in every so many polls only; also without far nodes, for the progress of the
 * program's own messages. */
#define POLLS_PER_MPI_POLL 16

typedef struct {
    pw_wire base;
    pw_shared_bursts *shared; /* NULL: all peers are far */
    pw_mpi_bursts *mpi;
    uint32_t num_near, num_far;
    uint32_t num_polls; /* since MPI was looked at */
    uint64_t num_by_mpi;
} wire_mpi;

static wire_mpi *self_of(pw_wire *wire) { return (wire_mpi *)wire; }

static int wire_send(pw_wire *wire, uint32_t peer, uint8_t *data, uint32_t num_bytes, bool *is_free)
{
    wire_mpi *self = self_of(wire);
    if (peer >= wire->num_nodes || peer == wire->node) return PW_ERR_INVALID;
    if (self->shared && pw_shared_is_near(self->shared, peer))
        return pw_shared_send(self->shared, peer, data, num_bytes, is_free);
    const int code = pw_mpi_bursts_send(self->mpi, peer, data, num_bytes, is_free);
    self->num_by_mpi += !code;
    return code;
}

static uint8_t *wire_sent(pw_wire *wire)
{
    wire_mpi *self = self_of(wire);
    uint8_t *data = self->shared ? pw_shared_sent(self->shared) : NULL;
    return data ? data : pw_mpi_bursts_sent(self->mpi);
}

static int wire_poll(pw_wire *wire, pw_wire_burst *out)
{
    wire_mpi *self = self_of(wire);
    const bool is_mpis_turn = ++self->num_polls >= POLLS_PER_MPI_POLL;
    if (self->shared && !is_mpis_turn) {
        const int code = pw_shared_poll(self->shared, out);
        if (code) return code;
        if (!self->num_far) return 0;
    }
    self->num_polls = 0;
    const int code = pw_mpi_bursts_poll(self->mpi, out);
    if (code || !self->shared || !is_mpis_turn) return code;
    return pw_shared_poll(self->shared, out);
}

/* Tokens of MPI's bursts are small numbers, the shared ones' are addresses. */
static void wire_taken(pw_wire *wire, const pw_wire_burst *burst)
{
    wire_mpi *self = self_of(wire);
    if (burst->token >= PW_PAGE_BYTES) pw_shared_taken(self->shared, burst);
    else pw_mpi_bursts_taken(self->mpi, burst); /* the next poll says it when it failed */
}

static uint32_t wire_num_pending(const pw_wire *wire)
{
    const wire_mpi *self = (const wire_mpi *)wire;
    const uint32_t num_shared = self->shared ? pw_shared_num_pending(self->shared) : 0;
    return num_shared + pw_mpi_bursts_num_pending(self->mpi);
}

static uint8_t *wire_allocate(pw_wire *wire, size_t num_bytes)
{
    wire_mpi *self = self_of(wire);
    return self->num_near ? pw_shared_allocate(self->shared, num_bytes) : NULL;
}

/* What comes by MPI does not ring, and the program's own messages want MPI looked at. */
static bool wire_rest(const pw_wire *wire, pw_wire_rest *out)
{
    *out = (pw_wire_rest){.num_near = ((const wire_mpi *)wire)->num_near};
    return true;
}

static void wire_count(const pw_wire *wire, pw_wire_counts *out)
{
    const wire_mpi *self = (const wire_mpi *)wire;
    pw_shared_counters shared = {0};
    if (self->shared) pw_shared_read_counters(self->shared, &shared);
    *out = (pw_wire_counts){.num_short = shared.num_short,
                            .num_in_place = shared.num_in_place,
                            .num_copied = shared.num_copied,
                            .num_by_message = self->num_by_mpi};
}

static void wire_close(pw_wire *wire)
{
    wire_mpi *self = self_of(wire);
    pw_mpi_bursts_destroy(self->mpi);
    pw_shared_destroy(self->shared);
    free(self);
}

static const pw_wire_ops ops = {
    .send = wire_send,
    .sent = wire_sent,
    .poll = wire_poll,
    .taken = wire_taken,
    .num_pending = wire_num_pending,
    .allocate = wire_allocate,
    .rest = wire_rest,
    .count = wire_count,
    .close = wire_close,
};

int pw_wire_mpi_create(const pw_mpi_library *mpi, pw_mpi_handle comm, uint32_t node,
                       uint32_t num_nodes, pw_shared_bursts *shared, char *reason,
                       size_t reason_bytes, pw_wire **out)
{
    wire_mpi *self = calloc(1, sizeof *self);
    if (!self) {
        pw_shared_destroy(shared);
        return PW_ERR_NOMEM;
    }
    self->base = (pw_wire){&ops, node, num_nodes};
    self->shared = shared;
    for (uint32_t peer = 0; shared && peer < num_nodes; peer++)
        self->num_near += pw_shared_is_near(shared, peer);
    self->num_far = num_nodes - 1 - self->num_near;
    const int code = pw_mpi_bursts_create(mpi, comm, self->num_far > 0, &self->mpi);
    if (code) {
        if (self->mpi) snprintf(reason, reason_bytes, "%s", pw_mpi_bursts_reason(self->mpi));
        wire_close(&self->base);
        return code;
    }
    *out = &self->base;
    return PW_OK;
}
