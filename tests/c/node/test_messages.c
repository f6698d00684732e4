/* The message layer by itself: which message a receive takes, where it lands, what goes through
 * when a receive is taken back. */
#include "tests/c/node/message_nodes.h"

#define EAGER_BYTES 64
#define LONG_BYTES 100000
#define TAG 7

typedef struct {
    joined all;
    pw_messages messages[2];
} fixture;

static fixture *open_fixture(void)
{
    fixture *self = calloc(1, sizeof *self);
    assert(self);
    begin(&self->all, 2);
    for (int i = 0; i < 2; i++) open_messages(&self->messages[i], self->all.nodes[i], EAGER_BYTES);
    return self;
}

static void close_fixture(fixture *self)
{
    for (int i = 0; i < 2; i++) {
        assert(!self->messages[i].sends.head && !pw_node_num_leaving(self->all.nodes[i]));
        pw_messages_close(&self->messages[i]);
    }
    end(&self->all);
    free(self);
}

/* From node 0 to node 1; a long one is under way then. */
static pw_operation *send(fixture *self, uint64_t context, uint64_t tag, const void *data,
                          uint64_t num_bytes)
{
    pw_messages *messages = &self->messages[0];
    const pw_message_header header = {.context = context, .tag = tag, .source = 5};
    if (num_bytes <= EAGER_BYTES) {
        assert(pw_messages_send_eager(messages, 1, (uintptr_t)data, num_bytes, &header) == PW_OK);
        return NULL;
    }
    pw_operation *sent = pw_operation_new(messages, PW_OPERATION_SEND);
    sent->peer = 1;
    sent->address = (uintptr_t)data;
    sent->num_bytes = sent->capacity_bytes = num_bytes;
    assert(pw_messages_send_exposed(messages, sent, &header) == PW_OK);
    return sent;
}

static pw_operation *new_receive(fixture *self, uint64_t tag, uint64_t ignore, void *buffer,
                                 uint64_t capacity_bytes)
{
    pw_operation *receive = pw_operation_new(&self->messages[1], PW_OPERATION_RECEIVE);
    receive->tag = tag;
    receive->ignore = ignore;
    receive->peer = PW_ANY_NODE;
    receive->address = (uintptr_t)buffer;
    receive->capacity_bytes = capacity_bytes;
    assert(pw_operation_acquire(&self->messages[1], receive) == PW_OK);
    return receive;
}

static pw_operation *post(fixture *self, uint64_t tag, uint64_t ignore, void *buffer,
                          uint64_t capacity_bytes)
{
    pw_operation *receive = new_receive(self, tag, ignore, buffer, capacity_bytes);
    assert(pw_messages_post(&self->messages[1], receive) == PW_OK);
    return receive;
}

static void turn_until_quiet(fixture *self)
{
    int moved;
    for (int quiet = 0; quiet < 4; quiet = moved ? 0 : quiet + 1)
        assert((moved = turn_all(&self->all)) >= 0);
}

static void forget(fixture *self, int node, pw_operation *operation)
{
    assert(operation->done && !operation->list && !operation->has_lease);
    pw_operation_free(&self->messages[node], operation);
}

static void test_posted_and_unexpected(fixture *self)
{
    char room[3] = "";
    pw_operation *posted = post(self, TAG, 0, &room[0], 1);
    send(self, 0, TAG + 1, "b", 1); /* for nobody yet */
    send(self, 1, TAG, "x", 1);     /* of another context */
    send(self, 0, TAG, "a", 1);
    turn_until_quiet(self);
    assert(posted->done && room[0] == 'a' && posted->source == 5 && posted->peer == 0);
    pw_operation *any = post(self, 0, UINT64_MAX, &room[1], 1);
    assert(any->done && room[1] == 'b' && any->tag == TAG + 1);
    pw_operation *none = post(self, 0, UINT64_MAX, &room[2], 1);
    assert(!none->done && self->messages[1].unexpected.head->context == 1);
    assert(pw_messages_withdraw(&self->messages[1], none) == PW_OK);
    forget(self, 1, posted);
    forget(self, 1, any);
    forget(self, 1, none);
}

/* Bits of the tag that are not looked at, the others must be equal. */
static void test_ignored_bits(fixture *self)
{
    char room[2] = "";
    send(self, 0, 0x1234, "a", 1);
    send(self, 0, 0x1334, "b", 1);
    turn_until_quiet(self);
    pw_operation *second = post(self, 0x13ff, 0xff, &room[1], 1);
    pw_operation *first = post(self, 0xff34, 0xff00, &room[0], 1);
    assert(first->done && second->done && room[0] == 'a' && room[1] == 'b');
    forget(self, 1, first);
    forget(self, 1, second);
}

/* Of several messages the one that a probe told of is taken, but not before one of its source. */
static void test_announced(fixture *self)
{
    char room = 0;
    pw_operation wanted = {.ignore = UINT64_MAX, .peer = PW_ANY_NODE};
    send(self, 0, 1, "a", 1);
    send(self, 0, 2, "b", 1);
    turn_until_quiet(self);
    pw_operation *found = pw_messages_find(&self->messages[1], &wanted);
    assert(found->tag == 1);
    found->next->is_announced = 1;
    assert(pw_messages_find(&self->messages[1], &wanted) == found);
    found->next->source = 6; /* as if another one had sent it */
    assert(pw_messages_find(&self->messages[1], &wanted) == found->next);
    pw_operation *receive = new_receive(self, 0, 0, &room, 1);
    assert(pw_messages_take(&self->messages[1], receive, found) == PW_OK);
    assert(receive->done && room == 'a' && receive->tag == 1);
    forget(self, 1, receive);
    receive = post(self, 2, 0, &room, 1);
    assert(receive->done && room == 'b');
    forget(self, 1, receive);
}

static void test_long_messages(fixture *self)
{
    const uint8_t *data = make_pattern(LONG_BYTES);
    uint8_t *room = make_buffer(LONG_BYTES);
    pw_operation *sent = send(self, 0, TAG, data, LONG_BYTES);
    assert(!sent->done && sent->list == &self->messages[0].sends);
    pw_operation *receive = post(self, TAG, 0, room, LONG_BYTES);
    turn_until_quiet(self);
    assert(receive->num_bytes == LONG_BYTES && !receive->error && !sent->error);
    assert(memcmp(data, room, LONG_BYTES) == 0);
    assert(receive->complete_ns > receive->posted_ns);
    forget(self, 0, sent);
    forget(self, 1, receive);
}

static void test_lengths(fixture *self)
{
    char room[4] = "___";
    const uint8_t *data = make_pattern(LONG_BYTES);
    send(self, 0, TAG, "abc", 3);
    pw_operation *sent = send(self, 0, TAG, data, LONG_BYTES);
    turn_until_quiet(self);
    pw_operation *cut = post(self, TAG, 0, room, 2);
    assert(cut->done && pw_operation_is_truncated(cut) && cut->num_bytes == 2);
    assert(memcmp(room, "ab_", 3) == 0);
    pw_operation *unsized = pw_operation_new(&self->messages[1], PW_OPERATION_RECEIVE);
    unsized->is_unsized = 1;
    unsized->tag = TAG;
    unsized->peer = PW_ANY_NODE;
    assert(pw_messages_post(&self->messages[1], unsized) == PW_OK);
    turn_until_quiet(self);
    assert(!pw_operation_is_truncated(unsized) && unsized->num_bytes == LONG_BYTES);
    assert(memcmp((const void *)(uintptr_t)unsized->address, data, LONG_BYTES) == 0);
    forget(self, 0, sent);
    forget(self, 1, cut);
    forget(self, 1, unsized);
}

/* One that nobody asks for any more is over by itself. */
static void test_dropped(fixture *self)
{
    const uint8_t *data = make_pattern(LONG_BYTES);
    uint8_t *room = make_buffer(LONG_BYTES);
    pw_operation *receive = post(self, TAG, 0, room, LONG_BYTES);
    receive->is_dropped = 1;
    send(self, 0, TAG, data, LONG_BYTES)->is_dropped = 1;
    turn_until_quiet(self);
    assert(memcmp(data, room, LONG_BYTES) == 0 && !self->messages[1].posted.head);
    assert(self->all.strategies[1].num_acquired == self->all.strategies[1].num_released);
}

int main(void)
{
    static void (*const tests[])(fixture *) = {
        test_posted_and_unexpected, test_ignored_bits, test_announced,
        test_long_messages,         test_lengths,      test_dropped,
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        fixture *self = open_fixture();
        tests[i](self);
        close_fixture(self);
    }
    return 0;
}
