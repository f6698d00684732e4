"""Settings of the R5 firmware: window and classes of transfers (MECHANISMS 3)."""

import dataclasses

from pagewire.native.settings import ConfigError, setting, validate


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
        "queue that a transfer re-enters: static, its own (dynamic is not in this version)",
        choices=("static",),
    )

    def __post_init__(self) -> None:
        validate("firmware", self)
        if self.medium_limit_bytes < self.high_limit_bytes:
            raise ConfigError(
                f"firmware.medium_limit = {self.medium_limit_bytes} bytes is below "
                f"firmware.high_limit = {self.high_limit_bytes} bytes: classes go from small to large"
            )
