#include "unimem/streams/node_streams.h"
#include "node/door/door.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRITES 32 /* channels of the engine */
#define REFUSAL_BYTES 384

typedef struct {
    uint32_t source;
    uint64_t word;
    int64_t time_ns;
} message;

typedef struct {
    pagewire_operation *operation; /* NULL: free */
    uint32_t connection;
} write_under_way;

struct pw_node_streams {
    pagewire_node *node;
    unimem *memory;
    pw_streams *streams;
    uint64_t *arenas;
    write_under_way writes[WRITES];
    uint32_t num_writes;
    /* What the mailbox's callback has left, which may call nothing itself, in the order of time:
     * messages from first to num_messages. */
    message *inbox;
    uint32_t first, num_messages, capacity;
    uint64_t *keys; /* of each slot's ring while it is registered; 0: it is not */
    uint32_t num_slots;
    char refusal[REFUSAL_BYTES]; /* empty: none */
    bool is_short;               /* the inbox could not grow: a message is lost */
    int failure;                 /* of a write, for good */
};

static int start_write(void *context, uint32_t peer, uint32_t connection, const uint8_t *source,
                       uint64_t offset, uint32_t num_bytes)
{
    pw_node_streams *self = context;
    for (uint32_t i = 0; i < WRITES; i++) {
        write_under_way *entry = &self->writes[i];
        if (entry->operation) continue;
        int code = pagewire_write(self->node, peer, source, self->arenas[peer] + offset, num_bytes,
                                  NULL, &entry->operation);
        /* No write of this node is under way: what is full is no table, but a limit of the memory
         * strategy, which stays so. */
        if (code == PW_ERR_FULL && self->num_writes == 0) self->failure = code;
        if (code < 0) return code;
        entry->connection = connection;
        self->num_writes++;
        return PW_OK;
    }
    return PW_ERR_FULL;
}

static int send_message(void *context, uint32_t peer, uint64_t word)
{
    return unimem_send(((pw_node_streams *)context)->memory, peer, word);
}

static void keep_message(void *context, uint32_t source, uint64_t word, int64_t time_ns)
{
    pw_node_streams *self = context;
    if (self->num_messages == self->capacity) {
        uint32_t capacity = self->capacity ? self->capacity * 2 : 256;
        message *grown = realloc(self->inbox, capacity * sizeof *grown);
        if (!grown) {
            self->is_short = true;
            return;
        }
        self->inbox = grown;
        self->capacity = capacity;
    }
    uint32_t at = self->num_messages++;
    for (; at > self->first && self->inbox[at - 1].time_ns > time_ns; at--)
        self->inbox[at] = self->inbox[at - 1];
    self->inbox[at] = (message){source, word, time_ns};
}

/* What run.memory does to a buffer that peers write to is done for as long as one may. */
static int register_ring(void *context, uint32_t slot, uint8_t *ring, uint32_t num_bytes)
{
    pw_node_streams *self = context;
    int code = pagewire_register(self->node, ring, num_bytes, &self->keys[slot]);
    if (code < 0) snprintf(self->refusal, sizeof self->refusal, "%s", pagewire_reason(self->node));
    return code;
}

static void deregister_ring(void *context, uint32_t slot)
{
    pw_node_streams *self = context;
    pagewire_deregister(self->node, self->keys[slot]);
    self->keys[slot] = 0;
}

int pw_node_streams_create(pagewire_node *node, unimem *memory, const pw_streams_options *options,
                           const uint64_t *arenas, pw_node_streams **out)
{
    pw_node_streams *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    const pw_streams_host host = {made, start_write, send_message, register_ring, deregister_ring};
    made->node = node;
    made->num_slots = options->num_slots;
    made->memory = memory;
    int code = pw_streams_create(options, &host, &made->streams);
    if (code == PW_OK) {
        made->arenas = malloc(options->num_nodes * sizeof *made->arenas);
        made->keys = calloc(options->num_slots, sizeof *made->keys);
        code = made->arenas && made->keys ? PW_OK : PW_ERR_NOMEM;
    }
    if (code == PW_OK) {
        memcpy(made->arenas, arenas, options->num_nodes * sizeof *arenas);
        code = unimem_register(memory, PW_STREAM_OPCODE, keep_message, made);
    }
    if (code < 0) {
        pw_streams_destroy(made->streams);
        free(made->keys);
        free(made->arenas);
        free(made);
        return code;
    }
    *out = made;
    return PW_OK;
}

void pw_node_streams_destroy(pw_node_streams *self)
{
    if (!self) return;
    unimem_unregister(self->memory, PW_STREAM_OPCODE);
    for (uint32_t i = 0; i < WRITES; i++)
        if (self->writes[i].operation) pagewire_forget(self->node, &self->writes[i].operation);
    for (uint32_t slot = 0; slot < self->num_slots; slot++)
        if (self->keys[slot]) deregister_ring(self, slot);
    pw_streams_destroy(self->streams);
    free(self->keys);
    free(self->arenas);
    free(self->inbox);
    free(self);
}

pw_streams *pw_node_streams_of(pw_node_streams *self) { return self->streams; }

const char *pw_node_streams_refusal(const pw_node_streams *self)
{
    return self->refusal[0] ? self->refusal : NULL;
}

uint32_t pw_node_streams_here(pw_node_streams *self, uint32_t connection, const uint8_t **data)
{
    int64_t time_ns;
    uint32_t num_bytes = pw_streams_here(self->streams, connection, data, &time_ns);
    if (num_bytes) pagewire_clock_observe(self->node, time_ns);
    return num_bytes;
}

/* The write that was over first; NULL: none is. */
static write_under_way *first_over(pw_node_streams *self, int64_t *time_ns)
{
    write_under_way *found = NULL;
    *time_ns = PW_NEVER;
    for (uint32_t i = 0; i < WRITES && self->num_writes; i++) {
        write_under_way *entry = &self->writes[i];
        int64_t over_ns;
        if (!entry->operation || !pw_door_is_over(entry->operation, &over_ns)) continue;
        if (over_ns >= *time_ns) continue;
        *time_ns = over_ns;
        found = entry;
    }
    return found;
}

static int64_t message_ns(const pw_node_streams *self)
{
    return self->first < self->num_messages ? self->inbox[self->first].time_ns : PW_NEVER;
}

/* The answer may bring more messages. */
static int take_message(pw_node_streams *self)
{
    const message one = self->inbox[self->first++];
    if (self->first == self->num_messages) self->first = self->num_messages = 0;
    int code = pagewire_clock_observe(self->node, one.time_ns);
    return code < 0 ? code : pw_streams_arrived(self->streams, one.source, one.word, one.time_ns);
}

static int take_write(pw_node_streams *self, write_under_way *entry)
{
    pagewire_completion completion;
    int code = pagewire_wait(self->node, &entry->operation, &completion, 0);
    if (code < 0) return code;
    self->num_writes--;
    return pw_streams_written(self->streams, entry->connection, completion.error);
}

int64_t pw_node_streams_next_ns(pw_node_streams *self)
{
    int64_t over_ns;
    (void)first_over(self, &over_ns);
    int64_t arrived_ns = message_ns(self);
    return arrived_ns < over_ns ? arrived_ns : over_ns;
}

int pw_node_streams_take(pw_node_streams *self)
{
    int64_t over_ns;
    if (self->is_short) return PW_ERR_NOMEM;
    write_under_way *entry = first_over(self, &over_ns);
    int64_t arrived_ns = message_ns(self);
    if (arrived_ns == PW_NEVER && !entry) return 0;
    int code = arrived_ns <= over_ns ? take_message(self) : take_write(self, entry);
    if (code >= 0) code = pw_streams_move(self->streams);
    return code < 0 ? code : 1;
}

int pw_node_streams_move(pw_node_streams *self)
{
    int moved = pagewire_progress(self->node, PAGEWIRE_CPU_WAITS | PAGEWIRE_KEEPS_CORE);
    int taken = moved < 0 ? moved : pw_node_streams_take_all(self);
    return taken < 0 ? taken : moved | taken;
}

int pw_node_streams_take_all(pw_node_streams *self)
{
    int taken, had_some = 0;
    while ((taken = pw_node_streams_take(self)) > 0) had_some = 1;
    if (taken == 0) taken = pw_streams_move(self->streams);
    if (taken == 0) taken = self->failure;
    return taken < 0 ? taken : had_some;
}

bool pw_node_streams_are_quiet(pw_node_streams *const *all, uint32_t num_nodes)
{
    uint64_t num_sent = 0, num_arrived = 0;
    for (uint32_t i = 0; i < num_nodes; i++) {
        pw_streams_counters counters;
        if (all[i]->num_writes || pw_streams_is_due(all[i]->streams)) return false;
        pw_streams_read_counters(all[i]->streams, &counters);
        num_sent += counters.messages;
        num_arrived += pw_streams_num_arrived(all[i]->streams);
    }
    return num_sent == num_arrived;
}
