"""Settings of the R5 firmware: window and classes of transfers [R5 3]."""

import dataclasses

from pagewire.native import lib
from pagewire.native.settings import ConfigError, none_as, setting, validate
from pagewire.r5sched import scheduling


@dataclasses.dataclass(frozen=True, slots=True)
class FirmwareConfig:
    block_bytes: int = setting(
        16 * 1024,
        "largest block of a transfer; blocks end at its multiples in the destination",
        kind="size",
        minimum=4096,
        maximum=16 * 1024,
        power_of_two=True,
        engine="block_bytes",
    )
    window_blocks: int = setting(
        2,
        "blocks of one transfer that are outstanding at a time",
        unit="blocks",
        minimum=1,
        maximum=64,
        engine="window_blocks",
    )
    high_limit_bytes: int = setting(
        16 * 1024,
        "largest transfer of the high class (issued in one go)",
        kind="size",
        minimum=1,
        maximum=2**32,
        engine="high_limit_bytes",
    )
    medium_limit_bytes: int = setting(
        512 * 1024,
        "largest transfer of the medium class; larger ones are low",
        kind="size",
        minimum=1,
        maximum=2**32,
        engine="medium_limit_bytes",
    )
    requeue: str = setting(
        "static",
        "queue that a transfer re-enters: static: its own; dynamic: the one for its remaining size",
        choices={"static": 0, "dynamic": 1},
        engine="requeue_dynamic",
    )
    strict_priority: bool = setting(
        False,
        "a transfer whose window is full holds back lower classes until its last block has left; "
        "otherwise they are issued meanwhile",
        engine="strict_priority",
    )
    bypass: bool = setting(
        True,
        "a high-class transfer that finds the high queue empty is issued at once, past the queues",
        engine="bypass",
    )
    fast_path: bool = setting(
        True,
        "new transfers are noticed through a special scratchpad word, not only the mailbox",
        engine="fast_path",
    )
    ticket_queue: bool = setting(
        True,
        "free transaction ids come from a circular queue; without it the table is searched",
        engine="ticket_queue",
    )
    queue_counters: bool = setting(
        True,
        "counters tell which queues are empty; without them each pass reads the empty ones too",
        engine="queue_counters",
    )
    scheduling: str = setting(
        scheduling.BY_SIZE,
        "scheduling policy, which gives a transfer its class and window",
        extensions=scheduling.REGISTRY,
    )
    timeout_implementation: str = setting(
        "absolute",
        "how a block's timeout is kept: absolute: time stamp; tick: value of a global counter; "
        "countdown: ticks left, every entry decremented at each tick",
        choices={
            "absolute": int(lib.PW_TIMEOUT_ABSOLUTE),
            "tick": int(lib.PW_TIMEOUT_TICK),
            "countdown": int(lib.PW_TIMEOUT_COUNTDOWN),
        },
        engine="timeout_implementation",
    )
    tick_ns: int = setting(
        1_000_000,
        "tick of timeouts by tick or countdown; run.timeout is rounded up to whole ticks",
        kind="duration",
        minimum=1_000,
        maximum=1_000_000_000,
        engine="tick_ns",
    )
    read_mailbox: str = setting(
        "separate",
        "where read requests wait for the R5: separate: in a mailbox of their own; shared: with "
        "the acknowledgements, which a request without room then blocks for ever",
        choices={"shared": 0, "separate": 1},
        engine="read_mailbox_separate",
    )
    read_buffer_requests: int = setting(
        64,
        "read requests that the R5 buffers while no read channel is free; more stay in the "
        "mailbox; 0 for no buffer",
        unit="requests",
        minimum=0,
        maximum=4096,
        engine="read_buffer_requests",
    )
    read_retry_ns: int | None = setting(
        None,
        "period at which buffered read requests are tried again; none: when a channel becomes free",
        kind="duration",
        minimum=1_000,
        maximum=1_000_000_000,
        none_allowed=True,
        encode=none_as(0),
        engine="read_retry_ns",
    )
    mailbox_entries: int = setting(
        512,
        "entries of each mailbox; whatever finds it full waits in front of it",
        unit="entries",
        minimum=1,
        maximum=4096,
        engine="mailbox_entries",
    )

    def __post_init__(self) -> None:
        validate("firmware", self)
        if self.medium_limit_bytes < self.high_limit_bytes:
            raise ConfigError(
                f"firmware.medium_limit = {self.medium_limit_bytes} bytes is below "
                f"firmware.high_limit = {self.high_limit_bytes} bytes: classes go from small to "
                "large"
            )
