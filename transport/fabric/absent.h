/* What libfabric's interface asks of every object and this provider has not: its inline functions
 * call through the table without a look, so that an empty place in it would be a jump to nowhere.
 */
#ifndef PW_FABRIC_ABSENT_H
#define PW_FABRIC_ABSENT_H
#include <rdma/fabric.h>

/* All give -FI_ENOSYS. */
int pw_fi_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int pw_fi_no_control(struct fid *fid, int command, void *argument);
int pw_fi_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* Of an object that can only be closed. */
#define PW_FI_ONLY_CLOSE(CLOSE)        \
    {                                  \
        .size = sizeof(struct fi_ops), \
        .close = (CLOSE),              \
        .bind = pw_fi_no_bind,         \
        .control = pw_fi_no_control,   \
        .ops_open = pw_fi_no_ops,      \
    }
#endif
