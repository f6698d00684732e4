/* Sends and receives in every form and size, completions in every format, counters. */
#include "api.h"

enum form { SEND, SENDV, SENDMSG, INJECT, SENDDATA, INJECTDATA, NUM_FORMS };

#define DATA UINT64_C(0xfedcba9876543210)
#define BIG_BYTES (5u << 20)

/* Cuts a buffer into unequal parts, one of them empty when there are three or more. */
static size_t cut(struct iovec *iov, size_t num_parts, void *buffer, size_t num_bytes)
{
    char *at = buffer;
    size_t left = num_bytes;
    for (size_t i = 0; i < num_parts; i++) {
        const size_t part = i + 1 == num_parts ? left : i == 1 ? 0 : left / (i + 2);
        iov[i] = (struct iovec){at, part};
        at += part;
        left -= part;
    }
    return num_parts;
}

static bool is_inject(enum form form) { return form == INJECT || form == INJECTDATA; }

static ssize_t post_send(api *self, bool is_tagged, enum form form, void *buffer, size_t num_bytes,
                         size_t num_parts, uint64_t tag, void *context)
{
    struct fid_ep *ep = self->main.ep;
    const fi_addr_t to = self->main.peers[1];
    struct iovec iov[API_IOV_MAX];
    cut(iov, num_parts, buffer, num_bytes);
    const struct fi_msg message = {iov, NULL, num_parts, to, context, DATA};
    const struct fi_msg_tagged tagged = {iov, NULL, num_parts, to, tag, 0, context, DATA};
    switch (form) {
    case SEND:
        return is_tagged ? fi_tsend(ep, buffer, num_bytes, NULL, to, tag, context)
                         : fi_send(ep, buffer, num_bytes, NULL, to, context);
    case SENDV:
        return is_tagged ? fi_tsendv(ep, iov, NULL, num_parts, to, tag, context)
                         : fi_sendv(ep, iov, NULL, num_parts, to, context);
    case SENDMSG:
        return is_tagged ? fi_tsendmsg(ep, &tagged, FI_REMOTE_CQ_DATA | FI_COMPLETION)
                         : fi_sendmsg(ep, &message, FI_REMOTE_CQ_DATA | FI_COMPLETION);
    case INJECT:
        return is_tagged ? fi_tinject(ep, buffer, num_bytes, to, tag)
                         : fi_inject(ep, buffer, num_bytes, to);
    case SENDDATA:
        return is_tagged ? fi_tsenddata(ep, buffer, num_bytes, NULL, DATA, to, tag, context)
                         : fi_senddata(ep, buffer, num_bytes, NULL, DATA, to, context);
    default:
        return is_tagged ? fi_tinjectdata(ep, buffer, num_bytes, DATA, to, tag)
                         : fi_injectdata(ep, buffer, num_bytes, DATA, to);
    }
}

static void send_one(api *self, bool is_tagged, enum form form, void *buffer, size_t num_bytes,
                     size_t num_parts, uint64_t tag)
{
    int context;
    const ssize_t code =
        post_send(self, is_tagged, form, buffer, num_bytes, num_parts, tag, &context);
    SAME(code, 0);
    if (is_inject(form)) {
        memset(buffer, 0, num_bytes); /* it may be used again at once */
        return;
    }
    const struct fi_cq_tagged_entry entry = api_wait(self->main.tx, NULL);
    CHECK(entry.op_context == &context);
    SAME(entry.flags, FI_SEND | (is_tagged ? FI_TAGGED : FI_MSG));
}

static void receive_one(api *self, bool is_tagged, enum form form, void *buffer, size_t num_bytes,
                        size_t num_parts, uint64_t tag, uint32_t seed)
{
    struct fid_ep *ep = self->main.ep;
    struct iovec iov[API_IOV_MAX];
    int context;
    fi_addr_t source = 99;
    const bool has_data = form == SENDMSG || form == SENDDATA || form == INJECTDATA;
    const struct fi_msg message = {iov, NULL, num_parts, FI_ADDR_UNSPEC, &context, 0};
    const struct fi_msg_tagged tagged = {iov, NULL, num_parts, FI_ADDR_UNSPEC, tag, 0, &context, 0};
    cut(iov, num_parts, buffer, num_bytes);
    ssize_t code;
    if (seed % 3 == 0)
        code = is_tagged ? fi_trecvmsg(ep, &tagged, FI_COMPLETION)
                         : fi_recvmsg(ep, &message, FI_COMPLETION);
    else if (num_parts == 1)
        code = is_tagged ? fi_trecv(ep, buffer, num_bytes, NULL, FI_ADDR_UNSPEC, tag, 0, &context)
                         : fi_recv(ep, buffer, num_bytes, NULL, FI_ADDR_UNSPEC, &context);
    else
        code = is_tagged ? fi_trecvv(ep, iov, NULL, num_parts, FI_ADDR_UNSPEC, tag, 0, &context)
                         : fi_recvv(ep, iov, NULL, num_parts, FI_ADDR_UNSPEC, &context);
    SAME(code, 0);
    const struct fi_cq_tagged_entry entry = api_wait(self->main.rx, &source);
    CHECK(entry.op_context == &context);
    SAME(entry.flags,
         (FI_RECV | (is_tagged ? FI_TAGGED : FI_MSG)) | (has_data ? FI_REMOTE_CQ_DATA : 0));
    SAME(entry.len, num_bytes);
    SAME(source, self->main.peers[0]);
    if (has_data) SAME(entry.data, DATA);
    if (is_tagged) SAME(entry.tag, tag);
    if (!api_is_filled(buffer, num_bytes, seed))
        API_FAIL("other bytes: form %d, %zu bytes in %zu parts", form, num_bytes, num_parts);
}

static void exchange(api *self, bool is_tagged, enum form form, size_t num_bytes, size_t num_parts,
                     uint32_t seed)
{
    char *buffer = malloc(num_bytes + 1);
    const uint64_t tag = UINT64_C(1) << 63 | seed;
    if (self->rank == 0) {
        api_fill(buffer, num_bytes, seed);
        send_one(self, is_tagged, form, buffer, num_bytes, num_parts, tag);
    } else {
        memset(buffer, 0, num_bytes + 1);
        const size_t num_here = seed % 2 ? num_parts : API_IOV_MAX + 1 - num_parts;
        receive_one(self, is_tagged, form, buffer, num_bytes, num_here, tag, seed);
        SAME(buffer[num_bytes], 0);
    }
    free(buffer);
}

static void forms(api *self, bool is_tagged)
{
    uint32_t seed = 0;
    const size_t limit = self->info->tx_attr->inject_size;
    const size_t sizes[] = {0, 1, limit, limit + 1, 100000, BIG_BYTES};
    for (int form = 0; form < NUM_FORMS; form++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            if (!is_inject((enum form)form) || sizes[i] <= limit)
                exchange(self, is_tagged, (enum form)form, sizes[i], 1, seed++);
    for (size_t num_parts = 1; num_parts <= API_IOV_MAX; num_parts++)
        for (size_t i = 0; i < 5; i++) {
            exchange(self, is_tagged, SENDV, sizes[i], num_parts, seed++);
            exchange(self, is_tagged, SENDMSG, sizes[i], num_parts, seed++);
        }
    exchange(self, is_tagged, SENDV, BIG_BYTES, API_IOV_MAX, seed++);
    api_barrier(self);
    const uint64_t num_sent = fi_cntr_read(self->main.sent);
    const uint64_t num_received = fi_cntr_read(self->main.received);
    SAME(self->rank ? num_received : num_sent, seed);
    SAME(self->rank ? num_sent : num_received, 0);
    api_check_silent(self->main.tx);
    api_check_silent(self->main.rx);
}

API_CASE(messages, 2) { forms(self, false); }
API_CASE(tagged_messages, 2) { forms(self, true); }

API_CASE(refused, 1)
{
    char buffer[8] = {0};
    struct iovec iov[API_IOV_MAX + 1] = {{buffer, SIZE_MAX - 3}, {buffer, 5}};
    struct fid_ep *ep = self->main.ep;
    const fi_addr_t own = self->main.peers[0];
    const size_t limit = self->info->tx_attr->inject_size;
    char *longer = calloc(1, limit + 1);
    const struct fi_msg injected = {&(struct iovec){longer, limit + 1}, NULL, 1, own, NULL, 0};
    SAME(fi_inject(ep, longer, limit + 1, own), -FI_EMSGSIZE);
    SAME(fi_tinject(ep, longer, limit + 1, own, 1), -FI_EMSGSIZE);
    SAME(fi_sendmsg(ep, &injected, FI_INJECT), -FI_EMSGSIZE);
    SAME(fi_sendv(ep, iov, NULL, API_IOV_MAX + 1, own, NULL), -FI_EINVAL);
    SAME(fi_recvv(ep, iov, NULL, API_IOV_MAX + 1, own, NULL), -FI_EINVAL);
    SAME(fi_send(ep, buffer, self->info->ep_attr->max_msg_size + 1, NULL, own, NULL), -FI_EMSGSIZE);
    SAME(fi_sendv(ep, iov, NULL, 2, own, NULL), -FI_EMSGSIZE); /* the sum wraps around */
    SAME(fi_writev(ep, iov, NULL, 2, own, (uintptr_t)buffer, 1, NULL), -FI_EMSGSIZE);
    SAME(fi_readv(ep, iov, NULL, 2, own, (uintptr_t)buffer, 1, NULL), -FI_EMSGSIZE);
    SAME(fi_recvv(ep, iov, NULL, 2, own, NULL), -FI_EMSGSIZE);
    SAME(fi_inject(ep, buffer, 1, own), 0); /* all goes on */
    SAME(fi_recv(ep, buffer, 1, NULL, own, NULL), 0);
    SAME(api_wait(self->main.rx, NULL).len, 1);
    free(longer);
}

/* From one endpoint of a process to another of it, whose queue has the format. */
static void send_to_format(api *self, enum fi_cq_format format)
{
    char name[API_NAME_BYTES], buffer[8], landed[8];
    int context, guard;
    union {
        struct fi_cq_tagged_entry tagged;
        void *words[16];
    } entries;
    const size_t num_words[] = {0, 1, 3, 5, 6}; /* of a CONTEXT, MSG, DATA, TAGGED entry */
    api_endpoint with;
    api_open_endpoint(self, &(api_options){.format = format}, &with);
    api_name(&with, name);
    const fi_addr_t to = api_insert(&self->main, name);
    for (uint32_t i = 0; i < 2; i++)
        SAME(fi_trecv(with.ep, landed, 8, NULL, FI_ADDR_UNSPEC, 7, 0, &context), 0);
    for (uint32_t i = 0; i < 2; i++) SAME(fi_tinjectdata(self->main.ep, buffer, 8, DATA, to, 7), 0);
    while (fi_cntr_read(with.received) < 2) continue;
    for (size_t i = 0; i < 16; i++) entries.words[i] = &guard;
    SAME(fi_cq_read(with.rx, &entries, 5), 2);
    CHECK(entries.words[2 * num_words[format]] == &guard);
    CHECK(entries.words[2 * num_words[format] - 1] != &guard);
    for (size_t i = 0; i < 2; i++) CHECK(entries.words[i * num_words[format]] == &context);
    if (format >= FI_CQ_FORMAT_MSG) {
        SAME(entries.tagged.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
        SAME(entries.tagged.len, 8);
    }
    if (format >= FI_CQ_FORMAT_DATA) SAME(entries.tagged.data, DATA);
    if (format >= FI_CQ_FORMAT_TAGGED) SAME(entries.tagged.tag, 7);
    api_close_endpoint(&with);
}

API_CASE(formats, 1)
{
    for (int format = FI_CQ_FORMAT_CONTEXT; format <= FI_CQ_FORMAT_TAGGED; format++)
        send_to_format(self, (enum fi_cq_format)format);
}

API_CASE(selective, 1)
{
    char name[API_NAME_BYTES], buffer[8], landed[4];
    int contexts[4];
    api_endpoint with;
    api_open_endpoint(self, &(api_options){.bind_flags = FI_SELECTIVE_COMPLETION}, &with);
    api_name(&with, name);
    const fi_addr_t own = api_insert(&with, name);
    const struct iovec iov = {buffer, 4}, room = {landed, 4};
    const struct fi_msg out = {&iov, NULL, 1, own, &contexts[1], 0},
                        in = {&room, NULL, 1, own, &contexts[3], 0};
    SAME(fi_recv(with.ep, landed, 4, NULL, own, &contexts[2]), 0);
    SAME(fi_recvmsg(with.ep, &in, FI_COMPLETION), 0);
    SAME(fi_recvmsg(with.ep, &in, 0), 0);
    SAME(fi_recv(with.ep, landed, 4, NULL, own, &contexts[2]), 0);
    SAME(fi_send(with.ep, buffer, 4, NULL, own, &contexts[0]), 0);
    SAME(fi_sendmsg(with.ep, &out, FI_COMPLETION), 0);
    SAME(fi_sendmsg(with.ep, &out, 0), 0);
    SAME(fi_send(with.ep, buffer, 8, NULL, own, &contexts[0]), 0); /* longer than its receive */
    SAME(fi_cntr_wait(with.sent, 4, -1), 0);
    CHECK(api_wait(with.tx, NULL).op_context == &contexts[1]);
    api_check_silent(with.tx);
    CHECK(api_wait(with.rx, NULL).op_context == &contexts[3]);
    const struct fi_cq_err_entry error = api_wait_error(with.rx); /* errors are always told */
    CHECK(error.err == FI_ETRUNC && error.op_context == &contexts[2]);
    api_check_silent(with.rx);
    SAME(fi_cntr_read(with.received), 3);
    SAME(fi_cntr_readerr(with.received), 1);
    api_close_endpoint(&with);
}

API_CASE(counters, 1)
{
    char buffer[8] = {0};
    struct fid_ep *ep = self->main.ep;
    struct fid_cntr *received = self->main.received;
    const fi_addr_t own = self->main.peers[0];
    const double begun_s = api_wall_s();
    SAME(fi_cntr_wait(received, 1, 30), -FI_ETIMEDOUT);
    CHECK(api_wall_s() - begun_s >= 0.029);
    SAME(fi_cntr_wait(received, 1, 0), -FI_ETIMEDOUT);
    SAME(fi_cntr_wait(received, 0, -1), 0);
    SAME(fi_inject(ep, buffer, 8, own), 0);
    SAME(fi_recv(ep, buffer, 8, NULL, own, NULL), 0);
    SAME(fi_cntr_wait(received, 1, -1), 0);
    SAME(fi_cntr_read(received), 1);
    SAME(fi_cntr_wait(self->main.sent, 1, -1), 0);
    SAME(fi_recv(ep, buffer, 8, NULL, own, NULL), 0);
    SAME(fi_cancel(&ep->fid, NULL), 0);
    SAME(fi_cntr_wait(received, 2, -1), -FI_EAVAIL);
    SAME(fi_cntr_readerr(received), 1);
    SAME(fi_cntr_read(received), 1);
    SAME(fi_cntr_add(received, 5), 0);
    SAME(fi_cntr_read(received), 6);
    SAME(fi_cntr_set(received, 2), 0);
    SAME(fi_cntr_read(received), 2);
    SAME(fi_cntr_adderr(received, 3), 0);
    SAME(fi_cntr_readerr(received), 4);
    SAME(fi_cntr_seterr(received, 0), 0);
    SAME(fi_cntr_readerr(received), 0);
    SAME(fi_close(&received->fid), -FI_EBUSY);
    SAME(fi_cntr_read(self->main.read), 0);
    SAME(fi_cntr_read(self->main.written), 0);
}

API_CASE(waiting_reads, 1)
{
    struct fi_cq_tagged_entry entry;
    char buffer[8] = {0};
    struct fid_cq *rx = self->main.rx;
    const double begun_s = api_wall_s();
    SAME(fi_cq_sread(rx, &entry, 1, NULL, 30), -FI_EAGAIN);
    CHECK(api_wall_s() - begun_s >= 0.029);
    SAME(fi_cq_signal(rx), 0);
    SAME(fi_cq_sread(rx, &entry, 1, NULL, -1), -FI_EAGAIN);
    SAME(fi_inject(self->main.ep, buffer, 8, self->main.peers[0]), 0);
    SAME(fi_recv(self->main.ep, buffer, 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
    SAME(fi_cq_sread(rx, &entry, 1, NULL, -1), 1);
}
