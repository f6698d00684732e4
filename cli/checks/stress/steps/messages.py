"""Steps of point-to-point messages with buffers."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from pagewire.cli.checks.stress.steps.forms import BASES, Layout
from pagewire.cli.checks.stress.steps.kit import Area, Place, complete
from pagewire.cli.checks.stress.steps.pressure import (
    During,
    after_send,
    before_receive,
    before_send,
)


def message(
    place: Place,
    *,
    source: int,
    dest: int,
    send: str,
    receive: str,
    send_memory: str = "heap",
    receive_memory: str = "heap",
    send_offset: int = 0,
    receive_offset: int = 0,
    late: bool = False,
    any_source: bool = False,
    finish: str = "Wait",
    source_acts: Sequence[str] = (),
    receive_acts: Sequence[str] = (),
    during: Sequence[str] = (),
    **forms: Any,
) -> Iterator[None]:
    """One message. late: received only at the step's end; acts: pressure on each side's buffer
    before, and on both during the transfer; forms: see _layouts."""
    rank = place.rank
    requests: list[Any] = []
    outgoing, incoming, filled = _layouts(**forms)
    content = place.payload(source, outgoing.num_bytes)
    tells = source != dest and (send in ("Rsend", "Irsend") or bool(receive_acts))
    sent = taken = None
    from_whom = MPI.ANY_SOURCE if any_source else source
    is_posted = receive == "Irecv" and not late
    if rank == dest:
        taken = Area(incoming.span_bytes, receive_offset, receive_memory)
        before_receive(receive_acts, taken)
        if is_posted:
            requests.append(place.comm.Irecv(incoming.spec(taken), from_whom, place.tag))
        if tells:
            place.comm.Send(b"", source, place.tag + 1)
    if rank == source:
        sent = Area(outgoing.span_bytes, send_offset, send_memory)
        sent.fill(content, outgoing.positions)
        before_send(source_acts, sent)
        if tells:
            place.comm.Recv(bytearray(1), dest, place.tag + 1)
        requests += _started(place, send, outgoing.spec(sent), dest)
    pressure = During(place, during, [area for area in (taken, sent) if area])
    try:
        if taken and not is_posted and not late:
            status = _receive(place, receive, incoming.spec(taken), from_whom)
        yield
        if taken and late:
            status = _receive(place, receive, incoming.spec(taken), from_whom)
        statuses = complete(requests, finish)
    finally:
        pressure.end()
        after_send(source_acts, sent)
    if taken:
        _check_received(place, statuses[0] if is_posted else status, source, content, taken, filled)
    if sent:
        sent.check(place, content, "what was sent, afterwards", outgoing.positions)
    for layout in (outgoing, incoming, filled):
        layout.free()


def _layouts(
    *,
    base: str = "BYTE",
    send_form: Sequence[Any] = (),
    send_count: int,
    receive_form: Sequence[Any] = (),
    receive_count: int,
    room: int = 0,
) -> tuple[Layout, Layout, Layout]:
    """What is sent, the receive's buffer, and what of it is filled. room: items that the buffer
    has more space for."""
    outgoing = Layout(send_form, base, send_count)
    incoming = Layout(receive_form, base, receive_count + room)
    return outgoing, incoming, Layout(receive_form, base, receive_count)


def _check_received(
    place: Place, status: Any, source: int, content: Any, taken: Area, filled: Layout
) -> None:
    place.equal((status.source, status.tag), (source, place.tag), "source and tag")
    place.equal(status.Get_elements(MPI.BYTE), content.size, "bytes by the status")
    taken.check(place, content, "received", filled.positions)


def _started(place: Place, send: str, spec: Any, dest: int) -> list[Any]:
    """The request, where the call gives one."""
    request = getattr(place.comm, send)(spec, dest, place.tag)
    return [] if request is None else [request]


def _receive(place: Place, how: str, spec: Any, source: int) -> Any:
    """Receive now, after a probe or without; the status."""
    comm, tag, status = place.comm, place.tag, MPI.Status()
    if how == "Recv":
        comm.Recv(spec, source, tag, status)
    elif how == "Irecv":
        comm.Irecv(spec, source, tag).Wait(status)
    elif how in ("Probe", "Iprobe"):
        while not getattr(comm, how)(source, tag, status):
            os.sched_yield()
        comm.Recv(spec, status.source, status.tag, status)
    elif how == "Mprobe":
        comm.Mprobe(source, tag, status).Recv(spec, status)
    else:
        found = None
        while found is None:
            found = comm.Improbe(source, tag, status)
        found.Irecv(spec).Wait(status)
    return status


def burst(
    place: Place,
    *,
    messages: Sequence[Sequence[int]],
    send: str,
    finish: str,
    any_source: bool = False,
    late: bool = False,
    any_tag: bool = False,
    num_cancelled: int = 0,
    absent_part: float = 1.0,
) -> Iterator[None]:
    """Many messages of one tag, [source, dest, bytes, offset]: those of a pair arrive in order.
    With any_source the k-th from each source must be the k-th that it sent here. late: received
    only when all have been sent. absent_part: below 1, of the pages of receives' buffers, which are
    mapped for them and have their messages' lengths; else any message fits any of them."""
    comm, rank = place.comm, place.rank
    tag = MPI.ANY_TAG if any_tag else place.tag
    contents = {
        turn: place.payload(source, num_bytes, turn)
        for turn, (source, dest, num_bytes, _) in enumerate(messages)
        if rank in (source, dest)
    }
    mine = [turn for turn, (_, dest, _, _) in enumerate(messages) if dest == rank]
    areas = _areas_of(place, messages, mine, absent_part)

    def post() -> list[Any]:
        return [
            comm.Irecv(
                [area.bytes, MPI.BYTE], MPI.ANY_SOURCE if any_source else messages[turn][0], tag
            )
            for turn, area in zip(mine, areas, strict=True)
        ]

    receives = [] if late else post()
    extra = [comm.Irecv(bytearray(100), rank, place.tag + 2) for _ in range(num_cancelled)]
    sends = []
    for turn, (source, dest, num_bytes, offset) in enumerate(messages):
        if source == rank:
            area = Area(num_bytes, offset)
            area.fill(contents[turn])
            sends += _started(place, send, [area.bytes, MPI.BYTE], dest)
    for request in extra:
        request.Cancel()
    yield
    if late:
        receives = post()
    statuses = complete(receives + sends, finish)[: len(mine)]
    for request in extra:
        status = MPI.Status()
        request.Wait(status)
        place.equal(status.Is_cancelled(), True, "cancelled")
    came = list(zip(areas, statuses, strict=True))
    _check_order(place, came, {turn: (messages[turn][0], contents[turn]) for turn in mine})
    if any_tag:  # what a rank that is ahead sends next would be taken here
        comm.Barrier()


def _areas_of(
    place: Place, messages: Sequence[Sequence[int]], mine: Sequence[int], absent_part: float
) -> list[Area]:
    """Where a burst's messages arrive."""
    if absent_part == 1:
        room = max((num_bytes for _, _, num_bytes, _ in messages), default=0)
        return [Area(room, messages[turn][3]) for turn in mine]
    areas = [Area(messages[turn][2], messages[turn][3], "anonymous") for turn in mine]
    rng = np.random.default_rng([place.run.seed, place.number, place.rank])
    place.run.absent_pages += sum(area.touch_some(absent_part, rng) for area in areas)
    return areas


def _check_order(
    place: Place, came: Sequence[tuple[Area, Any]], wanted: Mapping[int, tuple[int, Any]]
) -> None:
    """came: areas and statuses; wanted: source and content by number, in each source's order."""
    turns: dict[int, list[int]] = {}
    for turn, (source, _) in wanted.items():
        turns.setdefault(source, []).append(turn)
    for area, status in came:
        turn = turns[status.source].pop(0)
        _, content = wanted[turn]
        place.equal(status.Get_count(MPI.BYTE), content.size, f"bytes of message {turn}")
        area.check(place, content, f"message {turn}")
    place.equal([left for left in turns.values() if left], [], "messages that did not come")


def exchange(
    place: Place,
    *,
    name: str,
    shift: int,
    num_bytes: int,
    offset: int = 0,
    memory: str = "heap",
) -> Iterator[None]:
    """Sendrecv and its kin, around a ring."""
    comm, rank, size = place.comm, place.rank, place.size
    dest, source = (rank + shift) % size, (rank - shift) % size
    out, into = Area(num_bytes, offset, memory), Area(num_bytes, offset + 1, memory)
    content, expected = place.payload(rank, num_bytes), place.payload(source, num_bytes)
    out.fill(content)
    spec = [out.bytes, MPI.BYTE]
    words = (dest, place.tag, [into.bytes, MPI.BYTE], source, place.tag)
    request = None
    if name == "Sendrecv":
        comm.Sendrecv(spec, *words)
    elif name == "Sendrecv_replace":
        comm.Sendrecv_replace(spec, dest, place.tag, source, place.tag)
    elif name == "Isendrecv":
        request = comm.Isendrecv(spec, *words)
    else:
        request = comm.Isendrecv_replace(spec, dest, place.tag, source, place.tag)
    yield
    if request is not None:
        request.Wait()
    if name.endswith("replace"):
        out.check(place, expected, "replaced")
    else:
        into.check(place, expected, "received")
        out.check(place, content, "what was sent, afterwards")


def persistent(
    place: Place,
    *,
    init: str,
    shift: int,
    num_bytes: int,
    num_rounds: int,
    finish: str = "Waitall",
    offset: int = 0,
    memory: str = "heap",
) -> Iterator[None]:
    """Persistent requests around a ring, started again with other bytes in the same buffers."""
    comm, rank, size = place.comm, place.rank, place.size
    dest, source = (rank + shift) % size, (rank - shift) % size
    out, into = Area(num_bytes, offset, memory), Area(num_bytes, 0, memory)
    sending = getattr(comm, init)([out.bytes, MPI.BYTE], dest, place.tag)
    receiving = comm.Recv_init([into.bytes, MPI.BYTE], source, place.tag)
    for turn in range(num_rounds):
        content = place.payload(rank, num_bytes, turn)
        if memory == "shared":
            into.drop()
        out.bytes[:] = content
        receiving.Start()
        if init == "Rsend_init":
            comm.Barrier()
        sending.Start()
        if turn == 0:
            yield
        complete([receiving, sending], finish)
        into.check(place, place.payload(source, num_bytes, turn), f"round {turn}")
        out.check(place, content, f"what was sent in round {turn}, afterwards")
    sending.Free()
    receiving.Free()


def partitioned(
    place: Place, *, shift: int, num_partitions: int, num_bytes: int, order: Sequence[int]
) -> Iterator[None]:
    """Psend_init and Precv_init around a ring; num_bytes: of a partition."""
    comm, rank, size = place.comm, place.rank, place.size
    dest, source = (rank + shift) % size, (rank - shift) % size
    total = num_partitions * num_bytes
    out, into = Area(total), Area(total)
    sending = comm.Psend_init([out.bytes, num_bytes, MPI.BYTE], num_partitions, dest, place.tag)
    receiving = comm.Precv_init(
        [into.bytes, num_bytes, MPI.BYTE], num_partitions, source, place.tag
    )
    receiving.Start()
    sending.Start()
    content = place.payload(rank, total)
    for idx in order:
        out.bytes[idx * num_bytes : (idx + 1) * num_bytes] = content[
            idx * num_bytes : (idx + 1) * num_bytes
        ]
        sending.Pready(idx)
    yield
    MPI.Request.Waitall([sending, receiving])
    into.check(place, place.payload(source, total), "received")
    sending.Free()
    receiving.Free()


def many_types(
    place: Place, *, source: int, dest: int, base: str, num_items: int
) -> Iterator[None]:
    """numpy arrays as they are, whose type mpi4py finds by itself."""
    width = BASES[base]
    content = place.payload(source, num_items * width)
    kind = np.dtype({"BYTE": "u1", "SHORT": "i2", "INT": "i4", "DOUBLE": "f8"}[base])
    request = None
    into = np.zeros(num_items, kind)
    if place.rank == dest:
        request = place.comm.Irecv(into, source, place.tag)
    if place.rank == source:
        place.comm.Send(content.view(kind), dest, place.tag)
    yield
    if request is not None:
        request.Wait()
        place.check(into, content, "received")
