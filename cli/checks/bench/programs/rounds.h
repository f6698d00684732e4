#ifndef PW_CLI_CHECKS_BENCH_FABRIC_PROGRAMS_ROUNDS_H
#define PW_CLI_CHECKS_BENCH_FABRIC_PROGRAMS_ROUNDS_H

/*
 * Times a piece of work that all ranks do together, as cli/checks/bench/ranks/in_turns.py does it:
 * the quickest of some rounds counts, since noise only adds, and a round takes as long as its
 * slowest rank. A first trial, which warms everything up, is not one of them.
 *
 * Wall time is clock_gettime's, because MPI_Wtime is virtual over the provider. Over plain MPI the
 * two are the same.
 */

/* Does something so many times. */
typedef void pw_work(void *context, long num_times);

struct pw_rounds {
    int num_rounds;
    double round_s; /* how long one shall take */
};

struct pw_times { /* of one repetition */
    double wall_s;
    double virtual_s; /* by MPI_Wtime */
};

/* Collective over MPI_COMM_WORLD; the same times on every rank. */
struct pw_times pw_rounds_measure(const struct pw_rounds *rounds, pw_work *work, void *context);

/* End all ranks with a sentence: figures of wrong data would mean nothing. */
void pw_rounds_require(int holds, const char *what);

#endif
