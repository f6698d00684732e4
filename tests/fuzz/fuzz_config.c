/* Files that C reads: the node file of the launcher, and the durations of a replay. What is refused
 * is refused with a sentence and leaves nothing behind; with what is accepted two nodes are made,
 * or refused with a reason, and exchange a message, whatever the costs and settings are. */
#include <sys/mman.h>
#include <unistd.h>

#include "ni/ni.h"
#include "tests/c/node/node_pair.h"
#include "tests/fuzz/input.h"
#include "node/settings/config.h"
#include "node/report/output_file.h"

#define MESSAGE_BYTES 40000
#define TURNS_MAX 100000
#define QUIET_TURNS 8 /* one may only have sent */
#define REPLAY_RANK 7

static int file;
static char path[64], replay[64], reason[PW_CONFIG_REASON_BYTES];
static pw_sentence refusal;
static pw_node_config config;
static uint8_t *source, *destination;

static void must_be_a_sentence(const char *text)
{
    const size_t length = strlen(text);
    MUST(length > 10 && length < PW_CONFIG_REASON_BYTES);
    for (size_t i = 0; i < length; i++) MUST((unsigned char)text[i] >= ' ' && text[i] != 127);
}

/* What is allowed, and takes a fuzzer nowhere: gigabytes of tables, seconds for each input. */
static bool is_slow(const pw_settings *s)
{
    return s->l1_sets * s->l1_ways * s->tlb_line_pages > 65536 ||
           s->l2_sets * s->l2_ways * s->tlb_line_pages > 65536 || s->mailbox_entries > 65536 ||
           (s->timeout_ns >= 0 && s->timeout_ns < 1000000) || s->model_frame_limit_pages ||
           pw_asks_host(s);
}

static int turn(joined *all)
{
    int moved = 0;
    for (uint32_t node = 0; node < 2; node++) {
        const int code = pw_node_turn(all->nodes[node], true);
        if (code < 0) return code;
        moved |= code;
    }
    return moved;
}

/* A message from node 0 to node 1. An error of the engine's own may end it. */
static void exchange(joined *all)
{
    pw_handle *exposed, *fetched;
    pw_lease lease;
    pw_clock_enter(pw_node_clock(all->nodes[0]), true);
    pw_clock_enter(pw_node_clock(all->nodes[1]), true);
    if (pw_node_expose(all->nodes[0], 1, address_of(source), MESSAGE_BYTES, &exposed) < 0) return;
    const pw_span span = {address_of(destination), MESSAGE_BYTES};
    if (pw_node_acquire(all->nodes[1], span, PW_ACCESS_WRITE, &lease) < 0) return;
    if (pw_node_fetch(all->nodes[1], 0, address_of(source), exposed->key, address_of(destination),
                      MESSAGE_BYTES, pw_node_clock(all->nodes[1])->now_ns, &lease, &fetched) < 0)
        return;
    int moved = 0;
    uint32_t turns = 0;
    for (uint32_t quiet = 0; quiet < QUIET_TURNS && moved >= 0; turns++) {
        moved = turn(all);
        quiet = moved ? 0 : quiet + 1;
        MUST(turns < TURNS_MAX);
    }
    if (moved < 0) {
        MUST(*pw_node_reason(all->nodes[0]) || *pw_node_reason(all->nodes[1]));
        return;
    }
    const pw_settings *s = &all->config.settings;
    const bool is_never = !s->err_enabled && s->timeout_ns < 0; /* nothing would send again */
    MUST((exposed->done && fetched->done) || is_never || s->nack_cancels_timer);
    if (fetched->done && fetched->error == PW_OK) MUST(!memcmp(source, destination, MESSAGE_BYTES));
}

static void use(void)
{
    joined all = {.num_nodes = 2, .config = config, .opening = {.pdid = 1}};
    for (uint32_t i = 0; i < PW_IMPAIRMENT_SITES; i++) all.config.impairments[i].num = 0;
    char text[PW_CONFIG_REASON_BYTES];
    if (pw_node_config_check_native(&config, &refusal) < 0) return;
    if (config.run.compute == PW_COMPUTE_REPLAY || is_slow(&config.settings)) return;
    const bool is_refused =
        pw_ni_explain_refusal(&config.costs, &config.settings, text, sizeof text);
    MUST(pw_wire_join(2, all.wires) == PW_OK);
    uint32_t num_made = 0;
    for (; num_made < 2; num_made++) {
        const int code = pw_node_open(&all.config, &all.opening, all.wires[num_made],
                                      &all.nodes[num_made], &refusal);
        if (code == PW_OK) continue;
        MUST(*refusal.text);
        break;
    }
    MUST(!is_refused || !num_made);
    if (num_made == 2) {
        MUST(!madvise(destination, MESSAGE_BYTES, MADV_DONTNEED));
        exchange(&all);
    } else {
        for (uint32_t node = num_made; node < 2; node++)
            all.wires[node]->ops->close(all.wires[node]);
    }
    for (uint32_t node = 0; node < num_made; node++) pw_node_destroy(all.nodes[node]);
}

static void read_durations(void)
{
    int64_t *durations = NULL;
    uint64_t num_durations = 0;
    if (pw_durations_read(replay, REPLAY_RANK, &durations, &num_durations, reason) < 0) {
        must_be_a_sentence(reason);
        MUST(!durations && !num_durations);
        return;
    }
    MUST(num_durations * sizeof *durations == (uint64_t)lseek(file, 0, SEEK_END));
    pw_durations_free(durations);
}

static void remove_link(void)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%d", replay, REPLAY_RANK);
    unlink(name);
    *strrchr(replay, '/') = 0;
    rmdir(replay);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    file = memfd_create("node.conf", 0);
    MUST(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    /* FILE.RANK, which a replay reads, is a link to the same. */
    char folder[] = "/tmp/pagewire-fuzz-XXXXXX", link[64];
    MUST(mkdtemp(folder));
    snprintf(replay, sizeof replay, "%s/replay", folder);
    snprintf(link, sizeof link, "%s.%d", replay, REPLAY_RANK);
    MUST(!symlink(path, link));
    atexit(remove_link);
    source = make_pattern(MESSAGE_BYTES);
    destination = make_buffer(MESSAGE_BYTES);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t num_bytes)
{
    MUST(!ftruncate(file, 0));
    MUST(pwrite(file, data, num_bytes, 0) == (ssize_t)num_bytes);
    for (uint32_t node = 0; node < 2; node++) {
        memset(&config, 0xa5, sizeof config);
        const int code = pw_node_config_read(path, node, &config, &refusal);
        if (code < 0) must_be_a_sentence(refusal.text);
        else if (node == 0) use();
    }
    read_durations();
    return 0;
}
