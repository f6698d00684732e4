/* Messages out: short ones ride in the packetizer's message, longer ones are exposed for the
 * receiver to read. And the form that messages have on the way. */
#ifndef PW_FABRIC_MESSAGES_H
#define PW_FABRIC_MESSAGES_H
#include "transport/fabric/objects.h"

/* Kinds of envelopes besides PW_MESSAGE_EAGER and PW_MESSAGE_RENDEZVOUS. */
#define PW_FI_MESSAGE_ATOMIC 16
#define PW_FI_MESSAGE_ANSWER 17 /* to an atomic operation */
#define PW_FI_MESSAGE_DATA 18   /* remote completion data of a write that has arrived */

#define PW_FI_HEADER_TAGGED 1
#define PW_FI_HEADER_DATA 2 /* `data` is meant */

/* Stands behind envelope and payload, and counts as part of the envelope's packet. */
typedef struct {
    uint64_t tag, data;
    uint16_t source_endpoint, destination_endpoint;
    uint8_t flags;
    uint8_t reserved[3];
} pw_fi_header;
_Static_assert(sizeof(pw_fi_header) == 24, "header of a message");

#define PW_FI_FRAME_BYTES(payload_bytes) \
    ((uint32_t)(PW_ENVELOPE_BYTES + sizeof(pw_fi_header) + (payload_bytes)))

extern struct fi_ops_msg pw_fi_message_ops;
extern struct fi_ops_tagged pw_fi_tagged_ops;

/* What a call asks to be sent. */
typedef struct {
    const struct iovec *iov;
    size_t num_parts;
    fi_addr_t to;
    uint64_t tag, data;
    void *context;
    uint64_t flags; /* FI_COMPLETION, FI_INJECT, FI_REMOTE_CQ_DATA */
    bool is_tagged;
    bool is_silent; /* fi_inject: no entry, though counted */
} pw_fi_outgoing;

/* A message of the host's own kind, from the endpoint with a number: envelope, payload, header.
 * PW_ERR_*. */
int pw_fi_send_plain(pw_fi_process *process, uint16_t endpoint, uint32_t node,
                     uint16_t peer_endpoint, uint8_t kind, const void *payload,
                     uint32_t payload_bytes, int64_t at_ns, uint64_t data);

/* Total of the parts; gather and scatter between them and one buffer of so many bytes. */
uint64_t pw_fi_total_bytes(const struct iovec *iov, size_t num_parts);
void pw_fi_gather(void *buffer, const struct iovec *iov, size_t num_parts);
void pw_fi_scatter(const struct iovec *iov, size_t num_parts, const void *buffer,
                   uint64_t num_bytes);
/* Does a call with these flags want an entry? */
static inline bool pw_fi_wants_entry(const pw_fi_sink *sink, uint64_t flags)
{
    return !sink->is_selective || (flags & FI_COMPLETION);
}
#endif
