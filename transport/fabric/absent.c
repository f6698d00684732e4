#include "transport/fabric/absent.h"
#include <rdma/fi_errno.h>

int pw_fi_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid, (void)other, (void)flags;
    return -FI_ENOSYS;
}

int pw_fi_no_control(struct fid *fid, int command, void *argument)
{
    (void)fid, (void)command, (void)argument;
    return -FI_ENOSYS;
}

int pw_fi_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    (void)fid, (void)name, (void)flags, (void)ops, (void)context;
    return -FI_ENOSYS;
}
