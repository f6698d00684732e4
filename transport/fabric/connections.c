#include "transport/fabric/connections.h"
#include <rdma/fi_errno.h>

int pw_fi_no_set_name(struct fid *fid, void *name, size_t num_bytes)
{
    (void)fid, (void)name, (void)num_bytes;
    return -FI_ENOSYS;
}

int pw_fi_no_peer(struct fid_ep *fid, void *name, size_t *num_bytes)
{
    (void)fid, (void)name, (void)num_bytes;
    return -FI_ENOSYS;
}

int pw_fi_no_connect(struct fid_ep *fid, const void *name, const void *data, size_t num_bytes)
{
    (void)fid, (void)name, (void)data, (void)num_bytes;
    return -FI_ENOSYS;
}

int pw_fi_no_accept(struct fid_ep *fid, const void *data, size_t num_bytes)
{
    (void)fid, (void)data, (void)num_bytes;
    return -FI_ENOSYS;
}

int pw_fi_no_shutdown(struct fid_ep *fid, uint64_t flags)
{
    (void)fid, (void)flags;
    return -FI_ENOSYS;
}

int pw_fi_no_transmit_context(struct fid_ep *fid, int idx, struct fi_tx_attr *attr,
                              struct fid_ep **out, void *context)
{
    (void)fid, (void)idx, (void)attr, (void)out, (void)context;
    return -FI_ENOSYS;
}

int pw_fi_no_receive_context(struct fid_ep *fid, int idx, struct fi_rx_attr *attr,
                             struct fid_ep **out, void *context)
{
    (void)fid, (void)idx, (void)attr, (void)out, (void)context;
    return -FI_ENOSYS;
}

ssize_t pw_fi_no_size_left(struct fid_ep *fid)
{
    (void)fid;
    return -FI_ENOSYS;
}
