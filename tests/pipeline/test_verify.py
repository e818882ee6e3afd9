"""``verify``: verdicts, exit status, and one clear sentence for whatever cannot be read."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from conformance.commands import verify as verifying
from conformance.history.parquet import VERSION_KEY, HistoryWriter, compact, write_file
from conformance.history.recorded import Kind, Outcome, Recorded
from conformance.pipeline.topic import Setting
from conformance.pipeline.verdict import NOT_READ, Broken, Verification, verify
from conformance.report import verification
from conformance.trouble import Trouble
from conformance.verdicts import Held, NotExercised
from model.catalogue import select
from tests.history.samples import event

SOUND = [
    event(Kind.SEND, producer="p", sequence_id=1, ledger=1, entry=0),
    event(Kind.LOG, producer="p", sequence_id=1, ledger=1, entry=0, invoked_ns=8, completed_ns=9),
    event(Kind.LOG_END, ledger=1, entry=0, invoked_ns=8, completed_ns=9),
]
LOST = [
    event(Kind.SEND, producer="p", sequence_id=1, ledger=1, entry=0),
    event(Kind.SEND, producer="p", sequence_id=2, ledger=1, entry=1, invoked_ns=3, completed_ns=4),
    *SOUND[1:],
]


def write(folder: Path, events: Sequence[Recorded], lane: str = "w") -> Path:
    """A history; the path of its last segment."""
    with HistoryWriter(folder, lane) as writer:
        for one in events:
            writer.record(one)
    return max(folder.glob("*/*.parquet"), key=lambda path: path.name)


def verified(spark: SparkSession, *folders: Path, rules: str | None = None) -> Verification:
    asked = select(rules) if rules is not None else None
    return verify(spark, [str(folder) for folder in folders], Setting(), asked)


def test_a_sound_history_holds_what_it_puts_to_the_test(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, SOUND)
    found = verified(spark, tmp_path)
    assert (found.exit_status, found.events, found.problems) == (0, 3, ())
    assert {verdict.rule.id for verdict in found.rules if isinstance(verdict, Held)} == {"ACK-06", "DEDUP-15"}
    assert verified(spark, tmp_path, rules="DEDUP-15").exit_status == 0
    assert verified(spark, tmp_path, rules="DEDUP-15,KEY-01").exit_status == 2


def test_a_broken_rule_is_told_with_its_events(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, LOST)
    found = verified(spark, tmp_path, rules="DEDUP-15")
    (verdict,) = found.rules
    assert isinstance(verdict, Broken)
    assert (found.exit_status, verdict.exercised, verdict.times) == (1, 2, 1)
    assert [shown["sequence_id"] for shown in verdict.cases[0].events] == [2, None]


def test_the_table_and_the_json_say_it(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, LOST)
    found = verified(spark, tmp_path, rules="DEDUP-15,KEY-01")
    out = io.StringIO()
    verification.show(found, Console(file=out, width=100))
    told = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
    assert "DEDUP-15  violated               2  a message that was confirmed is not in the log" in told
    assert "KEY-01    not exercised          -  nothing in the histories puts it to the test" in told
    assert "send (ok) at 1:1, 0.000000 to 0.000000 s; producer p, sequence_id 2" in told
    assert "2 rules: 1 violated, 1 not exercised." in told
    verification.write(found, tmp_path / "verdicts.json")
    read = json.loads((tmp_path / "verdicts.json").read_bytes())
    assert [(rule["id"], rule["verdict"], rule["exercised"]) for rule in read["rules"]] == [
        ("DEDUP-15", "violated", 2),
        ("KEY-01", "not-exercised", 0),
    ]
    assert read["rules"][0]["cases"][0]["events"][0]["entry"] == 1


def problem(spark: SparkSession, folder: Path) -> str:
    """The one problem of a folder, in which nothing is held."""
    found = verified(spark, folder)
    assert found.exit_status == 2
    assert not any(isinstance(verdict, Held) for verdict in found.rules)
    (sentence,) = found.problems
    return sentence


def test_a_file_that_was_cut_off_is_named_and_nothing_is_held(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, SOUND)
    cut = write(tmp_path, SOUND, lane="x")
    cut.write_bytes(cut.read_bytes()[:-50])
    assert f"{cut.name} is not a whole Parquet file" in problem(spark, tmp_path)


def test_what_is_broken_in_the_other_files_is_found_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, LOST)
    write(tmp_path, SOUND, lane="x").write_bytes(b"")
    found = verified(spark, tmp_path)
    assert found.exit_status == 1
    assert {verdict.rule.id for verdict in found.rules if isinstance(verdict, Broken)} == {"DEDUP-15"}
    assert all(verdict.why == NOT_READ for verdict in found.rules if isinstance(verdict, NotExercised))


def test_a_file_that_is_spoiled_in_the_middle_is_left_out_and_named(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, LOST)
    spoiled = write(tmp_path, SOUND, lane="x")
    content = bytearray(spoiled.read_bytes())
    content[4:400] = bytes(396)
    spoiled.write_bytes(content)
    found = verified(spark, tmp_path)
    assert found.exit_status == 1
    assert f"{spoiled.name} is damaged" in found.problems[0]


def test_another_version_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    pq.write_table(pq.read_table(path).replace_schema_metadata({VERSION_KEY: b"7"}), path)
    assert "has version 7 of the schema; this suite reads version 1" in problem(spark, tmp_path)


def test_a_missing_column_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    write_file(pq.read_table(path).drop_columns("digest"), path)
    assert "lacks the column digest" in problem(spark, tmp_path)


def test_a_column_of_another_type_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    table = pq.read_table(path)
    number = table.schema.get_field_index("ledger")
    write_file(table.set_column(number, "ledger", table["ledger"].cast("string")), path)
    assert "has BINARY in the column ledger, which should be INT64" in problem(spark, tmp_path)


def test_any_other_parquet_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    pq.write_table(pq.read_table(path).select(["topic"]).replace_schema_metadata({}), path)
    assert "is no file of a history" in problem(spark, tmp_path)


def test_an_event_that_ends_before_it_begins_is_named(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, [*SOUND, event(Kind.NACK, invoked_ns=5, completed_ns=4)])
    assert "an event ends before it begins: a nack with outcome ok in topic t of run r" in problem(spark, tmp_path)


def test_an_event_of_an_unknown_kind_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    table = pq.read_table(path)
    number = table.schema.get_field_index("kind")
    write_file(table.set_column(number, table.schema.field("kind"), [["teleport"] * len(table)]), path)
    assert "a kind or outcome that this suite does not know: a teleport with outcome ok" in problem(spark, tmp_path)


def test_a_folder_without_a_history_is_named(spark: SparkSession, tmp_path: Path) -> None:
    assert "there is no file of a history in" in problem(spark, tmp_path)


def test_a_folder_that_is_not_there_is_trouble(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Trouble, match="nowhere cannot be read"):
        verified(spark, tmp_path / "nowhere")


def test_the_command_prints_and_writes_and_returns_the_status(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "history", [*SOUND, event(Kind.SEND, outcome=Outcome.UNKNOWN)])
    compact(tmp_path / "history")
    asked = verifying.Asked(
        histories=[str(tmp_path / "history")], rules=None, master=None, persisted_after_s=61, json=tmp_path / "v.json"
    )
    out = io.StringIO()
    assert verifying.verify(asked, out=Console(file=out, width=100)) == 0
    assert "13 rules: 2 held, 11 not exercised." in out.getvalue()
    assert json.loads((tmp_path / "v.json").read_bytes())["operations"] == 4


def test_without_spark_it_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "NEEDED", ("pyspark", "no_such_package"))
    asked = verifying.Asked(histories=[str(tmp_path)], rules=None, master=None, persisted_after_s=61, json=None)
    with pytest.raises(Trouble, match="verify needs no_such_package: run `make setup-spark`"):
        verifying.verify(asked, out=Console(file=io.StringIO()))
