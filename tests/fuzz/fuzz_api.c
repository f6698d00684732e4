/* Sequences of calls of include/pagewire.h with arguments of all kinds, good and bad, on two nodes
 * that are joined in this process, or on one whose wire, the program's own, brings anything. No
 * call may do more than refuse; every operation between joined nodes ends; what ends well has the
 * right bytes; nothing is written but where a transfer goes to. */
#include <sys/mman.h>

#include "include/pagewire.h"
#include "tests/fuzz/input.h"
#include "node/settings/setting_rows.h"

#define OPERATIONS_MAX 120
#define UNDER_WAY_MAX 40
#define SETTINGS_MAX 6
#define BASE_SETTINGS 3
#define KEYS_MAX 16
#define AREA_BYTES ((size_t)128 << 10)
#define SPACE_BYTES ((size_t)5 << 30) /* behind the areas: a transfer has less than 4 GiB */
#define TURNS_MAX 200000
#define QUIET_TURNS 8 /* one may only have sent */
#define CANARY 0xc5
/* Bytes behind the areas: mapped, and no transfer's business. */
#define GUARD_BYTES ((size_t)4096)

typedef struct {
    pagewire_operation *operation;
    uint32_t node;
} under_way;

static uint8_t
    *area[2]; /* of each node; what is behind the second can be read only, then nothing */
static pagewire_network *network;
static pagewire_node *nodes[2];
static under_way waiting[UNDER_WAY_MAX];
static uint32_t num_waiting;
static uint64_t keys[KEYS_MAX];
static uint32_t num_keys;
static const uint8_t *stream, *stream_end; /* what the strange wire brings */
static uint8_t *brought;

/* ---- arguments */

static uint64_t take_address(input *in)
{
    const uint8_t where = take_byte(in) % 8;
    const uint64_t offset = take(in, 3);
    switch (where) {
    case 0:
    case 1:
    case 2: return (uintptr_t)area[offset & 1] + offset / 2 % AREA_BYTES;
    case 3: return (uintptr_t)area[offset & 1] + AREA_BYTES - offset / 2 % 20000;
    case 4: return (uintptr_t)area[1] + AREA_BYTES + offset % (2 * GUARD_BYTES);
    case 5: return UINT64_C(0xffffffff80000000) + offset;
    case 6: return 0 - offset;
    default: return offset % 4096;
    }
}

static uint64_t take_size(input *in)
{
    return take_byte(in) < 200 ? take(in, 2) % 50000 : take_number(in);
}

/* A write may go there without hitting the harness: the node cannot know what is its program's. */
static bool is_harmless(uint64_t address, uint64_t num_bytes)
{
    for (int i = 0; i < 2; i++) {
        const uint64_t start = (uintptr_t)area[i];
        if (address >= start && address - start <= AREA_BYTES &&
            num_bytes <= AREA_BYTES - (address - start))
            return true;
    }
    const uint64_t behind = (uintptr_t)area[1] + AREA_BYTES + GUARD_BYTES;
    return address >> 47 ||
           (address >= behind && num_bytes <= UINT32_MAX &&
            address - behind < SPACE_BYTES - UINT32_MAX) ||
           (address < 65536 && num_bytes <= 65536);
}

static char *take_text(input *in, char *text, size_t room)
{
    const pw_setting_row *row;
    uint32_t num_rows = 0;
    uint64_t num_choices = 0;
    while (pw_setting_row_at(num_rows)) num_rows++;
    const uint8_t how = take_byte(in);
    row = pw_setting_row_at(take_below(in, num_rows));
    const uint64_t number = take_number(in);
    while (row->choices && row->choices[num_choices].text) num_choices++;
    const char *unit =
        row->kind == PW_KIND_DURATION ? (const char *[]){"us", "ms", "s", "ns"}[how & 3] : "";
    if (how >= 250) {
        size_t length = take_byte(in) % (room - 1);
        for (size_t i = 0; i < length; i++) text[i] = (char)take_byte(in);
        text[length] = 0;
    } else if (num_choices && how < 200) {
        snprintf(text, room, "%s=%s", row->name, row->choices[number % num_choices].text);
    } else if (how < 20) {
        snprintf(text, room, "%s=%lld%s", row->name, (long long)(how & 1 ? row->min : row->max),
                 row->kind == PW_KIND_DURATION ? "ns" : "");
    } else if (how < 30 && row->takes_none) {
        snprintf(text, room, "%s=none", row->name);
    } else if (row->kind == PW_KIND_BOOL) {
        snprintf(text, room, "%s=%s", row->name, number & 1 ? "true" : "false");
    } else if (row->kind == PW_KIND_SITE) {
        snprintf(text, room, "%s=1:%llu:%u:%u", row->name, (unsigned long long)number % 20 + 2, how,
                 how & 31);
    } else {
        snprintf(text, room, "%s=%llu%s", row->name, (unsigned long long)number, unit);
    }
    return text;
}

/* What is allowed, and takes a fuzzer nowhere: seconds for each input. */
static bool is_slow(const char *text)
{
    static const char *const words[] = {
        "sets=",  "ways=",   "line_pages=", "line=", "timeout=", "frame_limit_pages=",
        "banks=", "entries="};
    char *end;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = strstr(text, words[i]);
        if (!found) continue;
        const uint64_t value = strtoull(strchr(found, '=') + 1, &end, 10);
        if (words[i][0] == 't') return strcmp(end, "ms") != 0 || value < 1;
        if (words[i][0] == 'f') return value && value < 64;
        if (value > 4096) return true;
    }
    return false;
}

/* ---- a wire that brings anything */

static int strange_send(void *context, uint32_t peer, const void *data, uint32_t num_bytes)
{
    (void)context;
    MUST(peer < 2 && num_bytes && num_bytes <= PAGEWIRE_BURST_MAX_BYTES);
    MUST(((const uint8_t *)data)[num_bytes - 1] <= UINT8_MAX); /* it can be read */
    return 0;
}

static int strange_poll(void *context, uint32_t *peer, const void **data, uint32_t *num_bytes)
{
    (void)context;
    free(brought);
    brought = NULL;
    if (stream >= stream_end) return 0;
    size_t length = *stream++;
    if (length > (size_t)(stream_end - stream)) length = (size_t)(stream_end - stream);
    brought = malloc(length ? length : 1);
    MUST(brought);
    memcpy(brought, stream, length);
    stream += length;
    *peer = length & 1;
    *data = brought;
    *num_bytes = (uint32_t)length;
    return 1;
}

/* ---- calls */

static void remember(uint32_t node, pagewire_operation *operation)
{
    if (num_waiting < UNDER_WAY_MAX) waiting[num_waiting++] = (under_way){operation, node};
    else pagewire_forget(nodes[node], &operation);
}

static void forget_at(uint32_t idx) { waiting[idx] = waiting[--num_waiting]; }

static const pagewire_transfer_options *take_options(input *in, pagewire_transfer_options *room)
{
    const uint8_t how = take_byte(in);
    if (how < 128) return NULL;
    *room = (pagewire_transfer_options){
        .struct_size = how < 250 ? sizeof *room : take(in, 2) % (sizeof *room + 1),
        .hint = take_byte(in) % 5u,
        .window_blocks = take_byte(in) % 80u,
        .notification_address = how & 1 ? take_address(in) & ~UINT64_C(15) : how & 2,
        .notification_data = {how, 7}};
    if (!is_harmless(room->notification_address, 16)) room->notification_address = 0;
    return room;
}

static void start(input *in, uint32_t node, bool is_read)
{
    pagewire_transfer_options room;
    pagewire_operation *operation = (void *)&room; /* untouched unless it succeeds */
    const uint64_t here = take_address(in), num_bytes = take_size(in);
    uint64_t there = take_address(in);
    const uint64_t key =
        num_keys ? keys[take_byte(in) % num_keys] + (take_byte(in) == 0) : take(in, 8);
    const uint32_t peer = take_byte(in) % 16 ? 1 - node : take_byte(in);
    const pagewire_transfer_options *options = take_options(in, &room);
    const uint64_t written = is_read ? here : there;
    if (!is_harmless(written, num_bytes)) return;
    int code;
    if (is_read)
        code = pagewire_read(nodes[node], peer, there, key, (void *)(uintptr_t)here, num_bytes,
                             options, &operation);
    else
        code = pagewire_write(nodes[node], peer, (const void *)(uintptr_t)here, there, num_bytes,
                              options, &operation);
    MUST(code <= 0 && (code == 0) == (operation != (void *)&room));
    if (code) MUST(*pagewire_reason(nodes[node]) && *pagewire_error_text(code));
    else remember(node, operation);
}

static void register_some(input *in, uint32_t node)
{
    uint64_t key = 1;
    const uint64_t address = take_address(in), num_bytes = take_size(in);
    const int code = pagewire_register(nodes[node], (void *)(uintptr_t)address, num_bytes, &key);
    MUST(code <= 0);
    if (!code && num_keys < KEYS_MAX) keys[num_keys++] = key;
}

static void look(input *in, bool is_wait)
{
    if (!num_waiting) return;
    const uint32_t idx = take_below(in, num_waiting);
    under_way *it = &waiting[idx];
    pagewire_completion completion = {.error = 1};
    const int code = is_wait ? pagewire_wait(nodes[it->node], &it->operation, &completion, 0)
                             : pagewire_test(nodes[it->node], &it->operation, &completion);
    MUST(code <= 1);
    if (code != 1) return;
    MUST(!it->operation && completion.error <= 0);
    forget_at(idx);
}

static void drop_pages(input *in)
{
    uint8_t *at = area[take_byte(in) & 1] + take_byte(in) % (AREA_BYTES / 4096) * 4096;
    if (madvise(at, 4096, MADV_DONTNEED) < 0) return; /* it is pinned */
    for (int i = 0; i < 2; i++)
        if (nodes[i]) MUST(pagewire_unmapped(nodes[i], at, 4096) <= 0);
}

static void look_at_counters(input *in, uint32_t node)
{
    uint64_t values[4] = {0};
    char name[16] = {0};
    for (int i = 0; i < 8; i++) name[i] = (char)take_byte(in);
    pagewire_read_counters(nodes[node], values, take_byte(in) % 5u);
    (void)pagewire_read_counter(nodes[node], name, values);
    (void)pagewire_counter_name(take(in, 4) & UINT32_MAX);
    (void)pagewire_error_text((int)take(in, 4));
}

static void operate(input *in)
{
    const uint32_t which = take_byte(in), node = which >> 7;
    if (!nodes[node]) return;
    switch (which % 18) {
    case 0:
    case 1:
    case 2: start(in, node, false); break;
    case 3:
    case 4:
    case 5: start(in, node, true); break;
    case 6: register_some(in, node); break;
    case 7: {
        const uint64_t key = num_keys ? keys[take_byte(in) % num_keys] : take(in, 8);
        MUST(pagewire_deregister(nodes[node], key) <= 0);
        break;
    }
    case 8: drop_pages(in); break;
    case 9: look(in, false); break;
    case 10: look(in, true); break;
    case 11:
        if (!num_waiting) return;
        pagewire_forget(nodes[waiting[num_waiting - 1].node], &waiting[num_waiting - 1].operation);
        num_waiting--;
        break;
    case 12: MUST(pagewire_progress(nodes[node], (uint32_t)take(in, 4)) <= 1); break;
    case 13: (void)pagewire_clock_advance(nodes[node], (int64_t)take_number(in)); break;
    case 14: (void)pagewire_clock_sleep(nodes[node], (int64_t)take_number(in)); break;
    case 15: (void)pagewire_clock_observe(nodes[node], (int64_t)take_number(in)); break;
    case 16:
        (void)pagewire_unmapped(nodes[node], (void *)(uintptr_t)take_address(in), take_size(in));
        break;
    default: look_at_counters(in, node); pagewire_forked(nodes[node]);
    }
}

/* ---- the run */

static void create(input *in, bool is_strange)
{
    static char texts[SETTINGS_MAX][160];
    /* A timeout that is longer than any cost: else a block is sent 8192 times in vain. */
    const char *settings[SETTINGS_MAX + BASE_SETTINGS + 1] = {
        "run.compute=none", "run.timeout=3600s", "smmu.l2_sets=16"};
    char reason[256];
    const pagewire_wire wire = {
        .struct_size = sizeof wire, .send = strange_send, .poll = strange_poll};
    pagewire_options options;
    const uint32_t num_settings = take_byte(in) % (SETTINGS_MAX + 1);
    for (uint32_t i = 0, at = BASE_SETTINGS; i < num_settings; i++)
        if (!is_slow(take_text(in, texts[i], sizeof texts[i]))) settings[at++] = texts[i];
    for (uint32_t node = 0; node < (is_strange ? 1u : 2u); node++) {
        pagewire_options_default(&options);
        options.node = node;
        options.settings = settings;
        options.reason = reason;
        options.reason_bytes = sizeof reason;
        options.num_nodes = 2;
        options.network = is_strange ? NULL : network;
        options.wire = is_strange ? &wire : NULL;
        reason[0] = 0;
        const int code = pagewire_node_create(&options, &nodes[node]);
        if (!code) continue;
        MUST(reason[0] && !nodes[node] && settings[BASE_SETTINGS]);
        /* Settings are refused for both nodes alike. */
        settings[BASE_SETTINGS] = NULL;
        node--;
    }
}

static void finish_all(void)
{
    pagewire_completion completion;
    for (uint32_t turns = 0; num_waiting; turns++) {
        MUST(turns < TURNS_MAX);
        for (uint32_t i = num_waiting; i-- > 0;) {
            under_way *it = &waiting[i];
            const int code = pagewire_wait(nodes[it->node], &it->operation, &completion, 1000000);
            if (code < 0) pagewire_forget(nodes[it->node], &it->operation);
            if (code) forget_at(i);
        }
    }
    /* Those that were forgotten go on. */
    for (uint32_t turns = 0, quiet = 0; quiet < QUIET_TURNS; turns++) {
        quiet++;
        for (uint32_t node = 0; node < 2; node++)
            if (pagewire_progress(nodes[node], PAGEWIRE_CPU_WAITS) == 1) quiet = 0;
        MUST(turns < TURNS_MAX);
    }
}

/* Whatever was before, the two can work together now. */
static void check_honest(void)
{
    uint64_t key;
    pagewire_completion completion;
    pagewire_operation *operation;
    if (pagewire_register(nodes[1], area[1], 30000, &key)) return; /* of what `pin` may not */
    for (size_t i = 0; i < 30000; i++) area[0][i] = (uint8_t)(i * 7 % 251);
    if (pagewire_write(nodes[0], 1, area[0], (uintptr_t)area[1], 30000, NULL, &operation)) return;
    if (pagewire_wait(nodes[0], &operation, &completion, -1) != 1 || completion.error) return;
    MUST(!memcmp(area[0], area[1], 30000));
    if (pagewire_read(nodes[0], 1, (uintptr_t)area[1], key, area[0] + 40000, 30000, NULL,
                      &operation))
        return;
    if (pagewire_wait(nodes[0], &operation, &completion, -1) != 1 || completion.error) return;
    MUST(!memcmp(area[0] + 40000, area[1], 30000));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    uint8_t *space =
        mmap(NULL, SPACE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MUST(space != MAP_FAILED);
    for (size_t i = 0; i < 2; i++) {
        area[i] = space + i * (AREA_BYTES + GUARD_BYTES);
        MUST(!mprotect(area[i], AREA_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE));
        memset(area[i] + AREA_BYTES, CANARY, GUARD_BYTES);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t num_bytes)
{
    input in = {data, data + num_bytes};
    const uint8_t how = take_byte(&in);
    const bool is_strange = how >= 224;
    nodes[0] = nodes[1] = NULL;
    num_waiting = num_keys = 0;
    for (int i = 0; i < 2; i++) MUST(!madvise(area[i], AREA_BYTES, MADV_DONTNEED));
    MUST(pagewire_network_create(2, &network) == PAGEWIRE_OK);
    create(&in, is_strange);
    stream = in.at + (in.end - in.at) / 2;
    stream_end = in.end;
    if (is_strange) in.end = stream;
    for (int i = 0; i < OPERATIONS_MAX && !is_over(&in); i++) operate(&in);
    if (!is_strange) {
        finish_all();
        check_honest();
    }
    for (uint32_t node = 0; node < 2; node++) pagewire_node_destroy(nodes[node]);
    pagewire_network_destroy(network);
    free(brought);
    brought = NULL;
    for (int i = 0; i < 2; i++)
        for (size_t at = 0; at < GUARD_BYTES; at++) MUST(area[i][AREA_BYTES + at] == CANARY);
    return 0;
}
