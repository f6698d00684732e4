#include "transport/fabric/wire_name.h"
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

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
