"""Runs of `pagewire sockets` with Python programs."""

import re
import subprocess
import sys
from typing import Any

PREAMBLE = """
import asyncio, errno, hashlib, os, random, select, socket, threading, time
def dial(port, host="10.77.0.1", until=ConnectionRefusedError):
    for _ in range(3000):
        try:
            return socket.create_connection((host, port))
        except until:
            time.sleep(0.02)
    raise SystemExit("nobody listens")
def refused(number, call, *words):
    try:
        call(*words)
    except OSError as error:
        assert error.errno == number, error
    else:
        raise SystemExit(f"{words} is not refused")
def read_all(s):
    got = b""
    while piece := s.recv(65536):
        got += piece
    return got
def content(seed, num_bytes):
    return random.Random(seed).randbytes(num_bytes)
"""


def sockets(
    *words: str,
    exit_code: int = 0,
    before: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `pagewire sockets` with these words, whose exit code must be the given one. before: words
    in front of the command's."""
    ran = subprocess.run(
        [*before, sys.executable, "-m", "pagewire", "sockets", *words],
        check=False, capture_output=True, text=True, timeout=120, env=env,
    )  # fmt: skip
    assert ran.returncode == exit_code, ran.stdout + ran.stderr
    return ran


def run(
    *programs: str | list[str], options: tuple[str, ...] = (), **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program a node: the text of one in Python, or a command. more: as of `sockets`."""
    words = ["-n", str(len(programs)), *options, "--"]
    for idx, each in enumerate(programs):
        command = [sys.executable, "-c", PREAMBLE + each] if isinstance(each, str) else each
        words += [":"] * (idx > 0) + command
    return sockets(*words, **more)


def counted(ran: subprocess.CompletedProcess[str], node: int, what: str) -> int:
    """A number of the node's line of statistics."""
    line = re.search(rf"sockets, node {node}: (.*)", ran.stderr)
    assert line, ran.stderr
    found = re.search(rf"(\d+) {what}", line[1])
    assert found, line[1]
    return int(found[1])
