"""LU solve of a dense random system in the manner of HPL: a mini-app in plain mpi4py.

What it models: the communication of High-Performance Linpack. The N x (N + 1) matrix [A | b] is
dealt out block-cyclically over a P x Q grid; a column of processes factors a panel with one
exchange of pivot candidates a matrix column; the panel goes along the rows (ring, binomial tree),
with look-ahead while the trailing update still runs; rows are swapped by spread and roll. Sizes and
order of the messages, and the panel and swap buffers that are kept, are those of the original with
SWAP = long, RFACT = PFACT = right, NDIV = 2.

What it does not: HPL's other broadcasts, swaps and factorisations, deeper look-ahead, threads, the
column-major process map, HPL.dat. The panel's candidates are gathered where HPL reduces them with
an operation of its own, and back substitution sends its parts without overlap.

The bits of x depend on N, NB, P, Q, the seed and the BLAS (with its number of threads: one, unless
OMP_NUM_THREADS says otherwise) alone: not on broadcast, depth or buffers and not on the MPI
library, as nothing is summed by MPI.

Sources: A. Petitet, R. C. Whaley, J. Dongarra, A. Cleary, HPL: A Portable Implementation of the
High-Performance Linpack Benchmark (netlib.org/benchmark/hpl), its algorithm and tuning pages. The
code is our own.
"""
