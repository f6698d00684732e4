/* Which message a receive takes, and buffers for many messages. */
#include "api.h"

#define MANY 200

static ssize_t receive(api *self, void *buffer, size_t num_bytes, fi_addr_t from, uint64_t tag,
                       uint64_t ignore, void *context)
{
    return fi_trecv(self->main.ep, buffer, num_bytes, NULL, from, tag, ignore, context);
}

static void inject(api *self, uint32_t to, uint64_t tag, uint32_t value)
{
    SAME(fi_tinject(self->main.ep, &value, sizeof value, self->main.peers[to], tag), 0);
}

static void tags(api *self, bool is_posted_first)
{
    uint32_t values[4] = {0};
    if (self->rank == 0) {
        if (is_posted_first) api_barrier(self);
        inject(self, 1, 0x1100, 1);
        inject(self, 1, 0x2200, 2);
        inject(self, 1, 0x22ff, 3);
        inject(self, 1, UINT64_MAX, 4);
        if (!is_posted_first) api_barrier(self);
    } else {
        if (!is_posted_first) {
            api_barrier(self);
            api_progress(self);
        }
        SAME(receive(self, &values[0], 4, FI_ADDR_UNSPEC, 0x22ff, 0, &values[0]), 0);
        SAME(receive(self, &values[1], 4, FI_ADDR_UNSPEC, 0x2200, 0xff, &values[1]), 0);
        SAME(receive(self, &values[2], 4, FI_ADDR_UNSPEC, 0, 0xffff, &values[2]), 0);
        SAME(receive(self, &values[3], 4, FI_ADDR_UNSPEC, 0, UINT64_MAX, &values[3]), 0);
        if (is_posted_first) api_barrier(self);
        for (int i = 0; i < 4; i++) api_wait(self->main.rx, NULL);
        const uint32_t wanted[] = {3, 2, 1, 4};
        for (int i = 0; i < 4; i++) SAME(values[i], wanted[i]);
    }
}

API_CASE(tags_posted, 2) { tags(self, true); }
API_CASE(tags_unexpected, 2) { tags(self, false); }

/* Messages of every way of travelling, all with one tag: taken in the order of sending. */
API_CASE(order, 2)
{
    const size_t limit = self->info->tx_attr->inject_size, sizes[] = {4, limit, limit + 1, 40000};
    uint32_t *buffers[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        buffers[i] = malloc(40000);
        buffers[i][0] = self->rank == 0 ? i : UINT32_MAX;
        if (self->rank == 0)
            SAME(fi_tsend(self->main.ep, buffers[i], sizes[i % 4], NULL, self->main.peers[1], 5,
                          NULL),
                 0);
    }
    if (self->rank == 1) {
        for (uint32_t i = 0; i < MANY / 2; i++)
            SAME(receive(self, buffers[i], 40000, FI_ADDR_UNSPEC, 5, 0, NULL), 0);
        api_progress(self); /* the others come before their receives */
        for (uint32_t i = MANY / 2; i < MANY; i++)
            SAME(receive(self, buffers[i], 40000, FI_ADDR_UNSPEC, 5, 0, NULL), 0);
    }
    for (uint32_t i = 0; i < MANY; i++) api_wait(self->rank ? self->main.rx : self->main.tx, NULL);
    for (uint32_t i = 0; i < MANY; i++) {
        SAME(buffers[i][0], i);
        free(buffers[i]);
    }
}

API_CASE(directed, 3)
{
    uint32_t values[3] = {0};
    fi_addr_t source;
    if (self->rank == 0) {
        SAME(receive(self, &values[2], 4, self->main.peers[2], 1, 0, &values[2]), 0);
        SAME(receive(self, &values[1], 4, self->main.peers[1], 1, 0, &values[1]), 0);
        api_barrier(self); /* 1 goes first */
        const struct fi_cq_tagged_entry first = api_wait(self->main.rx, &source);
        CHECK(first.op_context == &values[1] && source == self->main.peers[1]);
        SAME(values[1], 101);
        api_barrier(self);
        CHECK(api_wait(self->main.rx, &source).op_context == &values[2]);
        CHECK(source == self->main.peers[2] && values[2] == 102);
        api_barrier(self); /* both send before a receive is there */
        api_barrier(self);
        api_progress(self);
        SAME(receive(self, &values[2], 4, self->main.peers[2], 2, 0, &values[2]), 0);
        CHECK(api_wait(self->main.rx, &source).op_context == &values[2]);
        CHECK(source == self->main.peers[2] && values[2] == 202);
        SAME(receive(self, &values[1], 4, FI_ADDR_UNSPEC, 2, 0, &values[1]), 0);
        CHECK(api_wait(self->main.rx, &source).op_context == &values[1]);
        CHECK(source == self->main.peers[1] && values[1] == 201);
    } else {
        if (self->rank == 2) api_barrier(self);
        api_barrier(self);
        if (self->rank == 1) {
            inject(self, 0, 1, 101);
            api_barrier(self);
        } else inject(self, 0, 1, 102);
        api_barrier(self);
        inject(self, 0, 2, 200 + self->rank);
        api_barrier(self);
    }
}

/* Shorter buffers than messages: what fits is there, the rest is told. */
API_CASE(truncation, 2)
{
    const size_t sizes[] = {8, self->info->tx_attr->inject_size, 100000};
    for (size_t i = 0; i < 3; i++)
        for (size_t parts = 1; parts <= 2; parts++) {
            const size_t room = sizes[i] / 2;
            char *buffer = calloc(1, sizes[i]);
            if (self->rank == 0) {
                api_fill(buffer, sizes[i], 3);
                SAME(fi_tsend(self->main.ep, buffer, sizes[i], NULL, self->main.peers[1], i, NULL),
                     0);
                api_wait(self->main.tx, NULL); /* the sender is not held up */
            } else {
                const struct iovec iov[] = {{buffer, room / 2},
                                            {buffer + room / 2, room - room / 2}};
                if (parts == 1) SAME(receive(self, buffer, room, FI_ADDR_UNSPEC, i, 0, buffer), 0);
                else SAME(fi_trecvv(self->main.ep, iov, NULL, 2, FI_ADDR_UNSPEC, i, 0, buffer), 0);
                const struct fi_cq_err_entry error = api_wait_error(self->main.rx);
                SAME(error.err, FI_ETRUNC);
                SAME(error.len, room);
                SAME(error.olen, sizes[i] - room);
                SAME(error.tag, i);
                CHECK(error.op_context == buffer && api_is_filled(buffer, room, 3));
                SAME(buffer[room], 0);
            }
            free(buffer);
        }
}

static struct fi_msg multi_message(const struct iovec *iov, void *context)
{
    return (struct fi_msg){iov, NULL, 1, FI_ADDR_UNSPEC, context, 0};
}

/* A buffer for many messages: eager ones and those that are read, before and after it is posted. */
API_CASE(multi, 2)
{
    enum { NUM_MESSAGES = 7, ROOM = 19999, MINIMUM = 1000 };
    const size_t sizes[NUM_MESSAGES] = {4, 5000, 0, 60, 9000, 4936, 7};
    static char room[ROOM + 1], next[100], buffers[NUM_MESSAGES][9000];
    size_t minimum = MINIMUM;
    if (self->rank == 0) {
        for (uint32_t i = 0; i < NUM_MESSAGES; i++) {
            if (i == 3) api_barrier(self); /* those before come unexpected */
            api_fill(buffers[i], sizes[i], i);
            SAME(fi_send(self->main.ep, buffers[i], sizes[i], NULL, self->main.peers[1], NULL), 0);
        }
        for (uint32_t i = 0; i < NUM_MESSAGES; i++) api_wait(self->main.tx, NULL);
    } else {
        const struct iovec iov = {room, ROOM}, next_iov = {next, sizeof next};
        const struct fi_msg first = multi_message(&iov, room),
                            second = multi_message(&next_iov, next);
        SAME(fi_setopt(&self->main.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum,
                       sizeof minimum),
             0);
        api_progress(self);
        SAME(fi_recvmsg(self->main.ep, &first, FI_MULTI_RECV), 0);
        SAME(fi_recvmsg(self->main.ep, &second, FI_MULTI_RECV), 0);
        api_barrier(self);
        size_t num_seen = 0, num_released = 0;
        bool seen[NUM_MESSAGES] = {false};
        while (num_seen < NUM_MESSAGES || num_released < 2) {
            const struct fi_cq_tagged_entry entry = api_wait(self->main.rx, NULL);
            if (entry.flags & FI_MULTI_RECV) {
                if (entry.op_context == room) SAME(num_seen >= 6, 1);
                num_released++;
                continue;
            }
            SAME(entry.flags, FI_RECV | FI_MSG);
            uint32_t which = 0;
            while (which < NUM_MESSAGES && (seen[which] || sizes[which] != entry.len)) which++;
            CHECK(which < NUM_MESSAGES && api_is_filled(entry.buf, entry.len, which));
            CHECK(entry.op_context == (which < 6 ? room : next));
            seen[which] = true;
            num_seen++;
        }
        SAME(room[ROOM], 0);
        api_check_silent(self->main.rx);
        SAME(fi_cntr_read(self->main.received), NUM_MESSAGES);
    }
}

/* The released buffer has nobody to be told but a counter. */
API_CASE(multi_counted, 1)
{
    char name[API_NAME_BYTES], room[8];
    const struct iovec iov = {room, sizeof room};
    const struct fi_msg message = multi_message(&iov, room);
    api_endpoint with;
    api_open_endpoint(self, &(api_options){.has_no_receive_queue = true}, &with);
    api_name(&with, name);
    const fi_addr_t own = api_insert(&with, name);
    SAME(fi_recvmsg(with.ep, &message, FI_MULTI_RECV), 0);
    SAME(fi_inject(with.ep, "12345678", 8, own), 0);
    SAME(fi_cntr_wait(with.received, 1, -1), 0);
    CHECK(!memcmp(room, "12345678", 8));
    api_close_endpoint(&with);
}

/* Taken back while a message of its is being read: the message is told, then the buffer. */
API_CASE(multi_cancelled, 2)
{
    enum { ROOM = 3000000, BYTES = 1000000 };
    char *room = calloc(1, ROOM);
    if (self->rank == 0) {
        api_fill(room, BYTES, 1);
        SAME(fi_send(self->main.ep, room, BYTES, NULL, self->main.peers[1], NULL), 0);
        api_barrier(self);
        api_wait(self->main.tx, NULL);
    } else {
        const struct iovec iov = {room, ROOM};
        const struct fi_msg message = multi_message(&iov, room);
        api_barrier(self);
        api_progress(self);
        SAME(fi_recvmsg(self->main.ep, &message, FI_MULTI_RECV), 0);
        SAME(fi_cancel(&self->main.ep->fid, room), 0);
        const struct fi_cq_tagged_entry entry = api_wait(self->main.rx, NULL);
        CHECK(entry.len == BYTES && entry.op_context == room && api_is_filled(room, BYTES, 1));
        const struct fi_cq_err_entry error = api_wait_error(self->main.rx);
        CHECK(error.err == FI_ECANCELED && error.op_context == room);
        api_check_silent(self->main.rx);
        SAME(fi_cancel(&self->main.ep->fid, room), -FI_ENOENT);
    }
    free(room);
}

API_CASE(cancel, 1)
{
    uint32_t values[2] = {0};
    char *big = calloc(1, 100000);
    struct fid *ep = &self->main.ep->fid;
    SAME(fi_cancel(ep, &values[0]), -FI_ENOENT);
    SAME(receive(self, &values[0], 4, FI_ADDR_UNSPEC, 1, 0, &values[0]), 0);
    SAME(receive(self, &values[1], 4, FI_ADDR_UNSPEC, 1, 0, &values[1]), 0);
    SAME(fi_recv(self->main.ep, big, 100000, NULL, FI_ADDR_UNSPEC, big), 0);
    SAME(fi_cancel(ep, &values[0]), 0);
    SAME(fi_cancel(ep, &values[0]), -FI_ENOENT);
    SAME(fi_cancel(ep, big), 0);
    for (int i = 0; i < 2; i++) {
        const struct fi_cq_err_entry error = api_wait_error(self->main.rx);
        SAME(error.err, FI_ECANCELED);
        CHECK(error.op_context == (i ? (void *)big : &values[0]));
    }
    inject(self, 0, 1, 9);
    CHECK(api_wait(self->main.rx, NULL).op_context == &values[1]);
    CHECK(values[1] == 9 && values[0] == 0);
    free(big);
}
