#include "transport/fabric/matching.h"
#include <stdlib.h>
#include <string.h>

#include "transport/fabric/landing.h"
#include "transport/fabric/process.h"

static bool suits(const pw_fi_operation *receive, uint64_t tag, uint32_t node,
                  uint16_t peer_endpoint)
{
    return !((receive->tag ^ tag) & ~receive->ignore) &&
           (receive->node == PW_FI_ANY ||
            (receive->node == node && receive->peer_endpoint == peer_endpoint));
}

/* Is it the first of its source that suits the receive? A message that was sent later may arrive
 * earlier in virtual time, where a gap on the link was too short for the one before it. */
static bool is_first_of_source(const pw_fi_matching *matching, const pw_fi_operation *receive,
                               const pw_fi_operation *arrived)
{
    for (const pw_fi_operation *each = matching->unexpected.head; each != arrived;
         each = each->next)
        if (pw_fi_is_of_same_source(each, arrived) &&
            suits(receive, each->tag, each->node, each->peer_endpoint))
            return false;
    return true;
}

/* The message that a receive takes, NULL: it is not here. */
pw_fi_operation *pw_fi_find_arrived(const pw_fi_matching *matching, const pw_fi_operation *receive)
{
    pw_fi_operation *best = NULL;
    for (pw_fi_operation *each = matching->unexpected.head; each; each = each->next) {
        if (!suits(receive, each->tag, each->node, each->peer_endpoint)) continue;
        if (receive->node != PW_FI_ANY) return each;
        if (!best ||
            (each->arrival_ns < best->arrival_ns && is_first_of_source(matching, receive, each)))
            best = each;
    }
    return best;
}

static int keep(pw_fi_endpoint *endpoint, pw_fi_matching *matching, const pw_envelope *envelope,
                const pw_fi_header *header, const uint8_t *frame, uint32_t frame_bytes)
{
    pw_fi_operation *arrived = pw_fi_take(endpoint->process);
    if (!arrived) return PW_ERR_NOMEM;
    uint8_t *copy = arrived->small;
    if (frame_bytes > sizeof arrived->small) copy = arrived->memory = malloc(frame_bytes);
    if (!copy) {
        pw_fi_give(endpoint->process, arrived);
        return PW_ERR_NOMEM;
    }
    memcpy(copy, frame, frame_bytes);
    arrived->kind = PW_FI_ARRIVED;
    arrived->frame = copy;
    arrived->frame_bytes = frame_bytes;
    arrived->endpoint = endpoint;
    arrived->node = envelope->source_node;
    arrived->peer_endpoint = header->source_endpoint;
    arrived->tag = header->tag;
    arrived->message_bytes = envelope->num_bytes;
    arrived->arrival_ns = envelope->arrival_ns;
    pw_fi_append(&matching->unexpected, arrived);
    return PW_OK;
}

int pw_fi_match_message(pw_fi_endpoint *endpoint, const pw_envelope *envelope,
                        const pw_fi_header *header, const uint8_t *frame, uint32_t frame_bytes)
{
    pw_fi_matching *matching =
        header->flags & PW_FI_HEADER_TAGGED ? &endpoint->tagged : &endpoint->plain;
    pw_fi_operation *receive = matching->posted.head;
    while (receive && !suits(receive, header->tag, envelope->source_node, header->source_endpoint))
        receive = receive->next;
    if (!receive) return keep(endpoint, matching, envelope, header, frame, frame_bytes);
    if (receive->is_multi) return pw_fi_land_in_part(endpoint->process, receive, header, frame);
    pw_fi_unlink(receive);
    return pw_fi_land(endpoint->process, receive, header, frame);
}
