"""Registers of an SMMU context bank as typed fields, with ARM's names and bit positions.

Names and positions: ARM SMMU architecture (SMMU_CBn_*), as far as [PART 4.3; PSI App. A] use them.
A bank shows its last fault: it was active from `fault_ns` until `clear_ns`, when the handler wrote
FSR back (terminate) or the tasklet wrote FSR and RESUME (stall). Not modelled: every other bit of
these registers.
"""

import dataclasses
import enum
from typing import Any


class Fsr(enum.IntFlag):
    """Fault status."""

    TF = 1 << 1
    PF = 1 << 3
    SS = 1 << 30
    MULTI = 1 << 31


class Fsynr0(enum.IntFlag):
    """Fault syndrome."""

    WNR = 1 << 4


class Sctlr(enum.IntFlag):
    """System control."""

    M = 1 << 0
    CFRE = 1 << 5
    CFIE = 1 << 6
    CFCFG = 1 << 7
    HUPCF = 1 << 8


class Resume(enum.IntEnum):
    """What software writes to RESUME (field TnR, bit 0) for a stalled access."""

    RETRY = 0
    TERMINATE = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field of a register, for people."""

    register: str
    name: str
    bits: str
    meaning: str


LAYOUT = (
    Field("SCTLR", "M", "0", "translation is enabled"),
    Field("SCTLR", "CFRE", "5", "a fault is answered to the initiator with an abort"),
    Field("SCTLR", "CFIE", "6", "a fault raises an interrupt"),
    Field("SCTLR", "CFCFG", "7", "0: a faulting access is terminated; 1: it stalls"),
    Field(
        "SCTLR",
        "HUPCF",
        "8",
        "1: later accesses go on while a fault is active; 0: they meet it too",
    ),
    Field("FSR", "TF", "1", "translation fault"),
    Field("FSR", "PF", "3", "permission fault"),
    Field("FSR", "SS", "30", "an access is stalled until RESUME is written"),
    Field("FSR", "MULTI", "31", "further faults came while this one was active"),
    Field("FAR", "FADDR", "31:0", "faulting address, low part"),
    Field("FAR_HIGH", "FADDR", "63:32", "faulting address, high part"),
    Field("FSYNR0", "WNR", "4", "1: write, destination side; 0: read, source side"),
    Field("RESUME", "TnR", "0", "stalled access: 0 retry, 1 terminate"),
)
"""The fields that are modelled, in the order in which they are shown."""


@dataclasses.dataclass(frozen=True, slots=True)
class ContextBank:
    """Registers of one bank, as they are after its last fault."""

    idx: int
    pdid: int
    sctlr: Sctlr
    fsr: Fsr
    far: int
    far_high: int
    fsynr0: Fsynr0
    fault_ns: int
    clear_ns: int
    resume: Resume
    """last value written; RETRY before the first"""

    @classmethod
    def from_engine(cls, idx: int, bank: Any) -> "ContextBank":
        """The engine's `pw_context_bank` as typed fields."""
        return cls(
            idx=idx,
            pdid=bank.pdid,
            sctlr=Sctlr(bank.sctlr),
            fsr=Fsr(bank.fsr),
            far=bank.far,
            far_high=bank.far_high,
            fsynr0=Fsynr0(bank.fsynr0),
            fault_ns=bank.fault_ns,
            clear_ns=bank.clear_ns,
            resume=Resume(bank.resume),
        )

    @property
    def address(self) -> int:
        """Faulting address of FAR and FAR_HIGH."""
        return self.far_high << 32 | self.far

    def fsr_at(self, now_ns: int) -> Fsr:
        """FSR as software reads it at `now_ns`, 0 before the last fault and once it is cleared."""
        return self.fsr if self.fault_ns <= now_ns < self.clear_ns else Fsr(0)


def sctlr_of(mode: str, hupcf: int) -> Sctlr:
    """SCTLR of every bank in use under smmu.mode and smmu.hupcf."""
    value = Sctlr.M | Sctlr.CFRE | Sctlr.CFIE
    if mode == "stall":
        value |= Sctlr.CFCFG
    return value | Sctlr.HUPCF if hupcf else value


def describe(value: enum.IntFlag) -> str:
    """Hexadecimal value and the names of its set bits."""
    names = " ".join(each.name or "" for each in type(value) if each in value)
    return f"{int(value):#x} ({names})"
