"""Registers of the context banks: positions, and what they show after a fault."""

import re

import pytest
from engine_pair import PAGE, PDID, Pair, resident

from pagewire.native import ffi, lib
from pagewire.smmu.registers import LAYOUT, Fsr, Fsynr0, Sctlr, describe, sctlr_of


@pytest.mark.parametrize("register", [Fsr, Fsynr0, Sctlr])
def test_bits_are_those_of_the_engine_and_of_the_layout(register: type) -> None:
    for bit in register:
        name = f"{register.__name__.upper()}_{bit.name}"
        assert getattr(lib, f"PW_{name}") == bit
        (field,) = [each for each in LAYOUT if f"{each.register}_{each.name}" == name]
        assert 1 << int(field.bits) == bit


@pytest.mark.parametrize("hupcf", [0, 1])
def test_bank_in_use_shows_its_configuration(hupcf: int) -> None:
    pair = Pair(hupcf=hupcf)
    bank = pair.bank(0)
    assert bank.pdid == PDID
    assert bank.sctlr == sctlr_of("terminate", hupcf)
    assert (Sctlr.HUPCF in bank.sctlr) == bool(hupcf)
    assert bank.fsr_at(0) == 0
    assert pair.bank(0, 1).pdid == 0
    out = ffi.new("pw_context_bank *")
    assert lib.pw_ni_read_bank(pair.nis[0], 16, out) == lib.PW_ERR_INVALID
    assert re.fullmatch(r"0x1?61 \(M CFRE CFIE( HUPCF)?\)", describe(bank.sctlr))


@pytest.mark.parametrize("at_destination", [True, False])
def test_bank_shows_the_fault_until_the_handler_clears_it(at_destination: bool) -> None:
    pair = Pair()
    pair.trace()
    source, destination = resident(256)
    faulty = destination if at_destination else source
    faulty.drop()
    pair.write(source, destination)
    pair.run()
    bank = pair.bank(int(at_destination))
    assert bank.fsr == Fsr.TF
    assert bank.address == faulty.first_page * PAGE
    assert bank.fsynr0 == (Fsynr0.WNR if at_destination else 0)
    fault_ns = pair.time_of("fault_destination" if at_destination else "fault_source")
    assert (bank.fault_ns, bank.clear_ns) == (fault_ns, fault_ns + pair.costs.handler_ns)
    assert bank.fsr_at(fault_ns) == Fsr.TF
    assert bank.fsr_at(fault_ns - 1) == bank.fsr_at(bank.clear_ns) == 0
