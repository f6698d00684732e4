"""What LAMMPS, HPL and HPCG print of themselves, and the bundled apps like them: time and rate."""

import re


def number(pattern: str, text: str) -> tuple[float, ...]:
    """The groups of the first match as numbers; raises ValueError without one."""
    found = re.search(pattern, text, flags=re.MULTILINE)
    if found is None:
        raise ValueError(f"no line like '{pattern}'")
    return tuple(float(group) for group in found.groups())


def read_lammps(text: str) -> tuple[float, float]:
    """Loop time in s and timesteps a second."""
    (seconds,) = number(r"^Loop time of (\S+) on", text)
    (rate,) = number(r"(\S+) timesteps/s", text)
    return seconds, rate


def read_hpl(text: str) -> tuple[float, float]:
    """Time in s and GFLOP/s."""
    order, rate = number(r"^W[RC]\S*\s+(\d+)(?:\s+\d+){3}\s+\S+\s+(\S+)\s*$", text)
    # HPL's time has two decimals, its rate four digits.
    return (2 / 3 * order + 3 / 2) * order**2 / 1e9 / rate, rate


def read_hpcg(text: str) -> tuple[float, float]:
    """Time in s and GFLOP/s."""
    (seconds,) = number(r"^Benchmark Time Summary::Total=(\S+)", text)
    (rate,) = number(r"GFLOP/s rating of=(\S+)", text)
    return seconds, rate
