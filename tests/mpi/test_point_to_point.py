"""Send, receive and probe against what plain mpi4py does: its arguments, types, errors and limits.

What both transports promise of every call is tests/transport/test_every_call.py's.
"""

import numpy as np
import pytest

from pagewire.transport import MPI

pytestmark = pytest.mark.mpi

COUNTS = [0, 1, 7, 8, 9, 1000, 100_000]


def ring(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


@pytest.mark.parametrize("count", COUNTS)
def test_exchanges(comm, count):
    dest, source = ring(comm)
    mine, received = np.arange(count) + comm.rank, np.empty(count, int)
    status = MPI.Status()
    comm.Sendrecv(mine, dest, 1, received, source, 1, status)
    assert (received == np.arange(count) + source).all() and status.source == source
    comm.Isendrecv(mine * 2, dest, 1, received, source, 1).Wait(status)
    assert (received == 2 * (np.arange(count) + source)).all()
    assert (status.source, status.Get_count(MPI.LONG)) == (source, count)
    replaced = mine.copy()
    comm.Sendrecv_replace(replaced, dest, 1, source, 1)
    assert (replaced == np.arange(count) + source).all()
    replaced = mine.copy()
    comm.Isendrecv_replace(replaced, dest, 1, source, 1).Wait()
    assert (replaced == np.arange(count) + source).all()


def test_requests_and_matched_messages_are_of_mpi4pys_types(comm):
    dest, source = ring(comm)
    for find in (comm.Mprobe, lambda *words: MPI.Message.Probe(comm, *words)):
        request = comm.Isend(np.arange(5), dest, 9)
        message, received = find(source, 9), np.zeros(5, int)
        assert (type(request), type(message)) == (MPI.Request, MPI.Message)
        message.Recv(received)
        request.Wait()
        assert (message, request) == (MPI.MESSAGE_NULL, MPI.REQUEST_NULL)
        assert (received == np.arange(5)).all()


def test_probe_of_a_later_tag_does_not_let_it_overtake(comm):
    dest, source = ring(comm)
    requests = [comm.Isend(np.array([tag]), dest, tag) for tag in (1, 2)]
    comm.Probe(source, 2)
    received, status = np.zeros(1, int), MPI.Status()
    comm.Recv(received, source, MPI.ANY_TAG, status)
    assert (received[0], status.tag) == (1, 1)
    comm.Recv(received, source, MPI.ANY_TAG, status)
    assert (received[0], status.tag) == (2, 2)
    MPI.Request.Waitall(requests)


@pytest.mark.parametrize("count", [8, 5000])
@pytest.mark.parametrize("how", ["Recv", "Irecv", "probed"])
def test_too_long_a_message_is_an_error_at_the_receiver_only(comm, how, count):
    dest, source = ring(comm)
    request = comm.Isend(np.arange(count), dest, 1)
    received = np.full(count, -1)
    with pytest.raises(MPI.Exception) as caught:
        if how == "probed":
            comm.Probe(source, 1)
        if how == "Irecv":
            comm.Irecv(received[: count // 2], source, 1).Wait()
        else:
            comm.Recv(received[: count // 2], source, 1)
    assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
    request.Wait()
    assert (received[: count // 2] == np.arange(count // 2)).all()
    assert (received[count // 2 :] == -1).all()


def test_null_partner_is_left_to_mpi(comm):
    null, status = MPI.PROC_NULL, MPI.Status()
    buffer = np.ones(3)
    comm.Send(buffer, null)
    comm.Recv(buffer, null, status=status)
    assert (status.source, status.tag, status.count) == (null, MPI.ANY_TAG, 0)
    comm.Sendrecv(buffer, null, 0, buffer, null, 0)
    comm.Sendrecv_replace(None, null, 0, null, 0)
    MPI.Request.Waitall([comm.Isend(buffer, null), comm.Irecv(buffer, null)])
    comm.Probe(null, 0, status)
    assert status.source == null
    other = comm.rank ^ 1
    if other < comm.size:  # half an exchange
        comm.Sendrecv(buffer, other if comm.rank % 2 == 0 else null, 0, buffer,
                      other if comm.rank % 2 else null, 0, status)  # fmt: skip
        assert status.source == (other if comm.rank % 2 else null)


@pytest.mark.parametrize(
    "call",
    [
        lambda comm: comm.Send(np.ones(1), comm.size, 0),
        lambda comm: comm.Send(np.ones(1), -77, 0),
        lambda comm: comm.Isend(np.ones(1), 0, -5),
        lambda comm: comm.Recv(np.ones(1), comm.size, 0),
        lambda comm: comm.Irecv(np.ones(1), 0, -5),
        lambda comm: comm.Send(np.ones(4)[::2], 0, 0),
        lambda comm: comm.Isend(np.ones(4, ">f8"), 0, 0),
        lambda comm: comm.Recv(bytes(4), 0, 0),
        lambda comm: comm.Irecv(np.ones(4)[::2], 0, 0),
        lambda comm: comm.Send(3, 0, 0),
        lambda comm: comm.Send([np.ones(1), -1, MPI.DOUBLE], 0, 0),
        lambda comm: comm.Send(np.ones(1, "U3"), 0, 0),
        lambda comm: comm.Send([None, 4, MPI.INT], 0, 0),
        lambda comm: comm.Send([np.ones(3, "i4"), MPI.DOUBLE], 0, 0),
        lambda comm: MPI.COMM_NULL.Send(np.ones(1), 0, 0),
        lambda comm: comm.Ssend(np.ones(1), comm.size + 3, 0),
        lambda comm: comm.Probe(comm.size, 0),
        lambda comm: comm.Bcast(np.ones(1), comm.size),
        lambda comm: comm.send(1, comm.size, 0),
    ],
)
def test_wrong_arguments_raise_what_plain_mpi4py_raises(comm, call, plain):
    class Plain:
        size = comm.size

        def __getattr__(self, name):
            return lambda *args: plain(name, *args)

    with pytest.raises(Exception) as expected:
        call(Plain())
    with pytest.raises(Exception) as caught:
        call(comm)
    assert type(caught.value) is type(expected.value)
    if isinstance(caught.value, MPI.Exception):
        assert caught.value.Get_error_class() == expected.value.Get_error_class()


@pytest.mark.parametrize("count", [1, 5000])
def test_buffers_of_many_kinds(comm, count):
    dest, source = ring(comm)
    readonly = np.arange(count, dtype="i4") + comm.rank
    readonly.flags.writeable = False
    expected = np.arange(count, dtype="i4") + source
    target = np.zeros(count + 3, "i4")
    for sent, received in (
        (readonly, target[:count]),
        (bytes(readonly), target[:count]),
        (memoryview(readonly), [target, count]),
        ([readonly, MPI.INT], [target, count, MPI.INT]),
        ([readonly, count, MPI.INT], [target, count, "i"]),
        ([readonly, (count, 0), MPI.INT], [target, (count, 0), MPI.INT]),
        ([readonly.tobytes(), "B"], [target, count, 0, MPI.INT]),
        (np.asfortranarray(readonly.reshape(-1, 1)), target[:count].reshape(1, -1).T),
    ):
        target[:] = -1
        comm.Sendrecv(sent, dest, 0, received, source, 0)
        assert (target[:count] == expected).all() and (target[count:] == -1).all()
    target[:] = -1
    comm.Sendrecv(readonly, dest, 0, [target, (count, 2), MPI.INT], source, 0)
    assert (target[2 : count + 2] == expected).all() and (target[:2] == -1).all()


def test_unwaited_send_outlives_its_request(comm):
    dest, source = ring(comm)
    comm.Isend(np.full(5000, comm.rank), dest, 1)
    comm.Isend(np.full(3, comm.rank), dest, 2)
    received = np.empty(5000, int)
    comm.Recv(received[:3], source, 2)
    assert (received[:3] == source).all()
    comm.Recv(received, source, 1)
    assert (received == source).all()


@pytest.mark.parametrize("count", [1, 5000])
@pytest.mark.parametrize("send", ["Send_init", "Ssend_init", "Bsend_init", "Rsend_init"])
def test_persistent_requests_can_be_started_again(comm, send, count):
    dest, source = ring(comm)
    sent, received = np.zeros(count, int), np.zeros(count, int)
    sending, receiving = getattr(comm, send)(sent, dest, 3), comm.Recv_init(received, source, 3)
    both = [receiving, sending]
    for i in range(4):
        sent[:] = i + comm.rank
        MPI.Prequest.Startall(both)
        statuses = [MPI.Status(), MPI.Status()]
        MPI.Request.Waitall(both, statuses)
        assert (statuses[0].source, statuses[0].tag) == (source, 3)
        assert statuses[0].Get_count(MPI.LONG) == count
        assert (received == i + source).all()
        assert MPI.Request.Testany(both) == (MPI.UNDEFINED, True)
    receiving.Start()  # with an ordinary send
    comm.Isend(sent + 1, dest, 3)
    receiving.Wait()
    assert (received == 4 + source).all()
    sending.Free()
    receiving.Free()
    comm.Barrier()


def test_data_goes_through_the_node(comm, node):
    before = node.counters()["mpi_calls"].get("Sendrecv", {"calls": 0})["calls"]
    dest, source = ring(comm)
    comm.Sendrecv(np.ones(1), dest, 0, np.ones(1), source, 0)
    assert node.counters()["mpi_calls"]["Sendrecv"]["calls"] == before + 1
    assert "Blocking send" in comm.Send.__doc__
