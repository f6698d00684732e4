#include "transport/node/host_wire.h"
#include <stdlib.h>

typedef struct {
    pw_wire wire; /* first: see wire.h */
    pagewire_wire given;
} host_wire;

static const pagewire_wire *given_to(const pw_wire *wire)
{
    return &((const host_wire *)(const void *)wire)->given;
}

static int send_burst(pw_wire *wire, uint32_t peer, uint8_t *data, uint32_t num_bytes,
                      bool *is_free)
{
    const pagewire_wire *given = given_to(wire);
    int code = given->send(given->context, peer, data, num_bytes);
    *is_free = true;
    return code < 0 ? code : PW_OK;
}

static uint8_t *sent(pw_wire *wire)
{
    (void)wire;
    return NULL; /* every buffer was free at once */
}

/* The frames are read in place: what cannot be is refused here. */
static int poll_burst(pw_wire *wire, pw_wire_burst *out)
{
    const pagewire_wire *given = given_to(wire);
    const void *data = NULL;
    *out = (pw_wire_burst){.source = wire->num_nodes};
    int code = given->poll(given->context, &out->source, &data, &out->num_bytes);
    if (code <= 0) return code;
    if (out->source >= wire->num_nodes || !data || (uintptr_t)data % PAGEWIRE_BURST_ALIGNMENT != 0)
        return PW_ERR_MALFORMED;
    out->data = data;
    return 1;
}

static void taken(pw_wire *wire, const pw_wire_burst *burst)
{
    (void)wire, (void)burst; /* the host keeps it until the next poll */
}

static uint32_t num_pending(const pw_wire *wire)
{
    (void)wire;
    return 0;
}

static void close_wire(pw_wire *wire)
{
    const pagewire_wire *given = given_to(wire);
    if (given->close) given->close(given->context);
    free(wire);
}

static const pw_wire_ops host_ops = {
    .send = send_burst,
    .sent = sent,
    .poll = poll_burst,
    .taken = taken,
    .num_pending = num_pending,
    .close = close_wire,
};

int pw_host_wire_create(const pagewire_wire *given, uint32_t node, uint32_t num_nodes,
                        pw_wire **out)
{
    host_wire *made = malloc(sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->wire = (pw_wire){.ops = &host_ops, .node = node, .num_nodes = num_nodes};
    made->given = *given;
    *out = &made->wire;
    return PW_OK;
}
