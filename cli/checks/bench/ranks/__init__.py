"""What the ranks of `pagewire bench` run: each module one group, with plain MPI beside the NI."""
