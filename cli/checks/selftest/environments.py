"""Environments of Python with one MPI each, kept in a folder for the next time."""

import hashlib
import importlib.metadata
import os
import pathlib
import re
import shutil
from collections.abc import Mapping, Sequence

import pagewire
from pagewire.cli.checks.limited import run_limited

_MAKING_S = 300.0
_INSTALLING_S = 3600.0  # mpi4py gets compiled
_STAMP = "pagewire-selftest.stamp"


class UnavailableError(RuntimeError):
    """The environment cannot be had here; the reason."""


def requirements(*groups: str) -> list[str]:
    """What pagewire itself requires, with these optional groups."""
    found = []
    for line in importlib.metadata.requires("pagewire") or []:
        requirement, _, marker = line.partition(";")
        extra = re.search(r"""extra\s*==\s*["'](\w+)["']""", marker)
        if extra is None or extra[1] in groups:
            found.append(requirement.strip())
    return found


def make(
    folder: pathlib.Path,
    python: str,
    needed: Sequence[str],
    *,
    from_source: str = "",
    environ: Mapping[str, str] | None = None,
) -> str:
    """The environment's Python, with this pagewire in it; made when it is not there as wanted.

    from_source: a package that pip compiles here, in `environ`.
    """
    wanted = hashlib.sha256(
        "\n".join([os.path.realpath(python), from_source, *needed]).encode()
    ).hexdigest()
    stamp, made = folder / _STAMP, str(folder / "bin" / "python")
    if not stamp.is_file() or stamp.read_text(encoding="ascii") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        _run([python, "-m", "venv", str(folder)], _MAKING_S, os.environ)
        words = [made, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        if from_source:
            # pip's cache holds the one that was compiled with another MPI.
            words += ["--no-cache-dir", "--no-binary", from_source]
        _run([*words, *needed], _INSTALLING_S, {**os.environ, **(environ or {})})
        stamp.write_text(wanted, encoding="ascii")
    _copy_pagewire(folder)
    return made


def _run(command: Sequence[str], limit_s: float, environ: Mapping[str, str]) -> None:
    clean = {name: text for name, text in environ.items() if name != "PYTHONPATH"}
    try:
        code, said = run_limited(command, environ=clean, limit_s=limit_s)
    except OSError as error:
        raise UnavailableError(f"{command[0]}: {error.strerror}") from None
    if code != 0:
        lines = [line for line in said.splitlines() if "ERROR" in line or "error:" in line]
        last = (lines or said.splitlines() or ["no output"])[-1].strip()
        raise UnavailableError(f"`{' '.join(command[:4])} ...` ended with {code}: {last[:200]}")


def _copy_pagewire(folder: pathlib.Path) -> None:
    """This pagewire as it is installed: its compiled modules serve every Python from 3.11 on. A
    copy, so that a run of an hour is of one version."""
    package = pathlib.Path(pagewire.__path__[0])
    (site,) = folder.glob("lib/python3*/site-packages")
    for source in (package, *package.parent.glob("pagewire-*.dist-info")):
        shutil.rmtree(site / source.name, ignore_errors=True)
        shutil.copytree(source, site / source.name, ignore=shutil.ignore_patterns("__pycache__"))
