"""Settings of on-demand paging (run.memory = odp). docs/odp.md."""

import dataclasses

from pagewire.native.settings import setting, validate


@dataclasses.dataclass(frozen=True, slots=True)
class OdpConfig:
    """How an InfiniBand NIC with on-demand paging meets a page that its table does not have."""

    rnr_timer_ns: int = setting(
        640_000,
        "time that a source pauses a transfer whose destination is not ready; InfiniBand has "
        "steps from 10 us to 655.36 ms, of which 640 us is number 12",
        kind="duration",
        minimum=1_000,
        maximum=3_600_000_000_000,
        engine="odp_rnr_ns",
    )
    fault_pages: int = setting(
        1024,
        "pages at most that a fault brings in, from the faulting one to the end of its transfer; "
        "mlx5 stops at 4 MiB",
        unit="pages",
        minimum=1,
        maximum=1024,
        engine="odp_fault_pages",
    )
    prefetch: bool = setting(
        False,
        "the receiver's library advises the driver of a message's destination when it is matched "
        "(ibv_advise_mr)",
        engine="odp_prefetch",
    )

    def __post_init__(self) -> None:
        validate("odp", self)
