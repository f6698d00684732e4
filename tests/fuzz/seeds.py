"""First inputs of the fuzzers: cases that once hung or crashed, and programs of random bytes.

An input is a program for its target: tests/fuzz/fuzz_TARGET.c says what each byte decides, and any
bytes are one. Only a node file is what it looks like. What a fuzzer found is beside this file, in
corpus/TARGET.
"""

import pathlib
import random
import struct
from collections.abc import Sequence

from pagewire.replay import records
from pagewire.run.settings import node_file
from pagewire.run.settings.config import load
from pagewire.run.settings.platform import load as load_platform

TARGETS = ("api", "config", "fabric", "frames", "messages", "trace", "wire")
RANDOM_INPUTS = 32
RANDOM_INPUTS_OF = {"fabric": 8}
"""Where closing waits for messages that nobody receives, an input takes seconds."""
RANDOM_BYTES_MAX = 600


def write(target: str, folder: pathlib.Path) -> None:
    """Write the first inputs of a target, each in a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {"api": _api, "config": _config, "frames": _frames, "trace": _trace}
    for name, content in named.get(target, dict)().items():
        (folder / name).write_bytes(content)
    if target == "config":
        return
    for number in range(RANDOM_INPUTS_OF.get(target, RANDOM_INPUTS)):
        draw = random.Random(f"{target} {number}")
        content = draw.randbytes(draw.randrange(20, RANDOM_BYTES_MAX))
        (folder / f"random-{number}").write_bytes(content)


# ---- api: two nodes, settings as texts, then calls

WHERE_AREA, WHERE_BEHIND, WHERE_KERNEL, WHERE_END, WHERE_LOW = 0, 4, 5, 6, 7


def _begin(*settings: str) -> bytes:
    texts = (bytes([250, 0, 0, len(text)]) + text.encode() for text in settings)
    return bytes([0, len(settings)]) + b"".join(texts)


def _address(where: int, offset: int) -> bytes:
    return bytes([where]) + offset.to_bytes(3, "little")


def _write(where: int, offset: int, num_bytes: int) -> bytes:
    """Node 0 writes to node 1: no key is known, no options."""
    source = _address(WHERE_AREA, 0)
    size = bytes([0]) + struct.pack("<H", num_bytes)
    return bytes([0]) + source + size + _address(where, offset) + bytes(8) + bytes([1, 0])


def _api() -> dict[str, bytes]:
    model = "memory_backend.backend=model"
    stall = "smmu.mode=stall"
    ends = _write(WHERE_END, 4096, 4096) + _write(WHERE_END, 1, 1) + _write(WHERE_END, 4096, 9000)
    nowhere = _write(WHERE_BEHIND, 8191, 30000) + _write(WHERE_KERNEL, 0, 4096)
    nowhere += _write(WHERE_LOW, 8, 4096)
    there = _write(WHERE_AREA, 1, 40000)
    cases = {
        "write-to-the-end-of-the-address-space": _begin() + ends + there,
        "write-to-what-is-not-mapped": _begin() + nowhere + there,
        "model-not-mapped": _begin(model) + nowhere + there,
        "model-stall-not-mapped": _begin(model, stall) + nowhere + ends + there,
        "stall-not-mapped": _begin(stall) + nowhere + ends + there,
    }
    for frames in (8, 16):
        limit = f"memory_backend.frame_limit_pages={frames}"
        for policy in ("page", "block"):
            name = f"model-of-{frames}-frames-{policy}"
            cases[name] = _begin(model, limit, f"run.policy={policy}") + there
    return cases


# ---- frames: settings, an impairment, then operations

HOST_BACKEND = 1 << 16
ODD_ADDRESSES = 10


def _watched_write(num_bytes: int) -> bytes:
    """Node 2 writes to node 0."""
    return bytes([2, 2]) + struct.pack("<HHHB", num_bytes, 0, 0, 0)


def _turns(count: int) -> bytes:
    return bytes([5, count - 1])


def _say(back: int, *changes: bytes) -> bytes:
    """A frame that was heard, the back-th before the last, altered, with right checksums."""
    return bytes([15, 1 | 64, back, len(changes)]) + b"".join(changes)


def _set_address(which: int, odd: int) -> bytes:
    return bytes([0, which, 6]) + odd.to_bytes(3, "little")


def _frames() -> dict[str, bytes]:
    cases = {}
    honest = bytes([0, 0]) + struct.pack("<HHBB", 30000, 0, 0, 0)
    honest += bytes([1, 1]) + struct.pack("<HHBB", 30000, 0, 0, 0)
    for name, settings in {"host": HOST_BACKEND, "model": 0, "stall": 3 << 3}.items():
        begin = struct.pack("<IB", settings, 0)
        said = b"".join(
            _say(back, _set_address(0, odd), _set_address(1, odd))
            for back in range(4)
            for odd in range(ODD_ADDRESSES)
        )
        start = honest + _watched_write(40000) + _turns(1)
        cases[f"blocks-to-nowhere-{name}"] = begin + start + said + bytes([7, 0]) + _turns(4)
        repeated = b"".join(_say(back) for back in range(24))
        cases[f"repeated-{name}"] = begin + start + repeated + bytes([7, 0]) + _turns(16)
    return cases


# ---- config: the node file itself, and durations


def _config() -> dict[str, bytes]:
    cases = {"durations": struct.pack("<4q", 1, 2_000_000, 0, -1)}
    for name, settings in {
        "default": [],
        "impaired": ["impairments.packet_loss=1:100:7", "impairments.delay=1:2:3:4"],
        "model": ["memory_backend.backend=model", "smmu.mode=stall", "run.policy=all"],
    }.items():
        config = load(settings, environ={})
        platform = load_platform(config.run.platform)
        cases[name] = node_file.content(config, platform, num_ranks=2)
    return cases


# ---- trace: how, then for each rank its records and other streams, each behind its length


def _program(how: int, *ranks: Sequence[records.Record]) -> bytes:
    content = bytes([how])
    for each in ranks:
        made = b"".join(map(records.encode, [records.Name(0, "Call"), *each]))
        content += struct.pack("<H", len(made)) + made + bytes([2, 1, 0, 0, 0, 0, 0, 0])
    return content


def _trace() -> dict[str, bytes]:
    """A message, a probe, a receive of several, a meeting; under all strategies."""
    enter, leave, end = records.Call(0), records.Leave(), records.End()
    cases = {}
    for how in range(8):
        send = records.Send(1, 7, 0, 0, 50_000, 0, 0)
        receive = records.Receive(0, 7, 0, 0, 50_000, 1, 0)
        done, meet = records.Done(0), records.Meet(3, 2)
        cases[f"message-{how}"] = _program(
            how,
            [records.Pages(0, 0, 13, 1), records.Compute(9), enter, send, done, meet, leave, end],
            [enter, receive, done, meet, leave, records.Unmap(1, 0, 13), records.Fork(), end],
        )
    short = records.Send(1, 7, 4, 0, 8, 0, 0)
    found = records.Found(0, 7, 4, 0, records.TAKEN | records.WAITED)
    several = records.Receive(None, 7, 4, 0, 64, 1, 0, records.MULTI)
    part = [records.Part(0, 0, 0), records.Done(0)]
    cases["probe"] = _program(
        0,
        [enter, short, leave, end],
        [enter, found, records.Take(0, 8, 1, 0), records.Done(0), leave, end],
    )
    cases["several"] = _program(
        8,
        [enter, short, short, leave, end],
        [enter, several, *part, records.Cancel(1), leave, end],
    )
    shared = records.Register(50_000, 1, 0)
    others = [
        records.Put(0, 50_000, 0, 0, 1, 0), records.Get(0, 50_000, 0, 0, 1, 0, 2),
        records.Atomic(0, 8, 1, 8, 48, 24), records.Done(0), records.Done(1), records.Done(2),
    ]  # fmt: skip
    for how in range(8):
        cases[f"one-sided-{how}"] = _program(
            how, [enter, shared, meet, meet, leave, records.Deregister(0), end],
            [enter, meet, *others, meet, leave, end],
        )  # fmt: skip
    verified = bytearray(cases["message-0"])
    verified[0] = 16
    cases["turns"] = bytes(verified[:-2]) + bytes([6, 2, 3, 1, 1, 0, 200, 1, 0])
    return cases
