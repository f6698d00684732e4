#include "cli/native/bench_trace.h"
#include "native/trace.h"
#include <stdlib.h>
#include <time.h>

#define NUM_ROUNDS 5
#define BLOCK_RECORDS 8192

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void forget(pw_trace *trace) { trace->num_records = 0; }

double pw_bench_trace_ns(bool is_on, uint64_t num_records)
{
    if (num_records == 0) return PW_ERR_INVALID;
    pw_trace trace = {.capacity = BLOCK_RECORDS, .is_detailed = is_on, .full = forget};
    double rounds[NUM_ROUNDS];
    if (is_on) {
        trace.records = malloc(BLOCK_RECORDS * sizeof *trace.records);
        if (!trace.records) return PW_ERR_NOMEM;
    }
    for (size_t i = 0; i < NUM_ROUNDS; i++) {
        double start_ns = now_ns();
        for (uint64_t record = 0; record < num_records; record++) {
            pw_trace_add(&trace, (pw_time)record, PW_TRACE_ACK, record, i);
            __asm__ volatile("" : : "r"(&trace) : "memory"); /* it may be on by now */
        }
        rounds[i] = (now_ns() - start_ns) / (double)num_records;
    }
    free(trace.records);
    qsort(rounds, NUM_ROUNDS, sizeof *rounds, compare);
    return rounds[NUM_ROUNDS / 2];
}
