/* FI_PEEK, FI_CLAIM and FI_DISCARD, of messages that ride along and of those that are read. */
#include "api.h"

#define TAG 40

typedef struct {
    api *self;
    size_t num_bytes;
    char *room;
} look_at;

static ssize_t call(const look_at *at, uint64_t tag, void *room, size_t num_bytes, void *context,
                    uint64_t flags)
{
    const struct iovec iov = {room, num_bytes};
    const struct fi_msg_tagged message = {.msg_iov = &iov,
                                          .iov_count = room ? 1 : 0,
                                          .addr = FI_ADDR_UNSPEC,
                                          .tag = tag,
                                          .context = context};
    return fi_trecvmsg(at->self->main.ep, &message, flags | FI_COMPLETION);
}

/* 0, or the error of the entry. */
static int look(const look_at *at, uint64_t tag, void *context, uint64_t flags)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t count;
    SAME(call(at, tag, NULL, 0, context, flags), 0);
    while ((count = fi_cq_read(at->self->main.rx, &entry, 1)) == -FI_EAGAIN) continue;
    if (count == 1) {
        CHECK(entry.op_context == context);
        SAME(entry.len, at->num_bytes);
        SAME(entry.tag, tag);
        SAME(entry.data, tag + 1);
        CHECK(entry.flags & FI_REMOTE_CQ_DATA);
        return 0;
    }
    SAME(count, -FI_EAVAIL);
    SAME(fi_cq_readerr(at->self->main.rx, &error, 0), 1);
    CHECK(error.op_context == context);
    return error.err;
}

static void look_until_there(const look_at *at, uint64_t tag, void *context, uint64_t flags)
{
    int error;
    while ((error = look(at, tag, context, flags))) {
        SAME(error, FI_ENOMSG);
        api_progress(at->self);
    }
}

static void receive_whole(const look_at *at, uint64_t tag, void *context, uint64_t flags)
{
    memset(at->room, 0, at->num_bytes);
    SAME(call(at, tag, at->room, at->num_bytes, context, flags), 0);
    const struct fi_cq_tagged_entry entry = api_wait(at->self->main.rx, NULL);
    CHECK(entry.op_context == context);
    SAME(entry.len, at->num_bytes);
    SAME(entry.tag, tag);
    CHECK(api_is_filled(at->room, at->num_bytes, (uint32_t)tag));
}

static void receiver(const look_at *at)
{
    int contexts[3];
    SAME(look(at, TAG + 100, &contexts[0], FI_PEEK), FI_ENOMSG);
    SAME(look(at, TAG + 100, &contexts[0], FI_PEEK | FI_CLAIM), FI_ENOMSG);
    SAME(look(at, TAG + 100, &contexts[0], FI_PEEK | FI_DISCARD), FI_ENOMSG);
    SAME(call(at, TAG, at->room, 8, &contexts[0], FI_CLAIM), 0); /* nothing is kept */
    SAME(api_wait_error(at->self->main.rx).err, FI_ENOMSG);
    api_barrier(at->self);

    look_until_there(at, TAG, &contexts[0], FI_PEEK); /* it stays */
    SAME(look(at, TAG, &contexts[0], FI_PEEK), 0);
    receive_whole(at, TAG, &contexts[1], 0);
    SAME(look(at, TAG, &contexts[0], FI_PEEK), FI_ENOMSG);

    look_until_there(at, TAG + 1, &contexts[0], FI_PEEK | FI_CLAIM); /* it is kept */
    SAME(look(at, TAG + 1, &contexts[1], FI_PEEK), FI_ENOMSG);
    look_until_there(at, TAG + 2, &contexts[1], FI_PEEK | FI_CLAIM);
    receive_whole(at, TAG + 2, &contexts[1], FI_CLAIM);
    receive_whole(at, TAG + 1, &contexts[0], FI_CLAIM);

    look_until_there(at, TAG + 3, &contexts[0], FI_PEEK | FI_DISCARD); /* it is gone */
    SAME(look(at, TAG + 3, &contexts[0], FI_PEEK), FI_ENOMSG);

    look_until_there(at, TAG + 4, &contexts[0], FI_PEEK | FI_CLAIM);
    SAME(look(at, TAG + 4, &contexts[0], FI_CLAIM | FI_DISCARD), 0);
    SAME(call(at, TAG + 4, at->room, 8, &contexts[0], FI_CLAIM), 0);
    SAME(api_wait_error(at->self->main.rx).err, FI_ENOMSG);

    look_until_there(at, TAG + 5, &contexts[0], FI_PEEK | FI_CLAIM); /* to a shorter buffer */
    SAME(call(at, TAG + 5, at->room, at->num_bytes / 2, &contexts[0], FI_CLAIM), 0);
    const struct fi_cq_err_entry error = api_wait_error(at->self->main.rx);
    SAME(error.err, FI_ETRUNC);
    SAME(error.olen, at->num_bytes - at->num_bytes / 2);
}

/* Every send ends, those that are discarded too. */
static void sender(const look_at *at)
{
    enum { NUM_MESSAGES = 6 };
    char *buffers[NUM_MESSAGES];
    api_barrier(at->self);
    for (uint32_t i = 0; i < NUM_MESSAGES; i++) {
        buffers[i] = malloc(at->num_bytes);
        api_fill(buffers[i], at->num_bytes, TAG + i);
        SAME(fi_tsenddata(at->self->main.ep, buffers[i], at->num_bytes, NULL, TAG + i + 1,
                          at->self->main.peers[1], TAG + i, buffers[i]),
             0);
    }
    for (uint32_t i = 0; i < NUM_MESSAGES; i++) api_wait(at->self->main.tx, NULL);
    for (uint32_t i = 0; i < NUM_MESSAGES; i++) free(buffers[i]);
}

API_CASE(looks, 2)
{
    const size_t sizes[] = {8, self->info->tx_attr->inject_size, 200000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const look_at at = {self, sizes[i], malloc(sizes[i])};
        (self->rank ? receiver : sender)(&at);
        free(at.room);
        api_barrier(self);
    }
    if (self->rank) { /* looks are no receives */
        SAME(fi_cntr_read(self->main.received), 3 * 3);
        SAME(fi_cntr_readerr(self->main.received), 3 * 3);
    }
}

/* A message that one endpoint has claimed is not another's, though the contexts are equal. */
API_CASE(claims_of_two, 1)
{
    char name[API_NAME_BYTES], room[4] = {0};
    int context;
    struct fi_cq_tagged_entry entry;
    api_endpoint with;
    api_open_endpoint(self, &(api_options){0}, &with);
    api_name(&with, name);
    const fi_addr_t to = api_insert(&self->main, name);
    const struct iovec iov = {room, 4};
    struct fi_msg_tagged message = {.addr = FI_ADDR_UNSPEC, .tag = 1, .context = &context};
    SAME(fi_tinject(self->main.ep, "one", 4, self->main.peers[0], 1), 0);
    SAME(fi_tinject(self->main.ep, "two", 4, to, 1), 0);
    SAME(fi_trecvmsg(self->main.ep, &message, FI_PEEK | FI_CLAIM), 0);
    SAME(fi_trecvmsg(with.ep, &message, FI_PEEK | FI_CLAIM), 0);
    while (fi_cq_read(self->main.rx, &entry, 1) != 1) continue;
    while (fi_cq_read(with.rx, &entry, 1) != 1) continue;
    message.msg_iov = &iov;
    message.iov_count = 1;
    SAME(fi_trecvmsg(with.ep, &message, FI_CLAIM), 0);
    SAME(api_wait(with.rx, NULL).len, 4);
    CHECK(!strcmp(room, "two"));
    SAME(fi_trecvmsg(self->main.ep, &message, FI_CLAIM), 0);
    SAME(api_wait(self->main.rx, NULL).len, 4);
    CHECK(!strcmp(room, "one"));
    api_close_endpoint(&with);
}
