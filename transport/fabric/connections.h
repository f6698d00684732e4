/* What endpoints of other kinds can do: connect, be shared. These give -FI_ENOSYS; why they are
 * there at all: absent.h. */
#ifndef PW_FABRIC_CONNECTIONS_H
#define PW_FABRIC_CONNECTIONS_H
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

int pw_fi_no_set_name(struct fid *fid, void *name, size_t num_bytes);
int pw_fi_no_peer(struct fid_ep *fid, void *name, size_t *num_bytes);
int pw_fi_no_connect(struct fid_ep *fid, const void *name, const void *data, size_t num_bytes);
int pw_fi_no_accept(struct fid_ep *fid, const void *data, size_t num_bytes);
int pw_fi_no_shutdown(struct fid_ep *fid, uint64_t flags);
int pw_fi_no_transmit_context(struct fid_ep *fid, int idx, struct fi_tx_attr *attr,
                              struct fid_ep **out, void *context);
int pw_fi_no_receive_context(struct fid_ep *fid, int idx, struct fi_rx_attr *attr,
                             struct fid_ep **out, void *context);
ssize_t pw_fi_no_size_left(struct fid_ep *fid);
#endif
