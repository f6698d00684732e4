"""Registers of the context banks: positions, and what they show after a fault."""

import re

import pytest
from engine_pair import BLOCK, PAGE, PDID, Pair, absent, resident

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


def test_tasklet_that_clears_fsr_does_so_at_the_end_of_its_run() -> None:
    """Until then every further fault of the bank only sets MULTI: one interrupt for all pages."""
    pair = Pair(fsr_cleared_by=lib.PW_FSR_CLEARED_BY_TASKLET)
    pair.trace()
    pair.carry(*absent(BLOCK))
    c, counters, bank = pair.costs, pair.counters(1), pair.bank(1)
    assert counters.fault_interrupts == counters.tasklet_runs == counters.errs_sent == 1
    assert counters.faults_multi == BLOCK // 256 - 1 and counters.pages_paged_in == 4
    entry_ns = c.tasklet_other_ns + c.page_in_fixed_ns + c.page_in_page_ns + c.netlink_ns
    fault_ns = pair.time_of("fault_destination")
    assert (bank.fault_ns, bank.clear_ns) == (fault_ns, fault_ns + c.handler_ns + 4 * entry_ns)
    assert pair.log("err_sent")[0][0] == bank.clear_ns + c.user_wakeup_ns + c.err_send_ns


@pytest.mark.parametrize("page_in", [lib.PW_PAGE_IN_TOUCH_A_PAGE, lib.PW_PAGE_IN_TOUCH_AHEAD])
def test_tasklet_that_clears_fsr_meets_every_fault_in_the_end(page_in: int) -> None:
    pair = Pair(fsr_cleared_by=lib.PW_FSR_CLEARED_BY_TASKLET, page_in=page_in)
    for ends in ("source", "destination", "both"):
        source, destination = absent(5 * BLOCK, ends)
        pair.write(source, destination, at_ns=10**9 * len(ends))
        pair.finish()
        assert destination.read() == source.read()
    pair.assert_quiet()
