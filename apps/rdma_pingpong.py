"""One-sided RDMA between ranks 0 and 1: latency and bandwidth of writes and reads over size.

No MPI message carries data: addresses are exchanged once, then rank 0 and 1 answer each other's
writes by the notifications that they find in their memory, and rank 0 reads what rank 1 has laid
out.
"""

import dataclasses
from typing import Any

from pagewire.apps.command import (
    AppError,
    Parser,
    Say,
    check_limits,
    flag,
    option,
    require,
    run_mini_app,
)

MAX_BYTES = 2**30
MAX_CHANNELS = 32
_HEADER = "      bytes  write (us)   read (us)  write (MB/s)  read (MB/s)"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What one run is made of."""

    max_bytes: int = option(
        4 * 2**20,
        "--max-bytes",
        "largest transfer, from 16 on by a factor of 4",
        least=16,
        most=MAX_BYTES,
    )
    repetitions: int = option(20, "--repetitions", "transfers for each figure", least=1, most=10**6)
    num_channels: int = option(
        4, "--channels", "transfers at a time for bandwidth", least=1, most=MAX_CHANNELS
    )
    fresh: bool = flag("--fresh", "leave buffers untouched: pages fault")

    def __post_init__(self) -> None:
        check_limits(self)

    def sizes(self) -> list[int]:
        return [4**i for i in range(2, 16) if 4**i <= self.max_bytes]


def parse_options(argv: list[str] | None) -> Options:
    """Options from the command line; raises InputError and HelpRequest."""
    parser = Parser("rdma_pingpong", (__doc__ or "").partition("\n")[0])
    parser.add_options(Options)
    return Options(**vars(parser.parse_args(argv)))


class Side:
    """What rank 0 and rank 1 set up alike; `other` is the peer's rank."""

    def __init__(self, world: Any, options: Options) -> None:
        from pagewire.transport import rdma

        self._status = rdma.Status
        self.options, self.rank = options, world.Get_rank()
        self.outgoing = rdma.Buffer(options.max_bytes)
        self.incoming = rdma.Buffer(options.max_bytes + 32)
        # The notification lies behind the data, 16-byte aligned.
        self.arrival = rdma.Notification(self.incoming, (options.max_bytes + 15) // 16 * 16)
        remotes = world.allgather((self.incoming.remote, self.outgoing.remote, self.arrival.remote))
        self.target, self.source, self.mailbox = (
            remotes[1 - self.rank] if self.rank < 2 else remotes[0]
        )
        self.channels = [rdma.Channel() for _ in range(options.num_channels)]
        self.readers = [rdma.ReadChannel() for _ in range(options.num_channels)]

    def write(self, num_bytes: int, turn: int) -> None:
        """Write with a notification that says which turn it is."""
        channel = self.channels[0]
        channel.insert(
            self.outgoing, self.target, num_bytes, notification=self.mailbox, first_data=turn
        )
        channel.trigger()

    def expect(self, turn: int) -> None:
        """Wait for the peer's write of this turn."""
        notice = self.arrival.wait()
        if notice.first_data != turn:
            raise AssertionError(f"notification of turn {notice.first_data} instead of {turn}")

    def finish(self, channel: Any) -> None:
        """Wait for a transfer that must not fail."""
        if channel.wait() is not self._status.FINISHED:
            raise AppError(str(channel.error))

    def stream(self, channels: list[Any], source: Any, target: Any, num_bytes: int) -> None:
        """`repetitions` transfers, as many at a time as there are channels."""
        for i in range(self.options.repetitions):
            channel = channels[i % len(channels)]
            if i >= len(channels):
                self.finish(channel)
            channel.insert(source, target, num_bytes)
            channel.trigger()
        for channel in channels[: self.options.repetitions]:
            self.finish(channel)


def _check(side: Side, num_bytes: int, seed: int) -> None:
    if not (side.incoming.array[:num_bytes] == seed).all():
        raise AssertionError(f"wrong data at rank {side.rank} after {num_bytes} bytes")


def _round(mpi: Any, side: Side, num_bytes: int, seed: int) -> tuple[float, ...]:
    """Virtual times in s on rank 0: write (half a ping-pong), read, stream of writes, of reads."""
    world, repetitions = mpi.COMM_WORLD, side.options.repetitions
    side.outgoing.array[:num_bytes] = seed
    if not side.options.fresh:
        side.incoming.array[:] = 0
    world.Barrier()
    start = mpi.Wtime()
    for turn in range(repetitions if side.rank < 2 else 0):
        if side.rank == 1:
            side.expect(turn)
        side.write(num_bytes, turn)
        if side.rank == 0:
            side.expect(turn)
        side.finish(side.channels[0])
    times = [(mpi.Wtime() - start) / repetitions / 2]
    world.Barrier()
    if side.rank < 2:
        _check(side, num_bytes, seed)
    side.incoming.array[:num_bytes] = 0
    world.Barrier()
    if side.rank == 0:  # the others wait at the barrier, where their NIs work
        for channels, source, target in (
            (side.readers[:1], side.source, side.incoming),
            (side.channels, side.outgoing, side.target),
            (side.readers, side.source, side.incoming),
        ):
            start = mpi.Wtime()
            side.stream(channels, source, target, num_bytes)
            times.append((mpi.Wtime() - start) / repetitions)
            _check(side, num_bytes, seed)
    world.Barrier()
    return tuple(times)


def _run(mpi: Any, options: Options, say: Say) -> int:
    world = mpi.COMM_WORLD
    require(world.Get_size() >= 2, "number of ranks", world.Get_size(), "2 or more", "-n 2")
    side = Side(world, options)
    say(
        f"one-sided RDMA between ranks 0 and 1: {options.repetitions} repetitions, bandwidth with "
        f"{options.num_channels} transfers at a time"
    )
    say("(virtual times; the interpreter's between calls is in them unless run.compute = none)")
    say(_HEADER)
    for i, num_bytes in enumerate(options.sizes()):
        times = _round(mpi, side, num_bytes, i + 1)
        if side.rank == 0:
            write, read, writes, reads = times
            say(
                f"{num_bytes:11d} {write * 1e6:11.3f} {read * 1e6:11.3f} "
                f"{num_bytes / writes / 1e6:13.2f} {num_bytes / reads / 1e6:12.2f}"
            )
    side.arrival.close()
    for channel in side.channels:
        channel.close()
    for buffer in (side.outgoing, side.incoming):
        buffer.free()
    return 0


if __name__ == "__main__":
    raise SystemExit(run_mini_app("rdma_pingpong", parse_options, _run))
