"""Identifies the process of a run, and checks whether it exists, if it is on this machine.

The identity of a process consists of the kernel's boot, the pid namespace, the pid and the process' start, and is
unique. On systems without ``/proc`` it is unknown.
"""

from __future__ import annotations

import os
from pathlib import Path

UNKNOWN = ""


def this_process() -> str:
    """The identity of the current process, or :data:`UNKNOWN`."""
    here = _machine()
    return UNKNOWN if here == UNKNOWN else f"{here} {os.getpid()} {_started(os.getpid())}"


def is_running(process: str) -> bool | None:
    """Whether the process with this identity exists; None if it is unknown or on another machine."""
    here, parts = _machine(), process.rsplit(" ", 2)
    if here == UNKNOWN or len(parts) != 3 or parts[0] != here or not parts[1].isdecimal():
        return None
    return _started(int(parts[1])) == parts[2]


def _machine() -> str:
    """The identity of this machine or container since its boot."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return UNKNOWN


def _started(pid: int) -> str:
    """The start of a process in ticks since boot; None if it does not exist or has ended."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else numbers[18]
