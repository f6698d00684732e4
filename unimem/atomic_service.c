#include "unimem/atomic_service.h"
#include "native/atomics.h"
#include <string.h>

#define LOCAL_MASK ((UINT64_C(1) << PW_UNIMEM_NODE_SHIFT) - 1)
#define PAGES_MAX 65535 /* allocSharedPage takes 16 bits */

_Static_assert((UNIMEM_FORK_NO_FILE & UINT8_MAX) == PW_UNIMEM_NO_FILE &&
                   (UNIMEM_FORK_NOT_EXECUTABLE & UINT8_MAX) == PW_UNIMEM_NOT_EXECUTABLE,
               "a refusal ends with its error");

typedef enum { NOTHING, READS, WRITES } access_kind;

/* Of each operation: what it does to its page, bytes, and address bits that are ignored. */
static const struct {
    access_kind access;
    uint8_t num_bytes, ignored;
} operations[PW_UNIMEM_OPCODES] = {
    [PW_UNIMEM_FREE] = {WRITES, 0, 12},     [PW_UNIMEM_READ8] = {READS, 1, 0},
    [PW_UNIMEM_READ32] = {READS, 4, 2},     [PW_UNIMEM_READ64] = {READS, 8, 3},
    [PW_UNIMEM_READ4K] = {READS, 0, 12},    [PW_UNIMEM_WRITE8] = {WRITES, 1, 2},
    [PW_UNIMEM_WRITE32] = {WRITES, 4, 3},   [PW_UNIMEM_WRITE64] = {WRITES, 8, 3},
    [PW_UNIMEM_WRITE128] = {WRITES, 16, 3}, [PW_UNIMEM_CAS] = {WRITES, 8, 3},
    [PW_UNIMEM_FAD] = {WRITES, 8, 3},       [PW_UNIMEM_SWAP] = {WRITES, 8, 3},
};

/* A request while it is served. */
typedef struct {
    const pw_atomic_request *request;
    pw_shared_page *pages[2]; /* second: of 128 bits that cross a boundary */
    uint32_t offset;          /* in the first one */
    pw_time cost_ns;
    bool changes_pages; /* came or went */
} job;

pw_atomic_request pw_atomic_request_of(const pw_mailbox_word words[2])
{
    return (pw_atomic_request){.sender = words[0].low & ((UINT64_C(1) << 48) - 1),
                               .opcode = (uint8_t)(words[0].low >> 56),
                               .address = words[0].high,
                               .argument = {words[1].low, words[1].high}};
}

void pw_atomic_request_to(const pw_atomic_request *request, pw_mailbox_word words[2])
{
    words[0] =
        (pw_mailbox_word){request->sender | (uint64_t)request->opcode << 56, request->address};
    words[1] = (pw_mailbox_word){request->argument[0], request->argument[1]};
}

uint64_t pw_atomic_ignored_bits(uint8_t opcode)
{
    return opcode < PW_UNIMEM_OPCODES ? (UINT64_C(1) << operations[opcode].ignored) - 1 : 0;
}

/* Has it been idle for so long then that it sleeps? */
static bool is_asleep(const pw_atomic_service *service, pw_time at_ns)
{
    return at_ns - pw_calendar_idle_since(&service->core, at_ns) > service->costs->atomic_poll_ns;
}

pw_time pw_atomic_service_reads_ns(const pw_atomic_service *service, pw_time arrival_ns)
{
    bool sleeps = is_asleep(service, arrival_ns);
    pw_time wakeup_ns = sleeps ? service->costs->atomic_wakeup_ns : 0;
    pw_time start_ns = pw_calendar_peek(&service->core, arrival_ns,
                                        wakeup_ns + 2 * service->costs->mailbox_read_ns);
    /* What has to wait for an earlier one finds it awake. */
    return start_ns == arrival_ns ? start_ns + wakeup_ns : start_ns;
}

/* Its core was busy with waking up until it reads. */
static void wake(pw_atomic_service *service, pw_time reads_ns)
{
    if (!is_asleep(service, reads_ns)) return;
    service->num_wakeups++;
    pw_calendar_fill(&service->core, reads_ns - service->costs->atomic_wakeup_ns, reads_ns);
}

static pw_shared_page *look_up(pw_atomic_service *service, job *work, uint64_t address)
{
    work->cost_ns += service->costs->atomic_lookup_ns;
    if (address >> PW_UNIMEM_NODE_SHIFT != service->node) return NULL;
    return pw_software_mmu_find(&service->mmu, (address & LOCAL_MASK) >> PW_PAGE_SHIFT);
}

/* 0, or an error. */
static uint64_t translate(pw_atomic_service *service, job *work, uint64_t address,
                          uint32_t num_bytes, bool is_write)
{
    work->offset = (uint32_t)(address % PW_PAGE_BYTES);
    uint32_t num_pages = work->offset + num_bytes > PW_PAGE_BYTES ? 2 : 1;
    for (uint32_t i = 0; i < num_pages; i++) {
        pw_shared_page *page = look_up(service, work, address + i * PW_PAGE_BYTES);
        if (!page) return PW_UNIMEM_NO_PAGE;
        work->pages[i] = page;
        if (!pw_shared_page_allows(page, work->request->sender, is_write)) return PW_UNIMEM_DENIED;
    }
    return 0;
}

/* So many bytes behind the address; a word lies in one page. */
static uint8_t *place_of(const job *work, uint32_t num_bytes)
{
    uint32_t offset = work->offset + num_bytes;
    return work->pages[offset / PW_PAGE_BYTES]->memory + offset % PW_PAGE_BYTES;
}

/* Words and parts of them; the machine and its hosts are little-endian. */
static uint64_t access_memory(const job *work)
{
    const pw_atomic_request *request = work->request;
    const uint64_t *argument = request->argument;
    uint32_t num_bytes = operations[request->opcode].num_bytes;
    uint64_t old = 0, value;
    if (request->opcode == PW_UNIMEM_WRITE128) {
        for (uint32_t i = 0; i < 2; i++) memcpy(place_of(work, 8 * i), &argument[i], 8);
        return 0;
    }
    memcpy(&old, place_of(work, 0), num_bytes);
    value = old;
    switch (request->opcode) {
    case PW_UNIMEM_READ8:
    case PW_UNIMEM_READ32:
    case PW_UNIMEM_READ64: return old;
    case PW_UNIMEM_CAS:
        pw_atomic_apply(PW_TYPE_UINT64, PW_ATOMIC_CSWAP, &value, &argument[1], &argument[0], 1);
        break;
    case PW_UNIMEM_FAD:
        pw_atomic_apply(PW_TYPE_UINT64, PW_ATOMIC_SUM, &value, &argument[0], NULL, 1);
        break;
    default: pw_atomic_apply(PW_TYPE_UINT64, PW_ATOMIC_WRITE, &value, &argument[0], NULL, 1);
    }
    memcpy(place_of(work, 0), &value, num_bytes);
    if (request->opcode == PW_UNIMEM_CAS) return old == argument[0];
    return request->opcode == PW_UNIMEM_FAD || request->opcode == PW_UNIMEM_SWAP ? old : 0;
}

static uint64_t allocate(pw_atomic_service *service, job *work, uint64_t *result)
{
    const uint64_t *argument = work->request->argument;
    if (argument[0] == 0 || argument[0] > PAGES_MAX || argument[1] > PW_DENY_ALL)
        return PW_UNIMEM_BAD_ARGUMENT;
    work->changes_pages = true;
    pw_shared_page *first = pw_software_mmu_allocate(&service->mmu, (uint32_t)argument[0],
                                                     work->request->sender, (uint32_t)argument[1]);
    work->cost_ns += service->costs->page_in_fixed_ns;
    if (!first) return PW_UNIMEM_NO_MEMORY;
    work->cost_ns += (pw_time)argument[0] * service->costs->page_in_page_ns;
    *result = (uint64_t)service->node << PW_UNIMEM_NODE_SHIFT | first->page << PW_PAGE_SHIFT;
    return 0;
}

static uint64_t let_go(pw_atomic_service *service, job *work)
{
    pw_shared_page *page = work->pages[0];
    if (page->page != page->first_page) return PW_UNIMEM_BAD_ARGUMENT;
    work->changes_pages = true;
    /* What was done to its pages stands before its end. */
    for (uint32_t i = 0; i < page->num_pages; i++)
        service->mmu.changed_ns =
            pw_later(service->mmu.changed_ns,
                     pw_software_mmu_find(&service->mmu, page->first_page + i)->changed_ns);
    pw_software_mmu_free(&service->mmu, page);
    work->pages[0] = NULL;
    return 0;
}

static uint64_t execute(pw_atomic_service *service, job *work, pw_atomic_answer *out)
{
    const pw_atomic_request *request = work->request;
    if (request->opcode == 0 || request->opcode >= PW_UNIMEM_OPCODES) return PW_UNIMEM_BAD_OPCODE;
    if (request->opcode == PW_UNIMEM_ALLOC) return allocate(service, work, &out->result);
    bool is_fork = request->opcode == PW_UNIMEM_FORK;
    uint64_t address = is_fork ? request->argument[0] & ~(uint64_t)(PW_PAGE_BYTES - 1)
                               : request->address & ~pw_atomic_ignored_bits(request->opcode);
    uint64_t error = translate(service, work, address, operations[request->opcode].num_bytes,
                               operations[request->opcode].access == WRITES);
    if (error) return error;
    switch (request->opcode) {
    case PW_UNIMEM_FREE: return let_go(service, work);
    case PW_UNIMEM_FORK: work->cost_ns += service->costs->atomic_spawn_ns; return 0;
    case PW_UNIMEM_READ4K:
        work->cost_ns += service->costs->atomic_page_ns;
        out->page = work->pages[0]->memory;
        out->result = PW_PAGE_BYTES;
        return 0;
    default:
        work->cost_ns += service->costs->atomic_access_ns;
        out->result = access_memory(work);
        return 0;
    }
}

static uint64_t spawn(pw_atomic_service *service, const job *work, pw_atomic_answer *out)
{
    const char *memory = (const char *)work->pages[0]->memory;
    unimem_fork_request wanted = {.name = memory + PW_FORK_NAME_OFFSET,
                                  .parent = work->request->sender,
                                  .time_ns = out->at_ns};
    memcpy(&wanted.argument, memory, sizeof wanted.argument);
    if (!memchr(wanted.name, 0, PW_PAGE_BYTES - PW_FORK_NAME_OFFSET)) return PW_UNIMEM_BAD_ARGUMENT;
    out->result = service->spawn ? service->spawn(service->context, &wanted) : 0;
    if (!out->result) return PW_UNIMEM_NO_FORK;
    bool is_refused = out->result >> 63; /* UNIMEM_FORK_*, which ends with the error */
    return is_refused ? out->result & UINT8_MAX : 0;
}

void pw_atomic_service_execute(pw_atomic_service *service, const pw_atomic_request *request,
                               pw_time at_ns, pw_atomic_answer *out)
{
    job work = {.request = request,
                .cost_ns = 2 * service->costs->mailbox_read_ns + service->costs->atomic_decode_ns};
    *out = (pw_atomic_answer){.error = 0};
    wake(service, at_ns);
    out->error = execute(service, &work, out);
    pw_time from_ns = at_ns;
    if (work.changes_pages || out->error) from_ns = pw_later(from_ns, service->mmu.changed_ns);
    for (int i = 0; i < 2; i++)
        if (work.pages[i]) from_ns = pw_later(from_ns, work.pages[i]->changed_ns);
    out->at_ns = pw_calendar_book(&service->core, from_ns, work.cost_ns) + work.cost_ns;
    if (work.changes_pages) service->mmu.changed_ns = out->at_ns;
    for (int i = 0; i < 2; i++)
        if (work.pages[i]) work.pages[i]->changed_ns = out->at_ns;
    if (!out->error && request->opcode == PW_UNIMEM_FORK) out->error = spawn(service, &work, out);
}
