/* Several endpoints, endpoints that close with everything under way, threads. */
#include <pthread.h>
#include <stdatomic.h>

#include "api.h"

#define BYTES 300000
#define NUM_THREADS 4
#define NUM_ROUNDS 60

/* Two endpoints a process: what is sent to one is not the other's. */
API_CASE(two_endpoints, 2)
{
    char name[API_NAME_BYTES], names[API_PROCESSES_MAX][API_NAME_BYTES], landed[2] = {0};
    fi_addr_t others[2], source;
    api_endpoint second;
    api_open_endpoint(self, &(api_options){0}, &second);
    api_name(&second, name);
    api_gather(self, name, sizeof name, names);
    for (uint32_t i = 0; i < 2; i++) others[i] = api_insert(&self->main, names[i]);
    for (uint32_t i = 0; i < 2; i++) second.peers[i] = api_insert(&second, names[i]);
    if (self->rank == 0) {
        SAME(fi_tinject(self->main.ep, "a", 1, self->main.peers[1], 1), 0);
        SAME(fi_tinject(self->main.ep, "b", 1, others[1], 1), 0);
        SAME(fi_tinject(second.ep, "c", 1, second.peers[1], 1), 0);
        api_barrier(self);
    } else {
        /* The second's receive is the first's no more than the other way round. */
        SAME(fi_trecv(second.ep, &landed[0], 1, NULL, second.peers[0], 1, 0, NULL), 0);
        api_wait(second.rx, &source);
        CHECK(landed[0] == 'c' && source == second.peers[0]);
        SAME(fi_trecv(second.ep, &landed[1], 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        api_wait(second.rx, &source);
        CHECK(landed[1] == 'b' && source == FI_ADDR_NOTAVAIL); /* which it does not know */
        SAME(fi_trecv(self->main.ep, &landed[0], 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        api_wait(self->main.rx, &source);
        CHECK(landed[0] == 'a' && source == self->main.peers[0]);
        api_barrier(self);
    }
    api_close_endpoint(&second);
}

API_CASE(every_number, 1)
{
    struct fid_ep *eps[100];
    int num_open = 0, code;
    while ((code = fi_endpoint(self->domain, self->info, &eps[num_open], NULL)) == 0)
        CHECK(++num_open < 100);
    SAME(code, -FI_EMFILE);
    SAME(num_open + 1, self->info->domain_attr->ep_cnt);
    while (num_open) SAME(fi_close(&eps[--num_open]->fid), 0);
}

/* An endpoint closes amid everything; its process and the peer's go on with others. */
API_CASE(closing, 2)
{
    static char out[40][BYTES], in[4][BYTES], room[4 * BYTES];
    char name[API_NAME_BYTES], names[API_PROCESSES_MAX][API_NAME_BYTES];
    uint64_t target[2] = {(uintptr_t)in[3], 0}, targets[API_PROCESSES_MAX][2];
    struct fid_mr *region;
    api_endpoint second;
    SAME(fi_mr_reg(self->domain, in[3], BYTES, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &region,
                   NULL),
         0);
    target[1] = fi_mr_key(region);
    api_gather(self, target, sizeof target, targets);
    const uint64_t *at = targets[1 - self->rank];
    const uint64_t one = 1;
    for (int round = 0; round < 3; round++) {
        api_open_endpoint(self, &(api_options){0}, &second);
        api_name(&second, name);
        api_gather(self, name, sizeof name, names);
        const fi_addr_t peer = api_insert(&second, names[1 - self->rank]);
        const struct iovec iov = {room, sizeof room};
        const struct iovec parts[] = {{in[1], BYTES / 2}, {in[1] + BYTES / 2, BYTES / 2}};
        const struct fi_msg multi = {&iov, NULL, 1, FI_ADDR_UNSPEC, room, 0};
        struct fi_msg_tagged claim = {.addr = FI_ADDR_UNSPEC, .tag = 4, .context = name};
        SAME(fi_trecv(second.ep, in[0], BYTES, NULL, peer, 1, 0, NULL), 0);
        SAME(fi_trecvv(second.ep, parts, NULL, 2, peer, 2, 0, NULL), 0);
        SAME(fi_recvmsg(second.ep, &multi, FI_MULTI_RECV), 0);
        api_barrier(self);
        for (uint32_t tag = 1; tag <= 4; tag++)
            SAME(fi_tsend(second.ep, out[tag], BYTES, NULL, peer, tag, NULL), 0);
        SAME(fi_send(second.ep, out[5], BYTES, NULL, peer, NULL), 0);
        SAME(fi_send(second.ep, out[5], BYTES, NULL, peer, NULL), 0);
        if (round > 0) api_progress(self); /* else nothing has begun */
        for (uint32_t i = 0; i < 40; i++)
            SAME(fi_write(second.ep, out[i], BYTES, NULL, peer, at[0], at[1], NULL), 0);
        SAME(fi_read(second.ep, in[2], BYTES, NULL, peer, at[0], at[1], NULL), 0);
        SAME(fi_fetch_atomic(second.ep, &one, 1, NULL, in[2], NULL, peer, at[0], at[1], FI_UINT64,
                             FI_SUM, NULL),
             0);
        SAME(fi_trecvmsg(second.ep, &claim, FI_PEEK | FI_CLAIM), 0);
        if (round > 1) api_progress(self);
        api_close_endpoint(&second);
        api_barrier(self);
        /* The other endpoints know nothing of it. */
        api_fill(out[0], BYTES, 9);
        memset(in[2], 0, BYTES);
        SAME(fi_trecv(self->main.ep, in[2], BYTES, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        SAME(
            fi_tsend(self->main.ep, out[0], BYTES, NULL, self->main.peers[1 - self->rank], 1, NULL),
            0);
        api_wait(self->main.rx, NULL);
        api_wait(self->main.tx, NULL);
        CHECK(api_is_filled(in[2], BYTES, 9)); /* what the read would have changed */
        api_check_silent(self->main.rx);
        api_check_silent(self->main.tx);
        api_barrier(self);
    }
    SAME(fi_close(&region->fid), 0);
}

/* An atomic operation for an endpoint that has closed ends with an error. */
API_CASE(closed_peer, 2)
{
    char name[API_NAME_BYTES], names[API_PROCESSES_MAX][API_NAME_BYTES];
    const uint64_t one = 1;
    api_endpoint second;
    api_open_endpoint(self, &(api_options){0}, &second);
    api_name(&second, name);
    api_gather(self, name, sizeof name, names);
    if (self->rank == 1) api_close_endpoint(&second);
    api_barrier(self);
    if (self->rank == 0) {
        const fi_addr_t gone = api_insert(&second, names[1]);
        SAME(fi_atomic(second.ep, &one, 1, NULL, gone, 0, 0, FI_UINT64, FI_SUM, NULL), 0);
        SAME(api_wait_error(second.tx).err, FI_ECONNREFUSED);
    }
    api_barrier(self);
    if (self->rank == 0) api_close_endpoint(&second);
}

/* ---- messages that nobody receives */

/* The process must not wait for long for a receive that never comes. */
API_BARE_CASE(unread, 1)
{
    static char message[100000];
    api_begin(self);
    SAME(fi_tsend(self->main.ep, message, sizeof message, NULL, self->main.peers[0], 1, NULL), 0);
    const double begun_s = api_wall_s();
    api_end(self);
    CHECK(api_wall_s() - begun_s < 8);
}

/* ---- threads */

static api *shared;

static void reap(struct fid_cq *cq, atomic_int *done, int wanted)
{
    while (atomic_load(done) < wanted) {
        struct fi_cq_tagged_entry entries[3];
        const ssize_t count = fi_cq_read(cq, entries, 3);
        CHECK(count == -FI_EAGAIN || (count > 0 && count <= 3));
        for (ssize_t i = 0; i < count; i++)
            atomic_fetch_add((atomic_int *)entries[i].op_context, 1);
    }
}

static void *exchange(void *argument)
{
    const uint64_t tag = (uintptr_t)argument;
    const fi_addr_t peer = shared->main.peers[1 - shared->rank];
    struct fid_ep *ep = shared->main.ep;
    const size_t sizes[] = {8, 500, 20000};
    atomic_int num_sent = 0, num_received = 0;
    char out[20000], in[20000];
    for (int round = 0; round < NUM_ROUNDS; round++) {
        const size_t num_bytes = sizes[round % 3];
        const uint32_t seed = (uint32_t)(round * NUM_THREADS) + (uint32_t)tag;
        api_fill(out, num_bytes, seed);
        memset(in, 0, num_bytes);
        SAME(fi_trecv(ep, in, num_bytes, NULL, peer, tag, 0, &num_received), 0);
        SAME(fi_tsend(ep, out, num_bytes, NULL, peer, tag, &num_sent), 0);
        reap(shared->main.rx, &num_received, round + 1);
        reap(shared->main.tx, &num_sent, round + 1);
        CHECK(api_is_filled(in, num_bytes, seed));
    }
    return NULL;
}

API_CASE(threads, 2)
{
    pthread_t ids[NUM_THREADS];
    shared = self;
    for (uintptr_t i = 0; i < NUM_THREADS; i++)
        CHECK(!pthread_create(&ids[i], NULL, exchange, (void *)i));
    for (int i = 0; i < NUM_THREADS; i++) pthread_join(ids[i], NULL);
    SAME(fi_cntr_read(self->main.sent), NUM_THREADS * NUM_ROUNDS);
    SAME(fi_cntr_read(self->main.received), NUM_THREADS * NUM_ROUNDS);
}
