"""Settings of the network interface's logic and of the memory behind it."""

import dataclasses

from pagewire.native import lib
from pagewire.native.settings import millionths, setting, validate


@dataclasses.dataclass(frozen=True, slots=True)
class NetworkInterfaceConfig:
    """NI FIFO, link and what the NI serves."""

    fifo_depth: int = setting(
        512,
        "entries of the NI FIFO; when it is full, further faults are not logged",
        unit="entries",
        minimum=1,
        maximum=512,
        engine="ni_fifo_depth",
    )
    receive_buffer_blocks: int = setting(
        0,
        "blocks that may wait for the receive engine; one more is refused (NACK 7) and sent again "
        "at once; 0: links hold blocks at their source instead",
        unit="blocks",
        minimum=0,
        maximum=1024,
        engine="receive_buffer_blocks",
    )
    lookahead_blocks: int = setting(
        128,
        "speed of the emulator, not of the machine: blocks of a lone transfer sent before their "
        "answers are physically here, when these are certain; 0 for none",
        unit="blocks",
        minimum=0,
        maximum=256,
        engine="lookahead_blocks",
    )

    interleave: str = setting(
        "none",
        "how the packets of the two outstanding blocks of a transfer share the link: none: one "
        "block after the other; packet: they take turns",
        choices={"none": int(lib.PW_INTERLEAVE_NONE), "packet": int(lib.PW_INTERLEAVE_PACKET)},
        engine="interleave",
    )
    reads_without_key: bool = setting(
        False,
        "serve remote reads with key 0, which the protection domain (PDID) alone then guards; "
        "otherwise they are refused",
        engine="reads_without_key",
    )

    def __post_init__(self) -> None:
        validate("ni", self)


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryBackendConfig:
    """Where page residency comes from: the operating system, or a seeded software page table."""

    backend: str = setting(
        "host",
        "host: mincore and madvise of the process's own pages; model: seeded software page table",
        choices={"host": int(lib.PW_MEMORY_HOST), "model": int(lib.PW_MEMORY_MODEL)},
        engine="memory_backend",
    )
    seed: int = setting(
        1,
        "seed of the model's random draws",
        minimum=0,
        maximum=2**63 - 1,
        engine="model_seed",
    )
    fault_fraction: float = setting(
        0.0,
        "model: probability that a page is absent when a transfer first meets it",
        minimum=0.0,
        maximum=1.0,
        encode=millionths,
        engine="model_fault_millionths",
    )
    frame_limit_pages: int = setting(
        0,
        "model: frames before the least recently used page is evicted; 0 for no limit",
        unit="pages",
        minimum=0,
        maximum=2**40,
        engine="model_frame_limit_pages",
    )

    huge_pages: bool = setting(
        False,
        "model: every aligned 2 MB is one huge page until a part of it is taken away",
        engine="model_huge_pages",
    )
    collapse_fraction: float = setting(
        0.0,
        "model: probability that a transfer finds 2 MB of its resident pages just collapsed into a "
        "huge page, their translations gone",
        minimum=0.0,
        maximum=1.0,
        encode=millionths,
        engine="model_collapse_millionths",
    )

    def __post_init__(self) -> None:
        validate("memory_backend", self)
