"""One-sided writes and reads between ranks by the RDMA library, beside MPI traffic."""

import os

import numpy as np
import pytest

from pagewire.native import EngineError, lib

pytestmark = pytest.mark.mpi

BLOCK = 16384
NOWHERE = 0x10_0000
SIZES = (1, 255, 4096, BLOCK, BLOCK + 1, 5 * BLOCK + 77)


@pytest.fixture
def rdma():
    from pagewire.transport import rdma

    return rdma


@pytest.fixture
def make(rdma, comm):
    """Buffers that are freed when no rank uses them any more."""
    made = []

    def buffer(num_bytes):
        made.append(rdma.Buffer(num_bytes))
        return made[-1]

    yield buffer
    comm.Barrier()
    for each in made:
        each.free()


def pattern(num_bytes, rank):
    return ((np.arange(num_bytes) * 7 + 31 * rank + 1) % 251).astype(np.uint8)


def write(channel, *what, **how):
    """Until it is finished."""
    channel.insert(*what, **how)
    channel.trigger()
    assert channel.wait().name == "FINISHED"


def neighbours(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def test_write_brings_data_and_notification_to_the_next_rank(comm, rdma, make):
    source, target = make(max(SIZES)), make(max(SIZES) + 64)
    words = max(SIZES) // 16 * 16 + 16
    notification = rdma.Notification(target, words)
    everybody = comm.allgather((target.remote, notification.remote))
    to, come_from = neighbours(comm)
    channel = rdma.Channel()
    for i, num_bytes in enumerate(SIZES):
        source.array[:num_bytes] = pattern(num_bytes, comm.rank + i)
        channel.insert(
            source,
            everybody[to][0],
            num_bytes,
            notification=everybody[to][1],
            first_data=comm.rank,
            last_data=i,
        )
        channel.trigger()
        notice = notification.wait()
        assert (notice.first_data, notice.last_data, notice.rank) == (come_from, i, come_from)
        assert (target.array[:num_bytes] == pattern(num_bytes, come_from + i)).all()
        assert target.view(np.uint64, words, 2).tolist() == [come_from, i]
        assert channel.wait() is rdma.Status.FINISHED
        assert channel.error is None
        comm.Barrier()  # the next write changes what the next rank looks at
    channel.close()
    notification.close()


def test_read_takes_data_from_the_next_rank_as_often_as_it_wants(comm, rdma, make):
    source, target = make(max(SIZES)), make(max(SIZES))
    source.array[:] = pattern(source.num_bytes, comm.rank)
    everybody = comm.allgather(source.remote)
    peer, _ = neighbours(comm)
    reader = rdma.ReadChannel()
    for num_bytes in SIZES:
        target.array[:] = 0
        reader.insert(everybody[peer], target, num_bytes, source_offset=max(SIZES) - num_bytes)
        reader.trigger()
        while (status := reader.poll()) is not rdma.Status.FINISHED:
            assert status is rdma.Status.ONGOING
        expected = pattern(source.num_bytes, peer)[max(SIZES) - num_bytes :]
        assert (target.array[:num_bytes] == expected).all()
        assert not target.array[num_bytes:].any()


def test_read_notifies_the_reader(comm, rdma, make):
    source, target = make(3 * BLOCK), make(3 * BLOCK + 16)
    source.array[:] = pattern(source.num_bytes, comm.rank)
    peer, _ = neighbours(comm)
    remote = comm.allgather(source.remote)[peer]
    notification = rdma.Notification(target, 3 * BLOCK)
    reader = rdma.ReadChannel()
    reader.insert(remote, target, notification=notification, first_data=5, last_data=2**64 - 1)
    reader.trigger()
    while (notice := notification.poll()) is None:
        pass
    assert (notice.first_data, notice.last_data) == (5, 2**64 - 1)
    assert (target.array[: 3 * BLOCK] == pattern(3 * BLOCK, peer)).all()
    assert reader.wait() is rdma.Status.FINISHED


def test_bad_remote_memory_fails_and_both_sides_live_on(comm, rdma, make):
    source, target = make(2 * BLOCK), make(2 * BLOCK)
    source.array[:] = pattern(source.num_bytes, comm.rank)
    to, come_from = neighbours(comm)
    there = comm.allgather(target.remote)[to]
    nowhere = there._replace(address=NOWHERE)
    channel, reader = rdma.Channel(), rdma.ReadChannel()
    keys = (0, 1, there.key + 1, there.key ^ 1 << 32, there.key ^ 1 << 40)
    for each, what, code in (
        (channel, (source, nowhere), lib.PW_ERR_PROTECTION),  # outside of what its key names
        (channel, (source, nowhere._replace(key=0)), lib.PW_ERR_ADDRESS),
        (reader, (nowhere._replace(key=0), target), lib.PW_ERR_PROTECTION),
        *((reader, (there._replace(key=key), target), lib.PW_ERR_PROTECTION) for key in keys),
    ):
        each.insert(*what)
        each.trigger()
        assert each.wait() is rdma.Status.FAILED
        assert each.poll() is rdma.Status.FAILED
        assert each.error.code == code
    assert not target.array.any()
    reader.insert(there, target)
    reader.trigger()
    assert reader.wait() is rdma.Status.FINISHED
    comm.Barrier()  # all have read
    write(channel, source, there)
    comm.Barrier()
    assert (target.array == pattern(source.num_bytes, come_from)).all()
    channel.close()


def test_freed_buffer_is_refused_to_its_readers(comm, rdma):
    source, target = rdma.Buffer(BLOCK), rdma.Buffer(BLOCK)
    peer, _ = neighbours(comm)
    remote = comm.allgather(source.remote)[peer]
    comm.Barrier()
    source.free()
    comm.Barrier()
    reader = rdma.ReadChannel()
    reader.insert(remote, target)
    reader.trigger()
    assert reader.wait() is rdma.Status.FAILED
    comm.Barrier()
    target.free()
    with pytest.raises(ValueError, match="freed before"):
        target.free()


def test_33rd_channel_is_refused_with_the_limit(rdma):
    channels = [rdma.Channel() for _ in range(32)]
    with pytest.raises(EngineError, match="32 write channels") as refused:
        rdma.Channel()
    assert refused.value.code == lib.PW_ERR_FULL
    channels[7].close()
    channels[7] = rdma.Channel()
    assert channels[7].number == 7
    for channel in channels:
        channel.close()


def test_misuse_names_value_and_limit(comm, rdma, make):
    buffer = make(100)
    channel = rdma.Channel()
    with pytest.raises(ValueError, match="0 bytes"):
        rdma.Buffer(0)
    with pytest.raises(ValueError, match="nothing to trigger"):
        channel.trigger()
    with pytest.raises(ValueError, match="nothing was triggered"):
        channel.poll()
    for offset in (8, 96):
        with pytest.raises(ValueError, match="multiple of 16 up to 84"):
            rdma.Notification(buffer, offset)
    stranger = buffer.remote._replace(rank=comm.size)
    elsewhere = rdma.RemoteNotification(comm.rank + 1, buffer.address)
    for said, remote, how in (
        ("101 bytes at offset 0 .* it has 100 bytes", buffer.remote, {"num_bytes": 101}),
        ("offset 95 of the remote", buffer.remote, {"num_bytes": 9, "destination_offset": 95}),
        ("offset -1", buffer.remote, {"num_bytes": 1, "source_offset": -1}),
        (f"rank {comm.size}: there are {comm.size} ranks", stranger, {}),
        ("must be the same rank", buffer.remote, {"notification": elsewhere}),
        ("window of 0 blocks: allowed is 1 to 64", buffer.remote, {"window_blocks": 0}),
        ("window of 65 blocks: allowed is 1 to 64", buffer.remote, {"window_blocks": 65}),
        ("4 is not a valid Hint", buffer.remote, {"hint": 4}),
    ):
        with pytest.raises(ValueError, match=said):
            channel.insert(buffer, remote, **how)
    write(channel, buffer, buffer.remote, hint=rdma.Hint.LOW, window_blocks=64)
    channel.close()


def test_what_was_inserted_stays_when_the_next_insert_is_refused(rdma, make):
    source, target = make(100), make(100)
    source.array[:] = 5
    reader = rdma.ReadChannel()
    reader.insert(source.remote, target, 10)
    with pytest.raises(ValueError, match="101 bytes"):
        reader.insert(source.remote, target, 101, first_data=1)
    reader.trigger()
    with pytest.raises(ValueError, match="nothing to trigger"):
        reader.trigger()
    assert reader.wait() is rdma.Status.FINISHED
    assert target.array.tolist() == [5] * 10 + [0] * 90
    reader.insert(source.remote, target, 10)
    for look in (reader.poll, reader.wait):
        with pytest.raises(ValueError, match="trigger it first"):
            look()


def test_mpi_messages_pass_while_a_rank_waits_for_a_notification(comm, rdma, make):
    if comm.size == 1:
        pytest.skip("needs a peer")
    big = np.zeros(10 * BLOCK, np.uint8)
    target = make(BLOCK)
    notification = rdma.Notification(target, 0)
    everybody = comm.allgather((target.remote, notification.remote))
    if comm.rank == 0:
        request = comm.Irecv(big, 1)
        assert notification.wait().first_data == 3
        request.Wait()
        assert (big == 9).all()
    elif comm.rank == 1:
        source = make(1)
        big[:] = 9
        comm.Send(big, 0)  # the receiver is inside notification.wait
        channel = rdma.Channel()
        write(channel, source, everybody[0][0], 1, destination_offset=100,
              notification=everybody[0][1], first_data=3)  # fmt: skip
        channel.close()


def test_write_of_a_forked_child_stays_the_childs(comm, rdma, make):
    source, target = make(BLOCK), make(BLOCK)
    source.array[:] = 1
    child = os.fork()
    if child == 0:
        source.array[:] = 2
        os._exit(0)
    os.waitpid(child, 0)
    assert (source.array == 1).all()
    to, _ = neighbours(comm)
    everybody = comm.allgather(target.remote)
    channel = rdma.Channel()
    write(channel, source, everybody[to])
    comm.Barrier()
    assert (target.array == 1).all()
    channel.close()
