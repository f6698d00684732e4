"""MINI figures 4.1 and 4.4: latency and bandwidth of transfers by size over the miss ratio.

The ratio is made, the misses are the mechanism's: a transfer uses a page (or buffer) that is always
used, or one of a round of more of them than the cache has lines, so that it always misses. The
pages are pinned already: what a miss costs is delay, look-up in the driver's table, fill.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pagewire.cli.kit.numbers import mean
from pagewire.cli.kit.result import Column, Options, Panel, Result, Series
from pagewire.lab.buffer import PAGE_BYTES, Buffer
from pagewire.lab.nodes import Nodes
from pagewire.native import check, lib
from pagewire.run.settings.config import Config
from pagewire.run.settings.platform import load as load_platform

RATIOS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
WAYS = 4
ENTRIES = 16 * WAYS
"""Small, but more than NUM_OUTSTANDING: else lines go before what waits for them comes again."""
ROUND = 3 * ENTRIES
"""Pages, or buffers, that always miss: more than the cache has entries."""
NUM_OUTSTANDING = 8
SETTINGS = (
    "run.translation=mini",
    "run.memory=part",
    "memory_backend.backend=model",
    f"mini.vmh_entries={ENTRIES}",
    "mini.vmh_line_pages=1",
    f"mini.vmh_ways={WAYS}",
    f"mini.cbh_entries={ENTRIES}",
    f"mini.cbh_ways={WAYS}",
)
AS_VMMC = ("run.timeout=250us", "firmware.block=4KiB")
SEND, RECEIVE, BUFFER, WRITTEN = "send", "receive", "buffer", "written buffer"
OF_BUFFERS = (BUFFER, WRITTEN)
SIZES = (64, 1024, PAGE_BYTES)
"""At most a page: which page or buffer a transfer uses is what is drawn."""
COUNTERS = {
    SEND: "vmh_misses_send",
    RECEIVE: "vmh_misses_receive",
    BUFFER: "cbh_misses",
    WRITTEN: "cbh_misses",
}
TITLES = {
    SEND: "page misses on sending (write)",
    RECEIVE: "page misses on arrival (write)",
    BUFFER: "buffer misses at the owner (read)",
    WRITTEN: "buffer misses at the owner (write)",
}


def as_vmmc(options: Options, *assignments: str) -> Config:
    """The user's settings; the thesis's timer and packets unless they choose others."""
    chosen = options.settings().sources
    own = [each for each in AS_VMMC if each.partition("=")[0] not in chosen]
    return options.settings(*own, *assignments)


class _Transfers:
    """Two nodes; transfer i uses page or buffer choice[i] at the end that misses, 0 elsewhere."""

    def __init__(self, config: Config, where: str, num_bytes: int) -> None:
        self.nodes = Nodes(config, load_platform(config.run.platform), 2)
        self.where, self.num_bytes = where, num_bytes
        self.near, self.far = (Buffer((ROUND + 1) * PAGE_BYTES) for _ in range(2))
        self.near.touch()
        self.far.touch()
        self.now_ns = 0
        self._keys = [
            self.nodes.register(1, self.far.address, PAGE_BYTES)
            for _ in range(ROUND + 1 if where in OF_BUFFERS else 0)
        ]
        self._whole = self.nodes.register(1, self.far.address, self.far.num_bytes)
        for page in range(ROUND + 1):  # pinned once, and the hot one last
            self.one(page)
        self.one(0)

    def _post(self, page: int, at_ns: int) -> None:
        near, far = self.near.address, self.far.address
        if self.where == BUFFER:
            self.nodes.fetch((0, 1), far, self._keys[page], near, self.num_bytes, at_ns)
            return
        key = self._keys[page] if self.where == WRITTEN else self._whole
        near += page * PAGE_BYTES if self.where == SEND else 0
        far += page * PAGE_BYTES if self.where == RECEIVE else 0
        self.nodes.post_write((0, 1), near, far, self.num_bytes, at_ns, key)

    def one(self, page: int) -> int:
        """Latency of a transfer at rest: until a write has arrived, a read is done."""
        start_ns = self.now_ns
        self._post(page, start_ns)
        times = self.nodes.times()
        self.now_ns = max(times.values()) + 1_000_000
        read, written = (0, lib.PW_HOST_FETCH_DONE), (1, lib.PW_HOST_ARRIVED)
        return times[read if self.where == BUFFER else written] - start_ns

    def stream_mbps(self, pages: Sequence[int]) -> float:
        """Rate in MB/s, NUM_OUTSTANDING transfers on their way at a time."""
        start_ns = end_ns = self.now_ns
        waiting = iter(pages)
        done_kind = lib.PW_HOST_FETCH_DONE if self.where == BUFFER else lib.PW_HOST_WRITE_DONE

        def handle(node: int, event: Any) -> None:
            nonlocal end_ns
            check(event.error, "transfer")
            end_ns = max(end_ns, event.time_ns)
            page = next(waiting, None) if event.kind == done_kind else None
            if page is not None:
                self._post(page, event.time_ns)

        for _ in range(NUM_OUTSTANDING):
            self._post(next(waiting), start_ns)
        self.nodes.watch(handle)
        self.now_ns = end_ns + 1_000_000
        return len(pages) * self.num_bytes * 1e3 / (end_ns - start_ns)


def _choices(count: int, ratio: float, seed: int) -> list[int]:
    """Page 0 is always used; the others take turns, each of them a miss."""
    draw = random.Random(seed)
    cold = itertools.cycle(range(1, ROUND + 1))
    return [next(cold) if draw.random() < ratio else 0 for _ in range(count)]


def _measure(
    config: Config, where: str, num_bytes: int, ratio: float, count: int
) -> dict[str, float | str]:
    transfers = _Transfers(config, where, num_bytes)
    choices = _choices(2 * count, ratio, 1)
    pages, streamed = choices[:count], choices[count:]
    before = transfers.nodes.counters()
    latency_us = mean([transfers.one(page) / 1e3 for page in pages])
    after = transfers.nodes.counters()
    return {
        "where": TITLES[where],
        "bytes": num_bytes,
        "made": 100 * ratio,
        "seen": 100 * (after[COUNTERS[where]] - before[COUNTERS[where]]) / count,
        "latency_us": latency_us,
        "mbps": transfers.stream_mbps(streamed),
        "retried": (after["blocks_dropped"] - before["blocks_dropped"])
        + (after["requests_retried"] - before["requests_retried"]),
    }


def over_misses(options: Options, ends: Mapping[str, str]) -> Result:
    """Over the miss ratio; ends: titles of lines by where they miss."""
    config = as_vmmc(options, *SETTINGS)
    count, ratios = options.pick(60, 400, 4000), options.pick((0.0, 0.1, 1.0), RATIOS)
    lines_of = list(itertools.product(ends, options.pick((64, PAGE_BYTES), SIZES)))
    cases = {
        f"{TITLES[where]}, {num_bytes} B, {ratio:.0%}": (where, num_bytes, ratio)
        for where, num_bytes in lines_of
        for ratio in ratios
    }
    measures = {label: partial(_measure, config, *case, count) for label, case in cases.items()}
    rows = list(options.points.measure(measures).values())

    def lines(key: str) -> list[Series]:
        return [
            Series.of(
                f"{ends[where]}, {num_bytes} B",
                [row for row in rows if (row["where"], row["bytes"]) == (TITLES[where], num_bytes)],
                "seen",
                key,
            )
            for where, num_bytes in lines_of
        ]

    return Result(
        columns=[
            Column("where", "misses"),
            Column("bytes", "size", "B"),
            Column("made", "made", "%", 1),
            Column("seen", "miss ratio", "%", 1),
            Column("latency_us", "latency", "us", 1),
            Column("mbps", "bandwidth", "MB/s", 1),
            Column("retried", "sent again"),
        ],
        rows=rows,
        panels=[
            Panel("miss ratio (%)", "mean latency (us)", lines("latency_us")),
            Panel("miss ratio (%)", "bandwidth (MB/s)", lines("mbps")),
        ],
        notes=f"""
            Mean of {count} transfers. Latency: one at a time, until the receiver has the
            bytes. Bandwidth: {NUM_OUTSTANDING} on their way at a time.

            A cache of {ENTRIES} entries, {WAYS} ways, lines of one; what misses is one of a round
            of {ROUND} pages or buffers. Pages are pinned already.

            Timer {(config.run.timeout_ns or 0) // 1000} us: what was dropped on arrival comes again
            then, and what that node sent behind it. On sending the block waits.
        """,
        varied={
            "run.translation": "mini",
            "mini.vmh_*, mini.cbh_*": f"{ENTRIES} entries, {WAYS} ways, lines of one",
        },
    )
