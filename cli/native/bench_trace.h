/* Benchmark of the trace: what a record costs where there is none, and where there is one. In
 * native/ benchmarks and host_*.h alone read a clock (wall time). Stateless. */
#ifndef PW_CLI_NATIVE_BENCH_TRACE_H
#define PW_CLI_NATIVE_BENCH_TRACE_H
#include "native/types.h"

/* cdef begin */
/* ns per record, median of several rounds of num_records; or a negative PW_ERR_*. is_on: into a
 * block of memory, written to nowhere. */
double pw_bench_trace_ns(bool is_on, uint64_t num_records);
/* cdef end */
#endif
