#include "tests/c/platform.h"
#include "unimem/atomic_service.h"
#include "unimem/software_mmu.h"
#include <assert.h>
#include <string.h>

#define NODE 2
#define BASE_NS (2 * 135 + 200) /* read two words, decode */

static pw_atomic_service service;
static pw_atomic_answer said;
static const uint64_t me = 0x0001, neighbour = 0x0002; /* of node 0 */

static uint64_t ask_as(uint64_t sender, uint8_t opcode, uint64_t address, uint64_t argument1,
                       uint64_t argument2, pw_time at_ns)
{
    const pw_atomic_request request = {sender, address, {argument1, argument2}, opcode};
    pw_mailbox_word words[2];
    pw_atomic_request_to(&request, words);
    const pw_atomic_request same = pw_atomic_request_of(words);
    assert(same.sender == sender && same.opcode == opcode && same.address == address &&
           same.argument[0] == argument1 && same.argument[1] == argument2);
    pw_atomic_service_execute(&service, &same, at_ns, &said);
    return said.error ? UINT64_MAX - said.error : said.result;
}

static uint64_t ask(uint8_t opcode, uint64_t address, uint64_t argument1, uint64_t argument2)
{
    static pw_time at_ns;
    return ask_as(me, opcode, address, argument1, argument2, at_ns += 1000000);
}

static uint64_t refused(uint64_t error) { return UINT64_MAX - error; }

static void begin(uint64_t num_pages)
{
    service = (pw_atomic_service){.costs = &platform_costs, .node = NODE};
    assert(pw_software_mmu_init(&service.mmu, num_pages * PW_PAGE_BYTES) == PW_OK);
}

static void end(void)
{
    pw_calendar_finish(&service.core);
    pw_software_mmu_finish(&service.mmu);
}

static void low_address_bits_are_lost(void)
{
    begin(8);
    uint64_t page = ask(PW_UNIMEM_ALLOC, 0, 1, 0);
    ask(PW_UNIMEM_WRITE64, page + 7, UINT64_C(0x8877665544332211), 0);
    assert(ask(PW_UNIMEM_READ8, page + 7, 0, 0) == 0x88); /* a read of 8 bits loses none */
    assert(ask(PW_UNIMEM_READ32, page + 7, 0, 0) == 0x88776655);
    assert(ask(PW_UNIMEM_READ64, page + 7, 0, 0) == UINT64_C(0x8877665544332211));
    ask(PW_UNIMEM_WRITE8, page + 7, 0xffaa, 0); /* a write of 8 bits loses two */
    assert(ask(PW_UNIMEM_READ64, page, 0, 0) == UINT64_C(0x887766aa44332211));
    ask(PW_UNIMEM_WRITE32, page + 7, UINT64_C(0xdeadbeef00000001), 0); /* three */
    assert(ask(PW_UNIMEM_READ64, page, 0, 0) == UINT64_C(0x887766aa00000001));
    ask(PW_UNIMEM_WRITE128, page + 15, 5, 6);
    assert(ask(PW_UNIMEM_READ64, page + 8, 0, 0) == 5);
    assert(ask(PW_UNIMEM_READ64, page + 16, 0, 0) == 6);
    assert(ask(PW_UNIMEM_CAS, page + 9, 5, 7) == 1 && ask(PW_UNIMEM_CAS, page + 9, 5, 8) == 0);
    assert(ask(PW_UNIMEM_FAD, page + 10, UINT64_MAX, 0) == 7);
    assert(ask(PW_UNIMEM_SWAP, page + 11, 20, 0) == 6 &&
           ask(PW_UNIMEM_READ64, page + 8, 0, 0) == 20);
    assert(ask(PW_UNIMEM_READ4K, page + 4095, 0, 0) == 4096 && said.page[8] == 20);
    assert(ask(PW_UNIMEM_FREE, page + 4095, 0, 0) == 0);
    end();
}

static void words_of_128_bits_may_cross_a_boundary(void)
{
    begin(8);
    uint64_t page = ask(PW_UNIMEM_ALLOC, 0, 2, 0);
    ask(PW_UNIMEM_WRITE128, page + 4088, 1, 2);
    assert(ask(PW_UNIMEM_READ64, page + 4088, 0, 0) == 1);
    assert(ask(PW_UNIMEM_READ64, page + 4096, 0, 0) == 2);
    /* Behind the last page: refused, and nothing is written. */
    assert(ask(PW_UNIMEM_WRITE128, page + 8184, 3, 4) == refused(PW_UNIMEM_NO_PAGE));
    assert(ask(PW_UNIMEM_READ64, page + 8184, 0, 0) == 0);
    end();
}

static void invalid_requests_get_errors(void)
{
    begin(4);
    uint64_t page = ask(PW_UNIMEM_ALLOC, 0, 2, 0);
    assert(ask(0, page, 0, 0) == refused(PW_UNIMEM_BAD_OPCODE));
    assert(ask(PW_UNIMEM_OPCODES, page, 0, 0) == refused(PW_UNIMEM_BAD_OPCODE));
    assert(ask(255, page, 0, 0) == refused(PW_UNIMEM_BAD_OPCODE));
    assert(ask(PW_UNIMEM_READ64, 0, 0, 0) == refused(PW_UNIMEM_NO_PAGE));
    assert(ask(PW_UNIMEM_READ64, UINT64_C(2) << 48, 0, 0) == refused(PW_UNIMEM_NO_PAGE));
    assert(ask(PW_UNIMEM_READ64, page - (UINT64_C(1) << 48), 0, 0) ==
           refused(PW_UNIMEM_NO_PAGE)); /* another node's */
    assert(ask(PW_UNIMEM_ALLOC, 0, 0, 0) == refused(PW_UNIMEM_BAD_ARGUMENT));
    assert(ask(PW_UNIMEM_ALLOC, 0, 65536, 0) == refused(PW_UNIMEM_BAD_ARGUMENT));
    assert(ask(PW_UNIMEM_ALLOC, 0, 1, 16) == refused(PW_UNIMEM_BAD_ARGUMENT));
    assert(ask(PW_UNIMEM_ALLOC, 0, 3, 0) == refused(PW_UNIMEM_NO_MEMORY));
    assert(ask(PW_UNIMEM_FREE, page + 4096, 0, 0) == refused(PW_UNIMEM_BAD_ARGUMENT));
    assert(ask(PW_UNIMEM_FORK, 0, page, 0) == refused(PW_UNIMEM_NO_FORK));
    end();
}

static void freed_pages_are_gone_and_their_memory_cleared(void)
{
    begin(4);
    uint64_t page = ask(PW_UNIMEM_ALLOC, 0, 4, 0);
    ask(PW_UNIMEM_WRITE64, page, 1234, 0);
    assert(ask(PW_UNIMEM_FREE, page, 0, 0) == 0);
    assert(ask(PW_UNIMEM_READ64, page, 0, 0) == refused(PW_UNIMEM_NO_PAGE));
    assert(ask(PW_UNIMEM_FREE, page, 0, 0) == refused(PW_UNIMEM_NO_PAGE));
    assert(ask(PW_UNIMEM_FREE, page, 0, 0) == refused(PW_UNIMEM_NO_PAGE)); /* twice */
    uint64_t other = ask(PW_UNIMEM_ALLOC, 0, 4, 0);
    assert(ask(PW_UNIMEM_FREE, page, 0, 0) == refused(PW_UNIMEM_NO_PAGE));
    assert(other != page && ask(PW_UNIMEM_READ64, other, 0, 0) == 0);
    end();
}

static void rights_are_enforced(void)
{
    static const uint64_t stranger = (1 << 8) | 1;
    begin(64);
    for (uint32_t denied = 0; denied <= PW_DENY_ALL; denied++) {
        uint64_t page = ask(PW_UNIMEM_ALLOC, 0, 1, denied);
        const uint64_t senders[3] = {me, neighbour, stranger};
        for (int i = 0; i < 3; i++) {
            bool reads =
                i == 0 || !(denied & (i == 1 ? UNIMEM_DENY_NODE_READ : UNIMEM_DENY_OTHERS_READ));
            bool writes =
                i == 0 || !(denied & (i == 1 ? UNIMEM_DENY_NODE_WRITE : UNIMEM_DENY_OTHERS_WRITE));
            uint64_t no = refused(PW_UNIMEM_DENIED), wrote = (uint64_t)i + 1;
            assert(ask_as(senders[i], PW_UNIMEM_READ4K, page, 0, 0, 0) == (reads ? 4096 : no));
            assert(ask_as(senders[i], PW_UNIMEM_WRITE64, page, wrote, 0, 0) == (writes ? 0 : no));
            assert((ask(PW_UNIMEM_READ64, page, 0, 0) == wrote) == writes);
            for (uint8_t opcode = PW_UNIMEM_WRITE8; !writes && opcode < PW_UNIMEM_OPCODES; opcode++)
                assert(ask_as(senders[i], opcode, page, 0, 0, 0) == no);
            if (!writes) assert(ask_as(senders[i], PW_UNIMEM_FREE, page, 0, 0, 0) == no);
        }
    }
    end();
}

static void time_is_the_sum_of_its_parts(void)
{
    begin(8);
    const pw_time lookup_ns = 100, access_ns = 50;
    uint64_t page = ask_as(me, PW_UNIMEM_ALLOC, 0, 2, 0, 0);
    assert(said.at_ns == BASE_NS + 6000 + 2 * 3000);
    ask_as(me, PW_UNIMEM_READ64, page, 0, 0, 100000);
    assert(said.at_ns == 100000 + BASE_NS + lookup_ns + access_ns);
    /* One request after the other ... */
    ask_as(me, PW_UNIMEM_READ64, page, 0, 0, 100000);
    assert(said.at_ns == 100000 + 2 * (BASE_NS + lookup_ns + access_ns));
    /* ... one that becomes known late takes a gap of the core, but not before what was done to its
     * page. */
    ask_as(me, PW_UNIMEM_WRITE64, page + 4096, 1, 0, 50000);
    assert(said.at_ns == 50000 + BASE_NS + lookup_ns + access_ns);
    ask_as(me, PW_UNIMEM_WRITE64, page, 1, 0, 60000);
    assert(said.at_ns == 100000 + 3 * (BASE_NS + lookup_ns + access_ns));
    ask_as(me, 99, 0, 0, 0, 200000);
    assert(said.at_ns == 200000 + BASE_NS);
    end();
}

static pw_time reads_ns(pw_time arrival_ns)
{
    return pw_atomic_service_reads_ns(&service, arrival_ns);
}

static void it_sleeps_when_idle_and_a_request_wakes_it(void)
{
    const pw_time poll_ns = 7000, wakeup_ns = 9000, read_ns = BASE_NS + 100 + 50;
    pw_costs costs = platform_costs;
    costs.atomic_poll_ns = poll_ns;
    costs.atomic_wakeup_ns = wakeup_ns;
    begin(8);
    service.costs = &costs;
    uint64_t page = ask_as(me, PW_UNIMEM_ALLOC, 0, 1, 0, reads_ns(0));
    pw_time asleep_ns = said.at_ns + poll_ns; /* from here on */
    assert(reads_ns(asleep_ns) == asleep_ns);
    assert(reads_ns(asleep_ns + 1) == asleep_ns + 1 + wakeup_ns);
    assert(service.num_wakeups == 0);
    ask_as(me, PW_UNIMEM_READ64, page, 0, 0, reads_ns(asleep_ns + 1));
    assert(said.at_ns == asleep_ns + 1 + wakeup_ns + read_ns && service.num_wakeups == 1);
    /* What comes meanwhile waits for the one that woke it; what comes soon finds it awake. */
    assert(reads_ns(asleep_ns + 2) == said.at_ns);
    assert(reads_ns(said.at_ns + poll_ns) == said.at_ns + poll_ns);
    ask_as(me, PW_UNIMEM_READ64, page, 0, 0, reads_ns(asleep_ns + 2));
    assert(said.at_ns == asleep_ns + 1 + wakeup_ns + 2 * read_ns && service.num_wakeups == 1);
    end();
}

static uint64_t spawn(void *context, const unimem_fork_request *wanted)
{
    assert(strcmp(wanted->name, context) == 0 && wanted->argument == 77 && wanted->parent == me);
    return wanted->time_ns > 300000 ? 0x201 : 0;
}

static void fork_reads_its_description_in_the_page(void)
{
    begin(2);
    uint64_t page = ask(PW_UNIMEM_ALLOC, 0, 1, 0);
    service.spawn = spawn;
    service.context = "program";
    ask(PW_UNIMEM_WRITE64, page, 77, 0);
    uint64_t text = 0;
    memcpy(&text, "program", 8);
    ask(PW_UNIMEM_WRITE64, page + PW_FORK_NAME_OFFSET, text, 0);
    assert(ask(PW_UNIMEM_FORK, 0, page + 5, 0) == 0x201);
    assert(ask(PW_UNIMEM_FORK, 0, page + 4096, 0) == refused(PW_UNIMEM_NO_PAGE));
    pw_shared_page *shared = pw_software_mmu_find(&service.mmu, page >> 12 & 0xfffffffff);
    memset(shared->memory, 'x', PW_PAGE_BYTES);
    assert(ask(PW_UNIMEM_FORK, 0, page, 0) == refused(PW_UNIMEM_BAD_ARGUMENT));
    end();
}

int main(void)
{
    low_address_bits_are_lost();
    words_of_128_bits_may_cross_a_boundary();
    invalid_requests_get_errors();
    freed_pages_are_gone_and_their_memory_cleared();
    rights_are_enforced();
    time_is_the_sum_of_its_parts();
    it_sleeps_when_idle_and_a_request_wakes_it();
    fork_reads_its_description_in_the_page();
    return 0;
}
