"""The one-sided ping-pong through the command line; its latencies against sums of the platform's
costs."""

import re

import pytest
from cli_runs import ran
from engine_costs import Steps

from pagewire.run.settings.platform import load

REPETITIONS = 20  # of the app, unless told otherwise
QUIET = ("--quiet", "--set", "run.compute=none")


def rows(text: str) -> dict[int, list[float]]:
    """Times and rates by size."""
    table = [line.split() for line in text.splitlines() if re.match(r" *\d+ ", line)]
    return {int(words[0]): [float(word) for word in words[1:]] for words in table}


@pytest.fixture(scope="module")
def printed() -> str:
    done = ran("launch", "-n", "2", *QUIET, "rdma_pingpong", "--max-bytes", "70000")
    return done.stdout


def test_latencies_are_sums_of_steps(printed):
    costs = load("exanest-qfdb").costs
    steps = Steps(costs)
    write, read, *_ = rows(printed)[256]
    start = steps.start_single()
    moved = steps.l1_hit() + steps.wire(256) + steps.latency() + steps.l1_hit()
    # Rank 0 looks at its done flag after rank 1's answer, rank 1 while its answer is on the way.
    seen = steps.l1_hit() + costs.poll_ns + costs.core_register_read_ns / 2
    written = steps.post_write() + steps.notice() + start + moved + seen
    # One reading of the clock falls to each measurement.
    assert write * 1000 == pytest.approx(written + costs.clock_read_ns / REPETITIONS / 2, abs=1)
    fetched = steps.post_read() + start + moved + costs.poll_ns
    assert read * 1000 == pytest.approx(fetched + costs.clock_read_ns / REPETITIONS, abs=0.01)


def test_bandwidth_reaches_the_link(printed):
    table = rows(printed)
    assert list(table) == [16, 64, 256, 1024, 4096, 16384, 65536]
    payload_mbytes = 17e9 * 0.97 * 256 / 288 / 8 / 1e6
    for rate in table[65536][2:]:
        assert 0.97 * payload_mbytes < rate < payload_mbytes


def test_latencies_repeat_to_the_ns_and_more_ranks_change_nothing(printed):
    again = ran("launch", "-n", "3", *QUIET, "rdma_pingpong", "--max-bytes", "70000")
    for num_bytes, (write, read, *rates) in rows(again.stdout).items():
        before = rows(printed)[num_bytes]
        # The first exchange's page walks depend on what MPI's own messages have translated.
        assert write == pytest.approx(before[0], abs=0.002 if num_bytes > 16 else 0.1)
        assert read == before[1]
        assert rates == pytest.approx(before[2:], rel=0.15)  # transfers contend


def test_fresh_buffers_fault(printed):
    fresh = ran("launch", "-n", "2", *QUIET, "rdma_pingpong", "--max-bytes", "70000", "--fresh")
    assert rows(fresh.stdout)[65536][0] > 1.2 * rows(printed)[65536][0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-n", "1", "rdma_pingpong"), "number of ranks is 1; allowed: 2 or more"),
        (("-n", "2", "rdma_pingpong", "--channels", "33"), "33; allowed: 1 .. 32"),
        (("-n", "2", "rdma_pingpong", "--max-bytes", "1"), "1; allowed: 16 .. "),
        (("-n", "2", "rdma_pingpong", "--nonsense"), "--nonsense"),
    ],
    ids=str,
)
def test_bad_input_is_one_line(words, message):
    done = ran("launch", "--quiet", *words, code=2)
    assert done.stderr.count("rdma_pingpong: error") == 1
    assert message in done.stderr
