"""Tells whether the process that a run was is still there, if it is one of this machine.

A process is named by the start of its kernel, its namespace of process ids, its id and its own start: no other process
is ever named the same. On systems without ``/proc`` nothing is told.
"""

from __future__ import annotations

import os
from pathlib import Path

UNKNOWN = ""


def this_process() -> str:
    """Name the process that asks; :data:`UNKNOWN` where that cannot be."""
    here = _machine()
    return UNKNOWN if here == UNKNOWN else f"{here} {os.getpid()} {_started(os.getpid())}"


def is_running(process: str) -> bool | None:
    """Whether the process of this name is there; None if it is not one of this machine, or of no known name."""
    here, parts = _machine(), process.rsplit(" ", 2)
    if here == UNKNOWN or len(parts) != 3 or parts[0] != here or not parts[1].isdecimal():
        return None
    return _started(int(parts[1])) == parts[2]


def _machine() -> str:
    """What no other machine, and no other container, has, from one start to the next."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return UNKNOWN


def _started(pid: int) -> str:
    """When a process was started, in ticks since its kernel was; nothing if it is not there, or has ended."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else numbers[18]
