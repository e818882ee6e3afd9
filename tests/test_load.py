"""The load of the machine: what is measured beside a busy loop, and how measurements are added up."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from conformance import load
from conformance.load import Load, LoadMeter, over
from tests.waits import eventually


def spin() -> None:
    while True:
        pass


def test_a_machine_with_more_to_do_than_processors_is_seen_to_make_processes_wait() -> None:
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for one in busy:
        one.start()
    try:
        with LoadMeter() as meter:
            meter.take()
            eventually(lambda: meter.seconds > 1)
            measured = meter.take()
    finally:
        for one in busy:
            one.kill()
    assert measured.seconds >= 1
    assert measured.per_processor is not None
    assert measured.per_processor > 1
    assert measured.waited is None or measured.waited > 0.5


def test_a_machine_whose_kernel_tells_nothing_is_measured_by_a_sleeping_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("_PRESSURE", "_STAT"):
        monkeypatch.setattr(load, name, tmp_path / "missing")
    with LoadMeter() as meter:
        eventually(lambda: meter.seconds > 3 * load.TICK_S)
        measured = meter.take()
    assert (measured.waited, measured.per_processor, measured.stolen) == (None, None, None)
    assert measured.late_ms >= 0
    assert str(measured).startswith("a sleeping thread woke up")


def test_several_measurements_are_added_up_by_their_durations() -> None:
    first = Load(seconds=1.0, waited=0.2, per_processor=1.0, stolen=None, late_ms=5.0)
    second = Load(seconds=3.0, waited=0.6, per_processor=3.0, stolen=0.5, late_ms=2.0)
    assert over([first, second]) == Load(seconds=4.0, waited=0.5, per_processor=2.5, stolen=0.5, late_ms=5.0)
    assert over([]) is None
