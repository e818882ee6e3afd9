"""A soak leaves a history, however it ends; a correct broker's is sound, a defective one's is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from conformance.brokers.interface import Broker
from conformance.harness_error import HarnessError
from conformance.history.recorded import Kind
from conformance.known import shipped
from conformance.pipeline.invariants.catalogue import BY_NAME, OfClusters
from conformance.pipeline.spark_engine import SparkEngine
from conformance.pipeline.topic import VerificationSetting
from conformance.pipeline.verdict import BrokenInvariant, Verification, verify
from conformance.soak import quiesce
from conformance.soak.plan import FaultName
from conformance.soak.request import SoakProgress, SoakRequest, SoakResult, SoakStage
from conformance.soak.run import soak
from conformance.verdicts import Held
from model.log import Position
from tests.pipeline.histories import random_histories
from tests.waits import descendants, eventually

EVERYTHING_BUT_FAULTS_OF_A_LANE = frozenset(Kind) - {Kind.REDELIVER, Kind.SEEK, Kind.SKIP, Kind.PASSED_ON}
STARTED_WITHIN_S = 120.0


class Onlooker:
    """Keeps the states that it is shown."""

    def __init__(self) -> None:
        self.wants_end = False
        self.stages: dict[SoakStage, SoakProgress] = {}

    def show(self, state: SoakProgress) -> None:
        self.stages[state.stage] = state


def asked(broker: str, history: Path, *, length_s: float, **more: object) -> SoakRequest:
    options: dict[str, object] = {"clients": 2, "topics": 4, "rate": 60.0, "fault_every_s": 2.0, "seed": 5}
    return SoakRequest(broker=broker, history=history, length_s=length_s, **(options | more))  # type: ignore[arg-type]


def soaked(broker: Broker, history: Path, onlooker: Onlooker) -> SoakResult:
    addresses = broker.addresses
    url = f"{addresses.service_url},{addresses.admin_url}"
    return soak(asked(url, history, length_s=8.0), onlooker)


def rows(history: Path) -> list[dict[str, object]]:
    return [row for path in history.glob("bucket-*/*.parquet") for row in pq.read_table(path).to_pylist()]


def stored_again(recorded: list[dict[str, object]]) -> set[tuple[str, Position]]:
    """The copies of all chunks that are in the log several times: a fault hit their producer without deduplication."""
    copies: defaultdict[tuple[object, ...], set[tuple[str, Position]]] = defaultdict(set)
    for row in recorded:
        if row["kind"] == Kind.LOG and row["chunk_uuid"]:
            chunk = (row["topic"], row["chunk_uuid"], row["chunk_id"])
            copies[chunk].add((str(row["topic"]), Position(int(str(row["ledger"])), int(str(row["entry"])))))
    return set().union(*(stored for stored in copies.values() if len(stored) > 1))


def verified(spark: SparkSession, history: Path) -> Verification:
    return verify(SparkEngine(spark), [str(history)], VerificationSetting())


def test_the_history_of_a_correct_broker_is_sound(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    onlooker = Onlooker()
    result = soaked(broker, tmp_path, onlooker)
    assert set(onlooker.stages) == set(SoakStage)
    assert result.counts.sent == result.counts.confirmed + result.counts.duplicates + result.counts.unanswered
    assert set(result.faults) <= {"unload", "cut", "hold", "refuse"}
    assert sum(result.faults.values()) >= 1
    recorded = rows(tmp_path)
    assert len(recorded) == result.events
    left = {(topic, position) for (topic, _), positions in result.quiesced.stuck for position in positions}
    assert left <= stored_again(recorded), "pulsar-client acknowledges one copy only: chunk-duplicates-not-acked"
    kinds = Counter(str(row["kind"]) for row in recorded)
    assert set(kinds) == EVERYTHING_BUT_FAULTS_OF_A_LANE
    assert kinds[Kind.LOG] == result.logged
    found = verified(spark, tmp_path)
    assert not [verdict for verdict in found.rules if isinstance(verdict, BrokenInvariant)]
    assert {"DEDUP-02", "DEDUP-15", "DEDUP-16", "CHUNK-04", "ACK-01", "ACK-06", "KEY-01"} <= {
        verdict.rule.id for verdict in found.rules if isinstance(verdict, Held)
    }


def test_two_clusters_replicate_and_the_history_has_their_events(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiesce, "FOLLOWED_FOR_S", 3.0)
    name = request.config.getoption("--broker")
    if "://" in name:
        pytest.skip("a cluster that runs already cannot be started twice")
    faults: frozenset[FaultName] = frozenset({"failover", "cut-link", "unload"})
    result = soak(asked(name, tmp_path, length_s=15.0, topics=3, clusters=2, faults=faults), Onlooker())
    assert not result.quiesced.stuck
    assert set(result.faults) == faults
    recorded = rows(tmp_path)
    made = {(row["topic"], row["subscription"], row["cluster"]) for row in recorded if row["kind"] == Kind.BEGIN}
    later = {(topic, name, label) for topic, name, label in made if str(name).startswith("later")}
    observed = {(row["topic"], row["subscription"], row["cluster"]) for row in recorded if row["kind"] == Kind.CURSOR}
    assert {(topic, name, at) for topic, name, _ in later for at in "AB"} <= observed  # one of them by an update
    assert len(later) == 6
    last_fault = max(int(str(row["invoked_ns"])) for row in recorded if row["kind"] == Kind.FAULT)
    looked = [row for row in recorded if row["kind"] == Kind.CURSOR and int(str(row["invoked_ns"])) < last_fault]
    assert {row["cluster"] for row in looked} == {"A", "B"}, "cursors are sampled during faults"
    assert {Kind.PASSED_ON, Kind.LOG_END, Kind.DRAINED} <= {row["kind"] for row in recorded if row["cluster"] == "B"}
    found = verify(SparkEngine(spark), [str(tmp_path)], VerificationSetting(), known=shipped())
    assert not [verdict for verdict in found.rules if isinstance(verdict, BrokenInvariant) and not verdict.is_known]
    judged = random_histories.judged(
        random_histories.read(tmp_path), setting=VerificationSetting(), rows_of_a_batch=10_000
    )
    of_clusters = {one for one, invariant in BY_NAME.items() if isinstance(invariant, OfClusters)}
    assert {one for one in of_clusters if judged[one][0]} == of_clusters - {"left behind"}  # too short for that


def test_a_defect_of_the_broker_is_in_the_history(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    name = request.config.getoption("--broker")
    if "://" in name:
        pytest.skip("a cluster that runs already has no agent inside, which a defect needs")
    none: frozenset[FaultName] = frozenset()
    soak(asked(name, tmp_path, length_s=10.0, faults=none, defects=("hash-with-two-consumers",)), Onlooker())
    judged = random_histories.judged(
        random_histories.read(tmp_path), setting=VerificationSetting(), rows_of_a_batch=10_000
    )
    assert "one consumer at a time" in random_histories.broken_in(judged) <= {"one consumer at a time", "keys in order"}


def started(history: Path) -> subprocess.Popen[str]:
    """A soak of its own broker, as a user starts it, once messages are received."""
    command = subprocess.Popen(
        [
            *(sys.executable, "-m", "conformance", "soak", "--hours", "1", "--clients", "2", "--topics", "4"),
            *("--rate", "60", "--faults", "none", "--history", str(history)),
        ],
        cwd=history.parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    eventually(lambda: list(history.glob("bucket-*/client-*.parquet")), deadline_s=STARTED_WITHIN_S)
    return command


def test_ctrl_c_starts_the_quiesce_phase_and_the_read_back(tmp_path: Path) -> None:
    history = tmp_path / "history"
    command = started(history)
    processes = psutil.Process(command.pid).children(recursive=True)
    command.send_signal(signal.SIGINT)
    said, _ = command.communicate(timeout=STARTED_WITHIN_S)
    assert command.returncode == 130, said
    assert "Anomalies seen: none" in said
    assert {Kind.LOG_END, Kind.DRAINED} <= {row["kind"] for row in rows(history)}
    eventually(lambda: not any(process.is_running() for process in processes))


def test_a_killed_soak_leaves_its_recorded_events_and_no_process(tmp_path: Path) -> None:
    history = tmp_path / "history"
    command = started(history)
    processes = psutil.Process(command.pid).children(recursive=True)
    assert len(processes) >= 4  # two clients, the guardian and the broker
    command.kill()
    command.communicate(timeout=STARTED_WITHIN_S)
    eventually(lambda: not any(process.is_running() for process in processes), deadline_s=STARTED_WITHIN_S)
    kinds = Counter(str(row["kind"]) for row in rows(history))
    assert kinds[Kind.BEGIN] == 8
    assert kinds[Kind.SEND] > 0
    assert kinds[Kind.DISPATCH] > 0


def test_a_client_that_died_is_a_harness_error(broker: Broker, tmp_path: Path) -> None:
    class Killer(Onlooker):
        def show(self, state: SoakProgress) -> None:
            if state.stage is SoakStage.LOAD:
                min(clients(), key=lambda process: process.pid).kill()

    with pytest.raises(HarnessError, match=r"client-\d ended without a report"):
        soaked(broker, tmp_path, Killer())
    eventually(lambda: not clients())


def clients() -> list[psutil.Process]:
    """The client processes that were forked for this process."""
    everyone = [one for one, command in descendants() if "conformance.soak.worker" in command]
    return [one for one in everyone if one.ppid() != os.getpid()]
