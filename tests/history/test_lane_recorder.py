"""A process's lane of a history: stamped, written in time, from any of its threads."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow.parquet as pq

from conformance.history.lane_recorder import LaneRecorder, now_ns
from conformance.history.recorded import CallOutcome, Kind


def rows(folder: Path) -> list[dict[str, object]]:
    return [row for path in folder.glob("bucket-*/*.parquet") for row in pq.read_table(path).to_pylist()]


def test_events_have_their_lane_and_their_end(tmp_path: Path) -> None:
    recording = LaneRecorder(tmp_path, run="r", lane="w", cluster="c")
    before = now_ns()
    recording.record(Kind.SEND, topic="t", producer="p", invoked_ns=before)
    recording.close()
    (row,) = rows(tmp_path)
    assert (row["run"], row["lane"], row["cluster"], row["producer"]) == ("r", "w", "c", "p")
    assert before <= int(str(row["completed_ns"])) <= now_ns()


def test_events_older_than_the_interval_are_written(tmp_path: Path) -> None:
    recording = LaneRecorder(tmp_path, run="r", lane="w", flush_every_s=0.0)
    recording.record(Kind.SEND, topic="t", invoked_ns=1)
    assert len(rows(tmp_path)) == 1
    patient = LaneRecorder(tmp_path, run="r", lane="v")
    patient.record(Kind.SEND, topic="t", invoked_ns=1)
    assert len(rows(tmp_path)) == 1
    patient.flush()
    assert len(rows(tmp_path)) == 2


def test_the_start_of_a_fault_is_written_at_once(tmp_path: Path) -> None:
    recording = LaneRecorder(tmp_path, run="r", lane="w")
    recording.fault("kill", invoked_ns=5)
    (begun,) = rows(tmp_path)
    assert (begun["outcome"], begun["invoked_ns"], begun["completed_ns"]) == (CallOutcome.UNKNOWN, 5, 5)
    recording.fault("kill", invoked_ns=5, completed_ns=9)
    recording.close()
    assert sorted((str(row["outcome"]), row["completed_ns"]) for row in rows(tmp_path)) == [("ok", 9), ("unknown", 5)]


def test_threads_do_not_lose_each_others_events(tmp_path: Path) -> None:
    recording = LaneRecorder(tmp_path, run="r", lane="w", flush_every_s=0.001)

    def record() -> None:
        for number in range(200):
            recording.record(Kind.SEND, topic=f"t{number % 5}", invoked_ns=number)

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recording.close()
    assert len(rows(tmp_path)) == 800
