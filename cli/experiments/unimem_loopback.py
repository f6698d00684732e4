"""A program of ping-pongs and streams over an ordinary TCP socket, timed by the wall clock.

python -m pagewire.cli.experiments.unimem_loopback FILE serve PORT | ask HOST PORT | both

`ask` writes [[size, seconds one way, bytes a second], ...] to FILE as JSON; `both` is one program
with a child over 127.0.0.1. The sizes are those of the environment's PAGEWIRE_LOOPBACK_SIZES.
"""

import json
import os
import pathlib
import socket
import statistics
import struct
import sys
import time

from pagewire.cli.kit.numbers import content

_COMMAND = struct.Struct(">BII")
PING, STREAM, END = range(3)
SIZES_VARIABLE = "PAGEWIRE_LOOPBACK_SIZES"
STREAM_BYTES = 4 << 20
_ATTEMPTS = 3000
_PAUSE_S = 0.01


def num_pings(num_bytes: int) -> int:
    return 8 if num_bytes > 1 << 16 else 64


def num_streamed(num_bytes: int) -> int:
    """Messages of a stream: at most so many that 4 MiB go."""
    return min(1024, max(4, STREAM_BYTES // num_bytes))


def _read(peer: socket.socket, num_bytes: int) -> bytearray:
    room = bytearray(num_bytes)
    view, at = memoryview(room), 0
    while at < num_bytes:
        got = peer.recv_into(view[at:])
        if not got:
            raise SystemExit("the peer has gone")
        at += got
    return room


def serve(listener: socket.socket) -> None:
    """One client, until it says that it is done."""
    peer, _ = listener.accept()
    with peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            kind, num_bytes, count = _COMMAND.unpack(_read(peer, _COMMAND.size))
            if kind == END:
                return
            for _ in range(count):
                data = _read(peer, num_bytes)
                if kind == PING:
                    peer.sendall(data)
            if kind == STREAM:
                peer.sendall(b"!")


def ask(peer: socket.socket, num_bytes: int) -> tuple[int, float, float]:
    """Size, half of the median round trip, and bytes a second until the answer to a stream."""
    data, count = content(num_bytes), num_pings(num_bytes)
    peer.sendall(_COMMAND.pack(PING, num_bytes, count))
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        peer.sendall(data)
        back = _read(peer, num_bytes)
        times.append(time.perf_counter() - begin)
        if back != data:
            raise SystemExit(f"{num_bytes} bytes came back changed")
    count = num_streamed(num_bytes)
    peer.sendall(_COMMAND.pack(STREAM, num_bytes, count))
    begin = time.perf_counter()
    for _ in range(count):
        peer.sendall(data)
    _read(peer, 1)
    duration = time.perf_counter() - begin
    return num_bytes, statistics.median(times) / 2, count * num_bytes / duration


def _dial(host: str, port: int) -> socket.socket:
    for _ in range(_ATTEMPTS):
        try:
            return socket.create_connection((host, port))
        except ConnectionRefusedError:
            time.sleep(_PAUSE_S)
    raise SystemExit(f"nobody listens at {host}:{port}")


def _ask_all(path: str, host: str, port: int) -> None:
    with _dial(host, port) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found = [ask(peer, int(size)) for size in os.environ[SIZES_VARIABLE].split()]
        peer.sendall(_COMMAND.pack(END, 0, 0))
    pathlib.Path(path).write_text(json.dumps(found), encoding="utf-8")


def main(words: list[str]) -> None:
    path, role, *rest = words
    if role == "serve":
        with socket.create_server(("", int(rest[0]))) as listener:
            serve(listener)
    elif role == "ask":
        _ask_all(path, rest[0], int(rest[1]))
    else:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            child = os.fork()
            if child == 0:
                serve(listener)
                os._exit(0)
            _ask_all(path, "127.0.0.1", listener.getsockname()[1])
            os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
