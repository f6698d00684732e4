/* Nodes and networks of a host in C: options in, errors as sentences. See pagewire.h. */
#include "native/status.h"
#include "node/door/pagewire_state.h"
#include "node/settings/config.h"
#include "node/wires/wire.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- a wire of the host
 * ---------------------------------------------------------------------------
 */

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

/* A wire over the functions of a host in C: see pagewire_wire in pagewire.h. *given is copied.
 * PW_ERR_NOMEM. */
static int create_host_wire(const pagewire_wire *given, uint32_t node, uint32_t num_nodes,
                            pw_wire **out)
{
    host_wire *made = malloc(sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->wire = (pw_wire){.ops = &host_ops, .node = node, .num_nodes = num_nodes};
    made->given = *given;
    *out = &made->wire;
    return PW_OK;
}

/* --- nodes and networks -------------------------------------------------------------------------
 */

#define DEFAULT_DOMAIN 1

_Static_assert(PAGEWIRE_ERR_NOMEM == PW_ERR_NOMEM && PAGEWIRE_ERR_INVALID == PW_ERR_INVALID &&
                   PAGEWIRE_ERR_FULL == PW_ERR_FULL && PAGEWIRE_ERR_MALFORMED == PW_ERR_MALFORMED &&
                   PAGEWIRE_ERR_ADDRESS == PW_ERR_ADDRESS &&
                   PAGEWIRE_ERR_CONTEXT == PW_ERR_CONTEXT &&
                   PAGEWIRE_ERR_PROTECTION == PW_ERR_PROTECTION &&
                   PAGEWIRE_ERR_HOST == PW_ERR_HOST &&
                   PAGEWIRE_ERR_UNRECOVERABLE == PW_ERR_UNRECOVERABLE &&
                   PAGEWIRE_ERR_DEADLOCK == PW_ERR_DEADLOCK && PAGEWIRE_ERR_FRAMES == PW_ERR_FRAMES,
               "the codes are the engine's");
_Static_assert(PAGEWIRE_BURST_MAX_BYTES == PW_BURST_BYTES, "a burst is the engine's");

static void set_polls(pagewire_node *made)
{
    const pw_costs *costs = pw_node_costs(made->node);
    made->write_poll_ns = costs->core_register_read_ns; /* the done flag is in the scratchpad */
    made->read_poll_ns = costs->poll_ns;
}

int pw_door_wrap(pw_node *node, const pw_door_host *host, pagewire_node **out)
{
    pagewire_node *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->node = node;
    made->host = *host;
    made->pdid = pw_node_pdid(node);
    set_polls(made);
    *out = made;
    return PW_OK;
}

pw_node *pw_door_node(const pagewire_node *node) { return node->node; }

int64_t pw_door_look_ns(const pagewire_node *node) { return node->host.look_ns; }

int pw_door_error(const pagewire_node *node) { return node->error; }

bool pw_door_is_joined(const pagewire_node *node) { return node->network != NULL; }

bool pw_door_copy_struct(void *own, size_t own_bytes, const void *given)
{
    size_t given_bytes;
    memcpy(&given_bytes, given, sizeof given_bytes);
    if (given_bytes < sizeof given_bytes) return false;
    memcpy(own, given, given_bytes < own_bytes ? given_bytes : own_bytes);
    const char *bytes = given;
    for (size_t i = own_bytes; i < given_bytes; i++)
        if (bytes[i]) return false;
    return true;
}

int pw_door_fail(pagewire_node *node, int code, const char *format, ...)
{
    int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    pw_sentence_clear(&node->reason);
    pw_sentence_add_list(&node->reason, format, arguments);
    va_end(arguments);
    node->error = code;
    if (code == PW_ERR_HOST && saved) pw_sentence_add(&node->reason, ": %s", strerror(saved));
    errno = saved;
    return code;
}

int pw_door_fail_as_node(pagewire_node *node, int code)
{
    return pw_door_fail(node, code, "%s: %s", pw_node_reason(node->node), pw_status_text(code));
}

const char *pagewire_reason(const pagewire_node *node)
{
    return node->reason.length ? node->reason.text : "no call of this node has failed";
}

void pagewire_options_default_sized(pagewire_options *options, size_t struct_size)
{
    const pagewire_options values = {.struct_size = struct_size, .num_nodes = 1};
    memset(options, 0, struct_size);
    memcpy(options, &values, struct_size < sizeof values ? struct_size : sizeof values);
}

int pagewire_network_create(uint32_t num_nodes, pagewire_network **out)
{
    if (num_nodes == 0 || num_nodes > PW_NODES_MAX) return PW_ERR_INVALID;
    pagewire_network *network = calloc(1, sizeof *network + num_nodes * sizeof *network->nodes);
    if (!network) return PW_ERR_NOMEM;
    network->num_nodes = num_nodes;
    network->wires = calloc(num_nodes, sizeof *network->wires);
    int code = network->wires ? pw_wire_join(num_nodes, network->wires) : PW_ERR_NOMEM;
    if (code < 0) {
        free(network->wires);
        free(network);
        return code;
    }
    *out = network;
    return PW_OK;
}

static void free_network(pagewire_network *network)
{
    for (uint32_t i = 0; i < network->num_nodes; i++)
        if (network->wires[i]) network->wires[i]->ops->close(network->wires[i]);
    free(network->wires);
    free(network);
}

void pagewire_network_destroy(pagewire_network *network)
{
    if (!network) return;
    network->is_destroyed = true;
    if (network->num_open == 0) free_network(network);
}

static void leave(pagewire_network *network, const pagewire_node *node)
{
    for (uint32_t i = 0; i < network->num_nodes; i++)
        if (network->nodes[i] == node) {
            network->nodes[i] = NULL;
            network->num_open--;
        }
    if (network->is_destroyed && network->num_open == 0) free_network(network);
}

static int tell_notified(void *context, const pw_host_event *event)
{
    const pagewire_node *node = context;
    if (!node->notified) return PW_OK;
    const pagewire_notification notification = {.address = event->id,
                                                .data = {event->data[0], event->data[1]},
                                                .time_ns = event->time_ns,
                                                .error = event->error,
                                                .peer = event->peer};
    node->notified(node->context, &notification);
    return PW_OK;
}

static int check_wire(const pagewire_wire *given, pagewire_wire *wire, pw_sentence *reason)
{
    if (!pw_door_copy_struct(wire, sizeof *wire, given))
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "wire.struct_size = %zu: allowed is sizeof(pagewire_wire) of "
                                  "this library's pagewire.h",
                                  given->struct_size);
    if (!wire->send || !wire->poll)
        return pw_sentence_refuse(reason, PW_ERR_INVALID, "a wire needs both send and poll");
    return PW_OK;
}

static int check(const pagewire_options *options, pw_sentence *reason)
{
    const pagewire_network *network = options->network;
    uint32_t num_nodes = network ? network->num_nodes : options->num_nodes;
    if (!network == !options->wire && (network || num_nodes != 1))
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "a node needs a network or a wire, and not both; one node alone "
                                  "(num_nodes = 1) needs none");
    if (num_nodes == 0 || num_nodes > PW_NODES_MAX || options->node >= num_nodes)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "node %u of %u: nodes are numbered from 0, at most %u of them",
                                  options->node, num_nodes, PW_NODES_MAX);
    if (network && !network->wires[options->node])
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "node %u of this network has been made before", options->node);
    if (options->protection_domain > UINT16_MAX)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "protection_domain = %u: allowed is 1 to 65535, or 0 for 1",
                                  options->protection_domain);
    return PW_OK;
}

/* The wire of a node: its place in the network, the host's, or nobody to talk to. */
static int take_wire(const pagewire_options *options, const pagewire_wire *given, pw_wire **wire,
                     pw_sentence *reason)
{
    int code = PW_OK;
    if (options->network) {
        *wire = options->network->wires[options->node];
        options->network->wires[options->node] = NULL;
    } else if (options->wire)
        code = create_host_wire(given, options->node, options->num_nodes, wire);
    else code = pw_wire_join(1, wire);
    return code < 0 ? pw_sentence_refuse(reason, code, "%s", pw_status_text(code)) : PW_OK;
}

static int create(const pagewire_options *given, pagewire_node **out, pw_sentence *reason)
{
    pagewire_options options = {.struct_size = 0};
    pagewire_wire wire_given = {.struct_size = 0};
    pw_node_config config;
    pw_wire *wire = NULL;
    if (!pw_door_copy_struct(&options, sizeof options, given))
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "options.struct_size = %zu: allowed is sizeof(pagewire_options) "
                                  "of this library's pagewire.h",
                                  given->struct_size);
    int code = check(&options, reason);
    if (code == PW_OK && options.wire) code = check_wire(options.wire, &wire_given, reason);
    if (code == PW_OK) code = pw_node_config_of_texts(options.settings, &config, reason);
    if (code < 0) return code;
    pagewire_node *made = calloc(1, sizeof *made);
    if (!made) return pw_sentence_refuse(reason, PW_ERR_NOMEM, "no memory for a node");
    made->pdid = options.protection_domain ? (uint16_t)options.protection_domain : DEFAULT_DOMAIN;
    made->notified = options.notified;
    made->context = options.context;
    const pw_node_opening opening = {.host = {.context = made, .event = tell_notified},
                                     .pdid = made->pdid};
    code = take_wire(&options, &wire_given, &wire, reason);
    if (code == PW_OK) code = pw_node_open(&config, &opening, wire, &made->node, reason);
    if (code < 0) {
        free(made);
        if (options.network) options.network->wires[options.node] = wire;
        else if (wire) wire->ops->close(wire);
        return code;
    }
    set_polls(made);
    made->network = options.network;
    if (made->network) {
        made->network->nodes[options.node] = made;
        made->network->num_open++;
    }
    *out = made;
    return PW_OK;
}

int pagewire_node_create(const pagewire_options *options, pagewire_node **out)
{
    pw_sentence reason;
    pw_sentence_clear(&reason);
    int code = create(options, out, &reason), saved = errno;
    size_t room = offsetof(pagewire_options, reason_bytes) + sizeof options->reason_bytes;
    if (code < 0 && options->struct_size >= room && options->reason && options->reason_bytes)
        snprintf(options->reason, options->reason_bytes, "%s", reason.text);
    errno = saved;
    return code;
}

void pagewire_node_destroy(pagewire_node *node)
{
    if (!node) return;
    for (uint32_t i = 0; i < node->num_registrations; i++)
        pw_node_release(node->node, &node->registrations[i].lease);
    if (!node->host.turn) pw_node_destroy(node->node);
    if (node->network) leave(node->network, node);
    free(node->registrations);
    free(node);
}
