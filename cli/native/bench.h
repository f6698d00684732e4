/* Benchmarks of address translation (what a lookup costs in our caches, and in what one would take
 * otherwise) and of the trace. Benchmarks and host_*.h alone read a clock (wall time). Stateless.
 */
#ifndef PW_CLI_NATIVE_BENCH_H
#define PW_CLI_NATIVE_BENCH_H
#include "native/types.h"

/* cdef begin */
#define PW_BENCH_L1_HIT 0 /* fully associative, 128 ways, all hits */
#define PW_BENCH_L2_HIT 1 /* that misses, then 4 ways x 512 sets hits */
#define PW_BENCH_MISS 2   /* both miss */
#define PW_BENCH_HASH 3   /* hash table, open addressing, the L2's translations */
#define PW_BENCH_TREE 4   /* POSIX tfind, the L2's translations */

/* ns per lookup, median of several rounds of num_lookups pseudo-random pages of a working set that
 * fits the level (128 or 2048 pages), or a negative PW_ERR_*. No filling in the measured time. */
double pw_bench_lookup_ns(uint32_t which, uint64_t num_lookups);
/* ns per record, median of several rounds of num_records; or a negative PW_ERR_*. is_on: into a
 * block of memory, written to nowhere. */
double pw_bench_trace_ns(bool is_on, uint64_t num_records);
/* How many system calls this thread makes until the other is called; see
 * cli/checks/bench/programs/system_calls.h. PW_ERR_HOST: this host does not tell. */
int pw_bench_begin_counting(void);
uint64_t pw_bench_end_counting(void);
/* cdef end */
#endif
