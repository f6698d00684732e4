"""Draws the settings of a launch: a few of them other than default, so that the run is valid."""

import os
import random
import resource
from collections.abc import Mapping

from pagewire.native.settings import ConfigError
from pagewire.run.settings import config

VALUES: Mapping[str, tuple[str, ...]] = {
    "run.memory": ("pretouch", "hybrid", "ideal", "pin"),
    "run.policy": ("block", "all"),
    "run.err": ("false",),
    # Less, and blocks are sent again and again before their answers can be here: a program of 14 s
    # takes minutes where ranks share a core, and counts as one that hangs.
    "run.timeout": ("50us", "100us", "10ms"),
    "run.nack_cancels_timer": ("true",),
    "run.eager_limit": ("0B", "1B", "512B", "4KiB", "64KiB"),
    "run.compute": ("none",),
    "run.compute_scale": ("0.0", "20.0"),
    "run.wtime": ("wall",),
    "run.platform": ("exanest-10g",),
    "run.huge_pages": ("host",),
    "memory_backend.backend": ("model",),
    "smmu.num_context_banks": ("2",),
    "smmu.l1_ways": ("1", "8"),
    "smmu.l1_sets": ("4",),
    "smmu.l2_sets": ("1", "16"),
    "smmu.l2_ways": ("1",),
    "smmu.line_pages": ("4", "16"),
    "smmu.walk_cache_entries": ("0", "1"),
    "smmu.prefetch_entries": ("4",),
    "smmu.parallel_walks": ("1", "2"),
    "smmu.outstanding_accesses": ("1", "8"),
    "smmu.invalidate": ("context", "all"),
    "smmu.hupcf": ("0",),
    "smmu.mode": ("stall",),
    "driver.variant": ("psi",),
    "driver.fsr_cleared_by": ("tasklet",),
    "driver.page_in": ("touch-a-page",),
    "driver.touch_ahead_pages": ("1", "2"),
    "driver.entries_per_tasklet_run": ("1",),
    "driver.err_by": ("kernel",),
    "driver.err_after": ("block", "page"),
    "driver.library_core": ("other",),
    "firmware.window_blocks": ("1", "8"),
    "firmware.high_limit": ("64B", "256KiB"),
    "firmware.medium_limit": ("4MiB",),
    "firmware.requeue": ("dynamic",),
    "firmware.strict_priority": ("true",),
    "firmware.bypass": ("false",),
    "firmware.fast_path": ("false",),
    "firmware.ticket_queue": ("false",),
    "firmware.queue_counters": ("false",),
    "firmware.timeout": ("auto", "measured"),
    "firmware.congestion": ("delay",),
    "firmware.timeout_implementation": ("tick", "countdown"),
    "firmware.tick": ("50us",),
    "firmware.read_mailbox": ("shared",),
    "residency.source": ("kernel",),
    "residency.check": ("true",),
    "firmware.read_buffer_requests": ("1",),
    "firmware.read_retry": ("10us",),
    "firmware.mailbox_entries": ("4",),
    "ni.fifo_depth": ("1", "8"),
    "ni.fifo_remembers": ("2",),
    "ni.receive_buffer_blocks": ("1", "4"),
    "ni.lookahead_blocks": ("0", "1"),
    "ni.interleave": ("packet",),
    "ni.reads_without_key": ("true",),
    "ni.write_keys": ("needed",),
    # More, and a block of 64 packets could fail all of its 4096 attempts.
    "impairments.packet_loss": ("1:100:{seed}", "1:30:{seed}"),
    "impairments.packet_corruption": ("1:100:{seed}", "1:30:{seed}"),
    "impairments.duplication": ("1:20:{seed}", "1:2:{seed}"),
    "impairments.delay": ("1:20:{seed}",),
    "impairments.delay_by": ("2ms",),
    "impairments.planner": ("rank0",),
    "impairments.duplicate_after": ("1us", "1ms"),
    "impairments.lost_ack": ("1:20:{seed}", "1:3:{seed}"),
    "impairments.lost_nack": ("1:3:{seed}",),
    "impairments.lost_err": ("1:3:{seed}",),
    "impairments.late_tasklet": ("1:3:{seed}",),
    "impairments.tasklet_late_by": ("5ms",),
    "impairments.fifo_full": ("1:10:{seed}",),
}
"""Values that a launch may have instead of the default; {seed} stands for a number."""

OF_TRANSPORT: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "facade": {"run.wire": ("mpi",)},
    "fabric": {"run.wire": ("shm", "tcp"), "run.clocks": ("virtual",)},
}
OF_MODEL: Mapping[str, tuple[str, ...]] = {
    "memory_backend.seed": ("{seed}",),
    "memory_backend.fault_fraction": ("0.01", "0.2", "0.9"),
    "memory_backend.frame_limit_pages": ("64", "2000"),
    "memory_backend.huge_pages": ("true",),
    "memory_backend.collapse_fraction": ("0.1",),
}
_OFTEN: Mapping[str, float] = {"run.memory": 0.5, "run.wire": 0.3, "run.clocks": 0.3}
"""Drawn with this probability beside what chance takes of all: ways of their own through much."""

_NUM_TRIES = 1000


def draw(rng: random.Random, transport: str, fixed: Mapping[str, str]) -> dict[str, str]:
    """Settings other than default; those of `fixed` keep their value, and come first."""
    pool = {**VALUES, **OF_TRANSPORT[transport]}
    if not _can_pin():
        pool["run.memory"] = tuple(each for each in pool["run.memory"] if each != "pin")
    for _ in range(_NUM_TRIES):
        drawn = dict(fixed)
        names = rng.sample(sorted(pool), rng.choice((0, 1, 2, 3, 5, 8)))
        names += [
            name
            for name, probability in _OFTEN.items()
            if rng.random() < probability and name in pool and name not in names
        ]
        if "memory_backend.backend" in names:
            names += rng.sample(sorted(OF_MODEL), 3)
        for name in names:
            value = rng.choice({**pool, **OF_MODEL}[name])
            drawn.setdefault(name, value.format(seed=rng.randrange(1, 1000)))
        if is_valid(drawn, transport):
            return drawn
    raise ConfigError(
        f"no valid settings were found in {_NUM_TRIES} draws with {as_words(fixed)}; give fewer"
    )


def is_valid(settings: Mapping[str, str], transport: str) -> bool:
    """Whether the loader takes them together."""
    texts = [f"{name}={value}" for name, value in settings.items()]
    try:
        config.load([f"run.transport={transport}", *texts], environ={})
    except ConfigError:
        return False
    return True


def as_words(settings: Mapping[str, str]) -> list[str]:
    """As options of a command line."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def _can_pin() -> bool:
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return os.geteuid() == 0 or limit == resource.RLIM_INFINITY
