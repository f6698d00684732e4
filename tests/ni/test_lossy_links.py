"""Packets that a link on the way loses come again, and the bytes are right."""

import pytest
from engine_pair import BLOCK, Pair, resident

from pagewire.native import ffi, lib


@pytest.fixture
def ring():
    made, reason = ffi.new("pw_topology **"), ffi.new("char[]", lib.PW_TOPOLOGY_REASON_BYTES)
    assert lib.pw_topology_create(b"torus:8", b"packed", 8, 4, made, reason) == 0
    assert lib.pw_topology_mark_lossy(made[0], b"1 to 2", reason) == 0
    yield made[0]
    lib.pw_topology_destroy(made[0])


def carried(ring, source_node, target_node):
    """Engines behind ten blocks from one to the other, whose bytes are right."""
    pair = Pair(8, injected={"link_loss": "1:200:3"}, timeout_ns=200_000)
    for engine in pair.engines:
        lib.pw_ni_set_network(engine.ni, ring, ffi.NULL, ffi.NULL)
    source, destination = resident(10 * BLOCK)
    pair.write(source, destination, node=source_node, peer=target_node)
    pair.run()
    assert destination.read() == source.read()
    return pair


def test_bytes_that_pass_a_lossy_link_are_right(ring):
    pair = carried(ring, 0, 3)
    counters = pair.counters(0)
    assert pair.injected(0)["link_loss"]["injected"] >= counters.retransmitted_blocks > 0
    assert counters.timeouts == counters.retransmitted_blocks


def test_nothing_is_lost_of_what_does_not_pass_it(ring):
    pair = carried(ring, 2, 5)
    assert pair.injected(2)["link_loss"] == {"eligible": 0, "injected": 0}
    assert pair.counters(2).retransmitted_blocks == 0
