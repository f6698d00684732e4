"""Answers the engine's questions by a user's page-in policy: for every host of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pagewire.driver.policy import PageFault, PageInPolicy, reason_to_refuse
from pagewire.native import check, ffi, lib
from pagewire.native.extension import ExtensionError, ask

DECISION = int(lib.PW_HOST_DECISION)
"""Kind of the host event that asks; its id goes to `PolicyHost.answer`."""


_END_PAGE = 1 << 52


class PolicyError(ExtensionError):
    """A page-in policy raised, or answered what cannot be done; the run cannot go on."""


class PolicyHost:
    """The policy of one engine. `name` is how messages call it."""

    def __init__(self, ni: Any, memory: Any, policy: PageInPolicy, name: str) -> None:
        self._ni = ni
        self._memory = memory
        self._policy = policy
        self._name = name
        self._question = ffi.new("pw_decision *")
        self._failure: PolicyError | None = None

    def answer(self, decision_id: int) -> None:
        """Ask the policy and give the engine its answer, so that the engine goes on."""
        check(lib.pw_ni_read_decision(self._ni, decision_id, self._question), "page-in decision")
        fault = self._view()
        try:
            pages = ask(
                f"page-in policy '{self._name}'",
                fault,
                lambda: self._policy.pages(fault=fault),
                lambda answer: reason_to_refuse(answer, fault),
                PolicyError,
            )
        except PolicyError as error:
            self._failure = error
            raise
        first, end = max(pages.start, 0), min(pages.stop, _END_PAGE)
        code = lib.pw_ni_decide(self._ni, decision_id, first, end - first)
        check(code, "page-in decision, or a burst that came meanwhile")

    def raise_failure(self) -> None:
        """Raise again what ended the run, should the program have gone on: nothing moves any
        more."""
        if self._failure:
            raise self._failure

    def _view(self) -> PageFault:
        asked = self._question
        return PageFault(
            page=asked.page,
            block=range(asked.block_first_page, asked.block_end_page),
            transfer=range(asked.transfer_first_page, asked.transfer_end_page),
            at_destination=bool(asked.at_destination),
            time_ns=asked.time_ns,
            pdid=asked.pdid,
            bank=asked.bank,
            source_node=asked.source_node,
            transaction_id=asked.transaction_id,
            sequence=asked.sequence,
            probe=self._probe,
        )

    def _probe(self, first_page: int, num_pages: int) -> Sequence[bool]:
        state = ffi.new("uint8_t[]", num_pages)
        check(lib.pw_memory_probe(self._memory, first_page, num_pages, state), "residency")
        present = int(lib.PW_PAGE_PRESENT)
        return [each == present for each in ffi.buffer(state)[:]] if num_pages else []
