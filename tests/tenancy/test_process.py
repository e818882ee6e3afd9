"""Tests of telling whether the process of a run is there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from conformance.tenancy.process import UNKNOWN, is_running, this_process

NAME = "from conformance.tenancy.process import this_process; print(this_process(), flush=True); input()"


def test_the_process_that_asks_is_there() -> None:
    assert is_running(this_process())


def test_a_process_is_there_until_it_ends_whether_anybody_waits_for_it_or_not() -> None:
    with subprocess.Popen([sys.executable, "-c", NAME], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert is_running(name)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
        assert is_running(name) is False
    assert is_running(name) is False


def test_another_process_with_the_same_id_is_another_one() -> None:
    machine, pid, started = this_process().rsplit(" ", 2)
    assert is_running(f"{machine} {pid} {int(started) + 1}") is False


@pytest.mark.parametrize("name", [UNKNOWN, "another machine 1 1", "1 1", "x y z"])
def test_of_a_process_elsewhere_nothing_is_told(name: str) -> None:
    assert is_running(name) is None
