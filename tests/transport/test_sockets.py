"""Unmodified programs over `pagewire sockets`: what they see, and that the bytes went by RDMA."""

import subprocess
import sys

import pytest
from sockets_runs import counted, run


@pytest.mark.parametrize("memory", ["part", "pin-all"])
def test_http_server_and_client_when_unmodified_exchange_files(tmp_path, memory):
    (tmp_path / "file").write_bytes(bytes(range(256)) * 4000)
    server = f"import http.server, sys\nos.chdir({str(tmp_path)!r})\n" + (
        "http.server.test(http.server.SimpleHTTPRequestHandler, "
        "http.server.ThreadingHTTPServer, port=8000)"
    )
    client = """
import urllib.request
dial(8000).close()
got = urllib.request.urlopen("http://10.77.0.1:8000/file").read()
assert got == bytes(range(256)) * 4000
"""
    ran = run(server, client, options=("--memory", memory))
    assert counted(ran, 1, r"in;") > 1_024_000
    assert counted(ran, 0, "RDMA writes") >= 1_024_000 // 65536
    faults = counted(ran, 1, "page faults")
    assert faults > 0 if memory == "part" else faults == 0


def test_addresses_and_options_when_asked_are_those_of_the_emulated_network():
    server = """
with socket.create_server(("10.77.0.1", 7)) as server:
    s, peer = server.accept()
    assert peer[0] == "10.77.0.2" and s.getpeername() == peer, peer
    assert s.getsockname() == ("10.77.0.1", 7) == server.getsockname()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    s.sendall(str(peer[1]).encode())
    s.close()
"""
    client = """
s = dial(7)
assert s.getpeername() == ("10.77.0.1", 7) and s.family == socket.AF_INET
assert int(read_all(s)) == s.getsockname()[1]
try:
    socket.create_connection(("10.77.0.1", 9))
except ConnectionRefusedError:
    pass
else:
    raise SystemExit("nobody listens at port 9")
with socket.create_server(("127.0.0.1", 0)) as own:  # the kernel's
    near = socket.create_connection(own.getsockname())
    assert own.accept()[1] == near.getsockname()
"""
    run(server, client)


def test_half_close_and_reset_when_used_are_seen_by_the_peer():
    server = """
with socket.create_server(("", 7)) as server:
    s = server.accept()[0]
    s.sendall(hashlib.sha256(read_all(s)).digest())
    s.close()
    s = server.accept()[0]
    s.recv(1)
    s.close()  # with bytes unread
    time.sleep(60)
"""
    client = """
s = dial(7)
s.sendall(content(1, 300_000))
s.shutdown(socket.SHUT_WR)
assert read_all(s) == hashlib.sha256(content(1, 300_000)).digest()
s = dial(7)
try:
    while True:
        s.sendall(bytes(100_000))
except (BrokenPipeError, ConnectionResetError):
    pass
"""
    run(server, client)


def test_forked_children_and_threads_when_they_have_the_socket_use_it():
    server = """
with socket.create_server(("", 7)) as server:
    for _ in range(4):
        s = server.accept()[0]
        if os.fork() == 0:
            server.close()
            s.sendall(read_all(s)[::-1])
            os._exit(0)
        s.close()
    time.sleep(60)
"""
    client = """
done = []
def ask(seed):
    s = dial(7)
    s.sendall(content(seed, 100_000))
    s.shutdown(socket.SHUT_WR)
    assert read_all(s)[::-1] == content(seed, 100_000)
    done.append(seed)
threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(done) == 4
"""
    ran = run(server, client)
    assert counted(ran, 0, "taken") == 4


def test_hundred_connections_when_epoll_serves_them_keep_every_byte():
    server = """
async def serve(reader, writer):
    while piece := await reader.read(random.randrange(1, 40_000)):
        writer.write(piece)
        await writer.drain()
    writer.close()
async def main():
    async with await asyncio.start_server(serve, "10.77.0.1", 7, backlog=100) as server:
        await server.serve_forever()
asyncio.run(main())
"""
    client = """
async def ask(seed):
    reader, writer = await asyncio.open_connection("10.77.0.1", 7)
    sent = content(seed, random.randrange(1, 200_000))
    async def put():
        at = 0
        while at < len(sent):
            step = random.randrange(1, 30_000)
            writer.write(sent[at : at + step])
            await writer.drain()
            at += step
        writer.write_eof()
    putting = asyncio.ensure_future(put())
    assert await reader.read(-1) == sent
    await putting
    writer.close()
async def main():
    await asyncio.gather(*(ask(seed) for seed in range(100)))
dial(7).close()
asyncio.run(main())
"""
    ran = run(server, client)
    assert counted(ran, 0, "taken") == 101


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["-n", "2", "--", "true"], "-n 2 with 1 programs"),
        (["-n", "1", "--ring", "1000", "--", "true"], "--ring = 1000"),
        (["-n", "1", "--set", "firmware.block=no", "--", "true"], "firmware.block"),
    ],
)
def test_words_when_they_cannot_be_used_are_refused(words, what):
    ran = subprocess.run(
        [sys.executable, "-m", "pagewire", "sockets", *words],
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 2 and what in ran.stderr
