/* Records of random kinds, out of order: they come in the order of time and none is lost, and a
 * timeline of them can be made whatever they say. */
#include "run/timeline/record_order.h"
#include "run/timeline/timeline.h"
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NUM_RANKS = 3, NUM_RECORDS = 5000, NUM_ROUNDS = 10, PATH_BYTES = 64 };

static uint64_t seed = 1;

static uint64_t draw(uint64_t end)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % end;
}

static char folder[] = "/tmp/test_timeline.XXXXXX";

static const char *path_of(uint32_t rank)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%u", folder, rank);
    return path;
}

static void write_file(uint32_t rank, const pw_trace_record *records, size_t num_records)
{
    FILE *file = fopen(path_of(rank), "w");
    assert(file && fwrite(records, sizeof *records, num_records, file) == num_records);
    fclose(file);
}

static void unlink_all(void)
{
    for (uint32_t rank = 0; rank < NUM_RANKS; rank++) unlink(path_of(rank));
}

/* Walks that are numbered by their page; every tenth one's time is told later. */
static void write_walks(uint32_t rank)
{
    static pw_trace_record records[NUM_RECORDS];
    size_t num_moved = 0;
    for (size_t i = 0; i < NUM_RECORDS; i++) {
        bool moves = i % 10 == 9;
        size_t moved = 10 * num_moved;
        records[i] = (pw_trace_record){.time_ns = (int64_t)(10 * i + draw(5000)),
                                       .kind = moves ? PW_TRACE_MOVED : PW_TRACE_WALK,
                                       .a = moves ? moved : 0,
                                       .b = i};
        num_moved += moves && draw(2);
    }
    write_file(rank, records, NUM_RECORDS);
}

static void check_order(void)
{
    for (uint32_t rank = 0; rank < NUM_RANKS; rank++) write_walks(rank);
    pw_record_order order = {0};
    for (uint32_t rank = 0; rank < NUM_RANKS; rank++)
        assert(pw_record_order_add(&order, path_of(rank)) == PW_OK);
    static bool is_seen[NUM_RANKS][NUM_RECORDS];
    pw_time before_ns = 0;
    const pw_trace_record *record;
    uint32_t rank, count = 0;
    int code;
    while ((code = pw_record_order_next(&order, &record, &rank)) == 1) {
        assert(record->time_ns >= before_ns && !is_seen[rank][record->b]);
        before_ns = record->time_ns;
        is_seen[rank][record->b] = true;
        count++;
    }
    assert(code == 0 && count == NUM_RANKS * NUM_RECORDS * 9 / 10);
    assert(order.num_held == 0);
    pw_record_order_destroy(&order);
}

static void write_any(uint32_t rank)
{
    static pw_trace_record records[NUM_RECORDS];
    for (size_t i = 0; i < NUM_RECORDS; i++) {
        uint64_t kind = draw(2) ? draw(PW_TRACE_TRANSITION + 1) : 64 + draw(16);
        bool is_name =
            kind == PW_TRACE_CALL_NAME || kind == PW_TRACE_REGION_NAME || kind == PW_TRACE_MOVED;
        records[i] = (pw_trace_record){.time_ns = (int64_t)(3 * i + draw(500)),
                                       .kind = is_name ? 0 : (uint32_t)kind,
                                       .peer = (uint32_t)draw(NUM_RANKS + 1),
                                       .a = draw(6),
                                       .b = draw(6) | draw(3) << 16 | draw(5) << 32};
    }
    write_file(rank, records, NUM_RECORDS);
}

static void check_any(void)
{
    for (uint32_t rank = 0; rank < NUM_RANKS; rank++) write_any(rank);
    const pw_timeline_options options = {.label = "any", .handler_ns = 5, .err_send_ns = 10};
    int descriptor = open("/dev/null", O_WRONLY);
    pw_timeline *timeline = NULL;
    assert(pw_timeline_create(&timeline, descriptor, &options) == PW_OK);
    for (uint32_t rank = 0; rank < NUM_RANKS; rank++)
        assert(pw_timeline_add_rank(timeline, path_of(rank)) == PW_OK);
    int code;
    while ((code = pw_timeline_step(timeline, 1000)) == 1) {}
    pw_timeline_counts counts;
    pw_timeline_count(timeline, &counts);
    assert(code == 0 && counts.num_records > NUM_RECORDS && counts.num_packets > NUM_RECORDS);
    pw_timeline_destroy(timeline);
    close(descriptor);
}

/* What no run can have recorded is refused. */
static void check_impossible(void)
{
    const pw_trace_record impossible[] = {
        {.kind = PW_TRACE_WALK, .time_ns = -1},
        {.kind = PW_TRACE_WALK, .time_ns = 1, .a = UINT64_MAX},
        {.kind = PW_TRACE_MOVED, .time_ns = 1, .a = 1},
        {.kind = PW_TRACE_CALL_NAME, .peer = PW_CALL_NAMES_MAX},
        {.kind = PW_TRACE_CALL_NAME, .time_ns = PW_TRACE_PATH_BYTES / 16},
        {.kind = PW_TRACE_REGION_NAME, .peer = PW_REGION_NAMES_MAX},
        {.kind = PW_TRACE_REGION_NAME, .time_ns = -1},
        {.kind = PW_TRACE_REGION, .peer = PW_REGION_DEPTHS_MAX},
    };
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        write_file(0, &impossible[i], 1);
        pw_record_order order = {0};
        assert(pw_record_order_add(&order, path_of(0)) == PW_ERR_INVALID);
        pw_record_order_destroy(&order);
    }
}

int main(void)
{
    assert(mkdtemp(folder));
    check_order();
    for (int round = 0; round < NUM_ROUNDS; round++) check_any();
    check_impossible();
    unlink_all();
    rmdir(folder);
    return 0;
}
