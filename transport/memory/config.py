"""Settings of the built-in memory strategies (run.memory)."""

import dataclasses

from pagewire.native.settings import none_as, setting, validate


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
        "ask before each use of what pin-cache and pretouch-once keep whether its mapping is still "
        "there; false: pin-cache transfers go astray as on real hardware, and are counted",
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

    def __post_init__(self) -> None:
        validate("strategy", self)
