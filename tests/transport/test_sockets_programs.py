"""Programs from Debian over `pagewire sockets`, as they are: what they exchange, by RDMA."""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import pytest
import sockets_runs
from sockets_runs import counted, sockets

SERVERS = pathlib.Path(sys.prefix) / "servers"  # where ./mpirun.sh test unpacks what is missing
PATH = os.pathsep.join([os.environ["PATH"], str(SERVERS / "usr/bin")])
ENVIRONMENT = {
    **os.environ,
    "PATH": PATH,
    "LD_LIBRARY_PATH": ":".join(
        [*map(str, SERVERS.glob("usr/lib/*-linux-gnu")), os.environ.get("LD_LIBRARY_PATH", "")]
    ).strip(":"),
}
MIB = 1 << 20
PYTHON = sys.executable


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip where Debian's programs are not there."""
    missing = [name for name in names if not shutil.which(name, path=PATH)]
    return pytest.mark.skipif(
        bool(missing), reason=f"not installed: {', '.join(missing)}; ./mpirun.sh test brings them"
    )


def run(*programs: str | list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program a node, one after the other listens, and none must fail."""
    ran = sockets_runs.run(*programs, options=("--wait", "60"), env=ENVIRONMENT)
    assert "has ended with exit code" not in ran.stderr, ran.stderr
    return ran


def script(text: str) -> list[str]:
    """Make a command of a shell's lines; the first that fails ends it."""
    return ["bash", "-euo", "pipefail", "-c", text]


def make_files(folder: pathlib.Path, *sizes: int) -> None:
    """Make a file of each size, with its size as name."""
    folder.mkdir()
    for size in sizes:
        (folder / str(size)).write_bytes(random.Random(size).randbytes(size))


@needs("curl")
def test_http_server_when_curl_asks_gives_files_of_all_sizes(tmp_path):
    folder = tmp_path / "files"
    make_files(folder, 0, 1, 65_537, MIB, 64 * MIB)
    server = [PYTHON, "-m", "http.server", "8000", "-d", str(folder), "-p", "HTTP/1.1"]
    ran = run(
        server,
        script(
            f"""
            cd {tmp_path}
            u=http://10.77.0.1:8000
            curl -sS $u/0 -o 0 $u/1 -o 1 $u/65537 -o 65537 $u/1048576 -o 1048576 \\
                -w '%{{num_connects}} %{{local_ip}} %{{remote_ip}}\\n'
            curl -sS --max-time 100 $u/67108864 -o 67108864
            for file in files/*; do cmp $file $(basename $file); done
            curl -sS --parallel --parallel-max 8 -o 'copy_#1' "$u/1048576?[1-16]"
            for idx in $(seq 16); do cmp files/1048576 copy_$idx; done
            """
        ),
    )
    lines = ran.stdout.splitlines()
    kept_alive = [line for line in lines if line.endswith("10.77.0.2 10.77.0.1")]
    assert [line.split()[0] for line in kept_alive] == ["1", "0", "0", "0"]
    assert counted(ran, 1, "in;") > 81 * MIB and counted(ran, 1, "page faults") > 0
    assert counted(ran, 0, "RDMA writes") >= 81 * MIB // 65536


@needs("curl")
def test_curl_when_it_chooses_its_address_uploads_and_is_seen_so(tmp_path):
    make_files(tmp_path / "files", 1, 65_537, MIB)
    server = """
import hashlib, http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        text = f"{hashlib.sha256(body).hexdigest()} {self.client_address}\\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""
    ran = run(
        server,
        script(
            f"""
            cd {tmp_path}/files
            u=http://10.77.0.1:8000
            curl -sS --interface 10.77.0.2 --data-binary @1048576 $u
            curl -sS --local-port 5000 --data-binary @65537 $u
            curl -sS --local-port 5000-5001 --data-binary @1 $u
            sha256sum 1048576 65537 1
            """
        ),
    )
    lines = [line.split(" ", 1) for line in ran.stdout.splitlines()]
    assert [digest for digest, _ in lines[:3]] == [digest for digest, _ in lines[3:6]]
    assert "('10.77.0.2', 5000)" in lines[1][1] and "'10.77.0.2', 500" in lines[2][1]
    assert counted(ran, 0, "in;") > MIB


@needs("iperf3")
@pytest.mark.parametrize("words", [[], ["-P", "3"], ["-R"], ["--bidir", "-w", "256K"]])
def test_iperf3_when_it_measures_ends_without_error_on_both_sides(tmp_path, words):
    code = tmp_path / "code"
    options = " ".join(words)
    ran = run(
        script(f"iperf3 -s -1 >/dev/null; echo ended >{code}"),
        script(
            f"iperf3 -c 10.77.0.1 -n 20M -J {options}; until [ -s {code} ]; do sleep 0.05; done"
        ),
    )
    told = json.loads(ran.stdout)
    assert "error" not in told
    ended = told["end"]
    assert ended["sender_tcp_congestion"] == "pagewire"
    both = [ended["sum_sent"], ended.get("sum_sent_bidir_reverse", {"bytes": 0, "retransmits": 0})]
    assert sum(each["bytes"] for each in both) >= 20 * MIB  # --bidir ends by either of them
    assert not any(each["retransmits"] for each in both)
    sender, receiver = (0, 1) if "-R" in words else (1, 0)
    # What is still on its way at the end, the receiver does not read.
    least = 0 if "--bidir" in words else 10 * MIB
    assert counted(ran, receiver, "in;") >= ended["sum_received"]["bytes"] > least
    assert counted(ran, sender, "RDMA writes") > least // 65536
    assert counted(ran, 1, "connections made") == len(told["start"]["connected"]) + 1


@needs("memcached", "memccp")
def test_memcached_when_clients_ask_keeps_their_values(tmp_path):
    (tmp_path / "value").write_bytes(random.Random(1).randbytes(600_000))
    client = """
def ask(seed):
    with socket.create_connection(("10.77.0.1", 11211)) as s, s.makefile("rb") as lines:
        for idx in range(50):
            value = str(seed * idx).encode() * 300
            s.sendall(b"set %d-%d 0 0 %d\\r\\n%s\\r\\n" % (seed, idx, len(value), value))
            assert lines.readline() == b"STORED\\r\\n"
            s.sendall(b"get %d-%d\\r\\n" % (seed, idx))
            lines.readline()
            assert lines.readline() == value + b"\\r\\n" and lines.readline() == b"END\\r\\n"
    done.append(seed)
done = []
threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(done) == 20
"""
    (tmp_path / "client.py").write_text("import socket, threading\n" + client)
    ran = run(
        ["memcached", "-u", "nobody", "-t", "3", "-U", "0"],  # at any address, of IPv6 too
        script(
            f"""
            cd {tmp_path}
            memcping --servers=10.77.0.1
            memccp --servers=10.77.0.1 value
            memccat --servers=10.77.0.1 value | cmp -n 600000 - value
            {PYTHON} client.py
            memcstat --servers=10.77.0.1
            memcrm --servers=10.77.0.1 value
            ! memcexist --servers=10.77.0.1 value
            """
        ),
    )
    assert re.search(r"cmd_set: 1001$", ran.stdout, re.MULTILINE), ran.stdout
    assert counted(ran, 1, "in;") > 600_000 and counted(ran, 0, "in;") > 600_000


@needs("redis-server", "redis-cli", "redis-benchmark")
@pytest.mark.parametrize("num_threads", [1, 2])
def test_redis_when_clients_and_a_replica_use_it_loses_nothing(tmp_path, num_threads):
    (tmp_path / "value").write_bytes(random.Random(2).randbytes(3_000_000))
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    options = f"--save '' --protected-mode no --io-threads {num_threads} --daemonize no"
    options += " --repl-diskless-sync-delay 0 --enable-debug-command yes"
    ran = run(
        script(f"exec redis-server --dir {first} {options}"),
        script(f"exec redis-server --dir {second} {options} --replicaof 10.77.0.1 6379"),
        script(
            rf"""
            cd {tmp_path}
            ask() {{ redis-cli -h 10.77.0.1 "$@"; }}
            ask -x set big <value >/dev/null
            {{ head -c 3000000 value; echo; }} | cmp - <(ask get big)
            ask subscribe news >heard & listener=$!
            until [ "$(ask publish news hello)" = 1 ]; do sleep 0.05; done
            until grep -q hello heard; do sleep 0.05; done
            kill $listener
            redis-benchmark -h 10.77.0.1 -c 50 -P 8 -n 4000 -r 100000 -t set,get,lpush --csv
            ask bgsave >/dev/null # forks
            until ask info persistence | grep -q rdb_bgsave_in_progress:0; do
                sleep 0.05
            done
            [ -s first/dump.rdb ]
            until redis-cli -h 10.77.0.2 info replication | grep -q link_status:up; do
                sleep 0.05
            done
            # WAIT is for what its own connection has written, and so for all before that.
            [ "$(printf 'set last 1\nwait 1 60000\n' | ask | tail -n 1)" = 1 ]
            ask debug digest
            redis-cli -h 10.77.0.2 debug digest
            """
        ),
    )
    lines = ran.stdout.splitlines()
    digests = [line for line in lines if re.fullmatch(r"[0-9a-f]{40}", line)]
    assert len(digests) == 2 and digests[0] == digests[1] != "0" * 40
    rates = [line for line in lines if re.match(r'"(SET|GET|LPUSH)","[1-9]', line)]
    assert len(rates) == 3, ran.stdout
    assert counted(ran, 0, "connections made") == 0 and counted(ran, 1, "connections made") == 1
    assert counted(ran, 1, "in;") > 3_000_000 and counted(ran, 2, "in;") > 3_000_000


def test_options_when_asked_are_those_of_a_stream_socket_with_nothing_to_tune():
    server = """
with socket.socket() as s:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    s.bind(("", 7))
    s.listen()
    s.listen(5)  # again
    fd = s.detach()
s = socket.socket(fileno=fd)
assert (s.family, s.type, s.proto) == (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP), s
c, peer = s.accept()
assert peer == ("10.77.0.2", 1234), peer
sizes = [each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for each in (c, s)]
assert sizes[0] == sizes[1] > 1 << 19, sizes
assert c.recvfrom(3) == (b"abc", None) and c.recvmsg(3)[3] is None
c.sendto(b"ghi", ("10.77.0.9", 9))  # TCP ignores the address
assert c.recv(1) == b"e"
threading.Timer(0.2, s.shutdown, [socket.SHUT_RDWR]).start()
refused(errno.EINVAL, s.accept)
c.sendall(b"!")
c.shutdown(socket.SHUT_WR)
c.recv(1)
"""
    client = """
import struct
TCP_MAXSEG, TCP_INFO, TCP_CONGESTION, TCP_ULP, MSG_FASTOPEN = 2, 11, 13, 31, 0x20000000
s = socket.socket()
s.settimeout(30)
s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
s.bind(("", 1234))
s.connect(("10.77.0.1", 7))
assert s.getsockname() == ("10.77.0.2", 1234) and s.getsockopt(1, socket.SO_KEEPALIVE) == 1
s.sendall(b"abc")
time.sleep(0.1)
s.sendall(b"def")
assert s.recv(3) == b"ghi"
refused(errno.EOPNOTSUPP, s.send, b"x", socket.MSG_OOB)
refused(errno.EOPNOTSUPP, socket.socket().sendto, b"x", MSG_FASTOPEN, ("10.77.0.1", 7))
refused(errno.ENOPROTOOPT, s.setsockopt, socket.IPPROTO_TCP, TCP_ULP, b"tls")
refused(errno.EISCONN, s.connect, ("10.77.0.1", 7))
same = socket.socket()
same.bind(("", 1234))
refused(errno.EADDRNOTAVAIL, same.connect, ("10.77.0.1", 7))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
def state():
    info = s.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 400)
    assert struct.unpack_from("I", info, 16) == (16384,) and not any(info[24:84] + info[88:])
    return info[0]
assert state() == 1  # TCP_ESTABLISHED
assert s.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).rstrip(b"\\0") == b"pagewire"
s.sendall(b"e")
assert s.recv(1) == b"!" and s.recv(1) == b""
assert state() == 8  # TCP_CLOSE_WAIT
refused(errno.ECONNREFUSED, socket.create_connection, ("10.77.0.1", 7))  # no longer heard
"""
    run(server, client)


def test_network_of_the_kernel_when_used_stays_the_kernels(tmp_path):
    path = str(tmp_path / "name")
    client = f"""
with socket.create_server(("127.0.0.1", 0)) as server:
    s = socket.socket()
    s.bind(("", 0))  # of the emulated network until it is known where to
    port = s.getsockname()[1]
    s.connect(server.getsockname())
    assert s.getsockname() == ("127.0.0.1", port) == server.accept()[1]
    assert s.getsockopt(socket.IPPROTO_TCP, 13, 16).rstrip(b"\\0") != b"pagewire"
with socket.create_server({path!r}, family=socket.AF_UNIX) as server:
    s = socket.socket(socket.AF_UNIX)
    s.connect({path!r})
    server.accept()[0].sendall(b"unix")
    assert s.recv(9) == b"unix"
near, far = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
near.bind(("127.0.0.1", 0))
far.sendto(b"udp", near.getsockname())
assert near.recvfrom(9)[0] == b"udp"
"""
    ran = run(["true"], client)
    assert counted(ran, 1, "messages") == 0 and counted(ran, 0, "messages") == 0


def test_any_address_of_ipv6_alone_when_bound_is_no_port_of_ipv4_nor_of_the_kernel():
    both = """
four = socket.create_server(("", 7))
six = socket.socket(socket.AF_INET6)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
six.bind(("::", 7))
six.listen()
assert six.getsockname()[:2] == ("::", 7)
assert six.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
refused(errno.EADDRINUSE, socket.create_server, ("", 7))
socket.socket(socket.AF_INET6).bind(("::1", 7))  # the kernel has nobody there
"""
    run(both, both)


def test_listeners_when_they_share_a_port_take_turns_also_without_an_environment():
    server = """
os.environ.clear()
os.unsetenv("PAGEWIRE_SOCKETS")
sockets = []
for _ in range(3):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("10.77.0.1", 7))
    sockets.append(s)
for s in sockets:
    s.listen()
for s in sockets:
    if os.fork() == 0:
        while True:
            s.accept()[0].sendall(b"%d" % os.getpid())
os.wait()
"""
    client = """
seen = {socket.create_connection(("10.77.0.1", 7)).recv(99) for _ in range(9)}
assert len(seen) == 3, seen
"""
    run(server, client)


def test_server_when_it_fails_is_named():
    ran = sockets("-n", "2", "--", "false", ":", "true")
    assert "node 0: false has ended with exit code 1" in ran.stderr


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["-n", "1", "--", "no-such-program"], "node 0: there is no program no-such-program"),
        (["-n", "2", "--", "true", ":"], "node 1 has no program"),
        (["-n", "1", "true"], "true: programs go behind --"),
        (["-n", "1", "--wait", "-1", "--", "true"], "--wait = -1"),
        (["-n", "2", "--", "true"], "-n 2 with 1 programs"),
        (["-n", "1", "--ring", "1000", "--", "true"], "--ring = 1000"),
        (["-n", "1", "--set", "firmware.block=no", "--", "true"], "firmware.block"),
        (["-n", "1", "--config", "/none.toml", "--", "true"], "/none.toml"),
        (["-n", "1", "--json", "/none/x.json", "--", "true"], "no folder '/none'"),
        (["-n", "1", "--rings", "1024", "--", "true"], "No such option: --rings"),
    ],
)
def test_words_when_no_program_can_start_are_refused(words, what):
    assert what in sockets(*words, exit_code=2).stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_program_when_linked_statically_is_told_to_stay_outside(tmp_path):
    (tmp_path / "a.c").write_text("int main(void) { return 0; }")
    command = ["cc", "-static", str(tmp_path / "a.c"), "-o", str(tmp_path / "a")]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this C library has no static archive")
    assert "linked statically" in run([str(tmp_path / "a")]).stderr
    assert "linked statically" not in run(["true"]).stderr
