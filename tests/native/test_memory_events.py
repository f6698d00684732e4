"""What was seen of pages holds until an event: each way to lose a page is found, and nothing is
asked meanwhile. In processes of their own: libucm changes the C library for good."""

import os
import pathlib
import subprocess
import sys

import pytest
from memories import EVENTS, backend, use_events

from pagewire.native import lib

HERE = pathlib.Path(__file__).parent

LOSSES = """
import ctypes, mmap, os, sys
sys.path.insert(0, {here!r})
from mappings import LIBC, READ_WRITE, FarPages, unmap
from memories import backend, use_events
from pagewire.native import ffi, lib

PAGES = 300  # more than one chunk of the table
memory = backend(lib.PW_MEMORY_HOST)
print(use_events(memory, {checked}) and "refused")
state = ffi.new("uint8_t[]", PAGES)


def walk(pages, for_write=True, num_pages=PAGES):
    lib.pw_memory_enter(memory)
    code = lib.pw_memory_walk(memory, pages.address >> 12, num_pages, for_write, state)
    return code or list(state[0:num_pages])


def seen():
    pages = FarPages(PAGES * 4096)
    ctypes.memset(pages.address, 1, PAGES * 4096)
    for for_write in (True, False, True):
        assert walk(pages, for_write) == [lib.PW_PAGE_PRESENT] * PAGES
    return pages


def num_calls(pages, for_write):
    assert lib.pw_bench_begin_counting() == lib.PW_OK
    lib.pw_memory_enter(memory)
    lib.pw_memory_walk(memory, pages.address >> 12, PAGES, for_write, state)
    lib.pw_memory_may_vanish(memory, pages.address >> 12, PAGES)
    return lib.pw_bench_end_counting()
"""

WAYS = {
    "advise": ("pages.advise(mmap.MADV_DONTNEED, 4096, 8192)", "ABSENT"),
    "unmap": ("unmap(pages.address + 4096, 8192)", "UNMAPPED"),
    "map over it": (
        "LIBC.mmap(pages.address + 4096, 8192, READ_WRITE, 0x32, -1, 0)",
        "ABSENT",
    ),
    "move": (
        "assert LIBC.mremap(pages.address + 4096, 8192, 8192, 3, pages.address + (4 << 20))",
        "UNMAPPED",
    ),
    "protect": ("LIBC.mprotect(pages.address + 4096, 8192, mmap.PROT_READ)", "FORBIDDEN"),
    "fork": (
        "r, w = os.pipe()\nif not os.fork(): os.close(w); os.read(r, 1); os._exit(0)",
        "WRITE_PROTECTED",
    ),
    "many events later": (
        "unmap(pages.address + 4096, 8192)\nfor _ in range(1000): mmap.mmap(-1, 4096).close()",
        "UNMAPPED",
    ),
}


def run(script: str, checked: bool = False) -> list[str]:
    text = LOSSES.format(here=str(HERE), checked=checked) + script
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    if lines[0] == "refused":
        pytest.skip("no events here")
    return lines[1:]


@pytest.mark.parametrize("way", WAYS)
def test_a_page_that_goes_is_asked_for_again(way) -> None:
    what, state = WAYS[way]
    gone = "range(PAGES)" if way == "fork" else "(1, 2)"
    run(
        f"pages = seen()\n{what}\nfound, lost = walk(pages), lib.PW_PAGE_{state}\n"
        f"assert [i for i in range(PAGES) if found[i] == lost] == [*{gone}], found\n"
        "assert set(found) <= {lib.PW_PAGE_PRESENT, lost}"
    )


FREED = """
import types
LIBC.malloc.restype = ctypes.c_void_p
LIBC.free.argtypes = [ctypes.c_void_p]
block = LIBC.malloc(8 << 20)
ctypes.memset(block, 1, 8 << 20)
pages = types.SimpleNamespace(address=block + 4096 & ~4095)
assert set(walk(pages)) == {lib.PW_PAGE_PRESENT}
LIBC.free(block)
assert set(walk(pages)) == {lib.PW_PAGE_UNMAPPED}
"""


def test_freed_memory_is_asked_for_again() -> None:
    """Inside of free() the C library unmaps."""
    run(FREED)


def test_nothing_is_asked_meanwhile() -> None:
    lines = run("pages = seen()\nprint(num_calls(pages, True), num_calls(pages, False))")
    assert lines == ["0 0"]


TAKEN = """
import types
shared = mmap.mmap(-1, PAGES * 4096)
shared.write(bytes(PAGES * 4096))
address = ctypes.addressof(ctypes.c_char.from_buffer(shared))
there = types.SimpleNamespace(address=address)
assert set(walk(there)) == {lib.PW_PAGE_PRESENT}
print(num_calls(there, True) > 0)
pages = seen()
pages.advise(8, 0, 4096)  # MADV_FREE
print(num_calls(seen(), True) > 0)
"""


def test_pages_that_the_kernel_may_take_without_a_word_are_asked_for() -> None:
    """Shared ones, as a file's, and all once MADV_FREE was used: each walk asks."""
    assert run(TAKEN) == ["True", "True"]


@pytest.mark.parametrize("name", ["madvise", "mprotect"])
def test_a_system_call_of_the_programs_own_is_found_by_the_check(name) -> None:
    """Of which nobody tells; numbers of x86."""
    number, last = {"madvise": (28, 4), "mprotect": (10, 0)}[name]
    run(
        f"pages = seen()\n"
        f"assert LIBC.syscall({number}, ctypes.c_void_p(pages.address), 4096, {last}) == 0\n"
        "assert walk(pages) == lib.PW_ERR_RESIDENCY",
        checked=True,
    )


def test_what_a_host_backend_does_it_does_by_events_too() -> None:
    """All tests of it, checked."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "host"]
    done = subprocess.run(
        [*command, str(HERE / "test_memory.py")],
        env={**os.environ, EVENTS: "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "the kernel" in done.stdout or "there is no libucm" in done.stdout:
        pytest.skip("no events here")
    assert done.returncode == 0, done.stdout


def test_a_model_has_no_events() -> None:
    assert "a model's" in use_events(backend(lib.PW_MEMORY_MODEL))
