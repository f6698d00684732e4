"""Settings of the built-in memory strategies (run.memory)."""

import dataclasses

from pagewire.native.settings import ConfigError, none_as, setting, validate


@dataclasses.dataclass(frozen=True, slots=True)
class StrategyConfig:
    """Limits and sizes of what memory strategies keep."""

    locked_limit_bytes: int | None = setting(
        None,
        "memory that a strategy may pin on a node before it is refused; the kernel of PART gave an "
        "unprivileged user 64 KiB; none: this host's limit (ulimit -l) alone",
        kind="size",
        minimum=4096,
        maximum=2**50,
        none_allowed=True,
        engine="locked_limit_bytes",
        encode=none_as(-1),
    )
    check_mappings: bool = setting(
        True,
        "ask before each use of what pin-cache, utlb and pretouch-once keep whether its mapping is "
        "still there; false: transfers of the first two go astray as on real hardware, and are "
        "counted",
        engine="strategy_checks_mappings",
    )
    pin_cache_limit_bytes: int | None = setting(
        64 * 1024 * 1024,
        "pin-cache: memory that stays pinned between transfers, or none for no limit",
        kind="size",
        minimum=4096,
        maximum=2**50,
        none_allowed=True,
        engine="pin_cache_limit_bytes",
        encode=none_as(-1),
    )
    pin_cache_limit_regions: int = setting(
        1024,
        "pin-cache: regions that stay pinned between transfers; neighbours are one",
        unit="regions",
        minimum=1,
        maximum=2**20,
        engine="pin_cache_limit_regions",
    )

    piece_bytes: int = setting(
        64 * 1024,
        "bounce and pin-rendezvous: a message goes in pieces of this size; for bounce also the "
        "size of a buffer",
        kind="size",
        minimum=4096,
        maximum=2**30,
        power_of_two=True,
        engine="piece_bytes",
    )
    bounce_buffers: int = setting(
        16,
        "bounce: buffers that are pinned from the start, half of them for what is sent",
        unit="buffers",
        minimum=2,
        maximum=4096,
        engine="bounce_buffers",
    )

    utlb_limit_bytes: int | None = setting(
        64 * 1024 * 1024,
        "utlb: memory that stays pinned between transfers, or none for no limit",
        kind="size",
        minimum=4096,
        maximum=2**50,
        none_allowed=True,
        engine="utlb_limit_bytes",
        encode=none_as(-1),
    )
    utlb_cache_entries: int = setting(
        8192,
        "utlb: entries of the NIC's cache of the table (assumed: the least of miNI's sizes)",
        unit="entries",
        minimum=1,
        maximum=1 << 20,
        power_of_two=True,
        engine="utlb_cache_entries",
    )
    utlb_cache_ways: int = setting(
        1,
        "utlb: ways of it; 1: direct-mapped, so that a program on the NIC compares one tag",
        unit="ways",
        minimum=1,
        maximum=1024,
        power_of_two=True,
        engine="utlb_cache_ways",
    )
    utlb_fetch_entries: int = setting(
        8,
        "utlb: entries that a miss in it reads at once: the page's and those behind it, as far as "
        "the transfer goes",
        unit="entries",
        minimum=1,
        maximum=64,
        engine="utlb_fetch_entries",
    )

    firehose_limit_bytes: int = setting(
        64 * 1024 * 1024,
        "firehose: memory of a node that its peers may hold pinned; each gets the same part of it",
        kind="size",
        minimum=4096,
        maximum=2**50,
        engine="firehose_limit_bytes",
    )
    firehose_victims_bytes: int = setting(
        16 * 1024 * 1024,
        "firehose: memory that stays pinned although no peer holds it and no transfer uses it",
        kind="size",
        minimum=0,
        maximum=2**50,
        engine="firehose_victims_bytes",
    )

    def __post_init__(self) -> None:
        validate("strategy", self)
        if self.utlb_cache_ways > self.utlb_cache_entries:
            raise ConfigError(
                f"strategy.utlb_cache_ways = {self.utlb_cache_ways} with "
                f"strategy.utlb_cache_entries = {self.utlb_cache_entries}: at most as many ways as "
                "entries"
            )
