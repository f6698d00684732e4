/* Domains: where everything else is opened; and the regions of memory that are registered there. */
#include "transport/fabric/provider.h"

#include "node/record/recorder.h"

#include <stdlib.h>

#define WHOLE_BYTES (UINT64_C(1) << 47) /* of a process: "all memory" */

/* ---- regions */

static int region_close(struct fid *fid)
{
    pw_fi_region *region = (pw_fi_region *)(void *)fid;
    pw_fi_process *process = region->domain->process;
    pw_fi_enter(process);
    pw_ni_unexpose(process->ni, region->fid.key);
    if (region->recorded && process->clock->recorder)
        pw_recorder_deregistered(process->clock->recorder, region->recorded);
    pw_fi_region **link = &process->regions;
    while (*link != region) link = &(*link)->next;
    *link = region->next;
    region->domain->num_users--;
    pw_fi_leave(process);
    free(region);
    return 0;
}

static int region_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    return other->fclass == FI_CLASS_EP ? 0 : -FI_ENOSYS;
}

static int region_control(struct fid *fid, int command, void *argument)
{
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops region_fid_ops = {.size = sizeof(struct fi_ops),
                                       .close = region_close,
                                       .bind = region_bind,
                                       .control = region_control,
                                       .ops_open = pw_fi_no_ops};

/* Its number in the recording. */
static uint32_t record(pw_fi_process *process, const pw_fi_region *region, uint32_t rights)
{
    pw_recorder *recorder = process->clock->recorder;
    const bool is_all = region->num_bytes == WHOLE_BYTES;
    const pw_span span = {region->address, region->num_bytes};
    return recorder ? pw_recorder_registered(recorder, span, region->fid.key,
                                             rights | (is_all ? PW_REGISTER_ALL : 0))
                    : 0;
}

static int open_region(pw_fi_domain *domain, const struct iovec *iov, uint64_t access,
                       void *context, struct fid_mr **out)
{
    pw_fi_process *process = domain->process;
    pw_fi_region *region = calloc(1, sizeof *region);
    if (!region) return -FI_ENOMEM;
    region->domain = domain;
    region->address = (uintptr_t)iov->iov_base;
    region->num_bytes = iov->iov_len;
    if (region->num_bytes > WHOLE_BYTES) { /* MPI_BOTTOM and "everything" */
        region->address = 0;
        region->num_bytes = WHOLE_BYTES;
    }
    region->access = access;
    pw_fi_enter(process);
    const uint32_t rights = (access & FI_REMOTE_READ ? PW_REMOTE_READ : 0) |
                            (access & FI_REMOTE_WRITE ? PW_REMOTE_WRITE : 0);
    const int code =
        pw_ni_register(process->ni, region->address, region->num_bytes, rights, &region->fid.key);
    if (code == PW_OK) {
        region->recorded = record(process, region, rights);
        region->next = process->regions;
        process->regions = region;
        domain->num_users++;
    }
    pw_fi_leave(process);
    if (code < 0) {
        free(region);
        return -pw_fi_error_of(code);
    }
    region->fid.mem_desc = region;
    region->fid.fid =
        (struct fid){.fclass = FI_CLASS_MR, .context = context, .ops = &region_fid_ops};
    *out = &region->fid;
    return 0;
}

static int reg(struct fid *fid, const void *buffer, size_t num_bytes, uint64_t access,
               uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **out,
               void *context)
{
    /* keys are the NI's: FI_MR_PROV_KEY */
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    return open_region((pw_fi_domain *)(void *)fid, &iov, access, context, out);
}

static int regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **out,
                void *context)
{
    if (count != 1) return -FI_EINVAL; /* mr_iov_limit */
    return open_region((pw_fi_domain *)(void *)fid, iov, access, context, out);
}

static int regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                   struct fid_mr **out)
{
    if (attr->iov_count != 1) return -FI_EINVAL;
    return open_region((pw_fi_domain *)(void *)fid, attr->mr_iov, attr->access, attr->context, out);
}

static struct fi_ops_mr region_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = reg,
    .regv = regv,
    .regattr = regattr,
};

const pw_fi_region *pw_fi_region_find(const pw_fi_process *process, uint64_t key, uint64_t address,
                                      uint64_t num_bytes, uint64_t access)
{
    const pw_fi_region *region = process->regions;
    while (region && region->fid.key != key) region = region->next;
    if (!region || (region->access & access) != access) return NULL;
    const uint64_t offset = address - region->address;
    return offset <= region->num_bytes && num_bytes <= region->num_bytes - offset ? region : NULL;
}

/* ---- domains */

static int domain_close(struct fid *fid)
{
    pw_fi_domain *domain = (pw_fi_domain *)(void *)fid;
    if (domain->num_users) return -FI_EBUSY;
    free(domain);
    return 0;
}

PW_FI_ABSENT(static int, no_scalable, struct fid_domain *domain, struct fi_info *info,
             struct fid_ep **ep, void *context)
PW_FI_ABSENT(static int, no_poll, struct fid_domain *domain, struct fi_poll_attr *attr,
             struct fid_poll **out)
PW_FI_ABSENT(static int, no_stx, struct fid_domain *domain, struct fi_tx_attr *attr,
             struct fid_stx **out, void *context)
PW_FI_ABSENT(static int, no_srx, struct fid_domain *domain, struct fi_rx_attr *attr,
             struct fid_ep **out, void *context)

static struct fi_ops domain_fid_ops = PW_FI_ONLY_CLOSE(domain_close);
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
    domain->fid.fid =
        (struct fid){.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fid_ops};
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &region_ops;
    *out = &domain->fid;
    return 0;
}
