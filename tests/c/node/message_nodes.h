/* The message layer on nodes of a test: what it and its node call each other for. */
#ifndef PW_TESTS_MESSAGE_NODES_H
#define PW_TESTS_MESSAGE_NODES_H
#include "node/messages/messages.h"
#include "tests/c/node/node_pair.h"

static inline int message_arrived(void *context, uint32_t source, const uint8_t *frame,
                                  uint32_t frame_bytes)
{
    pw_arrival arrival;
    assert(pw_messages_read(context, source, frame, frame_bytes, &arrival) == PW_OK);
    return pw_messages_match(context, &arrival);
}

static inline int message_finished(void *context, pw_handle *handle)
{
    return pw_messages_finish(context, handle);
}

static inline void open_messages(pw_messages *messages, pw_node *node, uint64_t eager_bytes)
{
    const pw_messages_host nobody = {.context = NULL};
    assert(pw_messages_open(messages, node, &nobody, eager_bytes, 0, sizeof(pw_operation)) ==
           PW_OK);
    pw_node_set_host(node, &(pw_node_host){.context = messages,
                                           .message = message_arrived,
                                           .finished = message_finished});
}
#endif
