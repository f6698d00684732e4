"""A replay whose nodes are divided over several processes has every figure that it has in one."""

import json
import pathlib
import subprocess
import sys

import pytest
from programs import OPS, PRESENT, HandMade, call, receive, send, written

from pagewire.cli.main import main
from pagewire.replay import records as r
from pagewire.replay.patterns import Shape, Synthetic
from pagewire.replay.trace import Reader

OF_THE_HOST = {"wall_time_s", "wall_s", "peak_rss_bytes", "rss_bytes"}
EMULATED = {
    "events",
    "bursts_sent",
    "bursts_received",
    "burst_bytes_sent",
    "steps",
    "resident_mean_bytes",
}
"""How often the emulation looked at frames; the last: and at the pages that a copy has touched."""
LONG = 60000


def halo(path):
    """Faults of several senders meet in each node."""
    Synthetic("halo3d:26", 27, Shape(LONG, 3, 3000, 0.4)).write(str(path))
    return str(path)


def meetings(path):
    """Three ranks exchange, meet, and exchange again; each comes to the meeting at its own time."""
    ranks = []
    for rank in range(3):
        records = [r.Name(0, "Sendrecv"), r.Name(1, "Comm_dup"), r.Pages(0, 0, 15, PRESENT)]
        for turn in range(2):
            records += call(0, receive((rank + 2) % 3, LONG), send((rank + 1) % 3, LONG))
            records += call(0, r.Done(1), r.Done(0))
            records += [r.Compute(70_000 * rank), *call(1, r.Meet(turn, 3))]
        ranks.append([*records, r.End()])
    return written(path, HandMade(*ranks))


def puts_and_gets(path):
    """Of memory of which a message has told; it is registered anew between the two."""
    name = r.Name(0, "Put")
    said, heard = [send(1, 8), r.Done(0)], [receive(1, 8), r.Done(0)]
    owner = [name, *call(0, r.Register(LONG, 0, 0)), *call(0, *said, *heard)]
    owner += [*call(0, r.Deregister(0)), *call(0, r.Register(LONG, 0, 0)), *call(0, *said, *heard)]
    other = [name]
    for opcode in (r.Put, r.Get):
        other += call(0, receive(0, 8), r.Done(0))
        other += call(0, opcode(0, LONG, 3, 0, 0, 0), r.Done(0))
        other += call(0, send(0, 8), r.Done(0))
    return written(path, HandMade([*owner, r.End()], [*other, r.End()]))


def figures(value):
    if isinstance(value, dict):
        left_out = OF_THE_HOST | EMULATED
        return {key: figures(each) for key, each in value.items() if key not in left_out}
    return [figures(each) for each in value] if isinstance(value, list) else value


def split(num_parts, *words):
    bin_folder = pathlib.Path(sys.executable).parent
    call = [bin_folder / "mpiexec", "-n", str(num_parts), bin_folder / "pagewire", "replay", *words]
    return subprocess.run(
        [*map(str, call), "--split"], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    ("made", "num_parts"), [(halo, 2), (halo, 3), (meetings, 2), (puts_and_gets, 2)]
)
def test_parts_have_the_figures_of_the_whole(made, num_parts, tmp_path):
    file, one, several = made(tmp_path / "r.pwt"), tmp_path / "one.json", tmp_path / "several.json"
    words = [file, "--memory", "part,odp,bounce"]
    assert main(["replay", *words, "--json", str(one)]) == 0
    done = split(num_parts, *words, "--json", str(several))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("PERFORMANCE") == 1
    alone, together = (json.loads(each.read_text(encoding="utf-8")) for each in (one, several))
    assert figures(together) == figures(alone)


def test_failure_of_one_part_is_said_once(tmp_path):
    waits = [r.Name(0, "Recv"), *call(0, receive(1, 8), r.Done(0)), r.End()]
    file = written(tmp_path / "waits.pwt", HandMade(waits, [r.Compute(5), r.End()]))
    done = split(2, file)
    assert done.returncode == 1
    assert done.stderr.count("nothing can go on: 1 of 2 ranks wait") == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--verify"], "--verify needs all nodes in one process; leave out --split"),
        (["--path"], "--path needs all nodes in one process; leave out --split"),
        ([], "this rank is alone: start the command by mpiexec -n N; if it was"),
    ],
)
def test_split_that_cannot_be_is_refused(words, why, tmp_path, capsys):
    assert main(["replay", meetings(tmp_path / "r.pwt"), *words, "--split"]) == 2
    assert why in capsys.readouterr().err


def test_damage_that_one_part_meets_ends_all(tmp_path):
    file = pathlib.Path(meetings(tmp_path / "r.pwt"))
    content = bytearray(file.read_bytes())
    with Reader(str(file)) as reader:
        damaged = next(each for each in reader.chunks if each.rank == 1 and each.kind == OPS)
        behind = min(each.offset for each in reader.chunks if each.offset > damaged.offset)
    content[behind - 1] ^= 255
    file.write_bytes(content)
    done = split(2, str(file))
    assert done.returncode == 1
    assert "CRC" in done.stderr


def test_more_parts_than_nodes_are_refused(tmp_path):
    done = split(3, puts_and_gets(tmp_path / "r.pwt"))
    assert done.returncode == 1
    assert done.stderr.count("--split over 3 processes: the run has 2 nodes") == 1


def test_links_that_all_nodes_share_are_in_one_process(tmp_path):
    done = split(2, meetings(tmp_path / "r.pwt"), "--set", "network.model=links")
    assert done.returncode == 1
    assert done.stderr.count("network.model = 'links'") == 1
