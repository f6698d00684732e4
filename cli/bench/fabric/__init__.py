"""`pagewire bench --transport fabric`: C programs by plain MPICH and over the provider, in turns."""
