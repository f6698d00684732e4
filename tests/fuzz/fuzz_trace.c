/* Recorded programs: records of two ranks, what their receives took, times, regions and turns.
 * Whatever stands in a trace, a replay of it ends: well, or with a sentence and nothing left
 * behind. */
#include "replay/many.h"
#include "tests/c/platform.h"
#include "tests/fuzz/input.h"

#define RANKS 2
#define KINDS (PW_PWT_ROOMS + 1)
#define STEPS_MAX 1000000

typedef struct {
    const uint8_t *bytes;
    uint32_t num_bytes;
    uint32_t at;
} stream;

static const char *const strategies[] = {"part",     "pretouch", "pin",     "pin-cache",
                                         "firehose", "odp",      "np-rdma", "ideal"};
static stream streams[RANKS][KINDS];

/* Chunks of up to 100 bytes, whatever they cut. */
static int next_chunk(void *context, uint32_t rank, uint32_t kind, const uint8_t **bytes,
                      uint32_t *num_bytes)
{
    (void)context;
    stream *from = &streams[rank][kind];
    if (from->at == from->num_bytes) return 0;
    *bytes = from->bytes + from->at;
    *num_bytes = from->num_bytes - from->at;
    if (kind != PW_PWT_OPS && *num_bytes > 100) *num_bytes = 100;
    from->at += *num_bytes;
    return 1;
}

/* In a block of its own, so that a sanitizer sees a look behind its end. */
static stream take_stream(input *in, size_t num_bytes)
{
    const size_t left = is_over(in) ? 0 : (size_t)(in->end - in->at);
    if (num_bytes > left) num_bytes = left;
    uint8_t *bytes = malloc(num_bytes ? num_bytes : 1);
    MUST(bytes);
    if (num_bytes) memcpy(bytes, in->at, num_bytes);
    in->at += num_bytes;
    return (stream){bytes, (uint32_t)num_bytes, 0};
}

static void must_be_a_sentence(const char *text)
{
    MUST(strlen(text) > 10);
    for (; *text; text++) MUST((unsigned char)*text >= ' ' || *text == '\t');
}

static bool open_all(pw_many *many, const pw_node_config *config, uint32_t flags)
{
    const pw_node_opening opening = {.pdid = 1, .has_no_bytes = 1};
    const pw_chunk_source source = {.next = next_chunk};
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        pw_sentence reason = {0};
        if (pw_many_open(many, rank, config, &opening, &source, flags, &reason) == PW_OK) continue;
        must_be_a_sentence(reason.text);
        return false;
    }
    return true;
}

static void replay(const pw_node_config *config, uint32_t flags)
{
    pw_program_unmatched unmatched[4];
    pw_program_place place;
    pw_many *many;
    MUST(pw_many_create(RANKS, &many) == PW_OK);
    if (open_all(many, config, flags)) {
        const int code = pw_many_run(many, STEPS_MAX);
        MUST(code <= 0);
        if (code < 0 && code != PW_ERR_UNRECOVERABLE) must_be_a_sentence(pw_many_reason(many));
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            pw_many_place(many, rank, &place);
            (void)pw_many_unmatched(many, rank, unmatched, 4);
        }
    }
    pw_many_destroy(many);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t num_bytes)
{
    input in = {data, data + num_bytes};
    pw_node_config config;
    pw_node_config_default(&config);
    config.costs = platform_costs;
    config.run.compute = PW_COMPUTE_MODEL;
    for (int i = 0; i < PW_COST_TABLES; i++)
        config.tables.table[i] = (pw_cost_table){.num_points = 1}; /* 0 ns */
    const uint8_t how = take_byte(&in);
    snprintf(config.run.memory, sizeof config.run.memory, "%s", strategies[how % 8]);
    config.settings.eager_limit_bytes = how & 64 ? 0 : 64;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t kind = PW_PWT_OPS; kind < KINDS; kind++)
            streams[rank][kind] =
                take_stream(&in, kind == PW_PWT_OPS ? take(&in, 2) % 2000 : take(&in, 1));
    replay(&config, (how & 8 ? PW_REPLAY_FREELY : 0) | (how & 16 ? PW_REPLAY_VERIFIES : 0));
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t kind = PW_PWT_OPS; kind < KINDS; kind++)
            free((void *)(uintptr_t)streams[rank][kind].bytes);
    return 0;
}
