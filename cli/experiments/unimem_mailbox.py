"""Small data to another node: through its mailbox, word by word by both cores, or by RDMA."""

import struct
from collections.abc import Callable, Sequence
from functools import partial

from pagewire.cli.experiments.r5_bench import Bench
from pagewire.cli.experiments.unimem_atomics import NUMBERS
from pagewire.cli.kit.numbers import content, powers_of_two, size_text
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series
from pagewire.native import EngineError, lib
from pagewire.unimem.machine import Machine
from pagewire.unimem.thread import Thread

FIFO = 1
"""Of the receiving thread, its node's first one."""
BASE = 0x40
"""BASE_DEST: where the mailboxes begin, in a packet's destination."""
_EMPTY = (0xCAFEFEBEDEADBEAF, 0xCAFEFEBEDEADBEAF)
"""What an empty FIFO gives."""
_ID_BITS = 48
_WORD = struct.Struct("<QQ")
_PACKET_BYTES = 26
"""What a packet carries beside its sender's id."""
_BURST_WORDS = int(lib.UNIMEM_BURST_MAX_WORDS)

Send = Callable[[Thread, bytes], None]


def _parts(data: bytes, num_bytes: int) -> list[bytes]:
    return [
        data[at : at + num_bytes].ljust(num_bytes, b"\0") for at in range(0, len(data), num_bytes)
    ]


def send_bursts(thread: Thread, data: bytes) -> None:
    """Bursts to the FIFO, as long as they may be; each waits for its answer."""
    words = [_WORD.unpack(part) for part in _parts(data, _WORD.size)]
    for at in range(0, len(words), _BURST_WORDS):
        while not thread.write_mailbox(1, FIFO, words[at : at + _BURST_WORDS]):
            pass


def send_packets(thread: Thread, data: bytes) -> None:
    """Packets of one interface, each when the last one is not pending any more."""
    for part in _parts(data, _PACKET_BYTES):
        while thread.status() & int(lib.PW_PIF_PEND):
            pass
        low, high = _WORD.unpack(part[:10].ljust(_WORD.size, b"\0"))
        thread.write_packetizer(
            int(lib.PW_PIF_PAYLOAD0), low << _ID_BITS & (1 << 64) - 1, low >> 16 | high << 48
        )
        thread.write_packetizer(int(lib.PW_PIF_PAYLOAD1), *_WORD.unpack(part[10:]))
        thread.write_packetizer(int(lib.PW_PIF_DESTINATION), 1 << 34 | BASE << 18 | FIFO << 12)


def receive(thread: Thread, num_words: int) -> tuple[list[tuple[int, int]], int]:
    """Reads its FIFO until so many words are here; these, and when the last one was read."""
    words: list[tuple[int, int]] = []
    while len(words) < num_words:
        words += [word for word in thread.read_mailbox() if word != _EMPTY]
    return words, thread.now_ns


def _bytes(words: Sequence[tuple[int, int]]) -> list[bytes]:
    return [_WORD.pack(*word) for word in words]


def _of_packets(words: Sequence[tuple[int, int]]) -> bytes:
    pairs = zip(_bytes(words[::2]), _bytes(words[1::2]), strict=True)
    return b"".join(first[_ID_BITS // 8 :] + second for first, second in pairs)


WAYS: dict[str, tuple[str, Send, int, int, Callable[[Sequence[tuple[int, int]]], bytes]]] = {
    "bursts": (
        "mailbox, bursts", send_bursts, _WORD.size, 1, lambda words: b"".join(_bytes(words))
    ),
    "packets": ("mailbox, packets", send_packets, _PACKET_BYTES, 2, _of_packets),
}  # fmt: skip
"""Title, how it is sent, bytes of a part and words of the FIFO for it, and what these hold."""


def _through_mailbox(options: Options, way: str, sizes: Sequence[int]) -> list[float]:
    """Until the receiver's core has read all of it, in us."""
    _, send, part_bytes, part_words, data_of = WAYS[way]
    found = []
    with Machine(2, settings=options.settings()) as machine:
        for num_bytes in sizes:
            data = content(num_bytes)
            (begin_ns,) = machine.run((0, lambda thread: thread.now_ns))
            _, (words, end_ns) = machine.run(
                (0, send, data), (1, receive, -(-num_bytes // part_bytes) * part_words), raw=True
            )
            if data_of(words)[:num_bytes] != data:
                raise EngineError(int(lib.PW_ERR_HOST), f"{num_bytes} bytes by {way}: wrong data")
            found.append((end_ns - begin_ns) / 1e3)
    return found


def _by_rdma(options: Options, sizes: Sequence[int]) -> list[float]:
    """Until the notification is in the receiver's memory, in us."""
    bench = Bench(options.settings(), max(sizes))
    return [bench.transfer(num_bytes).notified_ns / 1e3 for num_bytes in sizes]


def _crossover(rows: Sequence[dict[str, float]], key: str) -> str:
    """From which size on RDMA is quicker, of those measured."""
    for row in rows:
        if row["rdma"] < row[key]:
            return f"from {size_text(row['num_bytes'])} on"
    return "at none of these sizes"


def sizes_of(options: Options) -> list[int]:
    """16 B to half of a FIFO's words as they are by default, two sizes an octave."""
    powers = powers_of_two(16, 4096)
    both = sorted({*powers, *(3 * size for size in powers[1:-2])})
    return powers[::4] if options.quick else both


def mailbox(options: Options) -> Result:
    """Mailbox by bursts and by packets, against an RDMA write, by size."""
    sizes = sizes_of(options)
    lines = {
        key: (way[0], partial(_through_mailbox, options, key, sizes)) for key, way in WAYS.items()
    }
    lines["rdma"] = ("RDMA write", partial(_by_rdma, options, sizes))
    found = options.points.measure(dict(lines.values()))
    titles = {key: title for key, (title, _) in lines.items() if title in found}
    rows = [
        {"num_bytes": size, **{key: found[title][place] for key, title in titles.items()}}
        for place, size in enumerate(sizes)
    ]
    crossovers = "".join(
        f"Of these sizes RDMA is quicker than {titles[key]} {_crossover(rows, key)}.\n\n"
        for key in WAYS
        if key in titles and "rdma" in titles
    )
    return Result(
        columns=[SIZE, *(Column(key, title, "us", 3) for key, title in titles.items())],
        rows=rows,
        panels=[Panel.over_bytes("size", "latency (us)", Series.over_sizes(rows, titles))],
        notes=f"""
            {crossovers}Bursts: {_BURST_WORDS} words of {_WORD.size} B at most, written one by one
            by the core, the next burst behind the answer to the last one. Packets: {_PACKET_BYTES}
            B each through one interface of the packetizer, three writes; the next when the last is
            not pending any more.

            Mailbox: from the first write until the receiver's core has read the last word of its
            FIFO; it reads all the time. RDMA: from the user's call until the notification is in the
            receiver's memory, where the data is; pages are resident, TLBs warm.

            One hop: two nodes on one link.
        """,
        numbers=NUMBERS,
    )
