"""Do small messages wait behind large ones? The R5's classes, and a link in the middle of the
network, which has none (docs/network.md). By arithmetic."""

import pytest
from programs import HandMade, call, present, receive, run, send
from test_network import MIB, link_ns

from pagewire.replay import records as r

TREE = "fat-tree:2;4,2;1,1;1,1"
"""Nodes 0 to 3 share the cable of their switch towards those of 4 to 7."""
ONE_CLASS = ("firmware.high_limit=1", "firmware.medium_limit=1", "firmware.bypass=false")
OTHERS = [(0, 4), (2, 6), (3, 7)]
SOURCE, TARGET = 1, 5
BEGUN_NS = [100_000 + 3_137 * step for step in range(8)]
"""When the small message is sent: at 8 points of two blocks of the large ones, or more."""
BLOCK_NS = link_ns(16384)


def program(large, num_bytes, begun_ns):
    """One message of 1 MiB for each pair of `large`, and in their middle a small one."""
    ranks = []
    for rank in range(8):
        made = [r.Name(0, "Irecv"), r.Name(1, "Isend"), r.Name(2, "Waitall")]
        ends = [(pair, MIB) for pair in large] + [((SOURCE, TARGET), num_bytes)]
        mine = [each for each in ends if rank in each[0]]
        made += [present(idx, size) for idx, (_, size) in enumerate(mine)]
        for idx, ((source, target), size) in enumerate(mine):
            if rank == source and size == num_bytes:
                made.append(r.Compute(begun_ns))
            if rank == target:
                made += call(0, receive(source, size, region=idx))
            else:
                made += call(1, send(target, size, region=idx))
        made += call(2, *(r.Done(len(mine) - 1 - idx) for idx in range(len(mine))))
        ranks.append([*made, r.End()])
    return HandMade(*ranks)


def latencies_ns(large, num_bytes, *more, model="links"):
    """Of the small message, from before its Isend until its receiver has it, for each point."""
    words = [f"network.topology={TREE}", f"network.model={model}", "run.memory=ideal", *more]
    return [run(program(large, num_bytes, at_ns), *words)[0][TARGET] - at_ns for at_ns in BEGUN_NS]


@pytest.mark.parametrize("num_bytes", [8, 64])
def test_what_rides_in_its_envelope_waits_for_nothing(num_bytes):
    alone = latencies_ns([], num_bytes)
    assert latencies_ns(OTHERS, num_bytes) == latencies_ns(OTHERS, num_bytes, *ONE_CLASS) == alone


@pytest.mark.parametrize("num_bytes", [256, 4096, 16384])
@pytest.mark.parametrize("num_large", [1, 3])
@pytest.mark.parametrize("words", [(), ONE_CLASS])
def test_a_block_waits_at_a_shared_link_for_the_windows_of_all_whatever_its_class(
    num_bytes, num_large, words
):
    """Two blocks of each large transfer are under way: one has left in part, and until the
    source has the answer to it and sends the next one there are fewer."""
    (alone,) = set(latencies_ns([], num_bytes, *words))
    waits = [each - alone for each in latencies_ns(OTHERS[:num_large], num_bytes, *words)]
    assert (2 * num_large - 1.5) * BLOCK_NS < min(waits)
    assert max(waits) < 2 * num_large * BLOCK_NS


def test_a_smaller_window_of_the_large_ones_is_what_helps():
    def longest(*words):
        return max(latencies_ns(OTHERS, 256, *words))

    assert longest("firmware.window_blocks=1") < 0.6 * longest()
    assert abs(longest(*ONE_CLASS) - longest()) < 0.05 * longest()
