"""Strategies of records, and files to damage."""

import dataclasses

from hypothesis import strategies as st

from pagewire.replay import records, trace

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
    if cls is records.Receive:
        fields["peer"] = st.one_of(st.none(), PEERS)
    return st.builds(cls, **fields).map(without_what_is_not_written)


def without_what_is_not_written(record: records.Record) -> records.Record:
    if isinstance(record, records.Send) and not record.flags & records.HAS_DATA:
        return dataclasses.replace(record, data=0)
    if isinstance(record, records.Receive) and not record.flags & records.IGNORES:
        return dataclasses.replace(record, ignored=0)
    return record


ANY_RECORD = st.sampled_from(records.CLASSES).flatmap(of_class)


def write_trace(path, ranks, *, matches=(), times=(), regions=(), meta=None):
    """A trace of each rank's records, an END behind each; streams beside them by rank."""
    with trace.Writer(str(path), len(ranks), meta or {"program": "a"}) as writer:
        for rank, listed in enumerate(ranks):
            writer.write(rank, [*listed, records.End()])
        for kind, streams in ((trace.MATCHES, matches), (trace.REGIONS, regions)):
            for rank, numbers in enumerate(streams):
                for value in numbers:
                    writer.add(rank, kind, records.number(value), 1)
        for rank, stamps in enumerate(times):
            writer.write_times(rank, 0, stamps)
    return str(path)


def send(peer, *, rank=0, tag=7, num_bytes=65536, flags=0):
    return records.Send(peer, 0, tag, rank, num_bytes, 0, 0, flags)


def receive(peer, *, tag=7, num_bytes=65536, flags=0, ignored=0):
    return records.Receive(peer, 0, tag, peer or 0, num_bytes, 0, 0, flags, ignored)
