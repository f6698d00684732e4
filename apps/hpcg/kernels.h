/* The inner loops of the conjugate-gradient mini-app: sparse matrix-vector product, symmetric
 * Gauss-Seidel, dot product. An app's own arithmetic, unknown to the NI engine.
 *
 * A matrix has one row a grid point and PW_HPCG_STENCIL slots a row, one for each offset of the
 * 27-point stencil, z slowest and x fastest. A neighbour outside of the global grid leaves a slot
 * with value 0 and the row's own column, so that a row's sum has the same order, hence the same
 * bits, on any number of ranks. Columns [0, num_rows) are the rank's own points, those above are
 * ghosts.
 *
 * All memory is the caller's; nothing is kept between calls. Columns are checked when a matrix is
 * built (kernels.py) and not here. Thread contract: no state, so any thread, as long as two calls
 * do not share an output. */
#ifndef PW_APPS_HPCG_KERNELS_H
#define PW_APPS_HPCG_KERNELS_H
#include <stdint.h>

/* cdef begin */
#define PW_HPCG_STENCIL 27
#define PW_HPCG_DIAGONAL 13 /* the slot of the row's own column */

/* y = A x; x has all columns, y num_rows. */
void pw_hpcg_spmv(int64_t num_rows, const double *values, const int32_t *columns, const double *x,
                  double *y);
/* One sweep upwards and one downwards on A x = r; ghosts of x are read and stay. The diagonal must
 * not be 0. */
void pw_hpcg_symgs(int64_t num_rows, const double *values, const int32_t *columns, const double *r,
                   double *x);
/* Sum of x[i] y[i] in an order that depends on n alone. */
double pw_hpcg_dot(int64_t n, const double *x, const double *y);
/* cdef end */
#endif
