"""What pagewire needs of this machine, each tried: page states, page-ins, pins, shared memory."""

import ctypes
import errno
import importlib.util
import mmap
import os
import resource
from collections.abc import Callable
from typing import Any

from pagewire.cli.checks.selftest.outcome import Check, Verdict
from pagewire.cli.launch import fabric, mpi_choice
from pagewire.native import ffi, lib
from pagewire.native.settings import ConfigError

_SOURCES = {
    "pagemap": ("PW_SOURCE_PAGEMAP", "pages that a write would copy count as there"),
    "PROCMAP_QUERY": ("PW_SOURCE_PROCMAP", "writes that the mapping forbids crash (Linux 6.11)"),
    "PAGEMAP_SCAN": ("PW_SOURCE_SCAN", "huge pages count as 512 pages (Linux 6.7)"),
}


class _Part(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("address", ctypes.c_void_p), ("num_bytes", ctypes.c_size_t))


def all_checks() -> list[Check]:
    """Every check of the machine, in the order of the table."""
    lacks = lib.pw_memory_host_lacks()
    if lacks:
        checks = [Check("mincore, MADV_POPULATE", Verdict.FAILED, ffi.string(lacks).decode())]
    else:
        checks = [Check("mincore, MADV_POPULATE", Verdict.PASSED), *_page_sources()]
    checks += [
        _called("process_vm_readv", _copy_by_kernel, "a bad buffer crashes instead of failing"),
        _mlock(),
        _called("memfd_create", _make_memfd, "the fabric does not start, the facade sends by MPI"),
        _called("personality", _ask_personality, "times vary a little from run to run"),
        _called("pidfd_open", _open_pidfd, "ended ranks are seen through /proc"),
    ]
    return [*checks, _mpi(), _mpi4py(), _provider()]


def ask_memory(question: Callable[[Any], int]) -> int | None:
    """What a memory backend of this host answers; None: it cannot be made."""
    memory = ffi.new("pw_memory **")
    if lib.pw_memory_create(lib.PW_MEMORY_HOST, ffi.NULL, memory) < 0:
        return None
    answer = int(question(memory[0]))
    lib.pw_memory_destroy(memory[0])
    return answer


def _page_sources() -> list[Check]:
    found = ask_memory(lib.pw_memory_sources)
    if found is None:
        return [Check("page states", Verdict.FAILED, "the memory backend cannot be made")]
    return [
        Check(name, Verdict.PASSED)
        if found & getattr(lib, flag)
        else Check(name, Verdict.NOT_AVAILABLE, f"without it {meaning}")
        for name, (flag, meaning) in _SOURCES.items()
    ]


def _called(name: str, call: Callable[[], None], without: str) -> Check:
    try:
        call()
    except OSError as error:
        reason = f"{error.strerror or error}: without it {without}"
        return Check(name, Verdict.NOT_AVAILABLE, reason)
    return Check(name, Verdict.PASSED)


def _libc_call(name: str, *words: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(getattr(libc, name)(*words))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _copy_by_kernel() -> None:
    text = ctypes.create_string_buffer(b"pagewire")
    copy = ctypes.create_string_buffer(len(text))
    to = _Part(ctypes.addressof(copy), len(copy))
    source = _Part(ctypes.addressof(text), len(text))
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    _libc_call(
        "process_vm_readv", os.getpid(), ctypes.byref(to), one, ctypes.byref(source), one, none
    )
    if copy.raw != text.raw:
        raise OSError(errno.EIO, "it copied wrong bytes")


def _mlock() -> Check:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = "no limit" if soft == resource.RLIM_INFINITY else f"at most {soft} bytes"
    with mmap.mmap(-1, mmap.PAGESIZE) as area:
        place = ctypes.c_char.from_buffer(area)
        words = (ctypes.c_void_p(ctypes.addressof(place)), ctypes.c_size_t(mmap.PAGESIZE))
        try:
            _libc_call("mlock", *words)
            _libc_call("munlock", *words)
        except OSError as error:
            detail = f"{error.strerror}: run.memory = pin does not work (ulimit -l: {limit})"
            return Check("mlock", Verdict.NOT_AVAILABLE, detail)
        finally:
            del place
    return Check("mlock", Verdict.PASSED, limit)


def _make_memfd() -> None:
    descriptor = os.memfd_create("pagewire-selftest", os.MFD_ALLOW_SEALING)
    try:
        os.truncate(descriptor, mmap.PAGESIZE)
        with mmap.mmap(descriptor, mmap.PAGESIZE) as area:
            area[0] = 1
    finally:
        os.close(descriptor)


def _ask_personality() -> None:
    persona = _libc_call("personality", ctypes.c_ulong(0xFFFFFFFF))
    _libc_call("personality", ctypes.c_ulong(persona | 0x0040000))  # ADDR_NO_RANDOMIZE
    _libc_call("personality", ctypes.c_ulong(persona))


def _open_pidfd() -> None:
    os.close(os.pidfd_open(os.getpid()))


def _mpi() -> Check:
    try:
        found = mpi_choice.find(os.environ.get("PAGEWIRE_RUN_MPI", "auto"), ask=True)
    except ConfigError as error:
        return Check("MPI", Verdict.FAILED, str(error))
    return Check("MPI", Verdict.PASSED, f"{found.title} ({found.mpiexec})")


def _mpi4py() -> Check:
    if importlib.util.find_spec("mpi4py") is None:
        return Check("mpi4py", Verdict.FAILED, "not installed: pip install 'pagewire[mpi]'")
    return Check("mpi4py", Verdict.PASSED)


def _provider() -> Check:
    absent = fabric.missing()
    if absent:
        return Check(
            "libfabric provider",
            Verdict.NOT_AVAILABLE,
            f"no {', '.join(absent)}: built without libfabric's headers; programs in C and Fortran "
            "do not run",
        )
    return Check("libfabric provider", Verdict.PASSED, str(fabric.folder()))
