"""wait, test and their families: completion that returns the received objects."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade import completion
from pagewire.transport.facade.bracket import bracket
from pagewire.transport.facade.completion import Mixture
from pagewire.transport.facade.patching import native, replace_all
from pagewire.transport.facade.progress import describe_native, test_turn, turn
from pagewire.transport.facade.rank import here

_native_wait = native(MPI.Request, "wait")
_native_test = native(MPI.Request, "test")
_testall = native(MPI.Request, "testall")
_testany = native(MPI.Request, "testany")

Status = MPI.Status | None
Statuses = Sequence[MPI.Status] | None


def wait(self: MPI.Request, status: Status = None) -> Any:
    operation = here.active.get(self.handle)
    if operation is not None:
        completion.finish_wait(self, operation, status)
        return operation.result()
    while True:
        done, received = _native_test(self, status)
        if done:
            return received
        turn(describe_native)


def test(self: MPI.Request, status: Status = None) -> tuple[bool, Any]:
    operation = here.active.get(self.handle)
    if operation is not None:
        if completion.test_one(self, operation, status):
            return True, operation.result()
        return False, None
    result: tuple[bool, Any] = _native_test(self, status)
    if not result[0]:
        test_turn()
    return result


def waitall(cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None) -> list[Any]:
    requests = list(requests)
    mixture = Mixture(requests, _native_wait)
    if mixture.ours:
        mixture.reach()
        for each in mixture.natives:
            while not each.is_complete():
                turn(describe_native)
        return mixture.take(statuses, in_order=True)
    while True:
        done, received = _testall(requests, statuses)
        if done:
            return received
        turn(describe_native)


def testall(
    cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None
) -> tuple[bool, list[Any] | None]:
    mixture = Mixture(requests, _native_wait)
    if not mixture.is_over():
        return False, None
    return True, mixture.take(statuses, in_order=True)


def waitany(cls: Any, requests: Sequence[MPI.Request], status: Status = None) -> tuple[int, Any]:
    i, _, received = Mixture(requests, _native_wait).take_any(status, True, _testany)
    return i, received


def testany(
    cls: Any, requests: Sequence[MPI.Request], status: Status = None
) -> tuple[int, bool, Any]:
    test_turn()
    return Mixture(requests, _native_wait).take_any(status, False, _testany)


def _some(
    waiting: bool, cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None
) -> tuple[list[int] | None, list[Any] | None]:
    mixture = Mixture(requests, _native_wait)
    test_turn()
    ready = mixture.find_ready(waiting, True)
    if ready is None:
        return None, None
    return ready, mixture.take(statuses, in_order=True, places=ready)


def install() -> None:
    replacements: dict[str, Callable[..., Any]] = {
        "waitsome": bracket("waitsome", partial(_some, True)),
        "testsome": bracket("testsome", partial(_some, False)),
    }
    own: tuple[Callable[..., Any], ...] = (wait, test, waitall, testall, waitany, testany)
    for function in own:
        replacements[function.__name__] = bracket(function.__name__, function)
    replace_all(MPI.Request, replacements)
