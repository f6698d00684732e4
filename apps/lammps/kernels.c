#include "apps/lammps/kernels.h"

#include <math.h>
#include <string.h>

/* Shorter than any box, longer than any rounding: tells the two directions of an atom's own image.
 */
#define IMAGE_EPSILON 1e-6

static int grid_is_valid(const pw_lj_grid *grid)
{
    int64_t total = 1;
    for (int d = 0; d < 3; d++) {
        if (grid->num_bins[d] < 1 || !(grid->bin_width[d] > 0.0) || !isfinite(grid->low[d]))
            return 0;
        total *= grid->num_bins[d];
        if (total > INT32_MAX) return 0;
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
    if (!(bin > 0.0)) return 0;
    return bin >= (double)last ? last : (int32_t)bin;
}

static int32_t bin_of(const pw_lj_grid *grid, const double *x)
{
    int32_t bin = bin_along(grid, 2, x[2]);
    bin = bin * grid->num_bins[1] + bin_along(grid, 1, x[1]);
    return bin * grid->num_bins[0] + bin_along(grid, 0, x[0]);
}

static void sort_bins(const pw_lj_grid *grid, const pw_lj_atoms *atoms, int32_t *bin_first,
                      int32_t *bin_atoms)
{
    int64_t num_all = atoms->num_all;
    const double *x = atoms->positions;
    int32_t num_bins = grid->num_bins[0] * grid->num_bins[1] * grid->num_bins[2];
    memset(bin_first, 0, ((size_t)num_bins + 1) * sizeof *bin_first);
    for (int64_t i = 0; i < num_all; i++) bin_first[bin_of(grid, x + 3 * i)]++;
    int32_t sum = 0;
    for (int32_t b = 0; b <= num_bins; b++) {
        sum += bin_first[b];
        bin_first[b] = sum;
    }
    /* Downwards from each bin's end: afterwards first is its start, and its atoms ascend. */
    for (int64_t i = num_all - 1; i >= 0; i--)
        bin_atoms[--bin_first[bin_of(grid, x + 3 * i)]] = (int32_t)i;
}

/* Which of the two owners stores the pair (i, ghost of j). Both ranks must answer alike although
 * each sees the other's atom through a periodic shift, so ids decide, not positions; only an atom
 * and its own image (equal ids) are told apart by the direction, which is a whole box long. */
static int stores_ghost_pair(int64_t id_i, int64_t id_j, const double *delta)
{
    if (id_i != id_j) return ((id_i ^ id_j) & 1) ? id_i < id_j : id_i > id_j;
    for (int d = 2; d >= 0; d--) {
        if (delta[d] > IMAGE_EPSILON) return 1;
        if (delta[d] < -IMAGE_EPSILON) return 0;
    }
    return 0;
}

/* The bins that reach into the list cut-off around x, both ends included. */
typedef struct {
    int32_t begin[3], end[3];
} bin_box;

static bin_box bins_around(const pw_lj_grid *grid, const double *x)
{
    bin_box box;
    for (int d = 0; d < 3; d++) {
        box.begin[d] = bin_along(grid, d, x[d] - grid->list_cutoff);
        box.end[d] = bin_along(grid, d, x[d] + grid->list_cutoff);
    }
    return box;
}

/* Whether the list of i holds j: each pair once, and within the list cut-off. */
static int stores_pair(const pw_lj_grid *grid, const pw_lj_atoms *atoms, int64_t i, int64_t j)
{
    if (j < atoms->num_local && j <= i) return 0;
    const double *xi = atoms->positions + 3 * i, *xj = atoms->positions + 3 * j;
    double delta[3] = {xj[0] - xi[0], xj[1] - xi[1], xj[2] - xi[2]};
    double distance_squared = delta[0] * delta[0] + delta[1] * delta[1] + delta[2] * delta[2];
    if (!(distance_squared <= grid->list_cutoff * grid->list_cutoff)) return 0;
    if (j < atoms->num_local || !grid->newton) return 1;
    return stores_ghost_pair(atoms->ids[i], atoms->ids[j], delta);
}

/* Lists under construction: what they are made from, and their entries so far. */
typedef struct {
    const pw_lj_grid *grid;
    const pw_lj_atoms *atoms;
    const int32_t *bin_first, *bin_atoms;
    const pw_lj_lists *lists;
    int64_t count;
} list_builder;

/* Appends atom i's neighbours among the bins first_bin to last_bin, which are one run of atoms. */
static void append_run(list_builder *builder, int64_t i, int32_t first_bin, int32_t last_bin)
{
    int32_t stop = builder->bin_first[last_bin + 1];
    for (int32_t k = builder->bin_first[first_bin]; k < stop; k++) {
        int64_t j = builder->bin_atoms[k];
        if (!stores_pair(builder->grid, builder->atoms, i, j)) continue;
        if (builder->count < builder->lists->capacity)
            builder->lists->neighbors[builder->count] = (int32_t)j;
        builder->count++;
    }
}

int64_t pw_lj_build_lists(const pw_lj_grid *grid, const pw_lj_atoms *atoms, int32_t *bin_first,
                          int32_t *bin_atoms, const pw_lj_lists *lists)
{
    if (!grid_is_valid(grid) || !counts_are_valid(atoms->num_local, atoms->num_all) ||
        lists->capacity < 0)
        return PW_LJ_ERR_INVALID;
    sort_bins(grid, atoms, bin_first, bin_atoms);
    list_builder builder = {grid, atoms, bin_first, bin_atoms, lists, 0};
    lists->first[0] = 0;
    for (int64_t i = 0; i < atoms->num_local; i++) {
        bin_box box = bins_around(grid, atoms->positions + 3 * i);
        for (int32_t bz = box.begin[2]; bz <= box.end[2]; bz++) {
            for (int32_t by = box.begin[1]; by <= box.end[1]; by++) {
                int32_t row = (bz * grid->num_bins[1] + by) * grid->num_bins[0];
                append_run(&builder, i, row + box.begin[0], row + box.end[0]);
            }
        }
        lists->first[i + 1] = builder.count;
    }
    return builder.count;
}

/* Atom i of a sweep over the pairs and the sums; local, so that it stays in registers. */
typedef struct {
    pw_lj_options options;
    double cutoff_squared;
    double position[3], force[3];
    double energy, virial;
} pair_sums;

/* Adds the pair (i, j) to i's sums and, if it is `whole`, to j's force. */
static inline void add_pair(pair_sums *sums, const double *xj, double *fj, int whole)
{
    const double *xi = sums->position;
    double dx = xi[0] - xj[0], dy = xi[1] - xj[1], dz = xi[2] - xj[2];
    double distance_squared = dx * dx + dy * dy + dz * dz;
    if (!(distance_squared < sums->cutoff_squared)) return;
    /* U = 4 (r^-12 - r^-6), so force / r = 48 (r^-12 - r^-6 / 2) / r^2. */
    double inverse2 = 1.0 / distance_squared;
    double inverse6 = inverse2 * inverse2 * inverse2;
    double pull = 48.0 * inverse6 * (inverse6 - 0.5) * inverse2;
    sums->force[0] += dx * pull;
    sums->force[1] += dy * pull;
    sums->force[2] += dz * pull;
    if (whole) {
        fj[0] -= dx * pull;
        fj[1] -= dy * pull;
        fj[2] -= dz * pull;
    }
    if (sums->options.with_energy) {
        double share = whole ? 1.0 : 0.5;
        double energy = 4.0 * inverse6 * (inverse6 - 1.0) - sums->options.energy_shift;
        sums->energy += share * energy;
        sums->virial += share * distance_squared * pull;
    }
}

int pw_lj_compute(const pw_lj_options *options, const pw_lj_atoms *atoms, const pw_lj_lists *lists,
                  double *forces, pw_lj_tally *tally)
{
    int64_t num_all = atoms->num_all;
    if (!counts_are_valid(atoms->num_local, num_all) || !(options->cutoff > 0.0) ||
        lists->capacity < 0)
        return PW_LJ_ERR_INVALID;
    const double *x = atoms->positions;
    pair_sums sums = {.options = *options, .cutoff_squared = options->cutoff * options->cutoff};
    memset(forces, 0, (size_t)num_all * 3 * sizeof *forces);
    for (int64_t i = 0; i < atoms->num_local; i++) {
        int64_t begin = lists->first[i], end = lists->first[i + 1];
        if (begin < 0 || end < begin || end > lists->capacity) return PW_LJ_ERR_INDEX;
        memcpy(sums.position, x + 3 * i, sizeof sums.position);
        memset(sums.force, 0, sizeof sums.force);
        for (int64_t k = begin; k < end; k++) {
            int64_t j = lists->neighbors[k];
            if (j < 0 || j >= num_all) return PW_LJ_ERR_INDEX;
            /* Without Newton's law across ranks a pair with a ghost is there twice. */
            int whole = sums.options.newton || j < atoms->num_local;
            add_pair(&sums, x + 3 * j, forces + 3 * j, whole);
        }
        for (int d = 0; d < 3; d++) forces[3 * i + d] += sums.force[d];
    }
    tally->energy = sums.energy;
    tally->virial = sums.virial;
    return PW_LJ_OK;
}
