"""What a rank did, as records of a trace: their fields, and how they are written in bytes.

Opcodes and flags are those of node/record/pwt_format.h; docs/trace-format.md tells what each one
means. A record is an object of the class that has its name; its fields are in the file's order.
"""

import dataclasses
import operator
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from pagewire.native import lib
from pagewire.native.settings import ConfigError

SYNCHRONOUS = int(lib.PW_SEND_SYNCHRONOUS)
HAS_DATA = int(lib.PW_SEND_HAS_DATA)
WAS_EAGER = int(lib.PW_SEND_WAS_EAGER)
UNSIZED = int(lib.PW_RECEIVE_UNSIZED)
IGNORES = int(lib.PW_RECEIVE_IGNORES)
MULTI = int(lib.PW_RECEIVE_MULTI)
IN_ORDER = int(lib.PW_RECEIVE_IN_ORDER)
WAITED = int(lib.PW_FOUND_WAITED)
TAKEN = int(lib.PW_FOUND_TAKEN)
REGISTER_READ = int(lib.PW_REGISTER_READ)
REGISTER_WRITE = int(lib.PW_REGISTER_WRITE)
REGISTER_ALL = int(lib.PW_REGISTER_ALL)
KEY_NONE = int(lib.PW_KEY_NONE)
KEY_NEW = int(lib.PW_KEY_NEW)

LONGEST = 1 << 64
"""Numbers of a trace are below."""


class TraceError(ConfigError):
    """A trace that cannot be read or made; the text says which part, and why."""


@dataclasses.dataclass(slots=True)
class Record:
    """Not frozen, since a frozen one takes four times as long to make."""

    op: ClassVar[int]
    SIGNED: ClassVar[tuple[str, ...]] = ()
    """Fields that may be negative."""


@dataclasses.dataclass(slots=True)
class End(Record):
    op = int(lib.PW_OP_END)


@dataclasses.dataclass(slots=True)
class Compute(Record):
    op = int(lib.PW_OP_COMPUTE)
    ns: int


@dataclasses.dataclass(slots=True)
class Name(Record):
    op = int(lib.PW_OP_NAME)
    idx: int
    text: str


@dataclasses.dataclass(slots=True)
class Call(Record):
    op = int(lib.PW_OP_CALL)
    name_idx: int


@dataclasses.dataclass(slots=True)
class Enter(Record):
    op = int(lib.PW_OP_ENTER)


@dataclasses.dataclass(slots=True)
class Leave(Record):
    op = int(lib.PW_OP_LEAVE)


@dataclasses.dataclass(slots=True)
class Send(Record):
    op = int(lib.PW_OP_SEND)
    SIGNED = ("offset",)
    peer: int
    context: int
    tag: int
    source: int
    num_bytes: int
    region: int
    offset: int
    flags: int = 0
    data: int = 0


@dataclasses.dataclass(slots=True)
class Receive(Record):
    """peer: None for any."""

    op = int(lib.PW_OP_RECEIVE)
    SIGNED = ("offset",)
    peer: int | None
    context: int
    tag: int
    source: int
    num_bytes: int
    region: int
    offset: int
    flags: int = 0
    ignored: int = 0


@dataclasses.dataclass(slots=True)
class Done(Record):
    op = int(lib.PW_OP_DONE)
    operation: int


@dataclasses.dataclass(slots=True)
class Told(Record):
    op = int(lib.PW_OP_TOLD)
    operation: int


@dataclasses.dataclass(slots=True)
class Looks(Record):
    op = int(lib.PW_OP_LOOKS)
    count: int
    ns: int


@dataclasses.dataclass(slots=True)
class Read(Record):
    op = int(lib.PW_OP_READ)


@dataclasses.dataclass(slots=True)
class Sleep(Record):
    op = int(lib.PW_OP_SLEEP)
    ns: int


@dataclasses.dataclass(slots=True)
class Pass(Record):
    op = int(lib.PW_OP_PASS)
    SIGNED = ("ns",)
    ns: int


@dataclasses.dataclass(slots=True)
class Meet(Record):
    op = int(lib.PW_OP_MEET)
    group: int
    members: int


@dataclasses.dataclass(slots=True)
class Found(Record):
    op = int(lib.PW_OP_FOUND)
    peer: int
    context: int
    tag: int
    source: int
    flags: int = 0


@dataclasses.dataclass(slots=True)
class Take(Record):
    op = int(lib.PW_OP_TAKE)
    SIGNED = ("offset",)
    operation: int
    num_bytes: int
    region: int
    offset: int
    flags: int = 0


@dataclasses.dataclass(slots=True)
class Cancel(Record):
    op = int(lib.PW_OP_CANCEL)
    operation: int


@dataclasses.dataclass(slots=True)
class Pages(Record):
    op = int(lib.PW_OP_PAGES)
    SIGNED = ("page",)
    region: int
    page: int
    count: int
    state: int


@dataclasses.dataclass(slots=True)
class Unmap(Record):
    op = int(lib.PW_OP_UNMAP)
    SIGNED = ("page",)
    region: int
    page: int
    count: int


@dataclasses.dataclass(slots=True)
class Fork(Record):
    op = int(lib.PW_OP_FORK)


@dataclasses.dataclass(slots=True)
class Region(Record):
    """A phase of the program begins; memory has regions by number."""

    op = int(lib.PW_OP_REGION)
    text: str


@dataclasses.dataclass(slots=True)
class Left(Record):
    op = int(lib.PW_OP_LEFT)


@dataclasses.dataclass(slots=True)
class Lost(Record):
    op = int(lib.PW_OP_LOST)
    text: str


@dataclasses.dataclass(slots=True)
class Part(Record):
    op = int(lib.PW_OP_PART)
    operation: int
    peer: int
    source: int


@dataclasses.dataclass(slots=True)
class Register(Record):
    """Peers may use this memory; flags: rights."""

    op = int(lib.PW_OP_REGISTER)
    SIGNED = ("offset",)
    num_bytes: int
    region: int
    offset: int
    flags: int = REGISTER_READ | REGISTER_WRITE


@dataclasses.dataclass(slots=True)
class Deregister(Record):
    op = int(lib.PW_OP_DEREGISTER)
    registration: int


@dataclasses.dataclass(slots=True)
class _Transfer(Record):
    """A remote region is numbered as the rank's own ones are; key: PW_KEY_* (pwt_format.h)."""

    SIGNED = ("offset", "remote_offset")
    peer: int
    num_bytes: int
    region: int
    offset: int
    remote_region: int
    remote_offset: int
    key: int = KEY_NEW


@dataclasses.dataclass(slots=True)
class Put(_Transfer):
    op = int(lib.PW_OP_PUT)


@dataclasses.dataclass(slots=True)
class Get(_Transfer):
    op = int(lib.PW_OP_GET)


@dataclasses.dataclass(slots=True)
class Atomic(Record):
    op = int(lib.PW_OP_ATOMIC)
    SIGNED = ("remote_offset",)
    peer: int
    num_bytes: int
    remote_region: int
    remote_offset: int
    request_bytes: int
    answer_bytes: int


class _Layout:
    """How records of a class are written: numbers, of which some are signed, and a tail."""

    def __init__(self, cls: type[Record]) -> None:
        self.cls = cls
        self.names = tuple(
            each.name
            for each in dataclasses.fields(cls)
            if each.name not in ("text", "data", "ignored")
        )
        self.signed = tuple(self.names.index(name) for name in cls.SIGNED)
        getter = operator.attrgetter("op", *self.names)
        self.values: Callable[[Record], Any] = getter if self.names else lambda _: (cls.op,)


CLASSES: tuple[type[Record], ...] = (
    End, Compute, Name, Call, Enter, Leave, Send, Receive, Done, Told, Looks, Read, Sleep, Pass,
    Meet, Found, Take, Cancel, Pages, Unmap, Fork, Region, Left, Lost,
    Part, Register, Deregister, Put, Get, Atomic,
)  # fmt: skip
_LAYOUTS = {cls: _Layout(cls) for cls in CLASSES}
_BY_OPCODE = {layout.cls.op: layout for layout in _LAYOUTS.values()}
_TEXTS = (Name, Region, Lost)
_MORE: dict[type[Record], int] = {Send: HAS_DATA, Receive: IGNORES}
"""The flag with which one more number follows."""

NAMES = {layout.cls.op: cls.__name__ for cls, layout in _LAYOUTS.items()}
"""Of all opcodes."""


def number(value: int) -> bytes:
    """An unsigned number, LEB128."""
    if not 0 <= value < LONGEST:
        raise TraceError(f"{value} is no number of a trace; allowed is 0 to 2^64 - 1")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> int:
    """0, -1, 1, -2 ... as 0, 1, 2, 3 ..."""
    return value * 2 if value >= 0 else -2 * value - 1


def unzigzag(value: int) -> int:
    """The other way."""
    return -(value + 1 >> 1) if value & 1 else value >> 1


def encode(record: Record) -> bytes:
    """The bytes of a record."""
    layout = _LAYOUTS[type(record)]
    values = layout.values(record)
    if layout.signed or values[-1] is None or isinstance(record, Receive):
        values = list(values)
        for idx in layout.signed:
            values[idx + 1] = zigzag(values[idx + 1])
        if isinstance(record, Receive):
            values[1] = 0 if record.peer is None else record.peer + 1
    if 0 <= min(values) and max(values) < 128:
        out = bytes(values)
    else:
        out = b"".join(map(number, values))
    if isinstance(record, _TEXTS):
        text = record.text.encode()
        return out + number(len(text)) + text
    if isinstance(record, Send) and record.flags & HAS_DATA:
        return out + number(record.data)
    if isinstance(record, Receive) and record.flags & IGNORES:
        return out + number(record.ignored)
    return out


def read_number(data: bytes, pos: int) -> tuple[int, int]:
    """A number and where the next begins; raises IndexError at the end of the data."""
    value = data[pos]
    if value < 128:
        return value, pos + 1
    value &= 127
    shift = 7
    while True:
        pos += 1
        byte = data[pos]
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    if value >= LONGEST:
        raise TraceError("a number is longer than 64 bits")
    return value, pos + 1


def read_numbers(data: bytes) -> Iterator[int]:
    """All numbers of bytes that hold nothing else."""
    pos = 0
    while pos < len(data):
        try:
            value, pos = read_number(data, pos)
        except IndexError:
            raise TraceError(f"the number at byte {pos} is cut off") from None
        yield value


def decode(data: bytes) -> Iterator[Record]:
    """The records of a chunk's raw bytes; raises TraceError with the byte where one is wrong."""
    pos = 0
    while pos < len(data):
        layout = _BY_OPCODE.get(data[pos])
        if layout is None:
            raise TraceError(f"byte {pos}: {data[pos]} is no opcode that this version knows")
        try:
            record, pos = _read(layout, data, pos + 1)
        except IndexError:
            raise TraceError(f"byte {pos}: {layout.cls.__name__} is cut off") from None
        except UnicodeDecodeError:
            raise TraceError(f"byte {pos}: {layout.cls.__name__} has no text in UTF-8") from None
        except TraceError as error:
            raise TraceError(f"byte {pos}: {layout.cls.__name__}: {error}") from None
        yield record


def _read(layout: _Layout, data: bytes, pos: int) -> tuple[Record, int]:
    values: list[Any] = []
    for _ in layout.names:
        value = data[pos]
        if value < 128:
            pos += 1
        else:
            value, pos = read_number(data, pos)
        values.append(value)
    for idx in layout.signed:
        values[idx] = unzigzag(values[idx])
    cls = layout.cls
    if cls is Receive:
        values[0] = values[0] - 1 if values[0] else None
    if cls in _MORE and values[-1] & _MORE[cls]:
        more, pos = read_number(data, pos)
        values.append(more)
    elif cls in _TEXTS:
        length, pos = read_number(data, pos)
        if length > len(data) - pos:
            raise IndexError
        values.append(data[pos : pos + length].decode())
        pos += length
    return cls(*values), pos


_RECEIVES = {UNSIZED: "unsized", IGNORES: "ignores", MULTI: "multi", IN_ORDER: "in-order"}
_FLAG_NAMES: dict[type[Record], dict[int, str]] = {
    Send: {SYNCHRONOUS: "synchronous", HAS_DATA: "has-data", WAS_EAGER: "was-eager"},
    Receive: _RECEIVES,
    Take: _RECEIVES,
    Found: {WAITED: "waited", TAKEN: "taken"},
    Register: {REGISTER_READ: "read", REGISTER_WRITE: "write", REGISTER_ALL: "all"},
}


def flag_names(record: Record) -> list[str]:
    """Of the flags that a record has; of an unknown one its number."""
    left = getattr(record, "flags", 0)
    found = []
    for flag, name in _FLAG_NAMES.get(type(record), {}).items():
        if left & flag:
            found.append(name)
            left &= ~flag
    return [*found, *([f"flags={left:#x}"] if left else [])]


def unknown_flags(record: Record) -> int:
    """Flags of a record that this version does not know."""
    return getattr(record, "flags", 0) & ~sum(_FLAG_NAMES.get(type(record), {}))
