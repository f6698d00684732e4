"""Schemas of our JSON: strict ones, which know every counter. The tests of each command hold what
it writes against its schema (json_schemas.check)."""

import copy
import json

import jsonschema
import pytest
from json_schemas import check, errors

from pagewire.cli.commands import dispatch as commands
from pagewire.cli.commands import schema
from pagewire.native.settings import ConfigError
from pagewire.run.report import report
from pagewire.run.report.counters import COUNTER_GROUPS, MEMORY_KEYS, TIME_KEYS
from pagewire.run.settings import config

NAMES = ["bench", "compare", "conditions", "experiment", "report", "selftest", "soak", "sockets"]
COUNTERS = [key for group in COUNTER_GROUPS.values() for key in group]


def rank() -> dict:
    """What a rank of a run leaves."""
    return {
        **dict.fromkeys([*COUNTERS, *TIME_KEYS, *MEMORY_KEYS], 1),
        "wall_time_s": 0.5,
        "peak_rss_bytes": 1 << 20,
        "mpi_calls": {
            "Send": {"calls": 1, "bytes": 8, "not_carried_calls": 0, "not_carried_bytes": 0}
        },
        "impairments": {"delay": {"eligible": 5, "injected": 1, "late_after_end": 0}},
        "nacks_by_code": [0, 1, 0, 0, 0, 0, 0, 0],
        "page_sources": ["mincore"],
        "message_sizes": [0] * 65,
        "fault_waits_ns": [0] * 65,
        "fault_times": {"bin_ns": 1024, "bins": [0, 1]},
        "interrupt_times": {"bin_ns": 1024, "bins": [0, 1]},
        "fault_pages": {"group_pages": 1, "faults": {"0x7f00": 1}},
        "peers": {"1": {"messages": 1, "bytes": 8}},
        "demands": {
            "1": {"blocks": 1, "bytes": 64, "span_windows": 2, "most_bytes": {"3": 64}},
        },
    }


@pytest.fixture
def document(tmp_path):
    """A report as it is written."""
    path = tmp_path / "report.json"
    report.finish([rank(), rank()], config.load([], environ={}), str(path), quiet=True)
    return json.loads(path.read_text())


def described(value, where=""):
    """Every property of a schema that is a number, with its path and description."""
    if isinstance(value, dict):
        for key, inner in value.get("properties", {}).items():
            if isinstance(inner, dict) and inner.get("type") in ("number", "integer"):
                yield f"{where}.{key}", key, inner.get("description", "")
        for key, inner in value.items():
            yield from described(inner, f"{where}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from described(inner, where)


def test_all_are_listed_and_printed(capsys):
    assert schema.names() == NAMES
    assert commands.main(["schema"]) == 0
    listed = capsys.readouterr().out
    for name in NAMES:
        assert f"\n{name} " in f"\n{listed}"
        assert commands.main(["schema", name]) == 0
        printed = json.loads(capsys.readouterr().out)
        jsonschema.Draft202012Validator.check_schema(printed)
        assert printed["$id"] == f"urn:pagewire:schema:{name}:1"
    with pytest.raises(ConfigError, match="unknown schema 'repor' \\(did you mean 'report'"):
        commands.main(["schema", "repor"])


@pytest.mark.parametrize("name", NAMES)
def test_numbers_say_what_they_are_and_times_and_sizes_their_unit(name):
    numbers = list(described(schema.load(name)))
    assert numbers or name in ("conditions", "selftest")  # none, or some that may be null
    for where, key, text in numbers:
        assert text, where
        for suffix, unit in (("_ns", "(ns)"), ("_s", "(s)"), ("_per_s", "/s)")):
            if key.endswith(suffix) and not (suffix == "_s" and key.endswith("_per_s")):
                assert unit in text, f"{where}: {text}"
        if key.endswith("_bytes"):
            assert "(B)" in text or "bytes" in text, f"{where}: {text}"


def test_report_has_every_counter_once():
    counters = schema.load("report")["$defs"]["counters"]
    assert list(counters["properties"]) == counters["required"] == COUNTERS


def test_report_is_as_its_schema_says(document):
    check("report", document)


@pytest.mark.parametrize(
    "path",
    [
        ("totals", "pages_paged_in"),
        ("summary", "virtual_time_s"),
        ("ranks", 1, "peers"),
        ("ranks", 0, "fault_times", "bin_ns"),
        ("ranks", 0, "mpi_calls", "Send", "bytes"),
        ("totals", "not_carried", "names"),
        ("settings_sources",),
        ("$schema",),
    ],
)
def test_renamed_key_is_found(document, path):
    *outer, key = path
    wrong = copy.deepcopy(document)
    inner = wrong
    for step in outer:
        inner = inner[step]
    inner[f"{key}_renamed"] = inner.pop(key)
    assert errors("report", wrong)
    inner[key] = inner[f"{key}_renamed"]  # a key more is found too
    assert errors("report", wrong)


def test_wrong_values_are_found(document):
    for change in ({"packets": -1}, {"packets": "1"}, {"wall_time_s": None}):
        assert errors("report", {**document, "totals": {**document["totals"], **change}})


def test_comparison_brings_the_report_along(document):
    named = {"name": "part", "sweep": {"run.timeout": "1ms"}, "baseline": "part"}
    entry = {**named, **document["summary"], "slowdown": 0.0, "received_alike": [True]}
    failed = {
        **named, "memory": "pin", "policy": "page", "translation": "smmu", "failure": "a limit"
    }  # fmt: skip
    whole = {
        "$schema": "urn:pagewire:schema:compare:1",
        "program": "p",
        "ranks": 2,
        "compute": "none",
        "baseline": "part",
        "entries": [entry, failed],
        "settings": {},
        "reports": [document],
    }
    check("compare", whole)
    check("compare", {**whole, "entries": [{**entry, "slowdown": None}]})
    stopped = {"reason": "ended by Ctrl-C", "planned_runs": 2, "missing_runs": ["pin"]}
    check("compare", {**whole, "incomplete": stopped})
    assert errors("compare", {**whole, "incomplete": {"reason": "", "planned_runs": 2}})
    report_of_other_keys = {**document, "other": 1}
    assert errors("compare", {**whole, "reports": [report_of_other_keys]})
    assert errors("compare", {**whole, "entries": [document["summary"]]})
    assert errors("compare", {**whole, "entries": [{**failed, "slowdown": 0.0}]})
