"""What programs are told by the calls of their sockets over `pagewire sockets`, as by TCP's."""

import pytest
from sockets_runs import run


def test_connect_when_not_waited_for_tells_its_outcome_by_poll_and_error():
    server = """
time.sleep(0.3)
s = socket.create_server(("", 7)).accept()[0]
s.sendall(read_all(s))
"""
    client = """
def begin(port):
    s = socket.socket()
    s.setblocking(False)
    assert s.connect_ex(("10.77.0.1", port)) == errno.EINPROGRESS
    return s
def outcome(s, edge=0):
    watch = select.epoll()
    watch.register(s, select.EPOLLIN | select.EPOLLOUT | edge)
    ((_, events),) = watch.poll(30)
    return events, s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
refused = select.EPOLLERR | select.EPOLLHUP | select.EPOLLIN | select.EPOLLOUT
for edge in (0, select.EPOLLET):
    events, error = outcome(begin(9), edge)
    assert events == refused and error == errno.ECONNREFUSED, (events, error)
s = begin(9)
select.select([], [s], [], 30)
for expected in (errno.ECONNREFUSED, errno.EINPROGRESS):  # told once, then it tries again
    assert s.connect_ex(("10.77.0.1", 9)) == expected
while (found := outcome(s := begin(7)))[1]:
    time.sleep(0.02)
assert found == (select.EPOLLOUT, 0), found
assert s.connect_ex(("10.77.0.1", 7)) == errno.EISCONN and s.getpeername() == ("10.77.0.1", 7)
s.setblocking(True)
s.sendall(content(1, 500_000))
s.shutdown(socket.SHUT_WR)
assert read_all(s) == content(1, 500_000)
"""
    run(server, client)


def test_connect_when_the_queue_is_full_waits_for_an_accept_and_loses_nobody():
    server = """
server = socket.create_server(("", 7), backlog=2)
told = socket.create_server(("", 8))
for idx in range(9):
    if idx == 1:
        told.accept()  # all have called
    s = server.accept()[0]
    s.sendall(s.recv(1))
    s.close()
server.close()
time.sleep(60)
"""
    client = """
def begin():
    s = socket.socket()
    s.setblocking(False)
    assert s.connect_ex(("10.77.0.1", 7)) == errno.EINPROGRESS
    return s
dial(7).sendall(b"x")
waiting = [begin() for _ in range(12)]
dial(8)
assert waiting[11].connect_ex(("10.77.0.1", 7)) == errno.EALREADY
refused(errno.ENOTCONN, waiting[11].getpeername)
num_answered, num_refused = 0, 0
for s in waiting:
    select.select([], [s], [], 30)
    if s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        num_refused += 1
        continue
    s.setblocking(True)
    try:
        s.sendall(b"y")
        num_answered += s.recv(1) == b"y"
    except OSError:
        pass
assert num_answered == 8 and num_refused >= 1, (num_answered, num_refused)
"""
    run(server, client)


@pytest.mark.parametrize("first", ["bind", "connect"])
def test_set_of_epoll_when_joined_before_the_call_has_the_socket_after_it(first):
    server = """
server = socket.socket()
early, late = select.epoll(), select.epoll()
early.register(server, select.EPOLLIN | select.EPOLLONESHOT)
late.register(server, select.EPOLLIN | select.EPOLLET)
early.poll(0)
early.modify(server, select.EPOLLIN | select.EPOLLONESHOT)
server.bind(("", 7))
server.listen()
assert early.poll(30) == late.poll(30) == [(server.fileno(), select.EPOLLIN)]
s = server.accept()[0]
assert early.poll(0) == []  # told once
s.sendall(b"hello")
time.sleep(60)
"""
    client = """
s = socket.socket()
s.setblocking(False)
watch = select.epoll()
watch.register(s, select.EPOLLIN | select.EPOLLET)
while True:
    assert s.connect_ex(("10.77.0.1", 7)) == errno.EINPROGRESS
    events = 0
    while not events & select.EPOLLIN:
        ((fd, events),) = watch.poll(30)
    assert fd == s.fileno()
    if not s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        break
    time.sleep(0.02)
assert s.recv(5) == b"hello"
"""
    if first == "bind":
        client = "assert dial(7).recv(5) == b'hello'"
    run(server, client)


def test_descriptors_when_there_are_no_more_are_told_and_lose_no_connection():
    server = """
import resource
server = socket.create_server(("", 7))
server.accept()
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
taken = []
try:
    while True:
        taken.append(server.accept()[0])
except OSError as error:
    assert error.errno == errno.EMFILE
assert 10 < len(taken) < 20
for s in taken:
    s.sendall(b"x")
    s.close()
while True:
    server.accept()[0].sendall(b"x")
"""
    client = """
dial(7)
waiting = [dial(7) for _ in range(40)]
for s in waiting:
    assert read_all(s) == b"x"
"""
    run(server, client)


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
refused(errno.ECONNREFUSED, socket.create_connection, ("10.77.0.1", 9))
"""
    run(server, client)


def test_interfaces_when_listed_begin_with_the_emulated_one():
    run("""
import ctypes
class Entry(ctypes.Structure):
    pass
pointer = ctypes.POINTER(Entry)
Entry._fields_ = [("next", pointer), ("name", ctypes.c_char_p), ("flags", ctypes.c_uint),
                  *((each, ctypes.c_void_p) for each in ("address", "mask", "broadcast"))]
own, library = pointer(), ctypes.CDLL(None)
for _ in range(100):
    assert library.getifaddrs(ctypes.byref(own)) == 0
    first = own.contents
    def four(at):
        family = ctypes.c_uint16.from_address(at).value
        assert family == socket.AF_INET
        return socket.inet_ntoa(ctypes.string_at(at + 4, 4))
    assert first.name == b"pagewire0" and four(first.address) == "10.77.0.1"
    assert four(first.mask) == "255.255.0.0" and four(first.broadcast) == "10.77.255.255"
    assert first.flags & 1 and not first.flags & 8  # up, and no loopback
    assert first.next.contents.name in [name.encode() for _, name in socket.if_nameindex()]
    library.freeifaddrs(own)
library.freeifaddrs(None)
""")


def test_interfaces_when_asked_of_a_socket_begin_with_the_emulated_one():
    run(
        """
import ctypes, fcntl, struct
SIOCGIFCONF, SIOCGIFADDR, SIOCGIFMASK = 0x8912, 0x8915, 0x891B
room = bytearray(40 * 16)
place = (ctypes.c_char * len(room)).from_buffer(room)
with socket.socket() as s:
    def entries(num_bytes, at):
        told = fcntl.ioctl(s, SIOCGIFCONF, struct.pack("iP", num_bytes, at))
        return struct.unpack("iP", told)[0] // 40
    count = entries(len(room), ctypes.addressof(place))
    names = [bytes(room[40 * idx : 40 * idx + 16]).rstrip(bytes(1)) for idx in range(count)]
    assert names[0] == b"pagewire0" and b"lo" in names[1:] and len(set(names)) == count, names
    assert bytes(room[20:24]) == socket.inet_aton("10.77.0.1")
    assert entries(0, 0) == count  # how much room it takes
    assert entries(40, ctypes.addressof(place)) == 1
    assert entries(39, ctypes.addressof(place)) == 0
    def ask(name, what):
        return fcntl.ioctl(s, what, struct.pack("16s24x", name))
    assert ask(b"pagewire0", SIOCGIFADDR)[20:24] == socket.inet_aton("10.77.0.1")
    assert ask(b"pagewire0", SIOCGIFMASK)[20:24] == socket.inet_aton("255.255.0.0")
    assert ask(b"lo", SIOCGIFADDR)[20:24] == socket.inet_aton("127.0.0.1")
    refused(errno.ENODEV, ask, b"pagewire1", SIOCGIFADDR)
"""
    )


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
