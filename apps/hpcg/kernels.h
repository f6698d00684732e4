/* The inner loops of the conjugate-gradient mini-app: sparse matrix-vector product, symmetric
 * Gauss-Seidel, dot product, vector update. An app's own arithmetic, unknown to the NI engine.
 *
 * A matrix has one row a grid point and PW_HPCG_STENCIL slots a row, one for each offset of the
 * 27-point stencil, z slowest and x fastest. A neighbour outside of the global grid leaves a slot
 * with value 0 and the row's own column, so that a row's sum has the same order, hence the same
 * bits, on any number of ranks. Columns [0, num_rows) are the rank's own points, those above are
 * ghosts.
 *
 * All memory is the caller's; nothing is kept between calls. Columns are checked when a matrix is
 * built and not again. Thread contract: no state, so any thread, as long as two calls do not share
 * an output. */
#ifndef PW_APPS_HPCG_KERNELS_H
#define PW_APPS_HPCG_KERNELS_H
#include <stdint.h>

/* cdef begin */
#define PW_HPCG_STENCIL 27
#define PW_HPCG_DIAGONAL 13 /* the slot of the row's own column */
#define PW_HPCG_OK 0
#define PW_HPCG_ERR_INVALID (-1) /* an argument outside its range; nothing was written */
#define PW_HPCG_ERR_INDEX (-2)   /* the map names a column that does not exist */

/* Fill the rows of a grid of nx * ny * nz points. map has (nx + 2) * (ny + 2) * (nz + 2) entries, x
 * fastest: the column of each point of the grid and of the shell around it, negative where there is
 * none. Returns the number of non-zeros or a negative PW_HPCG_ERR_*. */
int64_t pw_hpcg_fill_rows(int64_t nx, int64_t ny, int64_t nz, const int32_t *map,
                          int64_t num_columns, double *values, int32_t *columns);
/* y = A x; x has all columns, y num_rows. */
int pw_hpcg_spmv(int64_t num_rows, const double *values, const int32_t *columns, const double *x,
                 double *y);
/* One sweep upwards and one downwards on A x = r; ghosts of x are read and stay. The diagonal must
 * not be 0. */
int pw_hpcg_symgs(int64_t num_rows, const double *values, const int32_t *columns, const double *r,
                  double *x);
/* Sum of x[i] y[i] in an order that depends on n alone. */
double pw_hpcg_dot(int64_t n, const double *x, const double *y);
/* w = alpha x + beta y; w may be x or y. */
int pw_hpcg_waxpby(int64_t n, double alpha, const double *x, double beta, const double *y,
                   double *w);
/* cdef end */
#endif
