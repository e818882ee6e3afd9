"""The numbers of events and faults of a history, which a soak and ``verify`` both print."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from conformance.history.counts import counts_of
from conformance.history.lane_recorder import LaneRecorder
from conformance.history.recorded import Kind


def test_a_fault_with_a_beginning_and_an_end_counts_once_and_all_events_count(tmp_path: Path) -> None:
    for cluster in ("a", "b"):
        recording = LaneRecorder(tmp_path, run="r", lane=cluster, cluster=cluster)
        recording.record(Kind.SEND, topic="t", invoked_ns=1)
        for topic, invoked_ns in (("t", 5), ("t", 9), ("u", 9)):
            recording.fault("unload", topic=topic, invoked_ns=invoked_ns)
            recording.fault("unload", topic=topic, invoked_ns=invoked_ns, completed_ns=invoked_ns + 2)
        recording.fault("kill", invoked_ns=20)  # the process was killed before the end
        recording.close()
    counted = counts_of(tmp_path)
    assert counted.faults == {"unload": 6, "kill": 2}
    assert counted.events == 16
    assert counted.events == sum(pq.read_table(path).num_rows for path in tmp_path.rglob("*.parquet"))
