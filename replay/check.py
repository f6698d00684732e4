"""What is wrong with a trace, found without running it: damage, messages without an end, wrong
numbers. A trace that passes may still wait in a circle, which a replay tells."""

from collections.abc import Iterator

from pagewire.replay.balance import Balance
from pagewire.replay.records import (
    MULTI,
    TAKEN,
    Cancel,
    End,
    Found,
    Leave,
    Meet,
    Pages,
    Part,
    Receive,
    Record,
    Send,
    TraceError,
    unknown_flags,
)
from pagewire.replay.trace import ALL_RANKS, KINDS, MATCHES, OPS, TIMES, Reader
from pagewire.replay.walk import ONE_SIDED, Walk, describe_operation

_PAGE_STATES = 5
_LONGEST_TRANSFER = (1 << 32) - 1


def check(reader: Reader) -> Iterator[str]:
    """A sentence for each thing that is wrong."""
    if reader.cut:
        yield reader.cut
    yield from _check_chunks(reader)
    balance = Balance()
    for rank in range(reader.num_ranks):
        yield from _check_rank(reader, rank, balance)
    yield from balance.unmatched()


def _check_chunks(reader: Reader) -> Iterator[str]:
    """Those that no rank's records are in; records are checked as they are read."""
    for chunk in reader.chunks:
        if chunk.rank != ALL_RANKS and chunk.rank >= reader.num_ranks:
            yield f"{chunk}: the trace has {reader.num_ranks} ranks"
        elif chunk.kind not in KINDS:
            yield f"{chunk} is of no kind that this version knows"
        elif chunk.kind not in (OPS, MATCHES, TIMES):
            try:
                reader.raw(chunk)
            except TraceError as error:
                yield str(error)


def _check_rank(reader: Reader, rank: int, balance: Balance) -> Iterator[str]:
    walk = Walk(reader, rank)
    num_leaves = 0
    try:
        for idx, record in walk:
            count_message(walk, record, balance)
            num_leaves += isinstance(record, (Leave, End))
            yield from walk.wrong
            walk.wrong.clear()
            for text in _wrong_numbers(reader, record):
                yield f"rank {rank}: record {idx}: {type(record).__name__.upper()} {text}"
        yield from walk.wrong
        yield from _check_streams(reader, walk, num_leaves)
    except TraceError as error:
        yield str(error)
        return
    if not walk.has_ended:
        yield f"rank {rank} has no END: it was killed, or its trace is cut off"
        return
    for idx, operation in walk.pending.values():
        # What a probe has told of need not be taken; a library may keep receives of several.
        is_several = isinstance(operation, Receive) and operation.flags & MULTI
        if not isinstance(operation, (Found, Part)) and not is_several:
            what = describe_operation(operation)
            yield f"rank {rank}: record {idx}: {what} is never waited for"


def count_message(walk: Walk, record: Record, balance: Balance) -> None:
    """Add what a record says of messages; the walk stands behind it."""
    if isinstance(record, Send):
        balance.send(walk.rank, record)
    elif isinstance(record, Receive):
        if walk.matched and not record.flags & MULTI:
            balance.receive(walk.rank, record, walk.origin)
    elif isinstance(record, Found):
        if record.flags & TAKEN:
            balance.take(walk.rank, record)
    elif walk.meant and isinstance(walk.meant[1], Receive):
        receive = walk.meant[1]
        if isinstance(record, Part):
            balance.receive(walk.rank, receive, (record.peer, record.source))
        elif isinstance(record, Cancel) and not receive.flags & MULTI and walk.matched:
            balance.receive(walk.rank, receive, walk.origin, -1)


def _wrong_numbers(reader: Reader, record: Record) -> Iterator[str]:
    flags = unknown_flags(record)
    if flags:
        yield f"has flags {flags:#x}, which this version does not know"
    if isinstance(record, Pages) and record.state >= _PAGE_STATES:
        yield f"has state {record.state}; allowed is 0 to {_PAGE_STATES - 1}"
    elif isinstance(record, ONE_SIDED) and not 0 < record.num_bytes <= _LONGEST_TRANSFER:
        yield f"is of {record.num_bytes} bytes; allowed is 1 to {_LONGEST_TRANSFER}"
    elif isinstance(record, Meet) and not 0 < record.members <= reader.num_ranks:
        yield f"is of {record.members} ranks, and the trace has {reader.num_ranks}"


def _check_streams(reader: Reader, walk: Walk, num_leaves: int) -> Iterator[str]:
    """The streams beside the records have as many entries as these ask for."""
    num_matches = sum(1 for _ in reader.numbers(walk.rank, MATCHES)) // 2
    num_times = sum(1 for _ in reader.numbers(walk.rank, TIMES))
    if num_matches not in (0, walk.num_wildcards) and walk.has_ended:
        yield (
            f"rank {walk.rank}: MATCHES tells of {num_matches} receives from any source; there "
            f"are {walk.num_wildcards}"
        )
    if num_times not in (0, num_leaves) and walk.has_ended:
        yield f"rank {walk.rank}: TIMES has {num_times} times for {num_leaves} calls and the END"
