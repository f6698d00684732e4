"""Strategies of records, and files to damage."""

import dataclasses

from hypothesis import strategies as st

from pagewire.replay import records

UNSIGNED = st.one_of(st.integers(0, 300), st.integers(0, (1 << 64) - 1))
SIGNED = st.one_of(st.integers(-300, 300), st.integers(-(1 << 63), (1 << 63) - 1))
PEERS = st.integers(0, 1 << 32)


def of_class(cls: type[records.Record]) -> st.SearchStrategy[records.Record]:
    """Any record of a class."""
    fields = {
        each.name: st.text(max_size=40)
        if each.name == "text"
        else SIGNED
        if each.name in cls.SIGNED
        else UNSIGNED
        for each in dataclasses.fields(cls)
    }
    if cls is records.Send:
        fields["flags"] = st.integers(0, 7)
        fields["data"] = st.just(b"")
        return st.builds(cls, **fields).flatmap(with_data)
    if cls is records.Receive:
        fields["peer"] = st.one_of(st.none(), PEERS)
        return st.builds(cls, **fields).map(without_ignored)
    return st.builds(cls, **fields)


def with_data(send: records.Send) -> st.SearchStrategy[records.Record]:
    if not send.flags & records.HAS_DATA:
        return st.just(send)
    return st.binary(max_size=300).map(
        lambda data: dataclasses.replace(send, data=data, num_bytes=len(data))
    )


def without_ignored(receive: records.Receive) -> records.Receive:
    if receive.flags & records.IGNORES:
        return receive
    return dataclasses.replace(receive, ignored=0)


ANY_RECORD = st.sampled_from(records.CLASSES).flatmap(of_class)
