/* Messages in: receives posted, tags matched, messages kept that came before their receive. A
 * message from one node is matched in the order of sending; a receive from any node takes the one
 * that arrived first in virtual time. */
#ifndef PW_FABRIC_MATCHING_H
#define PW_FABRIC_MATCHING_H
#include "transport/fabric/messages.h"

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

/* A sound message for the endpoint is here: envelope and header are those of the frame. PW_ERR_*.
 */
int pw_fi_match_message(pw_fi_endpoint *endpoint, const pw_envelope *envelope,
                        const pw_fi_header *header, const uint8_t *frame, uint32_t frame_bytes);
/* Take back the receive with this context: 0, -FI_ENOENT when it is not there any more. */
int pw_fi_cancel_receive(pw_fi_endpoint *endpoint, const void *context);
/* A receive's read is over: its parts get their bytes, its time is on the timeline. */
int pw_fi_end_receive(pw_fi_process *process, pw_fi_operation *receive);
#endif
