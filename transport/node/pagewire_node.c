/* Nodes and networks of a host in C: options in, errors as sentences. See pagewire.h. */
#include "native/status.h"
#include "transport/node/host_wire.h"
#include "transport/node/pagewire_state.h"
#include "transport/node/settings_text.h"
#include "transport/node/wire_joined.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    vsnprintf(node->reason.text, sizeof node->reason.text, format, arguments);
    va_end(arguments);
    node->reason.length = strlen(node->reason.text);
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
        code = pw_host_wire_create(given, options->node, options->num_nodes, wire);
    else code = pw_wire_join(1, wire);
    return code < 0 ? pw_sentence_refuse(reason, code, "%s", pw_status_text(code)) : PW_OK;
}

static int plan_impairments(pagewire_node *made, const pw_node_settings *settings,
                            pw_sentence *reason)
{
    for (uint32_t site = 0; site < PW_IMPAIRMENT_SITES; site++) {
        const pw_impairment_site *plan = &settings->sites[site];
        if (pw_ni_plan_impairment(pw_node_ni(made->node), site, plan) < 0)
            return pw_sentence_refuse(reason, PW_ERR_INVALID, "impairment %u: %s", site,
                                      pw_impairment_refused(site, plan));
    }
    return PW_OK;
}

static int create_node(pagewire_node *made, const pagewire_options *options,
                       const pw_node_settings *settings, pw_wire *wire, pw_sentence *reason)
{
    const pw_costs *costs = &settings->costs;
    const char *why = NULL;
    const pw_node_options wanted = {
        .costs = costs,
        .settings = &settings->settings,
        .tables = &pw_platform_find(settings->platform)->tables,
        .clock = {.call_ns = costs->mpi_call_ns,
                  .poll_ns = costs->poll_ns,
                  .read_ns = costs->clock_read_ns,
                  .compute = settings->compute,
                  .scale = settings->compute_scale},
        .strategy = pw_strategy_find(settings->memory),
        .host = {.context = made, .event = tell_notified},
        .pdid = made->pdid,
    };
    int code = pw_node_create(&wanted, wire, &made->node, &why);
    if (code < 0) {
        int saved = errno;
        pw_sentence_refuse(reason, code, "%s: %s", why, pw_status_text(code));
        if (code == PW_ERR_HOST && saved) pw_sentence_add(reason, ": %s", strerror(saved));
        return code;
    }
    made->notified = options->notified;
    made->context = options->context;
    made->write_poll_ns = costs->core_register_read_ns; /* the done flag is in the scratchpad */
    made->read_poll_ns = costs->poll_ns;
    return plan_impairments(made, settings, reason);
}

static int create(const pagewire_options *given, pagewire_node **out, pw_sentence *reason)
{
    pagewire_options options = {.struct_size = 0};
    pagewire_wire wire_given = {.struct_size = 0};
    pw_node_settings settings;
    pw_wire *wire;
    if (!pw_door_copy_struct(&options, sizeof options, given))
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "options.struct_size = %zu: allowed is sizeof(pagewire_options) "
                                  "of this library's pagewire.h",
                                  given->struct_size);
    int code = check(&options, reason);
    if (code == PW_OK && options.wire) code = check_wire(options.wire, &wire_given, reason);
    if (code == PW_OK) code = pw_node_settings_read(&settings, options.settings, reason);
    if (code < 0) return code;
    pagewire_node *made = calloc(1, sizeof *made);
    if (!made) return pw_sentence_refuse(reason, PW_ERR_NOMEM, "no memory for a node");
    made->pdid = options.protection_domain ? (uint16_t)options.protection_domain : DEFAULT_DOMAIN;
    code = take_wire(&options, &wire_given, &wire, reason);
    if (code == PW_OK) code = create_node(made, &options, &settings, wire, reason);
    if (code < 0) {
        pw_node_destroy(made->node);
        free(made);
        return code;
    }
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
    pw_node_destroy(node->node);
    if (node->network) leave(node->network, node);
    free(node->registrations);
    free(node);
}
