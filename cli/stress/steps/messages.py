"""Steps of point-to-point messages with buffers."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from pagewire.cli.stress.steps.forms import BASES, Layout
from pagewire.cli.stress.steps.kit import Area, Place, complete
from pagewire.cli.stress.steps.pressure import During, before_receive


def message(
    place: Place,
    *,
    source: int,
    dest: int,
    send: str,
    receive: str,
    base: str = "BYTE",
    send_form: Sequence[Any] = (),
    send_count: int,
    receive_form: Sequence[Any] = (),
    receive_count: int,
    send_memory: str = "heap",
    receive_memory: str = "heap",
    send_offset: int = 0,
    receive_offset: int = 0,
    room: int = 0,
    late: bool = False,
    any_source: bool = False,
    finish: str = "Wait",
    source_acts: Sequence[str] = (),
    receive_acts: Sequence[str] = (),
    during: Sequence[str] = (),
) -> Iterator[None]:
    """One message. late: received only at the step's end; room: items that the buffer has more
    space for; acts: pressure on each side's buffer before, and on both during the transfer."""
    comm, rank = place.comm, place.rank
    areas: list[Area] = []
    requests: list[Any] = []
    outgoing = Layout(send_form, base, send_count)
    incoming = Layout(receive_form, base, receive_count + room)
    filled = Layout(receive_form, base, receive_count)
    content = place.payload(source, outgoing.num_bytes)
    tells = source != dest and (send in ("Rsend", "Irsend") or bool(receive_acts))
    sent = taken = None
    from_whom = MPI.ANY_SOURCE if any_source else source
    if rank == dest:
        taken = Area(incoming.span_bytes, receive_offset, receive_memory)
        areas.append(taken)
        before_receive(receive_acts, taken)
        if receive == "Irecv" and not late:
            requests.append(comm.Irecv(incoming.spec(taken), from_whom, place.tag))
        if tells:
            comm.Send(b"", source, place.tag + 1)
    if rank == source:
        sent = Area(outgoing.span_bytes, send_offset, send_memory)
        areas.append(sent)
        sent.fill(content, outgoing.positions)
        if "drop" in source_acts and send_memory in ("shared", "file"):
            sent.drop()
        if "protect" in source_acts:
            sent.protect(False)
        if tells:
            comm.Recv(bytearray(1), dest, place.tag + 1)
        started = getattr(comm, send)(outgoing.spec(sent), dest, place.tag)
        if started is not None:
            requests.append(started)
    pressure = During(place, during, areas) if during and areas else None
    status = MPI.Status()
    try:
        if rank == dest and not late and receive != "Irecv":
            _receive(comm, receive, incoming.spec(taken), from_whom, place.tag, status)
        yield
        if rank == dest and late:
            _receive(comm, receive, incoming.spec(taken), from_whom, place.tag, status)
        statuses = complete(requests, finish)
    finally:
        if pressure:
            pressure.end()
        if sent and "protect" in source_acts:
            sent.protect(True)
    if rank == dest and receive == "Irecv" and not late:
        status = statuses[0]
    if rank == dest and taken is not None:
        place.equal((status.source, status.tag), (source, place.tag), "source and tag")
        place.equal(status.Get_elements(MPI.BYTE), content.size, "bytes by the status")
        taken.check(place, content, "received", filled.positions)
    if sent is not None:
        sent.check(place, content, "what was sent, afterwards", outgoing.positions)
    for layout in (outgoing, incoming, filled):
        layout.free()


def _receive(comm: Any, how: str, spec: Any, source: int, tag: int, status: Any) -> None:
    """Receive now, after a probe or without."""
    if how == "Recv":
        comm.Recv(spec, source, tag, status)
    elif how == "Irecv":
        comm.Irecv(spec, source, tag).Wait(status)
    elif how == "Probe":
        comm.Probe(source, tag, status)
        comm.Recv(spec, status.source, status.tag, status)
    elif how == "Iprobe":
        while not comm.Iprobe(source, tag, status):
            os.sched_yield()
        comm.Recv(spec, status.source, status.tag, status)
    elif how == "Mprobe":
        comm.Mprobe(source, tag, status).Recv(spec, status)
    else:
        found = None
        while found is None:
            found = comm.Improbe(source, tag, status)
        found.Irecv(spec).Wait(status)


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
) -> Iterator[None]:
    """Many messages of one tag, [source, dest, bytes, offset]: those of a pair arrive in order.
    With any_source the k-th from each source must be the k-th that it sent here. late: received
    only when all have been sent."""
    comm, rank = place.comm, place.rank
    tag = MPI.ANY_TAG if any_tag else place.tag
    room = max((num_bytes for _, _, num_bytes, _ in messages), default=0)
    contents = [
        place.payload(source, num_bytes, turn)
        for turn, (source, _, num_bytes, _) in enumerate(messages)
    ]
    mine = [turn for turn, (_, dest, _, _) in enumerate(messages) if dest == rank]
    areas = [Area(room, messages[turn][3]) for turn in mine]

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
    for (source, dest, _, offset), content in zip(messages, contents, strict=True):
        if source == rank:
            area = Area(content.size, offset)
            area.fill(content)
            request = getattr(comm, send)([area.bytes, MPI.BYTE], dest, place.tag)
            if request is not None:
                sends.append(request)
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
    expected = {
        source: [turn for turn in mine if messages[turn][0] == source]
        for source in range(place.size)
    }
    for area, status in zip(areas, statuses, strict=True):
        turn = expected[status.source].pop(0)
        place.equal(status.Get_count(MPI.BYTE), contents[turn].size, f"bytes of message {turn}")
        area.check(place, contents[turn], f"message {turn}")
    place.equal([left for left in expected.values() if left], [], "messages that did not come")
    if any_tag:  # what a rank that is ahead sends next would be taken here
        comm.Barrier()


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
