"""The start: an fcc lattice and velocities, both functions of an atom's global id only.

Velocities come from a counter-based generator (splitmix64's finaliser over seed, id and axis; G.
Steele et al., OOPSLA 2014) as integers. Their sums are exact integers, so mean and scale, and with
them every bit, are the same for any number of ranks.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.lammps.domain import Domain
from pagewire.apps.lammps.options import Options
from pagewire.apps.team import Team

BASIS = np.array([[0.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_RAW_BITS = 32
_HALF = 1 << 31
_LOW_MASK = (1 << 32) - 1


def create_lattice(
    options: Options, domain: Domain
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ids and positions of the lattice sites in this rank's sub-domain, ascending by id."""
    a = options.lattice_constant
    ranges = []
    for d in range(3):
        begin = max(int(domain.low[d] / a) - 1, 0)
        end = min(int(domain.high[d] / a) + 2, options.cells[d])
        ranges.append(np.arange(begin, end))
    z, y, x, site = np.meshgrid(ranges[2], ranges[1], ranges[0], np.arange(4), indexing="ij")
    cells = np.stack([x, y, z], axis=-1).reshape(-1, 3)
    sites = site.reshape(-1)
    nx, ny, _ = options.cells
    ids = ((cells[:, 2] * ny + cells[:, 1]) * nx + cells[:, 0]) * 4 + sites
    positions = (cells + BASIS[sites]) * a
    mine = np.ones(len(ids), dtype=bool)
    for d in range(3):
        mine &= domain.owner_coord(positions[:, d], d) == domain.coords[d]
    return ids[mine].astype(np.int64), positions[mine]


def hash_integers(seed: int, counters: NDArray[np.int64]) -> NDArray[np.int64]:
    """A signed 32-bit integer for each counter, uniform, a pure function of seed and counter."""
    with np.errstate(over="ignore"):
        state = np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + _GAMMA
        bits = state + (counters.astype(np.uint64) + np.uint64(1)) * _GAMMA
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits = bits ^ (bits >> np.uint64(31))
    return (bits >> np.uint64(64 - _RAW_BITS)).astype(np.int64) - _HALF


def create_velocities(options: Options, team: Team, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Velocities of the atoms `ids`: uniform, total momentum 0, temperature exactly as asked."""
    counters = ids[:, None] * 3 + np.arange(3)
    raw = hash_integers(options.seed, counters)
    squares = raw * raw
    sums = team.sum_integers(
        *(int(s) for s in raw.sum(axis=0)),
        int((squares >> 32).sum()),
        int((squares & _LOW_MASK).sum()),
    )
    num_atoms = options.num_atoms
    mean = [Fraction(s, num_atoms) for s in sums[:3]]
    square_sum = (sums[3] << 32) + sums[4] - sum(Fraction(s * s, num_atoms) for s in sums[:3])
    wanted = Fraction(options.temperature) * 3 * (num_atoms - 1)  # sum of v^2, mass 1
    scale = float(wanted / square_sum) ** 0.5
    velocities: NDArray[np.float64] = (raw - np.array([float(m) for m in mean])) * scale
    return velocities
