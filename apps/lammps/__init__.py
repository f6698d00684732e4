"""Lennard-Jones melt in the manner of LAMMPS' `melt` example: a mini-app in plain mpi4py.

What it models: LAMMPS' communication pattern for a short-ranged pair potential. Space is cut into
one box a rank; ghost atoms are collected in six directions when neighbour lists are rebuilt, their
positions are refreshed in each step along the stored lists, their forces go back the same way, and
atoms that left the box migrate. Sizes and order of the messages, the in-place receive of ghost
positions and the growing, kept buffers are those of the original (`Comm` with one atom type).

What it does not: other potentials, atom types, bonds, load balance, thermostats, triclinic or
non-periodic boxes, LAMMPS' input language, threads.

Sources: S. Plimpton, Fast Parallel Algorithms for Short-Range Molecular Dynamics, J. Comput. Phys.
117 (1995); A. P. Thompson et al., LAMMPS, Comput. Phys. Commun. 271 (2022); the documentation of
`examples/melt`. The code is our own.
"""
