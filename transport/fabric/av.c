/* Address vectors, and the names that endpoints go by: what MPI hands from process to process. */
#include "transport/fabric/provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native/array.h"

#define FIRST_CAPACITY 64

static pw_fi_av *av_of(struct fid_av *fid) { return (pw_fi_av *)(void *)fid; }

fi_addr_t pw_fi_av_find(const pw_fi_av *av, uint32_t node, uint32_t endpoint)
{
    if (!av || node == PW_ANY_NODE) return FI_ADDR_NOTAVAIL;
    const fi_addr_t first = av->first_of_node[node];
    if (first == FI_ADDR_NOTAVAIL) return first;
    if (av->peers[first].is_there && av->peers[first].endpoint == endpoint) return first;
    for (fi_addr_t each = 0; each < av->num_peers; each++)
        if (av->peers[each].is_there && av->peers[each].node == node &&
            av->peers[each].endpoint == endpoint)
            return each;
    return FI_ADDR_NOTAVAIL;
}

/* FI_ADDR_NOTAVAIL and *error: it cannot be reached. */
static fi_addr_t insert(pw_fi_av *av, const pw_wire_name *name, int *error)
{
    if (PW_ARRAY_MAKE_ROOM(av->peers, av->num_peers, av->peers_capacity, FIRST_CAPACITY) < 0 ||
        PW_ARRAY_MAKE_ROOM(av->names, av->num_peers, av->names_capacity, FIRST_CAPACITY) < 0) {
        *error = FI_ENOMEM;
        return FI_ADDR_NOTAVAIL;
    }
    pw_wire *wire = av->domain->process->wire;
    pw_wire_address full;
    uint32_t node;
    int code = name->endpoint < PW_FI_ENDPOINTS_MAX ? PW_OK : PW_ERR_MALFORMED;
    if (code == PW_OK) code = pw_wire_name_expand(name, pw_wire_fabric_address(wire), &full);
    if (code == PW_OK) code = pw_wire_fabric_connect(wire, &full, &node);
    if (code < 0) {
        *error = pw_fi_error_of(code);
        return FI_ADDR_NOTAVAIL;
    }
    const fi_addr_t address = av->num_peers++;
    av->peers[address] = (pw_fi_peer){node, name->endpoint, true};
    av->names[address] = *name;
    av->first_of_node[node] = address;
    return address;
}

static int av_insert(struct fid_av *fid, const void *names, size_t count, fi_addr_t *addresses,
                     uint64_t flags, void *context)
{
    pw_fi_av *av = av_of(fid);
    int *errors = flags & FI_SYNC_ERR ? context : NULL;
    int num_inserted = 0;
    pw_fi_enter(av->domain->process);
    for (size_t i = 0; i < count; i++) {
        pw_wire_name name;
        int error = 0;
        memcpy(&name, (const char *)names + i * sizeof name, sizeof name);
        const fi_addr_t address = insert(av, &name, &error);
        if (addresses) addresses[i] = address;
        if (errors) errors[i] = error;
        num_inserted += !error;
    }
    pw_fi_leave(av->domain->process);
    return num_inserted;
}

static int av_remove(struct fid_av *fid, fi_addr_t *addresses, size_t count, uint64_t flags)
{
    pw_fi_av *av = av_of(fid);
    int result = 0;
    pw_fi_enter(av->domain->process);
    for (size_t i = 0; i < count; i++) {
        const pw_fi_peer *peer = pw_fi_av_at(av, addresses[i]);
        if (!peer) {
            result = -FI_EINVAL;
            continue;
        }
        if (av->first_of_node[peer->node] == addresses[i])
            av->first_of_node[peer->node] = FI_ADDR_NOTAVAIL;
        av->peers[addresses[i]].is_there = false;
        for (fi_addr_t other = 0; other < av->num_peers; other++)
            if (av->peers[other].is_there && av->peers[other].node == peer->node)
                av->first_of_node[peer->node] = other;
    }
    pw_fi_leave(av->domain->process);
    return result;
}

static int av_lookup(struct fid_av *fid, fi_addr_t address, void *name, size_t *num_bytes)
{
    pw_fi_av *av = av_of(fid);
    int result = -FI_EINVAL;
    pw_fi_enter(av->domain->process);
    if (pw_fi_av_at(av, address)) {
        memcpy(name, &av->names[address],
               *num_bytes < sizeof(pw_wire_name) ? *num_bytes : sizeof(pw_wire_name));
        result = *num_bytes < sizeof(pw_wire_name) ? -FI_ETOOSMALL : 0;
        *num_bytes = sizeof(pw_wire_name);
    }
    pw_fi_leave(av->domain->process);
    return result;
}

static const char *av_straddr(struct fid_av *fid, const void *name, char *buffer, size_t *num_bytes)
{
    pw_wire_name read;
    memcpy(&read, name, sizeof read);
    const int length =
        snprintf(buffer, *num_bytes, "pagewire://node %u, endpoint %u", read.node, read.endpoint);
    *num_bytes = (size_t)length + 1;
    return buffer;
}

static int av_close(struct fid *fid)
{
    pw_fi_av *av = (pw_fi_av *)(void *)fid;
    if (av->num_users) return -FI_EBUSY;
    av->domain->num_users--;
    free(av->first_of_node);
    free(av->peers);
    free(av->names);
    free(av);
    return 0;
}

/* Hosts and services have no endpoints that could be guessed. */
PW_FI_ABSENT(static int, no_service, struct fid_av *fid, const char *host, const char *service,
             fi_addr_t *addresses, uint64_t flags, void *context)
PW_FI_ABSENT(static int, no_services, struct fid_av *fid, const char *host, size_t num_hosts,
             const char *service, size_t num_services, fi_addr_t *addresses, uint64_t flags,
             void *context)

/* Insertion is over when it returns: there are no events to bind a queue for. */
static struct fi_ops fid_ops = PW_FI_ONLY_CLOSE(av_close);
static struct fi_ops_av av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = av_insert,
    .insertsvc = no_service,
    .insertsym = no_services,
    .remove = av_remove,
    .lookup = av_lookup,
    .straddr = av_straddr,
};

int pw_fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out,
                  void *context)
{
    pw_fi_domain *of = (pw_fi_domain *)(void *)domain;
    if (attr && (attr->name || attr->rx_ctx_bits || attr->flags & (FI_EVENT | FI_SYMMETRIC)))
        return -FI_ENOSYS;
    pw_fi_av *av = calloc(1, sizeof *av);
    const uint32_t num_nodes = pw_node_count(of->process->node);
    if (av) av->first_of_node = malloc(num_nodes * sizeof *av->first_of_node);
    if (!av || !av->first_of_node) {
        free(av);
        return -FI_ENOMEM;
    }
    for (uint32_t node = 0; node < num_nodes; node++) av->first_of_node[node] = FI_ADDR_NOTAVAIL;
    av->domain = of;
    of->num_users++;
    if (attr && attr->type == FI_AV_UNSPEC) attr->type = FI_AV_TABLE;
    av->fid.fid = (struct fid){.fclass = FI_CLASS_AV, .context = context, .ops = &fid_ops};
    av->fid.ops = &av_ops;
    *out = &av->fid;
    return 0;
}
