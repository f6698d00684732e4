/* What libfabric calls first: the provider `pagewire`, what it can do, and its fabric. */
#include "transport/fabric/provider.h"

#include <rdma/providers/fi_prov.h>
#include <stdlib.h>
#include <string.h>

#define PROVIDER_VERSION FI_VERSION(0, 1)
#define FABRIC_VERSION FI_VERSION(2, 5) /* of libfabric's interface */

#define MESSAGE_CAPS \
    (FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE)
#define REMOTE_CAPS (FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define QUEUE_ENTRIES 65536 /* that may be posted at a time: the interface asks for a number */
#define CAPS (MESSAGE_CAPS | REMOTE_CAPS | DOMAIN_CAPS)
#define ATOMIC_ORDER \
    (FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)
#define ORDER (FI_ORDER_SAS | ATOMIC_ORDER)
#define REMOTE_MR_MODE (FI_MR_VIRT_ADDR | FI_MR_PROV_KEY)
#define TRANSMIT_FLAGS \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define RECEIVE_FLAGS (FI_COMPLETION | FI_MULTI_RECV)
#define ANY_TAG_FORMAT UINT64_C(0xaaaaaaaaaaaaaaaa) /* alternating bits: one field of 64 */
#define ADDRESS_FORMAT (UINT32_C(1) << 31 | 0x5057) /* the provider's own */

/* ---- what the provider offers, and whether that is what the application asks for */

static bool is_within(uint64_t asked, uint64_t offered) { return !(asked & ~offered); }

static bool is_name(const char *asked, const char *offered)
{
    return !asked || !strcmp(asked, offered);
}

static bool wants_remote(const struct fi_info *hints)
{
    return !hints || !hints->caps || hints->caps & (FI_RMA | FI_ATOMIC);
}

static bool suits_domain(const struct fi_info *hints)
{
    const struct fi_domain_attr *asked = hints->domain_attr;
    if (!asked) return true;
    const bool takes_keys = asked->mr_mode == FI_MR_BASIC || asked->mr_mode == FI_MR_UNSPEC ||
                            (asked->mr_mode & REMOTE_MR_MODE) == REMOTE_MR_MODE;
    return is_name(asked->name, PW_FI_NAME) && asked->control_progress != FI_PROGRESS_AUTO &&
           asked->data_progress != FI_PROGRESS_AUTO && asked->cq_data_size <= sizeof(uint64_t) &&
           (asked->mr_key_size == 0 || asked->mr_key_size >= sizeof(uint64_t)) &&
           (!hints->caps || !wants_remote(hints) || takes_keys);
}

static bool suits_transmit(const struct fi_tx_attr *asked)
{
    return !asked ||
           (is_within(asked->caps, CAPS) && is_within(asked->msg_order, ORDER) &&
            is_within(asked->op_flags, TRANSMIT_FLAGS) && asked->comp_order == FI_ORDER_NONE &&
            asked->size <= QUEUE_ENTRIES && asked->inject_size <= pw_fi_inject_bytes() &&
            asked->iov_limit <= PW_FI_IOV_MAX && asked->rma_iov_limit <= 1);
}

static bool suits_receive(const struct fi_rx_attr *asked)
{
    return !asked ||
           (is_within(asked->caps, CAPS) && is_within(asked->msg_order, ORDER) &&
            is_within(asked->op_flags, RECEIVE_FLAGS) && asked->comp_order == FI_ORDER_NONE &&
            asked->size <= QUEUE_ENTRIES && asked->iov_limit <= PW_FI_IOV_MAX);
}

static bool suits_endpoint(const struct fi_ep_attr *asked)
{
    return !asked || ((asked->type == FI_EP_UNSPEC || asked->type == FI_EP_RDM) &&
                      asked->protocol == FI_PROTO_UNSPEC &&
                      asked->max_order_raw_size <= PW_FI_ATOMIC_MAX_BYTES &&
                      asked->max_order_war_size <= PW_FI_ATOMIC_MAX_BYTES &&
                      asked->max_order_waw_size <= PW_FI_ATOMIC_MAX_BYTES &&
                      asked->max_msg_size <= PW_FI_MESSAGE_MAX_BYTES && asked->tx_ctx_cnt <= 1 &&
                      asked->rx_ctx_cnt <= 1);
}

static bool suits(const struct fi_info *hints)
{
    if (!hints) return true;
    const struct fi_fabric_attr *fabric = hints->fabric_attr;
    return is_within(hints->caps, CAPS) && suits_domain(hints) && suits_transmit(hints->tx_attr) &&
           suits_receive(hints->rx_attr) && suits_endpoint(hints->ep_attr) &&
           (!fabric ||
            (is_name(fabric->name, PW_FI_NAME) && is_name(fabric->prov_name, PW_FI_NAME))) &&
           (hints->addr_format == FI_FORMAT_UNSPEC || hints->addr_format == ADDRESS_FORMAT);
}

/* What was asked for of the capabilities that cost something, all of the others. */
static uint64_t caps_for(const struct fi_info *hints)
{
    if (!hints || !hints->caps) return CAPS;
    uint64_t caps = hints->caps | DOMAIN_CAPS;
    if (!(caps & (FI_SEND | FI_RECV)) && caps & (FI_MSG | FI_TAGGED)) caps |= FI_SEND | FI_RECV;
    if (caps & (FI_RMA | FI_ATOMIC) &&
        !(caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)))
        caps |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    return caps;
}

static int mr_mode_for(const struct fi_info *hints)
{
    if (!wants_remote(hints)) return 0;
    if (hints && hints->domain_attr && hints->domain_attr->mr_mode == FI_MR_BASIC)
        return FI_MR_BASIC;
    return REMOTE_MR_MODE;
}

static void fill_domain(struct fi_domain_attr *attr, const struct fi_info *hints)
{
    const struct fi_domain_attr *asked = hints ? hints->domain_attr : NULL;
    attr->threading =
        asked && asked->threading != FI_THREAD_UNSPEC ? asked->threading : FI_THREAD_SAFE;
    attr->control_progress = FI_PROGRESS_MANUAL;
    attr->data_progress = FI_PROGRESS_MANUAL;
    attr->resource_mgmt = FI_RM_ENABLED;
    attr->av_type = asked && asked->av_type != FI_AV_UNSPEC ? asked->av_type : FI_AV_TABLE;
    attr->mr_mode = mr_mode_for(hints);
    attr->mr_key_size = sizeof(uint64_t);
    attr->cq_data_size = sizeof(uint64_t);
    attr->cq_cnt = attr->ep_cnt = attr->tx_ctx_cnt = attr->rx_ctx_cnt = PW_FI_ENDPOINTS_MAX;
    attr->cntr_cnt = 1024;
    attr->max_ep_tx_ctx = attr->max_ep_rx_ctx = 1;
    attr->mr_iov_limit = 1;
    attr->mr_cnt = 1 << 20;
    attr->caps = DOMAIN_CAPS;
}

static void fill_endpoint(struct fi_ep_attr *attr, const struct fi_info *hints)
{
    attr->type = FI_EP_RDM;
    attr->protocol = FI_PROTO_UNSPEC;
    attr->protocol_version = 1;
    attr->max_msg_size = PW_FI_MESSAGE_MAX_BYTES;
    attr->max_order_raw_size = attr->max_order_war_size = attr->max_order_waw_size =
        PW_FI_ATOMIC_MAX_BYTES;
    attr->mem_tag_format = hints && hints->ep_attr && hints->ep_attr->mem_tag_format
                               ? hints->ep_attr->mem_tag_format
                               : ANY_TAG_FORMAT;
    attr->tx_ctx_cnt = attr->rx_ctx_cnt = 1;
}

static void fill_transmit(struct fi_tx_attr *attr, const struct fi_info *hints, uint64_t caps)
{
    attr->caps = caps & (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE);
    attr->op_flags = hints && hints->tx_attr ? hints->tx_attr->op_flags : 0;
    attr->msg_order = ORDER;
    attr->comp_order = FI_ORDER_NONE;
    attr->inject_size = pw_fi_inject_bytes();
    attr->size = QUEUE_ENTRIES;
    attr->iov_limit = PW_FI_IOV_MAX;
    attr->rma_iov_limit = 1;
}

static void fill_receive(struct fi_rx_attr *attr, const struct fi_info *hints, uint64_t caps)
{
    attr->caps =
        caps & (MESSAGE_CAPS | FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE) & ~(FI_SEND);
    attr->op_flags = hints && hints->rx_attr ? hints->rx_attr->op_flags : 0;
    attr->msg_order = ORDER;
    attr->comp_order = FI_ORDER_NONE;
    attr->size = QUEUE_ENTRIES;
    attr->iov_limit = PW_FI_IOV_MAX;
}

int pw_fi_info(const pw_fabric_library *library, uint32_t api_version, uint32_t provider_version,
               const struct fi_info *hints, struct fi_info **out)
{
    if (!pw_fi_is_configured() || !suits(hints)) return -FI_ENODATA;
    struct fi_info *info = library->dupinfo(NULL);
    if (!info) return -FI_ENOMEM;
    info->caps = caps_for(hints);
    info->mode = 0;
    info->addr_format = ADDRESS_FORMAT;
    fill_domain(info->domain_attr, hints);
    fill_endpoint(info->ep_attr, hints);
    fill_transmit(info->tx_attr, hints, info->caps);
    fill_receive(info->rx_attr, hints, info->caps);
    info->fabric_attr->prov_version = provider_version;
    info->fabric_attr->api_version = api_version;
    info->fabric_attr->name = strdup(PW_FI_NAME);
    info->domain_attr->name = strdup(PW_FI_NAME);
    if (!info->fabric_attr->name ||
        !info->domain_attr->name) { /* prov_name is libfabric's to set */
        library->freeinfo(info);
        return -FI_ENOMEM;
    }
    *out = info;
    return 0;
}

/* ---- what it has not */

PW_FI_ABSENT(int, pw_fi_no_bind, struct fid *fid, struct fid *other, uint64_t flags)
PW_FI_ABSENT(int, pw_fi_no_control, struct fid *fid, int command, void *argument)
PW_FI_ABSENT(int, pw_fi_no_ops, struct fid *fid, const char *name, uint64_t flags, void **ops,
             void *context)

/* ---- the provider and its fabric */

static pw_fabric_library library;

static int fabric_close(struct fid *fid)
{
    free(fid);
    return 0;
}

PW_FI_ABSENT(static int, no_passive, struct fid_fabric *fabric, struct fi_info *info,
             struct fid_pep **out, void *context)
PW_FI_ABSENT(static int, no_event_queue, struct fid_fabric *fabric, struct fi_eq_attr *attr,
             struct fid_eq **out, void *context)
PW_FI_ABSENT(static int, no_wait_set, struct fid_fabric *fabric, struct fi_wait_attr *attr,
             struct fid_wait **out)
PW_FI_ABSENT(static int, no_trywait, struct fid_fabric *fabric, struct fid **fids, int count)

static struct fi_ops fid_ops = PW_FI_ONLY_CLOSE(fabric_close);
static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = pw_fi_domain_open,
    .passive_ep = no_passive,
    .eq_open = no_event_queue,
    .wait_open = no_wait_set,
    .trywait = no_trywait,
};

static int open_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
    if (attr->name && strcmp(attr->name, PW_FI_NAME)) return -FI_ENODATA;
    struct fid_fabric *fabric = calloc(1, sizeof *fabric);
    if (!fabric) return -FI_ENOMEM;
    fabric->fid = (struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fid_ops};
    fabric->ops = &fabric_ops;
    *out = fabric;
    return 0;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **out)
{
    /* addresses come from fi_getname alone */
    return pw_fi_info(&library, version, PROVIDER_VERSION, hints, out);
}

static struct fi_provider provider = {
    .version = PROVIDER_VERSION,
    .fi_version = FABRIC_VERSION,
    .name = PW_FI_NAME,
    .getinfo = getinfo,
    .fabric = open_fabric,
    .cleanup = pw_fi_detach_marks,
};

FI_EXT_INI
{
    pw_sentence reason;
    pw_sentence_clear(&reason);
    if (pw_fabric_library_find(__builtin_return_address(0), &library, &reason) < 0) {
        pw_fi_say(reason.text);
        return NULL;
    }
    pw_fi_process_set_library(&library);
    return &provider;
}
