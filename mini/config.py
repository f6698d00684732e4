"""Settings of miNI and of its base system: caches, tables, misses. `run.translation` takes them.

[MINI 1.2, 3, 4]; docs/mini.md.
"""

import dataclasses

from pagewire.native import ffi, lib
from pagewire.native.settings import ConfigError, setting, validate

MISS_TIMES = {
    "platform": int(lib.PW_MISS_TIMES_PLATFORM),
    "water-nsquared": int(lib.PW_MISS_TIMES_WATER_NSQUARED),
    "water-spatial": int(lib.PW_MISS_TIMES_WATER_SPATIAL),
    "fft": int(lib.PW_MISS_TIMES_FFT),
    "radix": int(lib.PW_MISS_TIMES_RADIX),
    "lu": int(lib.PW_MISS_TIMES_LU),
    "ocean": int(lib.PW_MISS_TIMES_OCEAN),
    "volrend": int(lib.PW_MISS_TIMES_VOLREND),
    "raytrace": int(lib.PW_MISS_TIMES_RAYTRACE),
}


@dataclasses.dataclass(frozen=True, slots=True)
class MiniConfig:
    """Caches on the NIC of tables in host memory, or (static) tables on the NIC."""

    processes: int = setting(
        8,
        "processes of a node that the NIC knows, in mini and static",
        unit="processes",
        minimum=1,
        maximum=128,
        engine="mini_processes",
    )
    vmh_entries: int = setting(
        16384,
        "entries of the VMH cache: translations of pages",
        unit="entries",
        minimum=2,
        maximum=1 << 20,
        power_of_two=True,
        engine="vmh_entries",
    )
    vmh_line_pages: int = setting(
        64,
        "entries of a line of it, filled together and aligned",
        unit="pages",
        minimum=1,
        maximum=128,
        power_of_two=True,
        engine="vmh_line_pages",
    )
    vmh_ways: int = setting(
        4,
        "ways of it; at least two, since a line that a DMA uses cannot be replaced",
        unit="ways",
        minimum=2,
        maximum=1024,
        power_of_two=True,
        engine="vmh_ways",
    )
    cbh_entries: int = setting(
        1024,
        "entries of the CBH cache: registered buffers (assumed: the thesis leaves its size open)",
        unit="entries",
        minimum=2,
        maximum=1 << 20,
        power_of_two=True,
        engine="cbh_entries",
    )
    cbh_ways: int = setting(
        4,
        "ways of it",
        unit="ways",
        minimum=2,
        maximum=1024,
        power_of_two=True,
        engine="cbh_ways",
    )
    high_water_pages: int = setting(
        0,
        "pinned pages at which the driver unpins; 0: it never does of itself",
        unit="pages",
        minimum=0,
        maximum=1 << 40,
        engine="vmh_high_pages",
    )
    low_water_pages: int = setting(
        0,
        "pinned pages at which it stops, or that it comes to when nothing more can be pinned",
        unit="pages",
        minimum=0,
        maximum=1 << 40,
        engine="vmh_low_pages",
    )
    water_period_ns: int = setting(
        10_000_000,
        "time between two looks at the high water mark (10 ms are assumed)",
        kind="duration",
        minimum=1,
        maximum=3_600_000_000_000,
        engine="vmh_check_ns",
    )
    order: str = setting(
        "node",
        "what happens behind a block that is dropped or damaged, or came in part: node: every "
        "later one from that node is dropped too until it has come, as in VMMC; block: nothing",
        choices={"node": 1, "block": 0},
        engine="keeps_order",
    )
    miss_times: str = setting(
        "platform",
        "how long the host takes for a miss: platform: component costs; else drawn from what the "
        "thesis measured with that application",
        choices=MISS_TIMES,
        engine="miss_times",
    )
    seed: int = setting(
        1,
        "seed of these draws and of the buffers' keys",
        minimum=0,
        maximum=2**32 - 1,
        engine="mini_seed",
    )
    static_pages: int = setting(
        131072,
        "entries of the table of pages in static: 512 MB can be registered",
        unit="pages",
        minimum=1,
        maximum=1 << 40,
        engine="static_pages",
    )
    static_buffers: int = setting(
        1024,
        "entries of the table of buffers in static",
        unit="buffers",
        minimum=1,
        maximum=1 << 20,
        engine="static_buffers",
    )
    memory_bytes: int = setting(
        2 * 1024 * 1024,
        "memory of the NIC, in mini and static; what does not fit is refused",
        kind="size",
        minimum=1024,
        maximum=1 << 50,
        engine="nic_memory_bytes",
    )

    def __post_init__(self) -> None:
        validate("mini", self)
        if self.vmh_line_pages * self.vmh_ways > self.vmh_entries:
            raise ConfigError(
                f"mini.vmh_entries = {self.vmh_entries} with lines of {self.vmh_line_pages} pages "
                f"and {self.vmh_ways} ways: one set has {self.vmh_line_pages * self.vmh_ways} "
                "entries; take a larger cache, shorter lines or fewer ways"
            )
        if self.cbh_ways > self.cbh_entries:
            raise ConfigError(
                f"mini.cbh_ways = {self.cbh_ways} with mini.cbh_entries = {self.cbh_entries}: at "
                "most as many ways as entries"
            )
        if self.low_water_pages > self.high_water_pages:
            raise ConfigError(
                f"mini.low_water_pages = {self.low_water_pages} with mini.high_water_pages = "
                f"{self.high_water_pages}: the low mark is at most the high one"
            )


PARTS = {
    "code_bytes": "code",
    "buffer_bytes": "buffers",
    "vmh_bytes": "page translations",
    "cbh_bytes": "buffers' descriptors",
    "imported_bytes": "imported buffers",
    "process_bytes": "processes",
    "total_bytes": "all",
}
"""Parts of the NIC's memory, by the fields of struct pw_nic_memory."""


def nic_memory(engine_settings: dict[str, int]) -> dict[str, int]:
    """Bytes of the NIC's memory by part, for settings as the engine takes them."""
    made = ffi.new("pw_nic_memory *")
    lib.pw_nic_memory_of(ffi.new("pw_settings *", engine_settings), made)
    return {part: int(getattr(made, part)) for part in PARTS}
