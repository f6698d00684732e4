"""The life of a block as the firmware has it: the table of protocol.h, read from the engine.

`TRANSITIONS` maps (state, event) to (next state, reaction); names are those of the C enums without
their prefix, in lower case. A pair that is missing cannot happen. `document()` tells all of it:
`python -m pagewire.r5sched.protocol` prints it, and docs/firmware.md has it when the site is built.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pagewire.native import ffi, lib


class Transition(NamedTuple):
    """Where an event leads and what the firmware does."""

    next: str
    reaction: str


def _names(enum: str, prefix: str, end: str) -> tuple[str, ...]:
    elements: Mapping[int, str] = ffi.typeof(f"enum {enum}").elements
    names = [name for _, name in sorted(elements.items()) if name != end]
    return tuple(name.removeprefix(prefix).lower() for name in names)


STATES = _names("pw_transaction_state", "PW_TRANSACTION_", "PW_TRANSACTION_STATES")
EVENTS = _names("pw_block_event", "PW_BLOCK_", "PW_BLOCK_EVENTS")
REACTIONS = _names("pw_block_reaction", "PW_REACT_", "PW_BLOCK_REACTIONS")


def _read() -> dict[tuple[str, str], Transition]:
    table = {}
    for state_idx, state in enumerate(STATES):
        for event_idx, event in enumerate(EVENTS):
            found = lib.pw_block_transition_of(state_idx, event_idx)
            if found.reaction:
                table[state, event] = Transition(STATES[found.next], REACTIONS[found.reaction])
    return table


TRANSITIONS: Mapping[tuple[str, str], Transition] = MappingProxyType(_read())

STATE_TEXTS = MappingProxyType(
    {
        "free": "no block holds the entry",
        "issued": "sent for the first time, no answer yet",
        "acked": "completed by an ACK that was foreseen and is not physically here "
        "(emulation only)",
        "nacked": "the destination met an absent page: the ERR, the timeout or the end of the "
        "transfer's pause resumes",
        "retransmitted": "sent again with the next sequence number, no answer yet",
    }
)

EVENT_TEXTS = MappingProxyType(
    {
        "start": "the window has room for the block, and a transaction id is free",
        "ack": "ACK of the present attempt",
        "foreseen_ack": "time at which the ACK will come for certain (`ni.lookahead_blocks`)",
        "confirmed": "the foreseen ACK is physically here",
        "refuted": "another answer came instead of the foreseen ACK",
        "nack_page_fault": "NACK 1",
        "nack_retry": "NACK 4 (corrupted packet), 7 (destination buffer full)",
        "nack_fatal": "NACK 2 (bad address), 3 (no context), 5 (protection domain)",
        "nack_not_ready": "receiver not ready (RNR): its NIC is handling a fault "
        "(`run.memory = odp`)",
        "nack_sequence": "a block, or a packet, before this one is missing (`run.memory = odp`)",
        "err": "retransmit request after a page fault (ERR)",
        "timeout": "the block's timer has expired",
        "err_while_sent": "ERR before the attempt has left the NI (retransmission bit)",
        "timeout_while_sent": "timer expired before the attempt has left the NI "
        "(retransmission bit)",
        "go_back": "a block before this one is sent again, or the transfer's pause is over "
        "(`run.memory = odp`)",
        "hopeless": "no answer will come and no timer runs; or 4096 attempts were impaired",
        "abandoned": "the block's transfer has failed",
    }
)

REACTION_TEXTS = MappingProxyType(
    {
        "send": "sequence number 0, start the timer, send",
        "complete": "count the block as done, give the id back, let the window go on",
        "hold": "count the block as done, keep the entry until the ACK is here",
        "release": "give the id back",
        "reopen": "take the completion back, start the timer; then the answer is handled",
        "wait": "for the ERR, or the timer (which the NACK stops with `run.nack_cancels_timer`)",
        "retransmit": "next sequence number, start the timer, send",
        "rearm": "start the timer when the attempt has left",
        "defer": "look at it again when the attempt has left",
        "pause": "stop the timers of the transfer's blocks; after `odp.rnr_timer` it goes back",
        "go_back": "send every block of the transfer that is not acknowledged again, in order",
        "fail": "end the transfer with an error; its blocks are abandoned",
    }
)


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (heads, ("---",) * len(heads), *rows)]
    return "\n".join(lines)


def document() -> str:
    """Tables in Markdown."""
    cells = [(event, *(_cell(state, event) for state in STATES)) for event in EVENTS]
    return "\n\n".join(
        [
            _table(("event", *STATES), cells),
            _table(("state", ""), list(STATE_TEXTS.items())),
            _table(("event", ""), list(EVENT_TEXTS.items())),
            _table(("reaction", ""), list(REACTION_TEXTS.items())),
        ]
    )


def _cell(state: str, event: str) -> str:
    transition = TRANSITIONS.get((state, event))
    return f"{transition.reaction} → {transition.next}" if transition else ""


if __name__ == "__main__":
    print(document())
