/* What getinfo offers and refuses, objects before they are whole, names and address vectors. */
#include "api.h"

static int ask(struct fi_info *hints)
{
    struct fi_info *info = NULL;
    const int code = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
    if (!code) {
        CHECK(!strcmp(info->fabric_attr->prov_name, "pagewire"));
        fi_freeinfo(info);
    }
    fi_freeinfo(hints);
    return code;
}

#define OFFERED(CHANGE)                     \
    do {                                    \
        struct fi_info *with = api_hints(); \
        CHANGE;                             \
        SAME(ask(with), 0);                 \
    } while (0)
#define REFUSED(CHANGE)                     \
    do {                                    \
        struct fi_info *with = api_hints(); \
        CHANGE;                             \
        SAME(ask(with), -FI_ENODATA);       \
    } while (0)

API_CASE(hints, 1)
{
    (void)self;
    OFFERED((void)with);
    OFFERED(with->caps = 0);
    OFFERED(with->caps = FI_MSG);
    OFFERED(with->domain_attr->mr_mode = FI_MR_BASIC);
    OFFERED(with->domain_attr->mr_mode |= FI_MR_LOCAL | FI_MR_ALLOCATED);
    OFFERED(with->domain_attr->data_progress = FI_PROGRESS_MANUAL);
    OFFERED(with->tx_attr->iov_limit = with->rx_attr->iov_limit = API_IOV_MAX);
    OFFERED(with->tx_attr->comp_order = FI_ORDER_NONE);
    OFFERED(with->ep_attr->max_msg_size = (size_t)UINT32_MAX + 1);
    OFFERED(with->domain_attr->av_type = FI_AV_MAP);
    REFUSED(with->caps |= FI_RMA_EVENT);
    REFUSED(with->caps |= FI_MULTICAST);
    REFUSED(with->caps |= FI_NAMED_RX_CTX);
    REFUSED(with->caps |= FI_HMEM);
    REFUSED(with->caps |= FI_VARIABLE_MSG);
    REFUSED(with->domain_attr->mr_mode = FI_MR_SCALABLE);
    REFUSED(with->domain_attr->mr_mode = FI_MR_VIRT_ADDR);
    REFUSED(with->domain_attr->mr_mode = FI_MR_PROV_KEY);
    REFUSED(with->domain_attr->control_progress = FI_PROGRESS_AUTO);
    REFUSED(with->domain_attr->data_progress = FI_PROGRESS_AUTO);
    REFUSED(with->domain_attr->name = strdup("other"));
    REFUSED(with->fabric_attr->name = strdup("other"));
    REFUSED(with->domain_attr->cq_data_size = 9);
    REFUSED(with->domain_attr->mr_key_size = 4);
    REFUSED(with->ep_attr->type = FI_EP_DGRAM);
    REFUSED(with->ep_attr->type = FI_EP_MSG);
    REFUSED(with->ep_attr->protocol = FI_PROTO_SHM);
    REFUSED(with->ep_attr->max_msg_size = SIZE_MAX);
    REFUSED(with->ep_attr->max_order_waw_size = 1 << 20);
    REFUSED(with->ep_attr->tx_ctx_cnt = 2);
    REFUSED(with->ep_attr->rx_ctx_cnt = 2);
    REFUSED(with->tx_attr->iov_limit = API_IOV_MAX + 1);
    REFUSED(with->rx_attr->iov_limit = API_IOV_MAX + 1);
    REFUSED(with->tx_attr->rma_iov_limit = 2);
    REFUSED(with->tx_attr->inject_size = 1 << 20);
    REFUSED(with->tx_attr->size = (1 << 16) + 1);
    REFUSED(with->rx_attr->size = (1 << 16) + 1);
    REFUSED(with->tx_attr->msg_order = FI_ORDER_RMA_RAW);
    REFUSED(with->rx_attr->msg_order = FI_ORDER_RMA_WAW);
    REFUSED(with->tx_attr->comp_order = FI_ORDER_STRICT);
    REFUSED(with->rx_attr->comp_order = FI_ORDER_STRICT);
    REFUSED(with->tx_attr->op_flags = FI_COMMIT_COMPLETE);
    REFUSED(with->rx_attr->op_flags = FI_DELIVERY_COMPLETE);
    REFUSED(with->tx_attr->caps = FI_MULTICAST);
    REFUSED(with->addr_format = FI_SOCKADDR_IN);
}

API_CASE(unready, 1)
{
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_cntr *counter;
    struct fi_cq_attr with_file = {.wait_obj = FI_WAIT_FD};
    struct fi_cntr_attr counter_with_file = {.wait_obj = FI_WAIT_FD};
    uint64_t value = 0, result = 0;
    char name[API_NAME_BYTES] = {0};
    SAME(fi_cq_open(self->domain, &with_file, &cq, NULL), -FI_ENOSYS);
    SAME(fi_cntr_open(self->domain, &counter_with_file, &counter, NULL), -FI_ENOSYS);
    SAME(fi_endpoint(self->domain, self->info, &ep, NULL), 0);
    SAME(fi_send(ep, &value, 8, NULL, 0, NULL), -FI_EOPBADSTATE);
    SAME(fi_inject(ep, &value, 8, 0), -FI_EOPBADSTATE);
    SAME(fi_tsend(ep, &value, 8, NULL, 0, 1, NULL), -FI_EOPBADSTATE);
    SAME(fi_recv(ep, &value, 8, NULL, 0, NULL), -FI_EOPBADSTATE);
    SAME(fi_trecv(ep, &value, 8, NULL, 0, 1, 0, NULL), -FI_EOPBADSTATE);
    SAME(fi_read(ep, &value, 8, NULL, 0, 0, 0, NULL), -FI_EOPBADSTATE);
    SAME(fi_write(ep, &value, 8, NULL, 0, 0, 0, NULL), -FI_EOPBADSTATE);
    SAME(fi_fetch_atomic(ep, &value, 1, NULL, &result, NULL, 0, 0, 0, FI_UINT64, FI_SUM, NULL),
         -FI_EOPBADSTATE);
    SAME(fi_enable(ep), -FI_ENOAV);
    SAME(fi_av_open(self->domain, &(struct fi_av_attr){.type = FI_AV_MAP}, &av, NULL), 0);
    SAME(fi_ep_bind(ep, &av->fid, 0), 0);
    SAME(fi_ep_bind(ep, &av->fid, 0), -FI_EINVAL);
    SAME(fi_enable(ep), -FI_ENOCQ);
    SAME(fi_ep_bind(ep, &self->main.tx->fid, 0), -FI_EBADFLAGS);
    SAME(fi_close(&av->fid), -FI_EBUSY);
    SAME(fi_close(&self->domain->fid), -FI_EBUSY);
    /* What the interface has and this provider has not: refused, not a jump to nowhere. */
    SAME(fi_setname(&ep->fid, name, sizeof name), -FI_ENOSYS);
    SAME(fi_getpeer(ep, name, &(size_t){sizeof name}), -FI_ENOSYS);
    SAME(fi_connect(ep, name, NULL, 0), -FI_ENOSYS);
    SAME(fi_accept(ep, NULL, 0), -FI_ENOSYS);
    SAME(fi_shutdown(ep, 0), -FI_ENOSYS);
    SAME(fi_tx_context(ep, 0, NULL, NULL, NULL), -FI_ENOSYS);
    SAME(fi_rx_context(ep, 0, NULL, NULL, NULL), -FI_ENOSYS);
    SAME(fi_av_insertsvc(av, "localhost", "1", NULL, 0, NULL), -FI_ENOSYS);
    SAME(fi_av_insertsym(av, "localhost", 1, "1", 1, NULL, 0, NULL), -FI_ENOSYS);
    SAME(fi_open_ops(&ep->fid, "none", 0, NULL, NULL), -FI_ENOSYS);
    SAME(fi_open_ops(&self->domain->fid, "none", 0, NULL, NULL), -FI_ENOSYS);
    SAME(fi_control(&self->main.tx->fid, FI_GETWAIT, &value), -FI_ENOSYS);
    SAME(fi_control(&self->domain->fid, FI_FLUSH_WORK, NULL), -FI_ENOSYS);
    SAME(fi_trywait(self->fabric, NULL, 0), -FI_ENOSYS);
    SAME(fi_close(&ep->fid), 0);
    SAME(fi_close(&av->fid), 0);
}

static void addresses(api *self, enum fi_av_type type)
{
    char own[API_NAME_BYTES] = {0}, bad[3][API_NAME_BYTES], found[API_NAME_BYTES] = {0};
    char text[80];
    uint32_t number = 1000;
    size_t num_bytes = 5;
    fi_addr_t address[3], again;
    int errors[3];
    api_endpoint with;
    api_open_endpoint(self, &(api_options){.av_type = type}, &with);
    SAME(fi_getname(&with.ep->fid, found, &num_bytes), -FI_ETOOSMALL);
    SAME(num_bytes, API_NAME_BYTES);
    api_name(&with, own);
    CHECK(!memcmp(found, own, 5) && !found[5]);
    num_bytes = 0;
    SAME(fi_getname(&with.ep->fid, NULL, &num_bytes), -FI_ETOOSMALL);

    address[0] = api_insert(&with, own);
    again = api_insert(&with, own);
    num_bytes = sizeof found;
    SAME(fi_av_lookup(with.av, address[0], found, &num_bytes), 0);
    CHECK(num_bytes == sizeof own && !memcmp(found, own, sizeof own));
    num_bytes = 3;
    SAME(fi_av_lookup(with.av, address[0], found, &num_bytes), -FI_ETOOSMALL);
    SAME(num_bytes, sizeof own);
    num_bytes = sizeof text;
    CHECK(fi_av_straddr(with.av, own, text, &num_bytes) == text && strlen(text) + 1 == num_bytes);
    CHECK(strstr(text, "pagewire://"));
    num_bytes = 4;
    fi_av_straddr(with.av, own, text, &num_bytes);
    CHECK(strlen(text) == 3 && num_bytes > 4);

    SAME(fi_av_remove(with.av, &address[0], 1, 0), 0);
    SAME(fi_av_remove(with.av, &address[0], 1, 0), -FI_EINVAL);
    num_bytes = sizeof found;
    SAME(fi_av_lookup(with.av, address[0], found, &num_bytes), -FI_EINVAL);
    SAME(fi_inject(with.ep, own, 1, address[0]), -FI_EINVAL);
    SAME(fi_inject(with.ep, own, 1, FI_ADDR_UNSPEC), -FI_EINVAL);
    SAME(fi_recv(with.ep, own, 1, NULL, address[0], NULL), -FI_EINVAL);
    SAME(fi_inject(with.ep, own, 1, again), 0);

    memset(bad[0], 0xa5, sizeof bad[0]);
    memcpy(bad[1], own, sizeof own);
    memcpy(bad[1] + 4, &number, sizeof number); /* of a node that the run has not */
    memcpy(bad[2], own, sizeof own);
    memcpy(bad[2] + 14, &number, 2); /* of an endpoint that no process can have */
    SAME(fi_av_insert(with.av, bad, 3, address, FI_SYNC_ERR, errors), 0);
    for (int i = 0; i < 3; i++) {
        SAME(address[i], FI_ADDR_NOTAVAIL);
        CHECK(errors[i] > 0);
    }
    api_close_endpoint(&with);
}

API_CASE(address_table, 1) { addresses(self, FI_AV_TABLE); }
API_CASE(address_map, 1) { addresses(self, FI_AV_MAP); }

API_CASE(options, 1)
{
    size_t minimum = 77, num_bytes = sizeof minimum;
    uint64_t flags = FI_TRANSMIT | FI_COMPLETION;
    struct fid_ep *ep = self->main.ep;
    SAME(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, sizeof minimum), 0);
    minimum = 0;
    SAME(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, &num_bytes), 0);
    SAME(minimum, 77);
    num_bytes = 2;
    SAME(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, &num_bytes),
         -FI_ETOOSMALL);
    SAME(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, 9999, &minimum, sizeof minimum), -FI_ENOPROTOOPT);
    SAME(fi_control(&ep->fid, FI_SETOPSFLAG, &flags), 0);
    flags = FI_TRANSMIT;
    SAME(fi_control(&ep->fid, FI_GETOPSFLAG, &flags), 0);
    SAME(flags, FI_COMPLETION);
}
