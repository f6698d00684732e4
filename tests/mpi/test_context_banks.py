"""The node's SMMU as a program on MPI can look at it."""

import mmap

import numpy as np
import pytest

from pagewire.smmu.registers import Fsr, Fsynr0, Sctlr, sctlr_of
from pagewire.transport import MPI

pytestmark = pytest.mark.mpi

NUM_BYTES = 1 << 18


def fresh() -> np.ndarray:
    """Anonymous memory of which no page was ever touched."""
    pages = mmap.mmap(-1, NUM_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def holds(buffer: np.ndarray, address: int) -> bool:
    return buffer.ctypes.data <= address < buffer.ctypes.data + NUM_BYTES


def test_fault_at_the_destination_stays_in_the_registers(comm, node):
    (before,) = node.engine.context_banks()
    smmu = node.config.smmu
    assert before.sctlr == sctlr_of(smmu.mode, smmu.hupcf) and Sctlr.M in before.sctlr
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sent, received = np.full(NUM_BYTES, comm.rank, np.uint8), fresh()
    comm.Sendrecv(sent, dest, 3, received, source, 3)
    assert (received == source).all()
    (bank,) = node.engine.context_banks()
    assert (bank.idx, bank.pdid) == (before.idx, before.pdid)
    assert Fsr.TF in bank.fsr and Fsr.PF not in bank.fsr
    assert bank.fsynr0 == Fsynr0.WNR
    assert holds(received, bank.address)
    assert before.fault_ns < bank.fault_ns < bank.clear_ns
    assert bank.clear_ns - bank.fault_ns >= node.platform.costs.handler_ns
    assert bank.fsr_at(bank.clear_ns) == 0


@pytest.mark.skipif(MPI.COMM_WORLD.size == 1, reason="a rank of its own sends to itself")
def test_fault_at_the_source_is_a_read(comm, node):
    untouched = fresh()
    comm.Barrier()
    if comm.rank == 0:
        comm.Send(untouched, 1)  # never written: it is read as zeros
        (bank,) = node.engine.context_banks()
        assert Fsr.TF in bank.fsr
        assert bank.fsynr0 == 0
        assert holds(untouched, bank.address)
    elif comm.rank == 1:
        received = np.full(NUM_BYTES, 7, np.uint8)
        comm.Recv(received, 0)
        assert not received.any()
    comm.Barrier()
