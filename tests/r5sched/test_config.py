"""Settings of the firmware: texts, limits, and the engine's numbers behind them."""

import pytest

from pagewire.native import lib
from pagewire.native.settings import ConfigError
from pagewire.run.settings.config import load


def test_defaults_are_the_machine() -> None:
    expected = {
        "block_bytes": 16384,
        "window_blocks": 2,
        "high_limit_bytes": 16384,
        "medium_limit_bytes": 524288,
        "requeue_dynamic": 0,
        "strict_priority": 0,
        "bypass": 1,
        "fast_path": 1,
        "ticket_queue": 1,
        "queue_counters": 1,
        "timeout_implementation": lib.PW_TIMEOUT_ABSOLUTE,
        "tick_ns": 1_000_000,
        "read_mailbox_separate": 1,
        "read_buffer_requests": 64,
        "read_retry_ns": 0,
        "mailbox_entries": 512,
    }
    settings = load(environ={}).engine_settings()
    assert {field: settings[field] for field in expected} == expected


@pytest.mark.parametrize(
    "assignment,field,value",
    [
        ("firmware.requeue=dynamic", "requeue_dynamic", 1),
        ("firmware.strict_priority=on", "strict_priority", 1),
        ("firmware.bypass=off", "bypass", 0),
        ("firmware.fast_path=false", "fast_path", 0),
        ("firmware.ticket_queue=no", "ticket_queue", 0),
        ("firmware.queue_counters=off", "queue_counters", 0),
        ("firmware.timeout_implementation=countdown", "timeout_implementation", 2),
        ("firmware.tick=100us", "tick_ns", 100_000),
        ("firmware.read_mailbox=shared", "read_mailbox_separate", 0),
        ("firmware.read_buffer_requests=0", "read_buffer_requests", 0),
        ("firmware.read_retry=10us", "read_retry_ns", 10_000),
        ("firmware.read_retry=none", "read_retry_ns", 0),
        ("firmware.mailbox_entries=1", "mailbox_entries", 1),
        ("ni.receive_buffer_blocks=3", "receive_buffer_blocks", 3),
    ],
)
def test_setting_reaches_the_engine(assignment: str, field: str, value: int) -> None:
    assert load([assignment], environ={}).engine_settings()[field] == value


@pytest.mark.parametrize(
    "assignment,reason",
    [
        ("firmware.requeue=dynamik", "did you mean 'dynamic'"),
        ("firmware.timeout_implementation=ticks", "absolute, tick, countdown"),
        ("firmware.tick=1000", "the unit is missing"),
        ("firmware.tick=10ns", "from 1us to 1s"),
        ("firmware.read_mailbox=both", "shared, separate"),
        ("firmware.read_buffer_requests=-1", "from 0 to 4096"),
        ("firmware.mailbox_entries=0", "from 1 to 4096"),
        ("ni.receive_buffer_blocks=1025", "from 0 to 1024"),
    ],
)
def test_bad_value_names_the_limit(assignment: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load([assignment], environ={})
