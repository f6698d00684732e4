#include "transport/fabric/domain.h"
#include <stdlib.h>

#include "transport/fabric/absent.h"
#include "transport/fabric/atomic_calls.h"
#include "transport/fabric/av.h"
#include "transport/fabric/counter.h"
#include "transport/fabric/cq.h"
#include "transport/fabric/endpoint.h"
#include "transport/fabric/process.h"
#include "transport/fabric/region.h"

static int domain_close(struct fid *fid)
{
    pw_fi_domain *domain = (pw_fi_domain *)(void *)fid;
    if (domain->num_users) return -FI_EBUSY;
    free(domain);
    return 0;
}

static int no_scalable(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                       void *context)
{
    (void)domain, (void)info, (void)ep, (void)context;
    return -FI_ENOSYS;
}

static int no_poll(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **out)
{
    (void)domain, (void)attr, (void)out;
    return -FI_ENOSYS;
}

static int no_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **out,
                  void *context)
{
    (void)domain, (void)attr, (void)out, (void)context;
    return -FI_ENOSYS;
}

static int no_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **out,
                  void *context)
{
    (void)domain, (void)attr, (void)out, (void)context;
    return -FI_ENOSYS;
}

static struct fi_ops fid_ops = PW_FI_ONLY_CLOSE(domain_close);
static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = pw_fi_av_open,
    .cq_open = pw_fi_cq_open,
    .endpoint = pw_fi_endpoint_open,
    .scalable_ep = no_scalable,
    .cntr_open = pw_fi_counter_open,
    .poll_open = no_poll,
    .stx_ctx = no_stx,
    .srx_ctx = no_srx,
    .query_atomic = pw_fi_query_atomic,
};

int pw_fi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out,
                      void *context)
{
    pw_fi_process *process;
    const int error = pw_fi_process_get(&process);
    if (error) return -error;
    pw_fi_domain *domain = calloc(1, sizeof *domain);
    if (!domain) return -FI_ENOMEM;
    domain->process = process;
    domain->fabric = (pw_fi_fabric *)(void *)fabric;
    domain->mr_mode = info->domain_attr ? info->domain_attr->mr_mode : 0;
    domain->fid.fid = (struct fid){.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &fid_ops};
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &pw_fi_region_ops;
    *out = &domain->fid;
    return 0;
}
