"""PART figure 15: policy all under several timeouts, and what overlapping page-in and transfer
gives."""

from pagewire.cli.experiments.part_transfers import LATENCY_NOTE, Lines, measure
from pagewire.cli.kit.numbers import powers_of_two
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series
from pagewire.lab import Lab, Outcome
from pagewire.lab.transfer import all_pages

TIMEOUT_US = 100
"""The timeout whose speedup over none is drawn, and TO of formula (1)."""


def _fault(lab: Lab, num_bytes: int) -> Outcome:
    return lab.write(num_bytes, absent="all")


LINES: Lines = {
    "timeout_1ms": ("timeout 1 ms", _fault, ("run.policy=all", "run.timeout=1ms")),
    "timeout_500us": ("timeout 500 us", _fault, ("run.policy=all", "run.timeout=500us")),
    "timeout_100us": ("timeout 100 us", _fault, ("run.policy=all", f"run.timeout={TIMEOUT_US}us")),
    "none": ("none (NTO)", _fault, ("run.policy=all", "run.nack_cancels_timer=true")),
    "transfer": ("T(n), no fault", lambda lab, num_bytes: lab.write(num_bytes), ()),
}


def figure_15(options: Options) -> Result:
    """Latency by timeout, speedup of the shortest over none, and formula (1) beside it."""
    sizes = powers_of_two(4096, options.pick(64 << 10, 4 << 20))
    rows, deviation_note = measure(options, LINES, sizes)
    _add_formula(options, rows)
    return Result(
        columns=[
            SIZE,
            *(Column(key, title, "us", 1) for key, (title, _, _) in LINES.items()),
            Column("page_in", "G(n)", "us", 1),
            Column("speedup", "speedup", "x"),
            Column("formula", "formula (1)", "x"),
        ],
        rows=rows,
        panels=_panels(rows),
        notes=f"""
            none (NTO): a page-fault NACK stops the block's timer and only the ERR resumes it.

            Formula (1): s(n) = (G(n) + T(n)) / max(G(n), TO + T(n)), TO = 100 us; G from the
            platform's page-in costs (fixed, and for each page), T measured without faults. It means
            something where G(n) is above TO; below, it falls under 1 because it takes the timeout
            to be what resumes the transfer, while here the ERR comes first.

            {deviation_note}

            {LATENCY_NOTE}
        """,
        varied={"run.policy": "all", "run.timeout": "1ms, 500us, 100us; none: NTO"},
    )


def _add_formula(options: Options, rows: list[dict[str, float]]) -> None:
    """Page-in time, measured speedup and the formula's, into each row."""
    costs = options.platform().costs
    for row in rows:
        num_pages = len(all_pages(int(row["num_bytes"])))
        page_in_us = (costs.page_in_fixed_ns + num_pages * costs.page_in_page_ns) / 1e3
        row["page_in"] = page_in_us
        if not {"none", "timeout_100us", "transfer"} <= row.keys():
            continue  # of an experiment that was stopped
        row["speedup"] = row["none"] / row["timeout_100us"]
        row["formula"] = (page_in_us + row["transfer"]) / max(
            page_in_us, TIMEOUT_US + row["transfer"]
        )


def _panels(rows: list[dict[str, float]]) -> list[Panel]:
    titles = {key: title for key, (title, _, _) in LINES.items()}
    latency = Series.over_sizes(rows, titles, dashed="transfer")
    full = [row for row in rows if "speedup" in row]
    above = [row for row in full if row["page_in"] > TIMEOUT_US]
    speedup = [
        Series.of("measured: none / 100 us", full, "num_bytes", "speedup"),
        Series.of("formula (1), G(n) above TO", above, "num_bytes", "formula", dashed=True),
    ]
    return [
        Panel.over_bytes("transfer size", "latency (us)", latency, title="latency"),
        Panel.over_bytes(
            "transfer size", "speedup (x)", speedup, log_y=False, title="timeout 100 us over none"
        ),
    ]
