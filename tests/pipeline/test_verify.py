"""``verify``: verdicts, exit status, and one clear sentence for everything that cannot be read."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from rich.console import Console

from conformance.commands import verify as verifying
from conformance.harness_error import HarnessError
from conformance.history.about import About
from conformance.history.compaction import compact
from conformance.history.parquet import (
    ABOUT_KEY,
    EVERYWHERE,
    REPLACES_KEY,
    RUNS_KEY,
    SCHEMA,
    VERSION_KEY,
    HistoryWriter,
    write_file,
)
from conformance.history.recorded import VERSION, CallOutcome, Kind, Recorded
from conformance.known import shipped
from conformance.pipeline import local_engine, results
from conformance.pipeline.files.history_files import examine, parts_of
from conformance.pipeline.files.persistence import persisted_after_of_runs_ns
from conformance.pipeline.follower import Follower
from conformance.pipeline.local_engine import LocalEngine
from conformance.pipeline.topic import VerificationSetting
from conformance.pipeline.verdict import NOT_READ, BrokenInvariant, Engine, Verification, decidable, verify
from conformance.report import verification
from conformance.verdicts import Held, NotExercised
from model.rules.catalogue import select
from tests.history.samples import event, event_as_row

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


def verified(engine: Engine, *folders: Path, rules: str | None = None) -> Verification:
    asked = select(rules) if rules is not None else None
    return verify(engine, [str(folder) for folder in folders], VerificationSetting(), asked)


def test_a_sound_history_holds_the_rules_that_it_exercises(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path, SOUND)
    found = verified(engine, tmp_path)
    assert (found.exit_status, found.events, found.problems) == (0, 3, ())
    assert {verdict.rule.id for verdict in found.rules if isinstance(verdict, Held)} == {
        "ACK-06",
        "DEDUP-07",
        "DEDUP-15",
    }
    assert verified(engine, tmp_path, rules="DEDUP-15").exit_status == 0
    assert verified(engine, tmp_path, rules="DEDUP-15,KEY-01").exit_status == 2


def test_a_broken_rule_is_reported_with_its_events(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path, LOST)
    found = verified(engine, tmp_path, rules="DEDUP-15")
    (verdict,) = found.rules
    assert isinstance(verdict, BrokenInvariant)
    assert (found.exit_status, verdict.exercised, verdict.times) == (1, 2, 1)
    assert [shown["sequence_id"] for shown in verdict.cases[0].events] == [2, None]


def test_a_broken_rule_is_in_the_table_and_the_json(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path, LOST)
    found = verified(engine, tmp_path, rules="DEDUP-15,KEY-01")
    out = io.StringIO()
    verification.show(found, Console(file=out, width=100))
    table = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
    assert "DEDUP-15  violated               2        -  a message that was confirmed is not in the log" in table
    assert "KEY-01    not exercised          -        -  no event of the histories exercises it" in table
    assert "send (ok) at 1:1, 0.000000 to 0.000000 s; producer p, sequence_id 2" in table
    assert "2 rules: 1 violated, 1 not exercised." in table
    verification.write(found, tmp_path / "verdicts.json", command="pulsar-conformance verify")
    read = json.loads((tmp_path / "verdicts.json").read_bytes())
    schema = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "verdicts.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(read)
    assert [(rule["id"], rule["verdict"], rule["exercised"]) for rule in read["rules"]] == [
        ("DEDUP-15", "violated", 2),
        ("KEY-01", "not-exercised", 0),
    ]
    assert read["rules"][0]["cases"][0]["events"][0]["entry"] == 1


def test_a_noisy_topic_hides_none_of_twenty_planted_anomalies(engine: Engine, tmp_path: Path) -> None:
    end = {"ledger": 1, "entry": 300, "invoked_ns": 8, "completed_ns": 9}
    noisy = [event(Kind.SEND, producer="p", sequence_id=number, ledger=1, entry=number) for number in range(300)]
    noisy += [event(Kind.LOG, producer="p", sequence_id=300, **end), event(Kind.LOG_END, **end)]
    topics = {"a": noisy} | {f"t{number}": LOST for number in range(20)}
    write(tmp_path, [replace(one, topic=topic) for topic, events in topics.items() for one in events])
    found = verified(engine, tmp_path, rules="DEDUP-15")
    (verdict,) = found.rules
    assert isinstance(verdict, BrokenInvariant)
    assert (verdict.times, verdict.topics) == (320, 21)
    assert {case.topic for case in verdict.cases} == set(topics)
    assert len({case.topic for case in verdict.cases[:3]}) == 3
    out = io.StringIO()
    verification.show(found, Console(file=out, width=120))
    assert "(320 times, in 21 topics)" in out.getvalue()
    assert msgspec.to_builtins(verification.form(found, command="", when=datetime.now(UTC)))["rules"][0]["topics"] == 21


def problem(engine: Engine, folder: Path) -> str:
    """The one problem of a folder in which no rule holds."""
    found = verified(engine, folder)
    assert found.exit_status == 2
    assert not any(isinstance(verdict, Held) for verdict in found.rules)
    (sentence,) = found.problems
    return sentence


def test_a_truncated_file_is_named_and_no_rule_holds(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path, SOUND)
    cut = write(tmp_path, SOUND, lane="x")
    cut.write_bytes(cut.read_bytes()[:-50])
    assert f"{cut.name} is not a whole Parquet file" in problem(engine, tmp_path)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_one_changed_byte_at_the_end_of_a_file_is_named_or_changes_nothing(
    engine: Engine, tmp_path: Path, is_compacted: bool
) -> None:
    """Spark reads files that are not compacted, and a worker the others."""
    whole = write(tmp_path / "whole", SOUND)
    if is_compacted:
        compact(tmp_path / "whole")
        (whole,) = (tmp_path / "whole").glob("*/*.parquet")
    content = whole.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    spoiled = []
    for number, at in enumerate(range(len(content) - footer, len(content), footer // 12)):
        spoiled.append(tmp_path / f"history-{number}" / whole.parent.name / whole.name)
        spoiled[-1].parent.mkdir(parents=True)
        spoiled[-1].write_bytes(content[:at] + bytes([content[at] ^ (1 << number % 8)]) + content[at + 1 :])
    found = verified(engine, *(path.parents[1] for path in spoiled))
    assert found.exit_status == 2
    named = [path for path in spoiled if any(path_first(problem) == str(path) for problem in found.problems)]
    assert len(found.problems) == len(named) >= len(spoiled) - 1  # at most one of the same events is judged
    assert found.events == len(SOUND) * (len(spoiled) - len(named))


def path_first(problem: str) -> str:
    """The file that a problem is about."""
    return problem.partition(" ")[0].removeprefix("file:")


def test_a_violation_in_the_other_files_is_found_all_the_same(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path, LOST)
    write(tmp_path, SOUND, lane="x").write_bytes(b"")
    found = verified(engine, tmp_path)
    assert found.exit_status == 1
    assert {verdict.rule.id for verdict in found.rules if isinstance(verdict, BrokenInvariant)} == {"DEDUP-15"}
    assert all(verdict.why == NOT_READ for verdict in found.rules if isinstance(verdict, NotExercised))


def test_a_corrupted_file_is_left_out_and_named(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path, LOST)
    spoiled = write(tmp_path, SOUND, lane="x")
    content = bytearray(spoiled.read_bytes())
    content[4:400] = bytes(396)
    spoiled.write_bytes(content)
    found = verified(engine, tmp_path)
    assert found.exit_status == 1
    assert f"{spoiled.name} is damaged" in found.problems[0]


@pytest.mark.parametrize("run", ["r", "of its own"])  # a run in two folders is sorted first, by Spark
def test_one_corrupted_byte_of_a_compacted_file_is_detected(engine: Engine, tmp_path: Path, run: str) -> None:
    write(tmp_path, LOST)
    write(tmp_path / "other", [replace(one, run=run) for one in SOUND])
    for folder in (tmp_path, tmp_path / "other"):
        compact(folder)
    (spoiled,) = (tmp_path / "other").glob("*/*.parquet")
    content = bytearray(spoiled.read_bytes())
    content[pq.ParquetFile(spoiled).metadata.row_group(0).column(0).total_compressed_size + 3] ^= 1
    spoiled.write_bytes(content)
    found = verified(engine, tmp_path)
    assert found.exit_status == 1
    assert [problem.partition(f"{spoiled.name} ")[2] for problem in found.problems] == [
        "is damaged: its end can be read, but not all of its rows"
    ]
    assert found.events == len(LOST)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize(
    ("spoil", "why"), [(lambda path: path.write_bytes(path.read_bytes()[:-50]), " is not a"), (Path.unlink, " is gone")]
)
@pytest.mark.parametrize("was_ended", [False, True])
def test_a_missing_compacted_file_is_named_and_nothing_is_judged_twice(
    engine: Engine, tmp_path: Path, which: int, spoil: Callable[[Path], object], why: str, was_ended: bool
) -> None:
    """``was_ended``: compacting was interrupted before it removed all replaced files."""
    for number in range(2):
        with HistoryWriter(tmp_path, f"w{number}", buckets=1) as writer:
            for one in SOUND[number::2]:
                for topic in "tuv":
                    writer.record(replace(one, topic=topic))
    segments = {path: path.read_bytes() for path in tmp_path.glob("*/*.parquet")}
    compact(tmp_path, events_of_a_file=len(SOUND))
    compacted = sorted(tmp_path.glob("*/*.parquet"))
    assert len(compacted) == 3
    if was_ended:
        left, _ = segments
        left.write_bytes(segments[left])
    spoil(compacted[which])
    assert f"{compacted[which].name}{why}" in problem(engine, tmp_path)
    assert verified(engine, tmp_path).events == 2 * len(SOUND)


def test_another_schema_version_is_named(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    pq.write_table(pq.read_table(path).replace_schema_metadata({VERSION_KEY: b"7"}), path)
    assert "has version 7 of the schema; this suite reads version 1" in problem(engine, tmp_path)


def test_a_missing_column_is_named(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    write_file(pq.read_table(path).drop_columns("digest"), path)
    assert "lacks the column digest" in problem(engine, tmp_path)


def test_a_column_of_another_type_is_named(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    table = pq.read_table(path)
    number = table.schema.get_field_index("ledger")
    write_file(table.set_column(number, "ledger", table["ledger"].cast("string")), path)
    assert "has BYTE_ARRAY in the column ledger, which should be INT64" in problem(engine, tmp_path)


def test_any_other_parquet_file_is_named(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    pq.write_table(pq.read_table(path).select(["topic"]).replace_schema_metadata({}), path)
    assert "is no file of a history" in problem(engine, tmp_path)


@pytest.mark.parametrize("key", [RUNS_KEY, REPLACES_KEY, ABOUT_KEY])
@pytest.mark.parametrize("said", [b'["r', b"7", b'{"r": 7}'])
def test_a_garbled_footer_is_named_and_the_other_files_are_judged(
    engine: Engine, tmp_path: Path, key: bytes, said: bytes
) -> None:
    write(tmp_path, LOST)
    path = write(tmp_path, SOUND, lane="x")
    footer = {VERSION_KEY: str(VERSION).encode(), key: said}
    pq.write_table(pq.read_table(path).replace_schema_metadata(footer), path)
    found = verified(engine, tmp_path)
    assert (found.exit_status, found.events) == (1, len(LOST))
    assert [sentence.partition(" has a garbled footer: ")[0] for sentence in found.problems] == [f"file:{path}"]


def test_an_empty_file_is_named(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    write_file(pq.read_table(path).slice(0, 0), path)
    assert problem(engine, tmp_path).endswith(f"{path.name} is empty: there is no event in it")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kind": "fault", "invoked_ns": 5}, "an event ends before it begins: a fault with outcome ok of run r"),
        ({"kind": "teleport"}, "a kind or outcome that this suite does not know: a teleport with outcome ok of run r"),
        ({"kind": "send"}, "an event names no topic, as only faults of whole clusters may: a send with outcome ok"),
    ],
)
def test_an_invalid_event_without_a_topic_is_named(
    engine: Engine, tmp_path: Path, fields: dict[str, object], why: str
) -> None:
    write(tmp_path, SOUND)
    row = event_as_row(Kind.FAULT, topic=None, fault="kill") | fields
    write_file(pa.Table.from_pylist([row], schema=SCHEMA), tmp_path / EVERYWHERE / "x-1.parquet")
    assert why in problem(engine, tmp_path)


def test_files_whose_events_all_have_topics_are_not_read_for_faults_of_clusters(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path, [*SOUND, event(Kind.FAULT, topic=None, fault="kill")])
    files = examine(engine.storage, [str(tmp_path)])
    assert [file.bucket.endswith(EVERYWHERE) for file in files.all if not file.names_topics_only] == [True]
    (fault,) = engine.of_no_topic(files)[1].faults
    assert fault.name == "kill"
    bare = tmp_path / EVERYWHERE / "bare.parquet"  # without statistics it has to be read
    (everywhere,) = (file for file in files.all if not file.names_topics_only)
    pq.write_table(pq.read_table(everywhere.path.removeprefix("file:")), bare, write_statistics=False)
    assert [file.name for file in examine(engine.storage, [str(bare)]).all if not file.names_topics_only] == [bare.name]


def test_an_event_that_ends_before_it_begins_is_named(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path, [*SOUND, event(Kind.NACK, invoked_ns=5, completed_ns=4)])
    assert "an event ends before it begins: a nack with outcome ok in topic t of run r" in problem(engine, tmp_path)


def test_an_event_of_an_unknown_kind_is_named(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    table = pq.read_table(path)
    number = table.schema.get_field_index("kind")
    write_file(table.set_column(number, table.schema.field("kind"), [["teleport"] * len(table)]), path)
    assert "a kind or outcome that this suite does not know: a teleport with outcome ok" in problem(engine, tmp_path)


def test_a_folder_without_a_history_is_named(engine: Engine, tmp_path: Path) -> None:
    assert "there is no file of a history in" in problem(engine, tmp_path)


def test_a_missing_folder_is_a_harness_error(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="nowhere cannot be read"):
        verified(engine, tmp_path / "nowhere")


def asked_of(folder: Path, *, json: Path | None = None) -> verifying.VerifyOptions:
    """The default request of a user."""
    return verifying.VerifyOptions(
        histories=[str(folder)],
        rules=None,
        master=None,
        persisted_after_s=None,
        known=shipped(),
        release=None,
        json=json,
    )


def test_the_command_prints_and_writes_its_report_and_returns_the_status(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "history", [*SOUND, event(Kind.SEND, outcome=CallOutcome.UNKNOWN)])
    compact(tmp_path / "history")
    asked = asked_of(tmp_path / "history", json=tmp_path / "v.json")
    out = io.StringIO()
    assert verifying.verify(asked, out=Console(file=out, width=100)) == 0
    number = len(decidable())
    assert f"{number} rules: 3 held, {number - 3} not exercised." in out.getvalue()
    assert json.loads((tmp_path / "v.json").read_bytes())["operations"] == 4


RATE, FLUSH = "managedLedgerDefaultMarkDeleteRateLimit", "managedLedgerCursorPositionFlushSeconds"


@pytest.mark.parametrize(
    ("settings", "within_s"),
    [
        ([{RATE: "1.0", FLUSH: "2"}], 10),
        ([{RATE: "0.1"}], 77),
        ([{RATE: "0", FLUSH: "2"}, {RATE: "0.5", FLUSH: "2"}], 11),
        ([{RATE: "1.0", FLUSH: "2"}, {FLUSH: "2"}], 61),
        ([{RATE: "often"}], 61),
        ([], 61),
    ],
)
def test_what_a_kill_may_undo_depends_on_the_settings_of_the_run(settings: list[dict[str, str]], within_s: int) -> None:
    after_ns = persisted_after_of_runs_ns({"r": tuple(About(release="4.0.8", settings=one) for one in settings)})
    assert VerificationSetting(persisted_after_by_run_ns=after_ns).persisted_after_of("r") == within_s * 10**9
    assert VerificationSetting(persisted_after_by_run_ns=after_ns, persisted_after_ns=5).persisted_after_of("r") == 5


@pytest.mark.parametrize(("persisted_after_s", "status"), [(None, 1), (61, 2)])
def test_an_ack_that_was_persisted_according_to_the_settings_survives_a_kill(
    engine: Engine, tmp_path: Path, persisted_after_s: float | None, status: int
) -> None:
    at = {"subscription": "s", "consumer": "c", "ledger": 1, "entry": 0}
    ack = event(Kind.ACK, **at)
    kill = event(Kind.FAULT, topic=None, fault="kill", invoked_ns=30 * 10**9, completed_ns=31 * 10**9)
    again = event(Kind.DISPATCH, **at, invoked_ns=40 * 10**9, completed_ns=40 * 10**9)
    with HistoryWriter(tmp_path, "w", about=About(release="4.0.8", settings={RATE: "1", FLUSH: "2"})) as writer:
        for one in (ack, kill, again):
            writer.record(one)
    asked = dataclasses.replace(asked_of(tmp_path), persisted_after_s=persisted_after_s)
    assert verifying.verify(asked, out=Console(file=io.StringIO())) == status
    last = Follower(engine, [str(tmp_path)], verifying.setting_of(asked)).look()
    assert last.exit_status == status


def test_without_spark_the_error_names_the_command_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(verifying.NEEDED, "spark", ("pyspark", "no_such_package"))
    asked = asked_of(tmp_path)
    with pytest.raises(HarnessError, match="verify needs no_such_package: run `make setup-spark`"):
        verifying.verify(asked, out=Console(file=io.StringIO()))


def test_files_that_are_too_many_for_memory_are_split_by_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [f"t{number}" for number in range(7)]
    write(tmp_path, [replace(one, topic=topic) for one in [*SOUND, *LOST] for topic in topics])
    write(tmp_path, SOUND, lane="damaged").write_bytes(b"PAR1")
    whole = verified(LocalEngine(), tmp_path)
    assert whole.exit_status == 1
    monkeypatch.setattr(local_engine, "SORTED_AT_ONCE", 5)
    split = verified(LocalEngine(), tmp_path)
    assert dataclasses.replace(split, seconds=whole.seconds) == whole


@pytest.mark.parametrize(("runs", "parts"), [("abc", 3), ("aab", 2), ("aba", 2), ("aaa", 1)])
def test_histories_without_a_common_run_are_judged_apart(tmp_path: Path, runs: str, parts: int) -> None:
    for number, run in enumerate(runs):
        write(tmp_path / f"{number}", [replace(one, run=run) for one in SOUND])
    files = examine(LocalEngine().storage, [str(tmp_path)])
    found = parts_of(files)
    assert len(found) == parts
    assert sorted(file.path for part in found.values() for file in part.all) == [file.path for file in files.all]
    assert len({run for part in found.values() for run in part.runs}) == sum(len(part.runs) for part in found.values())


def test_files_of_two_histories_with_common_runs_in_a_third_are_judged_together(tmp_path: Path) -> None:
    for number, runs in enumerate(("a", "b", "ab", "c")):
        write(tmp_path / f"{number}", [replace(one, run=run) for run in runs for one in SOUND])
    together = " ".join(f"file:{tmp_path}/{number}" for number in range(3))
    assert set(parts_of(examine(LocalEngine().storage, [str(tmp_path)]))) == {
        together,
        f"file:{tmp_path}/3/bucket-0008",
    }


@pytest.mark.parametrize("is_compacted", [False, True])
def test_the_local_engine_without_memory_names_no_option_of_spark(
    tmp_path: Path, is_compacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    write(tmp_path, SOUND)
    if is_compacted:
        compact(tmp_path)
    monkeypatch.setattr(results, "soundness", fail)
    sentence = problem(LocalEngine(), tmp_path)
    assert sentence.startswith("memory ran out in a process at topic t of run r")
    assert "use fewer cores (taskset -c 0 pulsar-conformance …)" in sentence
    assert "--conf" not in sentence
    assert "--master" not in sentence


def test_processes_side_by_side_judge_as_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a compacted and of a loose history; a machine with one core does both alone."""
    alone = LocalEngine()
    for events, name in ((SOUND, "sound"), (LOST, "lost")):
        for topic in ("a", "b", "c"):
            write(tmp_path / name, [replace(one, run=name, topic=topic) for one in events])
    compact(tmp_path / "sound")
    found = verified(alone, tmp_path)
    monkeypatch.setattr(local_engine, "ALONE_BYTES", 0)
    beside = verified(LocalEngine(), tmp_path)
    assert beside.exit_status == found.exit_status == 1
    assert dataclasses.replace(beside, seconds=found.seconds) == found
