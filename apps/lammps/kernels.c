#include "apps/lammps/kernels.h"

#include <math.h>
#include <string.h>

/* Shorter than any box, longer than any rounding: tells the two directions of an atom's own image. */
#define IMAGE_EPSILON 1e-6

static int grid_is_valid(const pw_lj_grid *grid)
{
    int64_t total = 1;
    for (int d = 0; d < 3; d++) {
        if (grid->num_bins[d] < 1 || !(grid->bin_width[d] > 0.0) || !isfinite(grid->low[d]))
            return 0;
        total *= grid->num_bins[d];
        if (total > INT32_MAX)
            return 0;
    }
    return grid->list_cutoff > 0.0 && isfinite(grid->list_cutoff);
}

static int counts_are_valid(int64_t num_local, int64_t num_all)
{
    return num_local >= 0 && num_all >= num_local && num_all <= INT32_MAX;
}

/* Clamped as a double, so that the conversion is defined for any position, NaN too. */
static int32_t bin_along(const pw_lj_grid *grid, int d, double position)
{
    double bin = (position - grid->low[d]) / grid->bin_width[d];
    int32_t last = grid->num_bins[d] - 1;
    if (!(bin > 0.0))
        return 0;
    return bin >= (double)last ? last : (int32_t)bin;
}

static int32_t bin_of(const pw_lj_grid *grid, const double *x)
{
    int32_t bin = bin_along(grid, 2, x[2]);
    bin = bin * grid->num_bins[1] + bin_along(grid, 1, x[1]);
    return bin * grid->num_bins[0] + bin_along(grid, 0, x[0]);
}

int pw_lj_sort_bins(const pw_lj_grid *grid, const double *x, int64_t num_all, int32_t *bin_first,
                    int32_t *bin_atoms)
{
    if (!grid_is_valid(grid) || !counts_are_valid(0, num_all))
        return PW_LJ_ERR_INVALID;
    int32_t num_bins = grid->num_bins[0] * grid->num_bins[1] * grid->num_bins[2];
    memset(bin_first, 0, ((size_t)num_bins + 1) * sizeof *bin_first);
    for (int64_t i = 0; i < num_all; i++)
        bin_first[bin_of(grid, x + 3 * i)]++;
    int32_t sum = 0;
    for (int32_t b = 0; b <= num_bins; b++) {
        sum += bin_first[b];
        bin_first[b] = sum;
    }
    /* Downwards from each bin's end: afterwards bin_first is its start, and its atoms ascend. */
    for (int64_t i = num_all - 1; i >= 0; i--)
        bin_atoms[--bin_first[bin_of(grid, x + 3 * i)]] = (int32_t)i;
    return PW_LJ_OK;
}

/* Which of the two owners stores the pair (i, ghost of j). Both ranks must answer alike although
 * each sees the other's atom through a periodic shift, so ids decide, not positions; only an atom
 * and its own image (equal ids) are told apart by the direction, which is a whole box long. */
static int stores_ghost_pair(int64_t id_i, int64_t id_j, const double *delta)
{
    if (id_i != id_j)
        return ((id_i ^ id_j) & 1) ? id_i < id_j : id_i > id_j;
    for (int d = 2; d >= 0; d--) {
        if (delta[d] > IMAGE_EPSILON)
            return 1;
        if (delta[d] < -IMAGE_EPSILON)
            return 0;
    }
    return 0;
}

static int32_t reach_along(const pw_lj_grid *grid, int d)
{
    double reach = ceil(grid->list_cutoff / grid->bin_width[d]);
    return reach >= (double)grid->num_bins[d] ? grid->num_bins[d] : (int32_t)reach;
}

static int32_t at_least_zero(int32_t bin)
{
    return bin < 0 ? 0 : bin;
}

static int32_t at_most(int32_t bin, int32_t last)
{
    return bin > last ? last : bin;
}

int64_t pw_lj_build_lists(const pw_lj_grid *grid, const double *x, const int64_t *id,
                          int64_t num_local, int64_t num_all, const int32_t *bin_first,
                          const int32_t *bin_atoms, int64_t *first, int32_t *neighbors,
                          int64_t capacity)
{
    if (!grid_is_valid(grid) || !counts_are_valid(num_local, num_all) || capacity < 0)
        return PW_LJ_ERR_INVALID;
    const int32_t *bins = grid->num_bins;
    double cutoff_squared = grid->list_cutoff * grid->list_cutoff;
    int32_t reach[3];
    for (int d = 0; d < 3; d++)
        reach[d] = reach_along(grid, d);
    int64_t count = 0;
    first[0] = 0;
    for (int64_t i = 0; i < num_local; i++) {
        const double *xi = x + 3 * i;
        int32_t begin[3], end[3];
        for (int d = 0; d < 3; d++) {
            int32_t bin = bin_along(grid, d, xi[d]);
            begin[d] = at_least_zero(bin - reach[d]);
            end[d] = at_most(bin + reach[d], bins[d] - 1);
        }
        for (int32_t bz = begin[2]; bz <= end[2]; bz++) {
            for (int32_t by = begin[1]; by <= end[1]; by++) {
                /* Bins of one row lie one after the other, so a row is one run of atoms. */
                int32_t row = (bz * bins[1] + by) * bins[0];
                int32_t stop = bin_first[row + end[0] + 1];
                if (bin_first[row + begin[0]] < 0 || stop > num_all)
                    return PW_LJ_ERR_INDEX;
                for (int32_t k = bin_first[row + begin[0]]; k < stop; k++) {
                    int64_t j = bin_atoms[k];
                    if (j < num_local && j <= i)
                        continue;
                    if (j >= num_all)
                        return PW_LJ_ERR_INDEX;
                    const double *xj = x + 3 * j;
                    double delta[3] = {xj[0] - xi[0], xj[1] - xi[1], xj[2] - xi[2]};
                    double distance_squared =
                        delta[0] * delta[0] + delta[1] * delta[1] + delta[2] * delta[2];
                    if (!(distance_squared <= cutoff_squared))
                        continue;
                    if (j >= num_local && grid->newton && !stores_ghost_pair(id[i], id[j], delta))
                        continue;
                    if (count < capacity)
                        neighbors[count] = (int32_t)j;
                    count++;
                }
            }
        }
        first[i + 1] = count;
    }
    return count;
}

int pw_lj_compute(const pw_lj_options *options, const double *x, int64_t num_local,
                  int64_t num_all, const int64_t *first, const int32_t *neighbors,
                  int64_t num_neighbors, double *f, pw_lj_tally *tally)
{
    if (!counts_are_valid(num_local, num_all) || !(options->cutoff > 0.0) || num_neighbors < 0)
        return PW_LJ_ERR_INVALID;
    double cutoff_squared = options->cutoff * options->cutoff;
    double energy = 0.0, virial = 0.0;
    int newton = options->newton, with_energy = options->with_energy;
    memset(f, 0, (size_t)num_all * 3 * sizeof *f);
    for (int64_t i = 0; i < num_local; i++) {
        double xi = x[3 * i], yi = x[3 * i + 1], zi = x[3 * i + 2];
        double fx = 0.0, fy = 0.0, fz = 0.0;
        if (first[i] < 0 || first[i + 1] < first[i] || first[i + 1] > num_neighbors)
            return PW_LJ_ERR_INDEX;
        for (int64_t k = first[i]; k < first[i + 1]; k++) {
            int64_t j = neighbors[k];
            if (j < 0 || j >= num_all)
                return PW_LJ_ERR_INDEX;
            double dx = xi - x[3 * j], dy = yi - x[3 * j + 1], dz = zi - x[3 * j + 2];
            double distance_squared = dx * dx + dy * dy + dz * dz;
            if (!(distance_squared < cutoff_squared))
                continue;
            /* U = 4 (r^-12 - r^-6), so force / r = 48 (r^-12 - r^-6 / 2) / r^2. */
            double inverse2 = 1.0 / distance_squared;
            double inverse6 = inverse2 * inverse2 * inverse2;
            double pull = 48.0 * inverse6 * (inverse6 - 0.5) * inverse2;
            fx += dx * pull;
            fy += dy * pull;
            fz += dz * pull;
            /* Without Newton's law across ranks a pair with a ghost is there twice. */
            int whole = newton || j < num_local;
            if (whole) {
                f[3 * j] -= dx * pull;
                f[3 * j + 1] -= dy * pull;
                f[3 * j + 2] -= dz * pull;
            }
            if (with_energy) {
                double share = whole ? 1.0 : 0.5;
                energy += share * (4.0 * inverse6 * (inverse6 - 1.0) - options->energy_shift);
                virial += share * distance_squared * pull;
            }
        }
        f[3 * i] += fx;
        f[3 * i + 1] += fy;
        f[3 * i + 2] += fz;
    }
    tally->energy = energy;
    tally->virial = virial;
    return PW_LJ_OK;
}
