/* Frames that a stranger on node 2's wire sends to node 0: what he has heard, altered in any field
 * and sealed again, and what never was a frame; one by one, in bursts, between transfers of the
 * three nodes. The wire itself loses nothing: a block that is physically never answered would stop
 * its source's virtual time. Node 0 and node 1 must not notice: their transfers end with the right
 * bytes, and every other one ends as well. Nothing is written but what the PDID opens, nothing read
 * but what has a key. */
#include "native/crc32c.h"
#include "ni/ni.h"
#include "tests/fuzz/engines.h"

#define OPERATIONS_MAX 160
#define HEARD_MAX 24
#define TURNS_MAX 200000 /* the most that honest inputs took was below 3000 */
/* Where blocks sent again starve the library thread, each has 4096 attempts before an input ends:
 * such a one is left after this many turns. */
#define STARVED_TURNS_MAX 8000

typedef struct {
    uint32_t num_bytes;
    _Alignas(64) uint8_t data[PW_BLOCK_FRAME_MAX];
} heard_frame;

static engines all;
static heard_frame heard[HEARD_MAX]; /* a ring of what the stranger may repeat */
static uint64_t num_heard;
static _Alignas(64) uint8_t burst[PW_BURST_BYTES];
static uint32_t burst_bytes;
static size_t next_private[NODES]; /* where honest transfers land */
static bool is_impaired, cancels_timers;

/* ---- what is heard */

static void must_hold_no_secret(const uint8_t *data, uint32_t num_bytes)
{
    const uint64_t secret = SECRET;
    MUST(!memmem(data, num_bytes, &secret, sizeof secret));
}

static void hear(uint32_t from, uint32_t to, const uint8_t *data, uint32_t num_bytes)
{
    if (from == 0 && to == 2) must_hold_no_secret(data, num_bytes);
    while (num_bytes >= sizeof(pw_frame_header)) {
        const pw_frame_header *header = (const void *)data;
        MUST(header->frame_bytes <= num_bytes && header->frame_bytes >= sizeof *header);
        heard_frame *kept = &heard[num_heard % HEARD_MAX];
        /* Of node 1's he knows what a node in between could. */
        if (header->frame_bytes <= sizeof kept->data && from != to) {
            num_heard++;
            kept->num_bytes = header->frame_bytes;
            memcpy(kept->data, data, header->frame_bytes);
        }
        data += header->frame_bytes;
        num_bytes -= header->frame_bytes;
    }
}

/* ---- what is said */

static uint64_t take_address(input *in)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   4095,
                                   (UINT64_C(1) << 47) - 4096,
                                   UINT64_C(1) << 47,
                                   UINT64_C(0xffff800000000000),
                                   UINT64_C(0xffffffff80000000),
                                   0 - UINT64_C(16384),
                                   0 - UINT64_C(4096),
                                   UINT64_MAX};
    const uint8_t where = take_byte(in) % 8;
    const uint64_t offset = take(in, 3);
    const uint64_t start = (uintptr_t)open_memory;
    switch (where) {
    case 0: return start + offset % OPEN_BYTES;
    case 1: return start + OPEN_BYTES - offset % PW_BLOCK_BYTES;
    case 2: return start + OPEN_BYTES + offset % FIXED_BYTES;
    case 3: return start + OPEN_BYTES + FIXED_BYTES + offset;
    case 4: return (uintptr_t)all.private[0] + offset % (2 * PRIVATE_BYTES);
    case 5: return (uintptr_t)all.private[2] + offset % (2 * PRIVATE_BYTES);
    case 6: return odd[offset % (sizeof odd / sizeof *odd)];
    default: return start + offset % 64 * PW_BLOCK_BYTES;
    }
}

/* May whoever has the PDID write there, as on the machine? Elsewhere a process has its own memory,
 * which the stranger may well hit, but this process has the harness there. */
static bool is_open(uint64_t address, uint64_t num_bytes)
{
    const uint64_t start = (uintptr_t)open_memory;
    if (address >= start)
        return num_bytes <= SPACE_BYTES && address - start <= SPACE_BYTES - num_bytes;
    return address < PW_PAGE_BYTES && num_bytes <= PW_PAGE_BYTES - address;
}
static bool is_high(uint64_t address) { return address >> 47 != 0; }

static void keep_off_the_harness(pw_block_frame *block)
{
    const uint64_t from = block->destination_address, size = block->block_bytes;
    const bool is_harmless = (is_open(from, size) || is_high(from)) &&
                             (is_open(block->notification.address, PW_NOTIFICATION_BYTES) ||
                              is_high(block->notification.address));
    if (!is_harmless && block->header.pdid == PDID) block->header.pdid = PDID + 1;
}

static uint32_t fixed_bytes_of(uint8_t kind)
{
    switch (kind) {
    case PW_FRAME_BLOCK: return sizeof(pw_block_frame);
    case PW_FRAME_READ_REQUEST: return sizeof(pw_read_request_frame);
    case PW_FRAME_GRANT: return sizeof(pw_grant_frame);
    default: return sizeof(pw_control_frame);
    }
}

/* The checksums become right again: of the header, and of the packets if asked. */
static void seal(uint8_t *data, uint32_t num_bytes, bool with_packets)
{
    pw_block_frame *block = (void *)data;
    uint32_t covered_bytes = fixed_bytes_of(block->header.kind);
    if (covered_bytes > num_bytes) return;
    if (block->header.kind == PW_FRAME_BLOCK) {
        const uint32_t num_packets = block->num_packets & 127;
        const uint32_t payload_at = covered_bytes + ((num_packets * 4 + 7) & ~7u);
        keep_off_the_harness(block);
        if (payload_at > num_bytes) return;
        if (with_packets && num_packets <= PW_BLOCK_PACKETS &&
            block->block_bytes <= num_bytes - payload_at &&
            block->block_bytes <= num_packets * PW_PACKET_BYTES)
            pw_crc32c_packets(NULL, data + payload_at, block->block_bytes,
                              (uint32_t *)(void *)(data + covered_bytes));
        covered_bytes = payload_at;
    }
    pw_frame_seal(&block->header, covered_bytes);
}

static void alter(input *in, uint8_t *data, uint32_t num_bytes)
{
    static const uint16_t addresses[] = {offsetof(pw_block_frame, destination_address),
                                         offsetof(pw_block_frame, transfer_address),
                                         offsetof(pw_block_frame, notification),
                                         offsetof(pw_read_request_frame, source_address),
                                         offsetof(pw_read_request_frame, destination_address),
                                         offsetof(pw_read_request_frame, notification)};
    const uint8_t how = take_byte(in);
    uint32_t at = take_byte(in), width = 1u << (how >> 4 & 3);
    uint64_t value = 0;
    if ((how & 15) == 0) {
        at = addresses[at % (sizeof addresses / sizeof *addresses)], width = 8;
        value = take_address(in);
    } else {
        at = at / width * width;
        if (at + width > num_bytes) return;
        memcpy(&value, data + at, width);
        if ((how & 15) < 8) value = take_number(in);
        else if ((how & 15) < 12) value += take_number(in);
        else value ^= UINT64_C(1) << take_below(in, 8 * width);
    }
    if (at + width <= num_bytes) memcpy(data + at, &value, width);
}

/* A frame for the burst: one that was heard, or an empty one of a kind. */
static void say(input *in)
{
    const uint8_t how = take_byte(in), which = take_byte(in), num_changes = take_byte(in) % 8;
    heard_frame *made = calloc(1, sizeof *made);
    MUST(made);
    if (how & 1 && num_heard) {
        const uint64_t back = which % (num_heard < HEARD_MAX ? num_heard : HEARD_MAX) + 1u;
        *made = heard[(num_heard - back) % HEARD_MAX];
    } else {
        pw_frame_header *header = (void *)made->data;
        const uint8_t kind = which % PW_FRAME_KINDS;
        made->num_bytes = fixed_bytes_of(kind);
        *header = (pw_frame_header){.magic = PW_FRAME_MAGIC,
                                    .kind = kind,
                                    .frame_bytes = made->num_bytes,
                                    .pdid = PDID,
                                    .stream = take_byte(in)};
        if (how & 32) header->stream |= PW_STREAM_READ;
    }
    ((pw_frame_header *)(void *)made->data)->source_node = 2;
    for (uint8_t i = 0; i < num_changes; i++) alter(in, made->data, made->num_bytes);
    if (how & 2 && made->num_bytes > 8) made->num_bytes -= take_below(in, made->num_bytes);
    /* Unsealed ones stop at the first check: only some. */
    if ((how & 28) != 4 && made->num_bytes >= sizeof(pw_control_frame))
        seal(made->data, made->num_bytes, how & 64);
    if (burst_bytes + made->num_bytes <= sizeof burst) {
        memcpy(burst + burst_bytes, made->data, made->num_bytes);
        burst_bytes += made->num_bytes;
    }
    free(made);
}

static void send_burst(uint32_t num_bytes)
{
    if (num_bytes) engines_carry(&all, 2, 0, burst, num_bytes);
    burst_bytes = 0;
}

/* ---- honest transfers */

static void start_honest(input *in, bool is_read)
{
    const uint32_t node = take_byte(in) & 1, to = is_read ? node : 1 - node;
    const uint64_t num_bytes = 1 + take(in, 2) % 40000;
    const uint64_t offset = take(in, 2) % (PRIVATE_BYTES - num_bytes);
    uint64_t at = next_private[to] + take_byte(in);
    if (at + num_bytes > 2 * PRIVATE_BYTES) return;
    next_private[to] = at + num_bytes;
    engines_start(&all, node, 1 - node, (uintptr_t)all.private[is_read ? 1 - node : node] + offset,
                  (uintptr_t)all.private[to] + at, num_bytes, is_read, take_byte(in) * 1000u);
}

/* Of node 2, which means no harm: what the stranger interferes with. */
static void start_watched(input *in, bool is_read)
{
    const uint32_t node = take_byte(in) & 2;
    const uint64_t num_bytes = 1 + take(in, 2) % 40000;
    const uint64_t here = (uintptr_t)open_memory + take(in, 2) % (OPEN_BYTES - num_bytes);
    const uint64_t there =
        (uintptr_t)all.private[2] + PRIVATE_BYTES + take(in, 2) % (PRIVATE_BYTES - num_bytes);
    const bool is_to_0 = is_read ? node == 0 : node == 2;
    engines_start(&all, node, 2 - node, is_to_0 ? there : here, is_to_0 ? here : there, num_bytes,
                  is_read, take_byte(in) * 1000u);
}

/* Node 2 reads what is registered. */
static void start_shown(input *in)
{
    const uint64_t num_bytes = 1 + take(in, 2) % 40000;
    pw_descriptor descriptor = {.source_address = (uintptr_t)open_memory + take(in, 2),
                                .destination_address = (uintptr_t)all.private[2] + PRIVATE_BYTES,
                                .transfer_bytes = (uint32_t)num_bytes};
    transfer made = {.node = 2, .peer = 0};
    if (all.num_transfers == TRANSFERS_MAX) return;
    if (pw_ni_read(all.ni[2], PDID, 0, &descriptor, all.shown_key, 0, &made.id) >= 0)
        all.transfers[all.num_transfers++] = made;
}

/* ---- the run */

static void choose_settings(input *in, pw_settings *out)
{
    /* With shorter ones the blocks sent again starve the library thread on the tasklet's core,
     * until each has had its 4096 attempts: right in the end, but after minutes. */
    static const int64_t timeouts_ns[] = {1000000, 500000, INT64_C(1000000000), 1000000};
    static const int64_t windows[] = {2, 1, 8, PW_WINDOW_MAX};
    const uint64_t bits = take(in, 4);
    *out = platform_settings;
    out->policy = bits & 3;
    out->page_in = bits >> 2 & 1;
    out->stall = (bits >> 3 & 3) == 3;
    out->driver_variant = bits >> 5 & 1;
    out->library_core = bits >> 6 & 1;
    out->interleave = bits >> 7 & 1;
    out->timeout_ns = timeouts_ns[bits >> 8 & 3];
    out->window_blocks = windows[bits >> 10 & 3];
    out->nack_cancels_timer = bits >> 12 & 1;
    out->hupcf = !(bits >> 13 & 1);
    out->receive_buffer_blocks = (bits >> 14 & 3) == 3 ? 2 : 0;
    out->memory_backend = bits >> 16 & 1 ? PW_MEMORY_HOST : PW_MEMORY_MODEL;
    out->model_fault_millionths = (bits >> 17 & 3) * 300000;
    out->model_huge_pages = bits >> 19 & 1;
    out->model_collapse_millionths = (bits >> 20 & 1) * 200000;
    out->walk_cache_entries = (bits >> 21 & 1) * 8;
    out->prefetch_entries = (bits >> 22 & 1) * 8;
    out->strict_priority = bits >> 23 & 1;
    out->requeue_dynamic = bits >> 24 & 1;
    out->timeout_implementation = (bits >> 25 & 3) % 3;
    out->parallel_walks = bits >> 27 & 1 ? 1 : 16;
    out->outstanding_accesses = bits >> 28 & 1 ? 1 : 256;
    out->l2_sets = 16;
    out->mailbox_entries = 64;
    out->ni_fifo_depth = 64;
    out->ni_fifo_remembers = 1;
    out->model_seed = (int64_t)(bits >> 29);
    out->err_by = out->page_in ? 0 : out->model_seed % 3; /* the seed's low bits choose here, too */
    out->err_after = out->page_in ? 0 : out->model_seed / 3 % 3;
    if (pw_ni_refused(&platform_costs, out)) {
        out->stall = 0;
        out->interleave = 0;
    }
    MUST(!pw_ni_refused(&platform_costs, out));
}

static bool choose_impairment(input *in, uint32_t *site, pw_impairment_site *out)
{
    const uint8_t which = take_byte(in);
    if (which < 0xa0) return false;
    *site = which % PW_IMPAIRMENT_SITES;
    *out = (pw_impairment_site){
        .num = 1, .denom = 2 + which % 3u, .seed = which, .limit = 40, .amount_ns = which * 500};
    return true;
}

static void operate(input *in)
{
    switch (take_byte(in) % 16) {
    case 0: start_honest(in, false); break;
    case 1: start_honest(in, true); break;
    case 2: start_watched(in, false); break;
    case 3: start_watched(in, true); break;
    case 4: start_shown(in); break;
    case 5:
        for (uint8_t turns = take_byte(in) % 16 + 1u; turns; turns--) engines_turn(&all);
        break;
    case 6: /* bytes that are no frame */
        burst_bytes = take_byte(in);
        for (uint32_t i = 0; i < burst_bytes; i++) burst[i] = take_byte(in);
        send_burst(burst_bytes);
        break;
    case 7: send_burst(take_byte(in) < 240 ? burst_bytes : take_below(in, burst_bytes + 1)); break;
    case 9: {
        const uint64_t first = take(in, 2) % (OPEN_BYTES / PW_PAGE_BYTES);
        const uint64_t page = pw_page_of((uintptr_t)open_memory) + first;
        if (pw_memory_is_pinned(all.memory[0], page, 1) == 0 &&
            pw_memory_set(all.memory[0], page, 1, PW_PAGE_ABSENT) < 0) /* the host's own */
            madvise(open_memory + first * PW_PAGE_BYTES, PW_PAGE_BYTES, MADV_DONTNEED);
        pw_ni_invalidate(all.ni[0], PDID, page, 1);
        break;
    }
    case 10: pw_ni_enter(all.ni[0]); break;
    default: say(in); break;
    }
}

static bool is_honest(const transfer *it) { return it->node != 2 && it->peer != 2; }

static bool are_over(void)
{
    for (uint32_t i = 0; i < all.num_transfers; i++)
        if (is_honest(&all.transfers[i]) && !all.transfers[i].done) return false;
    return true;
}

/* A NACK that stops the timer leaves a block to its ERR, which a full FIFO takes away. */
static bool may_lose_blocks(void)
{
    uint64_t num_lost = 0;
    for (uint32_t node = 0; node < NODES; node++) {
        pw_counters counters;
        pw_ni_read_counters(all.ni[node], &counters);
        num_lost += counters.fifo_lost;
    }
    return cancels_timers && num_lost;
}

static void check(const transfer *it)
{
    if (!is_honest(it)) return;
    MUST(it->done);
    if (!is_impaired && it->error != PW_OK)
        MUST(it->error == PW_ERR_UNRECOVERABLE && may_lose_blocks());
    if (it->error == PW_OK)
        MUST(!memcmp((const void *)(uintptr_t)it->source, (const void *)(uintptr_t)it->destination,
                     it->num_bytes));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    engines_map(&all);
    engines_watch = hear;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t num_bytes)
{
    input in = {data, data + num_bytes};
    pw_settings settings;
    pw_impairment_site plan;
    uint32_t site = 0;
    choose_settings(&in, &settings);
    cancels_timers = settings.nack_cancels_timer;
    const bool may_starve = settings.library_core == PW_LIBRARY_CORE_SAME &&
                            settings.page_in == PW_PAGE_IN_TOUCH_A_PAGE;
    is_impaired = choose_impairment(&in, &site, &plan);
    num_heard = burst_bytes = 0;
    for (uint32_t node = 0; node < NODES; node++) next_private[node] = PRIVATE_BYTES;
    engines_begin(&all, &settings, is_impaired ? &plan : NULL, site);
    for (int i = 0; i < OPERATIONS_MAX && !is_over(&in); i++) operate(&in);
    send_burst(burst_bytes);
    uint32_t turns = 0;
    while (engines_turn(&all)) {
        MUST(++turns < TURNS_MAX);
        if (!may_starve || turns < STARVED_TURNS_MAX) continue;
        all.is_stuck = true;
        break;
    }
    if (!all.is_stuck) {
        MUST(are_over());
        for (uint32_t i = 0; i < all.num_transfers; i++) check(&all.transfers[i]);
    }
    engines_end(&all);
    return 0;
}
