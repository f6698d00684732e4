"""Runs a command as on a kernel that refuses some system calls: in a container, or an old one.

    python -m pagewire.cli.checks.selftest.refused_calls process_vm_readv=EPERM -- COMMAND

The filter (seccomp) holds for the command and for all that it starts, and cannot be taken off. The
profile `container` is what Docker's default profile refuses of the calls that pagewire makes, with
a limit of locked memory. Numbers of system calls: x86-64 and arm64 of Linux.
"""

import ctypes
import dataclasses
import errno
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Sequence

from pagewire.native.settings import ConfigError, suggestion

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 22, 38, 24
_SECCOMP_MODE_FILTER = 2
_CAP_IPC_LOCK, _CAP_SYS_PTRACE, _CAP_SYS_ADMIN, _CAP_PERFMON = 14, 19, 21, 38

_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""The kernel's name of a machine (linux/audit.h), and its column of the numbers below."""

# Of struct seccomp_data (linux/seccomp.h): number, architecture, instruction pointer, arguments.
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16
# Classic BPF (linux/filter.h): load a word, jump when equal, return.
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A system call, or what of it is refused."""

    numbers: tuple[int, int]
    """On x86-64 and on arm64."""
    argument_idx: int = -1
    """The argument that decides; -1: the call is refused whatever its arguments are."""
    only: tuple[int, ...] = ()
    """Values of that argument that are refused; empty: all but those of `allowed`."""
    allowed: tuple[int, ...] = ()


CALLS = {
    "process_vm_readv": Call((310, 270)),
    "process_vm_writev": Call((311, 271)),
    "mlock": Call((149, 228)),
    "mincore": Call((27, 232)),
    "populate_read": Call((28, 233), 2, only=(22,)),
    "populate_write": Call((28, 233), 2, only=(23,)),
    "collapse": Call((28, 233), 2, only=(25,)),
    "pagemap_scan": Call((16, 29), 1, only=(0xC0606610,)),
    "procmap_query": Call((16, 29), 1, only=(0xC0686611,)),
    "memfd_create": Call((319, 279)),
    "pidfd_open": Call((434, 434)),
    "pidfd_getfd": Call((438, 438)),
    "perf_event_open": Call((298, 241)),
    "personality": Call((135, 92)),
    # Docker lets a program ask, and set Linux or a 32-bit one with or without UNAME26.
    "other_personality": Call((135, 92), 0, allowed=(0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)),
}
"""What can be refused, by the name of the system call or of its one use."""

CONTAINER = {
    "process_vm_readv": errno.EPERM,
    "process_vm_writev": errno.EPERM,
    "other_personality": errno.EPERM,
    "perf_event_open": errno.EPERM,
    "pidfd_getfd": errno.EPERM,
}
"""Docker's default profile, on kernels for which it does not allow ptrace."""

CONTAINER_LOCKED_BYTES = 64 << 10
_CONTAINER_LACKS = (_CAP_IPC_LOCK, _CAP_SYS_PTRACE, _CAP_SYS_ADMIN, _CAP_PERFMON)


class FilterError(RuntimeError):
    """This machine or this kernel has no such filters."""


def program(refusals: Iterable[tuple[str, int]], machine: str) -> bytes:
    """The filter's instructions; refusals: names of CALLS, each with the errno that it gets."""
    if machine not in _MACHINES:
        raise FilterError(f"numbers of system calls are known for {', '.join(_MACHINES)} only")
    architecture, column = _MACHINES[machine]
    code = [(_LOAD, 0, 0, _ARCHITECTURE_OFFSET), (_JUMP_IF_EQUAL, 1, 0, architecture)]
    code.append((_RETURN, 0, 0, _ALLOW))
    for name, number in refusals:
        code += _refusal(CALLS[name], CALLS[name].numbers[column], number)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *each) for each in code)


def _refusal(call: Call, number: int, error: int) -> list[tuple[int, int, int, int]]:
    """Instructions that refuse the call, or go on behind themselves."""
    tests: list[tuple[int, int, int, int]] = []
    if call.argument_idx >= 0:
        # The low half of the argument: all of these are ints.
        tests.append((_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * call.argument_idx))
        values = call.only or call.allowed
        for place, value in enumerate(values):
            left = len(values) - 1 - place
            if call.only:
                tests.append((_JUMP_IF_EQUAL, left, 0 if left else 1, value))
            else:
                tests.append((_JUMP_IF_EQUAL, left + 1, 0, value))
    body = [*tests, (_RETURN, 0, 0, _REFUSE | error)]
    return [
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        (_JUMP_IF_EQUAL, 0, len(body), number),
        *body,
    ]


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("num_instructions", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def apply(refusals: Iterable[tuple[str, int]]) -> None:
    """From here on this process and its children are refused these calls."""
    code = program(refusals, platform.machine())
    held = ctypes.create_string_buffer(code, len(code))
    loaded = _Program(len(code) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(loaded), 0, 0
    ):
        raise FilterError(f"the kernel takes no filter: {os.strerror(ctypes.get_errno())}")


def enter_container() -> None:
    """The limit and, for root, the capabilities that a container has; the filter comes behind."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (CONTAINER_LOCKED_BYTES, CONTAINER_LOCKED_BYTES))
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in _CONTAINER_LACKS if os.geteuid() == 0 else ():
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # counts from the exec on


def parse(words: Sequence[str]) -> list[tuple[str, int]]:
    """Refusals as given on the command line: CALL=ERRNO."""
    found = []
    for word in words:
        name, equals, error = word.partition("=")
        if name not in CALLS:
            raise ConfigError(f"unknown call '{name}'{suggestion(name, CALLS)}")
        number = getattr(errno, error, 0) if error.startswith("E") else 0
        if not equals or not number:
            raise ConfigError(f"'{word}': allowed is CALL=ERRNO, such as {name}=EPERM")
        found.append((name, number))
    return found


def main(words: Sequence[str]) -> int:
    """Become the command behind --."""
    if "--" not in words or not words[list(words).index("--") + 1 :]:
        raise ConfigError("give CALL=ERRNO ... -- COMMAND, or container -- COMMAND")
    split = list(words).index("--")
    given, command = list(words[:split]), list(words[split + 1 :])
    refusals = list(CONTAINER.items()) if "container" in given else []
    refusals += parse([word for word in given if word != "container"])
    if "container" in given:
        enter_container()
    apply(refusals)
    os.execvp(command[0], command)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (ConfigError, FilterError, OSError) as error:
        print(f"pagewire: error: {error}", file=sys.stderr)
        sys.exit(2)
