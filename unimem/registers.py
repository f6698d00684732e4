"""Register maps of mailbox and packetizer, operations and limits of Unimem, for people.

Offsets and bits are those of the engine's headers; what the prototype had: D3.6 2, 5.1, 5.2.
"""

from __future__ import annotations

from pagewire.native import lib
from pagewire.run.settings.config import Config


def _bit(flag: int) -> str:
    return str(flag.bit_length() - 1)


_FIFO = "mailbox FIFO, one page each"
_PIF = "packetizer interface (PIF), one page each"
_TIF = "trusted page (TIF), the driver's"

LAYOUT = (
    (_FIFO, lib.PW_MAILBOX_REGISTER, "DATA", "127:0", "rw",
     "a write enqueues a word, a read takes one out; empty: CAFEFEBEDEADBEAF twice"),
    (_PIF, lib.PW_PIF_PAYLOAD0, "PAYLOAD0", "127:48", "w",
     "80 bits; bits 47:0 give way to the sender's id"),
    (_PIF, lib.PW_PIF_PAYLOAD1, "PAYLOAD1", "127:0", "w", "128 bits"),
    (_PIF, lib.PW_PIF_DESTINATION, "DEST", "39:0", "w",
     "node, base 33:18, FIFO 17:12; the third of the three writes sends"),
    (_PIF, lib.PW_PIF_STATUS, "PEND", _bit(lib.PW_PIF_PEND), "r", "a packet is on its way: wait"),
    (_PIF, lib.PW_PIF_STATUS, "ILLEGAL", _bit(lib.PW_PIF_ILLEGAL), "r",
     "the destination is outside of BASE_DEST; nothing was sent"),
    (_PIF, lib.PW_PIF_STATUS, "NACK", _bit(lib.PW_PIF_NACK), "r",
     "refused; cleared by the next packet"),
    (_PIF, lib.PW_PIF_STATUS, "ACK", _bit(lib.PW_PIF_ACK), "r",
     "taken; cleared by the next packet"),
    (_PIF, lib.PW_PIF_STATUS, "OVERWR_BUF", _bit(lib.PW_PIF_OVERWR_BUF), "r",
     "written while a packet was prepared or on its way"),
    (_TIF, lib.PW_TIF_IDS, "ID", "47:0", "rw", "of interface i, at 8 i"),
    (_TIF, lib.PW_TIF_BASE_DEST, "BASE_DEST", "33:18", "rw", "base of destinations"),
    (_TIF, lib.PW_TIF_PID_CONF, "PID_CONF", "63:0", "rw",
     "one valid bit an interface; without it nothing is sent"),
    (_TIF, lib.PW_TIF_CLR_REQ, "CLR_REQ", "63:0", "w",
     "one bit an interface: forget what was written"),
)  # fmt: skip
"""Page, offset, name, bits, access and meaning of each register, or of a field of it."""

OPERATIONS = (
    ("alloc", lib.PW_UNIMEM_ALLOC, "pages", "rights denied", "address"),
    ("free", lib.PW_UNIMEM_FREE, "", "", ""),
    ("fork", lib.PW_UNIMEM_FORK, "page of its description", "", "child's id"),
    ("read8", lib.PW_UNIMEM_READ8, "", "", "byte"),
    ("read32", lib.PW_UNIMEM_READ32, "", "", "half a word"),
    ("read64", lib.PW_UNIMEM_READ64, "", "", "word"),
    ("read4k", lib.PW_UNIMEM_READ4K, "", "", "4096, and the page"),
    ("write8", lib.PW_UNIMEM_WRITE8, "byte", "", ""),
    ("write32", lib.PW_UNIMEM_WRITE32, "half a word", "", ""),
    ("write64", lib.PW_UNIMEM_WRITE64, "word", "", ""),
    ("write128", lib.PW_UNIMEM_WRITE128, "low word", "high word", ""),
    ("cas", lib.PW_UNIMEM_CAS, "expected", "wanted", "1 or 0"),
    ("faa", lib.PW_UNIMEM_FAD, "addend", "", "old word"),
    ("swap", lib.PW_UNIMEM_SWAP, "word", "", "old word"),
)
"""Name, opcode, what the two arguments and the result are."""


def ignored_bits(opcode: int) -> int:
    """How many low bits of an address the operation loses."""
    return int(lib.pw_atomic_ignored_bits(opcode)).bit_length()


def _limit(value: int | None, unit: str = "") -> str:
    return "no limit" if value is None else f"{value:,}{unit}"


def limits(config: Config) -> tuple[tuple[str, str, str], ...]:
    """What, what the prototype had, what a run with this configuration has."""
    unimem = config.unimem
    return (
        ("nodes", "64: 6 of 40 bits of a destination", "65,536: 16 bits of an address"),
        ("threads of a node", "63", "63"),
        ("words of a FIFO", "not given", f"{unimem.fifo_words} (unimem.fifo_words)"),
        (
            "burst into an almost full FIFO",
            "cut, positive answer",
            f"{unimem.bursts} (unimem.bursts)",
        ),
        (
            "shared memory of a node",
            "8 GB, less Linux's",
            f"{unimem.memory_bytes:,} B (unimem.memory)",
        ),
        ("rights of pages", "kept, not enforced", "enforced"),
        ("an invalid address", "ends the program", "an error of the operation"),
        (
            "a buffer of the DMA library",
            "256 MB",
            f"{_limit(unimem.dma_buffer_bytes, ' B')} (unimem.dma_buffer)",
        ),
        (
            "buffers of the DMA library at a node",
            "1",
            f"{_limit(unimem.dma_buffers)} (unimem.dma_buffers)",
        ),
        (
            "its transfers that are not over",
            "not given",
            f"{lib.UNIM_DMA_TRANSFERS_MAX:,}, {lib.PW_WRITE_CHANNELS} of the writes started",
        ),
        ("memory not freed", "stays taken after the program", "goes with its node"),
    )
