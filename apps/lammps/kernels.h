/* The two inner loops of the Lennard-Jones mini-app: neighbour binning and pair forces. An app's
 * own arithmetic, unknown to the NI engine. Reduced units, one atom type, mass 1. All memory is the
 * caller's; nothing is kept between calls. Positions and forces are rows of 3 doubles; rows
 * [0, num_local) are owned atoms, [num_local, num_all) are ghosts. Thread contract: no state, so
 * any thread, as long as two calls do not share an output. */
#ifndef PW_APPS_LAMMPS_KERNELS_H
#define PW_APPS_LAMMPS_KERNELS_H
#include <stdint.h>

/* cdef begin */
#define PW_LJ_OK 0
#define PW_LJ_ERR_INVALID (-1) /* an argument outside its range; nothing was written */
#define PW_LJ_ERR_INDEX (-2)   /* a list names an atom or an entry that does not exist */

typedef struct {
    double low[3];       /* lower corner of the binned region */
    double bin_width[3]; /* all > 0 */
    int32_t num_bins[3]; /* all >= 1; atoms outside the region count to the nearest bin */
    int32_t newton;      /* 1: a pair with a ghost is stored by one owner only; 0: by both */
    double list_cutoff;  /* cut-off + skin */
} pw_lj_grid;

typedef struct {
    double cutoff;
    double energy_shift; /* subtracted from each pair's energy; 0 for the plain cut-off */
    int32_t newton;      /* 1: ghosts collect forces too; 0: they do not */
    int32_t with_energy; /* 1: energy and virial are summed up; 0: they come out as 0 */
} pw_lj_options;

typedef struct {
    double energy; /* this rank's share of the pair energy */
    double virial; /* its share of sum r.f over pairs */
} pw_lj_tally;

typedef struct {
    const double *positions;
    const int64_t *ids; /* NULL where they are not asked for */
    int64_t num_local;
    int64_t num_all;
} pw_lj_atoms;

/* Atom i's list is neighbors[first[i] .. first[i + 1]); first has num_local + 1 entries. */
typedef struct {
    int64_t *first;
    int32_t *neighbors;
    int64_t capacity; /* entries of neighbors */
} pw_lj_lists;

/* Sort all atoms by bin, and make half neighbour lists of them. Bin b then holds
 * bin_atoms[bin_first[b] .. bin_first[b + 1]), ascending; bin_first has num_bins[0] * num_bins[1] *
 * num_bins[2] + 1 entries, bin_atoms num_all. Returns the number of entries that the lists need
 * (more than capacity: the rest was not written, call again with more room) or a negative
 * PW_LJ_ERR_*. */
int64_t pw_lj_build_lists(const pw_lj_grid *grid, const pw_lj_atoms *atoms, int32_t *bin_first,
                          int32_t *bin_atoms, const pw_lj_lists *lists);
/* Overwrite forces[0 .. num_all) and tally with this rank's share. */
int pw_lj_compute(const pw_lj_options *options, const pw_lj_atoms *atoms, const pw_lj_lists *lists,
                  double *forces, pw_lj_tally *tally);
/* cdef end */
#endif
