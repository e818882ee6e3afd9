"""Histories of format 3 on several clusters are read in the common operations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.history.document import History
from model.cluster_events import ReplicationSettings, ReplicatorStalled
from model.cluster_operations import AwaitAnswered, CatchUp
from model.events import (
    Acknowledged,
    AnyOutcome,
    Created,
    Delivery,
    Done,
    Opened,
    ReceivedMessages,
    Sent,
    Stored,
    Subscribed,
)
from model.log import Position
from model.operations import CreateTopic, Kill, OpenProducer, Restart, Send, Unload
from model.subscription_operations import AckById, CloseConsumer, Receive, Subscribe
from model.vocabulary import Entry, Message

OLD: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"op": "CreateReplicatedTopic", "topic": "t", "clusters": 2, "is_replicated": True, "deduplication": True},
        {"outcome": "GeoCreated", "clusters": ["A", "B"], "period_ms": 100, "timeout_ms": 2000, "cached": 3},
    ),
    ({"op": "JoinAt", "consumer": "k", "cluster": "A", "topic": "t", "subscription": "s"}, {"outcome": "Done"}),
    (
        {"op": "PublishAt", "cluster": "A", "topic": "t", "messages": ["a0", "a1"], "size_bytes": 50},
        {"outcome": "Published", "positions": [{"ledger": 3, "entry": 0}, {"ledger": 3, "entry": 1}]},
    ),
    (
        {"op": "ReceiveAt", "consumer": "k", "count": 9},
        {"outcome": "ReceivedAt", "messages": [{"message": "a0", "position": {"ledger": 3, "entry": 0}}]},
    ),
    (
        {"op": "AcknowledgeAt", "consumer": "k", "messages": ["a0", "a1"], "is_cumulative": True},
        {"outcome": "AcknowledgedAt", "begun_ms": 77},
    ),
    ({"op": "AwaitAnswered", "cluster": "A", "topic": "t", "by": ["B"], "behind": "a0"}, {"outcome": "Done"}),
    ({"op": "UnloadAt", "cluster": "A", "topic": "t"}, {"outcome": "Done"}),
    ({"op": "PublishAt", "cluster": "A", "topic": "t", "messages": ["a2"]}, {"outcome": "Unknown", "why": "cut"}),
    ({"op": "RestartCluster", "cluster": "B"}, {"outcome": "Done"}),
    ({"op": "KillCluster", "cluster": "B"}, {"outcome": "Done"}),
    ({"op": "LeaveAt", "consumer": "k"}, {"outcome": "Done"}),
    (
        {"op": "CatchUp", "consumer": "k", "prefix": "c"},
        {"outcome": "NotPassedOn", "source": "A", "target": "B", "seconds": 30.0, "messages": ["a1"]},
    ),
]


def upgraded(tmp_path: Path, *steps: tuple[dict[str, Any], dict[str, Any]]) -> History:
    """What is read of a file that has these steps, of which the last one breaks a rule."""
    path = tmp_path / "history.json"
    written = {
        "machine": "clusters",
        "release": "4.0.8",
        "broker": "4.0.8",
        "clients": {},
        "seed": 0,
        "settings": {},
        "violation": {"rule": "REPL-01", "because": "it is lost", "step": len(steps)},
        "format": 3,
        "steps": [
            {"operation": operation, "outcome": outcome, "invoked_ms": 10.0 * number, "completed_ms": 10.0 * number + 5}
            for number, (operation, outcome) in enumerate(steps)
        ],
    }
    path.write_text(json.dumps(written))
    return document.read(path)


def test_each_operation_and_outcome_becomes_a_common_one(tmp_path: Path) -> None:
    first, second = Position(3, 0), Position(3, 1)
    opened: tuple[OpenProducer, AnyOutcome]
    opened, again = ((OpenProducer(session, "t", "producer-A", cluster="A"), Opened(None)) for session in ("p1", "p2"))
    entries = (Entry((Message(1, "a0", size_bytes=50),)), Entry((Message(2, "a1", size_bytes=50),)))
    a0 = Delivery(first, -1, 0, "a0")
    found = upgraded(tmp_path, *OLD)
    assert [(step.operation, step.outcome) for step in found.steps[:7]] == [
        (
            CreateTopic("t", "namespace-on", clusters=2),
            Created(True, 10_000, replication=ReplicationSettings(("A", "B"), 100, 2000, 3)),
        ),
        (Subscribe("k", "t", "s", "Exclusive", cluster="A", is_replicated=True), Subscribed()),
        opened,
        (Send("p1", entries), Sent((Stored(first), Stored(second)))),
        (Receive("k", 9), ReceivedMessages((a0,))),
        (AckById("k", ("a0", "a1"), cumulative=True), Acknowledged((a0,), receipt=True, begun_ms=77)),
        (AwaitAnswered("A", "t", ("B",), after="a0"), Done()),
    ]
    assert [step.operation for step in found.steps[7:]] == [
        Unload("t", cluster="A"),
        again[0],
        Send("p2", (Entry((Message(3, "a2"),)),)),
        Restart(cluster="B"),
        Kill(cluster="B"),
        CloseConsumer("k"),
        CatchUp("k", "c"),
    ]
    assert found.steps[-1].outcome == ReplicatorStalled("A", "B", 30.0, ("a1",))


def test_the_violation_stays_at_its_step_although_there_are_more_steps(tmp_path: Path) -> None:
    found = upgraded(tmp_path, *OLD)
    assert found.violation is not None
    assert found.violation.step == len(found.steps) == len(OLD) + 2


def test_a_session_is_opened_before_its_first_message_is_sent(tmp_path: Path) -> None:
    found = upgraded(tmp_path, *OLD[:3])
    opening, sending = found.steps[-2:]
    assert opening.invoked_ms == opening.completed_ms == sending.invoked_ms


@pytest.mark.parametrize(
    "operation",
    [{"op": "PublishAt"}, {"op": "PublishAt", "cluster": ["A"], "topic": "t", "messages": ["a0"]}, {"cluster": "A"}, 7],
)
def test_an_unknown_operation_of_that_format_is_one_sentence(tmp_path: Path, operation: Any) -> None:
    with pytest.raises(HarnessError, match=r"history\.json is not a history of this suite: ") as raised:
        upgraded(tmp_path, (operation, {"outcome": "Done"}))
    assert "\n" not in str(raised.value)
