"""wait, test and their families: completion that returns the received objects."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade import completion
from pagewire.transport.facade.bracket import bracket
from pagewire.transport.facade.progress import describe_native, test_turn, turn
from pagewire.transport.facade.rank import here
from pagewire.transport.node.patching import native, replace_all

_native_wait = native(MPI.Request, "wait")
_native_test = native(MPI.Request, "test")
_testall = native(MPI.Request, "testall")
_testany = native(MPI.Request, "testany")

Status = MPI.Status | None
Statuses = Sequence[MPI.Status] | None


def _conclude(request: MPI.Request, status: Status) -> Any:
    """Complete a request that may complete; the object that it received."""
    operation = here.active.get(request.handle)
    if operation is None:
        return _native_wait(request, status)
    completion.conclude(request, operation, status)
    return operation.result()


def _conclude_each(requests: Sequence[MPI.Request], statuses: Statuses) -> list[Any]:
    if statuses is not None:
        completion.extend(statuses, len(requests))
    objects: list[Any] = []
    errors: list[BaseException] = []
    for i, request in enumerate(requests):
        operation = here.active.get(request.handle)
        if operation is not None:
            here.clock.completed(operation.complete_ns)
        try:
            status = None if statuses is None or i >= len(statuses) else statuses[i]
            objects.append(_conclude(request, status))
        except MPI.Exception as error:
            objects.append(None)
            errors.append(error)
            if status is not None:
                status.Set_error(error.Get_error_class())
    if errors:
        raise completion.in_status(errors)
    return objects


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
    found = [here.active.get(request.handle) for request in requests]
    if any(found):
        completion.await_all(requests, found)
        return _conclude_each(requests, statuses)
    while True:
        done, received = _testall(requests, statuses)
        if done:
            return received
        turn(describe_native)


def testall(
    cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None
) -> tuple[bool, list[Any] | None]:
    requests = list(requests)
    found = [here.active.get(request.handle) for request in requests]
    if not completion.all_passed(requests, found):
        return False, None
    return True, _conclude_each(requests, statuses)


def _one_of(
    requests: Sequence[MPI.Request], status: Status, waiting: bool
) -> tuple[int, bool, Any]:
    while True:
        i = completion.choose(requests, waiting)
        if i is not None:
            here.clock.completed(here.active[requests[i].handle].complete_ns)
            return i, True, _conclude(requests[i], status)
        ours = [
            here.active[request.handle] for request in requests if request.handle in here.active
        ]
        places = [i for i, request in enumerate(requests) if request.handle not in here.active]
        if places or not requests:
            i, done, received = _testany([requests[i] for i in places], status)
            if done and (i != MPI.UNDEFINED or not ours):
                return (i if i == MPI.UNDEFINED else places[i]), True, received
        if not waiting:
            completion.failed(ours)
            return MPI.UNDEFINED, False, None
        turn(partial(completion.describe_any, requests))


def waitany(cls: Any, requests: Sequence[MPI.Request], status: Status = None) -> tuple[int, Any]:
    i, _, received = _one_of(list(requests), status, True)
    return i, received


def testany(
    cls: Any, requests: Sequence[MPI.Request], status: Status = None
) -> tuple[int, bool, Any]:
    test_turn()
    return _one_of(list(requests), status, False)


def _some(
    waiting: bool, cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None
) -> tuple[list[int] | None, list[Any] | None]:
    requests = list(requests)
    test_turn()
    over: dict[int, MPI.Status] = {}
    ready = completion.some_ready(requests, waiting, over)
    if ready is None:
        return None, None
    try:
        return ready, _conclude_each([requests[i] for i in ready], statuses)
    finally:
        found = {ready.index(i): status for i, status in over.items()}
        completion.put_statuses(found, statuses)


def get_status(self: MPI.Request, status: Status = None) -> bool:
    return completion.Get_status(self, status)


def get_status_all(cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None) -> bool:
    return completion.Get_status_all(cls, requests, statuses)


def get_status_any(
    cls: Any, requests: Sequence[MPI.Request], status: Status = None
) -> tuple[int, bool]:
    return completion.Get_status_any(cls, requests, status)


def get_status_some(
    cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None
) -> list[int] | None:
    return completion.Get_status_some(cls, requests, statuses)


def install() -> None:
    replacements: dict[str, Callable[..., Any]] = {
        "waitsome": bracket("waitsome", partial(_some, True)),
        "testsome": bracket("testsome", partial(_some, False)),
    }
    own: tuple[Callable[..., Any], ...] = (wait, test, waitall, testall, waitany, testany)
    for function in own:
        replacements[function.__name__] = bracket(function.__name__, function)
    looks: tuple[Callable[..., Any], ...] = (
        get_status, get_status_all, get_status_any, get_status_some,
    )  # fmt: skip
    for function in looks:
        replacements[function.__name__] = bracket(function.__name__.capitalize(), function)
    replace_all(MPI.Request, replacements)
