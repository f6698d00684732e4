"""Exhaustive search of the reduced model: the protocol is sound, and broken ones are found."""

import dataclasses
import itertools

import protocol_model
import pytest
from protocol_model import BROKEN, SCENARIOS, Limits, Rules, Violation, search

from pagewire.native import lib
from pagewire.r5sched import protocol
from pagewire.r5sched.protocol import Transition

SMALL = Limits(blocks=1, ids=1, sequences=8)


@pytest.mark.parametrize("name", SCENARIOS)
def test_protocol_is_sound(name):
    num_states, num_steps = search(SCENARIOS[name])
    assert num_states > 500 and num_steps > num_states


@pytest.mark.parametrize("name", BROKEN)
def test_broken_protocol_is_found(name):
    with pytest.raises(Violation) as caught:
        search(*BROKEN[name][:2])
    assert BROKEN[name][2] in caught.value.what
    assert caught.value.trail[0] == "issue block 0"


def test_every_rule_has_its_broken_protocol():
    switched_off = [rules for _, rules, _ in BROKEN.values() if rules != Rules()]
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


NO_STEP = None
WAITS = Transition("nacked", "wait")
ONE_ID = Limits(ids=1, losses=0, duplicates=0, early_timeouts=0, absent_pages=False)
NO_END = "the end cannot be reached|is taken for"
WRONG_TABLES = [
    *(
        ({pair: NO_STEP}, f"no step from {pair[0]} by {pair[1]}", (PRESENT, ABSENT))
        for pair in STEPS
    ),
    *(
        (
            {pair: Transition("free", "complete")},
            "completed and was never written",
            (PRESENT, ABSENT),
        )
        for pair in STEPS
        if pair[1] != "ack"
    ),
    # a step that gives the entry back, and sends
    *(
        ({(state, "timeout"): Transition("free", "retransmit")}, ".", (SMALL,))
        for state in protocol_model.PENDING
    ),
    # steps that lead nowhere
    ({("nacked", "timeout"): WAITS}, NO_END, (SMALL,)),
    ({("retransmitted", "ack"): Transition("retransmitted", "retransmit")}, NO_END, (SMALL,)),
    ({("retransmitted", "ack"): WAITS}, NO_END, (SMALL,)),
    # steps that forget to retransmit
    ({("nacked", "err"): WAITS, ("nacked", "timeout"): WAITS}, "the end cannot be", (SMALL,)),
    # an entry that is not given back
    ({("issued", "ack"): Transition("acked", "complete")}, "deadlock", (ONE_ID,)),
]


@pytest.mark.parametrize("changes,found,all_limits", WRONG_TABLES)
def test_wrong_step_of_the_table_is_found(monkeypatch, changes, found, all_limits):
    table = {**protocol_model.TRANSITIONS, **changes}
    kept = {pair: transition for pair, transition in table.items() if transition is not NO_STEP}
    monkeypatch.setattr(protocol_model, "TRANSITIONS", kept)
    with pytest.raises(Violation, match=found):
        for limits in all_limits:
            search(limits)


def test_too_large_a_search_says_so():
    with pytest.raises(ValueError, match="more than 100 states"):
        search(SMALL, max_states=100)
