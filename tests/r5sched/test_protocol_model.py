"""Exhaustive search of the reduced model: the protocol is sound, and broken ones are found."""

import dataclasses
import itertools

import protocol_model
import pytest
from protocol_model import BROKEN, SCENARIOS, Limits, Rules, Violation, search

from pagewire.native import lib
from pagewire.r5sched import protocol
from pagewire.r5sched.protocol import Transition

FINDINGS = {
    "sequence numbers are not looked at": "is taken for",
    "an id's reuse is not looked at": "is taken for",
    "blocks written are not remembered": "is written twice",
    "no timer": "deadlock",
    "too few sequence numbers": "is taken for",
    "too few counts of reuse": "is taken for",
}
SMALL = Limits(blocks=1, ids=1, sequences=8)


@pytest.mark.parametrize("name", SCENARIOS)
def test_protocol_is_sound(name):
    found = search(SCENARIOS[name])
    assert found.num_states > 500 and found.num_steps > found.num_states


@pytest.mark.parametrize("name", BROKEN)
def test_broken_protocol_is_found(name):
    with pytest.raises(Violation) as caught:
        search(*BROKEN[name])
    assert FINDINGS[name] in caught.value.what
    assert caught.value.trail[0] == "issue block 0"


def test_every_rule_has_its_broken_protocol():
    switched_off = [rules for _, rules in BROKEN.values() if rules != Rules()]
    assert len(switched_off) == len(Rules.__slots__)


STEPS = list(itertools.product(protocol_model.PENDING, protocol_model.ANSWER_EVENTS.values()))
STEPS += [(state, "timeout") for state in protocol_model.PENDING]
ABSENT = Limits(blocks=1, ids=1, sequences=8, damages=1, fatal=1)
PRESENT = dataclasses.replace(ABSENT, absent_pages=False)


def test_the_searched_table_is_the_firmwares():
    for state, event in STEPS:
        found = lib.pw_block_transition_of(
            protocol.STATES.index(state), protocol.EVENTS.index(event)
        )
        assert protocol_model.TRANSITIONS[state, event] == (
            protocol.STATES[found.next],
            protocol.REACTIONS[found.reaction],
        )


def search_with(monkeypatch, steps, *all_limits):
    """Search with these steps instead of the table's; None: without the step."""
    table = {**protocol_model.TRANSITIONS, **steps}
    kept = {pair: transition for pair, transition in table.items() if transition is not None}
    monkeypatch.setattr(protocol_model, "TRANSITIONS", kept)
    for limits in all_limits:
        search(limits)


@pytest.mark.parametrize("pair", STEPS, ids="-".join)
def test_missing_step_of_the_table_is_found(monkeypatch, pair):
    with pytest.raises(Violation, match=f"no step from {pair[0]} by {pair[1]}"):
        search_with(monkeypatch, {pair: None}, PRESENT, ABSENT)


@pytest.mark.parametrize("pair", [pair for pair in STEPS if pair[1] != "ack"], ids="-".join)
def test_step_that_completes_without_an_ack_is_found(monkeypatch, pair):
    with pytest.raises(Violation, match="is completed and was never written"):
        search_with(monkeypatch, {pair: Transition("free", "complete")}, PRESENT, ABSENT)


@pytest.mark.parametrize("state", protocol_model.PENDING)
def test_step_that_gives_the_entry_back_and_sends_is_found(monkeypatch, state):
    with pytest.raises(Violation):
        search_with(monkeypatch, {(state, "timeout"): Transition("free", "retransmit")}, SMALL)


@pytest.mark.parametrize(
    "pair,broken",
    [
        (("nacked", "timeout"), Transition("nacked", "wait")),
        (("retransmitted", "ack"), Transition("retransmitted", "retransmit")),
        (("retransmitted", "ack"), Transition("nacked", "wait")),
    ],
    ids=str,
)
def test_step_that_leads_nowhere_is_found(monkeypatch, pair, broken):
    with pytest.raises(Violation, match="the end cannot be reached|is taken for"):
        search_with(monkeypatch, {pair: broken}, SMALL)


def test_entry_that_is_not_given_back_is_found(monkeypatch):
    one_id = Limits(ids=1, losses=0, duplicates=0, early_timeouts=0, absent_pages=False)
    with pytest.raises(Violation, match="deadlock"):
        search_with(monkeypatch, {("issued", "ack"): Transition("acked", "complete")}, one_id)


def test_step_that_forgets_to_retransmit_is_found(monkeypatch):
    waits = {("nacked", "err"): Transition("nacked", "wait")}
    waits[("nacked", "timeout")] = waits["nacked", "err"]
    monkeypatch.setattr(protocol_model, "TRANSITIONS", {**protocol_model.TRANSITIONS, **waits})
    with pytest.raises(Violation, match="the end cannot be reached"):
        search(SMALL)


def test_too_large_a_search_says_so():
    with pytest.raises(ValueError, match="more than 100 states"):
        search(SMALL, max_states=100)
