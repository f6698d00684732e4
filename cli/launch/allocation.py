"""What a batch system gave the job that a launch is part of, as far as its variables tell."""

import pathlib
from collections.abc import Mapping

_COUNTS = ("SLURM_JOB_NUM_NODES", "FLUX_JOB_NNODES")


def num_hosts(environ: Mapping[str, str]) -> int:
    """How many hosts the ranks may be spread over by the MPI's launcher; 1 outside of a job."""
    for name in _COUNTS:
        if environ.get(name, "").isdecimal():
            return max(int(environ[name]), 1)
    try:  # PBS and its kin: a line for each slot
        names = pathlib.Path(environ.get("PBS_NODEFILE") or "/none").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return 1
    return max(len(set(names.split())), 1)
