#include "transport/fabric/wire_address.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

int pw_wire_address_make(uint32_t node, uint32_t num_nodes, pw_wire_address *out)
{
    struct stat namespace;
    pw_wire_address made = {.magic = PW_WIRE_ADDRESS_MAGIC,
                            .version = PW_WIRE_ADDRESS_VERSION,
                            .node = node,
                            .num_nodes = num_nodes};
    if (stat("/proc/self/ns/net", &namespace)) return PW_ERR_HOST;
    made.network_namespace = namespace.st_ino;
    if (pw_segment_find_facts(&made.segment)) return PW_ERR_HOST;
    *out = made;
    return PW_OK;
}

int pw_wire_address_check(const pw_wire_address *address, uint32_t num_nodes, pw_sentence *reason)
{
    if (address->magic != PW_WIRE_ADDRESS_MAGIC || address->version != PW_WIRE_ADDRESS_VERSION)
        return pw_sentence_refuse(reason, PW_ERR_MALFORMED,
                                  "a peer's address is not one of pagewire's version %d (magic "
                                  "0x%08x, version %u): install the same pagewire on all hosts",
                                  PW_WIRE_ADDRESS_VERSION, address->magic, address->version);
    if (address->node >= num_nodes)
        return pw_sentence_refuse(reason, PW_ERR_MALFORMED,
                                  "a peer says that it is node %u; this run has nodes 0 to %u",
                                  address->node, num_nodes - 1);
    if (address->shm_name_bytes > PW_SHM_NAME_BYTES ||
        address->tcp_name_bytes > PW_TCP_NAME_BYTES ||
        (address->shm_name_bytes && address->shm_name[address->shm_name_bytes - 1]) ||
        !memchr(address->segment.boot_id, 0, sizeof address->segment.boot_id))
        return pw_sentence_refuse(reason, PW_ERR_MALFORMED,
                                  "the address of node %u has endpoint names of %u and %u bytes, "
                                  "or such as do not end; at most %d and %d are possible",
                                  address->node, address->shm_name_bytes, address->tcp_name_bytes,
                                  PW_SHM_NAME_BYTES, PW_TCP_NAME_BYTES);
    return PW_OK;
}

static bool is_loopback(const pw_wire_address *address)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    memcpy(&v4, address->tcp_name, sizeof v4);
    memcpy(&v6, address->tcp_name, sizeof v6);
    if (v4.sin_family == AF_INET) return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return v6.sin6_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

bool pw_wire_address_is_out_of_reach(const pw_wire_address *address, const pw_wire_address *other)
{
    return address->tcp_name_bytes && is_loopback(address) &&
           (address->network_namespace != other->network_namespace ||
            memcmp(address->segment.boot_id, other->segment.boot_id,
                   sizeof address->segment.boot_id) != 0);
}

bool pw_wire_address_is_near(const pw_wire_address *a, const pw_wire_address *b)
{
    return a->network_namespace == b->network_namespace &&
           a->segment.pid_namespace == b->segment.pid_namespace &&
           memcmp(a->segment.boot_id, b->segment.boot_id, sizeof a->segment.boot_id) == 0;
}

/* ---- the name of 64 bytes */

static uint64_t digest(uint64_t so_far, const void *data, size_t num_bytes)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < num_bytes; i++) so_far = (so_far ^ bytes[i]) * FNV_PRIME;
    return so_far;
}

static uint64_t host_of(const pw_wire_address *address)
{
    const pw_segment_facts *facts = &address->segment;
    uint64_t host = digest(FNV_OFFSET, facts->boot_id, sizeof facts->boot_id);
    host = digest(host, &facts->pid_namespace, sizeof facts->pid_namespace);
    return digest(host, &address->network_namespace, sizeof address->network_namespace);
}

int pw_wire_card_open(const pw_wire_address *address)
{
    const int card = memfd_create("pagewire-card", MFD_CLOEXEC);
    if (card < 0) return PW_ERR_HOST;
    if (card <= UINT16_MAX && pwrite(card, address, sizeof *address, 0) == (ssize_t)sizeof *address)
        return card;
    close(card);
    return PW_ERR_HOST;
}

void pw_wire_name_make(const pw_wire_address *address, int card, uint16_t endpoint,
                       pw_wire_name *out)
{
    *out = (pw_wire_name){.magic = PW_WIRE_ADDRESS_MAGIC,
                          .node = address->node,
                          .pid = (int32_t)getpid(),
                          .card = (uint16_t)card,
                          .endpoint = endpoint,
                          .host = host_of(address),
                          .nonce = address->segment.nonce[1]};
    if (address->tcp_name_bytes <= PW_WIRE_NAME_TCP_BYTES) {
        out->tcp_name_bytes = address->tcp_name_bytes;
        memcpy(out->tcp_name, address->tcp_name, address->tcp_name_bytes);
    }
}

static bool is_same(const pw_wire_name *name, const pw_wire_address *address)
{
    return address->node == name->node && address->segment.nonce[1] == name->nonce;
}

/* From a file that the peer keeps open: whatever it holds is checked like a stranger's. */
static bool read_card(const pw_wire_name *name, pw_wire_address *out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%u", name->pid, name->card);
    const int card = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (card < 0) return false;
    const ssize_t num_bytes = pread(card, out, sizeof *out, 0);
    close(card);
    return num_bytes == (ssize_t)sizeof *out && is_same(name, out);
}

int pw_wire_name_expand(const pw_wire_name *name, const pw_wire_address *mine, pw_wire_address *out)
{
    if (name->magic != PW_WIRE_ADDRESS_MAGIC || name->tcp_name_bytes > PW_WIRE_NAME_TCP_BYTES)
        return PW_ERR_MALFORMED;
    if (is_same(name, mine)) {
        *out = *mine;
        return PW_OK;
    }
    if (name->host == host_of(mine) && read_card(name, out)) return PW_OK;
    *out = (pw_wire_address){.magic = PW_WIRE_ADDRESS_MAGIC,
                             .version = PW_WIRE_ADDRESS_VERSION,
                             .tcp_name_bytes = (uint8_t)name->tcp_name_bytes,
                             .node = name->node,
                             .num_nodes = mine->num_nodes,
                             .segment = {.nonce = {0, name->nonce}}};
    memcpy(out->tcp_name, name->tcp_name, name->tcp_name_bytes);
    return PW_OK;
}
