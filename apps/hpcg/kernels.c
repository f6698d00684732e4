#include "apps/hpcg/kernels.h"

/* Long enough to amortise the lanes, short enough that the error of the sum grows with n / 512. */
#define DOT_BLOCK 512
#define DOT_LANES 8

static int shape_is_valid(int64_t nx, int64_t ny, int64_t nz, int64_t num_columns)
{
    if (nx < 1 || ny < 1 || nz < 1 || num_columns > INT32_MAX) return 0;
    return nx <= INT32_MAX && ny <= INT32_MAX / nx && nz <= INT32_MAX / (nx * ny) &&
           nx * ny * nz <= num_columns;
}

int64_t pw_hpcg_fill_rows(int64_t nx, int64_t ny, int64_t nz, const int32_t *map,
                          int64_t num_columns, double *values, int32_t *columns)
{
    if (!shape_is_valid(nx, ny, nz, num_columns)) return PW_HPCG_ERR_INVALID;
    int64_t stride_y = nx + 2, stride_z = (nx + 2) * (ny + 2);
    int64_t row = 0, num_nonzeros = 0;
    for (int64_t z = 0; z < nz; z++) {
        for (int64_t y = 0; y < ny; y++) {
            for (int64_t x = 0; x < nx; x++, row++) {
                const int32_t *corner = map + z * stride_z + y * stride_y + x;
                double *value = values + row * PW_HPCG_STENCIL;
                int32_t *column = columns + row * PW_HPCG_STENCIL;
                for (int slot = 0; slot < PW_HPCG_STENCIL; slot++) {
                    int32_t c = corner[slot / 9 * stride_z + slot / 3 % 3 * stride_y + slot % 3];
                    if (c >= num_columns || (slot == PW_HPCG_DIAGONAL && c != row))
                        return PW_HPCG_ERR_INDEX;
                    value[slot] = c < 0 ? 0.0 : slot == PW_HPCG_DIAGONAL ? 26.0 : -1.0;
                    column[slot] = c < 0 ? (int32_t)row : c;
                    num_nonzeros += c >= 0;
                }
            }
        }
    }
    return num_nonzeros;
}

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

int pw_hpcg_spmv(int64_t num_rows, const double *values, const int32_t *columns, const double *x,
                 double *y)
{
    if (num_rows < 0) return PW_HPCG_ERR_INVALID;
    for (int64_t i = 0; i < num_rows; i++) {
        const double *value = values + i * PW_HPCG_STENCIL;
        const int32_t *column = columns + i * PW_HPCG_STENCIL;
        y[i] = sum_outer_planes(value, column, x) + sum_slots(value, column, x, 9, 18);
    }
    return PW_HPCG_OK;
}

int pw_hpcg_symgs(int64_t num_rows, const double *values, const int32_t *columns, const double *r,
                  double *x)
{
    if (num_rows < 0) return PW_HPCG_ERR_INVALID;
    /* The neighbour that was updated last is subtracted last, so that rows overlap in the pipeline.
     */
    for (int64_t i = 0; i < num_rows; i++) {
        const double *value = values + i * PW_HPCG_STENCIL;
        const int32_t *column = columns + i * PW_HPCG_STENCIL;
        double known = sum_outer_planes(value, column, x) + sum_slots(value, column, x, 9, 12) +
                       sum_slots(value, column, x, 14, 18);
        x[i] = (r[i] - known - value[12] * x[column[12]]) / value[PW_HPCG_DIAGONAL];
    }
    for (int64_t i = num_rows - 1; i >= 0; i--) {
        const double *value = values + i * PW_HPCG_STENCIL;
        const int32_t *column = columns + i * PW_HPCG_STENCIL;
        double known = sum_outer_planes(value, column, x) + sum_slots(value, column, x, 9, 13) +
                       sum_slots(value, column, x, 15, 18);
        x[i] = (r[i] - known - value[14] * x[column[14]]) / value[PW_HPCG_DIAGONAL];
    }
    return PW_HPCG_OK;
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

int pw_hpcg_waxpby(int64_t n, double alpha, const double *x, double beta, const double *y,
                   double *w)
{
    if (n < 0) return PW_HPCG_ERR_INVALID;
    for (int64_t i = 0; i < n; i++) w[i] = alpha * x[i] + beta * y[i];
    return PW_HPCG_OK;
}
