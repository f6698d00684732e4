/* Sequences of libfabric's calls on the provider, with arguments of all kinds: endpoints, address
 * tables, queues, counters and regions that come and go in one process, which sends to itself.
 * Nothing is written but the buffers and regions given, what is sent and received arrives whole,
 * and the process can always go on. */
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/input.h"
#include "transport/fabric/provider.h"
#include "node/settings/platforms.h"
#include "node/settings/setting_rows.h"

#define ENDPOINTS 3
#define REGIONS 4
#define OPERATIONS_MAX 120
#define AREA_BYTES ((size_t)64 << 10)
#define GUARD_BYTES ((size_t)4096)
#define CANARY 0xc5

typedef struct {
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *sent, *received;
    struct fid_cntr *counter;
    enum fi_cq_format format;
} endpoint;

static pw_fabric_library library;
static struct fi_info *info;
static struct fid_fabric fabric;
static struct fid_domain *domain;
static endpoint endpoints[ENDPOINTS];
static struct fid_mr *regions[REGIONS];
static uint8_t *area; /* between two guards */
static pw_wire_name name_of_first;

/* ---- what libfabric does for a provider */

static struct fi_info *make_info(const struct fi_info *given)
{
    struct fi_info *made = calloc(1, sizeof *made);
    MUST(!given && made);
    made->tx_attr = calloc(1, sizeof *made->tx_attr);
    made->rx_attr = calloc(1, sizeof *made->rx_attr);
    made->ep_attr = calloc(1, sizeof *made->ep_attr);
    made->domain_attr = calloc(1, sizeof *made->domain_attr);
    made->fabric_attr = calloc(1, sizeof *made->fabric_attr);
    return made;
}

static void free_info(struct fi_info *made)
{
    free(made->tx_attr);
    free(made->rx_attr);
    free(made->ep_attr);
    free(made->domain_attr->name);
    free(made->fabric_attr->prov_name);
    free(made->domain_attr);
    free(made->fabric_attr->name);
    free(made->fabric_attr);
    free(made);
}

static int no_info(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **out)
{
    (void)version, (void)node, (void)service, (void)flags, (void)hints, (void)out;
    return -FI_ENODATA;
}

static const char *tell_error(int error)
{
    (void)error;
    return "an error";
}

/* ---- the run's node file, of the defaults */

/* The platform's costs one by one, as the launcher writes them. */
static void print_costs(FILE *file, const pw_costs *costs)
{
    const pw_setting_row *row;
    for (uint32_t i = 0; (row = pw_setting_row_at(i)); i++) {
        if (row->initial) continue;
        const size_t at = row->offset - offsetof(pw_node_config, costs);
        int64_t cost;
        if (row->kind == PW_KIND_TABLE) fprintf(file, "%s=0:1\n", row->name);
        else {
            memcpy(&cost, (const char *)costs + at, sizeof cost);
            fprintf(file, "%s=%lld\n", row->name, (long long)cost);
        }
    }
}

static void set_environment(void)
{
    char path[64];
    const int descriptor = memfd_create("node.conf", 0);
    FILE *file = fdopen(dup(descriptor), "w");
    MUST(descriptor >= 0 && file);
    fputs("format=2\nnodes=1\nrun.compute=none\nrun.huge_pages=host\nrun.watchdog=none\n", file);
    print_costs(file, &pw_platform_at(0)->costs);
    fputs("end\n", file);
    MUST(!fclose(file));
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    setenv("PAGEWIRE_NODE_FILE", path, 1);
    unsetenv("PAGEWIRE_LAUNCH_DIR");
    unsetenv("PMI_RANK");
}

/* ---- arguments */

static uint64_t take_size(input *in)
{
    return take_byte(in) < 128 ? take_byte(in) : take(in, 2) % 20000;
}

static struct iovec take_buffer(input *in)
{
    const uint64_t num_bytes = take_size(in);
    return (struct iovec){area + take(in, 2) % (AREA_BYTES - num_bytes), num_bytes};
}

static uint64_t take_remote(input *in, uint64_t num_bytes)
{
    const uint8_t where = take_byte(in);
    const uint64_t offset = take(in, 2);
    if (where < 220) return (uintptr_t)area + offset % (AREA_BYTES - num_bytes);
    return where & 1 ? 0 - offset : UINT64_C(0xffff800000000000) + offset;
}

static uint64_t take_key(input *in)
{
    struct fid_mr *region = regions[take_byte(in) % REGIONS];
    return region && take_byte(in) < 250 ? fi_mr_key(region) : take(in, 8);
}

static fi_addr_t take_peer(input *in)
{
    const uint8_t which = take_byte(in);
    return which < 250 ? which % 3 : which < 253 ? FI_ADDR_UNSPEC : take(in, 8);
}

static void *take_context(input *in) { return (void *)(uintptr_t)(take_byte(in) % 8u); }

/* ---- objects */

static struct fid_cq *open_queue(enum fi_cq_format format)
{
    struct fi_cq_attr attr = {.format = format, .wait_obj = FI_WAIT_UNSPEC};
    struct fid_cq *made = NULL;
    MUST(!fi_cq_open(domain, &attr, &made, NULL));
    return made;
}

static void open_endpoint(input *in, endpoint *it)
{
    struct fi_av_attr av_attr = {.type = take_byte(in) & 1 ? FI_AV_TABLE : FI_AV_MAP};
    struct fi_cntr_attr counter_attr = {.events = FI_CNTR_EVENTS_COMP};
    const uint64_t selective = take_byte(in) & 1 ? FI_SELECTIVE_COMPLETION : 0;
    size_t num_bytes = sizeof name_of_first;
    *it = (endpoint){.format = (enum fi_cq_format)(take_byte(in) % 4 + FI_CQ_FORMAT_CONTEXT)};
    MUST(!fi_endpoint(domain, info, &it->ep, NULL) && !fi_av_open(domain, &av_attr, &it->av, NULL));
    it->sent = open_queue(it->format);
    it->received = open_queue(it->format);
    MUST(!fi_cntr_open(domain, &counter_attr, &it->counter, NULL));
    MUST(!fi_ep_bind(it->ep, &it->av->fid, 0));
    MUST(!fi_ep_bind(it->ep, &it->sent->fid, FI_TRANSMIT | selective));
    MUST(!fi_ep_bind(it->ep, &it->received->fid, FI_RECV | selective));
    MUST(!fi_ep_bind(it->ep, &it->counter->fid, FI_SEND | FI_RECV | FI_READ | FI_WRITE));
    MUST(fi_ep_bind(it->ep, &it->av->fid, 0) && !fi_enable(it->ep));
    MUST(!fi_getname(&it->ep->fid, &name_of_first, &num_bytes));
}

static void insert_name(input *in)
{
    endpoint *it = &endpoints[take_byte(in) % ENDPOINTS];
    pw_wire_name name = name_of_first;
    fi_addr_t address;
    for (uint8_t changes = take_byte(in) % 4; changes; changes--)
        ((uint8_t *)&name)[take_byte(in) % sizeof name] = take_byte(in);
    /* Of another process no card is ours to open; and a message to a node or an endpoint that is
     * not there is waited for, for seconds, when the sender closes. */
    name.pid = name_of_first.pid;
    name.node = name_of_first.node;
    name.endpoint %= ENDPOINTS;
    if (it->av) MUST(fi_av_insert(it->av, &name, 1, &address, 0, NULL) <= 1);
}

/* What is sent from one to the other must find its way when nothing else was done. */
static void meet(void)
{
    pw_wire_name names[ENDPOINTS];
    for (int i = 0; i < ENDPOINTS; i++) {
        size_t num_bytes = sizeof names[i];
        MUST(!fi_getname(&endpoints[i].ep->fid, &names[i], &num_bytes));
    }
    for (int i = 0; i < ENDPOINTS; i++) {
        fi_addr_t addresses[ENDPOINTS];
        MUST(fi_av_insert(endpoints[i].av, names, ENDPOINTS, addresses, 0, NULL) == ENDPOINTS);
    }
}

static void change_region(input *in)
{
    struct fid_mr **it = &regions[take_byte(in) % REGIONS];
    const struct iovec buffer = take_buffer(in);
    if (*it) {
        MUST(!fi_close(&(*it)->fid));
        *it = NULL;
        return;
    }
    const uint64_t access = take_byte(in) & 1 ? FI_REMOTE_READ | FI_REMOTE_WRITE : FI_REMOTE_READ;
    if (fi_mr_reg(domain, buffer.iov_base, buffer.iov_len, access, 0, take(in, 2), 0, it, NULL))
        *it = NULL;
}

/* ---- calls */

static uint64_t take_flags(input *in)
{
    static const uint64_t flags[] = {0,
                                     FI_COMPLETION,
                                     FI_INJECT,
                                     FI_REMOTE_CQ_DATA,
                                     FI_MULTI_RECV,
                                     FI_PEEK,
                                     FI_PEEK | FI_CLAIM,
                                     FI_PEEK | FI_DISCARD,
                                     FI_CLAIM,
                                     FI_CLAIM | FI_DISCARD,
                                     FI_COMPLETION | FI_REMOTE_CQ_DATA};
    return flags[take_byte(in) % (sizeof flags / sizeof *flags)];
}

static void send_or_receive(input *in, struct fid_ep *ep, bool is_send)
{
    struct iovec iov[9];
    const uint8_t num_parts = take_byte(in) < 200 ? 1 : take_byte(in) % 10;
    for (uint8_t i = 0; i < num_parts && i < 9; i++) iov[i] = take_buffer(in);
    const bool is_tagged = take_byte(in) & 1;
    const fi_addr_t peer = take_peer(in);
    const uint64_t flags = take_flags(in), tag = take_byte(in) % 4u, ignore = take_byte(in) % 4u;
    const struct fi_msg message = {.msg_iov = iov,
                                   .iov_count = num_parts < 9 ? num_parts : 9,
                                   .addr = peer,
                                   .context = take_context(in),
                                   .data = tag};
    const struct fi_msg_tagged tagged = {.msg_iov = iov,
                                         .iov_count = message.iov_count,
                                         .addr = peer,
                                         .context = message.context,
                                         .data = tag,
                                         .tag = tag,
                                         .ignore = ignore};
    if (is_tagged && is_send) fi_tsendmsg(ep, &tagged, flags);
    else if (is_tagged) fi_trecvmsg(ep, &tagged, flags);
    else if (is_send) fi_sendmsg(ep, &message, flags);
    else fi_recvmsg(ep, &message, flags);
}

static void move(input *in, struct fid_ep *ep, bool is_read)
{
    const struct iovec buffer = take_buffer(in);
    const struct fi_rma_iov remote = {.addr = take_remote(in, buffer.iov_len),
                                      .len = take_byte(in) < 250 ? buffer.iov_len : take(in, 8),
                                      .key = take_key(in)};
    const struct fi_msg_rma message = {.msg_iov = &buffer,
                                       .iov_count = 1,
                                       .addr = take_peer(in),
                                       .rma_iov = &remote,
                                       .rma_iov_count = take_byte(in) < 250,
                                       .context = take_context(in),
                                       .data = 5};
    const uint64_t flags = take_flags(in);
    if (is_read) fi_readmsg(ep, &message, flags);
    else fi_writemsg(ep, &message, flags);
}

static void do_atomic(input *in, struct fid_ep *ep)
{
    const size_t count = take_byte(in) % 20u;
    uint8_t *const operands = area + take(in, 2) % (AREA_BYTES - 4096);
    uint8_t *const results = area + take(in, 2) % (AREA_BYTES - 4096);
    const uint64_t remote = take_remote(in, 4096), key = take_key(in);
    const fi_addr_t peer = take_peer(in);
    const enum fi_datatype type = (enum fi_datatype)(take_byte(in) % 18);
    const enum fi_op operation = (enum fi_op)(take_byte(in) % 22);
    void *context = take_context(in);
    switch (take_byte(in) % 3) {
    case 0:
        fi_atomic(ep, operands, count, NULL, peer, remote, key, type, operation, context);
        break;
    case 1:
        fi_fetch_atomic(ep, operands, count, NULL, results, NULL, peer, remote, key, type,
                        operation, context);
        break;
    default:
        fi_compare_atomic(ep, operands, count, NULL, operands, NULL, results, NULL, peer, remote,
                          key, type, operation, context);
    }
}

static void read_queue(const endpoint *it, struct fid_cq *queue)
{
    struct fi_cq_tagged_entry entries[4];
    struct fi_cq_err_entry error = {0};
    fi_addr_t sources[4];
    const ssize_t count = fi_cq_readfrom(queue, entries, 4, sources);
    MUST(count <= 4 && it->format);
    if (count == -FI_EAVAIL) MUST(fi_cq_readerr(queue, &error, 0) == 1 && error.err > 0);
}

static void operate(input *in)
{
    endpoint *it = &endpoints[take_byte(in) % ENDPOINTS];
    switch (take_byte(in) % 14) {
    case 0:
    case 1:
    case 2: send_or_receive(in, it->ep, true); break;
    case 3:
    case 4: send_or_receive(in, it->ep, false); break;
    case 5: move(in, it->ep, false); break;
    case 6: move(in, it->ep, true); break;
    case 7: do_atomic(in, it->ep); break;
    case 8: change_region(in); break;
    case 9: insert_name(in); break;
    case 10: (void)fi_cancel(&it->ep->fid, take_context(in)); break;
    case 11: (void)fi_cntr_read(it->counter), (void)fi_cntr_readerr(it->counter); break;
    case 12: {
        fi_addr_t address = take_peer(in);
        (void)fi_av_remove(it->av, &address, 1, 0);
        break;
    }
    default: read_queue(it, it->received); read_queue(it, it->sent);
    }
}

/* ---- the run */

static void close_all(void)
{
    for (int i = 0; i < ENDPOINTS; i++) MUST(!fi_close(&endpoints[i].ep->fid));
    for (int i = 0; i < ENDPOINTS; i++) {
        MUST(!fi_close(&endpoints[i].av->fid) && !fi_close(&endpoints[i].counter->fid));
        MUST(!fi_close(&endpoints[i].sent->fid) && !fi_close(&endpoints[i].received->fid));
    }
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i]) MUST(!fi_close(&regions[i]->fid));
        regions[i] = NULL;
    }
    MUST(!fi_close(&domain->fid));
}

/* Messages that nobody received, or that a look has kept: else closing waits for their end. */
static void take_what_is_left(void)
{
    for (int round = 0; round < 24; round++)
        for (int i = 0; i < ENDPOINTS; i++) {
            const bool is_claim = round & 1;
            void *context = (void *)(uintptr_t)(round / 2 % 8);
            const struct fi_msg_tagged any = {
                .addr = FI_ADDR_UNSPEC, .ignore = UINT64_MAX, .context = context};
            const struct fi_msg plain = {.addr = FI_ADDR_UNSPEC, .context = context};
            const uint64_t flags = FI_DISCARD | (is_claim ? FI_CLAIM : FI_PEEK);
            fi_trecvmsg(endpoints[i].ep, &any, flags);
            fi_recvmsg(endpoints[i].ep, &plain, flags);
            read_queue(&endpoints[i], endpoints[i].received);
            read_queue(&endpoints[i], endpoints[i].sent);
        }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    library = (pw_fabric_library){
        .getinfo = no_info, .freeinfo = free_info, .dupinfo = make_info, .strerror = tell_error};
    set_environment();
    pw_fi_process_set_library(&library);
    uint8_t *pages = mmap(NULL, AREA_BYTES + 2 * GUARD_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(pages != MAP_FAILED);
    memset(pages, CANARY, AREA_BYTES + 2 * GUARD_BYTES);
    area = pages + GUARD_BYTES;
    MUST(!pw_fi_info(&library, FI_VERSION(1, 17), 1, NULL, &info));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t num_bytes)
{
    input in = {data, data + num_bytes};
    pw_fi_process *process;
    fabric.fid.fclass = FI_CLASS_FABRIC;
    MUST(!pw_fi_domain_open(&fabric, info, &domain, NULL));
    for (int i = 0; i < ENDPOINTS; i++) open_endpoint(&in, &endpoints[i]);
    meet();
    for (int i = 0; i < OPERATIONS_MAX && !is_over(&in); i++) operate(&in);
    take_what_is_left();
    close_all();
    MUST(!pw_fi_process_get(&process) && !process->has_failed && !process->num_endpoints);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        MUST(*(area - GUARD_BYTES + i) == CANARY && area[AREA_BYTES + i] == CANARY);
    return 0;
}
