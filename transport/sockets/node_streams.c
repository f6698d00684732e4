#include "transport/sockets/node_streams.h"
#include <stdlib.h>
#include <string.h>

#define WRITES 32 /* channels of the engine */

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
    uint8_t *arena;
    uint32_t ring_bytes;
    bool is_registered[PW_STREAM_SLOTS_MAX]; /* its ring; stays so */
    write_under_way writes[WRITES];
    uint32_t num_writes;
    /* What the mailbox's callback has left, which may call nothing itself. */
    message *inbox;
    uint32_t num_messages, capacity;
    bool is_short; /* the inbox could not grow: a message is lost */
    int failure;   /* of a write, for good */
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
    pw_node_streams *self = context;
    int32_t slot = pw_streams_slot_shown(word);
    if (slot >= 0 && !self->is_registered[slot]) {
        uint64_t key;
        uint8_t *ring = self->arena + (uint64_t)slot * 2 * self->ring_bytes;
        int code = pagewire_register(self->node, ring, self->ring_bytes, &key);
        if (code < 0) return code;
        self->is_registered[slot] = true;
    }
    return unimem_send(self->memory, peer, word);
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
    self->inbox[self->num_messages++] = (message){source, word, time_ns};
}

int pw_node_streams_create(pagewire_node *node, unimem *memory, const pw_streams_options *options,
                           const uint64_t *arenas, pw_node_streams **out)
{
    pw_node_streams *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    const pw_streams_host host = {made, start_write, send_message};
    made->node = node;
    made->memory = memory;
    made->arena = options->arena;
    made->ring_bytes = options->ring_bytes;
    int code = pw_streams_create(options, &host, &made->streams);
    if (code == PW_OK) {
        made->arenas = malloc(options->num_nodes * sizeof *made->arenas);
        code = made->arenas ? PW_OK : PW_ERR_NOMEM;
    }
    if (code == PW_OK) {
        memcpy(made->arenas, arenas, options->num_nodes * sizeof *arenas);
        code = unimem_register(memory, PW_STREAM_OPCODE, keep_message, made);
    }
    if (code < 0) {
        pw_streams_destroy(made->streams);
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
    pw_streams_destroy(self->streams);
    free(self->arenas);
    free(self->inbox);
    free(self);
}

pw_streams *pw_node_streams_of(pw_node_streams *self) { return self->streams; }

uint32_t pw_node_streams_num_writes(const pw_node_streams *self) { return self->num_writes; }

uint32_t pw_node_streams_here(pw_node_streams *self, uint32_t connection, const uint8_t **data)
{
    int64_t time_ns;
    uint32_t num_bytes = pw_streams_here(self->streams, connection, data, &time_ns);
    if (num_bytes) pagewire_clock_observe(self->node, time_ns);
    return num_bytes;
}

/* An answer to a message may move the node, which brings more: they are taken in order. */
static int take_messages(pw_node_streams *self)
{
    uint32_t idx = 0;
    for (; idx < self->num_messages; idx++) {
        const message one = self->inbox[idx];
        int code = pw_streams_arrived(self->streams, one.source, one.word, one.time_ns);
        if (code < 0) return code;
    }
    self->num_messages = 0;
    return self->is_short ? PW_ERR_NOMEM : idx > 0;
}

static int take_writes(pw_node_streams *self)
{
    int num_over = 0;
    for (uint32_t i = 0; i < WRITES && self->num_writes; i++) {
        write_under_way *entry = &self->writes[i];
        pagewire_completion completion;
        if (!entry->operation) continue;
        int code = pagewire_wait(self->node, &entry->operation, &completion, 0);
        if (code < 0) return code;
        if (code == 0) continue;
        self->num_writes--;
        num_over++;
        code = pw_streams_written(self->streams, entry->connection, completion.error);
        if (code < 0) return code;
    }
    return num_over > 0;
}

int pw_node_streams_move(pw_node_streams *self)
{
    int moved = pagewire_progress(self->node, PAGEWIRE_CPU_WAITS | PAGEWIRE_KEEPS_CORE);
    int taken = moved < 0 ? moved : pw_node_streams_take(self);
    return taken < 0 ? taken : moved | taken;
}

int pw_node_streams_take(pw_node_streams *self)
{
    int had_messages = take_messages(self);
    if (had_messages < 0) return had_messages;
    int had_writes = take_writes(self);
    if (had_writes < 0) return had_writes;
    int code = pw_streams_move(self->streams);
    if (code == PW_OK) code = self->failure;
    return code < 0 ? code : had_messages | had_writes;
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
