#include "transport/facade/mpi_bursts.h"
#include "native/array.h"
#include "node/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define TAG 1
#define RECEIVES 4
#define FIRST_SENDS 64
#define GIVE_UP_NS INT64_C(1000000000)

typedef struct {
    pw_mpi_handle request;
    uint8_t *data;
} message;

struct pw_mpi_bursts {
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
};

static int check(pw_mpi_bursts *bursts, int code, const char *function)
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

static int post(pw_mpi_bursts *bursts, uint32_t idx)
{
    int code = bursts->mpi->start(&bursts->receives[idx].request);
    if (code) return check(bursts, code, "MPI_Start");
    bursts->posted[(bursts->first_posted + bursts->num_posted) % RECEIVES] = idx;
    bursts->num_posted++;
    return PW_OK;
}

static int make_receives(pw_mpi_bursts *bursts)
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

int pw_mpi_bursts_create(const pw_mpi_library *mpi, pw_mpi_handle comm, bool has_peers,
                         pw_mpi_bursts **out)
{
    pw_mpi_bursts *bursts = calloc(1, sizeof *bursts);
    if (!bursts) return PW_ERR_NOMEM;
    *out = bursts; /* also when it fails: it tells the reason, and is to be destroyed */
    bursts->mpi = mpi;
    bursts->comm = comm;
    bursts->has_peers = has_peers;
    return has_peers ? make_receives(bursts) : PW_OK;
}

static void finish_sends(pw_mpi_bursts *bursts)
{
    const int64_t end_ns = pw_clock_wall_ns() + GIVE_UP_NS;
    while (bursts->num_sends && !bursts->error && pw_clock_wall_ns() < end_ns)
        if (!pw_mpi_bursts_sent(bursts)) sched_yield();
    for (uint32_t i = 0; i < bursts->num_sends; i++) {
        bursts->mpi->cancel(&bursts->sends[i].request);
        bursts->mpi->request_free(&bursts->sends[i].request);
    }
}

void pw_mpi_bursts_destroy(pw_mpi_bursts *bursts)
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

static int test(pw_mpi_bursts *bursts, pw_mpi_handle *request, bool *is_done, pw_mpi_status *status)
{
    int flag = 0;
    int code = bursts->mpi->test(request, &flag, status);
    *is_done = flag != 0;
    return code ? check(bursts, code, "MPI_Test") : PW_OK;
}

int pw_mpi_bursts_send(pw_mpi_bursts *bursts, uint32_t peer, uint8_t *data, uint32_t num_bytes,
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

uint8_t *pw_mpi_bursts_sent(pw_mpi_bursts *bursts)
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

/* Without a request of its own a process makes no progress for messages of others. */
static int progress(pw_mpi_bursts *bursts)
{
    const pw_mpi_library *mpi = bursts->mpi;
    pw_mpi_status status;
    int flag;
    int code = mpi->iprobe(mpi->any_source, TAG, bursts->comm, &flag, &status);
    return code ? check(bursts, code, "MPI_Iprobe") : PW_OK;
}

int pw_mpi_bursts_poll(pw_mpi_bursts *bursts, pw_wire_burst *out)
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

int pw_mpi_bursts_taken(pw_mpi_bursts *bursts, const pw_wire_burst *burst)
{
    return post(bursts, (uint32_t)burst->token);
}

uint32_t pw_mpi_bursts_num_pending(const pw_mpi_bursts *bursts) { return bursts->num_sends; }

const char *pw_mpi_bursts_reason(const pw_mpi_bursts *bursts) { return bursts->reason; }
