"""Runs of `pagewire sockets` with Python programs."""

import re
import subprocess
import sys

PREAMBLE = """
import asyncio, errno, hashlib, os, random, select, socket, threading, time
def dial(port, host="10.77.0.1"):
    for _ in range(3000):
        try:
            return socket.create_connection((host, port))
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise SystemExit("nobody listens")
def read_all(s):
    got = b""
    while piece := s.recv(65536):
        got += piece
    return got
def content(seed, num_bytes):
    return random.Random(seed).randbytes(num_bytes)
"""


def run(
    *programs: str,
    options: tuple[str, ...] = (),
    exit_code: int = 0,
    before: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a Python program a node; the last one's exit code must be the given one. before: words in
    front of the command's."""
    words = [
        *before,
        sys.executable,
        "-m",
        "pagewire",
        "sockets",
        "-n",
        str(len(programs)),
        *options,
        "--",
    ]
    for idx, text in enumerate(programs):
        words += [":"] * (idx > 0) + [sys.executable, "-c", PREAMBLE + text]
    ran = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)
    assert ran.returncode == exit_code, ran.stderr
    return ran


def counted(ran: subprocess.CompletedProcess[str], node: int, what: str) -> int:
    """A number of the node's line of statistics."""
    line = re.search(rf"sockets, node {node}: (.*)", ran.stderr)
    assert line, ran.stderr
    found = re.search(rf"(\d+) {what}", line[1])
    assert found, line[1]
    return int(found[1])
