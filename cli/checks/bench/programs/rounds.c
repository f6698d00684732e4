#include "rounds.h"

#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { TRIAL_TIMES = 2, MOST_TIMES = 20000 };

/* Rounds end early past so many times what they should take: with more ranks than cores a single
   Allreduce of plain MPICH may take as long as all of them. */
static const double most_overrun = 4;

static double wall_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct pw_times one_round(pw_work *work, void *context, long num_times)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double wall_start_s = wall_s(), virtual_start_s = MPI_Wtime();
    work(context, num_times);
    double virtual_end_s = MPI_Wtime(), wall_end_s = wall_s();

    double passed_s[2] = {wall_end_s - wall_start_s, virtual_end_s - virtual_start_s};
    MPI_Allreduce(MPI_IN_PLACE, passed_s, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    struct pw_times times = {passed_s[0] / (double)num_times, passed_s[1] / (double)num_times};
    return times;
}

static long times_within(double round_s, double once_s)
{
    double wanted = round_s / once_s;
    if (wanted > MOST_TIMES) return MOST_TIMES;
    return wanted < 1 ? 1 : (long)wanted;
}

struct pw_times pw_rounds_measure(const struct pw_rounds *rounds, pw_work *work, void *context)
{
    one_round(work, context, 1); /* the first one may fault */
    struct pw_times best = one_round(work, context, TRIAL_TIMES);
    double all_s = rounds->num_rounds * rounds->round_s, spent_s = 0;
    for (int i = 0; i < rounds->num_rounds && spent_s < most_overrun * all_s; i++) {
        /* Of the quickest round so far: a trial that the scheduler has stretched would else leave
           all rounds as short as itself. */
        long num_times = times_within(rounds->round_s, best.wall_s);
        struct pw_times times = one_round(work, context, num_times);
        if (i == 0 || times.wall_s < best.wall_s) best.wall_s = times.wall_s;
        if (i == 0 || times.virtual_s < best.virtual_s) best.virtual_s = times.virtual_s;
        spent_s += times.wall_s * (double)num_times;
    }
    return best;
}

void pw_rounds_require(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "bench: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
