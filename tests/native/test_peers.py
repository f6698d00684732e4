"""The table by peer against a dict."""

from hypothesis import given
from hypothesis import strategies as st

from pagewire.native import ffi, lib

PEERS = st.integers(0, 2**32 - 1) | st.integers(0, 40) | st.integers(0, 40).map(lambda n: n << 20)


def listed(peers) -> list[int]:
    items = ffi.new("pw_peer *[]", peers.num_items + 1)
    lib.pw_peers_list(peers, items)
    return [items[i].peer for i in range(peers.num_items)]


@given(st.lists(PEERS, max_size=200))
def test_each_peer_has_one_item_that_stays_where_it_is(asked):
    peers, reference = ffi.new("pw_peers *"), {}
    for peer in asked:
        item = lib.pw_peers_make(peers, peer, 64)
        assert item == reference.setdefault(peer, item)
        assert ffi.cast("pw_peer *", item).peer == peer
        assert bytes(ffi.buffer(ffi.cast("char *", item) + 4, 60)) == bytes(60)
        assert peers.num_items == len(reference) <= peers.num_slots // 2
    assert listed(peers) == sorted(reference)
    lib.pw_peers_clear(peers)
    assert (peers.num_items, listed(peers)) == (0, [])
