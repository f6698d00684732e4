"""How runs of `pagewire sockets` end, and what is told of them."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from json_schemas import check as check_schema
from sockets_runs import PREAMBLE, counted, run, sockets

IDLE = "time.sleep(60)"


def children_of(text: str) -> list[int]:
    """Processes whose words contain the text."""
    found = []
    for each in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in words and int(each.name) != os.getpid():
            found.append(int(each.name))
    return found


def test_json_when_asked_for_tells_each_node(tmp_path):
    place = tmp_path / "sockets.json"
    server = "socket.create_server(('', 7)).accept()[0].sendall(content(1, 200_000))"
    client = "assert read_all(dial(7)) == content(1, 200_000)"
    ran = run(server, client, options=("--json", str(place), "--set", "run.memory=pin-all"))
    told = json.loads(place.read_text())
    check_schema("sockets", told)
    assert told["memory"] == "pin-all" and len(told["programs"]) == 2
    first, second = told["nodes"]
    assert first["bytes_out"] == second["bytes_in"] == 200_000
    assert second["connections"]["made"] == first["connections"]["taken"] == 1
    assert second["page_faults"] == 0 and second["exit_code"] == 0
    assert f"{first['virtual_ns']} ns virtual" in ran.stderr


def test_settings_when_in_a_file_hold_unless_the_command_line_gives_them(tmp_path):
    place, settings = tmp_path / "sockets.json", tmp_path / "settings.toml"
    settings.write_text('[run]\nmemory = "pin-all"\ntimeout = "2ms"\n')
    words = ("--config", str(settings), "--json", str(place))
    run("pass", options=words)
    assert json.loads(place.read_text())["memory"] == "pin-all"
    run("pass", options=(*words, "--memory", "part"))
    told = json.loads(place.read_text())
    assert told["memory"] == "part" and "run.timeout=2ms" in told["settings"]


def test_processes_when_a_program_leaves_them_end_with_the_run(tmp_path):
    sign = str(tmp_path / "sign")
    mark = f"left behind by {os.getpid()}"
    server = f"""
import subprocess, sys
socket.create_server(("", 7))
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", {mark!r}],
                 start_new_session=True)
open({sign!r}, "w")
os._exit(0)
"""
    run(server, f"while not os.path.exists({sign!r}): time.sleep(0.02)")
    assert children_of(mark) == []


def test_programs_when_the_agent_is_killed_end(tmp_path):
    mark = f"killed with the agent of {os.getpid()}"
    words = [sys.executable, "-m", "pagewire", "sockets", "-n", "1", "--", sys.executable, "-c"]
    with subprocess.Popen([*words, PREAMBLE + IDLE, mark]) as agent:
        while len(found := set(children_of(mark)) - {agent.pid}) == 0:
            time.sleep(0.02)
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    for _ in range(500):
        if not set(children_of(mark)) & found:
            return
        time.sleep(0.02)
    raise AssertionError("the program lives on")


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [("/no/such/program", 2), (os.devnull, 2), ("SCRIPT", 127), ("kill -9 $$", 137)],
)
def test_exit_code_when_a_program_cannot_run_or_is_killed_tells_so(tmp_path, command, exit_code):
    if command == "SCRIPT":
        script = tmp_path / "script"
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        command = str(script)
    words = ["sh", "-c", command] if " " in command else [command]
    ran = sockets("-n", "1", "--", *words, exit_code=exit_code)
    assert (command in ran.stderr) == (exit_code != 137)


def test_connections_when_there_are_too_many_are_refused_and_others_keep_theirs():
    server = """
import resource
server = socket.create_server(("", 7), backlog=4096)
kept = [server.accept()[0] for _ in range(1024)]
for s in kept:
    s.sendall(b"x")
    s.close()
server.accept()[0].sendall(b"y")
time.sleep(60)
"""
    client = """
kept = [dial(7) for _ in range(1024)]
for _ in range(3):
    refused(errno.EADDRNOTAVAIL, socket.create_connection, ("10.77.0.1", 7))
for s in kept:
    assert read_all(s) == b"x"
    s.close()
assert dial(7, until=OSError).recv(1) == b"y"  # when the slots are free
"""
    raised = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n"
    ran = run(raised + server, raised + client)
    assert ran.stderr.count("all of its connections are taken") == 1


def test_stress_when_short_compares_every_byte_and_leaves_nothing():
    seed = str(os.getpid())
    ran = sockets("-n", "3", "--stress", "2e7", "--seed", seed)
    found = re.match(r"100 connections at once from 2 nodes, (\d+) by forked", ran.stdout)
    assert found and int(found[1]) > 0, ran.stdout
    assert "2 killed" in ran.stdout and "failed" not in ran.stdout
    assert counted(ran, 0, "bytes out") > 5_000_000
    assert children_of(f"20000000\0{seed}\0") == []


def test_node_when_its_memory_strategy_fails_ends_the_run_with_a_sentence():
    server = "socket.create_server(('', 7)).accept()[0].sendall(bytes(200_000))\n" + IDLE
    client = "read_all(dial(7))\n" + IDLE
    ran = run(
        server,
        client,
        options=("--memory", "pin", "--set", "strategy.locked_limit=100KiB"),
        exit_code=2,
    )
    assert "strategy.locked_limit allows 25; raise it" in ran.stderr


def test_connects_when_the_agent_has_no_descriptors_are_refused_and_others_go_on():
    server = """
server = socket.create_server(("", 7), backlog=100)
def answer(s):
    while got := s.recv(1):
        s.sendall(got)
    s.close()
while True:
    threading.Thread(target=answer, args=(server.accept()[0],)).start()
"""
    client = """
def ask(s):
    s.sendall(b"x")
    return s.recv(1) == b"x"
kept = []
while len(kept) < 60:
    try:
        kept.append(dial(7))
        kept[-1].settimeout(5)
        assert ask(kept[-1])
    except TimeoutError:  # it waits in the server's queue
        break
    except OSError as error:
        assert error.errno == errno.ENFILE, error
        break
assert 5 < len(kept) < 60, len(kept)
assert all(ask(s) for s in kept[:5])
for s in kept[2:]:
    s.close()
late = dial(7, until=OSError)  # when its descriptors are free
assert all(ask(s) for s in [*kept[:2], late])
"""
    ran = run(server, client, before=("prlimit", "--nofile=40:40"))
    assert ran.stderr.count("no descriptors left") >= 1
