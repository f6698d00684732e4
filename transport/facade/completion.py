"""Wait, Test and their families, over the facade's operations and MPI's own requests mixed; wait,
test and theirs, which return the received objects.

The rule. A request stands for one of our operations if its handle is in `active`; it may complete
when its operation is over: for a Test from the operation's virtual completion on, while a Wait goes
there. Nothing is freed while we look: MPI's own requests are looked at by Get_status. Once a
request may complete, MPI itself completes it (at once, by now), so that the user's object becomes
REQUEST_NULL as ever; then the status gets what the envelope said. Persistent requests of MPI's own
are completed by the look: what comes after would not tell whether they were started.

Several requests of a call are a Mixture of three kinds that answer alike: `_Ours`, `_Native` and
`_Persistent`.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade.bracket import bracket, replace_calls
from pagewire.transport.facade.clock import wall_ns
from pagewire.transport.facade.operations import Operation, fill
from pagewire.transport.facade.patching import native, replace_all
from pagewire.transport.facade.progress import describe_native, failed_test, test_turn, turn
from pagewire.transport.facade.python_calls import calls
from pagewire.transport.facade.rank import here

_wait = native(MPI.Request, "Wait")
_test = native(MPI.Request, "Test")
_get_status = native(MPI.Request, "Get_status")
_get_status_any = native(MPI.Request, "Get_status_any")
_get_status_all = native(MPI.Request, "Get_status_all")
_get_status_some = native(MPI.Request, "Get_status_some")
_testall = native(MPI.Request, "Testall")
_testany = native(MPI.Request, "Testany")
_testsome = native(MPI.Request, "Testsome")
_wait_object = native(MPI.Request, "wait")
_test_object = native(MPI.Request, "test")
_testall_objects = native(MPI.Request, "testall")
_testany_objects = native(MPI.Request, "testany")
_cancel = native(MPI.Request, "Cancel")
_free = native(MPI.Request, "Free")

Status = MPI.Status | None
Statuses = Sequence[MPI.Status] | None


def conclude(request: MPI.Request, operation: Any, status: Status) -> None:
    """Complete the request of an operation that is complete; raise the operation's error."""
    del here.active[request.handle]
    if isinstance(operation.complete, MPI.Grequest):
        operation.complete.Complete()
    else:
        operation.complete()
    _wait(request, status)
    if status is not None:
        fill(status, operation)
    if operation.error is not None:
        raise operation.error


def _passed(operation: Any) -> bool:
    """Whether a Test finds the operation complete now."""
    done: bool = operation.poll() and operation.complete_ns <= here.clock.now_ns
    return done


def _failed(operations: Sequence[Any]) -> None:
    """Charge a Test that found nothing."""
    failed_test(any(operation.poll() for operation in operations))


def polled(request: MPI.Request, status: Status = None) -> None:
    """Wait for one of MPI's own requests, progressing."""
    while not _test(request, status):
        turn(describe_native)


def _polled_objects(test: Callable[..., Any], *args: Any) -> Any:
    """What MPI's own `test` of objects has received when it is over, progressing."""
    while True:
        done, received = test(*args)
        if done:
            return received
        turn(describe_native)


def finish_wait(request: MPI.Request, operation: Any, status: Status) -> None:
    operation.wait()
    conclude(request, operation, status)


def _waiting() -> Callable[..., bool]:
    call, active = here.calls.index("Wait"), here.active

    def Wait(self: MPI.Request, status: Status = None) -> bool:
        result = NotImplemented if status is not None else calls.wait(self, call)
        if result is NotImplemented:
            wait_otherwise(self, status)
        elif isinstance(result, Operation):
            assert result.error is not None
            raise result.error
        elif result is not None:
            raise here.failure(result, active[self.handle].describe())
        return True

    def wait_otherwise(self: MPI.Request, status: Status) -> None:
        began_ns = wall_ns()
        operation = active.get(self.handle)
        if isinstance(operation, Operation):
            operation.wait(call, began_ns)
            conclude(self, operation, status)
        else:
            otherwise(self, operation, status)

    def wait_for_other(request: MPI.Request, operation: Any, status: Status) -> None:
        if operation is not None:
            finish_wait(request, operation, status)
        else:
            polled(request, status)

    otherwise = bracket("Wait", wait_for_other)
    return Wait


def test_one(request: MPI.Request, operation: Any, status: Status) -> bool:
    if not operation.poll():
        test_turn()
    if _passed(operation):
        here.clock.completed(operation.complete_ns)
        conclude(request, operation, status)
        return True
    _failed([operation])
    return False


def _testing() -> Callable[..., bool]:
    call, active = here.calls.index("Test"), here.active

    def Test(self: MPI.Request, status: Status = None) -> bool:
        result = NotImplemented if status is not None else calls.test(self, call)
        if result is True or result is False:
            return result
        if result is NotImplemented:
            return test_otherwise(self, status)
        if isinstance(result, Operation):
            assert result.error is not None
            raise result.error
        raise here.failure(result, active[self.handle].describe())

    def test_otherwise(self: MPI.Request, status: Status) -> bool:
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
    """Test without completing."""
    operation = here.active.get(self.handle)
    test_turn()
    if operation is None:
        done: bool = _get_status(self, status)
        return done
    if not _passed(operation):
        _failed([operation])
        return False
    if status is not None:
        fill(status, operation)
    return True


@dataclass(slots=True, eq=False)
class _Ours:
    """A request that stands for one of our operations."""

    request: MPI.Request
    operation: Any

    def is_over(self) -> bool | None:
        """Whether a Test finds it complete now; None: it is not active."""
        return _passed(self.operation)

    ready = is_over
    """The same; one of MPI's persistent ones is completed by this."""

    def take(self, status: Status) -> Any:
        """Complete it, which is over; what lower-case wait returns."""
        conclude(self.request, self.operation, status)
        return self.operation.result()


@dataclass(slots=True, eq=False)
class _Native:
    """A request of MPI's own. wait: MPI's, of buffers or of objects."""

    request: MPI.Request
    _wait: Callable[..., Any]
    _kept: MPI.Status | None = None
    _error: MPI.Exception | None = None

    def is_complete(self) -> bool:
        """Whether a Wait returns at once."""
        done: bool = _get_status(self.request)
        return done

    def is_over(self) -> bool | None:
        return None if self.request == MPI.REQUEST_NULL else self.is_complete()

    def ready(self) -> bool | None:
        return self.is_over()

    def keep(self, status: MPI.Status) -> None:
        """It was completed, with this status."""
        self._kept = status

    def finish(self) -> bool:
        """Complete it if that can be.

        For a Wait of several: MPICH 5.0's Testall fails for partitioned requests of which one is
        complete, and forgets the status of a persistent one at a Get_status.
        """
        if self._kept is not None:
            return True
        status = MPI.Status()
        try:
            if not _test(self.request, status):
                return False
        except MPI.Exception as error:
            self._error = error
        self.keep(status)
        return True

    def take(self, status: Status) -> Any:
        if self._kept is None:
            return self._wait(self.request, status)
        if status is not None:
            num_bytes = MPI._sizeof(MPI.Status)
            ctypes.memmove(MPI._addressof(status), MPI._addressof(self._kept), num_bytes)
        if self._error is not None:
            raise self._error
        return None


class _Persistent(_Native):
    """One of MPI's own that may not be started."""

    __slots__ = ()

    def is_over(self) -> bool | None:
        if _get_status_any([self.request]) == (MPI.UNDEFINED, True):
            return None
        return self.is_complete()

    def ready(self) -> bool | None:
        """MPI before 4.1 tells by this alone whether it was started."""
        if self._kept is not None:
            return True
        status = MPI.Status()
        i, done = _testany([self.request], status)
        if done and i == MPI.UNDEFINED:
            return None
        if done:
            self.keep(status)
        return bool(done)


class Mixture:
    """The requests of one call, in order."""

    __slots__ = ("natives", "ours", "requests")

    def __init__(self, requests: Sequence[MPI.Request], wait: Callable[..., Any] = _wait) -> None:
        """wait: MPI's, for one of its own."""
        self.ours: list[_Ours] = []
        self.natives: list[_Native] = []
        self.requests: list[_Ours | _Native] = []
        for request in requests:
            operation = here.active.get(request.handle)
            if operation is not None:
                self.ours.append(_Ours(request, operation))
                self.requests.append(self.ours[-1])
            else:
                kind = _Persistent if isinstance(request, MPI.Prequest) else _Native
                self.natives.append(kind(request, wait))
                self.requests.append(self.natives[-1])

    def describe(self) -> str:
        """What a wait for one of them waits for."""
        first = f", the first of ours: {self.ours[0].operation.describe()}" if self.ours else ""
        return f"one of {len(self.requests)} requests{first}"

    def failed(self) -> None:
        """Charge a Test that found too little."""
        _failed([each.operation for each in self.ours])

    def reach(self) -> None:
        """Wait for all of ours; the clock does not go there yet."""
        for each in self.ours:
            each.operation.reach()

    def passed(self) -> bool:
        """Whether a Test finds all of ours complete."""
        test_turn()
        if all(each.is_over() for each in self.ours):
            return True
        self.failed()
        return False

    def is_over(self) -> bool:
        """Whether a Test finds all complete; completes none."""
        return self.passed() and all(each.is_complete() for each in self.natives)

    def test_natives(self) -> MPI.Exception | bool:
        """Testall of MPI's own, which are completed if it says so; or its error, when they are."""
        statuses = [MPI.Status() for _ in self.natives]
        try:
            done: MPI.Exception | bool = _testall([each.request for each in self.natives], statuses)
        except MPI.Exception as error:
            done = error
        if done:
            for each, status in zip(self.natives, statuses, strict=True):
                each.keep(status)
        return done

    def take(
        self, statuses: Statuses, *, in_order: bool = False, places: list[int] | None = None
    ) -> list[Any]:
        """Complete all, or those at `places`, which are over; what lower-case wait returns of each.
        in_order: the CPU learns of the completions in the requests' order, and not in theirs."""
        chosen = self.requests if places is None else [self.requests[i] for i in places]
        times_ns = [each.operation.complete_ns for each in chosen if isinstance(each, _Ours)]
        for complete_ns in times_ns if in_order else sorted(times_ns):
            here.clock.completed(complete_ns)
        if statuses is not None:
            _extend(statuses, len(chosen))
        results: list[Any] = []
        errors: list[MPI.Exception] = []
        for i, each in enumerate(chosen):
            status = None if statuses is None or i >= len(statuses) else statuses[i]
            try:
                results.append(each.take(status))
            except MPI.Exception as error:
                results.append(None)
                errors.append(error)
                if status is not None:
                    status.Set_error(error.Get_error_code())
        if errors:
            raise MPI.Exception(MPI.ERR_IN_STATUS) from errors[0]
        return results

    def _earliest(self, waiting: bool) -> _Ours | None:
        """That of ours which completes first in virtual time; `waiting`: also in the future."""
        over = [each for each in self.ours if each.operation.poll()]
        now_ns = here.clock.now_ns
        if not waiting:
            over = [each for each in over if each.operation.complete_ns <= now_ns]
        return min(over, key=lambda each: each.operation.complete_ns, default=None)

    def take_any(
        self, status: Status, waiting: bool, testany: Callable[..., Any] = _testany
    ) -> tuple[int, bool, Any]:
        """Testany, or with `waiting` Waitany: the index, UNDEFINED if no request is active, whether
        it is over, and what lower-case wait returns. testany: MPI's, for its own."""
        natives = [each.request for each in self.natives]
        while True:
            first = self._earliest(waiting)
            if first is not None:
                here.clock.completed(first.operation.complete_ns)
                return self.requests.index(first), True, first.take(status)
            if natives or not self.ours:
                i, done, *received = testany(natives, status)
                result = received[0] if received else None
                if done and i != MPI.UNDEFINED:
                    return self.requests.index(self.natives[i]), True, result
                if done and not self.ours:
                    return i, True, result
            if not waiting:
                test_turn()
                self.failed()
                return MPI.UNDEFINED, False, None
            turn(self.describe)

    def find_ready(self, waiting: bool, completing: bool) -> list[int] | None:
        """Places of those that may complete now; None if no request is active. completing: they
        will be, and those of MPI's own for which only this tells are already."""
        while True:
            first = self._earliest(waiting)
            if first is not None:
                here.clock.completed(first.operation.complete_ns)
            found = [each.ready() if completing else each.is_over() for each in self.requests]
            if all(each is None for each in found):
                return None
            ready = [i for i, each in enumerate(found) if each]
            if ready:
                return ready
            if not waiting:
                self.failed()
                return ready
            turn(self.describe)


def _waiting_for_all() -> Callable[..., bool]:
    call = here.calls.index("Waitall")
    otherwise: Callable[..., bool] = bracket("Waitall", _wait_for_all)

    def Waitall(cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None) -> bool:
        if statuses is not None:
            return otherwise(cls, requests, statuses)
        requests = list(requests)
        result = calls.wait_for_all(requests, call)
        if result is NotImplemented:
            return otherwise(cls, requests, statuses)
        if result is not None:
            raise _error_of_all(requests, result)
        return True

    return Waitall


def _error_of_all(requests: Sequence[MPI.Request], result: Any) -> BaseException:
    """result: of calls.wait_for_all."""
    if isinstance(result, int):
        return here.failure(result, Mixture(requests).describe())
    error = MPI.Exception(MPI.ERR_IN_STATUS)
    error.__cause__ = next(filter(None, (operation.error for operation in result)))
    return error


def _wait_for_all(cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None) -> bool:
    mixture = Mixture(requests)
    mixture.reach()
    for each in mixture.natives:
        while not each.finish():
            turn(describe_native)
    mixture.take(statuses)
    return True


def Testall(cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None) -> bool:
    requests = list(requests)
    mixture = Mixture(requests)
    if not mixture.ours:
        over: bool = _testall(requests, statuses)
        if not over:
            test_turn()
        return over
    if not mixture.passed():
        return False
    done = mixture.test_natives()
    if not done:
        return False
    try:
        mixture.take(statuses)
    finally:
        if isinstance(done, MPI.Exception):
            raise done
    return True


def Waitany(cls: Any, requests: Sequence[MPI.Request], status: Status = None) -> int:
    return Mixture(requests).take_any(status, True)[0]


def Testany(cls: Any, requests: Sequence[MPI.Request], status: Status = None) -> tuple[int, bool]:
    test_turn()
    return Mixture(requests).take_any(status, False)[:2]


def _some(
    waiting: bool, cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None
) -> list[int] | None:
    requests = list(requests)
    test_turn()
    mixture = Mixture(requests)
    if not mixture.ours:
        while True:
            indices: list[int] | None = _testsome(requests, statuses)
            if indices is None or indices or not waiting:
                return indices
            turn(describe_native)
    ready = mixture.find_ready(waiting, True)
    if ready:
        mixture.take(statuses, places=ready)
    return ready


def Get_status_all(cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None) -> bool:
    requests = list(requests)
    mixture = Mixture(requests)
    if not mixture.ours:
        test_turn()
        return _get_status_all(requests, statuses)
    if not mixture.is_over():
        return False
    _look_each(requests, statuses)
    return True


def _extend(statuses: Sequence[MPI.Status], num_wanted: int) -> None:
    """Make a list of statuses long enough, as mpi4py does."""
    if isinstance(statuses, list):
        statuses.extend(MPI.Status() for _ in range(len(statuses), num_wanted))


def _look_each(requests: Sequence[MPI.Request], statuses: Statuses) -> None:
    if statuses is None:
        return
    _extend(statuses, len(requests))
    for request, status in zip(requests, statuses, strict=False):
        Get_status(request, status)


def Get_status_any(
    cls: Any, requests: Sequence[MPI.Request], status: Status = None
) -> tuple[int, bool]:
    requests = list(requests)
    mixture = Mixture(requests)
    test_turn()
    if not mixture.ours:
        return _get_status_any(requests, status)
    for i, each in enumerate(mixture.requests):
        if isinstance(each, _Native) and each.is_over() is None:
            continue
        if Get_status(each.request, status):
            return i, True
    return MPI.UNDEFINED, False


def Get_status_some(
    cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None
) -> list[int] | None:
    requests = list(requests)
    mixture = Mixture(requests)
    test_turn()
    if not mixture.ours:
        return _get_status_some(requests, statuses)
    ready = mixture.find_ready(False, False)
    if ready:
        _look_each([requests[i] for i in ready], statuses)
    return ready


def wait(self: MPI.Request, status: Status = None) -> Any:
    operation = here.active.get(self.handle)
    if operation is not None:
        finish_wait(self, operation, status)
        return operation.result()
    return _polled_objects(_test_object, self, status)


def test(self: MPI.Request, status: Status = None) -> tuple[bool, Any]:
    operation = here.active.get(self.handle)
    if operation is not None:
        if test_one(self, operation, status):
            return True, operation.result()
        return False, None
    result: tuple[bool, Any] = _test_object(self, status)
    if not result[0]:
        test_turn()
    return result


def waitall(cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None) -> list[Any]:
    requests = list(requests)
    mixture = Mixture(requests, _wait_object)
    if mixture.ours:
        mixture.reach()
        for each in mixture.natives:
            while not each.is_complete():
                turn(describe_native)
        return mixture.take(statuses, in_order=True)
    received: list[Any] = _polled_objects(_testall_objects, requests, statuses)
    return received


def testall(
    cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None
) -> tuple[bool, list[Any] | None]:
    mixture = Mixture(requests, _wait_object)
    if not mixture.is_over():
        return False, None
    return True, mixture.take(statuses, in_order=True)


def waitany(cls: Any, requests: Sequence[MPI.Request], status: Status = None) -> tuple[int, Any]:
    i, _, received = Mixture(requests, _wait_object).take_any(status, True, _testany_objects)
    return i, received


def testany(
    cls: Any, requests: Sequence[MPI.Request], status: Status = None
) -> tuple[int, bool, Any]:
    test_turn()
    return Mixture(requests, _wait_object).take_any(status, False, _testany_objects)


def _some_objects(
    waiting: bool, cls: Any, requests: Sequence[MPI.Request], statuses: Statuses = None
) -> tuple[list[int] | None, list[Any] | None]:
    mixture = Mixture(requests, _wait_object)
    test_turn()
    ready = mixture.find_ready(waiting, True)
    if ready is None:
        return None, None
    return ready, mixture.take(statuses, in_order=True, places=ready)


def Cancel(self: MPI.Request) -> None:
    operation = here.active.get(self.handle)
    if operation is None:
        _cancel(self)
    else:
        operation.cancel()


def Free(self: MPI.Request) -> None:
    """The operation goes on; only the user's hold on it ends."""
    operation = here.active.get(self.handle)
    here.persistent.pop(self.handle, None)
    if operation is None:
        _free(self)
    else:
        abandon(self, operation)


def abandon(request: MPI.Request, operation: Any) -> None:
    del here.active[request.handle]
    here.keep(operation)
    _free(request)


def install() -> None:
    replace_all(
        MPI.Request, {"Wait": _waiting(), "Test": _testing(), "Waitall": _waiting_for_all()}
    )
    looks: list[Callable[..., Any]] = [
        Get_status, Get_status_all, Get_status_any, Get_status_some,
    ]  # fmt: skip
    others: list[Callable[..., Any]] = [
        Testall, Waitany, Testany, Cancel, Free,
        wait, test, waitall, testall, waitany, testany,
    ]  # fmt: skip
    replace_calls(MPI.Request, {each.__name__: each for each in (*looks, *others)})
    replace_calls(
        MPI.Request,
        {
            "Waitsome": partial(_some, True),
            "Testsome": partial(_some, False),
            "waitsome": partial(_some_objects, True),
            "testsome": partial(_some_objects, False),
        },
    )
    synonyms = {each.__name__.lower(): bracket(each.__name__, each) for each in (*looks, Cancel)}
    replace_all(MPI.Request, synonyms)
