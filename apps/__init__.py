"""MPI programs in miniature of those that the papers ran."""
