"""Wait, Test and their families, over the facade's operations and MPI's own requests mixed.

A request stands for one of our operations if its handle is in `active`. Nothing is freed while we
look: MPI's requests are looked at by Get_status. Once a request may complete, MPI itself completes
it (at once, by now), so that the user's objects become REQUEST_NULL as ever; then the status gets
what the envelope said.

In virtual time an operation is complete for a Test from its completion on; a Wait goes there.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade.bracket import bracket
from pagewire.transport.facade.operations import Operation, fill
from pagewire.transport.facade.progress import describe_native, failed_test, test_turn, turn
from pagewire.transport.facade.rank import here
from pagewire.transport.node.clock import wall_ns
from pagewire.transport.node.patching import native, replace_all

_wait = native(MPI.Request, "Wait")
_test = native(MPI.Request, "Test")
_get_status = native(MPI.Request, "Get_status")
_get_status_any = native(MPI.Request, "Get_status_any")
_get_status_all = native(MPI.Request, "Get_status_all")
_get_status_some = native(MPI.Request, "Get_status_some")
_waitall = native(MPI.Request, "Waitall")
_testall = native(MPI.Request, "Testall")
_testany = native(MPI.Request, "Testany")
_testsome = native(MPI.Request, "Testsome")
_cancel = native(MPI.Request, "Cancel")
_free = native(MPI.Request, "Free")

Status = MPI.Status | None
Statuses = Sequence[MPI.Status] | None


def let_go(request: MPI.Request, operation: Any) -> None:
    """From here on MPI's own completion of `request` succeeds at once."""
    del here.active[request.handle]
    if operation.generalized is not None:
        operation.generalized.Complete()


def conclude(request: MPI.Request, operation: Any, status: Status) -> None:
    """Complete the request of an operation that is complete; raise the operation's error."""
    let_go(request, operation)
    _wait(request, status)
    if status is not None:
        fill(status, operation)
    if operation.error is not None:
        raise operation.error


def passed(operation: Any) -> bool:
    """Whether a Test finds the operation complete now."""
    done: bool = operation.poll() and operation.complete_ns <= here.clock.now_ns
    return done


def failed(operations: Sequence[Any]) -> None:
    """Charge a Test that found nothing."""
    failed_test(any(operation.poll() for operation in operations))


def finish_wait(request: MPI.Request, operation: Any, status: Status) -> None:
    operation.wait()
    conclude(request, operation, status)


def _waiting() -> Callable[..., bool]:
    call, active = here.calls.index("Wait"), here.active

    def Wait(self: MPI.Request, status: Status = None) -> bool:
        began_ns = wall_ns()
        operation = active.get(self.handle)
        if isinstance(operation, Operation):
            operation.wait(call, began_ns, 0)
            conclude(self, operation, status)
        else:
            otherwise(self, operation, status)
        return True

    def wait_for_other(request: MPI.Request, operation: Any, status: Status) -> None:
        if operation is not None:
            finish_wait(request, operation, status)
            return
        while not _test(request, status):
            turn(describe_native)

    otherwise = bracket("Wait", wait_for_other)
    return Wait


def test_one(request: MPI.Request, operation: Any, status: Status) -> bool:
    if not operation.poll():
        test_turn()
    if passed(operation):
        here.clock.completed(operation.complete_ns)
        conclude(request, operation, status)
        return True
    failed([operation])
    return False


def _testing() -> Callable[..., bool]:
    call, active = here.calls.index("Test"), here.active

    def Test(self: MPI.Request, status: Status = None) -> bool:
        began_ns = wall_ns()
        operation = active.get(self.handle)
        if not isinstance(operation, Operation):
            done: bool = otherwise(self, operation, status)
            return done
        if not operation.test(call, began_ns):
            return False
        conclude(self, operation, status)
        return True

    def test_other(request: MPI.Request, operation: Any, status: Status) -> bool:
        if operation is not None:
            return test_one(request, operation, status)
        done: bool = _test(request, status)
        if not done:
            test_turn()
        return done

    otherwise = bracket("Test", test_other)
    return Test


def Get_status(self: MPI.Request, status: Status = None) -> bool:
    return look(self, status)


def look(request: MPI.Request, status: Status) -> bool:
    """Test without completing."""
    operation = here.active.get(request.handle)
    test_turn()
    if operation is None:
        done: bool = _get_status(request, status)
        return done
    if not passed(operation):
        failed([operation])
        return False
    if status is not None:
        fill(status, operation)
    return True


class Natives:
    """Those of several requests that are MPI's own, completed beside our operations.

    Not looked at by Get_status and completed with the others: MPICH 5.0 forgets the status of a
    persistent request at that.
    """

    def __init__(self, requests: Sequence[MPI.Request], found: list[Any]) -> None:
        self._places = [i for i, operation in enumerate(found) if operation is None]
        self._requests = [requests[i] for i in self._places]
        self._statuses = [MPI.Status() for _ in self._places]
        self._error: MPI.Exception | None = None
        self._over: set[int] = set()

    def test(self) -> bool:
        """Whether all of them are complete, and completed by this."""
        try:
            done: bool = _testall(self._requests, self._statuses)
        except MPI.Exception as error:
            self._error = error
            return True
        return done

    def test_each(self) -> bool:
        """Complete those that can be; whether all of them are.

        For a wait: MPICH 5.0's Testall fails for partitioned requests of which one is complete.
        """
        for i, request in enumerate(self._requests):
            if i in self._over:
                continue
            status = self._statuses[i]
            try:
                if not _test(request, status):
                    return False
            except MPI.Exception as error:
                status.Set_error(error.Get_error_code())
                self._error = MPI.Exception(MPI.ERR_IN_STATUS)
                self._error.__cause__ = error
            self._over.add(i)
        return True

    def correct(self, statuses: Statuses) -> None:
        """Put their statuses where MPI's are of requests that were none any more; raise their
        error."""
        put_statuses(dict(zip(self._places, self._statuses, strict=True)), statuses)
        if self._error is not None:
            raise self._error


def put_statuses(found: dict[int, MPI.Status], statuses: Statuses) -> None:
    """Put statuses at their places where the user has room for them."""
    num_bytes = MPI._sizeof(MPI.Status)
    for i, status in found.items():
        if statuses is not None and i < len(statuses):
            ctypes.memmove(MPI._addressof(statuses[i]), MPI._addressof(status), num_bytes)


def complete_all(requests: Sequence[MPI.Request], found: list[Any], statuses: Statuses) -> None:
    """Complete requests all of which may complete; `found` has their operations or None."""
    ours = [(i, operation) for i, operation in enumerate(found) if operation is not None]
    if not ours:
        _waitall(requests, statuses)
        return
    for complete_ns in sorted(operation.complete_ns for _, operation in ours):
        here.clock.completed(complete_ns)
    for i, operation in ours:
        let_go(requests[i], operation)
    try:
        _waitall(requests, statuses)
    finally:
        errors = correct(ours, statuses)
    if errors:
        raise in_status(errors)


def complete_beside(
    natives: Natives, requests: Sequence[MPI.Request], found: list[Any], statuses: Statuses
) -> None:
    """As complete_all, after those of MPI's own.

    They are not given to MPI once more: MPICH 4.0's Waitall fails for inactive partitioned ones.
    """
    left = [
        MPI.Request() if operation is None else request
        for request, operation in zip(requests, found, strict=True)
    ]
    try:
        complete_all(left, found, statuses)
    finally:
        natives.correct(statuses)


def correct(ours: list[tuple[int, Any]], statuses: Statuses) -> list[BaseException]:
    """Put our operations' statuses where MPI's are; their errors."""
    errors = []
    for i, operation in ours:
        if statuses is not None and i < len(statuses):
            fill(statuses[i], operation)
            if isinstance(operation.error, MPI.Exception):
                statuses[i].Set_error(operation.error.Get_error_class())
        if operation.error is not None:
            errors.append(operation.error)
    return errors


def in_status(errors: list[BaseException]) -> BaseException:
    """The error of a call for several requests, caused by that of the first that failed."""
    error = MPI.Exception(MPI.ERR_IN_STATUS)
    error.__cause__ = errors[0]
    return error


def Waitall(cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None) -> bool:
    requests = list(requests)
    found = [here.active.get(request.handle) for request in requests]
    natives = Natives(requests, found)
    for operation in found:
        if operation is not None:
            operation.reach()
    while not natives.test_each():
        turn(describe_native)
    complete_beside(natives, requests, found, statuses)
    return True


def await_all(requests: Sequence[MPI.Request], found: list[Any]) -> None:
    for request, operation in zip(requests, found, strict=True):
        if operation is None:
            while not _get_status(request):
                turn(describe_native)
        else:
            operation.reach()


def all_passed(requests: Sequence[MPI.Request], found: list[Any]) -> bool:
    """The test of Testall, without completing anything."""
    return ours_passed(found) and all(
        operation is not None or _get_status(request)
        for request, operation in zip(requests, found, strict=True)
    )


def ours_passed(found: list[Any]) -> bool:
    test_turn()
    ours = [operation for operation in found if operation is not None]
    if not all(passed(operation) for operation in ours):
        failed(ours)
        return False
    return True


def Testall(cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None) -> bool:
    requests = list(requests)
    found = [here.active.get(request.handle) for request in requests]
    if not any(found):
        done: bool = _testall(requests, statuses)
        if not done:
            test_turn()
        return done
    natives = Natives(requests, found)
    if not ours_passed(found) or not natives.test():
        return False
    complete_beside(natives, requests, found, statuses)
    return True


def describe_any(requests: Sequence[MPI.Request]) -> str:
    """What a wait for one of several requests waits for."""
    ours = [here.active[each.handle].describe() for each in requests if each.handle in here.active]
    first = f", the first of ours: {ours[0]}" if ours else ""
    return f"one of {len(requests)} requests{first}"


def choose(requests: Sequence[MPI.Request], waiting: bool) -> int | None:
    """The index of one of our operations to complete now: the earliest in virtual time.

    None if there is none. `waiting` also takes one that completes in the virtual future.
    """
    best = None
    best_ns = 0
    for i, request in enumerate(requests):
        operation = here.active.get(request.handle)
        if operation is None or not operation.poll():
            continue
        complete_ns = operation.complete_ns
        if (waiting or complete_ns <= here.clock.now_ns) and (
            best is None or complete_ns < best_ns
        ):
            best, best_ns = i, complete_ns
    return best


def _native_any(requests: Sequence[MPI.Request], status: Status) -> tuple[int, bool]:
    """Testany of those requests that are MPI's own; the index is that in `requests`."""
    places = [i for i, request in enumerate(requests) if request.handle not in here.active]
    if not places:
        return MPI.UNDEFINED, True
    i, done = _testany([requests[i] for i in places], status)
    return (i if i == MPI.UNDEFINED else places[i]), done


def one_of(requests: Sequence[MPI.Request], status: Status, waiting: bool) -> tuple[int, bool]:
    """Testany, or with `waiting` Waitany. The index is UNDEFINED if no request is active."""
    while True:
        i = choose(requests, waiting)
        if i is not None:
            operation = here.active[requests[i].handle]
            here.clock.completed(operation.complete_ns)
            conclude(requests[i], operation, status)
            return i, True
        j, done = _native_any(requests, status)
        ours = [here.active[r.handle] for r in requests if r.handle in here.active]
        if done and (j != MPI.UNDEFINED or not ours):
            return j, True
        if not waiting:
            test_turn()
            failed(ours)
            return MPI.UNDEFINED, False
        turn(partial(describe_any, requests))


def Waitany(cls: Any, requests: Sequence[MPI.Request], status: Status = None) -> int:
    return one_of(list(requests), status, True)[0]


def Testany(cls: Any, requests: Sequence[MPI.Request], status: Status = None) -> tuple[int, bool]:
    test_turn()
    return one_of(list(requests), status, False)


def some_ready(
    requests: Sequence[MPI.Request], waiting: bool, over: dict[int, MPI.Status] | None = None
) -> list[int] | None:
    """Indices of requests that may complete now; None if no request is active.

    over: gets the statuses of MPI's persistent requests, which are complete by this; without it,
    none is completed.
    """
    while True:
        i = choose(requests, waiting)
        if i is not None:
            here.clock.completed(here.active[requests[i].handle].complete_ns)
        ready = []
        num_active = 0
        for i, request in enumerate(requests):
            operation = here.active.get(request.handle)
            if operation is not None:
                num_active += 1
                if passed(operation):
                    ready.append(i)
            else:
                is_over = _native_is_over(request, i, over)
                num_active += is_over is not None
                if is_over:
                    ready.append(i)
        if num_active == 0:
            return None
        if ready or not waiting:
            if not ready:
                failed([here.active[r.handle] for r in requests if r.handle in here.active])
            return ready
        turn(partial(describe_any, requests))


def _native_is_over(
    request: MPI.Request, place: int, over: dict[int, MPI.Status] | None
) -> bool | None:
    """None: a request of MPI's own that is not active."""
    if over is not None and isinstance(request, MPI.Prequest):
        # MPI before 4.1 tells by this alone whether it was started.
        status = MPI.Status()
        i, done = _testany([request], status)
        if done and i != MPI.UNDEFINED:
            over[place] = status
        return None if done and i == MPI.UNDEFINED else done
    if request == MPI.REQUEST_NULL or _inactive(request):
        return None
    return _get_status(request)


def _inactive(request: MPI.Request) -> bool:
    """Whether one of MPI's requests is a persistent one that is not started."""
    return isinstance(request, MPI.Prequest) and _get_status_any([request]) == (
        MPI.UNDEFINED,
        True,
    )


def _some(
    waiting: bool, cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None
) -> list[int] | None:
    requests = list(requests)
    test_turn()
    if not any(request.handle in here.active for request in requests):
        while True:
            indices: list[int] | None = _testsome(requests, statuses)
            if indices is None or indices or not waiting:
                return indices
            turn(describe_native)
    over: dict[int, MPI.Status] = {}
    ready = some_ready(requests, waiting, over)
    if ready:
        chosen = [requests[i] for i in ready]
        try:
            complete_all(chosen, [here.active.get(r.handle) for r in chosen], statuses)
        finally:
            put_statuses({ready.index(i): status for i, status in over.items()}, statuses)
    return ready


def Get_status_all(cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None) -> bool:
    requests = list(requests)
    found = [here.active.get(request.handle) for request in requests]
    if not any(found):
        test_turn()
        return _get_status_all(requests, statuses)
    if not all_passed(requests, found):
        return False
    _look_each(requests, statuses)
    return True


def extend(statuses: Sequence[MPI.Status], num_wanted: int) -> None:
    """Make a list of statuses long enough, as mpi4py does."""
    if isinstance(statuses, list):
        statuses.extend(MPI.Status() for _ in range(len(statuses), num_wanted))


def _look_each(requests: Sequence[MPI.Request], statuses: Statuses) -> None:
    if statuses is None:
        return
    extend(statuses, len(requests))
    for request, status in zip(requests, statuses, strict=False):
        look(request, status)


def Get_status_any(
    cls: Any, requests: Sequence[MPI.Request], status: Status = None
) -> tuple[int, bool]:
    test_turn()
    if not any(request.handle in here.active for request in requests):
        return _get_status_any(requests, status)
    num_active = 0
    for i, request in enumerate(requests):
        if request.handle not in here.active and (
            request == MPI.REQUEST_NULL or _inactive(request)
        ):
            continue
        num_active += 1
        if look(request, status):
            return i, True
    return MPI.UNDEFINED, num_active == 0


def Get_status_some(
    cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None
) -> list[int] | None:
    requests = list(requests)
    test_turn()
    if not any(request.handle in here.active for request in requests):
        return _get_status_some(requests, statuses)
    ready = some_ready(requests, False)
    if ready:
        _look_each([requests[i] for i in ready], statuses)
    return ready


def Cancel(self: MPI.Request) -> None:
    operation = here.active.get(self.handle)
    if operation is None:
        _cancel(self)
    else:
        operation.cancel()


def Free(self: MPI.Request) -> None:
    """The operation goes on; only the user's hold on it ends."""
    operation = here.active.get(self.handle)
    here.persistent.forget(self.handle)
    if operation is None:
        _free(self)
    else:
        abandon(self, operation)


def abandon(request: MPI.Request, operation: Any) -> None:
    del here.active[request.handle]
    here.keep(operation)
    if operation.generalized is not None:
        _free(request)
        return
    # The handle is MPI's receive of the envelope: it stays ours, the user's object becomes null.
    operation.c.is_owned = 1
    num_bytes = MPI._sizeof(request)
    ctypes.memmove(MPI._addressof(request), MPI._addressof(MPI.REQUEST_NULL), num_bytes)


def install() -> None:
    replacements: dict[str, Callable[..., Any]] = {
        "Wait": _waiting(),
        "Test": _testing(),
        "Waitsome": bracket("Waitsome", partial(_some, True)),
        "Testsome": bracket("Testsome", partial(_some, False)),
        "cancel": bracket("Cancel", Cancel),
    }
    for function in (
        Get_status, Waitall, Testall, Waitany, Testany, Get_status_all, Get_status_any,
        Get_status_some, Cancel, Free,
    ):  # fmt: skip
        replacements[function.__name__] = bracket(function.__name__, function)
    replace_all(MPI.Request, replacements)
