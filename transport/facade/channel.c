#include "transport/facade/messaging.h"
#include <string.h>

static bool matches(const pw_mpi_library *mpi, const pw_operation *arrived, int32_t source,
                    int32_t tag)
{
    return (source == mpi->any_source || source == arrived->source) &&
           (tag == mpi->any_tag || tag == arrived->tag);
}

/* Does an earlier message of the same source match too? Messages of a source keep their order. */
static bool is_behind(const pw_mpi_library *mpi, const pw_channel *channel,
                      const pw_operation *arrived, int32_t tag)
{
    for (const pw_operation *each = channel->arrived_head; each != arrived; each = each->next)
        if (matches(mpi, each, arrived->source, tag)) return true;
    return false;
}

pw_operation *pw_channel_find(const pw_messaging *messaging, const pw_channel *channel,
                              int32_t source, int32_t tag)
{
    const pw_mpi_library *mpi = messaging->mpi;
    pw_operation *best = NULL;
    for (pw_operation *each = channel->arrived_head; each; each = each->next) {
        if (!matches(mpi, each, source, tag)) continue;
        if (source != mpi->any_source) return each;
        bool is_better = !best || each->is_announced || each->arrival_ns < best->arrival_ns;
        if (!is_better || is_behind(mpi, channel, each, tag)) continue;
        if (each->is_announced) return each;
        best = each;
    }
    return best;
}

void pw_channel_remove(pw_channel *channel, pw_operation *arrived)
{
    pw_operation_list list = {channel->arrived_head, channel->arrived_tail};
    pw_list_remove(&list, arrived);
    channel->arrived_head = list.head;
    channel->arrived_tail = list.tail;
}

/* Take a message from MPI into the channel. 1: there was one. */
static int take(pw_messaging *messaging, pw_channel *channel, int32_t source)
{
    const pw_mpi_library *mpi = messaging->mpi;
    int is_here = 0, count = 0;
    pw_mpi_handle message = 0;
    pw_mpi_status status;
    int error = mpi->improbe(source, mpi->any_tag, channel->comm, &is_here, &message, &status);
    if (!error && !is_here) return 0;
    pw_operation *arrived = error ? NULL : pw_operation_new(messaging, PW_OPERATION_ARRIVED);
    if (!error && !arrived) return PW_ERR_NOMEM;
    if (!error)
        error = mpi->mrecv(arrived->frame, (int)messaging->frame_bytes, mpi->byte, &message,
                           &status);
    if (!error) error = mpi->get_count(&status, mpi->byte, &count);
    if (error) {
        messaging->mpi_error = error;
        if (arrived) pw_operation_recycle(messaging, arrived);
        return PW_ERR_HOST;
    }
    arrived->channel = channel;
    arrived->source = pw_mpi_source(mpi, &status);
    arrived->tag = pw_mpi_tag(mpi, &status);
    arrived->frame_bytes = (uint32_t)count;
    int code = pw_ni_message_check(pw_node_ni(messaging->node), arrived->frame,
                                   arrived->frame_bytes);
    if (code < 0) {
        pw_operation_recycle(messaging, arrived);
        return code;
    }
    pw_envelope envelope;
    memcpy(&envelope, arrived->frame, sizeof envelope);
    arrived->num_bytes = envelope.num_bytes;
    arrived->arrival_ns = envelope.arrival_ns;
    arrived->peer = envelope.source_node;
    pw_operation_list list = {channel->arrived_head, channel->arrived_tail};
    pw_list_append(&list, arrived);
    channel->arrived_head = list.head;
    channel->arrived_tail = list.tail;
    return 1;
}

/* Every message of the source is taken, not only those with the tag: so all in the channel are
 * older than any that MPI still holds of the same source, and order is kept. */
int pw_channel_look(pw_messaging *messaging, pw_channel *channel, int32_t source, int32_t tag,
                    pw_operation **out)
{
    for (;;) {
        *out = pw_channel_find(messaging, channel, source, tag);
        if (*out) return PW_OK;
        int code = take(messaging, channel, source);
        if (code <= 0) return code;
    }
}
