"""`pagewire experiment`: every experiment in its quick form, its files, what it asks of the lab."""

import importlib.util
import itertools
import json
import random
import re
from xml.etree import ElementTree

import pytest
from experiment_checks import check_files, check_rows, quick
from json_schemas import check as check_schema

from pagewire.cli.experiments import (
    app_runs,
    apps,
    part_probability,
    psi_firehose,
    registry,
    rivals,
)
from pagewire.cli.experiments.conditions import CONDITIONS, WITHOUT
from pagewire.cli.kit import conditions, output
from pagewire.cli.kit.numbers import powers_of_two, size_text
from pagewire.cli.kit.result import DEFAULT_REPETITIONS, Options
from pagewire.cli.main import main
from pagewire.lab import Lab
from pagewire.lab.bench import GAP_NS
from pagewire.lab.buffer import PAGE_BYTES
from pagewire.lab.nodes import TARGET
from pagewire.native import ffi, lib
from pagewire.native.settings import ConfigError

IN_PROCESS = (
    *(
        "part-err",
        "part-hybrid",
        "part-next",
        "part-processes",
        *(f"part-fig{i}" for i in range(9, 16)),
    ),
    *(f"psi-fig4.{i}" for i in range(1, 8)),
    *("psi-table4.1", "r5-fig3.8", "r5-livelock", "rivals-ats", "rivals-ring"),
    *(f"r5-fig5.{i}" for i in range(1, 13)),
    *(f"r5-fig5.{i}-{i + 1}" for i in range(1, 13, 2)),
    *("mini-table1.1", *(f"mini-fig4.{i}" for i in range(1, 5))),
    *(f"mini-table4.{i}" for i in range(5, 8)),
    *(f"unimem-{name}" for name in ("operations", "contention", "mailbox", "sockets", "memcached")),
)
ELSEWHERE = (
    *("part-fig16", "psi-fig2.3", *(f"part-table{i}" for i in range(2, 6)), "part-table3-fresh"),
    *("rivals-reuse", "rivals-churn", "rivals-memory"),  # with ranks
    *(f"net-{name}" for name in ("incast", "halo", "neighbours", "slow-node")),
)


@pytest.fixture(scope="module")
def results():
    chosen = [registry.EXPERIMENTS[name] for name in IN_PROCESS]
    return {each.name: each.run(each.options(quick())) for each in chosen}


def column(result, key, **where):
    return [
        row[key] for row in result.rows if all(row[name] == value for name, value in where.items())
    ]


def rises(values):
    return all(left <= right for left, right in itertools.pairwise(values))


def test_registry_is_complete():
    assert set(registry.EXPERIMENTS) == {*IN_PROCESS, *ELSEWHERE}
    assert all(name == each.name for name, each in registry.EXPERIMENTS.items())


def test_all_leaves_out_what_a_pair_measures():
    names = [each.name for each in registry.choose(["all"])]
    assert set(names) == {*IN_PROCESS, *ELSEWHERE} - {f"r5-fig5.{i}" for i in range(1, 13)}
    assert [each.name for each in registry.choose(["r5-fig5.4", "all"])] == ["r5-fig5.4", *names]


@pytest.mark.parametrize("first", range(1, 13, 2))
def test_figure_is_a_panel_of_its_pair(first, results):
    pair = results[f"r5-fig5.{first}-{first + 1}"]
    by_size = {row["num_bytes"]: row for row in pair.rows}
    panels = iter(pair.panels)
    for number in (first, first + 1):
        alone = results[f"r5-fig5.{number}"]
        suffix = "_gbps" if number > first and first < 11 else ""
        for panel in alone.panels:
            shared = next(panels)
            assert (shared.y_label, [each.label for each in shared.series]) == (
                panel.y_label,
                [each.label for each in panel.series],
            )
        for row in alone.rows:
            for each in alone.columns[1:]:
                if each.key != "timeouts" and row["num_bytes"] in by_size:
                    assert by_size[row["num_bytes"]][each.key + suffix] == row[each.key]


@pytest.mark.parametrize("name", IN_PROCESS)
def test_rows_and_files_are_whole_and_say_where_numbers_come_from(name, results, tmp_path):
    experiment = registry.EXPERIMENTS[name]
    check_rows(results[name])
    check_files(experiment, results[name], experiment.options(quick()), tmp_path)


NOT_QUICK = {
    **dict.fromkeys(("psi-fig4.3", "psi-fig4.4", "r5-fig3.8", "r5-fig5.5-6"), 1),
    **dict.fromkeys(("part-fig9", "part-fig14", "part-fig15", "psi-fig4.7"), 2),
    **dict.fromkeys(("mini-table4.6", "mini-table4.7"), 6),
}
"""How many conditions are about sizes or kernels that --quick leaves out."""


def test_every_condition_finds_its_number(results):
    """A wrong column or row would read as "not measured"."""
    assert set(CONDITIONS) <= set(registry.EXPERIMENTS)
    for name in set(CONDITIONS) & set(IN_PROCESS):
        lines = registry.EXPERIMENTS[name].lines(results[name].rows)
        assert sum(each.ours is None for each in lines) == NOT_QUICK.get(name, 0), name


def test_reason_for_no_condition_is_of_an_experiment_without_one():
    assert set(WITHOUT) <= set(registry.EXPERIMENTS) - set(CONDITIONS)
    assert all(each.conditions or each.without for each in registry.EXPERIMENTS.values())


def test_condition_of_a_source_is_held_against_ours(results):
    fault, first_packet, again = registry.EXPERIMENTS["part-fig10"].lines(
        results["part-fig10"].rows
    )
    assert (fault.condition, fault.source, fault.ours) == ("about 38 us", "[PART 5.2]", 39.217)
    assert (fault.low, fault.high) == pytest.approx((36.1, 39.9))
    assert fault.holds and first_packet.holds
    assert again.ours == pytest.approx(4.468) and again.holds is False
    timeouts = registry.EXPERIMENTS["psi-fig4.6"].lines(results["psi-fig4.6"].rows)
    of_a_block = [each.holds for each in timeouts if each.quantity.endswith(" 4 pages")]
    assert of_a_block == [True, True]


def test_experiment_without_a_condition_says_why():
    def condition(name, rows=()):
        return [(each.condition, each.holds) for each in registry.EXPERIMENTS[name].lines(rows)]

    assert condition("part-fig12") == [("no number in our notes", None)]
    assert condition("part-processes")[0][0].startswith("no paper's: PART 6.2")
    assert condition("psi-table4.1") == [("its numbers are our inputs", None)]
    assert condition("rivals-churn") == [("no paper's: what PART is compared with", None)]
    assert condition("r5-fig5.3") == [("see r5-fig5.3-4", None)]
    assert condition("part-fig11") == [("about 38 us", None)]  # it did not run


def test_table_of_conditions_shows_what_is_missed(capsys, tmp_path):
    held = [
        conditions.Condition("fits", conditions.about(2, "us"), "[A]", conditions.at("time")),
        conditions.Condition("missed", conditions.Bounds(3, None), "[B]", conditions.at("time")),
        conditions.Condition("nothing", conditions.Bounds(None, 3), "[C]", conditions.at("rate")),
        conditions.Condition(
            "sum", conditions.Bounds(4, 4), "", conditions.total(*2 * [conditions.at("time")])
        ),
    ]
    lines = conditions.lines_of("unimem-contention", held, [{"time": 2.0, "rate": None}], "")
    conditions.print_lines(lines)
    conditions.write(lines, tmp_path)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert [line.split()[-1] for line in out.splitlines() if line.startswith((" ", "unimem"))] == [
        *("yes", "NO", "-", "yes"),
    ]
    assert "2 hold, 1 does not" in out
    document = json.loads((tmp_path / "conditions.json").read_text())
    check_schema("conditions", document)
    assert [each["holds"] for each in document["conditions"]] == [True, False, None, True]


def test_same_settings_give_the_same_files(tmp_path):
    experiment = registry.EXPERIMENTS["part-fig11"]
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        output.write_files(experiment, experiment.run(quick()), quick(), tmp_path / folder)
    for suffix in ("json", "csv", "png", "svg"):
        one, other = (tmp_path / folder / f"part-fig11.{suffix}" for folder in ("one", "other"))
        assert one.read_bytes() == other.read_bytes(), suffix


@pytest.mark.parametrize(
    "name",
    [*(f"part-fig{i}" for i in (9, 11, 12, 15)), *(f"psi-fig4.{i}" for i in (2, 3, 4))],
)
def test_latency_rises_with_size(name, results):
    for each in results[name].columns:
        if each.unit == "us":
            assert rises(column(results[name], each.key)), each.key


def test_absent_is_slower_than_resident(results):
    for row in results["part-fig9"].rows:
        assert row["transfer"] < row["touch_resident"] < row["touch_absent"]
    for row in results["part-fig12"].rows:
        assert row["transfer"] < row["pia"] <= row["pi4"] <= row["pio"]


def test_err_is_quicker_than_timeouts_which_cost_their_time(results):
    for row in results["part-fig11"].rows:
        assert row["err"] < 100 < row["timeout_100us"] < 1000 < row["timeout_1ms"]


def test_breakdown_of_a_page_sums_up_to_the_total(results):
    result = results["part-fig10"]
    parts = {row["component"]: row["time_us"] for row in result.rows}
    total, whole = parts.pop("measured total"), parts.pop("sum of the components")
    assert min(parts.values()) >= 0
    assert sum(parts.values()) == pytest.approx(whole) == pytest.approx(total)


@pytest.mark.parametrize("timeout", ["timeout 1 ms", "none (NTO)"])
def test_breakdown_of_policy_all_is_near_the_total_without_overlap(timeout, results):
    rows = [row for row in results["part-fig13"].rows if row["timeout"] == timeout]
    assert rows
    for row in rows:
        assert row["timeouts"] == 0
        assert abs(row["difference"]) < 15, row


def test_timeouts_overlap_page_in_and_transfer():
    options = quick()
    by_timeout = {}
    for text in ("run.timeout=100us", "run.nack_cancels_timer=true"):
        lab = Lab(settings=options.settings("run.policy=all", text))
        by_timeout[text] = lab.write(1 << 20, absent="all").latency_ns
    short, none = by_timeout.values()
    assert short < none


def test_slowdown_is_one_without_faults_and_most_with_all(results):
    result = results["part-fig14"]
    for policy in ("PIO", "PIA"):
        for num_bytes in (4 << 10, 16 << 10, 64 << 10):
            slowdowns = column(result, "slowdown", policy=policy, num_bytes=num_bytes)
            assert slowdowns[0] == 1.0
            assert rises(slowdowns)


def test_pages_fault_only_where_whole_ones_are_meant(results):
    result = results["part-fig14"]
    for num_bytes, absent in ((4 << 10, 0), (16 << 10, 0), (64 << 10, 3)):  # floor(s f)
        at_20 = {"num_bytes": num_bytes, "percent": 20, "policy": "PIO"}
        assert column(result, "absent", **at_20) == [absent]
        assert (column(result, "slowdown", **at_20) == [1.0]) == (absent == 0)


@pytest.mark.parametrize("how", ["exact", "independent", "clustered:1", "clustered:4"])
@pytest.mark.parametrize("percent", [0, 1, 40, 99, 100])
def test_draws_choose_pages_of_the_transfer(how, percent):
    draw = part_probability._draw(how)
    numbers = random.Random(1)
    for _ in range(50):
        drawn = draw(70 * PAGE_BYTES - 1, percent, numbers)
        assert drawn == sorted(set(drawn)) and set(drawn) <= set(range(70))
        if how != "independent":
            assert len(drawn) == 70 * percent // 100
        if how == "clustered:4":
            num_runs = sum(page - 1 not in drawn for page in drawn)
            assert num_runs <= -(-len(drawn) // 4)


@pytest.mark.parametrize("how", ["most", "clustered", "clustered:0", "clustered:-1", "exact:2"])
def test_unknown_draw_is_refused(how):
    with pytest.raises(ConfigError, match="allowed is one of exact, independent, or clustered:K"):
        part_probability._draw(how)


def test_earlier_errs_cost_less_page_by_page_and_not_always_otherwise(results):
    """PIO: a word a block saves Netlink messages and the wait for the run; an ERR after its first
    page brings a block back before the others are in."""
    for row in results["part-err"].rows:
        assert row["kernel_run"] < row["library_run"]
        if row["policy"] == "PIO":
            assert row["library_page"] == row["library_run"]
        if row["policy"] == "PIO" and row["num_bytes"] > 4 * PAGE_BYTES:
            assert row["library_block"] < row["library_run"]
            assert row["kernel_block"] < row["kernel_run"] < row["kernel_page"]


def test_hybrid_is_part_below_its_threshold_and_pretouch_above(results):
    """Strategies of the lab have its settings."""
    rows = results["part-hybrid"].rows
    sizes = [4096 << i for i in range(5)]

    def mean_us(memory):
        lab = Lab(settings=quick().settings(), policy="all", memory=memory)
        return sum(lab.write(size, absent="all").latency_us for size in sizes) / len(sizes)

    assert rows[0]["all"] == pytest.approx(mean_us("part"))
    assert rows[-1]["all"] == pytest.approx(mean_us("pretouch"))
    assert len({row["all"] for row in rows}) == len(rows)


def test_processes_share_link_and_driver_and_do_not_wait_for_a_fault_of_another(results):
    two, four = results["part-processes"].rows
    for row in (two, four):
        assert row["others_us"] < row["none_us"] < row["faulting_us"] < row["all_us"]
    assert two["none_us"] < four["others_us"] and two["faulting_us"] < four["faulting_us"]
    assert four["fifo_pushed"] == 2 * two["fifo_pushed"] and four["timeouts"] == 0


def test_each_assumed_cost_of_page_requests_has_its_share(results):
    rows = {row["costs"]: row for row in results["rivals-ats"].rows}
    assumed, least, most = (
        rows[f"all {how}"]["us_4096"] for how in ("as assumed", "at the least", "at the most")
    )
    assert least < assumed < most
    more_ns = (30_000 - quick().platform().costs.ats_wakeup_ns) * 2  # reader and handler
    assert (rows["ats_wakeup 30000 ns"]["us_4096"] - assumed) * 1e3 == pytest.approx(more_ns)
    assert len(rows) == 2 * 5 + 3


def test_blocks_without_room_wait_for_the_timeout(results):
    rows = results["rivals-ring"].rows
    for memory in ("ats", "backup-ring"):
        assert rows[0][f"dropped_{memory}"] > 0 == rows[-1][f"dropped_{memory}"]
        assert rows[0][f"us_{memory}"] > 2 * rows[-1][f"us_{memory}"]


def test_each_next_step_does_what_it_is_for(results):
    for row in results["part-next"].rows:
        if row["end"] == "source":  # nothing but the timeout sends it again
            assert row["auto"] < 300
            assert row["published"] == row["two"] > 1000
            continue
        assert row["auto"] <= row["published"]
        num_pages = min(row["num_bytes"] // PAGE_BYTES, 8)  # of a window, which faults
        assert row["two_entries"] == num_pages
        if num_pages == 8:
            assert row["turns_entries"] > 64 and row["two"] < row["turns"]


def test_firehose_has_its_knees_at_the_held_and_the_victims():
    rows = {row["pages"]: row for row in registry.EXPERIMENTS["psi-fig2.3"].run(quick()).rows}
    held, pinned = psi_firehose.MAX_PAGES, psi_firehose.MAX_PAGES + psi_firehose.VICTIM_PAGES
    assert [row["pinned"] for row in rows.values()] == [held // 2, held, pinned, pinned]
    assert rows[held]["moves"] == rows[held // 2]["moves"] == 0
    assert rows[held]["firehose"] == pytest.approx(rows[held // 2]["firehose"], abs=0.01)
    assert 0 < rows[pinned]["moves"] < rows[2 * pinned]["moves"]
    assert rows[held]["unpins"] == 0 and rows[pinned]["unpins"] < 0.05
    assert rows[2 * pinned]["unpins"] > 0.5
    times_us = [row["firehose"] for row in rows.values()]
    assert rises(times_us[1:]) and times_us[3] > 2 * times_us[1]
    assert all(row["ideal"] < row["firehose"] < row["pin"] for row in rows.values())


PSI_TIMEOUTS = {"1ms": 1_000, "2.5ms": 2_500, "25ms": 25_000}
PSI_WAYS = ("touch_a_page", "touch_ahead")


def test_faults_at_the_destination_end_by_the_err_whatever_the_timeout(results):
    for row in results["psi-fig4.2"].rows:
        for way in PSI_WAYS:
            assert len({row[f"{way}_{timeout}"] for timeout in PSI_TIMEOUTS}) == 1
            assert row["no_fault"] < row[f"{way}_1ms"] < 1_000
        if row["num_bytes"] > PAGE_BYTES:  # four pages at once pay from the second page on
            assert row["touch_ahead_1ms"] < row["touch_a_page_1ms"]


def test_one_page_by_touch_costs_its_own_components_less_than_get_user_pages(results):
    costs = quick().platform().costs
    get_user_pages = costs.page_in_fixed_ns + costs.page_in_page_ns
    for row in results["psi-fig4.2"].rows:
        if row["num_bytes"] <= PAGE_BYTES:
            saved_us = row["touch_ahead_1ms"] - row["touch_a_page_1ms"]
            assert saved_us * 1e3 == pytest.approx(get_user_pages - costs.touch_absent_page_ns)


@pytest.mark.parametrize("name", ["psi-fig4.3", "psi-fig4.4"])
def test_faults_at_the_source_wait_for_timeouts(name, results):
    # 64 KB in 4 blocks, two under way. The second block's first fault falls into the first one's
    # handler, so that its page stays unknown (MULTI): the first and the third block wait for 4
    # pages each by touch, the fourth begins when the second has waited 5 times. Touch-Ahead: 1, 2,
    # 2 and 3. With both ends absent the destination's ERRs take the place of all timeouts but a
    # block's first.
    of_64_kb = {("psi-fig4.3", "touch_a_page"): 9}
    for row in results[name].rows:
        for way in PSI_WAYS:
            in_sequence = of_64_kb.get((name, way), 3) if row["num_bytes"] > 32 << 10 else 1
            for timeout, timeout_us in PSI_TIMEOUTS.items():
                rest = row[f"{way}_{timeout}"] - in_sequence * timeout_us
                assert 0 < rest < 600  # no timeout more
                if name == "psi-fig4.3":
                    assert rest < row["no_fault"] + 5


def test_err_saves_the_timeouts_of_a_block_but_the_first(results):
    """Every page absent: by touch a timeout a page, by Touch-Ahead one a block. With both ends one
    a block. One more where the second block's first fault comes while the first one's is active,
    and by touch one where the first's second comes behind the second's first."""
    for row in results["psi-fig4.6"].rows:
        num_pages = row["num_bytes"] // PAGE_BYTES
        num_blocks = -(-num_pages // 4)
        by_touch = row["way"] == "Touch-A-Page"
        faults = num_pages if by_touch else num_blocks
        unknown = (2 if by_touch else 1) if num_blocks > 1 else 0
        assert row["source_1"] == faults + unknown
        assert row["both_1"] == num_blocks + unknown


def test_driver_is_invoked_for_both_ends(results):
    rows = {(row["faults"], row["num_bytes"]): row for row in results["psi-fig4.7"].rows}
    for num_bytes in {num_bytes for _, num_bytes in rows}:
        source, destination, both = (
            rows[faults, num_bytes] for faults in ("source", "destination", "both ends")
        )
        for way in PSI_WAYS:
            for key in (f"{way}_time", f"{way}_handlers"):
                if num_bytes <= PAGE_BYTES:  # one page: its ends do not meet
                    assert both[key] == pytest.approx(source[key] + destination[key])
                assert both[key] >= max(source[key], destination[key])
        assert destination["touch_a_page_handlers"] >= destination["touch_ahead_handlers"]


def test_inputs_are_the_platforms_tables(results):
    options = quick()
    for row in results["psi-table4.1"].rows:
        for name, table in options.platform().tables.items():
            if name == "copy":  # the thesis's table has none
                continue
            assert row[name] * 1e3 == pytest.approx(table.cost_ns(row["num_bytes"]))


def test_histogram_holds_every_invocation_of_the_handler():
    num_bytes = 8 * PAGE_BYTES
    lab = Lab(settings=quick().settings("run.policy=page"))
    for _ in range(3):
        lab.write(num_bytes, absent="all")
    times = ffi.new("pw_time_histogram *")
    lib.pw_ni_read_interrupt_times(lab.nodes.engines[TARGET].ni, times)
    invocations = lab.nodes.counters()["fault_interrupts"]
    assert invocations > 0
    assert sum(times.bins) == invocations
    last_ns = max(idx for idx, count in enumerate(times.bins) if count) * times.bin_ns
    assert (
        3 * GAP_NS - times.bin_ns < last_ns < 3 * GAP_NS + 3_000_000
    )  # one to warm up, then three


def test_unknown_name_lists_what_there_is(capsys):
    assert main(["experiment", "part-fig99"]) == 2
    error = capsys.readouterr().err
    assert all(name in error for name in registry.EXPERIMENTS)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["part-fig10", "--repetitions", "0"],
        ["part-fig10", "--quick", "--full"],
        ["part-fig10", "--output", "/proc/results"],
        ["part-fig10", "--set", "run.policy=some"],
        ["part-fig10", "--set", "memory_backend.backend=model", "--output", "/tmp"],
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line(words, capsys):
    assert main(["experiment", *words]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_list_names_every_experiment(capsys):
    assert main(["experiment", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(registry.EXPERIMENTS)


def test_command_prints_a_table_that_fits_and_notes_settings(capsys, tmp_path):
    words = ["part-fig10", "part-fig10", "--quick", "--output", str(tmp_path / "new")]
    assert main(["experiment", *words, "--set", "smmu.num_context_banks=8"]) == 0
    out = capsys.readouterr().out
    assert out.count("part-fig10:") == 1
    assert out.rstrip().splitlines()[-1].startswith("2 hold, 1 does not")
    assert max(map(len, out.splitlines())) <= 100
    document = json.loads((tmp_path / "new" / "part-fig10.json").read_text())
    assert document["settings_not_default"] == {"smmu.num_context_banks": "8"}


def test_artifact_has_all_of_a_call_in_a_page_and_a_document(tmp_path):
    names = ["part-fig10", "part-fig12"]
    assert main(["experiment", *names, "--quick", "--artifact", "--output", str(tmp_path)]) == 0
    text = (tmp_path / "artifact.html").read_text(encoding="utf-8")
    body = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n")).find("body")
    contents = body.findall("div/table/tr/td/a")
    assert [each.get("href") for each in contents] == [f"#{name}" for name in names]
    for name, section in zip(names, body.findall("section"), strict=True):
        document = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        assert section.get("id") == name
        assert len(section.find("div/table").findall("tr")) == 1 + len(document["rows"])
        assert set(document["notes"]) <= {each.text for each in section.findall("p")}
        assert section.find("img").get("src").startswith("data:image/svg+xml;base64,")
    pdf = (tmp_path / "artifact.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 1 + len(names)


@pytest.mark.parametrize(
    ("missing", "options"), [("matplotlib", []), ("reportlab", ["--artifact"])]
)
def test_missing_library_is_a_sentence_before_anything_runs(
    missing, options, monkeypatch, capsys, tmp_path
):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == missing else found(name)
    )
    words = ["part-fig9", "--quick", *options, "--output", str(tmp_path / "new")]
    assert main(["experiment", *words]) == 2
    said = capsys.readouterr().err
    assert missing in said
    assert "pip install 'pagewire[plots]'" in said
    assert not (tmp_path / "new").exists()


def test_missing_app_is_named(monkeypatch):
    monkeypatch.setattr(apps.program, "apps", dict)
    with pytest.raises(ConfigError, match="needs the app 'lammps'"):
        registry.EXPERIMENTS["part-table2"].run(quick())


def test_isend_alone_takes_no_longer_with_size_but_for_pretouch():
    result = registry.EXPERIMENTS["part-fig16"].run(quick())
    assert len(set(column(result, "part"))) == 1
    assert rises(column(result, "pretouch"))
    assert all(row["difference"] > 0 for row in result.rows if row["num_bytes"] >= PAGE_BYTES)


def test_lammps_table_has_a_row_for_each_rank_count_and_memory():
    result = registry.EXPERIMENTS["part-table2"].run(quick(repetitions=1))
    assert [(row["ranks"], row["memory"]) for row in result.rows] == [
        (1, "pre-touch"),
        (1, "PART"),
        (2, "pre-touch"),
        (2, "PART"),
    ]
    assert all(row["time"] > 0 and row["rate"] > 0 for row in result.rows)
    assert result.rows[0]["slowdown"] == result.rows[2]["slowdown"] == 0
    faulting = result.rows[3]
    assert faulting["handlers"] > 0
    assert 0 <= faulting["last_quarter"] <= faulting["first_quarter"] <= 100


def test_quarters_divide_bins_that_a_border_cuts():
    ranks = [
        {"interrupt_times": {"bin_ns": 30, "bins": [4, 0, 0, 2]}},
        {"interrupt_times": {"bin_ns": 100, "bins": [8]}},
    ]
    assert app_runs.quarters(ranks, 100.0) == pytest.approx((2 + 4 * 25 / 30, 2 + 4 * 5 / 30, 2, 4))


def test_options_pick_by_size():
    assert quick().pick(1, 2, 3) == 1
    assert Options(environ={}).pick(1, 2, 3) == 2
    assert Options(environ={}, full=True).pick(1, 2, 3) == 3
    assert Options(environ={}, full=True).pick(1, 2) == 2
    assert Options(environ={}).repetitions == DEFAULT_REPETITIONS >= 5


def test_sizes_in_words():
    assert powers_of_two(4, 32) == [4, 8, 16, 32]
    assert [size_text(size) for size in (100, 4096, 1 << 20)] == ["100 B", "4 KiB", "1 MiB"]


def test_rivals_reuse_shows_what_a_cache_of_pins_is_worth():
    result = registry.EXPERIMENTS["rivals-reuse"].run(quick())
    for size in (4 << 10, 1 << 20):
        once, often = (column(result, "pin-cache", num_bytes=size, times=n)[0] for n in (1, 16))
        assert often < once
        assert often < column(result, "pin", num_bytes=size, times=16)[0]
    assert all(row["best"] in row and row["best"] != "ideal" for row in result.rows)
    assert result.panels[-1].cells


def test_rivals_churn_gives_up_what_was_unmapped():
    result = registry.EXPERIMENTS["rivals-churn"].run(quick())
    (gone,) = column(result, "strategy_invalidations", memory="pin-cache")
    (faults,) = column(result, "translation_faults", memory="part")
    assert gone > 0 < faults
    assert column(result, "translation_faults", memory="mini") == [0], "the unit pins by itself"


def test_rivals_never_call_a_bound_the_best():
    times = {"ideal": 1.0, "static": 2.0, "mini": 4.0, "part": 3.0, "pin": None}
    assert rivals.best(times) == "part"
    assert rivals.best(times | {"mini": 2.5}) == "mini"
    assert {"mini", "static", "utlb", "firehose"} <= set(rivals.strategies())


def test_rivals_memory_goes_on_where_frames_are_short():
    result = registry.EXPERIMENTS["rivals-memory"].run(quick())
    for name in ("part", "pin", "pin-cache"):
        (row,) = [each for each in result.rows if each["memory"] == name]
        assert row["us_1.5"] > row["us_0.5"]
        assert row["major_faults"] > 0
    assert column(result, "evictions", memory="pin-cache")[0] > 0
