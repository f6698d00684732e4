"""Answers the engine's questions by a user's page-in and ERR policies: for every host of an
engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from pagewire.driver.policy import (
    ERR_REGISTRY,
    REGISTRY,
    Err,
    ErrPolicy,
    PageFault,
    PageInPolicy,
    reason_to_refuse,
    reason_to_refuse_err,
)
from pagewire.native import check, ffi, lib
from pagewire.native.extension import ExtensionError, ask

Answer = TypeVar("Answer")

DECISION = int(lib.PW_HOST_DECISION)
"""Kind of the host event that asks; its id goes to `PolicyHost.answer`."""


_END_PAGE = 1 << 52


class PolicyError(ExtensionError):
    """A policy raised, or answered what cannot be done; the run cannot go on."""


class OwnPolicies(NamedTuple):
    """What is not the engine's, None for what is, and how messages call it."""

    page_in: PageInPolicy | None
    page_in_name: str
    err: ErrPolicy | None
    err_name: str

    @classmethod
    def of_settings(
        cls, policy: str, err_by: str, page_in: PageInPolicy | None = None
    ) -> OwnPolicies:
        """By the values of `run.policy` and `driver.err_by`; ConfigError says why not. page_in: in
        place of an object of the class that `policy` names."""
        err = ERR_REGISTRY.create(err_by)
        own = REGISTRY.create(policy) if page_in is None else page_in
        return cls(own, policy, err, err_by)

    @property
    def are_any(self) -> bool:
        """Is anybody asked? A user's object may be false by itself."""
        return self.page_in is not None or self.err is not None

    def host(self, ni: Any, memory: Any) -> PolicyHost | None:
        """What answers for an engine; None when nobody is asked."""
        return PolicyHost(ni, memory, self) if self.are_any else None


class PolicyHost:
    """The policies of one engine."""

    def __init__(self, ni: Any, memory: Any, own: OwnPolicies) -> None:
        self._ni = ni
        self._memory = memory
        self._own = own
        self._question = ffi.new("pw_decision *")
        self._failure: PolicyError | None = None

    def answer(self, decision_id: int) -> None:
        """Ask the policies and give the engine their answers, so that it goes on."""
        check(lib.pw_ni_read_decision(self._ni, decision_id, self._question), "page-in decision")
        fault = self._view()
        pages = self._pages(fault)
        if self._own.err is not None and fault.at_destination:
            err = self._err(self._own.err, fault, pages)
            check(lib.pw_ni_decide_err(self._ni, decision_id, err.by, err.after), "ERR decision")
        first, end = max(pages.start, 0), min(pages.stop, _END_PAGE)
        code = lib.pw_ni_decide(self._ni, decision_id, first, end - first)
        check(code, "page-in decision, or a burst that came meanwhile")

    def raise_failure(self) -> None:
        """Raise again what ended the run, should the program have gone on: nothing moves any
        more."""
        if self._failure:
            raise self._failure

    def _pages(self, fault: PageFault) -> range:
        own = self._own.page_in
        if own is None:
            return range(fault.page, int(self._question.own_end_page))
        return self._ask(
            f"page-in policy '{self._own.page_in_name}'",
            fault,
            lambda: own.pages(fault=fault),
            lambda answer: reason_to_refuse(answer, fault),
        )

    def _err(self, own: ErrPolicy, fault: PageFault, pages: range) -> Err:
        return self._ask(
            f"ERR policy '{self._own.err_name}'",
            fault,
            lambda: own.err(fault=fault, pages=pages),
            reason_to_refuse_err,
        )

    def _ask(
        self,
        label: str,
        fault: PageFault,
        question: Callable[[], Answer],
        refuse: Callable[[Answer], str],
    ) -> Answer:
        try:
            return ask(label, fault, question, refuse, PolicyError)
        except PolicyError as error:
            self._failure = error
            raise

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
