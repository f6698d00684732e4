/* The calls that post receives, look at messages that came early, and take receives back. */
#ifndef PW_FABRIC_RECEIVES_H
#define PW_FABRIC_RECEIVES_H
#include "transport/fabric/objects.h"

ssize_t pw_fi_recv(struct fid_ep *fid, void *buffer, size_t num_bytes, void *descriptor,
                   fi_addr_t from, void *context);
ssize_t pw_fi_recvv(struct fid_ep *fid, const struct iovec *iov, void **descriptors, size_t count,
                    fi_addr_t from, void *context);
ssize_t pw_fi_recvmsg(struct fid_ep *fid, const struct fi_msg *message, uint64_t flags);
ssize_t pw_fi_trecv(struct fid_ep *fid, void *buffer, size_t num_bytes, void *descriptor,
                    fi_addr_t from, uint64_t tag, uint64_t ignore, void *context);
ssize_t pw_fi_trecvv(struct fid_ep *fid, const struct iovec *iov, void **descriptors, size_t count,
                     fi_addr_t from, uint64_t tag, uint64_t ignore, void *context);
ssize_t pw_fi_trecvmsg(struct fid_ep *fid, const struct fi_msg_tagged *message, uint64_t flags);

/* Take back the receive with this context: 0, -FI_ENOENT when it is not there any more. */
int pw_fi_cancel_receive(pw_fi_endpoint *endpoint, const void *context);
#endif
