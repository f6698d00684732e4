"""Message rate of two ranks: a window of Isend against one of Irecv, Waitall, a short answer.

The answer keeps the sender from running more than a window ahead.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pagewire.cli.bench.ranks.in_turns import Contest, Work, require, run
from pagewire.transport import MPI
from pagewire.transport.node.patching import native


def _work(
    contest: Contest, buffer: Any, window: int, comm: Any, methods: Mapping[str, Any]
) -> Work:
    isend, irecv, waitall = methods["Isend"], methods["Irecv"], methods["Waitall"]
    send, recv = methods["Send"], methods["Recv"]
    answer = np.zeros(1, np.uint8)

    def windows(times: int) -> None:
        for _ in range(times):
            if contest.rank == 0:
                waitall([isend(comm, part, 1) for part in buffer])
                recv(comm, answer, 1)
            else:
                waitall([irecv(comm, part, 0) for part in buffer])
                send(comm, answer, 0)

    require(len(buffer) == window, "a part of the buffer for each message")
    return windows


def _row(contest: Contest, num_bytes: int, window: int) -> dict[str, Any]:
    names = ("Isend", "Irecv", "Send", "Recv")
    plain = {name: native(MPI.Comm, name) for name in names}
    plain["Waitall"] = native(MPI.Request, "Waitall")
    facade = {name: getattr(MPI.Comm, name) for name in names}
    facade["Waitall"] = MPI.Request.Waitall
    buffers = [np.full((window, num_bytes), 1 + contest.rank, np.uint8) for _ in range(2)]
    figures = contest.measure(
        _work(contest, buffers[0], window, contest.plain, plain),
        _work(contest, buffers[1], window, contest.world, facade),
    )
    require(
        all((buffer == 1).all() for buffer in buffers), f"rate of {num_bytes} bytes: wrong data"
    )
    return {
        "num_bytes": num_bytes,
        "window": window,
        "plain_per_s": window / figures.plain_s,
        "facade_per_s": window / figures.facade_s,
        "ratio": figures.plain_s / figures.facade_s,
        "virtual_per_s": window / figures.virtual_s,
    }


def measure(contest: Contest, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each size."""
    require(contest.num_ranks == 2, "the message rate needs 2 ranks")
    return [_row(contest, num_bytes, spec["window"]) for num_bytes in spec["sizes_bytes"]]


if __name__ == "__main__":
    raise SystemExit(run(measure))
