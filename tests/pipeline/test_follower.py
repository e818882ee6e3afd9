"""``verify --follow``: verdicts while a history grows, and at its end those of batch mode."""

from __future__ import annotations

import io
import signal
from collections.abc import Sequence
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession
from rich.console import Console

from conformance.commands import verify as verifying
from conformance.commands.supervision.interrupts import at_first_interrupt
from conformance.history.compaction import compact
from conformance.history.parquet import BUCKETS, EVERYWHERE, bucket_of
from conformance.history.recorded import KILL, Kind, Recorded
from conformance.pipeline.files.history_files import Files
from conformance.pipeline.follower import Arrivals, Follower, follow, watching
from conformance.pipeline.spark_engine import SparkEngine
from conformance.pipeline.topic import VerificationSetting
from conformance.pipeline.verdict import BrokenInvariant, Verification
from tests.history.samples import event
from tests.pipeline.test_verify import LOST, SOUND, asked_of, verified, write

WITHIN_S = 120
"""How long Spark may take to notice a new file."""

OTHER = "u"
KILLED = event(Kind.FAULT, topic=None, fault=KILL)


def on_the_other(events: Sequence[Recorded]) -> list[Recorded]:
    """The same in another topic, of another bucket."""
    assert bucket_of(OTHER, BUCKETS) != bucket_of("t", BUCKETS)
    return [replace(one, topic=OTHER) for one in events]


def judged_buckets(follower: Follower) -> set[str]:
    return {Path(bucket).name for bucket in follower.judged}


def said(found: Verification) -> Verification:
    """The verification without its duration."""
    return replaced(found, seconds=0)


def broken(found: Verification) -> set[str]:
    return {verdict.rule.id for verdict in found.rules if isinstance(verdict, BrokenInvariant)}


def test_only_changed_buckets_are_judged_again_and_verdicts_equal_those_of_batch_mode(
    spark: SparkSession, tmp_path: Path
) -> None:
    here, other = bucket_of("t", BUCKETS), bucket_of(OTHER, BUCKETS)
    follower = Follower(SparkEngine(spark), [str(tmp_path)], VerificationSetting())
    write(tmp_path, LOST[:2])
    assert broken(follower.look()) == set()
    write(tmp_path, on_the_other(SOUND))
    assert broken(follower.look()) == set()
    assert judged_buckets(follower) == {other}
    write(tmp_path, LOST[2:])
    found = follower.look()
    assert (broken(found), judged_buckets(follower)) == ({"DEDUP-15"}, {here})
    assert said(found) == said(verified(SparkEngine(spark), tmp_path))
    write(tmp_path, [KILLED])
    found = follower.look()
    assert judged_buckets(follower) == {here, other, EVERYWHERE}
    assert [(one.fault, one.times) for one in found.by_fault] == [(KILL, 1)]
    compact(tmp_path)
    found = follower.look()
    assert said(found) == said(verified(SparkEngine(spark), tmp_path))
    follower.look()
    assert judged_buckets(follower) == set()


def test_an_unreadable_file_is_judged_once_it_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    follower = Follower(SparkEngine(spark), [str(tmp_path)], VerificationSetting())
    path = write(tmp_path, SOUND)
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(396) + content[400:])
    found = follower.look()
    assert (found.exit_status, found.events, len(found.problems)) == (2, 0, 1)
    path.write_bytes(content)
    found = follower.look()
    assert (found.exit_status, found.events, found.problems) == (0, len(SOUND), ())


def test_files_removed_by_compaction_during_a_pass_cause_another_pass(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, LOST[:2])
    write(tmp_path, LOST[2:])
    looks: list[int] = []

    engine = SparkEngine(spark)
    judged = engine.judged

    def judged_late(files: Files, setting: VerificationSetting) -> tuple[Files, list[dict[str, Any]]]:
        if not looks:
            compact(tmp_path)
        looks.append(len(files.all))
        return judged(files, setting)

    monkeypatch.setattr(engine, "judged", judged_late)
    found = Follower(engine, [str(tmp_path)], VerificationSetting()).look()
    assert looks == [2, 1]
    assert said(found) == said(verified(SparkEngine(spark), tmp_path))


def test_a_late_violation_is_reported_early_and_the_final_verdicts_equal_batch_mode(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, LOST[:2])
    arrivals, looks = Arrivals(), list[set[str]]()

    def grow(found: Verification) -> None:
        if not found.events:
            return
        looks.append(broken(found))
        match len(looks):
            case 1:
                write(tmp_path, [*LOST[2:], *on_the_other(SOUND)])
            case 2:
                compact(tmp_path)
            case _:
                arrivals.end()

    follower = Follower(SparkEngine(spark), [str(tmp_path)], VerificationSetting())
    with watching(spark, [str(tmp_path)], arrivals):
        found = follow(follower, arrivals, settled_s=WITHIN_S, show=grow)
    assert looks == [set(), {"DEDUP-15"}, {"DEDUP-15"}]
    assert said(found) == said(verified(SparkEngine(spark), tmp_path))


def test_the_command_ends_when_the_history_stops_growing(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, LOST)
    out = io.StringIO()
    asked = replaced(asked_of(tmp_path), follow_s=0.1)
    assert verifying.verify(asked, out=Console(file=out, width=100)) == 1
    _, at_the_end, last_table = out.getvalue().rpartition(verifying.AT_THE_END)
    assert at_the_end
    assert "a message that was confirmed is not in the log" in last_table


def test_the_first_interrupt_ends_following_and_the_second_ends_the_command() -> None:
    arrivals = Arrivals()
    with at_first_interrupt(arrivals.end):
        signal.raise_signal(signal.SIGINT)
        assert not arrivals.wait(WITHIN_S)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
