"""`pagewire sockets --stress`: many connections at once between all nodes, every byte compared.

Node 0 serves, by threads and by forked processes; the others connect, from threads and from forked
processes. A connection carries bytes both ways at the same time, in pieces of random size; each
side ends its own stream when it has sent all. Some connections are given up in the middle by one
side, and each client node kills one of its processes in the middle of a connection: the other side
must see an end. The last node tells what was found, after all have finished.

The programs are this module again:
python -m pagewire.cli.checks.sockets_stress NODE NODES CONNECTIONS BYTES SEED.
"""

import contextlib
import dataclasses
import functools
import json
import os
import random
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

DATA_PORT, REPORT_PORT = 7, 8
_BLOCK = random.Random(16).randbytes(1 << 20)
_PIECE_MAX = 100_000
_FORKED_PART = 0.1  # of connections, at either side
_GIVEN_UP_PART = 0.05
_HEAD = struct.Struct("<QQQQ")
_GIVERS = ("", "client", "server")


@dataclasses.dataclass(frozen=True)
class Plan:
    """One connection: bytes of the client, of the server, and who gives up in the middle."""

    seed: int
    up: int
    down: int
    given_up_by: str  # "", "client", "server"
    forks: bool

    @property
    def head(self) -> bytes:
        """What the client sends first."""
        how = _GIVERS.index(self.given_up_by) * 2 + self.forks
        return _HEAD.pack(self.seed, self.up, self.down, how)

    @staticmethod
    def read(head: bytes) -> "Plan":
        """The same from its bytes."""
        seed, up, down, how = _HEAD.unpack(head)
        return Plan(seed, up, down, _GIVERS[how // 2], bool(how % 2))


def plans(num_connections: int, num_bytes: int, seed: int) -> list[Plan]:
    """What a client node does; the bytes of both directions are num_bytes or a little more."""
    draw = random.Random(seed)
    shares = [draw.uniform(0.2, 1.8) for _ in range(num_connections)]
    made = []
    for share in shares:
        both = round(num_bytes * share / sum(shares)) + 1
        up = draw.randrange(both)
        giver = draw.choice(["client", "server"]) if draw.random() < _GIVEN_UP_PART else ""
        forks = draw.random() < _FORKED_PART
        made.append(Plan(draw.getrandbits(40), up, both - up, giver, forks))
    return made


def _piece(seed: int, position: int, most: int) -> bytes:
    at = (seed + position) % len(_BLOCK)
    return _BLOCK[at : at + most]


def _send(end: socket.socket, seed: int, num_bytes: int, stop_at: int) -> None:
    draw, position = random.Random(seed), 0
    while position < min(num_bytes, stop_at):
        most = min(draw.randrange(1, _PIECE_MAX), num_bytes - position)
        position += end.send(_piece(seed, position, most))
    if position == num_bytes:
        end.shutdown(socket.SHUT_WR)


def _receive(end: socket.socket, seed: int) -> int:
    """How many bytes came until the end; ValueError: a wrong one."""
    draw, position = random.Random(seed + 1), 0
    while got := end.recv(draw.randrange(1, _PIECE_MAX)):
        checked = 0
        while checked < len(got):
            wanted = _piece(seed, position, len(got) - checked)
            if got[checked : checked + len(wanted)] != wanted:
                raise ValueError(f"wrong bytes at {position} of {seed}")
            checked += len(wanted)
            position += len(wanted)
    return position


def _carry(end: socket.socket, plan: Plan, is_client: bool) -> None:
    """Both directions at once, up to where one side gives up, if that is planned."""
    out, back = (plan.up, plan.down) if is_client else (plan.down, plan.up)
    own = "client" if is_client else "server"
    seeds = (plan.seed, plan.seed + 7) if is_client else (plan.seed + 7, plan.seed)
    with ThreadPoolExecutor(1) as pool, end:
        if plan.given_up_by == own:
            _send(end, seeds[0], out, out // 2)
            return
        received = pool.submit(_receive, end, seeds[1])
        broken = contextlib.suppress(OSError) if plan.given_up_by else contextlib.nullcontext()
        with broken:
            _send(end, seeds[0], out, out)
        with broken:
            found = received.result()
            if found != back and not plan.given_up_by:
                raise ValueError(f"{found} bytes of {back} of {plan.seed}")


def _in_child(work: Callable[[], object]) -> int:
    """Its exit code: 0 when nothing was raised."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    exit_code = 1
    try:
        work()
        exit_code = 0
    except (OSError, ValueError) as error:
        print(f"sockets --stress: {error!r}", file=sys.stderr)
    finally:
        os._exit(exit_code)


def _do(plan: Plan, work: Callable[[], None], side: str, failures: list[str]) -> None:
    """One side of a connection, in a process of its own if that is planned."""
    try:
        if not plan.forks:
            work()
        elif _in_child(work):
            failures.append(f"a forked process of the {side} failed")
    except (OSError, ValueError) as error:
        failures.append(repr(error))


# ---- node 0


def _serve_one(end: socket.socket, failures: list[str]) -> None:
    head = b""
    with end:
        try:
            while len(head) < _HEAD.size and (got := end.recv(_HEAD.size - len(head))):
                head += got
        except OSError as error:
            failures.append(repr(error))
        if len(head) == _HEAD.size:  # else it was of a process that was killed
            plan = Plan.read(head)
            _do(plan, lambda: _carry(end, plan, is_client=False), "server", failures)


def _serve(num_clients: int) -> None:
    failures: list[str] = []
    reports: list[str] = []
    threads: list[threading.Thread] = []
    door = socket.create_server(("", DATA_PORT), backlog=4096)
    desk = socket.create_server(("", REPORT_PORT), backlog=64)

    def accept_all() -> None:
        while True:
            end = door.accept()[0]
            thread = threading.Thread(target=_serve_one, args=(end, failures), daemon=True)
            threads.append(thread)
            thread.start()

    threading.Thread(target=accept_all, daemon=True).start()
    visitors = [desk.accept()[0] for _ in range(num_clients)]
    for visitor in visitors:
        with visitor.makefile() as file:
            reports.append(file.readline())
    for thread in threads:
        thread.join()
    found = {"failures": failures, "reports": [json.loads(report) for report in reports]}
    for visitor in visitors:
        visitor.sendall(json.dumps(found).encode() + b"\n")
        visitor.close()
    while True:
        signal.pause()


# ---- the others


def _dial(port: int) -> socket.socket:
    until = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("10.77.0.1", port))
        except ConnectionRefusedError:  # the server is not there yet
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _call(plan: Plan) -> None:
    end = _dial(DATA_PORT)
    end.sendall(plan.head)
    _carry(end, plan, is_client=True)


def _be_killed() -> None:
    end = _dial(DATA_PORT)
    end.sendall(Plan(1, 1 << 30, 1 << 30, "client", False).head)
    end.recv(1000)
    os.kill(os.getpid(), signal.SIGKILL)


def _work(wanted: list[Plan]) -> dict[str, object]:
    failures: list[str] = []
    with ThreadPoolExecutor(max(1, len(wanted))) as pool:
        for plan in wanted:
            pool.submit(_do, plan, functools.partial(_call, plan), "client", failures)
        if _in_child(_be_killed) != -signal.SIGKILL:
            failures.append("a process was not killed in the middle")
    whole = [plan for plan in wanted if not plan.given_up_by]
    return {
        "failures": failures,
        "connections": len(wanted),
        "given_up": len(wanted) - len(whole),
        "bytes": sum(plan.up + plan.down for plan in whole),
        "forked": sum(plan.forks for plan in wanted),
    }


def _agent_facts() -> tuple[float, int]:
    """CPU time in s and the largest resident size in bytes of the process that has the nodes."""
    agent = os.environ["PAGEWIRE_SOCKETS"].split()[0]
    with open(f"/proc/{agent}/stat", encoding="ascii") as file:
        words = file.read().rpartition(")")[2].split()
    with open(f"/proc/{agent}/status", encoding="ascii") as file:
        (peak,) = (int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"), peak * 1024


def _client(node: int, num_nodes: int, wanted: list[Plan]) -> int:
    desk = _dial(REPORT_PORT)
    started = time.monotonic()
    desk.sendall(json.dumps(_work(wanted)).encode() + b"\n")
    with desk.makefile() as file:
        found = json.loads(file.readline())
    took_s = time.monotonic() - started
    if node != num_nodes - 1:
        return 0
    reports = found["reports"]
    failures = found["failures"] + [each for report in reports for each in report["failures"]]
    num_bytes = sum(report["bytes"] for report in reports)
    cpu_s, peak_bytes = _agent_facts()
    print(
        f"{sum(report['connections'] for report in reports)} connections at once from "
        f"{len(reports)} nodes, {sum(report['forked'] for report in reports)} by forked "
        f"processes, {sum(report['given_up'] for report in reports)} given up, {len(reports)} "
        f"killed; {num_bytes} bytes compared in {took_s:.2f} s; nodes: {cpu_s:.2f} s of CPU time, "
        f"{cpu_s * 1e9 / max(num_bytes, 1):.2f} ns a byte, at most {peak_bytes >> 20} MB resident"
    )
    for each in failures[:10]:
        print(f"failed: {each}")
    return 1 if failures else 0


def commands(num_nodes: int, num_connections: int, num_bytes: int, seed: int) -> list[str]:
    """The programs of all nodes, with : between them."""
    words: list[str] = []
    for node in range(num_nodes):
        words += [":"] * (node > 0) + [sys.executable, "-m", __name__]
        words += [str(word) for word in (node, num_nodes, num_connections, num_bytes, seed)]
    return words


def main(words: list[str]) -> int:
    """One node's program."""
    node, num_nodes, num_connections, num_bytes, seed = map(int, words)
    if node == 0:
        _serve(num_nodes - 1)
    num_clients = num_nodes - 1
    share = num_connections * node // num_clients - num_connections * (node - 1) // num_clients
    wanted = plans(share, num_bytes * share // num_connections, seed * 1000 + node)
    return _client(node, num_nodes, wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
