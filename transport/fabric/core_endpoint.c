#include "transport/fabric/core_endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

/* MPICH is told its provider by FI_PROVIDER=pagewire, which hides all others from everybody. For
 * layered providers libfabric has a flag that shows them all the same; it is in none of its public
 * headers (measured with 2.5.1; a library that does not know it says so, or finds nothing). */
#define WITH_HIDDEN (UINT64_C(1) << 60)
#define COMPLETIONS 1024
#define ADDRESS_CHARS 64

int pw_core_endpoint_refuse(const pw_core_endpoint *core, pw_sentence *reason, const char *what,
                            int error)
{
    return pw_sentence_refuse(reason, PW_ERR_HOST, "%s of libfabric's provider %s failed: %s", what,
                              core->provider, core->library->strerror(-error));
}

static struct fi_info *make_hints(const pw_fabric_library *library, const char *provider)
{
    struct fi_info *hints = library->dupinfo(NULL);
    if (!hints) return NULL;
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = 0;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    /* Without a thread of its own: the node polls. */
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->cq_data_size = sizeof(uint64_t);
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(provider); /* freed with the hints */
    if (hints->fabric_attr->prov_name) return hints;
    library->freeinfo(hints);
    return NULL;
}

/* "tcp" itself, or what makes it connectionless in older libraries: "tcp;ofi_rxm". */
static bool is_provider(const struct fi_info *info, const char *provider, bool with_layers)
{
    const char *name = info->fabric_attr->prov_name;
    const size_t length = strlen(provider);
    return strncmp(name, provider, length) == 0 &&
           (!name[length] || (with_layers && name[length] == ';'));
}

static void write_address(const struct fi_info *info, char out[ADDRESS_CHARS], bool *is_loopback)
{
    const struct sockaddr *address = info->src_addr;
    *is_loopback = false;
    out[0] = 0;
    if (!address) return;
    if (address->sa_family == AF_INET && info->src_addrlen >= sizeof(struct sockaddr_in)) {
        const struct in_addr *in = &((const struct sockaddr_in *)info->src_addr)->sin_addr;
        inet_ntop(AF_INET, in, out, ADDRESS_CHARS);
        *is_loopback = ntohl(in->s_addr) >> 24 == IN_LOOPBACKNET;
    } else if (address->sa_family == AF_INET6 && info->src_addrlen >= sizeof(struct sockaddr_in6)) {
        const struct in6_addr *in = &((const struct sockaddr_in6 *)info->src_addr)->sin6_addr;
        inet_ntop(AF_INET6, in, out, ADDRESS_CHARS);
        *is_loopback = IN6_IS_ADDR_LOOPBACK(in);
    }
}

/* Better ones are larger, 0: not this one. Link-local addresses are of no use without their scope,
 * IPv4 is what every cluster has. */
static int rank_of(const struct fi_info *info, const char *provider, const char *interface)
{
    char address[ADDRESS_CHARS];
    bool is_loopback;
    if (!is_provider(info, provider, true)) return 0;
    write_address(info, address, &is_loopback);
    if (interface && strcmp(interface, address) != 0 &&
        strcmp(interface, info->domain_attr->name) != 0)
        return 0;
    int rank = is_provider(info, provider, false) ? 2 : 1;
    if (info->addr_format != FI_SOCKADDR_IN6) rank += 4;
    if (strncmp(address, "fe80", 4) != 0) rank += 8;
    if (!is_loopback) rank += 16;
    return rank;
}

static const struct fi_info *choose(const struct fi_info *list, const char *provider,
                                    const char *interface)
{
    const struct fi_info *best = NULL;
    for (const struct fi_info *info = list; info; info = info->next)
        if (rank_of(info, provider, interface) > (best ? rank_of(best, provider, interface) : 0))
            best = info;
    return best;
}

#define STALE_NAMES 16

static int enable(pw_core_endpoint *core, struct fi_info *info)
{
    int code = fi_endpoint(core->domain, info, &core->endpoint, NULL);
    if (code) return code;
    code = fi_ep_bind(core->endpoint, &core->completions->fid, FI_TRANSMIT | FI_RECV);
    if (!code) code = fi_ep_bind(core->endpoint, &core->peers->fid, 0);
    return code ? code : fi_enable(core->endpoint);
}

static int open_parts(pw_core_endpoint *core, struct fi_info *info, pw_sentence *reason)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .size = COMPLETIONS};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    int code = core->library->fabric(info->fabric_attr, &core->fabric, NULL);
    if (code) return pw_core_endpoint_refuse(core, reason, "fi_fabric", code);
    code = fi_domain(core->fabric, info, &core->domain, NULL);
    if (code) return pw_core_endpoint_refuse(core, reason, "fi_domain", code);
    code = fi_cq_open(core->domain, &cq, &core->completions, NULL);
    if (code) return pw_core_endpoint_refuse(core, reason, "fi_cq_open", code);
    code = fi_av_open(core->domain, &av, &core->peers, NULL);
    if (code) return pw_core_endpoint_refuse(core, reason, "fi_av_open", code);
    /* The provider shm names what it shares by process id and number. A process of this id that
     * was killed may have left some: the next endpoint has the next number. */
    for (int i = 0; (code = enable(core, info)) == -FI_EBUSY && i < STALE_NAMES; i++) {
        fi_close(&core->endpoint->fid);
        core->endpoint = NULL;
    }
    if (code)
        return pw_core_endpoint_refuse(core, reason, core->endpoint ? "fi_enable" : "fi_endpoint",
                                       code);
    core->inject_bytes = info->tx_attr->inject_size;
    return PW_OK;
}

int pw_core_endpoint_open(const pw_fabric_library *library, const char *provider,
                          const char *interface, pw_core_endpoint *out, pw_sentence *reason)
{
    pw_core_endpoint core = {.library = library, .provider = provider};
    struct fi_info *list = NULL;
    struct fi_info *hints = make_hints(library, provider);
    if (!hints) return pw_sentence_refuse(reason, PW_ERR_NOMEM, "no memory for a fi_info");
    int code = library->getinfo(PW_FABRIC_VERSION, NULL, NULL, WITH_HIDDEN, hints, &list);
    if (code == -FI_EBADFLAGS || code == -FI_ENODATA)
        code = library->getinfo(PW_FABRIC_VERSION, NULL, NULL, 0, hints, &list);
    library->freeinfo(hints);
    if (code)
        return pw_sentence_refuse(
            reason, PW_ERR_HOST,
            "this libfabric offers no endpoint of its provider %s (%s): is it built with it, does "
            "FI_PROVIDER=%s leave it out, is there a network interface?",
            provider, library->strerror(-code), getenv("FI_PROVIDER") ? getenv("FI_PROVIDER") : "");
    const struct fi_info *chosen = choose(list, provider, interface);
    struct fi_info *info = chosen ? library->dupinfo(chosen) : NULL;
    if (!info) {
        code = pw_sentence_refuse(reason, PW_ERR_HOST,
                                  "libfabric's provider %s has no network interface %s: "
                                  "name one of `ip address`, or none for the first",
                                  provider, interface ? interface : "at all");
    } else {
        code = open_parts(&core, info, reason);
        library->freeinfo(info);
    }
    library->freeinfo(list);
    if (code) pw_core_endpoint_close(&core);
    else *out = core;
    return code;
}

int pw_core_endpoint_name(const pw_core_endpoint *core, void *out, size_t *num_bytes,
                          pw_sentence *reason)
{
    int code = fi_getname(&core->endpoint->fid, out, num_bytes);
    return code ? pw_core_endpoint_refuse(core, reason, "fi_getname", code) : PW_OK;
}

int pw_core_endpoint_insert(const pw_core_endpoint *core, const void *name, fi_addr_t *out,
                            pw_sentence *reason)
{
    fi_addr_t address;
    const int num_inserted = fi_av_insert(core->peers, name, 1, &address, 0, NULL);
    if (num_inserted != 1)
        return pw_core_endpoint_refuse(core, reason, "fi_av_insert",
                                       num_inserted < 0 ? num_inserted : -FI_EADDRNOTAVAIL);
    *out = address;
    return PW_OK;
}

void pw_core_endpoint_close(pw_core_endpoint *core)
{
    if (core->endpoint) fi_close(&core->endpoint->fid);
    if (core->peers) fi_close(&core->peers->fid);
    if (core->completions) fi_close(&core->completions->fid);
    if (core->domain) fi_close(&core->domain->fid);
    if (core->fabric) fi_close(&core->fabric->fid);
    *core = (pw_core_endpoint){0};
}
