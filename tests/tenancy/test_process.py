"""Whether the process of a run is still running."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from conformance.tenancy.process import UNKNOWN, is_running, this_process

NAME = "from conformance.tenancy.process import this_process; print(this_process(), flush=True); input()"


def test_the_own_process_is_running() -> None:
    assert is_running(this_process())


def test_a_process_is_running_until_it_ends_even_if_it_is_not_reaped() -> None:
    with subprocess.Popen([sys.executable, "-c", NAME], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert is_running(name)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
        assert is_running(name) is False
    assert is_running(name) is False


def test_a_process_with_a_reused_id_is_another_one() -> None:
    machine, pid, started = this_process().rsplit(" ", 2)
    assert is_running(f"{machine} {pid} {int(started) + 1}") is False


@pytest.mark.parametrize("name", [UNKNOWN, "another machine 1 1", "1 1", "x y z"])
def test_the_state_of_a_process_on_another_machine_is_unknown(name: str) -> None:
    assert is_running(name) is None
