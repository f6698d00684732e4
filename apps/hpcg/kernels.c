#include "apps/hpcg/kernels.h"

/* Long enough to amortise the lanes, short enough that the error of the sum grows with n / 512. */
#define DOT_BLOCK 512
#define DOT_LANES 8

static inline double sum_slots(const double *value, const int32_t *column, const double *x,
                               int begin, int end)
{
    double sum = 0.0;
    for (int slot = begin; slot < end; slot++) sum += value[slot] * x[column[slot]];
    return sum;
}

/* The planes below and above: what both sweeps can sum before their neighbour in x is known. */
static inline double sum_outer_planes(const double *value, const int32_t *column, const double *x)
{
    return sum_slots(value, column, x, 0, 9) + sum_slots(value, column, x, 18, 27);
}

/* A row's own x. The neighbour `last`, which was updated last, is subtracted last, so that rows
 * overlap in the pipeline. */
static inline double relaxed(const double *value, const int32_t *column, double r, const double *x,
                             int last)
{
    int below = last < PW_HPCG_DIAGONAL ? last : PW_HPCG_DIAGONAL;
    int above = last > PW_HPCG_DIAGONAL ? last : PW_HPCG_DIAGONAL;
    double known = sum_outer_planes(value, column, x) + sum_slots(value, column, x, 9, below) +
                   sum_slots(value, column, x, above + 1, 18);
    return (r - known - value[last] * x[column[last]]) / value[PW_HPCG_DIAGONAL];
}

void pw_hpcg_spmv(int64_t num_rows, const double *values, const int32_t *columns, const double *x,
                  double *y)
{
    for (int64_t i = 0; i < num_rows; i++) {
        const double *value = values + i * PW_HPCG_STENCIL;
        const int32_t *column = columns + i * PW_HPCG_STENCIL;
        y[i] = sum_outer_planes(value, column, x) + sum_slots(value, column, x, 9, 18);
    }
}

void pw_hpcg_symgs(int64_t num_rows, const double *values, const int32_t *columns, const double *r,
                   double *x)
{
    const int64_t slots = PW_HPCG_STENCIL;
    for (int64_t i = 0; i < num_rows; i++)
        x[i] = relaxed(values + i * slots, columns + i * slots, r[i], x, PW_HPCG_DIAGONAL - 1);
    for (int64_t i = num_rows - 1; i >= 0; i--)
        x[i] = relaxed(values + i * slots, columns + i * slots, r[i], x, PW_HPCG_DIAGONAL + 1);
}

double pw_hpcg_dot(int64_t n, const double *x, const double *y)
{
    double total = 0.0;
    for (int64_t begin = 0; begin < n; begin += DOT_BLOCK) {
        int64_t end = n - begin < DOT_BLOCK ? n : begin + DOT_BLOCK;
        double lane[DOT_LANES] = {0.0}, rest = 0.0;
        int64_t i = begin;
        for (; i + DOT_LANES <= end; i += DOT_LANES) {
            for (int k = 0; k < DOT_LANES; k++) lane[k] += x[i + k] * y[i + k];
        }
        for (; i < end; i++) rest += x[i] * y[i];
        total += ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
                 ((lane[4] + lane[5]) + (lane[6] + lane[7])) + rest;
    }
    return total;
}
