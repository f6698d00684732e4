"""Settings of the R5 firmware: window and classes of transfers (MECHANISMS 3)."""

import dataclasses

from pagewire.native.settings import ConfigError, setting, validate

REQUEUE = {"static": 0, "dynamic": 1}
TIMEOUT_IMPLEMENTATIONS = {"absolute": 0, "tick": 1, "countdown": 2}
READ_MAILBOXES = {"shared": 0, "separate": 1}
"""Numbers of the choices in the engine."""


@dataclasses.dataclass(frozen=True, slots=True)
class FirmwareConfig:
    window_blocks: int = setting(
        2,
        "blocks of one transfer that are outstanding at a time",
        unit="blocks",
        minimum=1,
        maximum=64,
    )
    high_limit_bytes: int = setting(
        16 * 1024,
        "largest transfer of the high class (issued in one go)",
        kind="size",
        minimum=1,
        maximum=2**32,
    )
    medium_limit_bytes: int = setting(
        512 * 1024,
        "largest transfer of the medium class; larger ones are low",
        kind="size",
        minimum=1,
        maximum=2**32,
    )
    requeue: str = setting(
        "static",
        "queue that a transfer re-enters: static: its own; dynamic: the one that its remaining size "
        "asks for",
        choices=REQUEUE,
    )
    strict_priority: bool = setting(
        False,
        "a transfer whose window is full keeps lower classes waiting until its last block is out; "
        "otherwise these are issued meanwhile",
    )
    bypass: bool = setting(
        True,
        "a high-class transfer that finds the high queue empty is issued at once, past the queues",
    )
    fast_path: bool = setting(
        True, "new transfers are noticed through a special scratchpad word, not only the mailbox"
    )
    ticket_queue: bool = setting(
        True, "free transaction ids come from a circular queue; without it the table is searched"
    )
    queue_counters: bool = setting(
        True,
        "counters tell which queues are empty; without them each pass of the loop reads these too",
    )
    scheduling: str = setting(
        "size",
        "who gives a transfer its class and window: size: the limits above; or module:Class, a "
        "SchedulingPolicy written in Python",
    )
    timeout_implementation: str = setting(
        "absolute",
        "how a block's timeout is kept: absolute: time stamp; tick: value of a global counter; "
        "countdown: ticks left, every entry decremented at each tick",
        choices=TIMEOUT_IMPLEMENTATIONS,
    )
    tick_ns: int = setting(
        1_000_000,
        "tick of timeouts by tick or countdown; run.timeout is rounded up to whole ticks",
        kind="duration",
        minimum=1_000,
        maximum=1_000_000_000,
    )
    read_mailbox: str = setting(
        "separate",
        "where read requests wait for the R5: separate: in a mailbox of their own; shared: in that of "
        "the acknowledgements, which a request without room then blocks for ever",
        choices=READ_MAILBOXES,
    )
    read_buffer_requests: int = setting(
        64,
        "read requests that the R5 buffers while no read channel is free; further ones stay in the "
        "mailbox; 0 for no buffer",
        unit="requests",
        minimum=0,
        maximum=4096,
    )
    read_retry_ns: int | None = setting(
        None,
        "period at which buffered read requests are tried again; none: when a channel becomes free",
        kind="duration",
        minimum=1_000,
        maximum=1_000_000_000,
        none_allowed=True,
    )
    mailbox_entries: int = setting(
        512,
        "entries of each mailbox; what finds it full waits before it",
        unit="entries",
        minimum=1,
        maximum=4096,
    )

    def __post_init__(self) -> None:
        validate("firmware", self)
        if self.medium_limit_bytes < self.high_limit_bytes:
            raise ConfigError(
                f"firmware.medium_limit = {self.medium_limit_bytes} bytes is below "
                f"firmware.high_limit = {self.high_limit_bytes} bytes: classes go from small to large"
            )

    def engine_settings(self) -> dict[str, int]:
        """The fields of struct pw_settings that are the firmware's."""
        return {
            "window_blocks": self.window_blocks,
            "high_limit_bytes": self.high_limit_bytes,
            "medium_limit_bytes": self.medium_limit_bytes,
            "requeue_dynamic": REQUEUE[self.requeue],
            "strict_priority": int(self.strict_priority),
            "bypass": int(self.bypass),
            "fast_path": int(self.fast_path),
            "ticket_queue": int(self.ticket_queue),
            "queue_counters": int(self.queue_counters),
            "timeout_implementation": TIMEOUT_IMPLEMENTATIONS[self.timeout_implementation],
            "tick_ns": self.tick_ns,
            "read_mailbox_separate": READ_MAILBOXES[self.read_mailbox],
            "read_buffer_requests": self.read_buffer_requests,
            "read_retry_ns": self.read_retry_ns or 0,
            "mailbox_entries": self.mailbox_entries,
        }
