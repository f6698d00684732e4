"""MPI's promises, once for both transports: each call in each of its forms, by stress's steps."""

import functools
import os
import random
from collections.abc import Iterator, Sequence

import pytest
from native_programs import needs_provider

from pagewire.cli.checks.stress import draw, launching, writing

MAX_BYTES = 100_000
"""Messages of one byte up to rendezvous of several pieces."""

DRAWS = 6000

CHOICES = ("send", "receive", "finish", "init", "name", "op", "kind", "make", "sync", "base",
           "any_source", "late", "any_tag", "in_place", "is_reversed")  # fmt: skip


def all_steps(steps: Sequence[draw.Step]) -> Iterator[draw.Step]:
    for step in steps:
        yield step
        for part in step.arguments.get("parts", ()):
            yield from all_steps(part)


def promises(step: draw.Step) -> Iterator[tuple[object, ...]]:
    """What a step, or one of its threads, shows to be right."""
    for each in all_steps([step]):
        own, in_thread = each.arguments, each is not step
        yield in_thread, each.kind, each.on[0]
        for name in CHOICES:
            if name in own:
                yield in_thread, each.kind, name, own[name]
        if "mode" in own:  # blocking, non-blocking, persistent
            yield in_thread, own["name"], own["mode"]
            yield in_thread, own["name"], "in place", own.get("in_place")
        if "op" in own:
            yield in_thread, own["op"], own["kind"]
        if each.kind == "message" and not in_thread:
            yield own["send"], own["receive"]
            yield "no bytes", own["send_count"] == 0
            yield "a shorter message", own["room"] > 0
        for side in ("send_form", "receive_form"):
            yield side, *own.get(side, ())[:1]
        for operation in own.get("operations", ()):
            yield operation[0], own["make"], own["sync"]
        yield "cancelled", own.get("num_cancelled", 0) > 0


@functools.cache
def program(num_ranks: int) -> draw.Program:
    """The first steps drawn that show each promise."""
    drawing = draw._Drawing(random.Random(1), num_ranks, MAX_BYTES)
    shown: set[tuple[object, ...]] = set()
    steps = []
    for _ in range(DRAWS):
        step = drawing.step()
        if shown.issuperset(promises(step)):
            continue
        shown.update(promises(step))
        steps.append(step)
    return draw.Program(1, num_ranks, steps)


@pytest.mark.parametrize(
    ("transport", "num_ranks"),
    [("facade", 1), ("facade", 3), pytest.param("fabric", 3, marks=needs_provider)],
)
def test_every_call_in_every_form_does_what_mpi_promises(transport, num_ranks):
    drawn = program(num_ranks)
    text = writing.source(drawn, "every call", 100)
    how = launching.Launch(num_ranks, transport, {}, os.environ)
    ended = launching.run_file(how, text, 100)
    assert ended.exit_code == 0, ended.output


def test_the_program_makes_every_call():
    shown = {promise for step in program(4).steps for promise in promises(step)}
    calls = {
        "Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv",
        "Alltoall", "Alltoallv", "Alltoallw", "Reduce", "Allreduce", "Scan", "Exscan",
        "Reduce_scatter", "Reduce_scatter_block",
    }  # fmt: skip
    neighbours = {f"neighbor_{name}" for name in
                  ("allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw")}  # fmt: skip
    of_objects = {"bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce"}
    modes = {"blocking", "nonblocking", "persistent"}
    sends = {*draw.BLOCKING, *draw.STARTED}
    receives = {"Recv", "Irecv", "Probe", "Iprobe", "Mprobe", "Improbe"}
    assert shown >= {(False, call, mode) for call in calls for mode in modes}
    assert shown >= {(False, "object_collective", "name", name) for name in of_objects}
    assert shown >= {(False, name, mode) for name in neighbours for mode in modes - {"persistent"}}
    assert shown >= {
        (send, receive) for send in sends - {"Rsend", "Irsend"} for receive in receives
    }
    assert shown >= {(False, "message", "finish", way) for way in draw.WAYS}
    assert shown >= {(call, make, sync) for call in ("Put", "Rput", "Get", "Rget")
                     for make in ("create", "allocate", "dynamic")
                     for sync in ("fence", "pscw", "lock", "lock_all")}  # fmt: skip
