"""What tests of page faults share: a pair of NIs whose pages are in a chosen state, and what it
reports."""

import pytest
from engine_pair import ARRIVED, BLOCK, PAGE, Buffer, Pair, resident, times

from pagewire.native import check, lib

ABSENT, PRESENT, UNMAPPED = lib.PW_PAGE_ABSENT, lib.PW_PAGE_PRESENT, lib.PW_PAGE_UNMAPPED
WRITE_PROTECTED = lib.PW_PAGE_WRITE_PROTECTED
PAGE_FAULT, DECODE, PROTECTION = 1, 2, 5
HUGE_PAGES = int(lib.PW_HUGE_PAGES)
HUGE_BYTES = HUGE_PAGES * PAGE
HOST, MODEL = int(lib.PW_MEMORY_HOST), int(lib.PW_MEMORY_MODEL)
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25
ENDS = ["source", "destination", "both"]
CHECKS = lib.pw_memory_checks_access(Pair().memories[0])
needs_pagemap = pytest.mark.skipif(
    not CHECKS & lib.PW_CHECKS_WRITE_PROTECTION,
    reason="write protection needs PROCMAP_QUERY (Linux 6.11) and a readable /proc/self/pagemap",
)
needs_procmap = pytest.mark.skipif(
    not CHECKS & lib.PW_CHECKS_PERMISSION, reason="PROCMAP_QUERY: Linux 6.11 or newer"
)


def faults(pair: Pair, node: int) -> tuple[int, int, int, int]:
    """Translation faults at source and destination, permission faults likewise."""
    counters = pair.counters(node)
    return (
        counters.translation_faults_source,
        counters.translation_faults_destination,
        counters.permission_faults_source,
        counters.permission_faults_destination,
    )


def assert_both_live_on(pair: Pair) -> None:
    """A good transfer either way works, and then nothing is left."""
    for node, peer in ((0, 1), (1, 0)):
        source, destination = resident(2 * BLOCK + 5)
        pair.carry(source, destination, node=node, peer=peer, at_ns=10**8)
    pair.assert_quiet()


def one_page(**settings: int) -> tuple[int, Pair]:
    """What a write of one page to an absent page takes: the yardstick of the other kinds."""
    pair = Pair(**settings)
    source, destination = resident(PAGE)
    if settings.get("memory_backend") == MODEL:
        set_pages(pair, 1, destination, ABSENT)
    else:
        destination.drop()
    pair.write(source, destination)
    return times(pair.run())[ARRIVED], pair


def set_pages(pair: Pair, node: int, buffer: Buffer, state: int) -> None:
    code = lib.pw_memory_set(pair.memories[node], buffer.first_page, buffer.num_pages, state)
    check(code, "set")


def mark(pair: Pair, ends: str, source: Buffer, destination: Buffer, state: int) -> None:
    if ends != "destination":
        set_pages(pair, 0, source, state)
    if ends != "source":
        set_pages(pair, 1, destination, state)
