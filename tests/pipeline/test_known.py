"""Known deviations explain only violations whose precondition is in the history."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from conformance.history.about import About
from conformance.history.compaction import compact
from conformance.history.parquet import HistoryWriter
from conformance.history.recorded import KILL, UNLOAD, CallOutcome, Kind, Recorded
from conformance.known import shipped
from conformance.pipeline.explanations import EXPLANATIONS, known_of_runs, largest_bytes_of_runs
from conformance.pipeline.invariants.catalogue import BY_NAME
from conformance.pipeline.topic import VerificationSetting
from conformance.pipeline.verdict import NO_RELEASE, BrokenInvariant, Engine, Verification, verify
from conformance.report import verification
from model.deviations import DEVIATIONS
from tests.history.samples import event
from tests.pipeline.histories import random_histories

KNOWN = VerificationSetting(on_its_way_ns=0, known={"r": frozenset(DEVIATIONS)}, largest_bytes={"r": 10_240})

S_NS = 10**9


def at(kind: Kind, from_s: float, to_s: float | None = None, **fields: Any) -> Recorded:
    """An event at a time in seconds; a single moment without ``to_s``."""
    to_s = from_s if to_s is None else to_s
    return event(kind, invoked_ns=round(from_s * S_NS), completed_ns=round(to_s * S_NS), **fields)


def deduplicated(*logged: Recorded) -> list[Recorded]:
    return [at(Kind.TOPIC, 0, deduplication=True), *logged, at(Kind.LOG_END, 99)]


def message(sequence_id: int, entry: int, sent_s: float, *, ledger: int = 1, **fields: Any) -> list[Recorded]:
    """A message that was sent for a second, and its log entry."""
    event: dict[str, Any] = {"producer": "p", "sequence_id": sequence_id, "ledger": ledger, "entry": entry, **fields}
    return [at(Kind.SEND, sent_s, sent_s + 1, **event), at(Kind.LOG, 98, **event)]


def chunk(uuid: str, chunk_id: int, entry: int) -> Recorded:
    event: dict[str, Any] = {"producer": "p", "sequence_id": 1, "ledger": 1, "entry": entry}
    return at(Kind.LOG, 98, **event, chunk_uuid=uuid, chunk_id=chunk_id, chunks=3)


def of_shared(kind: Kind, when_s: float, consumer: str = "c", entry: int = 0, **fields: Any) -> Recorded:
    event = {"subscription": "s", "subscription_type": "Shared", "consumer": consumer}
    place = {} if kind in (Kind.SUBSCRIBE, Kind.UNSUBSCRIBE) else {"ledger": 1, "entry": entry}
    return at(kind, when_s, None, **event | place | fields)


def of_keys(kind: Kind, when_s: float, consumer: str = "c", **fields: Any) -> Recorded:
    return of_shared(kind, when_s, consumer, **{"subscription_type": "Key_Shared", **fields})


def keyed(consumer: str, entry: int, when_s: float) -> Recorded:
    return of_keys(Kind.DISPATCH, when_s, consumer, entry=entry, key="k")


WAITING = [
    *message(1, 0, 1),
    *message(2, 1, 1),
    of_keys(Kind.BEGIN, 0, ledger=-1, entry=-1),
    of_keys(Kind.SUBSCRIBE, 1),
    keyed("c", 0, 3),
    of_keys(Kind.ACK, 4.5, entry=0),
    of_keys(Kind.CURSOR, 200, entry=0),
]
"""A subscription with an undelivered message and no pending ack, which is not delivered for a long time."""


A_BATCH = [at(Kind.LOG, 98, producer="p", sequence_id=n + 1, ledger=1, entry=0, batch_index=n) for n in range(3)]
SENT_AGAIN = of_shared(Kind.DISPATCH, 20, batch_index=1)
UNLOADED = at(Kind.FAULT, 6, 7, fault=UNLOAD)
CHUNKED_SEND = at(Kind.SEND, 1, 9, producer="p", sequence_id=1, outcome=CallOutcome.UNKNOWN)


def logged(cluster: str, sequence_id: int, entry: int, **fields: Any) -> Recorded:
    message: dict[str, Any] = {"producer": "p", "sequence_id": sequence_id, "ledger": 1, "entry": entry, **fields}
    return at(Kind.LOG, 98, cluster=cluster, replicated_from=None if cluster == "a" else "a", **message)


BESIDE_IT = logged("a", 2, 0, batch_index=1, size_bytes=180)
PASSED_OVER = [
    *(at(Kind.TOPIC, 0, deduplication=False, replicated=True, cluster=name) for name in "ab"),
    logged("a", 1, 0, batch_index=0, size_bytes=9_900),
    BESIDE_IT,
    logged("b", 2, 0, batch_index=1, size_bytes=180),
    logged("a", 3, 1, size_bytes=9),
    logged("b", 3, 1, size_bytes=9),
    at(Kind.PASSED_ON, 90, cluster="a", ledger=1, entry=1),
    *(at(Kind.LOG_END, 99, cluster=name, ledger=1, entry=1) for name in "ab"),
]
"""A message close to the size limit with another one of its batch; the other log lacks it."""

LOADED_AT_B = at(Kind.FAULT, 6, 7, fault=UNLOAD, cluster="b")

EXPLAINED: dict[str, tuple[str, list[Recorded], Recorded]] = {
    "snapshot-position-ahead": (
        "stored twice",
        deduplicated(*message(1, 0, 1), *message(1, 0, 8, ledger=2), UNLOADED),
        UNLOADED,
    ),
    "second-recovery-not-awaited": (
        "stored twice",
        deduplicated(*message(1, 0, 1), *message(2, 1, 1), *message(1, 0, 8, ledger=2), UNLOADED),
        UNLOADED,
    ),
    "recovery-ignores-replicator-positions": (
        "replicated twice",
        [
            *(at(Kind.TOPIC, 0, deduplication=True, replicated=True, cluster=name) for name in "ab"),
            *message(1, 0, 1, cluster="a"),
            *(message(1, entry, 1, cluster="b", replicated_from="a")[1] for entry in (0, 1)),
            LOADED_AT_B,
        ],
        LOADED_AT_B,
    ),
    "too-large-to-replicate": ("not replicated", PASSED_OVER, BESIDE_IT),
    "batch-without-highest-id": (
        "stored twice",
        deduplicated(*message(1, 0, 1, batch_index=0), *message(2, 0, 1, batch_index=1), *message(2, 1, 8)),
        message(1, 0, 1, batch_index=0)[1],
    ),
    "chunk-recovery-counts-unfinished": (
        "stored once in order",
        deduplicated(CHUNKED_SEND, chunk("u", 0, 0), chunk("u", 1, 1), chunk("v", 0, 2), chunk("v", 1, 3), UNLOADED),
        UNLOADED,
    ),
    "chunk-only-last-deduplicated": (
        "stored once in order",
        deduplicated(
            CHUNKED_SEND,
            *(chunk("u", chunk_id, entry) for entry, chunk_id in enumerate((0, 1, 0, 1, 2))),
            at(Kind.FAULT, 3, fault="cut"),
        ),
        at(Kind.FAULT, 3, fault="cut"),
    ),
    "chunk-each-deduplicated": (
        "stored whole",
        deduplicated(at(Kind.SEND, 1, 9, producer="p", sequence_id=1, chunks=3), chunk("u", 0, 0)),
        chunk("u", 0, 0),
    ),
    "unload-while-cursor-ledger-opens": (
        "delivered again",
        [of_shared(Kind.ACK, 4), UNLOADED, of_shared(Kind.DISPATCH, 20)],
        UNLOADED,
    ),
    "batch-index-acks-not-recovered": (
        "delivered again",
        [*A_BATCH, of_shared(Kind.ACK, 0.5, entry=7), of_shared(Kind.ACK, 4, batch_index=1), UNLOADED, SENT_AGAIN],
        UNLOADED,
    ),
    "batch-index-acks-overwritten": (
        "delivered again",
        [
            of_shared(Kind.ACK, 4, batch_index=1),
            of_shared(Kind.ACK_CUMULATIVE, 8, batch_index=0),
            SENT_AGAIN,
        ],
        of_shared(Kind.ACK_CUMULATIVE, 8, batch_index=0),
    ),
    "replay-read-outlives-consumers": (
        "delivered again",
        [
            of_shared(Kind.SUBSCRIBE, 1),
            of_shared(Kind.DISPATCH, 2),
            of_shared(Kind.UNSUBSCRIBE, 3),
            of_shared(Kind.SUBSCRIBE, 4, "d"),
            of_shared(Kind.DISPATCH, 5, "d"),
            of_shared(Kind.ACK, 6, "d"),
            of_shared(Kind.DISPATCH, 7, "d"),
        ],
        of_shared(Kind.DISPATCH, 2),
    ),
    "send-in-progress-cleared-early": (
        "shared one at a time",
        [
            of_shared(Kind.DISPATCH, 2),
            of_shared(Kind.NACK, 3),
            of_shared(Kind.DISPATCH, 4, "d", entry=1),
            of_shared(Kind.DISPATCH, 5, "d"),
            of_shared(Kind.DISPATCH, 6),
        ],
        of_shared(Kind.DISPATCH, 4, "d", entry=1),
    ),
    "recently-joined-receives-replay": (
        "one consumer at a time",
        [
            *message(1, 0, 1),
            *message(2, 1, 1),
            of_shared(Kind.SUBSCRIBE, 0),
            keyed("c", 0, 3),
            of_shared(Kind.SUBSCRIBE, 5, "d"),
            keyed("d", 1, 6),
        ],
        of_shared(Kind.SUBSCRIBE, 5, "d"),
    ),
    "pending-read-outlives-consumers": (
        "keys in order",
        [
            of_keys(Kind.BEGIN, 0, ledger=-1, entry=-1),
            of_keys(Kind.SUBSCRIBE, 1),
            of_keys(Kind.UNSUBSCRIBE, 2),
            of_keys(Kind.SUBSCRIBE, 3, "d"),
            keyed("d", 1, 4),
            keyed("d", 0, 5),
        ],
        of_keys(Kind.UNSUBSCRIBE, 2),
    ),
    "leave-triggers-no-read": (
        "keys stuck",
        [*WAITING, of_keys(Kind.SUBSCRIBE, 1, "d"), of_keys(Kind.UNSUBSCRIBE, 5, "d")],
        of_keys(Kind.UNSUBSCRIBE, 5, "d"),
    ),
    "replay-hash-kept-after-ack": (
        "keys stuck",
        [*WAITING, of_keys(Kind.NACK, 4, entry=0), of_keys(Kind.ACK, 5, entry=0)],
        of_keys(Kind.NACK, 4, entry=0),
    ),
}
"""For each deviation: the invariant, a history with the deviation, and the event without which it explains nothing."""


def explained(name: str, history: list[Recorded], setting: VerificationSetting = KNOWN) -> dict[str, int]:
    """How many of the broken cases of this invariant each deviation explains; the others are under ''."""
    result = random_histories.results(history, setting=setting)[name]
    explained_times = {one["deviation"]: one["times"] for one in result["explained"]}
    rest = result["broken"] - sum(explained_times.values())
    return explained_times | ({"": rest} if rest else {})


def test_each_explanation_has_a_history_and_names_what_it_may_break() -> None:
    assert {explanation.deviation for explanation in EXPLANATIONS} == set(EXPLAINED) <= set(DEVIATIONS)
    assert all(set(explanation.invariants) <= set(BY_NAME) for explanation in EXPLANATIONS)


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_known_deviation_explains_its_violation(name: str) -> None:
    invariant, history, _ = EXPLAINED[name]
    assert explained(invariant, history) == {name: 1}


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_deviation_explains_nothing_without_its_precondition(name: str) -> None:
    invariant, history, precedes = EXPLAINED[name]
    without = [one for one in history if one != precedes]
    assert len(without) == len(history) - 1
    assert explained(invariant, without) == {"": 1}


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_deviation_explains_nothing_in_a_run_for_which_it_is_unknown(name: str) -> None:
    invariant, history, _ = EXPLAINED[name]
    known = KNOWN.known["r"] - {name}
    assert name not in explained(invariant, history, VerificationSetting(on_its_way_ns=0, known={"r": known}))
    assert explained(invariant, history, VerificationSetting(on_its_way_ns=0, known={"q": KNOWN.known["r"]})) == {"": 1}


@pytest.mark.parametrize(
    "changed",
    [
        {"invoked_ns": 0, "completed_ns": 0},
        {"invoked_ns": 100 * S_NS, "completed_ns": 100 * S_NS},
        {"fault": "pause"},
        {"topic": "t2"},
    ],
)
def test_an_unload_at_another_time_or_place_or_of_another_kind_explains_nothing(changed: dict[str, Any]) -> None:
    for name in ("second-recovery-not-awaited", "unload-while-cursor-ledger-opens", "batch-index-acks-not-recovered"):
        invariant, history, unload = EXPLAINED[name]
        changed_history = [replace(one, **changed) if one == unload else one for one in history]
        assert explained(invariant, changed_history) == {"": 1}


def test_a_topic_reloaded_earlier_or_in_another_cluster_forgot_nothing() -> None:
    invariant, history, unload = EXPLAINED["recovery-ignores-replicator-positions"]
    for changed in ({"cluster": "a"}, {"invoked_ns": 0, "completed_ns": 0}):
        changed_history = [replace(one, **changed) if one == unload else one for one in history]
        assert explained(invariant, changed_history) == {"": 1}


@pytest.mark.parametrize("size_bytes", [9_804, 10_061])
def test_only_a_message_close_to_the_size_limit_is_too_large_to_replicate(
    size_bytes: int,
) -> None:
    invariant, history, _ = EXPLAINED["too-large-to-replicate"]
    changed = [replace(one, size_bytes=size_bytes) if one.size_bytes == 9_900 else one for one in history]
    assert explained(invariant, changed) == {"": 1}
    assert explained(invariant, history, VerificationSetting(on_its_way_ns=0, known=KNOWN.known)) == {"": 1}


def test_a_missing_large_message_explains_being_ahead_and_hides_nothing_else() -> None:
    begun = at(Kind.BEGIN, 0, cluster="a", subscription="s", replicated=True, ledger=-1, entry=-1)
    reading = at(Kind.CURSOR, 50, cluster="a", subscription="s", ledger=1, entry=1)
    acked = [
        at(Kind.ACK, 40, cluster="b", subscription="s", ledger=1, entry=entry, batch_index=index)
        for entry, index in ((0, 1), (1, -1))
    ]
    assert explained("ahead", [*PASSED_OVER, begun, reading, *acked]) == {"too-large-to-replicate": 1}
    assert explained("ahead", [*PASSED_OVER, begun, reading, *acked[:1]]) == {"": 1}
    assert explained("ahead", [*PASSED_OVER, logged("b", 1, 2, batch_index=0), begun, reading, *acked]) == {"": 1}


def test_the_maximum_message_size_comes_from_the_settings_of_a_run() -> None:
    about = {
        "recorded": (About(release="4.0.8", settings={"maxMessageSize": "10240"}),),
        "shipped": (About(release="4.0.8"),),
        "both": (About(release="4.0.8"), About(release="4.0.8", settings={"maxMessageSize": "10240"})),
        "spoilt": (About(release="4.0.8", settings={"maxMessageSize": "much"}),),
        "without_release": (),
    }
    assert largest_bytes_of_runs(about) == {"recorded": 10_240, "shipped": 5_242_880, "both": 10_240}


def test_a_cursor_that_was_in_use_for_long_had_its_ledger_open() -> None:
    invariant, history, _ = EXPLAINED["unload-while-cursor-ledger-opens"]
    assert explained(invariant, [*history, of_shared(Kind.ACK, 0.5, entry=7)]) == {"": 1}
    unloaded_before = at(Kind.FAULT, 2, 3, fault=KILL)
    setting = VerificationSetting(persisted_after_ns=0, on_its_way_ns=0, known=KNOWN.known)
    assert explained(invariant, [*history, of_shared(Kind.ACK, 0.5, entry=7), unloaded_before], setting) == {
        "unload-while-cursor-ledger-opens": 1
    }


def test_a_completely_acknowledged_batch_is_not_forgotten() -> None:
    invariant, history, _ = EXPLAINED["batch-index-acks-not-recovered"]
    rest = [of_shared(Kind.ACK, 4, batch_index=index) for index in (0, 2)]
    assert explained(invariant, [*history, *rest]) == {"": 1}
    assert explained(invariant, [*history, *rest[:1]]) == {"batch-index-acks-not-recovered": 1}


def test_a_chunked_message_resent_by_its_source_is_stored_again_without_its_last_chunk() -> None:
    """In a soak on 4.0.8 an undisturbed source resent a confirmed message."""
    invariant, history, cut = EXPLAINED["chunk-only-last-deduplicated"]
    again = replace(CHUNKED_SEND, outcome=CallOutcome.DUPLICATE)
    undisturbed = [again if one == cut else one for one in history]
    assert explained(invariant, undisturbed) == {"chunk-only-last-deduplicated": 1}
    assert explained(invariant, [*undisturbed, chunk("u", 2, 5)])[""]


def test_messages_in_flight_to_a_consumer_that_left_are_replayed_with_a_new_message() -> None:
    invariant, history, new_message = EXPLAINED["send-in-progress-cleared-early"]
    sent = at(Kind.SEND, 1, ledger=1, entry=0, producer="p", sequence_id=1)
    untaken = [one for one in history if one.completed_ns > 3 * S_NS]
    assert explained(invariant, [sent, of_shared(Kind.UNSUBSCRIBE, 3, "e"), *untaken]) == {
        "send-in-progress-cleared-early": 1
    }
    assert explained(invariant, [sent, of_shared(Kind.UNSUBSCRIBE, 0, "e"), *untaken]) == {"": 1}
    without = [one for one in untaken if one != new_message]
    assert explained(invariant, [sent, of_shared(Kind.UNSUBSCRIBE, 3, "e"), *without]) == {"": 1}


def test_markers_of_clusters_count_as_new_messages_although_no_consumer_receives_them() -> None:
    invariant, history, new_message = EXPLAINED["send-in-progress-cleared-early"]
    without = [at(Kind.TOPIC, 0, replicated=True), *(one for one in history if one != new_message)]
    logs = [at(Kind.LOG, 98, producer="p", sequence_id=entry, ledger=1, entry=entry) for entry in range(4)]
    assert explained(invariant, [*without, *logs]) == {"": 1}
    assert explained(invariant, [*without, logs[0], logs[3]]) == {"send-in-progress-cleared-early": 1}
    assert explained(invariant, [*without[1:], logs[0], logs[3]]) == {"": 1}
    assert explained(invariant, [*without, *logs[:2], logs[3]]) == {"": 1}  # what stands before them was not sent yet
    earlier = of_shared(Kind.DISPATCH, 1, "d", entry=3)
    assert explained(invariant, [*without, earlier, logs[0], logs[3]]) == {"": 1}  # what stands behind them was


def test_a_message_replayed_with_a_new_message_is_delivered_at_most_twice() -> None:
    invariant, history, _ = EXPLAINED["send-in-progress-cleared-early"]
    third = of_shared(Kind.DISPATCH, 7, "d")
    assert explained(invariant, [*history, third]) == {"": 2}


def test_a_message_sent_long_after_a_recovery_is_no_race() -> None:
    invariant, history, _ = EXPLAINED["second-recovery-not-awaited"]
    late = message(1, 3, 90, ledger=3)
    assert explained(invariant, [*history, *late]) == {"second-recovery-not-awaited": 1, "": 1}


def test_a_snapshot_position_ahead_is_forgotten_once_a_higher_id_is_sent() -> None:
    invariant, history, _ = EXPLAINED["snapshot-position-ahead"]
    higher = message(2, 0, 4, ledger=2)
    late = [*history[:3], *higher, *message(1, 1, 90, ledger=2), *history[5:]]
    assert explained(invariant, late) == {"": 1}


def test_a_message_whose_last_chunk_is_stored_twice_has_no_explanation() -> None:
    invariant, history, _ = EXPLAINED["chunk-only-last-deduplicated"]
    assert explained(invariant, [*history, chunk("u", 2, 9)]) == {"": 2}


def test_the_known_deviations_of_a_run_follow_from_its_release_and_clients() -> None:
    server, client = "second-recovery-not-awaited", "batch-without-highest-id"
    about = {
        "bare": (About(release="4.0.8"),),
        "whole": (About(release="4.0.8", clients={"official": "3.13.0"}),),
        "later": (About(release="5.0.0"),),
        "both": (About(release="4.0.8"), About(release="5.0.0")),
        "without_release": (),
    }
    known = known_of_runs(shipped(), about)
    assert {run for run, names in known.items() if server in names} == {"bare", "whole"}
    assert {run for run, names in known.items() if client in names} == {"whole"}
    classic = {"subscriptionKeySharedUseClassicPersistentImplementation": "true"}
    switched = known_of_runs(shipped(), {"r": (About(release="4.0.8", settings=classic),)})
    assert "recently-joined-receives-replay" in switched["r"] - known["whole"]


def verified(engine: Engine, folder: Path, release: str | None = None) -> Verification:
    return verify(engine, [str(folder)], VerificationSetting(), known=shipped(), release=release)


def write(folder: Path, history: list[Recorded], about: About | None) -> None:
    for number in range(2):
        with HistoryWriter(folder, f"w{number}", about=about) as writer:
            for one in history[number::2]:
                writer.record(one)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_verify_reports_known_deviations_separately_and_does_not_fail(
    engine: Engine, tmp_path: Path, is_compacted: bool
) -> None:
    write(tmp_path, EXPLAINED["second-recovery-not-awaited"][1], About(release="4.0.8"))
    if is_compacted:
        compact(tmp_path)
    found = verified(engine, tmp_path)
    broken, forgotten = (verdict for verdict in found.rules if isinstance(verdict, BrokenInvariant))
    assert (found.exit_status, broken.rule.id, broken.is_known) == (0, "DEDUP-02", True)
    assert (forgotten.rule.id, forgotten.explained) == ("DEDUP-12", {"second-recovery-not-awaited": 1})
    assert (broken.times, broken.explained, found.notes) == (0, {"second-recovery-not-awaited": 1}, ())
    rules = verification.form(found, command="pulsar-conformance verify", when=datetime(2026, 1, 2, tzinfo=UTC)).rules
    (said,) = (rule for rule in rules if rule.id == "DEDUP-02")
    assert (said.verdict, said.deviation) == ("known-deviation", "second-recovery-not-awaited")
    out = io.StringIO()
    verification.show(found, Console(file=out, width=120))
    assert "known deviation" in out.getvalue()
    assert "second-recovery-not-awaited: once" in out.getvalue()


def test_a_history_without_its_release_needs_the_release_option(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path, EXPLAINED["second-recovery-not-awaited"][1], None)
    without_release = verified(engine, tmp_path)
    assert without_release.exit_status == 1
    assert NO_RELEASE in without_release.notes[0]
    assert verified(engine, tmp_path, release="4.0.8").exit_status == 0
    assert verified(engine, tmp_path, release="5.0.0").exit_status == 1


def test_one_unexplained_case_fails_the_run(engine: Engine, tmp_path: Path) -> None:
    history = EXPLAINED["second-recovery-not-awaited"][1]
    write(tmp_path, [*history, *message(1, 3, 90, ledger=3)], About(release="4.0.8"))
    found = verified(engine, tmp_path)
    (broken,) = (
        verdict for verdict in found.rules if isinstance(verdict, BrokenInvariant) and verdict.rule.id == "DEDUP-02"
    )
    assert (found.exit_status, broken.times, broken.explained) == (1, 1, {"second-recovery-not-awaited": 1})
    assert [case.deviation for case in broken.cases] == [None, "second-recovery-not-awaited"]
