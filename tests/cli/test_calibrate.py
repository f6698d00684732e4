"""pagewire calibrate: what is measured of this host, and the platform file written of it."""

import math
import pathlib
import socket
import tomllib

import pytest

from pagewire.cli.calibrate import constants
from pagewire.cli.calibrate.host import Found
from pagewire.cli.calibrate.samples import Samples, line_through, rising
from pagewire.cli.commands import dispatch
from pagewire.lab import Lab
from pagewire.native import ffi, lib
from pagewire.native.settings import ConfigError
from pagewire.run.settings import platform, platform_file

BASE = "exanest-qfdb"


def steady(name: str, num_bytes: int, ns: float) -> Samples:
    return Samples(name, num_bytes, (ns,) * 20)


def taken(which: int, num_bytes: int, *, count: int = 5, budget_ns: int = 1_000_000_000) -> list:
    found = ffi.new("double[]", count)
    code = lib.pw_host_cost_samples(which, num_bytes, -1, budget_ns, count, found)
    assert code >= 0, code
    return list(found[0:code])


def test_samples_tell_median_quartiles_and_noise():
    quiet = Samples("x", 4096, (100.0, 101.0, 99.0, 100.0))
    assert (quiet.median_ns, quiet.doubt) == (100.0, "")
    assert quiet.quartiles_ns == (99.75, 100.25)
    assert Samples("x", 0, (50.0, 100.0, 150.0, 100.0, 60.0, 140.0)).doubt == "noisy"
    assert Samples("x", 0, (100.0,) * 10 + (140.0,) * 10).doubt in ("drifts", "noisy")
    assert Samples("x", 0, (100.0,) * 9 + (500.0,)).doubt == ""  # one interrupt


def test_line_finds_the_cost_of_a_call_and_of_a_page():
    points = [steady("x", 4096 * pages, 1500 + 700 * pages) for pages in (1, 4, 16, 64)]
    line = line_through(points, 4096)
    assert line is not None
    assert math.isclose(line.fixed_ns, 1500) and math.isclose(line.page_ns, 700)
    assert line.worst_error < 1e-9
    assert line_through(points[:2], 4096) is None
    falling = line_through([steady("x", 4096 * n, 100 * n * n) for n in (1, 2, 4)], 4096)
    assert falling is not None and falling.fixed_ns == 0 and falling.page_ns > 0


def test_costs_of_a_table_do_not_fall():
    assert rising([1.2, 5.0, 3.0, 9.0]) == [1, 4, 4, 9]
    assert rising([5.0, 4.0, 3.0]) == [4, 4, 4]
    assert rising([0.2]) == [1]


def test_more_pages_take_longer_and_the_clock_is_in_no_sample():
    few, many = (min(taken(lib.PW_HOST_TOUCH_ABSENT, 4096 * pages)) for pages in (1, 64))
    assert 0 < few < many
    assert min(taken(lib.PW_HOST_PAGE_IN, 4096 * 64)) > min(taken(lib.PW_HOST_PAGE_IN, 4096))
    resident, absent = (
        min(taken(which, 4096 * 64)) for which in (lib.PW_HOST_TOUCH_RESIDENT, lib.PW_HOST_PAGE_IN)
    )
    assert resident < absent


def test_budget_ends_a_measurement_but_not_before_its_least_samples():
    assert len(taken(lib.PW_HOST_MUNMAP, 1 << 20, count=50, budget_ns=0)) == lib.PW_HOST_SAMPLES_MIN
    assert len(taken(lib.PW_HOST_MUNMAP, 4096, count=7)) == 7


@pytest.mark.parametrize(
    ("which", "num_bytes", "count"),
    [(99, 4096, 5), (lib.PW_HOST_MMAP, 0, 5), (lib.PW_HOST_MMAP, 4096, 2)]
    + [(lib.PW_HOST_TOUCH_HUGE, 4096, 5), (lib.PW_HOST_TOUCH_FILE, 5, 5)],
)
def test_what_cannot_be_measured_is_refused(which, num_bytes, count):
    found = ffi.new("double[]", 5)
    assert lib.pw_host_cost_samples(which, num_bytes, -1, 0, count, found) == lib.PW_ERR_INVALID


def test_wakeups_need_a_core_and_a_kind():
    out = ffi.new("double[2]")
    for which, core in ((3, 0), (0, -1), (0, 1 << 20)):
        code = lib.pw_host_wakeup_samples(which, 0, core, 0, 0, 1, out, out)
        assert code == lib.PW_ERR_INVALID


def test_each_measurement_becomes_its_cost():
    names = ("page in", "pin absent", "touch absent", "touch resident")
    found = Found(
        [
            *(steady(name, 4096 * n, 1000 + 500 * n) for name in names for n in (1, 4, 16)),
            steady("netlink, send", 0, 4000),
            steady("eventfd, wake-up", 0, 3000),
            steady("file page, cached", 4096, 2000),
            steady("file page, on disk", 4096, 52_000),
        ],
        [],
        (0, 1),
    )
    entries = constants.of_host(found, "measured on H, D").entries
    costs = {name: entry["value"] for name, entry in entries.items() if "value" in entry}
    assert costs == {
        "costs.page_in_fixed": 1000,
        "costs.page_in_page": 500,
        "costs.miss_pin_fixed": 1000,
        "costs.miss_pin_page": 500,
        "costs.touch_absent_page": 1500,
        "costs.touch_resident_page": 1500,
        "costs.netlink": 4000,
        "costs.user_wakeup": 3000,  # of the eventfd, as there is none by Netlink
        "costs.major_fault": 50_000,
    }
    assert entries["tables.pin_absent"]["points"] == [[4096, 1500], [16384, 3000], [65536, 9000]]
    assert all(entry["source"].startswith("measured on H, D: ") for entry in entries.values())


def test_noise_stands_in_the_source():
    noisy = Samples("clock", 0, (10.0, 20.0, 30.0, 40.0))
    source = constants.of_host(Found([noisy], [], (0, 0)), "here").entries["costs.clock_read"]
    assert "(noisy)" in source["source"]


def test_written_platform_is_loaded_and_says_what_is_measured(tmp_path, capsys, monkeypatch):
    path = tmp_path / "here.toml"
    assert dispatch.main(["calibrate", "--quick", "-o", str(path), "--folder", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for text in ("page in", "quartiles", "eventfd, wake-up", "costs.page_in_page"):
        assert text in printed, text
    written, base = platform.load(str(path)), platform.load(BASE)
    measured = {
        name
        for name, each in written.cost_origins.items()
        if each.source.startswith("measured on ")
    }
    assert {"page_in_fixed_ns", "page_in_page_ns", "clock_read_ns", "lookup_ns"} <= measured
    assert not {"hop_ns", "r5_queue_op_ns", "handler_ns", "link_mbps"} & measured
    assert socket.gethostname() in written.cost_origins["page_in_page_ns"].source
    for name, value in base.costs.as_dict().items():
        if name not in measured:
            assert getattr(written.costs, name) == value, name
            assert written.cost_origins[name] == base.cost_origins[name], "whose it is"
    before = Lab().write(65536, absent="all", policy="all").latency_us
    settings = {"run.platform": str(path)}
    after = Lab(settings=settings).write(65536, absent="all", policy="all").latency_us
    assert before != after


def test_platform_that_is_calibrated_again_keeps_its_own_entries_and_base(tmp_path):
    path = str(tmp_path / "here.toml")
    hop, page = ({"value": ns, "unit": "ns", "source": "measured"} for ns in (7, 8))
    for base, changes in ((BASE, {"costs.hop": hop}), (path, {"costs.page_in_page": page})):
        platform_file.write(path, base, changes, description="d", comment=["c"])
    costs = platform.load(path).costs
    assert (costs.hop_ns, costs.page_in_page_ns) == (7, 8)
    assert set(tomllib.loads(pathlib.Path(path).read_text())["costs"]) == {"hop", "page_in_page"}


def test_relative_base_is_found_from_where_the_file_is_written(tmp_path):
    (tmp_path / "beside.toml").write_text(f'description = "o"\nbase = "{BASE}"\n')
    user = tmp_path / "user.toml"
    user.write_text('description = "u"\nbase = "beside.toml"\n')
    path = tmp_path / "a" / "here.toml"
    path.parent.mkdir()
    platform_file.write(str(path), str(user), {}, description="d", comment=[])
    assert platform.load(str(path)).costs == platform.load(BASE).costs


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-o", "x.json"], "a platform file's name ends in .toml"),
        (["-o", "/nowhere/x.toml"], "there is no folder"),
        (["--folder", "/nowhere"], "--folder '/nowhere': there is no such folder"),
        (["--platform", "nil"], "unknown platform 'nil'"),
        (["--against", "none.csv"], "--against 'none.csv': No such file"),
        (["--against", "none.csv", "--quick"], "--against measures nothing"),
    ],
)
def test_bad_words_are_refused(words, expected):
    with pytest.raises(ConfigError, match=expected):
        dispatch.main(["calibrate", *words])


def test_any_name_of_a_host_or_file_can_be_a_source():
    changes = {"costs.hop": {"value": 7, "unit": "ns", "source": 'a "b" \\ \x7f \udc80 \n é'}}
    text = platform_file.text_of(BASE, changes, description="d", comment=["c"])
    document = tomllib.loads(text)
    assert document["costs"]["hop"]["value"] == 7
    assert platform.parse(document, "x").costs.hop_ns == 7
