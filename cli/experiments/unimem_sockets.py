"""Stream sockets over RDMA in virtual time, by size and ring; and what the kernel's TCP takes here
in wall time, which is another machine and another clock."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pagewire.cli.experiments import unimem_loopback
from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.kit.numbers import content, powers_of_two, size_text
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series
from pagewire.native import EngineError, lib
from pagewire.unimem.streams.stream_nodes import Stream, StreamNodes

RINGS = (4096, 65536, 1 << 20)
_NUM_PINGS = 2
_PORT = 80
_WALL_LIMIT_S = 300
_PROGRAM = "pagewire.cli.experiments.unimem_loopback"
_EMULATED_PORT = "5001"

Found = list[list[float]]
"""Of each size: latency in us, rate in MB/s."""


def _move(nodes: StreamNodes, source: Stream, target: Stream, data: bytes, count: int) -> None:
    """Send it so often, and read it to the last byte."""
    num_sent = num_here = 0
    total = len(data) * count
    while num_here < total:
        while num_sent < total:
            at = num_sent % len(data)
            sent = source.send(memoryview(data)[at:])
            num_sent += sent
            if sent == 0:
                break
        node = nodes.step()
        if node is None:
            raise EngineError(int(lib.PW_ERR_HOST), f"{num_here} of {total} bytes: no more come")
        if node != target.node:
            continue
        for got in target.received():
            at = num_here % len(data)
            if not _goes_on(got, data, at):
                raise EngineError(int(lib.PW_ERR_HOST), f"{len(data)} bytes: wrong data")
            num_here += len(got)


def _goes_on(got: bytes, data: bytes, at: int) -> bool:
    """Does the stream of `data` again and again go on like this at `at`?"""
    times = (at + len(got)) // len(data) + 1
    return (data * times)[at : at + len(got)] == got


def virtual(options: Options, ring_bytes: int, sizes: Sequence[int]) -> Found:
    """By streams of two nodes whose rings have been gone through before."""
    config = options.settings()
    found = []
    with StreamNodes([config, config], num_connections=1, ring_bytes=ring_bytes) as nodes:
        nodes.listen(1, _PORT, 1)
        near, far = nodes.join(0, 1, _PORT)
        warm = content(ring_bytes)
        for source, target in ((near, far), (far, near)):
            _move(nodes, source, target, warm, 1)
        for num_bytes in sizes:
            data = content(num_bytes)
            begin_ns = nodes.now_ns(0)
            for _ in range(_NUM_PINGS):
                _move(nodes, near, far, data, 1)
                _move(nodes, far, near, data, 1)
            one_way_ns = (nodes.now_ns(0) - begin_ns) / _NUM_PINGS / 2
            count = unimem_loopback.num_streamed(num_bytes)
            begin_ns = nodes.now_ns(0)
            _move(nodes, near, far, data, count)
            _move(nodes, far, near, b"!", 1)
            rate = count * num_bytes * 1e3 / (nodes.now_ns(0) - begin_ns)
            found.append([one_way_ns / 1e3, rate])
    return found


def _run(command: Sequence[str], options: Options, sizes: Sequence[int], path: str) -> Found:
    environ = dict(options.environ)
    environ[unimem_loopback.SIZES_VARIABLE] = " ".join(map(str, sizes))
    ran = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environ, timeout=_WALL_LIMIT_S
    )
    if ran.returncode:
        raise EngineError(int(lib.PW_ERR_HOST), f"{command[1:4]}: {ran.stderr.strip()[-400:]}")
    measured = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    return [[seconds * 1e6, rate / 1e6] for _, seconds, rate in measured]


def by_wall_clock(options: Options, sizes: Sequence[int], *, is_emulated: bool) -> Found:
    """By the kernel's TCP over loopback; or the same program by `pagewire sockets`: how quick the
    emulator is."""
    with guarded_folder("pagewire-loopback-") as folder:
        path = f"{folder}/times.json"
        program = [sys.executable, "-m", _PROGRAM, path]
        if not is_emulated:
            return _run([*program, "both"], options, sizes, path)
        command = [sys.executable, "-m", "pagewire", "sockets", "-n", "2"]
        for name, text in options.settings().not_default().items():
            command += ["--set", f"{name}={text}"]
        command += ["--", *program, "serve", _EMULATED_PORT, ":"]
        return _run([*command, *program, "ask", "10.77.0.1", _EMULATED_PORT], options, sizes, path)


def sizes_of(options: Options) -> list[int]:
    sizes = powers_of_two(64, 1 << 20)
    chosen: list[int] = options.pick([64, 65536], sizes[::2], sizes)
    return chosen


NOTES = """
    Virtual columns are times of the emulated machine, wall columns of this host: never divide one
    by the other. Wall columns differ from run to run; virtual ones do not.

    One way: half a ping-pong, in the wall columns half of the median. Rate: messages of that size
    one behind the other, at most 1024 or 4 MiB, until an answer of a byte is back.

    Virtual: node 0 to node 1, one hop. Copies into and out of the rings take time (tables.copy);
    system calls and what the programs compute take none. All pages of the rings have been used
    before.

    TCP: two Python processes over 127.0.0.1 of this host. Emulator: the same program under
    `pagewire sockets`, ring 64 KiB: how long one waits for it.
"""


def sockets(options: Options) -> Result:
    """Latency and rate by size: virtual time by ring, wall time of TCP and of the emulator."""
    sizes = sizes_of(options)
    lines: dict[str, tuple[str, Callable[[], Found]]] = {
        f"virtual_{ring}": (
            f"virtual, ring {size_text(ring)}",
            partial(virtual, options, ring, sizes),
        )
        for ring in options.pick(RINGS[1:2], RINGS)
    }
    wall = partial(by_wall_clock, options, sizes)
    lines["wall_tcp"] = "TCP loopback, wall", partial(wall, is_emulated=False)
    lines["wall_emulator"] = "emulator, wall", partial(wall, is_emulated=True)
    found = options.points.measure(dict(lines.values()))
    keys = {title: key for key, (title, _) in lines.items() if title in found}
    rows: list[dict[str, Any]] = [{"num_bytes": size} for size in sizes]
    for title, outcome in found.items():
        for row, (latency, rate) in zip(rows, outcome, strict=True):
            row[f"latency_{keys[title]}"] = latency
            row[f"rate_{keys[title]}"] = rate
    return Result(
        columns=[
            SIZE,
            *(
                Column(f"{what}_{key}", f"{what}, {title}", unit, decimals)
                for what, unit, decimals in (("latency", "us", 2), ("rate", "MB/s", 1))
                for title, key in keys.items()
            ),
        ],
        rows=rows,
        panels=[
            Panel.over_bytes(
                "size",
                label,
                [
                    Series.of(
                        title, rows, "num_bytes", f"{what}_{key}", dashed=title.endswith("wall")
                    )
                    for title, key in keys.items()
                ],
            )
            for what, label in (("latency", "one way (us)"), ("rate", "rate (MB/s)"))
        ],
        notes=NOTES,
        numbers=(
            "virtual: clocks of the nodes' CPUs, from the component costs of the platform file; "
            "wall: perf_counter of this host"
        ),
    )
