"""One simulation of SimGrid: `simgrid_flows.py PLATFORM.xml PROGRAMS.json [--cfg=...]`.

Run by Debian's Python, whose package python3-simgrid it needs. PROGRAMS has for each rank its
rounds; a round is [sends, receives], each of [peer, bytes]; all of a round begin at once, and the
next begins when they are over. Prints when each rank has ended, in s, as JSON.
"""

import json
import sys

from simgrid import Actor, Engine, Host, Mailbox

ENDS = {}


def program(rank, rounds):
    for idx, (sends, receives) in enumerate(rounds):
        started = [
            Mailbox.by_name(f"{rank} {peer} {idx}").put_async(rank, num_bytes)
            for peer, num_bytes in sends
        ]
        gotten = [Mailbox.by_name(f"{peer} {rank} {idx}").get_async() for peer, _ in receives]
        for comm in [*started, *(comm for comm, _ in gotten)]:
            comm.wait()
    ENDS[rank] = Engine.clock


def main() -> None:
    engine = Engine(sys.argv)
    engine.load_platform(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as file:
        programs = json.load(file)
    for rank, rounds in enumerate(programs):
        Actor.create(str(rank), Host.by_name(f"n{rank}"), program, rank, rounds)
    engine.run()
    print(json.dumps([ENDS[rank] for rank in range(len(programs))]))


if __name__ == "__main__":
    main()
