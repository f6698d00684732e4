"""One rank's engine with what it needs to run: memory backend, costs, settings, impairments,
policies.

The only place in Python that makes an engine (pw_ni). Who runs it (lab/joined.py, unit tests) hands
its events over; what a policy in Python is asked about a page fault is answered here. Posting and
polling are the host's, by `ni`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

from pagewire.driver.policy import PageInPolicy
from pagewire.driver.policy_host import DECISION, OwnPolicies
from pagewire.native import EngineError, check, ffi, impairments, lib
from pagewire.native.closing import Closing
from pagewire.native.domains import open_domain
from pagewire.native.impairments import ImpairmentsConfig
from pagewire.ni.engine_view import PDID, EngineView, engine_struct
from pagewire.run.settings.config import Config
from pagewire.run.settings.platform import Platform


class Engine(EngineView, Closing):
    """A context manager. `ni` is the pw_ni, `memory` its backend; both end with `close`."""

    def __init__(
        self,
        costs: Mapping[str, int],
        settings: Mapping[str, int],
        *,
        node: int = 0,
        num_nodes: int = 1,
        pdid: int | None = PDID,
        own: OwnPolicies | None = None,
        planned: ImpairmentsConfig | None = None,
    ) -> None:
        """costs, settings: every field of pw_costs and pw_settings. pdid None: opens no domain."""
        self.costs = engine_struct("pw_costs", costs)
        filled = engine_struct("pw_settings", settings)
        memory = _create_memory(filled, node)
        made = ffi.new("pw_ni **")
        check(
            lib.pw_ni_create(self.costs, filled, node, num_nodes, memory, made),
            "engine",
        )
        super().__init__(ffi.gc(made[0], lib.pw_ni_destroy), memory, node, pdid, filled)
        self.noted: set[int] = set()
        """Gets this node's number when something may have been posted to it."""
        if planned is not None:
            impairments.plan(self._ni, planned)
        self._pdids: list[int] = []
        if pdid is not None:
            open_domain(self._ni, pdid)
            self._pdids.append(pdid)
        self._policy = own.host(self._ni, self.memory) if own else None

    @classmethod
    def of_config(
        cls,
        config: Config,
        platform: Platform,
        node: int,
        num_nodes: int,
        page_in: PageInPolicy | None = None,
    ) -> Self:
        """The engine of one node of a run; its impairments are those of the configuration.

        page_in: in place of an object of the class that config.run.policy names.
        """
        return cls(
            platform.costs.as_dict(),
            config.unit_settings(),
            node=node,
            num_nodes=num_nodes,
            own=OwnPolicies.of_settings(config.run.policy, config.driver.err_by, page_in),
            planned=config.impairments,
        )

    @property
    def ni(self) -> Any:
        """The pw_ni. Who takes it may post to it, so take it anew for each post."""
        self.noted.add(self.node)
        return self._ni

    def close(self) -> None:
        """Destroy engine and memory backend; the object is of no use after that."""
        ffi.release(self._ni)
        ffi.release(self.memory)

    def take(self, event: Any, handle: Callable[[int, Any], None]) -> None:
        """A pw_host_event of this engine: a policy answers its question, `handle` gets the node's
        number and any other."""
        if event.kind != DECISION:
            handle(self.node, event)
        elif self._policy is not None:
            self._policy.answer(event.id)

    def raise_failure(self) -> None:
        """Raise again what a policy has raised: nothing goes on any more."""
        if self._policy is not None:
            self._policy.raise_failure()

    def invalidate(self, first_page: int, num_pages: int) -> None:
        """The OS took pages of its processes away: the shootdown of their translations."""
        self.noted.add(self.node)
        for pdid in self._pdids:
            lib.pw_ni_invalidate(self._ni, pdid, first_page, num_pages)

    def open_process(self, process: int) -> None:
        """Let one more process share the NI: a protection domain, a scratchpad page and a context
        bank of its own. EngineError says which has run out."""
        open_domain(self._ni, PDID + process)
        self._pdids.append(PDID + process)


def _create_memory(settings: Any, node: int) -> Any:
    options = ffi.new("pw_memory_model_options *")
    options.seed = settings.model_seed + node
    options.fault_millionths = settings.model_fault_millionths
    options.frame_limit_pages = settings.model_frame_limit_pages
    options.huge_pages = settings.model_huge_pages
    options.collapse_millionths = settings.model_collapse_millionths
    memory = ffi.new("pw_memory **")
    code = lib.pw_memory_create(settings.memory_backend, options, memory)
    if code == lib.PW_ERR_HOST and (lacks := lib.pw_memory_host_lacks()):
        raise EngineError(code, ffi.string(lacks).decode())
    check(code, "memory backend")
    return ffi.gc(memory[0], lib.pw_memory_destroy)
