"""Exhaustive search of the reduced model: the protocol is sound, and broken ones are found."""

import pytest

from pagewire.r5sched import protocol_model
from pagewire.r5sched.protocol import Transition
from pagewire.r5sched.protocol_model import BROKEN, SCENARIOS, Limits, Rules, Violation, search

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


@pytest.mark.parametrize(
    "pair", [("nacked", "err"), ("nacked", "timeout"), ("issued", "ack"), ("nacked", "ack")]
)
def test_missing_step_of_the_table_is_found(monkeypatch, pair):
    table = {key: value for key, value in protocol_model.TRANSITIONS.items() if key != pair}
    monkeypatch.setattr(protocol_model, "TRANSITIONS", table)
    with pytest.raises(Violation, match=f"no step from {pair[0]} by {pair[1]}"):
        search(SMALL)


def test_step_that_forgets_to_retransmit_is_found(monkeypatch):
    waits = {("nacked", "err"): Transition("nacked", "wait")}
    waits[("nacked", "timeout")] = waits["nacked", "err"]
    monkeypatch.setattr(protocol_model, "TRANSITIONS", {**protocol_model.TRANSITIONS, **waits})
    with pytest.raises(Violation, match="the end cannot be reached"):
        search(SMALL)


def test_too_large_a_search_says_so():
    with pytest.raises(ValueError, match="more than 100 states"):
        search(SMALL, max_states=100)
