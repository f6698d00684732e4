#include "api.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

struct fi_info *api_hints(void)
{
    struct fi_info *hints = fi_allocinfo();
    CHECK(hints);
    hints->fabric_attr->prov_name = strdup("pagewire");
    hints->caps =
        FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->ep_attr->type = FI_EP_RDM;
    return hints;
}

static struct fid_cq *open_cq(api *self, enum fi_cq_format format)
{
    struct fi_cq_attr attr = {.format = format, .wait_obj = FI_WAIT_UNSPEC};
    struct fid_cq *cq;
    SAME(fi_cq_open(self->domain, &attr, &cq, NULL), 0);
    return cq;
}

static struct fid_cntr *open_counter(api *self, struct fid_ep *ep, uint64_t of)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *counter;
    SAME(fi_cntr_open(self->domain, &attr, &counter, NULL), 0);
    SAME(fi_ep_bind(ep, &counter->fid, of), 0);
    return counter;
}

void api_open_endpoint(api *self, const api_options *options, api_endpoint *out)
{
    const enum fi_cq_format format = options->format ? options->format : FI_CQ_FORMAT_TAGGED;
    struct fi_av_attr av_attr = {.type = options->av_type ? options->av_type : FI_AV_TABLE};
    *out = (api_endpoint){0};
    SAME(fi_endpoint(self->domain, self->info, &out->ep, NULL), 0);
    SAME(fi_av_open(self->domain, &av_attr, &out->av, NULL), 0);
    SAME(fi_ep_bind(out->ep, &out->av->fid, 0), 0);
    out->tx = open_cq(self, format);
    SAME(fi_ep_bind(out->ep, &out->tx->fid, FI_TRANSMIT | options->bind_flags), 0);
    if (!options->has_no_receive_queue) {
        out->rx = open_cq(self, format);
        SAME(fi_ep_bind(out->ep, &out->rx->fid, FI_RECV | options->bind_flags), 0);
    }
    out->sent = open_counter(self, out->ep, FI_SEND);
    out->received = open_counter(self, out->ep, FI_RECV);
    out->read = open_counter(self, out->ep, FI_READ);
    out->written = open_counter(self, out->ep, FI_WRITE);
    SAME(fi_enable(out->ep), 0);
}

void api_close_endpoint(api_endpoint *endpoint)
{
    SAME(fi_close(&endpoint->ep->fid), 0);
    SAME(fi_close(&endpoint->av->fid), 0);
    SAME(fi_close(&endpoint->tx->fid), 0);
    if (endpoint->rx) SAME(fi_close(&endpoint->rx->fid), 0);
    SAME(fi_close(&endpoint->sent->fid), 0);
    SAME(fi_close(&endpoint->received->fid), 0);
    SAME(fi_close(&endpoint->read->fid), 0);
    SAME(fi_close(&endpoint->written->fid), 0);
}

void api_name(const api_endpoint *endpoint, void *name)
{
    size_t num_bytes = API_NAME_BYTES;
    SAME(fi_getname(&endpoint->ep->fid, name, &num_bytes), 0);
    CHECK(num_bytes <= API_NAME_BYTES);
}

fi_addr_t api_insert(const api_endpoint *endpoint, const void *name)
{
    fi_addr_t address;
    SAME(fi_av_insert(endpoint->av, name, 1, &address, 0, NULL), 1);
    return address;
}

void api_begin(api *self)
{
    char name[API_NAME_BYTES] = {0}, names[API_PROCESSES_MAX][API_NAME_BYTES];
    struct fi_info *hints = api_hints();
    SAME(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &self->info), 0);
    fi_freeinfo(hints);
    SAME(fi_fabric(self->info->fabric_attr, &self->fabric, NULL), 0);
    SAME(fi_domain(self->fabric, self->info, &self->domain, NULL), 0);
    self->idle = open_cq(self, FI_CQ_FORMAT_CONTEXT);
    api_open_endpoint(self, &(api_options){0}, &self->main);
    api_name(&self->main, name);
    api_gather(self, name, sizeof name, names);
    for (uint32_t peer = 0; peer < self->num_processes; peer++)
        self->main.peers[peer] = api_insert(&self->main, names[peer]);
    api_barrier(self);
}

void api_end(api *self)
{
    api_barrier(self);
    api_close_endpoint(&self->main);
    SAME(fi_close(&self->idle->fid), 0);
    SAME(fi_close(&self->domain->fid), 0);
    SAME(fi_close(&self->fabric->fid), 0);
    fi_freeinfo(self->info);
}

/* ---- among the processes */

static void turn(const api *self)
{
    struct fi_cq_entry entry;
    if (self->idle) SAME(fi_cq_read(self->idle, &entry, 1), -FI_EAGAIN);
    else usleep(100);
}

void api_progress(const api *self)
{
    for (int i = 0; i < 300; i++) {
        turn(self);
        if (i % 10 == 0) usleep(1000); /* a peer may be without a core for a while */
    }
}

static void read_from(const api *self, int pipe, char *data, size_t num_bytes)
{
    while (num_bytes) {
        const ssize_t count = read(pipe, data, num_bytes);
        if (count > 0) {
            data += count;
            num_bytes -= (size_t)count;
        } else {
            if (count == 0) API_FAIL("another process has ended");
            CHECK(errno == EAGAIN);
            turn(self);
        }
    }
}

void api_gather(api *self, const void *mine, size_t num_bytes, void *all)
{
    CHECK(num_bytes <= 4096);
    memcpy((char *)all + self->rank * num_bytes, mine, num_bytes);
    for (uint32_t peer = 0; peer < self->num_processes; peer++)
        if (peer != self->rank) SAME(write(self->to[peer], mine, num_bytes), num_bytes);
    for (uint32_t peer = 0; peer < self->num_processes; peer++)
        if (peer != self->rank)
            read_from(self, self->from[peer], (char *)all + peer * num_bytes, num_bytes);
}

void api_barrier(api *self)
{
    char here = 1, all[API_PROCESSES_MAX];
    api_gather(self, &here, 1, all);
}

/* ---- completions and contents */

struct fi_cq_tagged_entry api_wait(struct fid_cq *cq, fi_addr_t *source)
{
    struct fi_cq_tagged_entry entry = {0};
    struct fi_cq_err_entry error = {0};
    fi_addr_t unused;
    ssize_t count;
    while ((count = fi_cq_readfrom(cq, &entry, 1, source ? source : &unused)) == -FI_EAGAIN)
        continue;
    if (count == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1)
        API_FAIL("an error entry: %s (%zu of %zu bytes)", fi_strerror(error.err), error.len,
                 error.len + error.olen);
    SAME(count, 1);
    return entry;
}

struct fi_cq_err_entry api_wait_error(struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t count;
    while ((count = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN) continue;
    SAME(count, -FI_EAVAIL);
    SAME(fi_cq_readerr(cq, &error, 0), 1);
    CHECK(error.err > 0);
    CHECK(fi_cq_strerror(cq, error.prov_errno, NULL, NULL, 0)[0]);
    return error;
}

void api_check_silent(struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    for (int i = 0; i < 100; i++) SAME(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
    SAME(fi_cq_readerr(cq, &error, 0), -FI_EAGAIN);
}

double api_wall_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void api_fill(void *data, size_t num_bytes, uint32_t seed)
{
    for (size_t i = 0; i < num_bytes; i++)
        ((uint8_t *)data)[i] = (uint8_t)((i ^ i >> 8) * 31 + seed * 7 + 1);
}

bool api_is_filled(const void *data, size_t num_bytes, uint32_t seed)
{
    for (size_t i = 0; i < num_bytes; i++)
        if (((const uint8_t *)data)[i] != (uint8_t)((i ^ i >> 8) * 31 + seed * 7 + 1)) return false;
    return true;
}
