"""A machine's example as events: what they contain, what is omitted, and that its violation is found in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from conformance.history.about import About
from conformance.history.document import Step
from conformance.history.from_journal import record_journals
from conformance.history.journal import Journal
from conformance.history.recorded import CallOutcome, Kind, Recorded
from conformance.history.translation import translated
from model.events import (
    Acknowledged,
    AllReceived,
    AnyOutcome,
    Created,
    CursorRead,
    Delivery,
    Done,
    Duplicate,
    Late,
    LoggedEntry,
    LogRead,
    Opened,
    ReceivedMessages,
    RedeliveryRequested,
    Sent,
    Stored,
    Subscribed,
    Unknown,
)
from model.log import Position
from model.operations import AnyOperation, CreateTopic, OpenProducer, ReadLog, Send
from model.subscription_operations import (
    Acknowledge,
    CreateSubscription,
    DeleteSubscription,
    Nack,
    ReadCursor,
    Receive,
    ReceiveAll,
    SkipAll,
    Subscribe,
)
from model.vocabulary import Entry, Message
from tests.pipeline.histories import random_histories

Done_ = tuple[AnyOperation, AnyOutcome]


def message(number: int, *, business_id: str | None = None, key: str | None = "k") -> Entry:
    return Entry((Message(number, business_id or f"b{number}", key),))


def given(entry: int, *, batch_size: int = 0, batch_index: int = -1) -> Delivery:
    return Delivery(Position(1, entry), batch_index, batch_size, f"b{entry + 1}", 0)


def steps(*done: Done_, late: Sequence[Late] = ()) -> list[Step]:
    """One after the other, a millisecond each; what was late comes with the last one."""
    return [
        Step(
            operation=operation,
            outcome=outcome,
            invoked_ms=2.0 * number,
            completed_ms=2.0 * number + 1,
            late=tuple(late) if number == len(done) - 1 else (),
        )
        for number, (operation, outcome) in enumerate(done)
    ]


def events(*done: Done_, late: Sequence[Late] = ()) -> list[Recorded]:
    return list(translated(steps(*done, late=late), run="r", lane="w"))


def of(kind: Kind, recorded: Sequence[Recorded], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(one, name) for name in names) for one in recorded if one.kind is kind]


TOPIC: list[Done_] = [
    (CreateTopic("t0"), Created(True, 6)),
    (OpenProducer("p", "t0", "me"), Opened(-1)),
]
SUBSCRIBED: list[Done_] = [
    *TOPIC,
    (CreateSubscription("t0", "s"), Done()),
    (Send("p", (message(1), message(2))), Sent((Stored(Position(1, 0)), Stored(Position(1, 1))))),
    *((Subscribe(name, "t0", "s", "Key_Shared"), Subscribed()) for name in ("c", "d")),
]
LOGGED = LogRead((LoggedEntry(Position(1, 0), "me", message(1)), LoggedEntry(Position(1, 1), "me", message(2))))


def test_sends_have_the_outcomes_of_their_answers() -> None:
    sent = Send("p", (message(1), message(2), message(3)))
    recorded = events(*TOPIC, (sent, Sent((Stored(Position(1, 0)), Duplicate(), Unknown("cut")))))
    assert of(Kind.TOPIC, recorded, "topic", "deduplication") == [("r/t0", True)]
    assert of(Kind.SEND, recorded, "producer", "sequence_id", "outcome", "ledger", "entry") == [
        ("me", 1, CallOutcome.OK, 1, 0),
        ("me", 2, CallOutcome.DUPLICATE, None, None),
        ("me", 3, CallOutcome.UNKNOWN, None, None),
    ]


def test_late_answers_belong_to_the_send_before_them() -> None:
    unawaited = (Send("p", (message(1),), wait=False), Sent(()))
    recorded = events(*TOPIC, unawaited, (ReadLog("t0"), LogRead(())), late=[Late("p", (Stored(Position(1, 0)),))])
    assert of(Kind.SEND, recorded, "outcome", "invoked_ns", "completed_ns") == [(CallOutcome.OK, 4_000_000, 7_000_000)]
    assert of(Kind.SEND, events(*TOPIC, unawaited), "outcome") == [(CallOutcome.UNKNOWN,)]


def test_it_is_unknown_which_of_two_sends_with_one_id_was_stored() -> None:
    twice = Send("p", (message(1, business_id="a"), message(1, business_id="b"), message(2)))
    recorded = events(*TOPIC, (twice, Sent((Stored(Position(1, 0)), Duplicate(), Stored(Position(1, 1))))))
    assert [digest is None for (digest,) in of(Kind.SEND, recorded, "digest")] == [True, True, False]


def test_only_the_last_reading_of_a_log_counts_and_none_of_a_trimmed_log() -> None:
    read: Done_ = (ReadLog("t0"), LOGGED)
    assert len(of(Kind.LOG, events(*TOPIC, read, read), "entry")) == 2
    assert of(Kind.LOG_END, events(*TOPIC, read, read), "entry") == [(1,)]
    assert of(Kind.LOG, events((CreateTopic("t0", is_trimmed=True), Created(True, 6)), read), "entry") == []


def test_a_recreated_subscription_is_another_one() -> None:
    made, read = (CreateSubscription("t0", "s"), Done()), (ReadCursor("t0", "s"), CursorRead(Position(1, 0), (), 0, 0))
    recorded = events(*TOPIC, made, read, (DeleteSubscription("t0", "s"), Done()), made, read)
    first, second = of(Kind.BEGIN, recorded, "subscription")
    assert first != second
    assert of(Kind.CURSOR, recorded, "subscription") == [first, second]


def test_a_nacked_message_of_a_batch_returns_the_others_too() -> None:
    given_back = given(0, batch_size=3, batch_index=1)
    recorded = events(*SUBSCRIBED, (Nack("c", (0,)), RedeliveryRequested((given_back,))))
    assert of(Kind.NACK, recorded, "entry", "batch_index") == [(0, 0), (0, 1), (0, 2)]


SOUND: list[Done_] = [
    *SUBSCRIBED,
    (Receive("c", 1), ReceivedMessages((given(0),))),
    (Acknowledge("c", (0,)), Acknowledged((given(0),), True)),
    (Receive("d", 1), ReceivedMessages((given(1),))),
    (Acknowledge("d", (0,)), Acknowledged((given(1),), False)),
    (ReadCursor("t0", "s"), CursorRead(Position(1, 1), (), 0, 0)),
    (ReceiveAll("t0", "s"), AllReceived(())),
    (ReadLog("t0"), LOGGED),
]


def but(number: int, *instead: Done_) -> list[Done_]:
    """The sound example with something else in this place."""
    return [*SOUND[:number], *instead, *SOUND[number + 1 :]]


BROKEN = {
    "one consumer at a time": but(7),
    "missed": but(8),
    "mark delete over a hole": but(9),
    "lost": but(12, (ReadLog("t0"), LogRead((*LOGGED.entries[1:],)))),
    "stored twice": but(12, (ReadLog("t0"), LogRead((*LOGGED.entries, LoggedEntry(Position(1, 2), "me", message(2)))))),
    "mark delete back": but(11, (ReadCursor("t0", "s"), CursorRead(Position(1, 0), (), 0, 0))),
}


@pytest.mark.parametrize("invariant", BROKEN)
def test_a_violation_in_an_example_is_a_violation_in_its_events(invariant: str) -> None:
    assert random_histories.broken_in(random_histories.judged(events(*SOUND))) == set()
    assert invariant in random_histories.broken_in(random_histories.judged(events(*BROKEN[invariant])))


@pytest.mark.parametrize("delay_ms", [0, 500])
def test_a_delayed_message_has_no_place_in_the_order_of_its_key(delay_ms: int) -> None:
    first = Entry((Message(1, "b1", "k", delay_ms=delay_ms),))
    sent = (Send("p", (first, message(2))), Sent((Stored(Position(1, 0)), Stored(Position(1, 1)))))
    done = but(3, sent)
    done[6:10] = [
        (Receive("d", 1), ReceivedMessages((given(1),))),
        (Acknowledge("d", (0,)), Acknowledged((given(1),), True)),
        (Receive("c", 1), ReceivedMessages((given(0),))),
        (Acknowledge("c", (0,)), Acknowledged((given(0),), True)),
    ]
    broken = random_histories.broken_in(random_histories.judged(events(*done)))
    assert broken == (set() if delay_ms else {"keys in order"})


def test_a_skipped_message_is_no_gap() -> None:
    skipped = but(9, (SkipAll("t0", "s"), Done()))
    assert random_histories.broken_in(random_histories.judged(events(*skipped))) == set()


def test_the_journals_of_a_run_and_its_lanes_become_a_history_example_by_example(tmp_path: Path) -> None:
    for name, numbers in (("journal", (1, 2)), ("journal-lane-3", (1,))):
        journal = Journal(tmp_path / f"{name}.jsonl")
        for number in numbers:
            journal.begin(number, "machine")
            for step in steps(*SOUND):
                journal.record(step)
        journal.close()
    about = About(release="4.0.8")
    count = record_journals(tmp_path, tmp_path / "history", run="run", about=about)
    rows = [row for path in (tmp_path / "history").glob("*/*.parquet") for row in pq.read_table(path).to_pylist()]
    assert len(rows) == count == 3 * len(events(*SOUND))
    assert {row["run"] for row in rows} == {"run-1-machine", "run-2-machine", "run-lane-3-1-machine"}
    assert len({row["topic"] for row in rows}) == 3
