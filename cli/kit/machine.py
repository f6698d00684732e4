"""When and where a table was made."""

import datetime
import os
import pathlib
import platform
import shlex
import sys
from typing import Any


def of_machine() -> dict[str, str]:
    """What a reader of the table wants to know of it."""
    return {
        "kernel": platform.release(),
        "CPU": f"{_processor()}, {os.cpu_count()} cores",
        "libc": " ".join(platform.libc_ver()),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
    }


def record() -> dict[str, Any]:
    """Of a result that shall stay: date, command and machine."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": shlex.join(["pagewire", *sys.argv[1:]]),
        "host": {"name": platform.node(), **of_machine()},
    }


def _processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, text = line.partition(":")
        if name.strip() in ("model name", "Hardware", "cpu model"):
            return text.strip()
    return platform.machine()
