"""Settings of the network interface's logic and of the memory behind it."""

import dataclasses

from pagewire.native.settings import setting, validate


@dataclasses.dataclass(frozen=True, slots=True)
class NetworkInterfaceConfig:
    """NI FIFO and tasklet batch (MECHANISMS 5)."""

    fifo_depth: int = setting(
        512,
        "entries that the NI FIFO of faulted blocks holds; a full one loses the entry",
        unit="entries",
        minimum=1,
        maximum=512,
    )
    entries_per_tasklet_run: int = setting(
        16,
        "NI FIFO entries that one tasklet run reads at most",
        unit="entries",
        minimum=1,
        maximum=512,
    )

    receive_buffer_blocks: int = setting(
        0,
        "blocks that may wait for the receive engine before a further one is refused (NACK 7, sent again "
        "at once); 0: links hold them at their source instead",
        unit="blocks",
        minimum=0,
        maximum=1024,
    )
    lookahead_blocks: int = setting(
        128,
        "speed of the emulator, not of the machine: blocks of a lone transfer sent before their "
        "answers are physically here, when these are certain; 0 for none",
        unit="blocks",
        minimum=0,
        maximum=256,
    )

    def __post_init__(self) -> None:
        validate("ni", self)


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryBackendConfig:
    """Where page residency comes from: the operating system, or a seeded software page table."""

    backend: str = setting(
        "host",
        "host: mincore and madvise of the process's own pages; model: seeded software page table",
        choices=("host", "model"),
    )
    seed: int = setting(1, "seed of the model's random draws", minimum=0, maximum=2**63 - 1)
    fault_fraction: float = setting(
        0.0,
        "model: probability that a page is absent when a transfer first meets it",
        minimum=0.0,
        maximum=1.0,
    )
    frame_limit_pages: int = setting(
        0,
        "model: frames before the least recently used page is evicted; 0 for no limit",
        unit="pages",
        minimum=0,
        maximum=2**40,
    )

    huge_pages: bool = setting(
        False, "model: every aligned 2 MB is one huge page until a part of it is taken away"
    )
    collapse_fraction: float = setting(
        0.0,
        "model: probability that a transfer finds 2 MB of its resident pages just collapsed into a "
        "huge page, their translations gone",
        minimum=0.0,
        maximum=1.0,
    )

    def __post_init__(self) -> None:
        validate("memory_backend", self)
