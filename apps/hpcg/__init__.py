"""Preconditioned conjugate gradients in the manner of HPCG: a mini-app in plain mpi4py.

What it models: HPCG's reference implementation, which is what the network sees of it. A 27-point
stencil (diagonal 26, all others -1) on a box of points a rank, stored as a sparse matrix; halo
exchange with up to 26 neighbours before each product and each smoother; CG preconditioned by one
multigrid V-cycle with a symmetric Gauss-Seidel smoother, restriction by injection and up to four
levels; three global dot products an iteration. HPCG's checks (symmetry, convergence with an
exaggerated diagonal, same residuals in every set), its counting of flops and the layout of its
report.

What it does not: HPCG's comparison of an optimised with a reference code (there is one code), its
choice of the number of sets from a wanted run time, threads, ratings that could be submitted.
Global sums are gathered and added in rank order instead of `MPI_Allreduce`, whose order MPI does
not fix.

Sources: J. Dongarra, M. Heroux, P. Luszczek, High-performance conjugate-gradient benchmark, Int. J.
High Perform. Comput. Appl. 30 (2016); HPCG Technical Specification, SAND2013-8752. The code is our
own.
"""
