"""`pagewire compare`: one program under several memory strategies, and the table of the difference.

Compute time between MPI calls is noise of this host, so by default the first run's is recorded and
replayed in the others: what is left is what the strategies do. Each rank hashes what it received by
RDMA, so that a strategy that loses bytes is seen.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.cli import compare_table, launch, options
from pagewire.cli.program import Program
from pagewire.native.settings import ConfigError, allowed
from pagewire.transport.memory.built_in import REGISTRY
from pagewire.transport.node.report import write_json
from pagewire.transport.settings import config

COMPUTE = ("replay", "measured", "model", "none")
ALL = "all"
"""Of --memory: every strategy that comes with pagewire."""


def compare(
    num_ranks: int,
    chosen: Program,
    environ: Mapping[str, str],
    *,
    memory: str,
    policy: str | None,
    compute: str,
    quiet_app: bool,
    json_path: str,
    plot_path: str = "",
) -> int:
    """Run, print the table, write JSON and picture; the exit code of the run that failed, or 0.

    Of `all` strategies each may fail but the first: a host's limit refuses some, and the table
    says so.
    """
    if compute not in COMPUTE:
        raise ConfigError(f"--compute '{compute}': allowed is one of {', '.join(COMPUTE)}")
    launch.check_writable("--json", json_path)
    launch.check_writable("--plot", plot_path)
    if plot_path:
        compare_table.check_picture(plot_path)
    environ = dict(environ)
    launch.choose_transport(environ, chosen)
    base = launch.check_settings(environ, chosen)
    may_fail = memory.strip() == ALL
    choices = _choices(memory, policy, base.run.policy)
    documents: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="pagewire-compare-") as directory:
        environs = []
        for idx, choice in enumerate(choices):
            environs.append(_run_environ(environ, choice, compute, directory, idx))
            launch.check_settings(environs[-1], chosen)
        for idx, ((strategy, page_in), run_environ) in enumerate(
            zip(choices, environs, strict=True)
        ):
            name = f"{strategy}/{page_in}" if strategy == "part" else strategy
            _say(f"run {idx + 1} of {len(choices)}: {chosen.label} on {num_ranks} ranks, {name}")
            output = subprocess.DEVNULL if quiet_app else None
            outcome = launch.launch(num_ranks, chosen, run_environ, stdout=output)
            was_interrupted = outcome.exit_code == launch.INTERRUPTED
            if outcome.failure and (was_interrupted or not (may_fail and documents)):
                _say(f"{outcome.failure}; comparison ended at {name}")
                return outcome.exit_code
            if outcome.failure:
                _say(f"{outcome.failure}; the comparison goes on without {name}")
                entries.append({"memory": strategy, "policy": page_in, "failure": outcome.failure})
                continue
            documents.append(_read_report(pathlib.Path(f"{directory}/{idx}.json"), chosen))
            entries.append(documents[-1]["summary"])
    _add_differences(entries)
    title = f"{chosen.label}, {num_ranks} ranks, compute {compute}"
    compare_table.show(entries, title)
    if json_path:
        result = {
            "program": chosen.label,
            "ranks": num_ranks,
            "compute": compute,
            "entries": entries,
            "settings": _common_settings(documents),
            "reports": documents,
        }
        write_json(json_path, result)
    if plot_path:
        compare_table.draw(entries, title, plot_path)
    return 0


def _add_differences(entries: Sequence[dict[str, Any]]) -> None:
    """What each run is against the first."""
    first = entries[0]
    for entry in entries:
        if "failure" in entry:
            continue
        first_s = first["virtual_time_s"]
        entry["slowdown"] = entry["virtual_time_s"] / first_s - 1 if first_s else 0.0
        entry["received_alike"] = [
            one == other
            for one, other in zip(entry["received_hashes"], first["received_hashes"], strict=True)
        ]


def _run_environ(
    environ: Mapping[str, str], choice: tuple[str, str], compute: str, directory: str, idx: int
) -> dict[str, str]:
    """The environment of one run: its strategy and policy, and where it leaves its report."""
    strategy, page_in = choice
    assignments = [
        f"run.memory={strategy}",
        f"run.policy={page_in}",
        f"run.json={directory}/{idx}.json",
        "run.hash_received=true",
        *_compute(compute, idx, f"{directory}/compute"),
    ]
    run_environ = dict(environ)
    options.apply(options.as_environment(assignments), run_environ)
    return run_environ


def _choices(memory: str, policy: str | None, default_policy: str) -> list[tuple[str, str]]:
    """Pairs of memory strategy and page-in policy; only part is run with each policy."""
    strategies = [each.strip() for each in memory.split(",") if each.strip()]
    if strategies == [ALL]:
        strategies = [name for name in REGISTRY.names() if REGISTRY.is_native(name)]
    policies = [each.strip() for each in (policy or default_policy).split(",") if each.strip()]
    if not strategies:
        raise ConfigError(
            f"--memory '{memory}': name at least {allowed(config.lookup('run.memory'))}, or all"
        )
    if not policies:
        raise ConfigError(
            f"--policy '{policy}': name at least {allowed(config.lookup('run.policy'))}"
        )
    for name, texts in (("run.memory", strategies), ("run.policy", policies)):
        for text in texts:
            config.load([f"{name}={text}"], environ={})
    return [
        (strategy, page_in)
        for strategy in strategies
        for page_in in (policies if strategy == "part" else policies[:1])
    ]


def _compute(compute: str, idx: int, path: str) -> list[str]:
    if compute != "replay":
        return [f"run.compute={compute}"]
    if idx == 0:
        return ["run.compute=measured", f"run.compute_record={path}"]
    return ["run.compute=replay", f"run.compute_replay={path}"]


def _read_report(path: pathlib.Path, chosen: Program) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"program '{chosen.label}' left no report: it never used MPI, or ended without Finalize"
        ) from None
    return document


def _common_settings(documents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Settings that every run had, without those that a run has of its own."""
    first: Mapping[str, str] = documents[0]["settings"]
    return {
        name: text
        for name, text in first.items()
        if all(document["settings"][name] == text for document in documents)
    }


def _say(text: str) -> None:
    print(f"pagewire: {text}", file=sys.stderr, flush=True)
