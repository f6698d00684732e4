#include "transport/facade/wire_mpi.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "native/on_core.h"
#include "native/array.h"
#include "native/frames.h"
#include "node/clock.h"

#define TAG 1
#define RECEIVES 4
#define FIRST_SENDS 64
#define GIVE_UP_NS INT64_C(1000000000)
/* A look at MPI costs as much as some tens of looks at shared memory, so with bursts arriving there
 * MPI is looked at in every so many polls only; also without far nodes, for the progress of the
 * program's own messages. With more nodes than cores the core may be away for long in each poll. */
#define POLLS_PER_MPI_POLL 64
#define POLLS_PER_MPI_POLL_CROWDED 16
/* From so many nodes a core on a rank that waits rests at its bell: with fewer it waits for a short
 * time, and a rest takes longer than the yields do. */
#define NODES_A_CORE_TO_REST 4

/* ---- bursts by MPI messages on a private communicator
 *
 * Several receives are posted ahead, several sends are under way. One thread at a time; MPI must
 * allow calls from it. */

typedef struct {
    pw_mpi_handle request;
    uint8_t *data;
} message;

typedef struct {
    const pw_mpi_library *mpi;
    pw_mpi_handle comm;
    message receives[RECEIVES];
    /* Posted ones in the order of their posting, in which MPI fills them. */
    uint32_t posted[RECEIVES];
    uint32_t first_posted, num_posted;
    message *sends;
    uint32_t num_sends, sends_room;
    uint32_t look; /* the send that `sent` looks at next */
    bool has_peers;
    int error; /* of a call that could not answer with it: the next one does */
    char reason[256];
} mpi_bursts;

static int check(mpi_bursts *bursts, int code, const char *function)
{
    char text[PW_MPI_ERROR_CHARS] = "";
    int num_chars;
    if (!code) return PW_OK;
    bursts->mpi->error_string(code, text, &num_chars);
    snprintf(bursts->reason, sizeof bursts->reason, "%s of a burst failed with code %d: %.180s",
             function, code, text);
    bursts->error = PW_ERR_HOST;
    errno = ECOMM;
    return PW_ERR_HOST;
}

static int post(mpi_bursts *bursts, uint32_t idx)
{
    int code = bursts->mpi->start(&bursts->receives[idx].request);
    if (code) return check(bursts, code, "MPI_Start");
    bursts->posted[(bursts->first_posted + bursts->num_posted) % RECEIVES] = idx;
    bursts->num_posted++;
    return PW_OK;
}

static int make_receives(mpi_bursts *bursts)
{
    const pw_mpi_library *mpi = bursts->mpi;
    for (uint32_t i = 0; i < RECEIVES; i++) {
        message *it = &bursts->receives[i];
        it->data = aligned_alloc(64, PW_BURST_BYTES);
        if (!it->data) return PW_ERR_NOMEM;
        int code = mpi->recv_init(it->data, PW_BURST_BYTES, mpi->byte, mpi->any_source, TAG,
                                  bursts->comm, &it->request);
        if (code) return check(bursts, code, "MPI_Recv_init");
        if (post(bursts, i)) return PW_ERR_HOST;
    }
    return PW_OK;
}

/* PW_ERR_NOMEM; PW_ERR_HOST: an MPI call failed, as `reason` says. has_peers: else nothing is
 * received, only MPI's own progress made. */
static int mpi_bursts_create(const pw_mpi_library *mpi, pw_mpi_handle comm, bool has_peers,
                             mpi_bursts **out)
{
    mpi_bursts *bursts = calloc(1, sizeof *bursts);
    if (!bursts) return PW_ERR_NOMEM;
    *out = bursts; /* also when it fails: it tells the reason, and is to be destroyed */
    bursts->mpi = mpi;
    bursts->comm = comm;
    bursts->has_peers = has_peers;
    return has_peers ? make_receives(bursts) : PW_OK;
}

static int test(mpi_bursts *bursts, pw_mpi_handle *request, bool *is_done, pw_mpi_status *status)
{
    int flag = 0;
    int code = bursts->mpi->test(request, &flag, status);
    *is_done = flag != 0;
    return code ? check(bursts, code, "MPI_Test") : PW_OK;
}

static uint8_t *mpi_bursts_sent(mpi_bursts *bursts)
{
    pw_mpi_status status;
    bool is_done;
    while (bursts->look < bursts->num_sends && !bursts->error) {
        message *it = &bursts->sends[bursts->look];
        if (test(bursts, &it->request, &is_done, &status)) break;
        if (is_done) {
            uint8_t *data = it->data;
            *it = bursts->sends[--bursts->num_sends];
            return data;
        }
        bursts->look++;
    }
    bursts->look = 0;
    return NULL;
}

static void finish_sends(mpi_bursts *bursts)
{
    const int64_t end_ns = pw_clock_wall_ns() + GIVE_UP_NS;
    while (bursts->num_sends && !bursts->error && pw_clock_wall_ns() < end_ns)
        if (!mpi_bursts_sent(bursts)) sched_yield();
    for (uint32_t i = 0; i < bursts->num_sends; i++) {
        bursts->mpi->cancel(&bursts->sends[i].request);
        bursts->mpi->request_free(&bursts->sends[i].request);
    }
}

/* Takes posted receives back. Sends that nobody receives within a second are given up: no peer may
 * need them any more. */
static void mpi_bursts_destroy(mpi_bursts *bursts)
{
    pw_mpi_status status;
    if (!bursts) return;
    finish_sends(bursts);
    for (; bursts->num_posted; bursts->num_posted--) {
        message *it = &bursts->receives[bursts->posted[bursts->first_posted]];
        bursts->mpi->cancel(&it->request);
        bursts->mpi->wait(&it->request, &status);
        bursts->first_posted = (bursts->first_posted + 1) % RECEIVES;
    }
    for (uint32_t i = 0; i < RECEIVES; i++) {
        message *it = &bursts->receives[i];
        if (it->request) bursts->mpi->request_free(&it->request);
        free(it->data);
    }
    free(bursts->sends);
    free(bursts);
}

static int mpi_bursts_send(mpi_bursts *bursts, uint32_t peer, uint8_t *data, uint32_t num_bytes,
                           bool *is_free)
{
    const pw_mpi_library *mpi = bursts->mpi;
    pw_mpi_status status;
    message out = {0, data};
    if (bursts->error) return bursts->error;
    if (!bursts->has_peers || !num_bytes || num_bytes > PW_BURST_BYTES) return PW_ERR_INVALID;
    if (PW_ARRAY_MAKE_ROOM(bursts->sends, bursts->num_sends, bursts->sends_room, FIRST_SENDS) < 0)
        return PW_ERR_NOMEM;
    int code =
        mpi->isend(data, (int)num_bytes, mpi->byte, (int)peer, TAG, bursts->comm, &out.request);
    if (code) return check(bursts, code, "MPI_Isend");
    code = test(bursts, &out.request, is_free, &status);
    if (!code && !*is_free) bursts->sends[bursts->num_sends++] = out;
    return code;
}

/* Without a request of its own a process makes no progress for messages of others. */
static int progress(mpi_bursts *bursts)
{
    const pw_mpi_library *mpi = bursts->mpi;
    pw_mpi_status status;
    int flag;
    int code = mpi->iprobe(mpi->any_source, TAG, bursts->comm, &flag, &status);
    return code ? check(bursts, code, "MPI_Iprobe") : PW_OK;
}

static int mpi_bursts_poll(mpi_bursts *bursts, pw_wire_burst *out)
{
    pw_mpi_status status;
    bool is_done;
    int num_bytes;
    if (bursts->error) return bursts->error;
    if (!bursts->num_posted) return progress(bursts);
    const uint32_t idx = bursts->posted[bursts->first_posted];
    message *it = &bursts->receives[idx];
    if (test(bursts, &it->request, &is_done, &status)) return PW_ERR_HOST;
    if (!is_done) return 0;
    bursts->first_posted = (bursts->first_posted + 1) % RECEIVES;
    bursts->num_posted--;
    int code = bursts->mpi->get_count(&status, bursts->mpi->byte, &num_bytes);
    if (code) return check(bursts, code, "MPI_Get_count");
    out->source = (uint32_t)pw_mpi_source(bursts->mpi, &status);
    out->num_bytes = (uint32_t)num_bytes;
    out->data = it->data;
    out->token = idx;
    return 1;
}

static int mpi_bursts_taken(mpi_bursts *bursts, const pw_wire_burst *burst)
{
    return post(bursts, (uint32_t)burst->token);
}

static uint32_t mpi_bursts_num_pending(const mpi_bursts *bursts) { return bursts->num_sends; }

/* ---- the wire */

typedef struct {
    pw_wire base;
    pw_shared_bursts *shared; /* NULL: all peers are far */
    mpi_bursts *mpi;
    uint32_t num_near, num_far;
    uint32_t num_polls; /* since MPI was looked at, which is done in every so many */
    uint32_t polls_per_look;
    bool may_rest; /* at the bell of the shared memory, where all peers are */
    uint64_t num_by_mpi;
} wire_mpi;

static wire_mpi *self_of(pw_wire *wire) { return (wire_mpi *)wire; }

static int wire_send(pw_wire *wire, uint32_t peer, uint8_t *data, uint32_t num_bytes, bool *is_free)
{
    wire_mpi *self = self_of(wire);
    if (peer >= wire->num_nodes || peer == wire->node) return PW_ERR_INVALID;
    if (self->shared && pw_shared_is_near(self->shared, peer))
        return pw_shared_send(self->shared, peer, data, num_bytes, is_free);
    const int code = mpi_bursts_send(self->mpi, peer, data, num_bytes, is_free);
    self->num_by_mpi += !code;
    return code;
}

static uint8_t *wire_sent(pw_wire *wire)
{
    wire_mpi *self = self_of(wire);
    uint8_t *data = self->shared ? pw_shared_sent(self->shared) : NULL;
    return data ? data : mpi_bursts_sent(self->mpi);
}

static int wire_poll(pw_wire *wire, pw_wire_burst *out)
{
    wire_mpi *self = self_of(wire);
    const bool is_mpis_turn = ++self->num_polls >= self->polls_per_look;
    if (self->shared && !is_mpis_turn) {
        const int code = pw_shared_poll(self->shared, out);
        if (code) return code;
        if (!self->num_far) return 0;
    }
    self->num_polls = 0;
    const int code = mpi_bursts_poll(self->mpi, out);
    if (code || !self->shared || !is_mpis_turn) return code;
    return pw_shared_poll(self->shared, out);
}

/* Tokens of MPI's bursts are small numbers, the shared ones' are addresses. */
static void wire_taken(pw_wire *wire, const pw_wire_burst *burst)
{
    wire_mpi *self = self_of(wire);
    if (burst->token >= PW_PAGE_BYTES) pw_shared_taken(self->shared, burst);
    else mpi_bursts_taken(self->mpi, burst); /* the next poll says it when it failed */
}

static uint32_t wire_num_pending(const pw_wire *wire)
{
    const wire_mpi *self = (const wire_mpi *)wire;
    const uint32_t num_shared = self->shared ? pw_shared_num_pending(self->shared) : 0;
    return num_shared + mpi_bursts_num_pending(self->mpi);
}

static uint8_t *wire_allocate(pw_wire *wire, size_t num_bytes)
{
    wire_mpi *self = self_of(wire);
    return self->num_near ? pw_shared_allocate(self->shared, num_bytes) : NULL;
}

static pw_promise_place *wire_promises(const pw_wire *wire, uint32_t node, uint32_t peer)
{
    const wire_mpi *self = (const wire_mpi *)wire;
    return self->shared ? pw_shared_promises(self->shared, node, peer) : NULL;
}

/* What comes by MPI does not ring, and the program's own messages want MPI looked at. */
static bool wire_rest(const pw_wire *wire, pw_wire_rest *out)
{
    const wire_mpi *self = (const wire_mpi *)wire;
    if (self->may_rest && pw_shared_rest(self->shared, out)) return true;
    *out = (pw_wire_rest){.num_near = self->num_near};
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
    mpi_bursts_destroy(self->mpi);
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
    .promises = wire_promises,
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
    const uint32_t num_cores = pw_num_cores();
    self->polls_per_look =
        self->num_near < num_cores ? POLLS_PER_MPI_POLL : POLLS_PER_MPI_POLL_CROWDED;
    self->may_rest = shared && !self->num_far && (num_nodes / NODES_A_CORE_TO_REST) >= num_cores;
    const int code = mpi_bursts_create(mpi, comm, self->num_far > 0, &self->mpi);
    if (code) {
        if (self->mpi) snprintf(reason, reason_bytes, "%s", self->mpi->reason);
        wire_close(&self->base);
        return code;
    }
    *out = &self->base;
    return PW_OK;
}
