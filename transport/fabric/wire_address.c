#include "transport/fabric/wire_address.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

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
