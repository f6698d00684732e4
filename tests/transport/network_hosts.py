"""Hosts made of network namespaces: each has its network, host name and process numbers, and shares
the file system. Only a command like ssh's leads from one to another, with none of the environment.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator

import debian
import pytest

SSH = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "{prefix}${{host##*.}}" unshare --uts --pid --fork --mount-proc {more} \\
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sh -c "hostname host${{host##*.}}; $*"
"""

# sshd wants a user and a folder of its own, which nothing here puts into the machine's system.
SSHD = """#!/bin/sh
mount -t tmpfs none /run && mkdir /run/sshd
mount --bind {folder}/passwd /etc/passwd
hostname host$1
exec env LD_LIBRARY_PATH={libraries} {root}/usr/sbin/sshd -D -e -f {folder}/sshd_config
"""
SSHD_CONFIG = """HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
"""
CLIENT = """#!/bin/sh
exec ssh -F none -i {folder}/user -o BatchMode=yes -o LogLevel=ERROR \\
    -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "$@"
"""
_SSHD_S = 10.0
"""For it to be there."""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)


def why_not() -> str:
    """The reason why this machine cannot have such hosts; empty when it can."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    if not shutil.which("ip"):
        return "needs ip (apt-get install iproute2)"
    name = f"pw{os.getpid()}t"
    try:
        _ip("netns", "add", name)
        _ip("-n", name, "link", "add", "bridge", "type", "bridge")
    except (subprocess.SubprocessError, OSError) as error:
        return f"needs network namespaces: {getattr(error, 'stderr', error)}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return ""


needs_hosts = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


class Hosts:
    """Hosts 1 to num_hosts at a switch, which is a namespace too: this machine's network stays as
    it is. eth0 has IPv4, eth1 IPv6 alone."""

    def __init__(self, num_hosts: int) -> None:
        self._prefix = f"pw{os.getpid()}h"
        self._switch = f"pw{os.getpid()}s"
        self._num_hosts = num_hosts
        _ip("netns", "add", self._switch)
        for link in (0, 1):
            _ip("-n", self._switch, "link", "add", f"bridge{link}", "type", "bridge")
            _ip("-n", self._switch, "link", "set", f"bridge{link}", "up")
        for number in range(1, num_hosts + 1):
            self._plug_in(number)

    def _plug_in(self, number: int) -> None:
        name = self.namespace(number)
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
        for link, address in ((0, f"10.78.0.{number}/24"), (1, f"fd78::{number}/64")):
            port = f"port{number}-{link}"
            _ip("-n", self._switch, "link", "add", port, "type", "veth",
                "peer", "name", f"eth{link}", "netns", name)  # fmt: skip
            _ip("-n", self._switch, "link", "set", port, "master", f"bridge{link}", "up")
            more = ["nodad"] if link else []
            _ip("-n", name, "address", "add", address, "dev", f"eth{link}", *more)
            _ip("-n", name, "link", "set", f"eth{link}", "up")

    def namespace(self, number: int) -> str:
        return f"{self._prefix}{number}"

    def names(self, *numbers: int) -> str:
        """As mpiexec takes them; all without numbers."""
        chosen = numbers or range(1, self._num_hosts + 1)
        return ",".join(f"10.78.0.{number}" for number in chosen)

    def unplug(self, number: int) -> None:
        _ip("-n", self.namespace(number), "link", "set", "eth0", "down")

    def ssh(self, folder: pathlib.Path, more: str = "") -> str:
        """A command that takes the words of ssh; more: words of unshare."""
        path = folder / "ssh"
        path.write_text(SSH.format(prefix=self._prefix, more=more), encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    @contextlib.contextmanager
    def sshd(self, folder: pathlib.Path) -> Iterator[str]:
        """OpenSSH's daemon on each host; a command that takes the words of ssh, on any of them."""
        if not shutil.which("ssh"):
            pytest.skip("needs ssh (apt-get install openssh-client)")
        root = debian.unpacked("sshd", "openssh-server")
        for name in ("host", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True, timeout=30)
        passwd = pathlib.Path("/etc/passwd").read_text(encoding="utf-8")
        (folder / "passwd").write_text(f"{passwd}sshd:x:65534:65534::/run/sshd:/bin/false\n")
        (folder / "sshd_config").write_text(SSHD_CONFIG.format(folder=folder))
        for name, text in (("sshd", SSHD), ("ssh", CLIENT)):
            path = folder / name
            path.write_text(
                text.format(folder=folder, root=root, libraries=root / debian.LIBRARIES)
            )
            path.chmod(0o755)
        alone = ["unshare", "--uts", "--mount", str(folder / "sshd")]
        with contextlib.ExitStack() as stack, open(folder / "log", "w", encoding="utf-8") as log:
            for number in range(1, self._num_hosts + 1):
                daemon = subprocess.Popen(self.on(number, [*alone, str(number)]), stderr=log)
                stack.callback(daemon.wait)
                stack.callback(daemon.terminate)
            for number in range(1, self._num_hosts + 1):
                self._await_sshd(number, folder)
            yield str(folder / "ssh")

    def _await_sshd(self, number: int, folder: pathlib.Path) -> None:
        command = self.on(1, [str(folder / "ssh"), self.names(number), "true"])
        end_s = time.monotonic() + _SSHD_S
        while subprocess.run(command, capture_output=True, check=False, timeout=_SSHD_S).returncode:
            log = (folder / "log").read_text(encoding="utf-8")
            assert time.monotonic() < end_s, f"no sshd on host {number}: {log}"
            time.sleep(0.1)

    def on(self, number: int, command: list[str]) -> list[str]:
        """The command on that host."""
        return ["ip", "netns", "exec", self.namespace(number), *command]

    def close(self) -> None:
        for name in [self._switch, *map(self.namespace, range(1, self._num_hosts + 1))]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
