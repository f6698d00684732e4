"""Slurm of Debian on this machine: a controller and two nodes, which are two daemons of one host.
They know each other without a key, as auth/none has it, on the loopback interface alone."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest
from debian import LIBRARIES, unpacked

STARTING_S = 60.0

CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] CPUs=2
PartitionName=main Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=YES
"""


class Slurm:
    """A running cluster."""

    def __init__(self, root: pathlib.Path, folder: pathlib.Path) -> None:
        libraries = root / LIBRARIES
        self._root = root
        self._folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        plugins = libraries / "slurm-wlm"
        ports = _ports(3)
        for name in ("state", "spool-n1", "spool-n2"):
            folder.joinpath(name).mkdir()
        config = folder / "slurm.conf"
        config.write_text(CONFIG.format(host=socket.gethostname().partition(".")[0], ports=ports,
                                        plugins=plugins, folder=folder))  # fmt: skip
        self.environ = {
            "SLURM_CONF": str(config),
            "LD_LIBRARY_PATH": f"{libraries}:{plugins}",
            "PATH": f"{root}/usr/bin:{os.environ['PATH']}",
        }

    def start(self) -> None:
        """Until both nodes are idle."""
        daemons = self._root / "usr/sbin"
        self._start("slurmctld-wlm", "-D")
        for node in ("n1", "n2"):
            self._start("slurmd-wlm", "-D", "-N", node, "-d", str(daemons / "slurmstepd-wlm"))
        deadline = time.monotonic() + STARTING_S
        while time.monotonic() < deadline:
            done = subprocess.run(
                ["sinfo", "-h", "-o", "%D %t"], env={**os.environ, **self.environ},
                capture_output=True, text=True, check=False, timeout=STARTING_S,
            )  # fmt: skip
            if done.stdout.split() == ["2", "idle"]:
                return
            time.sleep(0.2)  # no event tells it
        pytest.skip(f"Slurm does not start here: {done.stdout} {done.stderr}")

    def _start(self, name: str, *words: str) -> None:
        with open(self._folder / f"{name}.log", "ab") as log:
            command = [str(self._root / "usr/sbin" / name), *words]
            environ = {**os.environ, **self.environ}
            started = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        self._daemons.append(started)

    def close(self) -> None:
        for daemon in self._daemons:
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons:
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _ports(number: int) -> list[int]:
    """Free ones in a row."""
    for first in range(21000, 29000, number):
        sockets = [socket.socket() for _ in range(number)]
        try:
            for idx, each in enumerate(sockets):
                each.bind(("127.0.0.1", first + idx))
            return [first + idx for idx in range(number)]
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise AssertionError("no free ports")


def slurm(folder: pathlib.Path) -> Iterator[Slurm]:
    """For a fixture."""
    if os.geteuid() != 0 or not shutil.which("setarch"):
        pytest.skip("needs root and setarch, for a cluster of its own")
    root = unpacked("slurm", "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins")
    made = Slurm(root, folder)
    try:
        made.start()
        yield made
    finally:
        made.close()
